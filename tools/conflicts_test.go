package tools

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/merge"
)

// resolving gives the tools of a world somebody who resolves conflicts.
func (w *world) resolving(resolve func(*edit.FileResult) (string, bool)) {
	option := WithConflicts(func(_ context.Context, f *edit.FileResult) (string, bool) { return resolve(f) })
	w.more = []Option{option}
	for name, make := range map[string]func(FS, ...Option) (aycoder.Tool, error){
		"edit_file": EditFile, "multi_edit": MultiEdit, "write_file": WriteFile, "apply_patch": ApplyPatch,
	} {
		tool, err := make(w.ws, option)
		require.NoError(w.t, err)
		w.tool[name] = tool
	}
}

// The user has changed the line before the call, or changes it while the call is approved.
func TestConflictIsResolved(t *testing.T) {
	base := numbered(20)
	users := strings.NewReplacer("line 5\n", "user\n", "line 15\n", "also\n").Replace(base)
	for tool, in := range savedCalls() {
		for _, before := range []bool{true, false} {
			t.Run(tool, func(t *testing.T) {
				w := newWorld(t, map[string]string{"f": base})
				w.ws.Seen().Add("f", base)
				asked := 0
				w.resolving(func(f *edit.FileResult) (string, bool) {
					asked++
					assert.Equal(t, []string{base, users, strings.Replace(base, "line 5\n", "LINE 5\n", 1)}, []string{f.Base, f.Ours, f.Theirs})
					m := *f.Merge
					for i, g := range m.Regions {
						if g.Kind == merge.Conflict {
							require.NoError(t, m.ResolveWith(i, []byte("USER\n")))
						}
					}
					return string(m.Bytes()), true
				})
				if before {
					w.write("f", users)
				}
				var names []string
				for _, ev := range w.runAll([]*aycoder.ToolUse{{ID: "c1", Name: tool, Args: mustJSON(t, in)}}, func(a *aycoder.ApprovalRequested) {
					assert.Contains(t, a.Request.Preview, "+LINE 5")
					w.write("f", users)
					a.Allow()
				}) {
					switch ev := ev.(type) {
					case *aycoder.Merged:
						names = append(names, "merged")
					case *aycoder.Conflicted:
						names = append(names, "conflicted")
					case *aycoder.ToolFinished:
						assert.False(t, ev.Output.IsError)
						assert.Contains(t, ev.Output.Text(), "-LINE 5\n+USER\n")
						assert.Contains(t, ev.Output.Text(), "+also\n")
					}
				}
				assert.Equal(t, []string{"merged"}, names)
				assert.Equal(t, strings.Replace(users, "user\n", "USER\n", 1), w.read("f"))
				assert.Equal(t, 1, asked)
				w.ok("edit_file", args{"path": "f", "old_string": "USER\n", "new_string": "next\n"})
			})
		}
	}
}

func TestConflictIsLeft(t *testing.T) {
	base, users := numbered(20), strings.Replace(numbered(20), "line 5\n", "user\n", 1)
	in := savedCalls()["edit_file"]
	for _, tt := range []struct {
		name    string
		resolve func(*edit.FileResult) (string, bool)
		want    string
	}{
		{"refused", func(*edit.FileResult) (string, bool) { return "lost", false }, "what the user has there now"},
		{"kept", func(f *edit.FileResult) (string, bool) { return f.Ours, true }, "the user was asked, and keeps the file as it is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": base})
			w.ws.Seen().Add("f", base)
			w.write("f", users)
			w.resolving(tt.resolve)
			require.Contains(t, w.fails("conflict", "edit_file", in), tt.want)
			require.Equal(t, users, w.read("f"))
		})
	}
}

