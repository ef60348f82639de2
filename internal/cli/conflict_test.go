package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/merge"
	"github.com/aycoder/aycoder/providers/script"
)

// The user changes a line while the model works, and the model wants to change it as well.
func TestConflictsAreResolved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer, file string
		shown              []string
	}{
		{"yours", "y", "one\nuser\nthree\nmore\n", []string{"Well."}},
		{"the agent's", "t", "one\nagent\nthree\nmore\n", []string{"merged with your changes", "Well."}},
		{"markers", "w", "one\n<<<<<<<", []string{"written with conflict markers", "Well."}},
		{"refused", "n", "one\nuser\nthree\nmore\n", []string{"the user changed the same lines", "Well."}},
		{"anything else asks again", "maybe\nn", "one\nuser\nthree\nmore\n", []string{"Please answer with one of y", "Which?", "Well."}},
		{"no editor", "e\nn", "one\nuser\nthree\nmore\n", []string{"set EDITOR", "Which?", "Well."}},
		{"end of input", "", "one\nuser\nthree\nmore\n", []string{"the user changed the same lines", "Well."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.txt")
			require.NoError(t, os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o644))
			saves := script.Func(func(*aycoder.Request) script.Step {
				require.NoError(t, os.WriteFile(file, []byte("one\nuser\nthree\nmore\n"), 0o644))
				return script.Call("edit_file", map[string]string{"path": "a.txt", "old_string": "two", "new_string": "agent"})
			})
			lines := "go\n"
			if tt.answer != "" {
				lines += tt.answer + "\n"
			}
			shown := talkWith(t, dir, lines, script.Call("read_file", map[string]string{"path": "a.txt"}), saves, script.Say("Well."))
			inOrder(t, shown, append([]string{"a.txt  you changed this file", "<<<<<<< yours, line 2\n  user\n", "=======\n  agent\n", "Which?"}, tt.shown...)...)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(data), tt.file), string(data))
			if tt.name != "markers" {
				require.Equal(t, tt.file, string(data))
			}
		})
	}
}

