package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file that somebody has open for writing is not taken from them.
func TestApplyBusy(t *testing.T) {
	for _, step := range []string{"", "swap"} {
		t.Run("opened "+step, func(t *testing.T) {
			w, dir := testWorkspace(t, map[string]string{"f": "a\nb\nc\n", "g": "g\n"})
			file := filepath.Join(dir, "f")
			var user *os.File
			open := func() {
				var err error
				user, err = os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
				require.NoError(t, err)
			}
			if step == "" {
				open()
			}
			before, err := os.Stat(file)
			require.NoError(t, err)
			p := mustPlan(t, change("g", "g\n", "G\n"), change("f", "a\nb\nc\n", "A\nb\nc\n"))
			r, err := w.Apply(t.Context(), p, WithWriterWait(20*time.Millisecond), at(step, open))
			_, conflict := errors.AsType[*edit.ConflictError](err)
			require.True(t, conflict, "%v", err)
			assert.Equal(t, edit.OutcomeBusy, r.Files[1].Outcome)
			assert.Contains(t, r.ModelText(), "open for writing")
			after, err := os.Stat(file)
			require.NoError(t, err)
			assert.True(t, os.SameFile(before, after))
			_, err = user.WriteString("user\n")
			require.NoError(t, err)
			require.NoError(t, user.Close())
			now, temps := tree(t, dir)
			assert.Equal(t, map[string]string{"f": "a\nb\nc\nuser\n", "g": "g\n"}, now)
			assert.Zero(t, temps)
			r, err = w.Apply(t.Context(), p)
			require.NoError(t, err)
			assert.Equal(t, edit.OutcomeMerged, r.Files[1].Outcome)
			now, _ = tree(t, dir)
			assert.Equal(t, map[string]string{"f": "A\nb\nc\nuser\n", "g": "G\n"}, now)
		})
	}
}

// A program may open the file before the exchange and write after it, unnoticed where there are
// no leases. Its text is in the file afterwards, or the plan is taken back.
func TestApplyLateWrites(t *testing.T) {
	base := "1\n2\n3\n4\n5\n6\n7\n"
	late := func(text string) func(*os.File, string) error {
		return func(f *os.File, _ string) error {
			_, err := f.WriteAt([]byte(text), 0)
			return errors.Join(err, f.Close())
		}
	}
	both := func(f *os.File, name string) error { // and somebody saves the new file too
		save, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = save.WriteString("user\n")
			err = errors.Join(err, save.Close())
		}
		return errors.Join(err, late("X")(f, name))
	}
	clash := func(f *os.File, name string) error {
		return errors.Join(os.WriteFile(name, []byte("all is new\n"), 0o644), late("X")(f, name))
	}
	gone := func(f *os.File, name string) error { return errors.Join(os.Remove(name), late("X")(f, name)) }
	tests := []struct {
		name    string
		do      func(*os.File, string) error
		outcome edit.Outcome
		want    string
		beside  string
	}{
		{"merges", late("X"), edit.OutcomeMerged, "X\n2\n3\nFOUR\n5\n6\n7\n", ""},
		{"conflicts", late("1\n2\n3\nX"), edit.OutcomeConflicted, "1\n2\n3\nX\n5\n6\n7\n", ""},
		{"nothing", late("1"), edit.OutcomeApplied, "1\n2\n3\nFOUR\n5\n6\n7\n", ""},
		{"and the new file is saved", both, edit.OutcomeMerged, "X\n2\n3\nFOUR\n5\n6\n7\nuser\n", ""},
		{"and the new file is another", clash, edit.OutcomeMerged, "all is new\n", "X\n2\n3\n4\n5\n6\n7\n"},
		{"and the new file is deleted", gone, edit.OutcomeMerged, "", "X\n2\n3\n4\n5\n6\n7\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, dir := testWorkspace(t, map[string]string{"f": base})
			file := filepath.Join(dir, "f")
			p := mustPlan(t, change("f", base, "1\n2\n3\nFOUR\n5\n6\n7\n"))
			user, err := os.OpenFile(file, os.O_WRONLY, 0)
			require.NoError(t, err)
			r, err := w.Apply(t.Context(), p, without(false, true), at("look", func() { require.NoError(t, tt.do(user, file)) }))
			assert.Equal(t, tt.outcome, r.Files[0].Outcome, "%v", err)
			now, temps := tree(t, dir)
			assert.Equal(t, tt.want, now["f"])
			if tt.beside == "" {
				assert.Zero(t, temps)
				assert.Empty(t, r.Files[0].Sidecars)
				return
			}
			assert.Zero(t, temps)
			assert.Equal(t, []string{"f.save"}, r.Files[0].Sidecars)
			data, err := os.ReadFile(filepath.Join(dir, r.Files[0].Sidecars[0]))
			require.NoError(t, err)
			assert.Equal(t, tt.beside, string(data))
			assert.Contains(t, r.ModelText(), r.Files[0].Sidecars[0])
		})
	}
}

