package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/aycoder/aycoder"
)

// A worktree is a working tree of git for one task, beside the one of the user, with a branch of the same name.
type worktree struct {
	name, dir string
	main      string // the top of the user's working tree
	from      string // where the user was in it
	base      string // the commit that it was made of, or "" if it was there already
	remove    bool   // the user wants that at the end
	only      func() bool
}

var worktreeName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// enterWorktree makes the worktree of a name, or takes the one that there is, and makes it the current directory.
func (a *app) enterWorktree(ctx context.Context, name string) (*worktree, error) {
	state := a.state("worktrees")
	switch {
	case !worktreeName.MatchString(name) || strings.Contains(name, ".."):
		return nil, &aycoder.ConfigError{Option: "-w " + name, Err: errors.New("a name has letters, digits, and - _ . inside")}
	case state == "":
		return nil, &aycoder.ConfigError{Option: "-w " + name, Err: errors.New("there is no place for worktrees: HOME is not set")}
	}
	top, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, &aycoder.ConfigError{Option: "-w " + name, Err: err}
	}
	within, err := git(ctx, ".", "rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	from, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	w := &worktree{name: name, main: top, from: from, dir: filepath.Join(state, filepath.Base(top)+"-"+nameOf(top)[:8], name)}
	for {
		if _, err := os.Stat(w.dir); err != nil {
			if err := w.add(ctx); err != nil {
				return nil, err
			}
		}
		if w.only, err = share(w.dir); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	dir := filepath.Join(w.dir, filepath.FromSlash(within))
	if _, err := os.Stat(dir); err != nil {
		dir, w.from = w.dir, top // whose texts those are
	}
	return w, os.Chdir(dir)
}

// add makes the worktree. A branch that is left of an earlier one goes on.
func (w *worktree) add(ctx context.Context) (err error) {
	if err := w.runsNothing(ctx); err != nil {
		return err
	}
	if _, err := git(ctx, w.main, "rev-parse", "-q", "--verify", "refs/heads/"+w.name); err == nil {
		_, err = git(ctx, w.main, "worktree", "add", w.dir, w.name)
		return err
	}
	if w.base, err = git(ctx, w.main, "rev-parse", "HEAD"); err != nil {
		return err
	}
	_, err = git(ctx, w.main, "worktree", "add", "-b", w.name, w.dir, w.base)
	return err
}

// runsNothing returns an error if the configuration in the repository names a program that would run as git checks out files:
// it comes with the directory, which nobody may have trusted.
func (w *worktree) runsNothing(ctx context.Context) error {
	const programs = `^(filter|lfs\.customtransfer|lfs\.extension)\..*\.(clean|smudge|process|path)$`
	all, err := git(ctx, w.main, "config", "--show-scope", "--name-only", "--get-regexp", programs)
	if e, ok := errors.AsType[*exec.ExitError](err); err != nil && !(ok && e.ExitCode() == 1) { // 1 is that there is none
		return err
	}
	for line := range strings.Lines(all) {
		if scope, key, _ := strings.Cut(strings.TrimSpace(line), "\t"); scope == "local" || scope == "worktree" {
			return &aycoder.ConfigError{Option: "-w " + w.name, Err: fmt.Errorf("%s in the configuration of the repository would run a program; "+
				"if you trust it, make the worktree yourself: git worktree add -b %s %s", cleanLine(key), w.name, quoteShell(w.dir))}
		}
	}
	return nil
}

// changes says what would be lost with the worktree, or "". Files that git ignores count: nothing else has them. The
// options are given since a repository can be set up to show less.
func (w *worktree) changes(ctx context.Context) string {
	out, err := git(ctx, w.dir, "status", "--porcelain", "--untracked-files=normal", "--ignored", "--ignore-submodules=none")
	switch {
	case err != nil:
		return "its state is not known"
	case out != "":
		return count(strings.Count(out, "\n")+1, "changed file")
	}
	return ""
}

// untouched reports whether nothing was made in a new worktree.
func (w *worktree) untouched(ctx context.Context) bool {
	head, err := git(ctx, w.dir, "rev-parse", "HEAD")
	return err == nil && head == w.base && w.changes(ctx) == ""
}

// ask asks whether to keep a worktree in which something was made. Without an answer, it is kept.
func (w *worktree) ask(ctx context.Context, c *chat) error {
	if w == nil || w.untouched(ctx) {
		return nil
	}
	what := "no changes that are not committed"
	if lost := w.changes(ctx); lost != "" {
		what = lost
	}
	c.prose("", "The worktree "+w.name+" has "+what+".")
	key, err := c.answerKey("Keep it?", choices{"k keep", "r remove, with these changes"})
	w.remove = err == nil && key == 'r'
	return err
}

// end removes the worktree if that was asked for, or if nothing was made in it, and tells where it is kept. Commits are
// never lost: their branch stays.
func (w *worktree) end(a *app) {
	ctx := context.Background()
	remove := w.remove || w.untouched(ctx)
	if held, err := git(ctx, w.dir, "for-each-ref", "--count=1", "--contains", "HEAD"); remove && (err != nil || held == "") {
		a.tell("the worktree " + w.name + " has commits that are on no branch")
		remove = false
	}
	if remove && !w.only() {
		a.tell("another process works in the worktree " + w.name)
		remove = false
	}
	if err := os.Chdir(w.main); err != nil || !remove {
		fmt.Fprintf(a.stderr, "aycoder: the worktree %s is kept: %s (aycoder -w %s -c goes on)\n", w.name, clean(w.dir), w.name)
		return
	}
	args := []string{"worktree", "remove", w.dir}
	if w.remove {
		args = []string{"worktree", "remove", "--force", w.dir}
	}
	if _, err := git(ctx, w.main, args...); err != nil {
		a.tell(clean(err.Error()))
		return
	}
	if w.base == "" { // the branch was there before
		return
	}
	if _, err := git(ctx, w.main, "branch", "-d", w.name); err != nil {
		fmt.Fprintf(a.stderr, "aycoder: the branch %s is kept, since it is not merged\n", w.name)
	}
}

// git runs git in a directory, and returns what it prints. No hook or monitor of the repository runs, and what a partial clone lacks
// is not fetched, for which its configuration can name a program. Filters can run: see runsNothing.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false"}, args...)...)
	var out, problem bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &problem
	cmd.Env = append(os.Environ(), "GIT_ALLOW_PROTOCOL=none")
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(problem.String()); text != "" {
			err = errors.New(text)
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(out.String()), nil
}
