package harness_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
)

// unaskedDir is the variable with the directory of the process that is watched.
const unaskedDir = "AYCODER_TEST_UNASKED"

// TestUnaskedChild is the process that [TestReadsNothingElse] watches.
func TestUnaskedChild(t *testing.T) {
	dir := os.Getenv(unaskedDir)
	if dir == "" {
		t.Skip("is run by TestReadsNothingElse")
	}
	model := script.New(
		script.Call("list_files", struct{}{}), script.Call("read_file", map[string]any{"path": "a.txt"}),
		script.Call("glob", map[string]any{"pattern": "**/*"}), script.Call("code_search", map[string]any{"pattern": "x"}),
		script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "x", "new_string": "y"}), script.Say("ok"))
	rt, err := harness.New(context.Background(), dir, harness.WithClient(model))
	require.NoError(t, err)
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			q.Allow()
		}
		if e, ok := ev.(*aycoder.ToolFinished); ok {
			require.NoError(t, e.Err)
		}
	}
	require.NoError(t, rt.Close())
}

// named matches the name of a file in a line of strace, with the directory that it is relative to.
var named = regexp.MustCompile(`^\d+ +(?:open|openat|openat2|execve|readlink|readlinkat)\((?:(AT_FDCWD|\d+)(?:<[^>]*>)?, )?"([^"]*)"`)

// A runtime without options opens nothing outside of its directory, whatever lies around it. The function ownOfGo
// lists what a process of Go opens by itself.
func TestReadsNothingElse(t *testing.T) {
	timed.Serial(t)
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace")
	}
	home, dir := t.TempDir(), t.TempDir()
	ws := filepath.Join(dir, "ws")
	for _, name := range []string{
		filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/aycoder/config.toml"), filepath.Join(home, ".config/git/ignore"),
		filepath.Join(home, ".claude/settings.json"), filepath.Join(dir, "AGENTS.md"), filepath.Join(dir, ".aycoder/config.toml"),
		filepath.Join(ws, "a.txt"), filepath.Join(ws, ".git/HEAD"),
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command(strace, "-f", "-o", log, "-e", "trace=open,openat,openat2,execve,readlink,readlinkat",
		os.Args[0], "-test.run=^TestUnaskedChild$", "-test.v")
	cmd.Env = []string{unaskedDir + "=" + ws, "HOME=" + home, "XDG_CONFIG_HOME=" + home + "/.config", "PATH=/usr/bin:/bin"}
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "ptrace") {
		t.Skip("strace may not trace here: ", string(out))
	}
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestUnaskedChild")
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	inside, n := 0, 0
	for line := range strings.Lines(string(data)) {
		m := named.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n++
		switch at, name := m[1], m[2]; {
		case !filepath.IsAbs(name) && at != "" && at != "AT_FDCWD", strings.HasPrefix(name+"/", ws+"/"):
			inside++ // relative to the directory, which is open
		case ownOfGo(name), strings.HasPrefix(ws+"/", name+"/") && strings.Contains(line, "readlink"):
		default:
			t.Errorf("opened: %s", line)
		}
	}
	require.Greater(t, inside, 5)
	t.Logf("%d opens, %d in the directory", n, inside)
}

// ownOfGo reports whether a process of Go opens a file by itself.
func ownOfGo(name string) bool {
	for _, prefix := range []string{"/sys/", "/proc/self/", "/dev/null", "/etc/ld.so.", "/lib/", "/usr/lib/", os.Args[0]} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == filepath.Dir(os.Args[0])
}