// A plan is taken back from a file that somebody saved after it was changed.
func TestApplyRollBackInterleaved(t *testing.T) {
	base := "1\n2\n3\n4\n5\n6\n7\n"
	proposed := strings.Replace(base, "2", "TWO", 1)
	tests := []struct{ name, saved, want string }{
		{"merges", strings.Replace(proposed, "6", "six", 1), strings.Replace(base, "6", "six", 1)},
		{"conflicts", strings.Replace(proposed, "TWO", "two", 1), strings.Replace(base, "2", "two", 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, dir := testWorkspace(t, map[string]string{"f": base, "g": "g\n"})
			p := mustPlan(t, change("f", base, proposed), edit.File{Path: "n", Kind: edit.Create, Proposed: "n\n"}, change("g", "g\n", "G\n"))
			r, err := w.Apply(t.Context(), p, without(false, true), func(c *applyConfig) error {
				c.step = func(step, name string) error {
					if step == "swap" && name == "g" {
						return errors.Join(os.WriteFile(filepath.Join(dir, "f"), []byte(tt.saved), 0o644),
							os.Remove(filepath.Join(dir, "g")))
					}
					return nil
				}
				return nil
			})
			require.Error(t, err)
			assert.Equal(t, edit.OutcomeGone, r.Files[2].Outcome)
			now, _ := tree(t, dir)
			assert.Equal(t, map[string]string{"f": tt.want}, now)
			assert.Equal(t, tt.name == "conflicts", r.Files[0].Written)
			assert.Equal(t, tt.want, r.Files[0].Content)
		})
	}
}

func TestApplyKeepsModeOwnerAndLinks(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "a\n", "d/x": ""})
	file := filepath.Join(dir, "f")
	require.NoError(t, os.Chmod(file, 0o751))
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(file, 1234, 5678))
	}
	require.NoError(t, os.Symlink("../f", filepath.Join(dir, "d", "link")))
	require.NoError(t, os.Link(file, filepath.Join(dir, "hard")))
	before, err := os.Stat(file)
	require.NoError(t, err)
	r, err := w.Apply(t.Context(), mustPlan(t, change("d/link", "a\n", "b\n")))
	require.NoError(t, err)
	assert.True(t, r.Files[0].OtherNames)
	assert.Contains(t, r.ModelText(), "hard links")
	after, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, before.Mode(), after.Mode())
	assert.Equal(t, before.Sys().(*syscall.Stat_t).Uid, after.Sys().(*syscall.Stat_t).Uid)
	assert.Equal(t, before.Sys().(*syscall.Stat_t).Gid, after.Sys().(*syscall.Stat_t).Gid)
	link, err := os.Lstat(filepath.Join(dir, "d", "link"))
	require.NoError(t, err)
	assert.NotZero(t, link.Mode()&fs.ModeSymlink)
	now, _ := tree(t, dir)
	assert.Equal(t, map[string]string{"f": "b\n", "hard": "a\n", "d/x": ""}, now)
	_, err = w.Apply(t.Context(), mustPlan(t, change("d/link", "b\n", "c\n"), change("f", "b\n", "d\n")))
	assert.ErrorContains(t, err, "is the same file as d/link")

	// A mode that is changed meanwhile stays too.
	_, err = w.Apply(t.Context(), mustPlan(t, change("f", "b\n", "c\n")),
		at("swap", func() { require.NoError(t, os.Chmod(file, 0o600)) }))
	require.NoError(t, err)
	after, err = os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), after.Mode())
}

