package forecast

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
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
	commit := func(f []string) {
		n, _ := strconv.ParseInt(f[0], 10, 64)
		all = append(all, Commit{Subject: f[1], Time: time.Unix(max(0, min(n, 1<<37)), 0).UTC()})
	}
	change := func(f gitrepo.Figure) {
		c := &all[len(all)-1]
		if c.Lines += f.Added + f.Deleted; len(c.Files) < maxFiles {
			c.Files = append(c.Files, f.Name)
		}
	}
	repo := &gitrepo.Repo{Dir: dir}
	err := repo.Log(ctx, []string{"%at", "%s"}, commit, change, "--no-merges", "--no-renames", "--max-count="+strconv.Itoa(maxCommits), "HEAD", "--")
	if err != nil {
		return nil, fmt.Errorf("read commits of %s: %w", dir, cmp.Or(context.Cause(ctx), err))
	}
	slices.Reverse(all)
	return all, nil
}
