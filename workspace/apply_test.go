package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/merge"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const applyBase = "one\ntwo\nthree\nfour\nfive\n"

// inMemory puts the test's directories where flushing costs nothing, if there is such a
// place.
func inMemory(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm")
	}
}

// at does something the first time that a step comes.
func at(step string, do func()) ApplyOption {
	return func(c *applyConfig) error {
		before, done := c.step, false
		c.step = func(now, name string) error {
			if before != nil {
				if err := before(now, name); err != nil {
					return err
				}
			}
			if now == step && !done {
				done = true
				do()
			}
			return nil
		}
		return nil
	}
}

// failAt lets a step fail, once.
func failAt(step, file string, err error) ApplyOption {
	return func(c *applyConfig) error {
		done := false
		c.step = func(now, name string) error {
			if now != step || name != file || done {
				return nil
			}
			done = true
			return err
		}
		return nil
	}
}

// without takes away exchanges and leases.
func without(exchange, lease bool) ApplyOption {
	return func(c *applyConfig) error { c.plain, c.noLease = exchange, lease; return nil }
}

// tree returns the files of a directory and what is in them, less temporary ones, which it
// counts.
func tree(t testing.TB, dir string) (map[string]string, int) {
	t.Helper()
	files, temps := map[string]string{}, 0
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if strings.HasPrefix(d.Name(), ".aycoder-") {
			temps++
		} else if d.Type().IsRegular() {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			rel, err := filepath.Rel(dir, name)
			require.NoError(t, err)
			files[filepath.ToSlash(rel)] = string(data)
		}
		return nil
	}))
	return files, temps
}

