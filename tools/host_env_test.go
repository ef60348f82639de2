//go:build linux

package tools

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostSecrets are in the environment with which the host was started: /proc shows that
// environment, whatever the host sets later.
var hostSecrets = map[string]string{
	"OPENAI_API_KEY": "sk-test-1234567890", "GITHUB_TOKEN": "ghp_x1y2z3a4b5c6d7e8f9g0h1i2j3k4l5m6n7o8",
	"DB_PASSWORD": "hunter2hunter2", "MY_SECRET": "zzz-zzz-zzz-9",
}

// A command cannot print the environment of its host, neither from its own nor from that
// of its parent process.
func TestHostEnvironmentStaysSecret(t *testing.T) {
	if os.Getenv("AYCODER_TEST_HOST") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostEnvironmentStaysSecret$", "-test.v")
		cmd.Env = append(os.Environ(), "AYCODER_TEST_HOST=1")
		for name, value := range hostSecrets {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS")
		return
	}
	own, err := os.ReadFile("/proc/self/environ")
	require.NoError(t, err)
	require.Contains(t, string(own), "OPENAI_API_KEY=sk-test-1234567890", "the variable is there to be seen")
	for _, command := range []string{
		"env", "cat /proc/$PPID/environ", `tr '\0' '\n' < /proc/$PPID/environ`, "base64 -w0 /proc/$PPID/environ", "strings /proc/$PPID/environ || grep -a . /proc/$PPID/environ",
		`p=$PPID; while [ "$p" -gt 1 ]; do cat /proc/$p/environ 2>/dev/null; p=$(awk '/^PPid/{print $2}' /proc/$p/status); done`,
	} {
		w, _, _ := shellWorld(t, nil)
		text := w.call("bash", args{"command": command}).Text()
		for name, value := range hostSecrets {
			require.False(t, strings.Contains(text, value), "%s prints %s", command, name)
		}
	}
}
