//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
)

// An item is what the tests read of one.
type item struct {
	ID, Type, Text, Status, Command string
	Output                          string `json:"aggregated_output"`
	Code                            *int   `json:"exit_code"`
	Tool, Server                    string
	Items                           []struct {
		Text      string
		Completed bool
	}
	Changes []struct{ Path, Kind string }
	Error   struct{ Message string }
}

// exec runs a prompt as an SDK does, and returns the lines of the program without what is told to people.
func (d *desk) exec(t *testing.T, prompt string, args ...string) (types []string, items []item, thread string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), strings.TrimPrefix(d.env[0], "AYCODER_PROGRAM="), append([]string{"exec", "--experimental-json"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin = d.dir, append(d.env, compatVariable+"=codex"), strings.NewReader(prompt)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	for line := range bytes.Lines(out) {
		var l struct {
			Type   string
			Thread string `json:"thread_id"`
			Item   *item
		}
		require.NoError(t, json.Unmarshal(line, &l), "%s", line)
		if l.Item != nil && l.Item.Type == "error" {
			continue
		}
		types = append(types, l.Type)
		if thread += l.Thread; l.Item != nil {
			items = append(items, *l.Item)
		}
	}
	if err != nil {
		err = &exitError{err, stderr.String()}
	}
	d.gone(t)
	return types, items, thread, err
}

type exitError struct {
	error
	text string
}

func (e *exitError) Error() string { return e.error.Error() + ": " + e.text }

func TestCodexThread(t *testing.T) {
	d := newDesk(t)
	model := "--model=anthropic/claude-sonnet-4-5"
	types, items, thread, err := d.exec(t, `[["I look.",{"name":"bash","input":{"command":"cat c.txt; cat none"}}],`+
		`{"name":"todo","input":{"todos":[{"content":"this","status":"completed"},{"content":"that","status":"pending"}]}},"I remember 7."]`, model)
	require.NoError(t, err)
	require.Equal(t, []string{"thread.started", "turn.started", "item.completed", "item.started", "item.completed", "item.started", "item.completed",
		"item.completed", "item.completed", "turn.completed"}, types)
	require.Equal(t, "I look.", items[0].Text)
	require.Equal(t, "in_progress", items[1].Status)
	require.Equal(t, items[1].ID, items[2].ID)
	require.Equal(t, "cat c.txt; cat none", items[2].Command)
	require.Contains(t, items[2].Output, "this is c")
	require.Equal(t, 1, *items[2].Code)
	require.Equal(t, "failed", items[2].Status)
	require.Equal(t, "aycoder todo", items[4].Server+" "+items[4].Tool)
	require.Len(t, items[5].Items, 2)
	require.True(t, items[5].Items[0].Completed)
	require.Equal(t, "I remember 7.", items[6].Text)

	_, items, again, err := d.exec(t, `["recall 7"]`, model, "resume", thread)
	require.NoError(t, err)
	require.Equal(t, thread, again)
	require.Equal(t, "yes", items[0].Text)

	schema := filepath.Join(d.home, "schema.json")
	require.NoError(t, os.WriteFile(schema, []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`), 0o600))
	_, items, _, err = d.exec(t, `["It is {\"n\": 3}."]`, model, "--output-schema", schema)
	require.NoError(t, err)
	require.JSONEq(t, `{"n":3}`, items[len(items)-1].Text)
	types, _, _, err = d.exec(t, `["{}"]`, model, "--output-schema", schema)
	require.Error(t, err)
	require.Equal(t, "turn.failed", types[len(types)-1])
}

// Without the host's word nothing is changed, and nobody is asked.
func TestCodexSandbox(t *testing.T) {
	steps := `[{"name":"write_file","input":{"path":"a.txt","content":"x"}},{"name":"bash","input":{"command":"touch b.txt"}},"ok"]`
	for _, tt := range []struct {
		args         []string
		wrote, moved bool
	}{
		{nil, false, false},
		{[]string{"--sandbox", "read-only"}, false, false},
		{[]string{"--sandbox=workspace-write", "--config", `approval_policy="on-request"`}, true, false},
		{[]string{"--sandbox", "danger-full-access", "--config", `approval_policy="never"`}, true, true},
		{[]string{"--config", `approval_policy="untrusted"`, "--sandbox", "danger-full-access"}, false, false},
	} {
		d := newDesk(t)
		_, items, _, err := d.exec(t, steps, append(tt.args, "--model", "anthropic/claude-sonnet-4-5")...)
		require.NoError(t, err)
		_, err = os.Stat(filepath.Join(d.dir, "a.txt"))
		require.Equal(t, tt.wrote, err == nil, tt.args)
		_, err = os.Stat(filepath.Join(d.dir, "b.txt"))
		require.Equal(t, tt.moved, err == nil, tt.args)
		if !tt.wrote {
			require.Equal(t, "failed", items[0].Status)
			require.Contains(t, items[0].Error.Message, "approval_required")
		}
	}
}

func TestCodexUnsupported(t *testing.T) {
	json := func(args ...string) []string { return append([]string{"exec", "--json"}, args...) }
	for _, tt := range []struct {
		args []string
		has  string
	}{
		{[]string{"exec"}, "exec without --json"},
		{[]string{"login", "--json"}, "other commands than exec"},
		{json("resume"), "resume without the id"},
		{json("--full-auto"), "the flag --full-auto"},
		{json("--sandbox=wild"), `the sandbox "wild"`},
		{json("--config", `model_reasoning_effort="high"`), "the setting model_reasoning_effort"},
		{json("--config", `web_search="live"`), "the setting web_search"},
		{json("--config", "sandbox_workspace_write.network_access=true"), "the setting sandbox_workspace_write.network_access=true"},
		{json("--output-schema", "/nothing/here"), "no such file"},
	} {
		_, err := parseCodexArgs(tt.args)
		require.ErrorContains(t, err, tt.has)
	}
	a, err := parseCodexArgs(json("--cd", "/w", "-m", "gpt-5", "resume", "abc", "--image", "a.png", "do", "this", "--skip-git-repo-check"))
	require.NoError(t, err)
	require.Equal(t, []string{"-C=/w", "-model=openai/gpt-5", "-r=abc", "-mode=ask"}, a.flags)
	require.Equal(t, []string{"a.png"}, a.images)
	in, err := a.input(strings.NewReader(""))
	require.ErrorContains(t, err, "a.png")
	require.Equal(t, "do this", in.Prompt)
	a, err = parseCodexArgs(json("--", "do", "--sandbox", "danger-full-access")) // nobody but the host says what is allowed
	require.NoError(t, err)
	require.Equal(t, policy.Ask, a.mode)
	require.Equal(t, []string{"do", "--sandbox", "danger-full-access"}, a.words)
	d := newDesk(t)
	_, _, _, err = d.exec(t, "", "--model=anthropic/x")
	require.ErrorContains(t, err, "there is no prompt")
	_, _, _, err = d.exec(t, `["x"]`, "--model=anthropic/x", "resume", "nothing")
	require.ErrorContains(t, err, "there is none whose id begins so")
}

// A host that is gone while a command works leaves nothing behind.
func TestCodexEnds(t *testing.T) {
	d := newDesk(t)
	d.env = append(d.env, compatVariable+"=codex")
	h := newHost(t, d, "exec", "--json", "--sandbox", "danger-full-access", "--model=anthropic/claude-sonnet-4-5")
	h.send("%s", `[{'name':'bash','input':{'command':'echo $$ > pid; exec sleep 1000'}},'never']`)
	require.NoError(t, h.in.Close())
	timed.Until(t, func() bool { data, _ := os.ReadFile(filepath.Join(h.dir, "pid")); return len(data) > 0 }, "the command to begin")
	require.NoError(t, h.pipe.Close())
	require.Error(t, h.cmd.Wait())
	h.gone(t)
}

// A prompt that does not come does not keep the program from ending.
func TestCodexUnfed(t *testing.T) {
	d := newDesk(t)
	d.env = append(d.env, compatVariable+"=codex")
	h := newHost(t, d, "exec", "--json", "--model=anthropic/x")
	timed.Until(t, func() bool { data, _ := os.ReadFile(filepath.Join(h.home, "ids")); return len(data) > 0 }, "the program to begin")
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, h.cmd.Wait())
}

func TestCompatArgs(t *testing.T) {
	for _, tt := range []struct {
		args     []string
		variable string
		want     []string
	}{
		{nil, "", nil},
		{[]string{"-p", "-compat"}, "", []string{"-p", "-compat"}},
		{[]string{"-compat", "claude", "--verbose"}, "", []string{"compat", "claude", "--verbose"}},
		{[]string{"--compat=codex", "exec"}, "claude", []string{"compat", "codex", "exec"}},
		{[]string{"exec", "--json"}, "codex", []string{"compat", "codex", "exec", "--json"}},
	} {
		require.Equal(t, tt.want, compatArgs(tt.args, tt.variable))
	}
	for _, args := range [][]string{{"-compat"}, {"-compat", "other"}, {"-compat=claude"}, {"compat", "codex", "exec"}} {
		out, err := program(t, t.TempDir(), t.TempDir(), args...).CombinedOutput()
		require.Error(t, err)
		require.Regexp(t, "wrong usage|not supported", string(out))
	}
}