func TestApply(t *testing.T) {
	inMemory(t)
	proposed := strings.Replace(applyBase, "two", "TWO", 1)
	user := strings.Replace(applyBase, "five", "5", 1)
	both := strings.Replace(proposed, "five", "5", 1)
	clash := strings.Replace(applyBase, "two", "zwei", 1)
	tests := []struct {
		name    string
		now     string // "-" means no file
		edit    edit.File
		outcome edit.Outcome
		want    string // "-" means no file
		told    string
	}{
		{"applied", applyBase, change("f", applyBase, proposed), edit.OutcomeApplied, proposed, "f: changed.\n"},
		{"merged", user, change("f", applyBase, proposed), edit.OutcomeMerged, both, "@@ line 5 @@\n-five\n+5\n"},
		{"conflict", clash, change("f", applyBase, proposed), edit.OutcomeConflicted, clash, "zwei"},
		{"gone", "-", change("f", applyBase, proposed), edit.OutcomeGone, "-", "not there any more"},
		{"unchanged", proposed, change("f", applyBase, proposed), edit.OutcomeUnchanged, proposed, "nothing to do"},
		{"unchanged and more", both, change("f", applyBase, proposed), edit.OutcomeUnchanged, both, "+5"},
		{"binary now", "\x00\x01", change("f", applyBase, proposed), edit.OutcomeKindChanged, "\x00\x01", "binary"},
		{"binary both", "\x00u", change("f", "\x00", "\x00t"), edit.OutcomeConflicted, "\x00u", "binary"},
		{"binary, only the model", "\x00", change("f", "\x00", "\x00t"), edit.OutcomeApplied, "\x00t", "changed"},
		{"emptied by the user", "", change("f", applyBase, proposed), edit.OutcomeConflicted, "", "lines"},
		{"empty base", "", change("f", "", "x"), edit.OutcomeApplied, "x", "changed"},
		{"create", "-", edit.File{Path: "f", Kind: edit.Create, Proposed: "new"}, edit.OutcomeApplied, "new", "f: created.\n"},
		{"create, is there", "other", edit.File{Path: "f", Kind: edit.Create, Proposed: "new"}, edit.OutcomeConflicted, "other", "exists already"},
		{"create, the same", "new", edit.File{Path: "f", Kind: edit.Create, Proposed: "new"}, edit.OutcomeUnchanged, "new", "nothing to do"},
		{"create, is empty", "", edit.File{Path: "f", Kind: edit.Create, Proposed: "new"}, edit.OutcomeApplied, "new", "created"},
		{"create empty", "-", edit.File{Path: "f", Kind: edit.Create}, edit.OutcomeApplied, "", "created"},
		{"delete", applyBase, edit.File{Path: "f", Kind: edit.Delete, Base: applyBase}, edit.OutcomeApplied, "-", "f: deleted.\n"},
		{"delete, changed", user, edit.File{Path: "f", Kind: edit.Delete, Base: applyBase}, edit.OutcomeConflicted, user, "+5"},
		{"delete, emptied", "", edit.File{Path: "f", Kind: edit.Delete, Base: applyBase}, edit.OutcomeConflicted, "", "was changed"},
		{"delete, is deleted", "-", edit.File{Path: "f", Kind: edit.Delete, Base: applyBase}, edit.OutcomeUnchanged, "-", "nothing to do"},
		{"user made it crlf", strings.ReplaceAll(applyBase, "\n", "\r\n"), change("f", applyBase, proposed),
			edit.OutcomeConflicted, strings.ReplaceAll(applyBase, "\n", "\r\n"), "one side has other line endings"},
		{"mark and no last newline", "\xef\xbb\xbfa\nb\nC", change("f", "\xef\xbb\xbfa\nb\nc", "\xef\xbb\xbfA\nb\nc"),
			edit.OutcomeMerged, "\xef\xbb\xbfA\nb\nC", "merged"},
		{"not utf-8", "\xff\nb\n\xfe\n",
			change("f", "\xff\nb\nc\n", "\xfd\nb\nc\n"), edit.OutcomeMerged, "\xfd\nb\n\xfe\n", "merged"},
	}
	for _, tt := range tests {
		for _, plain := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				files := map[string]string{"f": tt.now}
				if tt.now == "-" {
					files = nil
				}
				w, dir := testWorkspace(t, files)
				r, err := w.Apply(t.Context(), mustPlan(t, tt.edit), without(plain, plain))
				require.Len(t, r.Files, 1)
				got := r.Files[0]
				assert.Equal(t, tt.outcome, got.Outcome, "%v", err)
				e, conflict := errors.AsType[*edit.ConflictError](err)
				assert.Equal(t, got.Stops(), conflict, "%v", err)
				told := r.ModelText()
				if conflict {
					assert.Equal(t, told, e.ModelText())
					assert.ErrorContains(t, err, "apply plan: f: ")
				} else {
					assert.NoError(t, err)
				}
				assert.Contains(t, told, tt.told)
				assert.True(t, utf8.ValidString(told))
				now, temps := tree(t, dir)
				assert.Zero(t, temps)
				text, there := now["f"]
				assert.Equal(t, tt.want != "-", there)
				assert.Equal(t, there, got.Exists)
				assert.Equal(t, strings.TrimPrefix(tt.want, "-"), text)
				if got.Outcome != edit.OutcomeKindChanged {
					assert.Equal(t, text, got.Content)
				}
				assert.Equal(t, tt.now != tt.want, got.Written)
			})
		}
	}
}

func TestApplyConflictCanBeResolved(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "a\nuser\nc\n"})
	p := mustPlan(t, change("f", "a\nb\nc\n", "a\nmodel\nc\n"))
	_, err := w.Apply(t.Context(), p)
	e, ok := errors.AsType[*edit.ConflictError](err)
	require.True(t, ok)
	f := e.Files[0]
	assert.Equal(t, "a\n<<<<<<< the file now\nuser\n=======\nmodel\n>>>>>>> your change\nc\n", string(f.Merge.Bytes()))
	for i, g := range f.Merge.Regions {
		if g.Kind == merge.Conflict {
			assert.Equal(t, "user\n", string(g.Ours.Of([]byte(f.Ours))))
			require.NoError(t, f.Merge.Resolve(i, merge.ChooseOursFirst))
		}
	}
	q := mustPlan(t, change("f", f.Ours, string(f.Merge.Bytes())))
	_, err = w.Apply(t.Context(), q)
	require.NoError(t, err)
	now, _ := tree(t, dir)
	assert.Equal(t, "a\nuser\nmodel\nc\n", now["f"])
}

