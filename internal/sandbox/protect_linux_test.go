package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A command cannot take the protection from a file for the next one: not by another name of a directory around it, and
// not by a link in its place, which would show what it leads to.
func TestProtectedFiles(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bwrap is not on this machine")
	}
	p := newPlace(t, os.Getuid())
	require.NoError(t, os.MkdirAll(in(p.ws, "a/b"), 0o755))
	require.NoError(t, os.WriteFile(in(p.ws, "a/b/key"), []byte("text"), 0o644))
	policy := p.policy(t)
	policy.Read = append(policy.Read, in(p.out, "run")) // so that there is a directory around it
	policy.Protect = []string{in(p.ws, "a/b/key"), in(p.ws, "none")}
	b := Bubblewrap(policy)
	defer func() { require.NoError(t, b.Close()) }()
	run := func(script string) string {
		cmd := exec.Command("/bin/sh", "-c", script, "sh", p.out)
		cmd.Dir = p.ws
		var out bytes.Buffer
		cmd.Stdout = &out
		_, err := b.Start(t.Context(), cmd, Call{})
		require.NoError(t, err)
		_ = cmd.Wait()
		return out.String()
	}
	run(`mv a c; mv a/b a/c; mkdir -p a/b; ln -s ../out/a none; echo new >a/b/new`)
	run(`find . -name key | while read -r f; do echo x >>"$f"; done`)
	data, err := os.ReadFile(in(p.ws, "a/b/key"))
	assert.NoError(t, err)
	assert.Equal(t, "text", string(data))
	assert.FileExists(t, in(p.ws, "a/b/new"))
	assert.Empty(t, strings.TrimSpace(run(`cat "$1/a"`)))
}
