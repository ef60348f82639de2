package session_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// branches runs several branches of a session at the same time, and returns what each has changed. They
// begin together, and end when all have made their last change.
func (c *changedRun) branches(n int) []*edit.Changes {
	var begun, over, work sync.WaitGroup
	begun.Add(n)
	over.Add(n)
	all := make([]*edit.Changes, n)
	var s *session.Session
	for i := range n {
		steps := c.calls(2+c.r.IntN(6), true)
		first, last := steps[0], len(steps)-1
		steps[0] = script.Func(func(*aycoder.Request) script.Step {
			begun.Done()
			begun.Wait()
			return first
		})
		steps[last] = script.Func(func(*aycoder.Request) script.Step {
			over.Done()
			over.Wait()
			return script.Say("done")
		})
		var agent aycoder.Agent
		if s == nil {
			var err error
			s, err = session.New(c.Context(), journal.Memory(), c.loop(steps...), session.WithFiles(c.files))
			require.NoError(c, err)
			c.Cleanup(func() { s.Close() })
			agent = s
		} else {
			b, err := s.NewBranch(c.Context(), string(rune('a'+i)), session.Root, c.loop(steps...))
			require.NoError(c, err)
			agent = b
		}
		work.Go(func() {
			var res aycoder.Result
			for ev, err := range agent.Run(c.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
				if err != nil {
					c.Errorf("branch %d: %v", i, err)
					return
				}
				c.event(ev)
			}
			all[i] = res.Changes
		})
	}
	work.Wait()
	require.False(c, c.Failed())
	return all
}

// counted is how many files of runs with branches there are, how many of them are Mixed, and how many of those
// were changed while a command of the branch ran.
type counted struct{ runs, files, shared, adjacent, mixed, commands int }

// checkBranches requires that git, which takes the difference of each branch from the files after, and puts
// together what is left, gets the files before.
func (c *changedRun) checkBranches(all []*edit.Changes, about func() string, n *counted) {
	n.runs++
	open := map[string]bool{} // not told apart, or without a difference
	after, before := tree(c, c.dir), tree(c, c.before)
	var without []map[string]string
	for i, got := range all {
		for _, f := range got.Files() {
			n.files++
			require.NotEmpty(c, f.By, "%s", about())
			if f.Mixed {
				n.mixed++
				if slices.ContainsFunc(f.By, func(by edit.ChangedBy) bool { return by.Command }) {
					n.commands++
				}
			}
			if f.Mixed || f.NoDiff != "" {
				open[f.Path] = true
			}
		}
		dir := c.dir + string(rune('0'+i))
		shell(c, filepath.Dir(dir), "cp", "-a", c.dir, dir)
		require.NoError(c, os.RemoveAll(filepath.Join(dir, ".git")))
		inWay := inTheWay(got, after)
		for _, name := range inWay {
			require.NoError(c, os.Remove(filepath.Join(dir, name)))
		}
		out, err := apply(c, dir, got.Diff(), "-R")
		require.NoError(c, err, "branch %d: %s\n%s", i, out, about())
		left := tree(c, dir)
		for _, name := range inWay {
			left[name] = after[name]
		}
		without = append(without, left)
	}
	names := map[string]bool{}
	for _, t := range append(without, before, after) {
		for name := range t {
			names[name] = true
		}
	}
	for name := range names {
		if open[name] {
			continue
		}
		left, by := after[name], 0
		for i, w := range without {
			if w[name] == after[name] {
				continue
			}
			if by++; by == 1 {
				left = w[name]
				continue
			}
			merged, ok := mergeFile(c, left, after[name], w[name])
			if !ok {
				n.adjacent++
				left = before[name]
				break
			}
			require.NotEqual(c, left, w[name], "%q of branch %d: %s", name, i, about())
			left = merged
		}
		if by > 1 {
			n.shared++
		}
		require.Equal(c, before[name], left, "%q: %s", name, about())
	}
}

// inTheWay returns the files that others have put in the place of directories of files that were deleted.
func inTheWay(deleted *edit.Changes, after map[string]string) (names []string) {
	own := map[string]bool{}
	for _, f := range deleted.Files() {
		own[f.Path] = true
	}
	for _, f := range deleted.Files() {
		for _, name := range []string{f.Path, f.From} {
			for dir := filepath.Dir(name); dir != "." && name != ""; dir = filepath.Dir(dir) {
				if after[dir] != "" && !own[dir] && !slices.Contains(names, dir) {
					names = append(names, dir)
				}
			}
		}
	}
	return names
}

// mergeFile merges two versions of a file in the form of tree, by git. It reports whether there is no conflict.
func mergeFile(t testing.TB, ours, base, theirs string) (string, bool) {
	var args []string
	kind := ""
	for _, s := range []string{ours, base, theirs} {
		words := strings.SplitN(s, " ", 3)
		if len(words) < 3 || words[0] != "file" || kind != "" && words[1] != kind {
			return "", false
		}
		kind = words[1]
		name := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(name, []byte(words[2]), 0o600))
		args = append(args, name)
	}
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"merge-file", "-p"}, args...)...).Output()
	return "file " + kind + " " + string(out), err == nil
}