func TestApplyWritesConflicts(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "a\nuser\nc\n", "g": "x\n"})
	p := mustPlan(t, change("f", "a\nb\nc\n", "a\nmodel\nc\n"), change("g", "x\n", "y\n"))
	r, err := w.Apply(t.Context(), p, WithWrittenConflicts(true), WithMerge(merge.WithStyle(merge.StyleDiff3)))
	require.NoError(t, err)
	assert.Equal(t, edit.OutcomeConflicted, r.Files[0].Outcome)
	assert.True(t, r.Files[0].Written)
	now, temps := tree(t, dir)
	assert.Zero(t, temps)
	assert.Equal(t, "y\n", now["g"])
	assert.Equal(t, "a\n<<<<<<< the file now\nuser\n||||||| when you read it\nb\n=======\nmodel\n"+
		">>>>>>> your change\nc\n", now["f"])
	assert.Contains(t, r.ModelText(), "remove the markers")
}

func TestApplyRefuses(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": "a", "d/x": "x"})
	require.NoError(t, os.Mkdir(dir+"-out", 0o755))
	p := mustPlan(t, change("f", "a", "b"))
	_, err := w.Apply(t.Context(), p, WithApproved("sha256:0"))
	require.ErrorContains(t, err, "not the one that was approved")
	_, err = w.Apply(t.Context(), p, WithWriterWait(-1))
	require.ErrorContains(t, err, "negative")
	_, err = w.Apply(t.Context(), p, WithApproved(p.Digest()))
	require.NoError(t, err)

	tests := []struct{ path, kind string }{
		{"../ws-out/x", "outside_workspace"},
		{".env", "sensitive_path"},
		{".git/config", "protected_path"},
		{".", "protected_path"},
	}
	for _, tt := range tests {
		r, err := w.Apply(t.Context(), mustPlan(t, change("f", "b", "c"), edit.File{Path: tt.path, Kind: edit.Create, Proposed: "x"}))
		assert.Equal(t, tt.kind, kindOf(err), "%s: %v", tt.path, err)
		assert.Equal(t, edit.OutcomeSkipped, r.Files[0].Outcome)
	}
	r, err := w.Apply(t.Context(), mustPlan(t, change("d", "b", "c"), change("f/x", "1", "2"), change("no/x", "1", "2")))
	_, conflict := errors.AsType[*edit.ConflictError](err)
	assert.True(t, conflict, "%v", err)
	assert.Equal(t, edit.OutcomeKindChanged, r.Files[0].Outcome)
	assert.Equal(t, edit.OutcomeKindChanged, r.Files[1].Outcome)
	assert.Equal(t, edit.OutcomeGone, r.Files[2].Outcome)
	now, temps := tree(t, dir)
	assert.Equal(t, map[string]string{"f": "b", "d/x": "x"}, now)
	assert.Zero(t, temps)
}

func TestApplyCancelled(t *testing.T) {
	inMemory(t)
	stop := errors.New("stop")
	for _, step := range []string{"", "read", "merged", "staged", "swap", "swapped", "look"} {
		t.Run(step, func(t *testing.T) {
			w, dir := testWorkspace(t, map[string]string{"f": "a", "g": "a"})
			ctx, cancel := context.WithCancelCause(t.Context())
			if step == "" {
				cancel(stop)
			}
			p := mustPlan(t, change("f", "a", "b"), change("g", "a", "b"), edit.File{Path: "n/h", Kind: edit.Create, Proposed: "x"})
			_, err := w.Apply(ctx, p, at(step, func() { cancel(stop) }))
			now, temps := tree(t, dir)
			assert.Zero(t, temps)
			if step == "look" && err == nil { // all was settled already
				assert.Equal(t, "b", now["f"])
				return
			}
			require.ErrorIs(t, err, stop)
			assert.Equal(t, map[string]string{"f": "a", "g": "a"}, now)
			assert.NoDirExists(t, filepath.Join(dir, "n"))
		})
	}
}

