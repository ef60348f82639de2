// Package corpus finds the material that tests compare with and that is not part of the
// project: real traffic with providers, real merges, and attacks. docs/testing.md describes
// it. It is for tests only.
package corpus

import (
	"os"
	"path/filepath"
	"testing"
)

// Env is the environment variable with the directory that holds the material, as an
// absolute path. Default: the directory "shared" beside the repository.
const Env = "AYCODER_SHARED"

// Path returns where a file or directory of the material is, such as
// "merge/edits.jsonl.gz". Where the material is missing, the test is skipped, and says
// which cases it would have run; if the variable is set, it fails.
func Path(t testing.TB, name, cases string) string {
	t.Helper()
	path, ok := Find(t, name)
	if !ok {
		t.Skipf("no recorded material: %s in %s did not run; docs/testing.md says how to run them", cases, name)
	}
	return path
}

// Find is [Path] for tests that do not need the material.
func Find(t testing.TB, name string) (path string, ok bool) {
	t.Helper()
	dir := os.Getenv(Env)
	switch {
	case dir == "":
		dir = beside()
	case !filepath.IsAbs(dir):
		t.Fatalf("%s is not an absolute path: %q", Env, dir)
	}
	path = filepath.Join(dir, filepath.FromSlash(name))
	_, err := os.Stat(path)
	if err != nil && os.Getenv(Env) != "" {
		t.Fatalf("%s: %v", Env, err)
	}
	return path, err == nil
}

// beside returns the directory "shared" beside the repository. The tests of a module inside
// of it find the same one.
func beside() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	found := ""
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			found = filepath.Join(dir, "..", "shared")
		}
	}
	return found
}
