package code

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/runes"
)

// Language is what the repository has in a language.
type Language struct {
	Name    string `json:"name"`
	Files   int    `json:"files"`
	Code    int    `json:"code"`
	Comment int    `json:"comment"`
	Blank   int    `json:"blank"`
}

// A blob is a file of the commit that is checked out.
type blob struct {
	path, id string
	size     int64
	script   bool // its first line may tell its language
}

// tree reads the files of the commit that is checked out.
func (r *reader) tree(ctx context.Context, repo *gitrepo.Repo, dir string, o *Options) error {
	var all []blob
	others := 0 // links and other repositories, which do not count as files and are not gone
	list := func(about []string, name string) {
		if len(about) == 4 && about[1] == "blob" && about[0] != "120000" {
			size, _ := strconv.ParseInt(about[3], 10, 64)
			all = append(all, blob{name, about[2], size, about[0] == "100755" && path.Ext(name) == ""})
		} else if r.heads[name] != nil {
			others++
		}
	}
	if err := repo.Tree(ctx, list, "-l"); err != nil {
		return err
	}
	var ask bytes.Buffer
	var read []blob
	for _, b := range all {
		f := r.head(b.path)
		f.here, f.Path = true, b.path
		r.Files = append(r.Files, f)
		f.Vendored = ignore.Vendored(b.path)
		f.Generated = isGenerated(b.path, nil)
		switch {
		case f.Language == "" && !b.script:
		case len(read) == o.MaxFiles:
			if len(r.Unread) < maxUnread {
				r.Unread = append(r.Unread, fmt.Sprintf("%s: only %d files are read", b.path, o.MaxFiles))
			}
		case b.size > o.MaxSize:
			if len(r.Unread) < maxUnread {
				r.Unread = append(r.Unread, fmt.Sprintf("%s: has %d bytes", b.path, b.size))
			}
		default:
			ask.WriteString(b.id + "\n")
			read = append(read, b)
		}
	}
	slices.SortFunc(r.Files, func(a, b *File) int { return cmp.Compare(a.Path, b.Path) })
	r.Gone = len(r.files) - len(r.Files) - others
	if len(read) == 0 {
		return ctx.Err()
	}
	err := repo.Run(ctx, &ask, func(in io.Reader) error { return r.contents(in, read) }, "cat-file", "--batch")
	sums := map[string]*Language{}
	for _, f := range r.Files {
		if f.Code+f.Comment+f.Blank == 0 {
			continue
		}
		if sums[f.Language] == nil {
			sums[f.Language] = &Language{Name: f.Language}
		}
		l := sums[f.Language]
		l.Files, l.Code, l.Comment, l.Blank = l.Files+1, l.Code+f.Code, l.Comment+f.Comment, l.Blank+f.Blank
	}
	for _, l := range sums {
		r.Languages = append(r.Languages, *l)
	}
	slices.SortFunc(r.Languages, func(a, b Language) int { return cmp.Or(b.Code-a.Code, cmp.Compare(a.Name, b.Name)) })
	return err
}

const maxUnread = 100

// contents reads the output of git cat-file --batch.
func (r *reader) contents(in io.Reader, read []blob) error {
	b := bufio.NewReaderSize(in, 256<<10)
	var data []byte
	for _, x := range read {
		head, err := b.ReadString('\n')
		if err != nil {
			return fmt.Errorf("output of git cat-file: %w", err)
		}
		words := strings.Fields(head)
		if len(words) == 2 && words[1] == "missing" {
			if len(r.Unread) < maxUnread {
				r.Unread = append(r.Unread, x.path+": the repository does not have it")
			}
			continue
		}
		size := x.size
		if len(words) != 3 || words[2] != strconv.FormatInt(size, 10) {
			return fmt.Errorf("output of git cat-file: unexpected %q", head)
		}
		data = slices.Grow(data[:0], int(size)+1)[:size+1]
		if _, err := io.ReadFull(b, data); err != nil {
			return fmt.Errorf("output of git cat-file: %w", err)
		}
		r.measure(r.head(x.path), data[:size])
	}
	return nil
}

// measure counts the lines of a file, and how complex it is.
func (r *reader) measure(f *File, data []byte) {
	if runes.Binary(data) {
		return
	}
	if f.Language == "" {
		f.Language = ofScript(data)
	}
	f.Code, f.Comment, f.Blank = r.languages.count(f.Language, data)
	f.Generated = f.Generated || isGenerated(f.Path, data)
	if !f.Generated && !f.Vendored {
		f.Complexity = fileComplexity(f.Path, data)
	}
}
