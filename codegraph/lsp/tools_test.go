package lsp_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
)

// The second line has a letter of two bytes and one of two units before the name.
var codeFiles = map[string]string{
	"a.fake":   "def first\ndef other\n",
	"b c.fake": "use first\nä😀 first and first\n",
	"d.fake":   "# uses third, but not fourth\nuse third\n",
}

// call calls a tool of the client, and returns the text of its result or error.
func (w *world) call(name string, args map[string]any) (text string, failed bool) {
	w.Helper()
	list, err := w.client.Tools()
	require.NoError(w, err)
	for _, tool := range list {
		if tool.Spec().Name != name {
			continue
		}
		raw, err := json.Marshal(args)
		require.NoError(w, err)
		r, err := tool.Call(w.Context(), aycoder.NewInvocation("1", name, raw, nil))
		if err != nil {
			return err.Error(), true
		}
		return r.Text(), r.IsError
	}
	w.Fatal("no tool " + name)
	return "", true
}

func TestTools(t *testing.T) {
	const both = "a.fake:1: def first\nb c.fake:1: use first\nb c.fake:2: ä😀 first and first\nb c.fake:2: ä😀 first and first\n"
	type args = map[string]any
	for _, mode := range []string{"good", "utf-8"} {
		w := newWorld(t, codeFiles, lsp.WithServer(fake(mode)))
		for _, tt := range []struct {
			name, tool string
			args       args
			want       string
			fails      bool
		}{
			{"definition", "definition", args{"path": "b c.fake", "line": 2, "name": "first"}, "a.fake:1: def first\n", false},
			{"near", "definition", args{"path": "b c.fake", "line": 5, "name": "first"}, "(the name is in line 2, not 5)\na.fake:1: def first\n", false},
			{"far", "definition", args{"path": "b c.fake", "line": 50, "name": "first"}, `"first" is not in line 50 of b c.fake, nor near it`, true},
			{"no line", "definition", args{"path": "b c.fake", "name": "first"}, "a.fake:1: def first\n", false},
			{"only the name", "definition", args{"name": "other"}, "a.fake:2: def other\n", false},
			{"unknown name", "definition", args{"name": "nothing"}, `no declaration of "nothing" was found; give path and line of a place where it is used`, true},
			{"part of a name", "definition", args{"path": "b c.fake", "line": 1, "name": "fir"}, `"fir" is not in line 1 of b c.fake, nor near it`, true},
			{"undefined", "definition", args{"path": "b c.fake", "line": 2, "name": "and"}, "The language server knows of none.\n", false},
			{"references", "references", args{"path": "a.fake", "line": 1, "name": "first"}, both, false},
			{"references of a name", "references", args{"name": "first"}, both, false},
			{"after a comment", "references", args{"path": "d.fake", "name": "third"}, "d.fake:1: # uses third, but not fourth\nd.fake:2: use third\n", false},
			{"in a comment", "references", args{"path": "d.fake", "name": "fourth"}, filepath.Base(os.Args[0]) + ": references: no identifier found (code 0)", true},
		} {
			t.Run(mode+"/"+tt.name, func(t *testing.T) {
				text, failed := w.call(tt.tool, tt.args)
				require.Equal(t, tt.want, text)
				require.Equal(t, tt.fails, failed)
			})
		}
		_, failed := w.call("definition", args{"path": "../x.fake", "line": 1, "name": "x"})
		require.True(t, failed)
		_, failed = w.call("definition", args{"path": "none.fake", "line": 1, "name": "x"})
		require.True(t, failed)
	}
}

func TestToolsKeepTheContract(t *testing.T) {
	for i, cases := range [][]agenttest.ToolCase{{
		{Name: "use", Args: `{"path":"b c.fake","line":2,"name":"first"}`, Want: "a.fake:1: def first\n"},
		{Name: "name", Args: `{"name":"other"}`, Want: "a.fake:2"},
		{Name: "outside", Args: `{"path":"../x.fake","line":1,"name":"x"}`, Fails: true},
		{Name: "never", Args: `{"path":"never.fake","line":1,"name":"never"}`, Slow: true},
	}, {
		{Name: "declaration", Args: `{"path":"a.fake","line":1,"name":"first"}`, Want: "b c.fake:2"},
		{Name: "unknown", Args: `{"name":"nothing"}`, Want: "no declaration", Fails: true},
	}, {
		{Name: "rename", Args: `{"path":"a.fake","line":1,"name":"first","new_name":"second"}`, Want: "+def second"},
		{Name: "refused", Args: `{"path":"a.fake","line":1,"name":"first","new_name":"bad name"}`, Want: "not a name", Fails: true},
	}} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			agenttest.TestTool(t, func(t testing.TB) agenttest.ToolSetup {
				s := fake("good")
				s.Env = append(s.Env, "AYCODER_FAKE_LOG="+filepath.Join(t.TempDir(), "log"))
				w := newWorld(t, codeFiles, lsp.WithServer(s))
				w.write("never.fake", "never\n")
				// The server belongs to the client, and not to the call that needs it first.
				_, err := w.client.Definition(t.Context(), "a.fake", lsp.Position{Line: 1, Column: 5})
				require.NoError(t, err)
				list, err := w.client.Tools()
				require.NoError(t, err)
				return agenttest.ToolSetup{Tool: list[i], Dir: w.dir}
			}, cases...)
		})
	}
}

