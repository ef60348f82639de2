package code

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/gitrepo"
)

// Owner is somebody with lines that live in a file.
type Owner struct {
	Name  string `json:"name"`
	Email string `json:"email"`
	Lines int    `json:"lines"`
}

// Line is a line of a file at the commit that is checked out.
type Line struct {
	Name  string    `json:"name"`
	Email string    `json:"email"`
	Time  time.Time `json:"time"` // of the commit that has written it, by its author
	Text  string    `json:"text"` // at most 1,000 bytes
}

// Owners returns who has written the lines of a file at the commit that is checked out, by git blame, those with the most lines
// first. name is a path below the directory.
func Owners(ctx context.Context, dir, name string) ([]Owner, error) {
	lines := map[Owner]int{}
	err := blame(ctx, dir, name, func(l Line) { lines[Owner{l.Name, l.Email, 0}]++ })
	if err != nil {
		return nil, fmt.Errorf("owners of %s: %w", name, err)
	}
	var out []Owner
	for o, n := range lines {
		o.Lines = n
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Owner) int {
		return cmp.Or(b.Lines-a.Lines, cmp.Compare(a.Name, b.Name), cmp.Compare(a.Email, b.Email))
	})
	return out, nil
}

// Blame returns the lines of a file at the commit that is checked out, with who has written them and when.
func Blame(ctx context.Context, dir, name string) ([]Line, error) {
	var out []Line
	if err := blame(ctx, dir, name, func(l Line) { out = append(out, l) }); err != nil {
		return nil, fmt.Errorf("blame %s: %w", name, err)
	}
	return out, nil
}

// blame calls a function for each line of a file.
func blame(ctx context.Context, dir, name string, each func(Line)) error {
	const longest = 1000 // bytes of a line
	clean := path.Clean(strings.ReplaceAll(name, `\`, "/"))
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return errors.New("it is not below the directory")
	}
	commits := map[string]Line{}
	read := func(in io.Reader) error {
		r, id, now := bufio.NewReaderSize(in, 64<<10), "", Line{}
		for {
			line, err := r.ReadSlice('\n')
			long := errors.Is(err, bufio.ErrBufferFull)
			if len(line) > 0 {
				switch key, value, _ := strings.Cut(strings.TrimSuffix(string(line[:min(len(line), longest)]), "\n"), " "); {
				case line[0] == '\t':
					if known, ok := commits[id]; ok {
						now = known
					}
					commits[id] = now
					now.Text = strings.TrimSuffix(string(line[1:min(len(line), longest)]), "\n")
					each(now)
					now = Line{}
				case key == "author":
					now.Name = value
				case key == "author-mail":
					now.Email = strings.Trim(value, "<>")
				case key == "author-time":
					if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 && n <= lastSecond {
						now.Time = time.Unix(n, 0).UTC()
					}
				case isCommit(key, value):
					id = key
				}
			}
			for long { // the rest of a line
				_, err = r.ReadSlice('\n')
				long = errors.Is(err, bufio.ErrBufferFull)
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	repo := &gitrepo.Repo{Dir: dir}
	if err := waits(ctx, repo); err != nil {
		return err
	}
	if err := repo.Run(ctx, nil, read, append(gitrepo.Settings(), "blame", "--porcelain", "--no-textconv", "HEAD", "--", clean)...); err != nil {
		return cmp.Or(context.Cause(ctx), why(ctx, repo, err))
	}
	return nil
}

// isCommit reports whether words of git blame begin the lines of a commit: its name and numbers of lines.
func isCommit(key, value string) bool {
	if len(key) != 40 && len(key) != 64 || strings.Trim(key, "0123456789abcdef") != "" {
		return false
	}
	for n := range strings.FieldsSeq(value) {
		if _, err := strconv.Atoi(n); err != nil {
			return false
		}
	}
	return true
}
