package remote

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/tools"
)

// contained connects to a process with a separate root, in which the directory is /work: as in a
// container, it sees nothing else of this machine but programs and libraries.
func contained(t testing.TB, dir string) *Client {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("bwrap is not installed, so there is no container-like root to serve from")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	args := []string{"--unshare-all", "--die-with-parent", "--bind", dir, "/work", "--ro-bind", exe, "/serve",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", served, "/work"}
	for _, d := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"} {
		if _, err := os.Stat(d); err == nil {
			args = append(args, "--ro-bind", d, d)
		}
	}
	if out, err := exec.Command(bwrap, append(args, "/bin/true")...).CombinedOutput(); err != nil {
		t.Skipf("bwrap does not work here, so there is no container-like root to serve from: %s", out)
	}
	c, err := Start(t.Context(), exec.Command(bwrap, append(args, "/serve")...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.Equal(t, "/work", c.Dir())
	return c
}

// The suites and the tools work with a server in a separate root, under another path.
func TestFSInContainer(t *testing.T) {
	notTwice(t)
	agenttest.TestFS(t, func(t testing.TB, dir string) tools.FS { return contained(t, dir) })
}

func TestExecInContainer(t *testing.T) {
	notTwice(t)
	agenttest.TestExec(t, func(t testing.TB, dir string) (tools.Exec, string) { return contained(t, dir), "/work" })
}

func TestToolsInContainer(t *testing.T) {
	notTwice(t)
	for name, tt := range map[string]struct {
		build func(tools.FS, ...tools.Option) (aycoder.Tool, error)
		cases []agenttest.ToolCase
	}{
		"read_file":   {tools.ReadFile, []agenttest.ToolCase{{Name: "file", Args: `{"path":"a.go"}`, Want: "func Add"}, {Name: "absolute", Args: `{"path":"/work/a.go"}`, Want: "func Add"}}},
		"code_search": {tools.CodeSearch, []agenttest.ToolCase{{Name: "pattern", Args: `{"pattern":"func"}`, Want: "Add"}}},
		"edit_file":   {tools.EditFile, []agenttest.ToolCase{{Name: "edit", Args: `{"path":"a.go","old_string":"a + b","new_string":"b + a"}`}}},
		"write_file":  {tools.WriteFile, []agenttest.ToolCase{{Name: "create", Args: `{"path":"new/c.go","content":"package c\n"}`, Want: "created"}}},
		"bash":        {tools.Bash, []agenttest.ToolCase{{Name: "root", Args: `{"command":"pwd; ls /"}`, Want: "/work\n"}, {Name: "slow", Args: `{"command":"sleep 100"}`, Slow: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.TestTool(t, func(t testing.TB) agenttest.ToolSetup {
				dir := t.TempDir()
				require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\nfunc Add(a, b int) int { return a + b }\n"), 0o644))
				c := contained(t, dir)
				tool, err := tt.build(c, tools.WithExec(c))
				require.NoError(t, err)
				return agenttest.ToolSetup{Tool: tool, Dir: dir}
			}, tt.cases...)
		})
	}
}

// A command there does not see this machine.
func TestContainerHidesThisMachine(t *testing.T) {
	c := contained(t, t.TempDir())
	var out strings.Builder
	_, err := c.Run(t.Context(), &tools.ExecCommand{Script: "ls -d /root /home /work 2>/dev/null; env", Root: "/work", Dir: "/work", Env: c.Environ(), Output: &out})
	require.NoError(t, err)
	require.Contains(t, out.String(), "/work")
	require.NotContains(t, out.String(), "/home")
	require.NotContains(t, out.String(), os.Getenv("HOME"))
}