func TestColumns(t *testing.T) {
	for _, mode := range []string{"good", "utf-8"} {
		w := newWorld(t, codeFiles, lsp.WithServer(fake(mode)))
		found, err := w.client.References(t.Context(), "a.fake", lsp.Position{Line: 1, Column: 5})
		require.NoError(t, err)
		require.Equal(t, []lsp.Location{
			{Path: "a.fake", Position: lsp.Position{Line: 1, Column: 5}},
			{Path: "b c.fake", Position: lsp.Position{Line: 1, Column: 5}},
			{Path: "b c.fake", Position: lsp.Position{Line: 2, Column: 8}}, // 2 + 4 bytes and a space
			{Path: "b c.fake", Position: lsp.Position{Line: 2, Column: 18}},
		}, found)
	}
}

// A file outside the workspace is named and not read; a rename that reaches it is refused as a whole.
func TestOutside(t *testing.T) {
	w := newWorld(t, codeFiles, lsp.WithServer(fake("outside")))
	text, failed := w.call("definition", map[string]any{"path": "b c.fake", "line": 1, "name": "first"})
	require.False(t, failed)
	require.Equal(t, "a.fake:1: def first\n\"/usr/lib/100% std.fake\":5 (outside the workspace)\n",
		quoted(text))
	text, failed = w.call("rename", map[string]any{"path": "a.fake", "line": 1, "name": "first", "new_name": "second"})
	require.True(t, failed)
	require.Contains(t, text, "outside the workspace")
	require.Equal(t, codeFiles["a.fake"], w.text("a.fake"))
}

// quoted allows a path to be shown with or without quotes.
func quoted(text string) string {
	const name = "/usr/lib/100% std.fake"
	if i := len("a.fake:1: def first\n"); len(text) > i && text[i] == '/' {
		return text[:i] + `"` + name + `"` + text[i+len(name):]
	}
	return text
}

func TestRename(t *testing.T) {
	for _, mode := range []string{"good", "utf-8"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, codeFiles, lsp.WithServer(fake(mode)))
			args := map[string]any{"path": "b c.fake", "line": 2, "name": "first", "new_name": "second"}
			text, failed := w.call("rename", args)
			require.False(t, failed, text)
			require.Equal(t, "def second\ndef other\n", w.text("a.fake"))
			require.Equal(t, "use second\nä😀 second and second\n", w.text("b c.fake"))
			require.Contains(t, text, "-def first\n+def second\n")
			text, failed = w.call("rename", args)
			require.True(t, failed)
			require.Contains(t, text, "nor near it")
		})
	}
}

// A rename that a person approves keeps what the user has written since it was planned.
func TestRenameIsMerged(t *testing.T) {
	w := newWorld(t, map[string]string{"a.fake": "def first\n1\n2\n3\n"}, lsp.WithServer(fake("good")))
	list, err := w.client.Tools()
	require.NoError(t, err)
	rename := list[2]
	args := json.RawMessage(`{"path":"a.fake","line":1,"name":"first","new_name":"second"}`)
	inv := aycoder.NewInvocation("1", "rename", args, nil)
	plan, err := rename.(aycoder.Planner).Plan(t.Context(), inv)
	require.NoError(t, err)
	require.Equal(t, []edit.File{{Path: "a.fake", Kind: edit.Change, Base: "def first\n1\n2\n3\n", Proposed: "def second\n1\n2\n3\n"}}, plan.Files())
	require.Equal(t, "def first\n1\n2\n3\n", w.text("a.fake"))
	w.write("a.fake", "def first\n1\n2\n3\nof the user\n")
	inv.Plan = &plan
	r, err := rename.Call(t.Context(), inv)
	require.NoError(t, err)
	require.False(t, r.IsError, r.Text())
	require.Equal(t, "def second\n1\n2\n3\nof the user\n", w.text("a.fake"))
	require.NotNil(t, r.Changes)
}