// The user goes on saving while they resolve: what they save is merged, or asked about again. Nothing that
// was saved is lost.
func TestConflictWhileItIsResolved(t *testing.T) {
	base, users := numbered(20), strings.Replace(numbered(20), "line 5\n", "user\n", 1)
	for _, tt := range []struct {
		name, save, want string
		asked            int
	}{
		{"elsewhere", strings.Replace(users, "line 15\n", "later\n", 1), strings.NewReplacer("line 5\n", "both\n", "line 15\n", "later\n").Replace(base), 1},
		{"there", strings.Replace(users, "user\n", "user again\n", 1), strings.Replace(base, "line 5\n", "both\n", 1), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": base})
			w.ws.Seen().Add("f", base)
			w.write("f", users)
			asked := 0
			w.resolving(func(f *edit.FileResult) (string, bool) {
				if asked++; asked == 1 {
					w.write("f", tt.save)
				} else {
					assert.Equal(t, tt.save, f.Ours)
				}
				return strings.Replace(base, "line 5\n", "both\n", 1), true
			})
			w.ok("edit_file", savedCalls()["edit_file"])
			require.Equal(t, tt.want, w.read("f"))
			require.Equal(t, tt.asked, asked)
		})
	}
	t.Run("for ever", func(t *testing.T) {
		w := newWorld(t, map[string]string{"f": base})
		w.ws.Seen().Add("f", base)
		w.write("f", users)
		asked, last := 0, ""
		w.resolving(func(*edit.FileResult) (string, bool) {
			asked++
			last = strings.Replace(users, "user\n", strings.Repeat("again\n", asked), 1)
			w.write("f", last)
			return strings.Replace(base, "line 5\n", "both\n", 1), true
		})
		w.fails("conflict", "edit_file", savedCalls()["edit_file"])
		require.Equal(t, maxResolved, asked)
		require.Equal(t, last, w.read("f"))
	})
}

// Of a patch of two files, one conflicts: both are changed, or neither.
func TestConflictOfOneFileOfTwo(t *testing.T) {
	patch := args{"patch": "*** Begin Patch\n*** Update File: f\n@@\n-b\n+B\n*** Update File: g\n@@\n-b\n+B\n*** End Patch\n"}
	for _, tt := range []struct {
		name, text string
		ok         bool
		f, g       string
	}{
		{"resolved", "both\n", true, "both\n", "a\nB\n"},
		{"kept", "a\nuser\n", true, "a\nuser\n", "a\nB\n"},
		{"refused", "", false, "a\nuser\n", "a\nb\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": "a\nb\n", "g": "a\nb\n"})
			w.ws.Seen().Add("f", "a\nb\n")
			w.ws.Seen().Add("g", "a\nb\n")
			w.write("f", "a\nuser\n")
			w.resolving(func(f *edit.FileResult) (string, bool) {
				assert.Equal(t, "f", f.Path)
				return tt.text, tt.ok
			})
			if tt.ok {
				w.ok("apply_patch", patch)
			} else {
				w.fails("conflict", "apply_patch", patch)
			}
			require.Equal(t, []string{tt.f, tt.g}, []string{w.read("f"), w.read("g")})
		})
	}
}

// A file that conflicts twice, and is then left as it is, is reported as it is now.
func TestConflictThatIsLeftAtLast(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\nb\n", "g": "a\nb\n"})
	for _, name := range []string{"f", "g"} {
		w.ok("read_file", args{"path": name})
	}
	w.write("f", "a\nuser\n")
	asked := 0
	w.resolving(func(f *edit.FileResult) (string, bool) {
		if asked++; asked == 1 {
			w.write("f", "a\nlater\n")
			return "a\nboth\n", true
		}
		return f.Ours, true
	})
	r := w.call("apply_patch", patchText("*** Update File: f\n@@\n-b\n+B\n*** Update File: g\n@@\n-b\n+B\n"))
	require.False(t, r.IsError)
	require.Equal(t, 2, asked)
	assert.Equal(t, map[string]string{"f": "a\nlater\n", "g": "a\nB\n"}, w.files())
	assert.Contains(t, r.Text(), "-B\n+later\n")
	assert.NotContains(t, r.Text(), "user")
	for _, f := range r.Changes.Files {
		assert.Equal(t, w.read(f.Path), f.Content)
	}
}

// A text cannot resolve that a file was to be deleted or renamed, or is binary.
func TestConflictThatNobodyIsAskedAbout(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n"})
	w.ws.Seen().Add("f", "a\n")
	w.write("f", "user\n")
	w.resolving(func(*edit.FileResult) (string, bool) {
		t.Error("asked")
		return "", true
	})
	w.fails("conflict", "apply_patch", patchText("*** Delete File: f\n"))
	require.Equal(t, "user\n", w.read("f"))
	w.fails("conflict", "apply_patch", patchText("*** Update File: f\n*** Move to: g\n@@\n-a\n+b\n"))
	require.Equal(t, map[string]string{"f": "user\n"}, w.files())
}
