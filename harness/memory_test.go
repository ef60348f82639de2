package harness_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/workspace"
)

// The tools of the memory write files that instruct agents. They do so unasked where the user has said so: by the mode
// full-auto, or by a rule for the tool. Other tools may not write the same files.
func TestMemoryUnasked(t *testing.T) {
	type args = map[string]any
	add := args{"pattern": "a", "rule": "b"}
	note := args{"note": "build", "text": "It takes long."}
	rule := func(action policy.RuleAction, tool, pattern string) config.Rule {
		return config.Rule{Action: action, Tool: tool, Pattern: pattern}
	}
	for _, c := range []struct {
		name  string
		mode  policy.Mode
		rules []config.Rule
		tool  string
		args  args
		asked int
		file  string // that has changed, or ""
	}{
		{"full-auto", policy.FullAuto, nil, "lesson_add", add, 0, "lessons.md"},
		{"full-auto, a note", policy.FullAuto, nil, "remember", note, 0, "memory/build.md"},
		{"full-auto, the end of a note", policy.FullAuto, nil, "forget", args{"note": "old"}, 0, "memory/old.md"},
		{"full-auto, the end of a lesson", policy.FullAuto, nil, "lesson_close", args{"id": "fd6641"}, 0, "lessons.md"},
		{"a rule for the tool", policy.Ask, []config.Rule{rule(policy.RuleAllow, "lesson_add", "")}, "lesson_add", add, 0, "lessons.md"},
		{"a rule for the note", policy.Ask, []config.Rule{rule(policy.RuleAllow, "remember", "build")}, "remember", note, 0, "memory/build.md"},
		{"a rule for another note", policy.Ask, []config.Rule{rule(policy.RuleAllow, "remember", "test")}, "remember", note, 1, ""},
		{"a rule for all tools", policy.Ask, []config.Rule{rule(policy.RuleAllow, "*", "")}, "remember", note, 1, ""},
		{"ask", policy.Ask, nil, "remember", note, 1, ""},
		{"accept-edits", policy.AcceptEdits, nil, "lesson_add", add, 1, ""},
		{"plan", policy.Plan, nil, "lesson_add", add, 0, ""},
		{"a path that is denied", policy.FullAuto, []config.Rule{rule(policy.RuleDeny, "*", ".aycoder/memory/**")}, "remember", note, 0, ""},
		{"a path that is asked about", policy.FullAuto, []config.Rule{rule(policy.RuleAsk, "*", ".aycoder/lessons.md")}, "lesson_add", add, 1, ""},
		{"another tool", policy.FullAuto, nil, "write_file", args{"path": ".aycoder/memory/build.md", "content": "x"}, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := project(t, map[string]string{".aycoder/lessons.md": "- PATTERN: p\n", ".aycoder/memory/old.md": "old\n"})
			before := contents(t, dir)
			rt := open(t, dir, harness.WithClient(script.New(script.Call(c.tool, c.args), script.Say("ok"))),
				harness.WithAmbient(harness.Lessons), harness.WithSettings(settings(t, func(s *config.Settings) {
					s.Approval.Mode, s.Approval.Rules = c.mode, c.rules
				})))
			asked := 0
			for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
				if q, ok := ev.(*aycoder.ApprovalRequested); ok {
					asked++
					q.Deny("no")
				}
			}
			require.Equal(t, c.asked, asked)
			after := contents(t, dir)
			for _, name := range []string{"lessons.md", "memory/build.md", "memory/old.md"} {
				require.Equal(t, c.file == name, before[name] != after[name], "%s: %q", name, after[name])
			}
		})
	}
}

// contents returns the files of the memory of a project.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := filepath.Join(dir, ".aycoder")
	require.NoError(t, filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(root, name)
		out[filepath.ToSlash(rel)] = string(data)
		return err
	}))
	return out
}

// In a project whose texts the user does not trust, the user's own lessons and notes are there, and nothing writes any.
func TestOwnLessonsInUntrustedProject(t *testing.T) {
	own, err := workspace.Open(project(t, map[string]string{
		"lessons.md": "- PATTERN: mine\n  RULE: yours\n", "memory/mine.md": "A note of the user.\n",
	}))
	require.NoError(t, err)
	defer own.Close()
	dir := project(t, map[string]string{".aycoder/lessons.md": "- PATTERN: INJECTED\n  RULE: x\n", ".aycoder/memory/n.md": "INJECTED words\n"})
	model := script.New(script.Call("recall_notes", map[string]string{}), script.Call("lesson_list", struct{}{}), script.Say("ok"))
	rt := open(t, dir, harness.WithClient(model), harness.WithAmbient(harness.Lessons), harness.WithUserFiles(own), harness.WithProjectTexts(false))
	run(t, rt, "go")
	requests := model.Requests()
	require.Contains(t, tail(requests[0]), "PATTERN: mine")
	require.Contains(t, script.LastOutput(requests[1]).Text(), "A note of the user.")
	require.Contains(t, script.LastOutput(requests[2]).Text(), "mine")
	data, err := json.Marshal(requests)
	require.NoError(t, err)
	require.NotContains(t, string(data), "INJECTED")
	for _, name := range []string{"lesson_add", "lesson_close", "remember", "forget"} {
		require.NotContains(t, toolNames(requests[0]), name)
	}
	all, err := rt.Memory.Lessons(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
}