// A rename changes files that its arguments do not name, so neither a rule for files nor the mode for edits lets it run unasked.
func TestRenameIsAskedAbout(t *testing.T) {
	w := newWorld(t, codeFiles, lsp.WithServer(fake("good")))
	list, err := w.client.Tools()
	require.NoError(t, err)
	p, err := policy.New(policy.WithMode(policy.AcceptEdits), policy.WithRules(policy.Project, policy.Rule{Action: policy.RuleAllow, Tool: "*", Pattern: "*.fake"}))
	require.NoError(t, err)
	spec := list[2].Spec()
	args := json.RawMessage(`{"path":"a.fake","line":1,"name":"first","new_name":"second"}`)
	v := p.Decide(t.Context(), &aycoder.ToolUse{ID: "1", Name: "rename", Args: args}, &spec)
	require.False(t, v.Allows(), v)
}

func TestRenameRefused(t *testing.T) {
	for mode, want := range map[string]string{
		"operations": "create, rename or delete files", "wrong place": "does not fit", "silent": "", "dies": "",
	} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, codeFiles, lsp.WithServer(fake(mode)))
			if mode == "silent" {
				go func() { time.AfterFunc(100*time.Millisecond, func() { w.client.Close() }) }()
			}
			_, err := w.client.Rename(t.Context(), "a.fake", lsp.Position{Line: 1, Column: 5}, "second")
			require.Error(t, err)
			require.ErrorContains(t, err, want)
		})
	}
	w := newWorld(t, codeFiles, lsp.WithServer(fake("good")))
	text, failed := w.call("rename", map[string]any{"path": "a.fake", "line": 1, "name": "first", "new_name": "bad name"})
	require.True(t, failed)
	require.Contains(t, text, "not a name")
	text, failed = w.call("rename", map[string]any{"path": "a.fake", "line": 2, "name": "first", "new_name": "x"})
	require.True(t, failed)
	require.Contains(t, text, "but in line 1")
	require.Equal(t, codeFiles["a.fake"], w.text("a.fake"))
}

func TestOptions(t *testing.T) {
	w := newWorld(t, nil)
	list, err := w.client.Tools()
	require.NoError(t, err)
	require.Empty(t, list, "no server, no tools")
	for name, opt := range map[string]lsp.Option{
		"no command": lsp.WithServer(lsp.Server{Languages: map[string]string{".go": "go"}}),
		"no files":   lsp.WithServer(lsp.Server{Command: []string{"gopls"}}),
		"settings":   lsp.WithServer(lsp.Server{Command: []string{"x"}, Languages: map[string]string{".go": "go"}, Settings: []byte("{")}),
		"wait":       lsp.WithWait(0),
		"script":     lsp.WithCommand(lsp.Command{Files: "*.go"}),
		"exec":       lsp.WithExec(nil),
	} {
		_, err := lsp.New(w.ws, opt)
		require.Error(t, err, name)
	}
	for _, name := range []string{"gopls", "pyright-langserver", "typescript-language-server", "rust-analyzer"} {
		s, ok := lsp.Known(name)
		require.True(t, ok)
		_, err := lsp.New(w.ws, lsp.WithServer(s))
		require.NoError(t, err)
	}
	_, ok := lsp.Known("vim")
	require.False(t, ok)
}

func TestCommands(t *testing.T) {
	w := newWorld(t, map[string]string{"it's a.txt": "one\n"},
		lsp.WithCommand(lsp.Command{Files: "*.txt", Script: "! grep -n bad {file}"}),
		lsp.WithCommand(lsp.Command{Files: "docs/*.txt", Script: "echo never; exit 1"}),
		lsp.WithWait(time.Minute))
	require.Empty(t, w.save("it's a.txt", "fine\n"))
	require.Equal(t, "\nwritten; new errors of ! grep -n bad {file}:\n2:bad thing\n", w.save("it's a.txt", "fine\nbad thing\n"))
	require.Empty(t, w.save("it's a.txt", "fine\nmore\nbad thing\n"))
	require.Equal(t, "\nwritten; ! grep -n bad {file} reports:\n1:bad\n", w.save("-b.txt", "bad\n"))
	require.Empty(t, w.save("c.go", "bad\n"))
}

