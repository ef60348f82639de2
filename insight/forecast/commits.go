package forecast

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/gitrepo"
)

// Commit is a change that a repository has seen.
type Commit struct {
	Subject string
	Time    time.Time
	// Files are the paths that it has changed, by the names of then, at most 1,000.
	Files []string
	// Lines is how many lines it has added and deleted.
	Lines int
}

const (
	maxCommits = 20_000
	maxFiles   = 1000 // of a commit
)

// Commits returns the newest 20,000 commits without merges, the oldest first. The error is that of git or of ctx.
func Commits(ctx context.Context, dir string) ([]Commit, error) {
	var all []Commit
	read := func(in io.Reader) error {
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			b, err := r.ReadString(0)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			b = strings.Trim(b, "\n\x00")
			if head, ok := strings.CutPrefix(b, "\x01"); ok {
				at, subject, _ := strings.Cut(head, "\x02")
				n, _ := strconv.ParseInt(at, 10, 64)
				all = append(all, Commit{Subject: subject, Time: time.Unix(max(0, min(n, 1<<37)), 0).UTC()})
				continue
			}
			words := strings.SplitN(b, "\t", 3)
			if len(words) != 3 || len(all) == 0 {
				continue
			}
			c := &all[len(all)-1]
			added, _ := strconv.Atoi(words[0])
			deleted, _ := strconv.Atoi(words[1])
			if c.Lines += added + deleted; len(c.Files) < maxFiles {
				c.Files = append(c.Files, words[2])
			}
		}
	}
	repo := &gitrepo.Repo{Dir: dir}
	err := repo.Run(ctx, nil, read, "-c", "i18n.logOutputEncoding=UTF-8", "-c", "log.showRoot=true", "-c", "diff.relative=false", "log", "-z", "--no-merges",
		"--numstat", "--no-renames", "-O/dev/null", "--no-ext-diff", "--no-textconv", "--no-color", "--no-show-signature", "--no-diff-merges",
		"--max-count="+strconv.Itoa(maxCommits), "--format=%x01%at%x02%s", "HEAD", "--")
	if err != nil {
		return nil, fmt.Errorf("read commits of %s: %w", dir, cmp.Or(context.Cause(ctx), err))
	}
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all, nil
}
