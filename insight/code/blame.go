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

	"github.com/aycoder/aycoder/internal/gitrepo"
)

// Owner is somebody with lines that live in a file.
type Owner struct {
	Name  string `json:"name"`
	Email string `json:"email"`
	Lines int    `json:"lines"`
}

// Owners returns who has written the lines of a file at the commit that is checked out, by git blame, those with the most lines
// first. name is a path in the repository.
func Owners(ctx context.Context, dir, name string) ([]Owner, error) {
	clean := path.Clean(strings.ReplaceAll(name, `\`, "/"))
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return nil, fmt.Errorf("owners of %s: it is not in the repository", name)
	}
	people := map[string]Owner{} // of commits
	lines := map[Owner]int{}
	read := func(in io.Reader) error {
		r, id, who := bufio.NewReaderSize(in, 64<<10), "", Owner{}
		for {
			line, err := r.ReadSlice('\n')
			long := errors.Is(err, bufio.ErrBufferFull)
			if len(line) > 0 {
				switch key, value, _ := strings.Cut(strings.TrimSuffix(string(line[:min(len(line), 1000)]), "\n"), " "); {
				case line[0] == '\t':
					if known, ok := people[id]; ok {
						who = known
					}
					people[id] = who
					lines[who]++
					who = Owner{}
				case key == "author":
					who.Name = value
				case key == "author-mail":
					who.Email = strings.Trim(value, "<>")
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
		return nil, fmt.Errorf("owners of %s: %w", name, err)
	}
	if err := repo.Run(ctx, nil, read, append(figures(), "blame", "--porcelain", "--no-textconv", "HEAD", "--", clean)...); err != nil {
		return nil, fmt.Errorf("owners of %s: %w", name, cmp.Or(context.Cause(ctx), err))
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