// A change of many files, as a rename is one, is followed by a few lines.
func TestCommandsOfManyFiles(t *testing.T) {
	timed.Serial(t)
	w := newWorld(t, nil, lsp.WithWait(time.Minute),
		lsp.WithCommand(lsp.Command{Files: "*.txt", Script: "cat {file} {file} | tr a-z A-Z", Format: true}),
		lsp.WithCommand(lsp.Command{Files: "*.txt", Script: "echo {file}; false"}),
		lsp.WithCommand(lsp.Command{Files: "*.txt", Script: "seq 1 15; false"}))
	var files []edit.File
	for i := range 50 {
		files = append(files, edit.File{Path: strconv.Itoa(i) + ".txt", Kind: edit.Create, Proposed: strings.Repeat("some text\n", 200)})
	}
	plan, err := edit.NewPlan(files...)
	require.NoError(t, err)
	r, err := w.client.Middleware(func(ctx context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult, error) {
		res, err := w.ws.Apply(ctx, plan)
		return &aycoder.ToolResult{Changes: res}, err
	})(t.Context(), aycoder.NewInvocation("1", "any", []byte(`{}`), nil))
	require.NoError(t, err)
	text := r.Text()
	require.Contains(t, text, "written; echo {file}; false reports:\n0.txt\n")
	require.Contains(t, text, "written; echo {file}; false reports:\n1.txt\n", "each report begins a line")
	require.Contains(t, text, "\n(other files were not checked)\n")
	checks := text[strings.Index(text, "\nwritten; echo"):]
	require.Less(t, strings.Count(checks, "\n"), 80)
	require.Less(t, len(text), 40<<10)
}

func TestFormat(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"},
		lsp.WithCommand(lsp.Command{Files: "*.txt", Script: "echo noise >&2; tr a-z A-Z < {file}", Format: true}),
		lsp.WithCommand(lsp.Command{Files: "*.txt", Script: "! grep -n BAD {file}"}),
		lsp.WithWait(time.Minute))
	w.ws.Seen().Add("a.txt", "one\n")
	r, err := w.edit(t.Context(), aycoder.NewInvocation("1", "write_file", []byte(`{"path":"a.txt","content":"ONE\nbad\n"}`), nil))
	require.NoError(t, err)
	require.Equal(t, "ONE\nBAD\n", w.text("a.txt"))
	text := r.Parts[1].(*aycoder.Text).Text
	require.Contains(t, text, "formatted by echo noise >&2; tr a-z A-Z < {file}:\n")
	require.Contains(t, text, "-bad\n+BAD\n")
	require.Contains(t, text, "reports:\n2:BAD\n")
	require.Equal(t, []string{"ONE\nBAD\n"}, w.ws.Seen().Contents("a.txt")[:1], "the model has been shown the formatted text")
	require.Equal(t, "ONE\nBAD\n", r.Changes.Files[0].Content)
	_, err = w.ws.Apply(t.Context(), r.Changes.Undo())
	require.NoError(t, err)
	require.Equal(t, "one\n", w.text("a.txt"), "one undo takes both back")
}

// A format that fails, hangs or prints nothing leaves the file as the edit has left it.
func TestFormatFails(t *testing.T) {
	for _, script := range []string{"echo broken; exit 1", "true", "sleep 1000", "kill -9 $$", "cat {file}"} {
		t.Run(script, func(t *testing.T) {
			w := newWorld(t, map[string]string{"a.txt": "one\n"},
				lsp.WithCommand(lsp.Command{Files: "*.txt", Script: script, Format: true}), lsp.WithWait(300*time.Millisecond))
			require.Empty(t, w.save("a.txt", "two\n"))
		})
	}
}

// Lines that the user writes while a command formats are kept.
func TestFormatKeepsUsersLines(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "one\n"},
		lsp.WithCommand(lsp.Command{Files: "*.txt", Script: "tr a-z A-Z < {file}; printf 'two\\nx\\ny\\nof the user\\n' > {file}", Format: true}),
		lsp.WithWait(time.Minute))
	w.ws.Seen().Add("a.txt", "one\n")
	r, err := w.edit(t.Context(), aycoder.NewInvocation("1", "write_file", []byte(`{"path":"a.txt","content":"two\nx\ny\n"}`), nil))
	require.NoError(t, err)
	require.False(t, r.IsError)
	require.Contains(t, w.text("a.txt"), "of the user\n")
	_, err = os.Stat(filepath.Join(w.dir, "a.txt"))
	require.NoError(t, err)
}
