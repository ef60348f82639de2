package tools

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
)

// savers are the ways in which editors save a file.
func savers() map[string]func(t *testing.T, path, text string) {
	return map[string]func(t *testing.T, path, text string){
		"in place": func(t *testing.T, path, text string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString(text)
			require.NoError(t, err)
			require.NoError(t, f.Truncate(int64(len(text))))
			require.NoError(t, f.Close())
		},
		"truncate and write": func(t *testing.T, path, text string) {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		},
		"by rename": func(t *testing.T, path, text string) {
			require.NoError(t, os.WriteFile(path+"~new", []byte(text), 0o644))
			require.NoError(t, os.Rename(path+"~new", path))
		},
		"with a backup": func(t *testing.T, path, text string) {
			require.NoError(t, os.Rename(path, path+"~"))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		},
		"twice": func(t *testing.T, path, text string) {
			require.NoError(t, os.WriteFile(path, []byte("half of it"), 0o644))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		},
	}
}

// numbered returns a text of n numbered lines.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// savedCalls change line 5 of a file whose text numbered(20) the model was shown.
func savedCalls() map[string]args {
	changed := strings.Replace(numbered(20), "line 5\n", "LINE 5\n", 1)
	return map[string]args{
		"edit_file":   {"path": "f", "old_string": "line 5\n", "new_string": "LINE 5\n"},
		"multi_edit":  {"path": "f", "edits": []args{{"old_string": "line 5\n", "new_string": "x\n"}, {"old_string": "x\n", "new_string": "LINE 5\n"}}},
		"write_file":  {"path": "f", "content": changed},
		"apply_patch": {"patch": "*** Begin Patch\n*** Update File: f\n@@\n line 4\n-line 5\n+LINE 5\n line 6\n*** End Patch\n"},
	}
}

// The user saves the file while the approval is open. The saved text is in the file
// afterwards, however it was saved, and the events say so.
func TestUserSavesDuringTheApproval(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names and locks are other ones on Windows")
	}
	base := numbered(20)
	saves := []struct{ name, text, want, event string }{
		{"another line", strings.Replace(base, "line 15\n", "user\n", 1), strings.NewReplacer("line 5\n", "LINE 5\n", "line 15\n", "user\n").Replace(base), "merged"},
		{"more lines above", "user\n" + base, "user\n" + strings.Replace(base, "line 5\n", "LINE 5\n", 1), "merged"},
		{"the same line", strings.Replace(base, "line 5\n", "user\n", 1), strings.Replace(base, "line 5\n", "user\n", 1), "conflicted"},
		{"all gone", "user\n", "user\n", "conflicted"},
		{"nothing new", base, strings.Replace(base, "line 5\n", "LINE 5\n", 1), ""},
	}
	for how, save := range savers() {
		for tool, in := range savedCalls() {
			for _, s := range saves {
				t.Run(tool+" "+how+" "+s.name, func(t *testing.T) {
					w := newWorld(t, map[string]string{"f": base})
					w.ws.Seen().Add("f", base)
					uses := []*aycoder.ToolUse{{ID: "c1", Name: tool, Args: mustJSON(t, in)}}
					var names []string
					for _, ev := range w.runAll(uses, func(a *aycoder.ApprovalRequested) {
						require.Contains(t, a.Request.Preview, "+LINE 5")
						save(t, w.path("f"), s.text)
						a.Allow()
					}) {
						names = append(names, w.eventName(ev, s.event)...)
					}
					want := []string{"ask", "end"}
					if s.event != "" {
						want = []string{"ask", s.event, "end"}
					}
					assert.Equal(t, want, names)
					assert.Equal(t, s.want, w.read("f"))
				})
			}
		}
	}
}

// eventName returns the name of an event and checks its contents.
func (w *world) eventName(ev aycoder.Event, outcome string) []string {
	switch ev := ev.(type) {
	case *aycoder.ApprovalRequested:
		return []string{"ask"}
	case *aycoder.Merged:
		assert.NotEmpty(w.t, ev.File.UserChanges)
		return []string{"merged"}
	case *aycoder.Conflicted:
		assert.Contains(w.t, string(ev.File.Merge.Bytes()), "user\n")
		return []string{"conflicted"}
	case *aycoder.ToolFinished:
		assert.Equal(w.t, outcome == "conflicted", ev.Output.IsError, ev.Output.Text())
		if outcome != "" {
			assert.Contains(w.t, ev.Output.Text(), "user\n", "the model is told what the user has there")
		}
		assert.NotNil(w.t, ev.Changes)
		return []string{"end"}
	}
	return nil
}

// A program that saves at random moments does not lose anything either: each line of its
// last save is in the file, or the call reports a conflict.
func TestSavesAtRandomMoments(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has leases: elsewhere who opened a file before it was replaced writes in vain")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	calls, saves, base := savedCalls(), savers(), numbered(20)
	tools := []string{"edit_file", "multi_edit", "write_file", "apply_patch"}
	ways := []string{"in place", "truncate and write", "by rename"}
	w := newWorld(t, nil)
	outcomes := map[string]int{}
	for round := range 100 {
		w.write("f", base)
		w.ws.Seen().Add("f", base)
		tool, how, late := tools[rnd.IntN(len(tools))], ways[rnd.IntN(len(ways))], time.Duration(rnd.IntN(3000))*time.Microsecond
		user := fmt.Sprintf("user %d\n", round)
		saved := strings.Replace(base, "line 15\n", user, 1)
		done := make(chan bool)
		timer := time.AfterFunc(late, func() {
			defer close(done)
			saves[how](t, w.path("f"), saved)
		})
		r := w.call(tool, calls[tool])
		if timer.Stop() {
			continue
		}
		<-done
		now := w.read("f")
		require.Contains(t, now, user, "%s saved %s after %s: %s", tool, how, late, r.Text())
		outcomes[r.Summary]++
	}
	t.Logf("%v", outcomes)
}