// All files or none, whatever goes wrong and when.
func TestApplyAllOrNothing(t *testing.T) {
	inMemory(t)
	before := map[string]string{"a": "a\n", "d/b": "b\n", "gone": "old\n", "z": "z\n"}
	after := map[string]string{"a": "A\n", "d/b": "B\n", "new/deep/c": "c\n", "z": "Z\n"}
	p := mustPlan(t, change("a", "a\n", "A\n"), change("d/b", "b\n", "B\n"), edit.File{Path: "new/deep/c", Kind: edit.Create, Proposed: "c\n"},
		edit.File{Path: "gone", Kind: edit.Delete, Base: "old\n"}, change("z", "z\n", "Z\n"))
	for _, plain := range []bool{false, true} {
		for _, step := range []string{"read", "merged", "stage", "staged", "swap", "swapped", "look", "commit", "none"} {
			for _, file := range []string{"a", "new/deep/c", "gone", "z"} {
				w, dir := testWorkspace(t, before)
				r, err := w.Apply(t.Context(), p, without(plain, plain), failAt(step, file, syscall.ENOSPC))
				now, temps := tree(t, dir)
				assert.Zero(t, temps)
				if step == "none" || file == "gone" && strings.HasPrefix(step, "stage") {
					require.NoError(t, err)
					assert.Equal(t, after, now)
					continue
				}
				require.Equal(t, before, now, "%s %s", step, file)
				assert.NoDirExists(t, filepath.Join(dir, "new"))
				assert.Equal(t, "no_space", kindOf(err))
				for _, f := range r.Files {
					assert.False(t, f.Written)
				}
			}
		}
	}
}

// The changes of another program at each step, of each kind, are kept.
func TestApplyInterleaved(t *testing.T) {
	inMemory(t)
	proposed := "ONE\ntwo\nthree\nfour\nfive\n"
	saves := map[string]func(name, text string) error{
		"in place": func(name, text string) error { return os.WriteFile(name, []byte(text), 0o644) },
		"by rename": func(name, text string) error {
			if err := os.WriteFile(name+"~", []byte(text), 0o644); err != nil {
				return err
			}
			return os.Rename(name+"~", name)
		},
	}
	clean := strings.Replace(applyBase, "five", "5", 1)
	clash := strings.Replace(applyBase, "one", "eins", 1)
	for _, step := range []string{"read", "merged", "stage", "staged", "swap", "swapped", "look", "commit"} {
		for how, save := range saves {
			for _, plain := range []bool{false, true} {
				for _, text := range []string{clean, clash} {
					name := step + " " + how
					w, dir := testWorkspace(t, map[string]string{"f": applyBase, "g": "g\n"})
					file := filepath.Join(dir, "f")
					p := mustPlan(t, change("f", applyBase, proposed), change("g", "g\n", "G\n"))
					var user sync.WaitGroup // who may have to wait for a lease
					r, err := w.Apply(t.Context(), p, without(plain, false), at(step, func() {
						saved := make(chan struct{})
						user.Go(func() {
							assert.NoError(t, save(file, text))
							close(saved)
						})
						if !slices.Contains([]string{"swapped", "look", "commit"}, step) {
							<-saved
						}
					}))
					user.Wait()
					now, temps := tree(t, dir)
					assert.Zero(t, temps, name)
					switch {
					case step == "swapped" || step == "look" || step == "commit":
						// That is a save after the exchange: it wins.
						require.NoError(t, err, name)
						require.Equal(t, text, now["f"], name)
						require.True(t, r.Files[0].Written)
					case text == clash:
						_, conflict := errors.AsType[*edit.ConflictError](err)
						require.True(t, conflict, "%s: %v", name, err)
						require.Equal(t, map[string]string{"f": clash, "g": "g\n"}, now, name)
						require.Equal(t, clash, r.Files[0].Ours)
					default:
						require.NoError(t, err, name)
						require.Equal(t, edit.OutcomeMerged, r.Files[0].Outcome, name)
						require.Equal(t, "ONE\ntwo\nthree\nfour\n5\n", now["f"], name)
						require.Equal(t, "G\n", now["g"], name)
					}
				}
			}
		}
	}
}