// The user goes through the conflicts of a file one by one, with suggestions that follow what they choose.
func TestConflictsOneByOne(t *testing.T) {
	file := func(who string) string {
		var b strings.Builder
		for i := range 3 {
			fmt.Fprintf(&b, "%s %d\n1\n2\n3\n4\n", who, i)
		}
		return b.String()
	}
	mixed := func(who ...string) string {
		var b strings.Builder
		for i, who := range who {
			fmt.Fprintf(&b, "%s %d\n1\n2\n3\n4\n", who, i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name, answers, file string
		shown               []string
	}{
		{
			"each", "o y s t y", mixed("user", "user", "agent"),
			[]string{"Line 1, 3 open:", "Line 6, 2 open:", "Line 11, 1 open:", "Write it?"},
		},
		{
			"the rest", "o t r y", file("agent"),
			[]string{"suggested, likely: takes the agent's and not yours, as the last conflict before", "Write it?"},
		},
		{"undo", "o t r u u t r y", file("agent"), []string{"Write it?", "Line 6, 2 open:", "Line 1, 3 open:", "Write it?"}},
		{"undo the end", "o y r u t t y", mixed("user", "agent", "agent"), []string{"Write it?", "Line 6, 2 open:", "Write it?"}},
		{"back, and markers", "o t b w", mixed("agent", "<<<<<<<")[:20], []string{"Line 6, 2 open:", "Which?"}},
		{"end of input", "o t", file("user"), []string{"Line 6, 2 open:", "the user changed the same lines"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // each question waits until nobody is typing
			data := conflicting(t, [3]string{file("base"), file("user"), file("agent")}, tt.answers, append(tt.shown, "Well.")...)
			require.True(t, strings.HasPrefix(data, tt.file), data)
			if !strings.Contains(tt.name, "markers") {
				require.Equal(t, tt.file, data)
			}
		})
	}
}

// conflicting returns what a file has in the end if the user saves it while the agent writes it, and gives these
// answers, which are shown with the texts between them.
func conflicting(t *testing.T, versions [3]string, answers string, shown ...string) string {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.txt")
	require.NoError(t, os.WriteFile(name, []byte(versions[0]), 0o644))
	saves := script.Func(func(*aycoder.Request) script.Step {
		require.NoError(t, os.WriteFile(name, []byte(versions[1]), 0o644))
		return script.Call("write_file", map[string]string{"path": "a.txt", "content": versions[2]})
	})
	lines := "go\n" + strings.ReplaceAll(answers, " ", "\n") + "\n"
	inOrder(t, talkWith(t, dir, lines, script.Call("read_file", map[string]string{"path": "a.txt"}), saves, script.Say("Well.")), shown...)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// After an answer that suggests a side, what a rule has found is the second suggestion.
func TestConflictsSecondSuggestion(t *testing.T) {
	t.Parallel()
	version := func(name, args string) string { return name + "\n1\n2\n3\n4\nf(" + args + ")\n" }
	texts := [3]string{version("base", "a, b, c"), version("user", "x, b, c"), version("agent", "a, b, y")}
	data := conflicting(t, texts, "o t e y", "suggested, likely: takes the agent's and not yours, as the last conflict before",
		"or else, hint: makes both changes, which do not overlap\n  f(x, b, y)\n", "(y/t/s/e/r/u/b)", "Write it?", "Well.")
	require.Equal(t, version("agent", "x, b, y"), data)
}

// The sides of a conflict show what nobody would see.
func TestConflictsShowAll(t *testing.T) {
	t.Parallel()
	s := newStage("")
	c := newTestChat(t, strings.NewReader(""), s, tty.Options{Plain: true}, &chat{})
	yours, theirs := "yours\u200b\n", "theirs\U000e0041\n"
	f := &edit.FileResult{Path: "a", Ours: yours, Theirs: theirs, Merge: new(merge.Merge([]byte("base\n"), []byte(yours), []byte(theirs)))}
	c.showRegion(f, f.Open()[0])
	require.NoError(t, c.Flush())
	inOrder(t, s.out, "yours<U+200B>\n", "theirs<U+E0041>\n")
}

// No marker of a conflict is left in a text that the user has edited. Lines of the file that look like one may stay.
func TestConflictsLeaveNoMarkers(t *testing.T) {
	t.Parallel()
	ours, theirs := "Title\n=======\nyours\n", "Title\n=======\ntheirs\n"
	f := &edit.FileResult{Path: "a", Ours: ours, Theirs: theirs, Merge: new(merge.Merge([]byte("Title\n=======\nbase\n"), []byte(ours), []byte(theirs)))}
	marked := string(f.Merge.Bytes())
	require.Contains(t, marked, "\n========\ntheirs\n", "which is no line of the file")
	c := &chat{ui: &ui{}}
	edited := func(text string) error {
		c.edit = func(string, []byte) ([]byte, error) { return []byte(text), nil }
		_, err := c.editConflict(f)
		return err
	}
	require.NoError(t, edited("Title\n=======\nboth\n"))
	require.ErrorContains(t, edited(marked[strings.Index(marked, "yours\n"):]), "markers left")
	require.ErrorContains(t, edited("Title\n=======\n"+strings.SplitAfter(marked, "\n")[2]), "markers left")
	require.ErrorContains(t, edited("Title\n=======\nboth\n>>>>>>>"+strings.Split(marked, ">>>>>>>")[1]), "markers left")
}

// A text that the user has edited is there to be mended if it cannot be used.
func TestEditGoesOn(t *testing.T) {
	t.Parallel()
	opened, texts := []string{}, []string{"{broken", "{broken", `{"path":"b"}`}
	c := &chat{ui: &ui{edit: func(_ string, text []byte) ([]byte, error) {
		opened = append(opened, string(text))
		return []byte(texts[len(opened)-1]), nil
	}}}
	for range 2 {
		_, err := c.editArgs([]byte(`{"path":"a"}`))
		require.ErrorContains(t, err, "not JSON")
	}
	now, err := c.editArgs([]byte(`{"path":"a"}`))
	require.NoError(t, err)
	require.Equal(t, `{"path":"b"}`, string(now))
	require.Equal(t, []string{"{\n  \"path\": \"a\"\n}", "{broken", "{broken"}, opened)
}