// Only the part of a plan that was approved is carried out, and the model is told about
// the rest.
func TestReviewedPatch(t *testing.T) {
	w := newWorld(t, map[string]string{"f": numbered(20), "g": "g\n"})
	text, fin := w.run("apply_patch", args{"patch": "*** Begin Patch\n*** Update File: f\n@@\n-line 2\n+LINE 2\n@@\n-line 9\n+LINE 9\n*** Delete File: g\n*** End Patch\n"},
		func(a *aycoder.ApprovalRequested) {
			plan, err := a.Request.Plan.KeepFiles("f")
			require.NoError(t, err)
			plan, err = plan.Without(plan.Hunks()[1].ID)
			require.NoError(t, err)
			require.NoError(t, a.AllowPlan(plan))
		})
	assert.Equal(t, strings.Replace(numbered(20), "line 2\n", "LINE 2\n", 1), w.read("f"))
	assert.Equal(t, "g\n", w.read("g"))
	assert.Contains(t, text, "g: left out")
	assert.Contains(t, text, "-LINE 9\n+line 9\n")
	assert.Equal(t, "+1 −1", fin.Summary)
	assert.Equal(t, strings.Replace(numbered(20), "line 2\n", "LINE 2\n", 1), w.ws.Seen().Contents("f")[0])
}

// A plan that was rejected as a whole is not carried out, and that is not an error.
func TestNothingOfAPlanIsLeft(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n"})
	text, fin := w.run("edit_file", args{"path": "f", "old_string": "a", "new_string": "b"}, func(a *aycoder.ApprovalRequested) {
		plan, err := a.Request.Plan.KeepFiles()
		require.NoError(t, err)
		require.NoError(t, a.AllowPlan(plan))
	})
	assert.Contains(t, text, "f: left out")
	assert.False(t, fin.Output.IsError)
	assert.Equal(t, "a\n", w.read("f"))
}

// The user is not asked about a call that cannot work, and nothing is written.
func TestNobodyIsAskedInVain(t *testing.T) {
	tests := []struct {
		name, tool string
		in         args
		kind       string
	}{
		{"no match", "edit_file", args{"path": "f", "old_string": "zz", "new_string": "b"}, "no_match"},
		{"protected", "write_file", args{"path": ".git/config", "content": "x"}, "protected_path"},
		{"secret", "write_file", args{"path": ".env", "content": "x"}, "sensitive_path"},
		{"outside", "apply_patch", args{"patch": "*** Begin Patch\n*** Add File: ../x\n+x\n*** End Patch"}, "outside_workspace"},
		{"not read", "write_file", args{"path": "f", "content": "x"}, "not_read"},
		{"second edit", "multi_edit", args{"path": "f", "edits": []args{{"old_string": "a", "new_string": "b"}, {"old_string": "a", "new_string": "c"}}}, "no_match"},
		{"directory", "write_file", args{"path": "d", "content": "x"}, "is_directory"},
		{"below a file", "write_file", args{"path": "f/x", "content": "x"}, "not_directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": "a\n", "d/g": "g\n", ".git/HEAD": "x"})
			text, fin := w.run(tt.tool, tt.in, func(*aycoder.ApprovalRequested) { t.Error("asked") })
			assert.True(t, strings.HasPrefix(text, tt.kind+": "), text)
			assert.True(t, fin.Output.IsError)
			assert.Equal(t, "a\n", w.read("f"))
			assert.NoFileExists(t, w.path(".git/config"))
		})
	}
}

// An approved plan says all that the tool has to know, also after it was stored: how the edit
// was understood, and which lines it made. After a review the lines may be others, and are not
// quoted.
func TestApprovedPlanNeedsNoArguments(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "\ta\n\tb\n"})
	w.ok("read_file", args{"path": "f"})
	in := mustJSON(t, args{"path": "f", "old_string": "a\nb", "new_string": "a\nc"})
	plan, err := w.tool["edit_file"].(aycoder.Planner).Plan(t.Context(), aycoder.NewInvocation("1", "edit_file", in, nil))
	require.NoError(t, err)
	stored, err := json.Marshal(plan)
	require.NoError(t, err)
	var back edit.Plan
	require.NoError(t, json.Unmarshal(stored, &back))
	require.Equal(t, plan.Digest(), back.Digest())
	reviewed, err := back.WithProposed("f", "\ta\n\td\n")
	require.NoError(t, err)

	carryOut := func(plan edit.Plan) string {
		w.write("f", "\ta\n\tb\n")
		inv := aycoder.NewInvocation("1", "edit_file", json.RawMessage(`{}`), nil)
		inv.Plan = &plan
		res, err := w.tool["edit_file"].Call(t.Context(), inv)
		require.NoError(t, err)
		require.False(t, res.IsError, res.Text())
		return res.Text()
	}
	text := carryOut(back)
	assert.Equal(t, "\ta\n\tc\n", w.read("f"))
	assert.Contains(t, text, "[applied after allowing for indentation")
	assert.Contains(t, text, "; old_string was found in lines 1-2; lines 1-2 now read:]\n     1\t\ta\n     2\t\tc\ndiff ")
	text = carryOut(reviewed)
	assert.Equal(t, "\ta\n\td\n", w.read("f"))
	assert.Contains(t, text, "; old_string was found in lines 1-2]\n")
}
