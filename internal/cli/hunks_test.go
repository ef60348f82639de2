package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// A change of three hunks, of which the user takes some.
func TestPickHunks(t *testing.T) {
	const before, all = "1\na\n2\n3\n4\n5\n6\nb\n7\n8\n9\n10\n11\nc\n12\n", "1\nA\n2\n3\n4\n5\n6\nB\n7\n8\n9\n10\n11\nC\n12\n"
	change := script.Call("multi_edit", map[string]any{"path": "f", "edits": []map[string]string{
		{"old_string": "a\n", "new_string": "A\n"}, {"old_string": "b\n", "new_string": "B\n"}, {"old_string": "c\n", "new_string": "C\n"},
	}})
	for _, tt := range []struct {
		name, keys, want string
		shown            []string
	}{
		{"some", "p\ny\nn\ny\n", "1\nA\n2\n3\n4\n5\n6\nb\n7\n8\n9\n10\n11\nC\n12\n",
			[]string{"(y/n/p/a/e/?)", "2 - a", "2 + A", "1 of 3?", "8 + B", "2 of 3?", "14 + C", "3 of 3?", "2 of 3 hunks taken", "Done."}},
		{"the rest", "p\nn\na\n", "1\na\n2\n3\n4\n5\n6\nB\n7\n8\n9\n10\n11\nC\n12\n", []string{"2 of 3 hunks taken"}},
		{"not the rest", "p\ny\nd\n", "1\nA\n2\n3\n4\n5\n6\nb\n7\n8\n9\n10\n11\nc\n12\n", []string{"1 of 3 hunks taken"}},
		{"all", "p\na\n", all, []string{"3 of 3 hunks taken"}},
		{"none, and why", "p\nd\nnot so\n", before, []string{"0 of 3 hunks taken", "Tell the model why", "refused: not so"}},
		{"the input ends", "p\ny\n", before, []string{"no (end of input)", "refused"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(before), 0o644))
				s := newStage("go\n" + tt.keys)
				s.thinks = func() { time.Sleep(time.Millisecond) }
				shown := talkOn(t, s, policy.Ask, dir, script.Call("read_file", map[string]string{"path": "f"}), change, script.Say("Done."))
				inOrder(t, shown, tt.shown...)
				data, err := os.ReadFile(filepath.Join(dir, "f"))
				require.NoError(t, err)
				require.Equal(t, tt.want, string(data))
			})
		})
	}
}

// A change that the mode would allow is asked about with the reason.
func TestChangeWithAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage("go\ny\n")
		s.thinks = func() { time.Sleep(time.Millisecond) }
		shown := talkOn(t, s, policy.AcceptEdits, t.TempDir(), writes(".vscode/tasks.json", "{}\n"), script.Say("Done."))
		inOrder(t, shown, "1 + {}\n", "writes .vscode/tasks.json: ", "Apply?", "Done.")
	})
}

// A hunk is shown whole, with what nobody sees, before it is taken.
func TestPickedHunkIsShownWhole(t *testing.T) {
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "line %d\u200b\n", i)
	}
	patch := "*** Begin Patch\n*** Add File: a\n+" + strings.ReplaceAll(strings.TrimSuffix(text.String(), "\n"), "\n", "\n+") +
		"\n*** Add File: b\n+one\n*** End Patch\n"
	synctest.Test(t, func(t *testing.T) {
		s := newStage("go\np\nn\ny\n")
		s.thinks = func() { time.Sleep(time.Millisecond) }
		shown := talkOn(t, s, policy.Ask, t.TempDir(), script.Call("apply_patch", map[string]string{"patch": patch}), script.Say("Done."))
		inOrder(t, shown, "Apply?", "line 150<U+200B>\n", "1 of 2?", "1 of 2 hunks taken")
	})
}

// A file that gets another name is two files of a plan, and the new one alone has the lines of the old one.
func TestRenameIsNotPickedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("a\nb\n"), 0o644))
		s := newStage("go\np\nn\ny\n")
		s.thinks = func() { time.Sleep(time.Millisecond) }
		shown := talkOn(t, s, policy.Ask, dir, script.Call("read_file", map[string]string{"path": "f"}),
			script.Call("apply_patch", map[string]string{"patch": "*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@\n-a\n+A\n*** End Patch\n"}), script.Say("Done."))
		inOrder(t, shown, "(y/n/a/e/?)", "Please answer with one of", "Done.")
		data, err := os.ReadFile(filepath.Join(dir, "f"))
		require.NoError(t, err)
		require.Equal(t, "a\nb\n", string(data))
	})
}
