package tools

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Temporary files of a change belong to nobody: no tool shows or changes them, even by
// their name. A file with a similar name is an ordinary file.
func TestTemporaryFilesAreHidden(t *testing.T) {
	const id = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	temps := []string{".aycoder-" + id + ".tmp", "d/.aycoder-" + id + "-0-1.tmp", "d/.aycoder-0123456789abcdef-" + id + ".tmp"}
	others := []string{".aycoder-notes.tmp", "d/aycoder-" + id + ".tmp", "d/.aycoder-" + id + ".tmp.txt"}
	files := map[string]string{"d/x": "needle\n"}
	for _, name := range slices.Concat(others, temps) {
		files[name] = "needle\n"
	}
	w := newWorld(t, files)
	require.NoError(t, os.Symlink(".aycoder-"+id+".tmp", w.path("link")))
	told := w.ok("list_files", args{"recursive": true}) + w.ok("list_files", args{"path": "d"}) +
		w.ok("glob", args{"pattern": "**/.aycoder*"}) + w.ok("glob", args{"pattern": "*"}) +
		w.ok("code_search", args{"pattern": "needle"}) + w.ok("code_search", args{"pattern": "needle", "path": "d"})
	for _, name := range others {
		assert.Contains(t, told, name)
		assert.Contains(t, w.ok("read_file", args{"path": name}), "needle")
	}
	for _, name := range temps {
		assert.NotContains(t, strings.Split(told, "\n"), name)
	}
	for _, name := range append(temps, "link") {
		w.fails("not_found", "read_file", args{"path": name})
		w.fails("not_found", "code_search", args{"pattern": "needle", "path": name})
		w.fails("protected_path", "write_file", args{"path": name, "content": "x"})
		w.fails("protected_path", "edit_file", args{"path": name, "old_string": "needle", "new_string": "x"})
	}
}

// An executable file stays executable when it is moved.
func TestMoveKeepsMode(t *testing.T) {
	w := newWorld(t, map[string]string{"run.sh": "#!/bin/sh\nfalse\n"})
	require.NoError(t, os.Chmod(w.path("run.sh"), 0o751))
	patch := patchText("*** Update File: run.sh\n*** Move to: bin/run.sh\n@@\n-false\n+true\n")
	assert.Contains(t, w.plan("apply_patch", patch).Preview(), "new file mode 100755")
	w.ok("apply_patch", patch)
	info, err := os.Stat(w.path("bin/run.sh"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o751), info.Mode())
	assert.NoFileExists(t, w.path("run.sh"))
}
