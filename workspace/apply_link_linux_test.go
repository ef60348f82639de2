package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A link that is deleted goes itself; the file that it leads to is another one.
func TestApplyDeletesLink(t *testing.T) {
	remove := func(name, base string) edit.File {
		return edit.File{Path: name, Kind: edit.Delete, Base: base}
	}
	setUp := func(t *testing.T) (*Workspace, string, string) {
		w, dir := testWorkspace(t, map[string]string{"f": "f\n", "g": "g\n", "d/x": "x\n"})
		link := filepath.Join(dir, "d", "l")
		require.NoError(t, os.Symlink("../f", link))
		return w, dir, link
	}
	leads := func(t *testing.T, link, want string) {
		to, err := os.Readlink(link)
		require.NoError(t, err)
		assert.Equal(t, want, to)
	}
	for _, plain := range []bool{false, true} {
		option := func(c *applyConfig) error { c.plain = plain; return nil }
		t.Run("deleted", func(t *testing.T) {
			w, dir, link := setUp(t)
			r, err := w.Apply(t.Context(), mustPlan(t, remove("d/l", "f\n"), change("f", "f\n", "F\n")), option)
			require.NoError(t, err)
			assert.Equal(t, edit.OutcomeApplied, r.Files[0].Outcome)
			assert.NoFileExists(t, link)
			now, temps := tree(t, dir)
			assert.Equal(t, map[string]string{"f": "F\n", "g": "g\n", "d/x": "x\n"}, now)
			assert.Zero(t, temps)
		})
		t.Run("leads elsewhere", func(t *testing.T) {
			for _, step := range []string{"read", "merged", "swap"} {
				w, dir, link := setUp(t)
				_, err := w.Apply(t.Context(), mustPlan(t, remove("d/l", "f\n")), option, at(step, func() {
					require.NoError(t, errors.Join(os.Remove(link), os.Symlink("../g", link)))
				}))
				_, conflict := errors.AsType[*edit.ConflictError](err)
				assert.True(t, conflict, "%s: %v", step, err)
				leads(t, link, "../g")
				_, temps := tree(t, dir)
				assert.Zero(t, temps)
			}
		})
		t.Run("a file now", func(t *testing.T) {
			for _, step := range []string{"read", "merged", "swap"} {
				w, dir, link := setUp(t)
				_, err := w.Apply(t.Context(), mustPlan(t, remove("d/l", "f\n")), option, at(step, func() {
					require.NoError(t, errors.Join(os.Remove(link), os.WriteFile(link, []byte("mine\n"), 0o644)))
				}))
				_, conflict := errors.AsType[*edit.ConflictError](err)
				assert.True(t, conflict, "%s: %v", step, err)
				now, _ := tree(t, dir)
				assert.Equal(t, "mine\n", now["d/l"])
			}
		})
		t.Run("put back", func(t *testing.T) {
			w, dir, link := setUp(t)
			_, err := w.Apply(t.Context(), mustPlan(t, remove("d/l", "f\n"), change("g", "g\n", "G\n")), option,
				failAt("swap", "g", syscall.EIO))
			require.ErrorIs(t, err, syscall.EIO)
			leads(t, link, "../f")
			_, temps := tree(t, dir)
			assert.Zero(t, temps)
		})
	}
	w, _, link := setUp(t)
	_, err := w.Apply(t.Context(), mustPlan(t, remove("d/l", "another\n")))
	require.ErrorContains(t, err, "was to be deleted")
	leads(t, link, "../f")
}

// An Apply that waits for a directory which another process keeps locked, or for another Apply
// that waits, ends with ctx.
func TestApplyStopsWaitingForLock(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "f\n"})
	directory, err := os.Open(dir)
	require.NoError(t, err)
	defer directory.Close()
	require.NoError(t, syscall.Flock(int(directory.Fd()), syscall.LOCK_EX))
	plan := mustPlan(t, change("f", "f\n", "F\n"))
	end := errors.New("the end")
	var all sync.WaitGroup
	ctx, cancel := context.WithCancelCause(t.Context())
	for range 2 {
		all.Go(func() {
			_, err := w.Apply(ctx, plan)
			assert.Equal(t, end, err)
		})
	}
	time.AfterFunc(20*time.Millisecond, func() { cancel(end) })
	all.Wait()
	require.NoError(t, directory.Close())
	_, err = w.Apply(t.Context(), plan)
	require.NoError(t, err)
}

// A file system that ignores case knows one entry by two names. Here, both names are already those of the entry.
func TestTwoNamesOfOneEntry(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"readme": "a\n", "d/readme": "a\n"})
	require.NoError(t, os.Link(filepath.Join(dir, "d", "readme"), filepath.Join(dir, "d", "hard")))
	var dirs []*target
	for _, name := range []string{"readme", "d/readme"} {
		at, err := w.openTarget(t.Context(), name, name)
		require.NoError(t, err)
		t.Cleanup(at.close)
		dirs = append(dirs, at)
	}
	named := func(dir *target, name, known string) *fileApply {
		return &fileApply{edit: edit.File{Path: name}, at: place{target: &target{dir: dir.dir, lock: dir.lock, name: known}}}
	}
	err := noAliases([]*fileApply{named(dirs[0], "README", "readme"), {}, named(dirs[0], "new", "new"), named(dirs[0], "readme", "readme")})
	require.ErrorContains(t, err, "write readme: is the same file as README")
	require.NoError(t, noAliases([]*fileApply{named(dirs[1], "d/hard", "hard"), named(dirs[1], "d/readme", "readme"), named(dirs[0], "readme", "readme")}))
	err = noAliases([]*fileApply{named(dirs[1], "d/README", "readme"), named(dirs[1], "d/readme", "readme")})
	require.ErrorContains(t, err, "d/readme: is the same file as d/README", "also if it has another hard link")
	again, err := w.openParent("d/readme", "d/readme")
	require.NoError(t, err)
	t.Cleanup(again.close)
	err = noAliases([]*fileApply{named(again, "D/readme", "readme"), named(dirs[1], "d/readme", "readme")})
	require.ErrorContains(t, err, "d/readme: is the same file as D/readme", "the directory has two names")
	require.NoError(t, os.Link(filepath.Join(dir, "readme"), filepath.Join(dir, "d", "other")))
	require.NoError(t, noAliases([]*fileApply{named(dirs[0], "readme", "readme"), named(dirs[1], "d/other", "other")}))
}
