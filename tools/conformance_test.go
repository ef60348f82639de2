package tools_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

type maker func(tools.FS, ...tools.Option) (aycoder.Tool, error)

// fixture makes a tool in its own small workspace.
func fixture(build maker) func(testing.TB) agenttest.ToolSetup {
	return func(t testing.TB) agenttest.ToolSetup {
		t.Helper()
		dir := t.TempDir()
		files := map[string]string{
			"a.go":           "package a\n\nfunc Add(a, b int) int { return a + b }\n",
			"sub/b.go":       "package sub\n\nconst Name = \"b\"\n",
			"sub/long.txt":   strings.Repeat("a line of a long file\n", 5000),
			"binary.bin":     "\x00\x01\x02\xff",
			"node_modules/x": "skipped",
		}
		for name, text := range files {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ws, err := workspace.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.Close() })
		var at tools.FS = ws
		var opts []tools.Option
		if tools.Elsewhere != nil {
			var e tools.Exec
			at, e = tools.Elsewhere(t, ws)
			opts = append(opts, tools.WithExec(e))
		}
		tool, err := build(at, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return agenttest.ToolSetup{Tool: tool, Dir: dir}
	}
}

func withoutFiles(build func(...tools.Option) (aycoder.Tool, error)) maker {
	return func(_ tools.FS, opts ...tools.Option) (aycoder.Tool, error) { return build(opts...) }
}

func TestConformance(t *testing.T) {
	tests := []struct {
		name  string
		build maker
		cases []agenttest.ToolCase
	}{
		{"read_file", tools.ReadFile, []agenttest.ToolCase{
			{Name: "file", Args: `{"path":"a.go"}`, Want: "func Add"},
			{Name: "range", Args: `{"path":"sub/long.txt","offset":10,"limit":5}`, Want: "a line"},
			{Name: "no such file", Args: `{"path":"none.go"}`, Fails: true},
			{Name: "outside", Args: `{"path":"../x"}`, Fails: true},
		}},
		{"list_files", tools.ListFiles, []agenttest.ToolCase{
			{Name: "workspace", Args: `{}`, Want: "a.go"},
			{Name: "recursive", Args: `{"path":".","recursive":true}`, Want: "b.go"},
			{Name: "no such directory", Args: `{"path":"none"}`, Fails: true},
		}},
		{"code_search", tools.CodeSearch, []agenttest.ToolCase{
			{Name: "pattern", Args: `{"pattern":"func \\w+","context":1}`, Want: "Add"},
			{Name: "literal", Args: `{"pattern":"a + b","literal":true,"include":"*.go","exclude":"sub/**","path":".","ignore_case":true,"max_results":5}`, Want: "a.go"},
			{Name: "bad pattern", Args: `{"pattern":"("}`, Fails: true},
		}},
		{"edit_file", tools.EditFile, []agenttest.ToolCase{
			{Name: "replace", Args: `{"path":"a.go","old_string":"a + b","new_string":"b + a"}`},
			{Name: "create", Args: `{"path":"new/c.go","old_string":"","new_string":"package c\n","replace_all":false}`},
			{Name: "no match", Args: `{"path":"a.go","old_string":"none","new_string":"x"}`, Fails: true},
		}},
		{"multi_edit", tools.MultiEdit, []agenttest.ToolCase{
			{Name: "two edits", Args: `{"path":"a.go","edits":[{"old_string":"a + b","new_string":"b + a"},{"old_string":"b + a","new_string":"b - a","replace_all":true}]}`},
			{Name: "one fails", Args: `{"path":"a.go","edits":[{"old_string":"a","new_string":"b"},{"old_string":"none","new_string":"x"}]}`, Fails: true},
		}},
		{"write_file", tools.WriteFile, []agenttest.ToolCase{
			{Name: "create", Args: `{"path":"new/c.go","content":"package c\n"}`, Want: "created, 1 line"},
			{Name: "not read", Args: `{"path":"a.go","content":"package c\n"}`, Fails: true},
		}},
		{"apply_patch", tools.ApplyPatch, []agenttest.ToolCase{
			{Name: "patch", Args: `{"patch":"*** Begin Patch\n*** Update File: a.go\n@@\n-package a\n+package b\n*** Delete File: binary.bin\n*** End Patch\n"}`},
			{Name: "no patch", Args: `{"patch":"--- a\n+++ b\n"}`, Fails: true},
		}},
		{"bash", tools.Bash, []agenttest.ToolCase{
			{Name: "echo", Args: `{"command":"echo hi","timeout":20,"description":"say hi"}`, Want: "hi"},
			{Name: "sleep", Args: `{"command":"sleep 60"}`, Slow: true},
			{Name: "endless output", Args: `{"command":"while :; do echo x; done"}`, Slow: true},
			{Name: "ignores signals", Args: `{"command":"trap '' TERM INT; sleep 60 & wait"}`, Slow: true},
			{Name: "directory", Args: `{"command":"ls","working_dir":"sub"}`, Want: "b.go"},
			{Name: "no such directory", Args: `{"command":"ls","working_dir":"none"}`, Fails: true},
		}},
		{"job_output", withoutFiles(tools.JobOutput), []agenttest.ToolCase{
			{Name: "unknown", Args: `{"id":"bash-1","wait":1,"filter":"x"}`, Fails: true},
		}},
		{"job_stop", withoutFiles(tools.JobStop), []agenttest.ToolCase{
			{Name: "unknown", Args: `{"id":"bash-1"}`, Fails: true},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "bash" && runtime.GOOS == "windows" {
				t.Skip("bash does not run on Windows")
			}
			agenttest.TestTool(t, fixture(tt.build), tt.cases...)
		})
	}
}
