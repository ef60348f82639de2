// Package gittest runs git in tests, as somebody without settings.
package gittest

import (
	"os"
	"os/exec"
	"testing"
)

// Run runs git in a directory, and returns what it prints. The test is skipped where git is missing.
func Run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return With(t, dir, nil, args...)
}

// With is Run with further variables, such as GIT_AUTHOR_NAME=x.
func With(t testing.TB, dir string, vars []string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command("git", append([]string{"-c", "maintenance.auto=false"}, args...)...) // which would write in the background
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"), vars...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}
