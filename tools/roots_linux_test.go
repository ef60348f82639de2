package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// Every tool works on the files of a further root by the paths that the others show.
func TestToolsInRoots(t *testing.T) {
	lib := t.TempDir()
	for name, text := range map[string]string{"src/a.go": "package lib // needle\n", "b.o": "needle\n", ".gitignore": "*.tmp\n", "x.tmp": "needle\n", ".env": "needle\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(lib, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(lib, name), []byte(text), 0o644))
	}
	w := newWorld(t, map[string]string{"main.go": "package main // needle\n", ".gitignore": "*.o\nlib\n", "c.o": "needle\n", "lib:x": "needle\n"})
	if _, ok := w.tool["bash"]; !ok || Elsewhere != nil {
		t.Skip("there are no further roots elsewhere")
	}
	w.open(workspace.WithRoot("lib", lib))
	text := func(tool string, in args) string { return w.call(tool, in).Text() }

	assert.Contains(t, text("list_files", args{}), "lib:/\n")
	assert.Equal(t, ".gitignore\nlib:/\nlib:/.env\nlib:/.gitignore\nlib:/b.o\nlib:/src/\nlib:/src/a.go\nlib:x\nmain.go\n",
		strings.Split(text("list_files", args{"recursive": true}), "[")[0])
	for _, tt := range []struct{ pattern, path, want string }{
		{"*.go", "", "lib:/src/a.go\nmain.go\n"}, {"lib:/**/*.go", "", "lib:/src/a.go\n"}, {"*.go", "lib:", "lib:/src/a.go\n"},
		{"src/*.go", "lib:/", "lib:/src/a.go\n"}, {lib + "/**", "", "lib:/.env\nlib:/.gitignore\nlib:/b.o\nlib:/src/a.go\n"}, {"x*/*.go", "", "No files match.\n"},
	} {
		in := args{"pattern": tt.pattern}
		if tt.path != "" {
			in["path"] = tt.path
		}
		assert.Equal(t, tt.want, strings.Split(text("glob", in), "[")[0], "%v", in)
	}
	found := text("code_search", args{"pattern": "needle"})
	for _, name := range []string{"main.go", "lib:/src/a.go", "lib:/b.o", "lib:x"} {
		assert.Contains(t, found, name)
	}
	for _, name := range []string{"c.o", "x.tmp", ".env\n"} {
		assert.NotContains(t, found, name)
	}

	assert.Contains(t, text("read_file", args{"path": lib + "/src/a.go"}), "package lib")
	assert.Contains(t, text("edit_file", args{"path": "lib:/src/a.go", "old_string": "needle", "new_string": "thread"}), "lib:/src/a.go")
	assert.Contains(t, text("apply_patch", args{"patch": "*** Begin Patch\n*** Add File: lib:/new.go\n+package lib\n*** Add File: new.go\n+package main\n*** End Patch\n"}), "lib:/new.go")
	assert.FileExists(t, lib+"/new.go")
	assert.FileExists(t, w.path("new.go"))
	// A move from one root to another.
	text("apply_patch", args{"patch": "*** Begin Patch\n*** Update File: new.go\n*** Move to: lib:/moved.go\n@@\n-package main\n+package moved\n*** End Patch\n"})
	assert.FileExists(t, lib+"/moved.go")
	assert.NoFileExists(t, w.path("new.go"))
	for _, name := range []string{"lib:/../ws/main.go", "lib:/../main.go", "other:/a", "./lib:/b.o", "lib:/.env"} {
		r := w.call("read_file", args{"path": name})
		assert.True(t, r.IsError, name)
		r = w.call("write_file", args{"path": name, "content": "x"})
		assert.True(t, r.IsError, name)
	}

	// A shell may stand in a root, and shows where it is.
	assert.Contains(t, text("bash", args{"command": "cat a.go", "working_dir": "lib:/src"}), "thread")
	assert.Contains(t, text("bash", args{"command": "cd " + lib + "/src && pwd"}), lib+"/src")
	assert.Contains(t, text("bash", args{"command": "cat a.go; false"}), "in lib:/src]")
	assert.NotEmpty(t, w.ws.Seen().Contents("lib:/src/a.go"))
	assert.Contains(t, text("bash", args{"command": "cd ../../; true"}), "outside the workspace")
	assert.Contains(t, text("bash", args{"command": "pwd"}), w.path(""))
	assert.True(t, w.call("bash", args{"command": "pwd", "working_dir": "lib:/../"}).IsError)

	// One that stood in a root that the workspace does not have any more.
	shell := new(Shell)
	require.NoError(t, json.Unmarshal([]byte(`"other:/src"`), shell))
	bash, err := Bash(w.ws, WithShell(shell))
	require.NoError(t, err)
	r, err := bash.Call(t.Context(), aycoder.NewInvocation("1", "bash", mustJSON(t, args{"command": "touch here"}), nil))
	require.NoError(t, err)
	assert.Contains(t, r.Text(), "is gone")
	assert.Equal(t, ".", shell.Dir())

	// A sandbox lets a command change each root, and nothing beside them.
	box, err := Landlock(w.ws)
	require.NoError(t, err)
	defer box.Close()
	if _, err := CheckSandbox(t.Context(), box, SandboxCall{Require: true}); err != nil {
		t.Logf("no sandbox: %v", err)
		return
	}
	out := t.TempDir()
	bash, err = Bash(w.ws, WithSandbox(box), WithSandboxRequired(true))
	require.NoError(t, err)
	r, err = bash.Call(t.Context(), aycoder.NewInvocation("1", "bash",
		mustJSON(t, args{"command": "echo 1 > boxed; echo 2 > " + lib + "/boxed; echo 3 > " + out + "/boxed"}), nil))
	require.NoError(t, err)
	assert.FileExists(t, w.path("boxed"), r.Text())
	assert.FileExists(t, lib+"/boxed", r.Text())
	assert.NoFileExists(t, out+"/boxed")
	_, err = Landlock(w.ws, WithSandboxProtect("other:/x"))
	require.Error(t, err)
	_, err = Landlock(w.ws, WithSandboxProtect("lib:/../x"))
	require.Error(t, err)
}