// Changes of a file's type during the exchange.
func TestApplyKindChangesMeanwhile(t *testing.T) {
	inMemory(t)
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	tests := []struct {
		name    string
		do      func(file string) error
		outcome edit.Outcome
	}{
		{"deleted", os.Remove, edit.OutcomeGone},
		{"directory", func(file string) error {
			return errors.Join(os.Remove(file), os.Mkdir(file, 0o755))
		}, edit.OutcomeKindChanged},
		{"link", func(file string) error { return errors.Join(os.Remove(file), os.Symlink("g", file)) }, edit.OutcomeKindChanged},
		{"binary", func(file string) error { return os.WriteFile(file, []byte("\x00"), 0o644) }, edit.OutcomeKindChanged},
	}
	for _, tt := range tests {
		for _, step := range []string{"read", "swap"} {
			for _, plain := range []bool{false, true} {
				t.Run(tt.name+" at "+step, func(t *testing.T) {
					w, dir := testWorkspace(t, map[string]string{"f": "f\n", "g": "g\n"})
					file := filepath.Join(dir, "f")
					p := mustPlan(t, change("g", "g\n", "G\n"), change("f", "f\n", "F\n"))
					did := false
					r, err := w.Apply(t.Context(), p, without(plain, false), func(c *applyConfig) error {
						c.step = func(now, name string) error {
							if now == step && name == "f" && !did {
								did = true
								return tt.do(file)
							}
							return nil
						}
						return nil
					})
					_, conflict := errors.AsType[*edit.ConflictError](err)
					require.True(t, conflict, "%v", err)
					assert.Equal(t, tt.outcome, r.Files[1].Outcome)
					assert.Equal(t, edit.OutcomeSkipped, r.Files[0].Outcome)
					want, _ := os.MkdirTemp(t.TempDir(), "")
					require.NoError(t, os.WriteFile(filepath.Join(want, "f"), []byte("f\n"), 0o644))
					require.NoError(t, tt.do(filepath.Join(want, "f")))
					a, errA := os.Lstat(file)
					b, errB := os.Lstat(filepath.Join(want, "f"))
					require.Equal(t, errB == nil, errA == nil)
					if errA == nil {
						assert.Equal(t, b.Mode().Type(), a.Mode().Type())
					}
					now, temps := tree(t, dir)
					assert.Equal(t, "g\n", now["g"])
					assert.Zero(t, temps)
				})
			}
		}
	}
}

// Files that come and go where one is created or deleted.
func TestApplyCreateAndDeleteInterleaved(t *testing.T) {
	inMemory(t)
	write := func(text string) func(string) {
		return func(file string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) }
	}
	create, remove := edit.File{Path: "f", Kind: edit.Create, Proposed: "new\n"}, edit.File{Path: "f", Kind: edit.Delete, Base: "old\n"}
	tests := []struct {
		name    string
		edit    edit.File
		step    string
		do      func(string)
		outcome edit.Outcome
		want    string
	}{
		{"created by another", create, "swap", write("user\n"), edit.OutcomeConflicted, "user\n"},
		{"the same created", create, "swap", write("new\n"), edit.OutcomeUnchanged, "new\n"},
		{"empty created", create, "swap", write(""), edit.OutcomeApplied, "new\n"},
		{"changed before deletion", remove, "swap", write("user\n"), edit.OutcomeConflicted, "user\n"},
		{"created again after", remove, "swapped", write("user\n"), edit.OutcomeApplied, "user\n"},
		{"deleted before", remove, "swap", func(f string) { require.NoError(t, os.Remove(f)) }, edit.OutcomeUnchanged, ""},
	}
	for _, tt := range tests {
		for _, plain := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				files := map[string]string{"f": "old\n"}
				if tt.edit.Kind == edit.Create {
					files = nil
				}
				w, dir := testWorkspace(t, files)
				r, err := w.Apply(t.Context(), mustPlan(t, tt.edit), without(plain, plain),
					at(tt.step, func() { tt.do(filepath.Join(dir, "f")) }))
				assert.Equal(t, tt.outcome, r.Files[0].Outcome, "%v", err)
				now, temps := tree(t, dir)
				assert.Equal(t, tt.want, now["f"])
				assert.Zero(t, temps)
			})
		}
	}
}

