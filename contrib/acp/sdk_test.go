//go:build unix

package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/published"
	"github.com/aycoder/aycoder/providers/script"
)

// The official SDK in TypeScript is the other side in these tests, which need node 20 and
//
//	npm install --prefix DIR @agentclientprotocol/sdk@2.4.0
//	AYCODER_ACP_SDK=DIR/node_modules go test -run SDK -v .
const sdkVariable = "AYCODER_ACP_SDK"

// caseVariable makes the test program an agent.
const caseVariable = "AYCODER_ACP_CASE"

func TestMain(m *testing.M) {
	if name, ok := os.LookupEnv(caseVariable); ok {
		if err := agentOf(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// agentOf serves an agent that does what a case says.
func agentOf(name string) error {
	if name == "raw" || name == "locked" {
		return rawAgent(name == "locked")
	}
	if when, ok := strings.CutPrefix(name, "wild:"); ok {
		return wildAgent(when)
	}
	read := script.Call("read_file", map[string]any{"path": "a.txt"})
	change := script.Call("edit_file", edits("one", "ONE"))
	touch := script.Call("bash", map[string]any{"command": "touch x"})
	steps := map[string][]script.Step{
		"say":         {script.Reply(script.Think("Hm."), script.Say("Hello."))},
		"touch":       {touch, script.Say("ok"), script.Say("ok")},
		"touch twice": {touch, touch, script.Say("ok")},
		"edit":        {read, change, script.Say("Done."), script.Say("Still.")},
		"command": {read, script.Call("bash", map[string]any{"command": "sed -i.bak s/five/FIVE/ a.txt && rm a.txt.bak"}), read, change,
			script.Say("ok")},
		"server": {script.Call("mcp__my-server__run", map[string]any{}), script.Say("ok")},
	}[name]
	if steps == nil {
		return errors.New("there is no case " + name)
	}
	c := scripted(script.New(steps...))
	open := c.Open
	c.Open = func(ctx context.Context, s Start) (*harness.Runtime, error) {
		fmt.Println("noise, which must not reach the client")
		return open(ctx, s)
	}
	c.Servers = func(_ context.Context, name string, s config.Server) (harness.ToolSource, error) {
		tool, err := aycoder.NewTool("mcp__"+name+"__run", "Runs.", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
			cmd := exec.CommandContext(ctx, s.Command, s.Args...)
			for k, v := range s.Env {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			out, err := cmd.Output()
			return aycoder.TextResult(string(out)), err
		})
		return &toolSource{tool: tool}, err
	}
	return ServeStdio(context.Background(), c)
}

// modules returns the directory of the SDK, with a script of testdata beside it.
func withSDK(t *testing.T, name string) (dir string) {
	t.Helper()
	modules := os.Getenv(sdkVariable)
	if modules == "" {
		t.Skip(sdkVariable + " does not name the node_modules of the official SDK")
	}
	published.Packages(t, modules, "@agentclientprotocol/sdk@2.4.0")
	dir = t.TempDir()
	require.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	return dir
}

func TestSDKClient(t *testing.T) {
	dir := withSDK(t, "client.mjs")
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"initialize", "prompt", "permission", "diff", "cancel", "load", "unsaved buffer, merged",
		"unsaved buffer before the session", "unsaved buffer, conflicting", "buffer after a command", "reading only", "servers"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "client.mjs"), name)
			cmd.Env = append(os.Environ(), "AYCODER_ACP_PROGRAM="+self, "TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}
