package gitrepo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Figure is what a commit has changed in a file.
type Figure struct {
	Added, Deleted int
	Binary         bool // it has no lines
	// Name is the path in the repository, and Was that before, if the file was renamed.
	Name, Was string
}

// Settings returns arguments of git for the settings that would change figures, or read a file of any name.
func Settings() (args []string) {
	for _, s := range []string{"log.showRoot=true", "i18n.logOutputEncoding=UTF-8", "diff.relative=false", "core.bigFileThreshold=512m", "diff.renameLimit=1000", "mailmap.file="} {
		args = append(args, "-c", s)
	}
	return args
}

// Log reads commits, without the changes of merges, as git log lists them. For each, commit gets the values of formats of
// git such as "%s", until the next one, and then change what was changed in each file. args choose the commits.
func (r *Repo) Log(ctx context.Context, formats []string, commit func(values []string), change func(Figure), args ...string) error {
	all := slices.Concat(Settings(), []string{"log", "-z", "--numstat", "-M", "-O/dev/null", "--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature",
		"--no-diff-merges", "--format=%x01" + strings.Join(formats, "%x00")}, args)
	return r.Run(ctx, nil, func(in io.Reader) error {
		l := log{in: bufio.NewReaderSize(in, 256<<10)}
		var values []string
		for {
			b, err := l.token()
			if errors.Is(err, io.EOF) {
				return nil
			}
			b = bytes.TrimPrefix(b, []byte("\n"))
			switch {
			case err != nil:
			case len(b) == 0:
				continue
			case b[0] == 1:
				values = append(values[:0], string(b[1:]))
				for len(values) < len(formats) && err == nil {
					b, err = l.token()
					values = append(values, string(b))
				}
				if err == nil {
					commit(values)
				}
			case values == nil:
				err = unexpected(b)
			default:
				var f Figure
				if f, err = l.figure(b); err == nil {
					change(f)
				}
			}
			if err != nil {
				return err
			}
		}
	}, all...)
}

// log reads the output of git log with NULs.
type log struct {
	in   *bufio.Reader
	long []byte
}

// token returns what is before the next NUL.
func (l *log) token() ([]byte, error) {
	b, err := l.in.ReadSlice(0)
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long[:0], b...)
		for errors.Is(err, bufio.ErrBufferFull) {
			b, err = l.in.ReadSlice(0)
			l.long = append(l.long, b...)
		}
		b = l.long
	}
	if err != nil {
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(b)) == 0 {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("output of git log: %w", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return b[:len(b)-1], nil
}

// figure reads the rest of a line of --numstat: added, deleted, and the path, or the old and the new one.
func (l *log) figure(b []byte) (f Figure, err error) {
	added, rest, ok1 := bytes.Cut(b, []byte("\t"))
	deleted, name, ok2 := bytes.Cut(rest, []byte("\t"))
	if !ok1 || !ok2 {
		return f, unexpected(b)
	}
	var err1, err2 error
	f.Added, err1 = strconv.Atoi(string(added))
	f.Deleted, err2 = strconv.Atoi(string(deleted))
	if err1 != nil || err2 != nil { // git writes hyphens
		f = Figure{Binary: true}
	}
	if f.Name = string(name); f.Name != "" {
		return f, nil
	}
	was, err := l.token()
	if err != nil {
		return f, err
	}
	f.Was = string(was)
	now, err := l.token()
	f.Name = string(now)
	return f, err
}

func unexpected(b []byte) error {
	return fmt.Errorf("output of git log: unexpected %q", b[:min(len(b), 100)])
}
