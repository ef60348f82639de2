package forecast

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

// Commits returns the newest 20,000 commits without merges, the oldest first. The oldest ones of a shallow clone are left out: they
// seem to have written all that was there before. The error is that of git or of ctx.
func Commits(ctx context.Context, dir string) ([]Commit, error) {
	var all []Commit
	first := map[int]bool{} // those without a parent
	commit := func(f []string) {
		first[len(all)] = f[2] == ""
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
	err := repo.Log(ctx, []string{"%at", "%s", "%P"}, commit, change, "--no-merges", "--no-renames", "--max-count="+strconv.Itoa(maxCommits), "HEAD", "--")
	if err != nil {
		return nil, fmt.Errorf("read commits of %s: %w", dir, cmp.Or(context.Cause(ctx), err))
	}
	if shallow, _ := repo.Text(ctx, "rev-parse", "--is-shallow-repository"); strings.TrimSpace(shallow) == "true" {
		n := -1
		all = slices.DeleteFunc(all, func(Commit) bool { n++; return first[n] })
	}
	slices.Reverse(all)
	return all, nil
}
