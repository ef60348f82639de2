package tools

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/workspace"
)

// runBy makes one call in a run with the approver a, and returns how it ended.
func (w *world) runBy(a aycoder.Approver, tool string, in args, answer func(*aycoder.ApprovalRequested)) *aycoder.ToolFinished {
	w.t.Helper()
	m := &model{turns: [][]*aycoder.ToolUse{{{ID: "c1", Name: tool, Args: mustJSON(w.t, in)}}}}
	coding, err := Coding(w.ws)
	require.NoError(w.t, err)
	loop, err := aycoder.New(m, aycoder.WithTools(coding...), aycoder.WithApprover(a))
	require.NoError(w.t, err)
	var fin *aycoder.ToolFinished
	for ev, err := range loop.Run(w.t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(w.t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			answer(ev)
		case *aycoder.ToolFinished:
			fin = ev
		}
	}
	require.NotNil(w.t, fin)
	return fin
}

// snapshot returns the content of all files.
func (w *world) snapshot() map[string]string {
	files := map[string]string{}
	require.NoError(w.t, filepath.WalkDir(w.path("."), func(p string, d os.DirEntry, err error) error {
		require.NoError(w.t, err)
		if d.Type().IsRegular() {
			data, err := os.ReadFile(p)
			require.NoError(w.t, err)
			files[p] = string(data)
		}
		return nil
	}))
	return files
}

func generous(t *testing.T, dir string) map[string]aycoder.Approver {
	all := map[string]aycoder.Approver{
		"allows all": aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() }),
	}
	for _, mode := range []policy.Mode{policy.Ask, policy.AcceptEdits, policy.FullAuto} {
		for name, patterns := range map[string][]string{
			"": nil, " and a rule for all": {""},
			" and rules for all paths": {"**", "{*,.*}/**", ".*/**", "conf*", "*.{md,MD,py,toml,yml}"},
		} {
			var rules []policy.Rule
			for _, p := range patterns {
				rules = append(rules, policy.Rule{Action: policy.RuleAllow, Tool: "*", Pattern: p})
			}
			p, err := policy.New(policy.WithMode(mode), policy.WithWorkspace(dir), policy.WithRules(policy.User, rules...))
			require.NoError(t, err)
			all[string(mode)+name] = p
		}
	}
	return all
}

// startFileCalls are calls that would write a file that is executed, with a part of the
// question that must be asked.
func startFileCalls(w *world) []struct {
	tool string
	in   args
	why  string
} {
	patch := func(lines ...string) args {
		return args{"patch": "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n"}
	}
	type call = struct {
		tool string
		in   args
		why  string
	}
	return []call{
		{"write_file", args{"path": "conftest.py", "content": "x\n"}, "test loads it"},
		{"write_file", args{"path": "./a/../conftest.py", "content": "x\n"}, "test loads it"},
		{"write_file", args{"path": w.path("conftest.py"), "content": "x\n"}, "test loads it"},
		{"write_file", args{"path": "CONFTEST.py", "content": "x\n"}, "test loads it"},
		{"write_file", args{"path": ".github/workflows/x.yml", "content": "x\n"}, "CI service"},
		{"write_file", args{"path": ".vscode/tasks.json", "content": "{}\n"}, "editor"},
		{"write_file", args{"path": "fixture/HEAD", "content": "ref: refs/heads/x\n"}, "repository"},
		{"write_file", args{"path": "fixture/hooks/pre-commit", "content": "x\n"}, "hooks"},
		{"edit_file", args{"path": "AGENTS.md", "old_string": "be good", "new_string": "be bad"}, "agents"},
		{"multi_edit", args{"path": "sub/.gitattributes", "edits": []args{{"old_string": "*.x", "new_string": "*.y"}}}, "git"},
		{"apply_patch", patch("*** Add File: .cargo/config.toml", "+[build]"), "build"},
		{"apply_patch", patch("*** Update File: a.txt", "*** Move to: .envrc"), "shell"},
		{"apply_patch", patch("*** Update File: a.txt", "*** Move to: sub/.gitlab-ci.yml", "@@", "-a", "+b"), "CI service"},
		{"apply_patch", patch("*** Update File: AGENTS.md", "*** Move to: old.md"), "agents"},
		{"apply_patch", patch("*** Delete File: AGENTS.md"), "agents"},
		{"apply_patch", patch("*** Update File: a.txt", "@@", "-a", "+b", "*** Add File: .husky/pre-commit", "+x"), "hooks"},
	}
}