func TestApplyFullDisk(t *testing.T) {
	w, dir := testWorkspace(t, nil)
	small := filepath.Join(dir, "small")
	require.NoError(t, os.Mkdir(small, 0o755))
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	defer func() { assert.NoError(t, syscall.Unmount(small, 0)) }()
	base := strings.Repeat("line\n", 16<<10)
	require.NoError(t, os.WriteFile(filepath.Join(small, "a"), []byte(base), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(small, "b"), []byte(base), 0o644))
	r, err := w.Apply(t.Context(), mustPlan(t, change("small/a", base, "A\n"+base), change("small/b", base, "B\n"+base)))
	assert.Equal(t, "no_space", kindOf(err), "%v", err)
	assert.Equal(t, edit.OutcomeSkipped, r.Files[0].Outcome)
	now, temps := tree(t, dir)
	assert.Equal(t, map[string]string{"small/a": base, "small/b": base}, now)
	assert.Zero(t, temps)
}

// No file outside is touched while directories and links are exchanged under way.
func TestApplyRace(t *testing.T) {
	timed.Long(t, "races of plans with other writers")
	inMemory(t)
	w, dir := testWorkspace(t, map[string]string{"d/f": "inside"})
	out := dir + "-out"
	require.NoError(t, os.Mkdir(out, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(out, "f"), []byte("SECRET"), 0o644))
	require.NoError(t, os.Symlink("../ws-out", filepath.Join(dir, "s")))
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		swap := func(a, b string) { _ = os.Rename(filepath.Join(dir, a), filepath.Join(dir, b)) }
		for !stop.Load() {
			swap("d", "t")
			swap("s", "d")
			swap("d", "s")
			swap("t", "d")
		}
	})
	text, applied, tries := "inside", 0, 300
	for i := range tries {
		next := fmt.Sprintf("inside %d", i)
		r, err := w.Apply(t.Context(), mustPlan(t, change("d/f", text, next), edit.File{Path: "d/n", Kind: edit.Create, Proposed: "n"}))
		if err == nil && r.Files[0].Outcome == edit.OutcomeApplied {
			text = next
			applied++
			_, _ = w.Apply(t.Context(), mustPlan(t, edit.File{Path: "d/n", Kind: edit.Delete, Base: "n"}))
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d tries beside the exchange: %d applied", tries, applied)
	now, temps := tree(t, out)
	assert.Equal(t, map[string]string{"f": "SECRET"}, now)
	assert.Zero(t, temps)
}

// saver is a user who has a file in an editor: each save has all lines that were
// saved before, in one way or another.
type saver struct {
	file  string
	rand  *rand.Rand
	lines []string // the editor's buffer
	saved []string // lines that are on the disk
	held  *os.File
}

const tortureLines = 60

func tortureBase() []string {
	lines := make([]string, tortureLines)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d\n", i)
	}
	return lines
}

// pause lets others run for a while that is random.
func (s *saver) pause() {
	for range s.rand.IntN(200) {
		runtime.Gosched()
	}
}

func (s *saver) save() error {
	line := fmt.Sprintf("user %d\n", len(s.saved))
	if s.held != nil {
		return s.writeHeld(line)
	}
	where := s.rand.IntN(len(s.lines) + 1)
	s.lines = append(s.lines[:where:where], append([]string{line}, s.lines[where:]...)...)
	text := strings.Join(s.lines, "")
	var err error
	switch s.rand.IntN(4) {
	case 0:
		err = s.byRename(text)
	case 1:
		err = s.inPlace(text, os.O_TRUNC)
	case 2:
		err = s.inPlace(text, 0) // a buffer only grows
	case 3:
		s.held, err = os.OpenFile(s.file, os.O_WRONLY|os.O_TRUNC, 0o644)
		s.pause()
		if err == nil {
			_, err = s.held.WriteString(text[:len(text)/2])
		}
		if err == nil {
			_, err = s.held.WriteString(text[len(text)/2:])
		}
	}
	if err == nil {
		s.saved = append(s.saved, line)
	}
	return err
}

func (s *saver) inPlace(text string, flags int) error {
	f, err := os.OpenFile(s.file, os.O_WRONLY|os.O_CREATE|flags, 0o644)
	if err != nil {
		return err
	}
	s.pause()
	_, err = f.WriteString(text[:len(text)/2])
	s.pause()
	if err == nil {
		_, err = f.WriteString(text[len(text)/2:])
	}
	if err == nil { // where the agent had made the file longer
		err = f.Truncate(int64(len(text)))
	}
	return errors.Join(err, f.Close())
}

