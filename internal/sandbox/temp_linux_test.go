package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A command that may change the directory of the host's temporary files puts a link in it, where the sandbox's directory
// was. The next command must not get what that leads to.
func TestTemporaryDirectoryInWorkspace(t *testing.T) {
	for name, open := range map[string]func(Policy) *Box{"landlock": Landlock, "bwrap": Bubblewrap} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("bwrap"); name == "bwrap" && err != nil {
				t.Skip("bwrap is not on this machine")
			}
			if name == "landlock" {
				needLandlock(t)
			}
			p := newPlace(t, os.Getuid())
			t.Setenv("TMPDIR", p.ws)
			policy := p.policy(t)
			policy.Read = append(policy.Read, in(p.out, "run")) // so that there is a directory around it
			b := open(policy)
			defer func() { require.NoError(t, b.Close()) }()
			run := func(script string) error {
				cmd := exec.Command("/bin/sh", "-c", script, "sh", in(p.out, "file"))
				cmd.Dir = p.ws
				_, err := b.Start(t.Context(), cmd, Call{})
				require.NoError(t, err)
				return cmd.Wait()
			}
			_ = run(`d=$(dirname "$TMPDIR"); mv "$d" "$d.was"; mkdir "$d"; ln -s ../../out "$TMPDIR"`)
			_ = run(`echo x >>"$1"`)
			data, err := os.ReadFile(in(p.out, "file"))
			require.NoError(t, err)
			assert.Equal(t, "text", string(data))
			assert.NotContains(t, filepath.Dir(b.temp), p.ws)
		})
	}
}