var startFiles = map[string]string{"AGENTS.md": "be good\n", "sub/.gitattributes": "*.x text\n", "a.txt": "a\n"}

// Even an approver that allows everything asks about files that are executed, and says
// why. Without an answer nothing is written; with one, the approved plan is.
func TestStartFilesAreAskedAbout(t *testing.T) {
	timed.Serial(t)
	dir := newWorld(t, nil).path(".")
	asked := 0
	for name := range generous(t, dir) {
		t.Run(name, func(t *testing.T) {
			for i := range startFileCalls(newWorld(t, nil)) {
				w := newWorld(t, startFiles)
				w.readAll()
				c := startFileCalls(w)[i]
				before, questions := w.snapshot(), 0
				fin := w.runBy(generous(t, w.path("."))[name], c.tool, c.in, func(a *aycoder.ApprovalRequested) {
					questions++
					assert.Contains(t, strings.Join(a.Request.Reasons, "\n"), c.why, "%v", c.in)
					a.Deny("no")
				})
				require.Equal(t, 1, questions, "%s %v: %s", c.tool, c.in, fin.Output.Text())
				require.Equal(t, before, w.snapshot(), "%s %v", c.tool, c.in)

				fin = w.runBy(generous(t, w.path("."))[name], c.tool, c.in, func(a *aycoder.ApprovalRequested) { require.True(t, a.Allow()) })
				require.False(t, fin.Output.IsError, fin.Output.Text())
				require.NotEqual(t, before, w.snapshot(), "%s %v", c.tool, c.in)
				asked++
			}
		})
	}
	t.Logf("%d calls asked about", asked)
}

// readAll shows all files to the model.
func (w *world) readAll() {
	for p, text := range w.snapshot() {
		rel, err := filepath.Rel(w.path("."), p)
		require.NoError(w.t, err)
		w.ws.Seen().Add(filepath.ToSlash(rel), text)
	}
}

// A rule that names the file covers it, and no other.
func TestStartFilesByARuleThatNamesThem(t *testing.T) {
	tests := []struct{ pattern, path string }{
		{"conftest.py", "conftest.py"},
		{"**/conftest.py", "tests/conftest.py"},
		{".github/**", ".github/workflows/x.yml"},
	}
	for _, tt := range tests {
		rule := policy.Rule{Action: policy.RuleAllow, Tool: "*", Pattern: tt.pattern}
		p, err := policy.New(policy.WithRules(policy.User, rule))
		require.NoError(t, err)
		for tool, in := range map[string]args{
			"write_file":  {"path": tt.path, "content": "x\n"},
			"apply_patch": {"patch": "*** Begin Patch\n*** Add File: " + tt.path + "\n+x\n*** End Patch\n"},
		} {
			w := newWorld(t, nil)
			fin := w.runBy(p, tool, in, func(a *aycoder.ApprovalRequested) { t.Errorf("%s %s: asked", tool, tt.path) })
			require.False(t, fin.Output.IsError, fin.Output.Text())
			require.Equal(t, "x\n", w.read(tt.path))
			w.runBy(p, "write_file", args{"path": ".envrc", "content": "x\n"}, func(a *aycoder.ApprovalRequested) { a.Deny("") })
			require.NoFileExists(t, w.path(".envrc"))
		}
	}
}