func (s *saver) byRename(text string) error {
	if err := os.WriteFile(s.file+"~", []byte(text), 0o644); err != nil {
		return err
	}
	s.pause()
	return os.Rename(s.file+"~", s.file)
}

// writeHeld adds a line to a file that was opened long ago.
func (s *saver) writeHeld(line string) error {
	_, err := s.held.WriteString(line)
	s.pause()
	err = errors.Join(err, s.held.Close())
	s.held = nil
	s.lines = append(s.lines, line)
	if err == nil {
		s.saved = append(s.saved, line)
	}
	return err
}

// A user who saves at random moments, in all ways, loses nothing. By default this
// takes a few seconds; AYCODER_TORTURE_ROUNDS sets the number of rounds.
func TestApplyTorture(t *testing.T) {
	timed.Long(t, "thousands of plans")
	inMemory(t)
	rounds, _ := strconv.Atoi(os.Getenv("AYCODER_TORTURE_ROUNDS"))
	until := time.Now().Add(4 * time.Second)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	w, dir := testWorkspace(t, nil)
	outcomes, n, saves, beside := map[edit.Outcome]int{}, 0, 0, 0
	for ; n < rounds || rounds == 0 && time.Now().Before(until); n++ {
		s, res := tortureRound(t, w, dir, rand.New(rand.NewPCG(seed, uint64(n)+2)), r)
		outcomes[res.Outcome]++
		saves += len(s.saved)
		beside += len(res.Sidecars)
		all := readAllOf(t, dir, "f", res.Sidecars)
		for _, line := range s.saved {
			require.Contains(t, all, line, "round %d: %s %s, saved %q", n, res.Outcome, res.Reason, s.saved)
		}
		clearDir(t, dir)
	}
	t.Logf("%d rounds, %d saves: %v, %d texts kept beside", n, saves, outcomes, beside)
}

// Elsewhere returns the method Apply of a workspace that is served to a client in this process. The
// server adds an option, which only the workspace understands.
var Elsewhere func(t *testing.T, w *Workspace, c ApplyOption) func(context.Context, edit.Plan, ...ApplyOption) (*edit.Result, error)

func tortureRound(t *testing.T, w *Workspace, dir string, mine, r *rand.Rand) (*saver, edit.FileResult) {
	base := tortureBase()
	s := &saver{file: filepath.Join(dir, "f"), rand: mine, lines: base}
	require.NoError(t, os.WriteFile(s.file, []byte(strings.Join(base, "")), 0o644))
	proposed := strings.Join(base, "")
	for range 1 + r.IntN(3) {
		proposed = strings.Replace(proposed, fmt.Sprintf("line %d\n", r.IntN(tortureLines)), "agent\nagent\n", 1)
	}
	edits := []edit.File{change("f", strings.Join(base, ""), proposed)}
	if r.IntN(3) == 0 { // a second file that stops the plan late
		edits = append(edits, change("g", "g\n", "G\n"))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "g"), []byte("g\n"), 0o644))
	}
	begin, when := make(chan struct{}), r.IntN(14)
	count := 0
	c := func(c *applyConfig) error {
		c.wait = 100 * time.Millisecond
		c.step = func(step, name string) error {
			if count++; count == when {
				close(begin)
			}
			if name == "g" && step == "swap" && r.IntN(2) == 0 {
				_ = os.Remove(filepath.Join(dir, "g"))
			}
			for range r.IntN(50) {
				runtime.Gosched()
			}
			return nil
		}
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-begin
		for range 1 + s.rand.IntN(3) {
			s.pause()
			assert.NoError(t, s.save())
		}
		if s.held != nil {
			s.pause()
			assert.NoError(t, s.save())
		}
	})
	if when == 0 {
		close(begin)
	}
	apply := w.Apply
	if Elsewhere != nil {
		apply = Elsewhere(t, w, c)
	}
	res, err := apply(t.Context(), mustPlan(t, edits...), c)
	if count < when {
		close(begin)
	}
	wg.Wait()
	if _, conflict := errors.AsType[*edit.ConflictError](err); !conflict {
		require.NoError(t, err)
	}
	return s, res.Files[0]
}

func readAllOf(t *testing.T, dir, name string, more []string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range append([]string{name}, more...) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		b.Write(data)
	}
	return b.String()
}

func clearDir(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.Remove(filepath.Join(dir, e.Name())))
	}
}