// An editor that renames the old file before it writes the new one has not deleted it.
func TestApplyWhileEditorRenames(t *testing.T) {
	for _, step := range []string{"read", "swap"} {
		w, dir := testWorkspace(t, map[string]string{"f": "a\nb\nc\nd\n"})
		file := filepath.Join(dir, "f")
		r, err := w.Apply(t.Context(), mustPlan(t, change("f", "a\nb\nc\nd\n", "A\nb\nc\nd\n")),
			at(step, func() { require.NoError(t, os.Rename(file, file+"~")) }),
			at("missing", func() { require.NoError(t, os.WriteFile(file, []byte("a\nb\nc\nD\n"), 0o644)) }))
		require.NoError(t, err, step)
		assert.Equal(t, edit.OutcomeMerged, r.Files[0].Outcome)
		now, _ := tree(t, dir)
		assert.Equal(t, "A\nb\nc\nD\n", now["f"])
	}
}

// A formatter reads the new text in the moment of an exchange that is then taken back, as
// somebody wrote to the old file, and saves what it read: the plan is in the file, by
// another's hand, and if it fails later it is taken out of there.
func TestApplySavedByReader(t *testing.T) {
	for _, fails := range []string{"", "swap", "commit"} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("fails %q, plain %t", fails, plain), func(t *testing.T) {
				w, dir := testWorkspace(t, map[string]string{"f": "a\nb\nc\n"})
				file := filepath.Join(dir, "f")
				old, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
				require.NoError(t, err)
				var formatted []byte
				saved, failed := false, false
				r, err := w.Apply(t.Context(), mustPlan(t, change("f", "a\nb\nc\n", "A\nb\nc\n")), without(plain, true),
					at("exchanged", func() {
						formatted, err = os.ReadFile(file)
						require.NoError(t, err)
						_, err = old.WriteString("user\n")
						require.NoError(t, errors.Join(err, old.Close()))
					}),
					func(c *applyConfig) error {
						before := c.step
						c.step = func(step, name string) error {
							if err := before(step, name); err != nil || formatted == nil {
								return err
							}
							if step == "swap" && !saved {
								saved = true
								require.NoError(t, os.WriteFile(file, append(formatted, "more\n"...), 0o644))
							}
							if step == fails && !failed {
								failed = true
								return syscall.EIO
							}
							return nil
						}
						return nil
					})
				now, _ := tree(t, dir)
				require.Equal(t, now["f"], r.Files[0].Content)
				if fails != "" {
					require.ErrorIs(t, err, syscall.EIO)
					assert.Equal(t, "a\nb\nc\nmore\n", now["f"])
					assert.False(t, r.Files[0].Written)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, "A\nb\nc\nmore\n", now["f"])
				assert.True(t, r.Files[0].Written)
				assert.Equal(t, edit.OutcomeMerged, r.Files[0].Outcome)
				_, err = w.Apply(t.Context(), r.Undo())
				require.NoError(t, err)
				now, _ = tree(t, dir)
				assert.Equal(t, "a\nb\nc\nmore\n", now["f"])
			})
		}
	}
}

func TestApplyTextBounded(t *testing.T) {
	timed.Serial(t)
	inMemory(t)
	files, edits := map[string]string{}, []edit.File{}
	for i := range 200 {
		name := strings.Repeat("d", i%7+1) + string(rune('a'+i%26)) + strings.Repeat("x", i)
		files[name] = strings.Repeat("user\xff\n", 5000)
		edits = append(edits, change(name, strings.Repeat("base\n", 5000), strings.Repeat("model\n", 5000)))
	}
	w, _ := testWorkspace(t, files)
	start := time.Now()
	r, err := w.Apply(t.Context(), mustPlan(t, edits...))
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 3000)
	told := r.ModelText()
	assert.Less(t, len(told), 32<<10)
	assert.True(t, utf8.ValidString(told))
	assert.Contains(t, told, "more is not shown")
	t.Logf("200 conflicts in %s", time.Since(start).Round(time.Millisecond))
}

// Files of one plan that are missing are searched for at the same time, which the race detector watches.
func TestApplyMissingFiles(t *testing.T) {
	ws, err := Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	var files []edit.File
	for i := range 8 {
		files = append(files, edit.File{Path: fmt.Sprint("f", i), Kind: edit.Change, Base: "a\n", Proposed: "b\n"})
	}
	plan, err := edit.NewPlan(files...)
	require.NoError(t, err)
	_, err = ws.Apply(t.Context(), plan)
	require.Error(t, err)
}
