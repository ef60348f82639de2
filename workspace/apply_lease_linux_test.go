package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program replaces the file right before the exchange, and another opens the new file right
// after it, before the exchange is taken back. It must not get a text without what was saved: a
// formatter would write that text over the save.
func TestApplyOpenedInExchange(t *testing.T) {
	for _, tt := range []struct {
		name string
		use  func(file string) (string, error)
		got  string
		want string

		outcome edit.Outcome
	}{
		{"read", func(file string) (string, error) {
			text, err := os.ReadFile(file)
			return string(text), err
		}, "a\nb\nc\nuser\n", "A\nb\nc\nuser\n", edit.OutcomeMerged},
		{"append", func(file string) (string, error) {
			f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = f.WriteString("more\n")
				err = errors.Join(err, f.Close())
			}
			return "", err
		}, "", "A\nb\nc\nuser\nmore\n", edit.OutcomeMerged},
		{"truncate", func(file string) (string, error) {
			return "", os.WriteFile(file, []byte("a\nb\nmore\nc\nuser\n"), 0o644)
		}, "", "A\nb\nmore\nc\nuser\n", edit.OutcomeMerged},
		{"shorten", func(file string) (string, error) {
			return "", os.WriteFile(file, []byte("a\nb\nc\n"), 0o644)
		}, "", "A\nb\nc\n", edit.OutcomeApplied},
	} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, plain %t", tt.name, plain), func(t *testing.T) {
				w, dir := testWorkspace(t, map[string]string{"f": "a\nb\nc\n"})
				file := filepath.Join(dir, "f")
				var got string
				var used error
				done := make(chan bool)
				r, err := w.Apply(t.Context(), mustPlan(t, change("f", "a\nb\nc\n", "A\nb\nc\n")), without(plain, false),
					at("exchange", func() {
						require.NoError(t, os.WriteFile(file+"~", []byte("a\nb\nc\nuser\n"), 0o644))
						require.NoError(t, os.Rename(file+"~", file))
					}),
					at("exchanged", func() {
						go func() {
							defer close(done)
							got, used = tt.use(file)
						}()
						waitOpened(t, file, done)
					}))
				require.NoError(t, err)
				<-done
				require.NoError(t, used)
				assert.Equal(t, tt.got, got)
				now, temps := tree(t, dir)
				assert.Equal(t, map[string]string{"f": tt.want}, now)
				assert.Zero(t, temps)
				assert.Equal(t, tt.want, r.Files[0].Content)
				assert.Equal(t, tt.outcome, r.Files[0].Outcome)
				assert.True(t, r.Files[0].Written)
			})
		}
	}
}

// A file can be read while it is exchanged.
func TestOpenInExchange(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "a\n"})
	var got []byte
	var failed error
	done := make(chan bool)
	_, err := w.Apply(t.Context(), mustPlan(t, change("f", "a\n", "A\n")), at("exchanged", func() {
		go func() {
			defer close(done)
			got, failed = fs.ReadFile(w, "f")
		}()
		waitOpened(t, filepath.Join(dir, "f"), done)
	}))
	require.NoError(t, err)
	<-done
	require.NoError(t, failed)
	assert.Equal(t, "A\n", string(got))
}

// A file that was in place by mistake has the text of the file that is in place now. If the
// process ends then, nothing of it has to be kept.
func TestInterruptedInExchange(t *testing.T) {
	k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), false)
	k.crash(t, "swapped", k.name(2))
	staged, err := filepath.Glob(k.dir + "/d1/.aycoder-*-3-1.tmp")
	require.NoError(t, err)
	require.Len(t, staged, 1)
	for _, name := range []string{staged[0], k.file(3)} {
		require.NoError(t, os.WriteFile(name, []byte("all is new\n"), 0o644))
	}
	plans := k.reopened(t).Interrupted()
	require.Len(t, plans, 1)
	r, err := plans[0].TakeBack(t.Context())
	require.NoError(t, err)
	for _, f := range r.Files {
		assert.Empty(t, f.Sidecars, f.Path)
	}
	assert.Empty(t, k.temps(t))
	data, err := os.ReadFile(k.file(3))
	require.NoError(t, err)
	assert.Equal(t, "all is new\n", string(data))
}

// waitOpened waits until a program has opened a file, or waits in the kernel for a lease on it
// ("Since Linux 2.6: LEASE BREAKING", proc_locks(5)), or is done.
func waitOpened(t testing.TB, file string, done <-chan bool) {
	t.Helper()
	inode := fmt.Sprintf(":%d ", inodeOf(file))
	for {
		select {
		case <-done:
			return
		default:
		}
		locks, err := os.ReadFile("/proc/locks")
		require.NoError(t, err)
		for line := range strings.Lines(string(locks)) {
			if strings.Contains(line, inode) && strings.Contains(line, "BREAKING") {
				return
			}
		}
	}
}

// A text that came late is not lost if it cannot be merged into the file, since that has become
// something else.
func TestApplyLateTextKept(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "a\nb\nc\n"})
	file := filepath.Join(dir, "f")
	user, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	written := false
	r, err := w.Apply(t.Context(), mustPlan(t, change("f", "a\nb\nc\n", "A\nb\nc\n")), without(false, true),
		func(c *applyConfig) error {
			c.step = func(step, _ string) error {
				switch {
				case step == "commit":
					_, err := user.WriteString("user\n")
					require.NoError(t, errors.Join(err, user.Close()))
					written = true
				case step == "swap" && written:
					written = false
					require.NoError(t, os.Remove(file))
					require.NoError(t, os.Mkdir(file, 0o755))
				}
				return nil
			}
			return nil
		})
	require.NoError(t, err)
	assert.Equal(t, []string{"f.save"}, r.Files[0].Sidecars)
	now, temps := tree(t, dir)
	assert.Equal(t, map[string]string{"f.save": "a\nb\nc\nuser\n"}, now)
	assert.Zero(t, temps)
	assert.DirExists(t, file)
}