// A link is not a second name for such a file: even an approved plan is not written
// through it.
func TestStartFilesBehindLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links take a privilege")
	}
	for link, to := range map[string]string{
		"notes.md": "AGENTS.md", "gh": ".github", "new": ".envrc", "b": "bare.git", "CLAUDE.md": ".github/x.yml",
	} {
		w := newWorld(t, map[string]string{"AGENTS.md": "a\n", ".github/x.yml": "a\n", "bare.git/config": "a\n"})
		require.NoError(t, os.Symlink(to, w.path(link)))
		w.readAll()
		name := link
		if info, err := os.Stat(w.path(link)); err == nil && info.IsDir() {
			name += "/x.yml"
		}
		before := w.snapshot()
		for approver, a := range generous(t, w.path(".")) {
			for _, c := range []struct {
				tool string
				in   args
			}{
				{"write_file", args{"path": name, "content": "x\n"}},
				{"apply_patch", args{"patch": "*** Begin Patch\n*** Add File: " + name + "\n+x\n*** End Patch\n"}},
				{"edit_file", args{"path": name, "old_string": "a", "new_string": "b"}},
			} {
				fin := w.runBy(a, c.tool, c.in, func(a *aycoder.ApprovalRequested) { a.Allow() })
				require.True(t, fin.Output.IsError, "%s %s: %s", approver, name, fin.Output.Text())
				require.Equal(t, before, w.snapshot(), "%s: %s %s", approver, c.tool, name)
			}
		}
	}
}

// The internal files of version control are never written, and the user is not asked.
func TestStoresAreNotWritten(t *testing.T) {
	w := newWorld(t, map[string]string{
		".git/config": "c\n", "x/HEAD": "ref: refs/heads/main\n", "x/objects/o": "", "x/refs/r": "", "x/config": "c\n",
	})
	w.readAll()
	before := w.snapshot()
	for approver, a := range generous(t, w.path(".")) {
		for _, name := range []string{
			".git/config", ".git/hooks/pre-commit", ".GIT/x", ".hg/hgrc", ".svn/x", ".jj/x", ".bzr/x", "mirror.git/config", "x/config", "x/hooks/pre-commit",
			"x/info/attributes", "x/HEAD",
		} {
			fin := w.runBy(a, "write_file", args{"path": name, "content": "x\n"}, func(*aycoder.ApprovalRequested) {
				t.Errorf("%s: asked about %s", approver, name)
			})
			require.True(t, strings.HasPrefix(fin.Output.Text(), "protected_path: "), "%s: %s", name, fin.Output.Text())
		}
	}
	require.Equal(t, before, w.snapshot())
}

// A direct call of a tool, and a plan that a host applies, also honour the approval.
func TestStartFilesOutsideOfARun(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "a\n"})
	w.fails("protected_path", "write_file", args{"path": "conftest.py", "content": "x"})
	w.fails("protected_path", "apply_patch", args{"patch": "*** Begin Patch\n*** Update File: a.txt\n*** Move to: .envrc\n*** End Patch\n"})
	plan, err := edit.NewPlan(edit.File{Path: ".envrc", Kind: edit.Create, Proposed: "x\n"})
	require.NoError(t, err)
	_, err = w.ws.Apply(t.Context(), plan)
	require.ErrorContains(t, err, "a shell")
	require.NoFileExists(t, w.path(".envrc"))
	_, err = w.ws.Apply(t.Context(), plan, workspace.WithApproved(plan.Digest()))
	require.NoError(t, err)
	require.Equal(t, "x\n", w.read(".envrc"))
	back, err := edit.NewPlan(edit.File{Path: ".envrc", Kind: edit.Delete, Base: "x\n"})
	require.NoError(t, err)
	_, err = w.ws.Apply(t.Context(), back)
	require.ErrorContains(t, err, "a shell", "taking it back is a write too")
}

// A rule that names some of many such files does not name the others.
func TestStartFilesInLargePatches(t *testing.T) {
	var lines strings.Builder
	lines.WriteString("*** Begin Patch\n")
	for i := range 20 {
		lines.WriteString("*** Add File: " + strings.Repeat("x", i+1) + "/conftest.py\n+x\n")
	}
	in := args{"patch": lines.String() + "*** Add File: .envrc\n+x\n*** End Patch\n"}
	p, err := policy.New(policy.WithMode(policy.FullAuto), policy.WithRules(policy.User,
		policy.Rule{Action: policy.RuleAllow, Tool: "apply_patch", Pattern: "{**/conftest.py,.envrc,**}"},
		policy.Rule{Action: policy.RuleAllow, Tool: "apply_patch", Pattern: "**/conftest.py"}))
	require.NoError(t, err)
	w, asked := newWorld(t, nil), 0
	w.runBy(p, "apply_patch", in, func(a *aycoder.ApprovalRequested) { asked++; a.Deny("") })
	require.Equal(t, 1, asked)
	require.Empty(t, w.snapshot())
}