// Two files that were taken out get late texts, and then the plan fails. The one that is put back
// has its text already; that of the other goes into it.
func TestApplyLateTextPutBack(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "a\nb\nc\n"})
	file := filepath.Join(dir, "f")
	var users []*os.File
	open := func() {
		user, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		users = append(users, user)
	}
	swaps, looked := 0, false
	r, err := w.Apply(t.Context(), mustPlan(t, change("f", "a\nb\nc\n", "A\nb\nc\n")), without(false, true),
		at("exchange", func() {
			require.NoError(t, os.WriteFile(file+"~", []byte("a\nb\nC\n"), 0o644))
			require.NoError(t, os.Rename(file+"~", file))
		}),
		at("exchanged", open), // the new file, which is taken back
		at("look", func() {
			for i, user := range users {
				_, err := fmt.Fprintln(user, "user", i)
				require.NoError(t, errors.Join(err, user.Close()))
			}
			looked = true
		}),
		func(c *applyConfig) error {
			before := c.step
			c.step = func(step, name string) error {
				if err := before(step, name); err != nil || step != "swap" {
					return err
				}
				if swaps++; swaps == 2 {
					open() // the file that was saved at that moment
				}
				if looked {
					looked = false
					return syscall.EIO
				}
				return nil
			}
			return nil
		})
	require.ErrorIs(t, err, syscall.EIO)
	now, temps := tree(t, dir)
	assert.Equal(t, map[string]string{"f": "a\nb\nC\nuser 1\nuser 0\n"}, now)
	assert.Equal(t, now["f"], r.Files[0].Content)
	assert.False(t, r.Files[0].Written)
	assert.Zero(t, temps)
}

// A program that was suspended between finding the file and opening it opens the old file when its
// name is removed already.
func TestApplyOpenedLast(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		t.Run(fmt.Sprintf("keeps %t", keeps), func(t *testing.T) {
			w, dir := testWorkspace(t, map[string]string{"f": "a\nb\nc\n"})
			returned, done := make(chan bool), make(chan bool)
			var used error
			r, err := w.Apply(t.Context(), mustPlan(t, change("f", "a\nb\nc\n", "A\nb\nc\n")), WithWriterWait(100*time.Millisecond),
				at("last", func() {
					old := deletedFile(t, dir)
					go func() {
						defer close(done)
						f, err := os.OpenFile(old, os.O_WRONLY|os.O_APPEND, 0)
						if err == nil && keeps {
							<-returned
							err = f.Close()
						} else if err == nil {
							_, err = f.WriteString("user\n")
							err = errors.Join(err, f.Close())
						}
						used = err
					}()
					waitOpened(t, old, done)
				}))
			close(returned)
			<-done
			require.NoError(t, errors.Join(err, used))
			want := map[string]string{"f": "A\nb\nc\nuser\n"}
			if keeps { // what it writes later goes nowhere, but what it has written so far is kept
				want = map[string]string{"f": "A\nb\nc\n", "f.save": "a\nb\nc\n"}
				assert.Equal(t, []string{"f.save"}, r.Files[0].Sidecars)
			}
			now, temps := tree(t, dir)
			assert.Equal(t, want, now)
			assert.Equal(t, want["f"], r.Files[0].Content)
			assert.Zero(t, temps)
		})
	}
}

// A program that begins to save as Apply reads the file for the last time is waited for: the result does not tell of a
// half of a save.
func TestApplySavedLast(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "a\nb\nc\n"})
	file, lines := filepath.Join(dir, "f"), strings.Repeat("user\n", 20)
	var saved error
	done := make(chan bool)
	r, err := w.Apply(t.Context(), mustPlan(t, change("f", "a\nb\nc\n", "A\nb\nc\n")), WithWriterWait(time.Minute), at("last", func() {
		go func() {
			defer close(done)
			f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
			if saved = err; err != nil {
				return
			}
			for line := range strings.Lines("A\nb\nc\n" + lines) {
				_, err := f.WriteString(line)
				saved = errors.Join(saved, err, f.Sync())
			}
			saved = errors.Join(saved, f.Close())
		}()
		waitOpened(t, file, done)
	}))
	<-done
	require.NoError(t, errors.Join(err, saved))
	assert.Equal(t, "A\nb\nc\n"+lines, r.Files[0].Content)
	assert.True(t, r.Files[0].Written)
}

// deletedFile returns a path of the file that was taken out, which has no other name any more.
func deletedFile(t testing.TB, dir string) string {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		name := "/proc/self/fd/" + fd.Name()
		if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, dir+"/.aycoder-") && strings.HasSuffix(to, "-0-1.tmp (deleted)") {
			return name
		}
	}
	require.Fail(t, "no deleted file is open")
	return ""
}

// A command that starts at the same time has all files of this process open for a moment, until
// it executes its program. That is not another program that writes to the file.
func TestApplyBesideCommands(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "0\n"})
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				assert.NoError(t, exec.CommandContext(t.Context(), "true").Run())
			}
		})
	}
	for i := range 200 {
		r, err := w.Apply(t.Context(), mustPlan(t, change("f", fmt.Sprintln(i), fmt.Sprintln(i+1))), WithWriterWait(10*time.Second))
		if !assert.NoError(t, err, "plan %d: %s %s", i, r.Files[0].Outcome, r.Files[0].Reason) {
			break
		}
	}
	stop.Store(true)
	wg.Wait()
	data, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	assert.Equal(t, "200\n", string(data))
}
