//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/published"
	"github.com/aycoder/aycoder/internal/timed"
)

// The official SDKs lead the program in these tests, which need node 20 and
//
//	npm install --prefix DIR --omit=optional @anthropic-ai/claude-agent-sdk@0.3.332 @openai/codex-sdk@0.163.0
//	AYCODER_COMPAT_SDKS=DIR/node_modules go test -run 'ClaudeSDK|CodexSDK' -v .
const sdksVariable = "AYCODER_COMPAT_SDKS"

// newScripted is a model that does what the newest prompt says: a list of texts and calls, one for each request. It speaks
// the Messages API. "recall x" is answered by yes if it has said "I remember x.", or else by no.
func newScripted(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []struct {
				Role    string
				Content json.RawMessage
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var steps []json.RawMessage
		done, said := 0, ""
		for _, m := range req.Messages {
			var blocks []struct{ Text string }
			if json.Unmarshal(m.Content, &blocks) != nil {
				blocks = append(blocks, struct{ Text string }{})
				_ = json.Unmarshal(m.Content, &blocks[0].Text)
			}
			for _, b := range blocks {
				var list []json.RawMessage
				if m.Role == "user" && json.Unmarshal([]byte(b.Text), &list) == nil && len(list) > 0 {
					steps, done = list, 0
				}
			}
			if m.Role == "assistant" {
				done++
				said += string(m.Content)
			}
		}
		if len(steps) == 0 {
			http.Error(w, "there is no script", http.StatusBadRequest)
			return
		}
		step := steps[min(done, len(steps)-1)]
		var blocks []json.RawMessage
		if json.Unmarshal(step, &blocks) != nil {
			blocks = []json.RawMessage{step}
		}
		stop := "end_turn"
		send := func(kind, rest string) {
			fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		send("message_start", `,"message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{"input_tokens":1,"output_tokens":1}}`)
		for i, b := range blocks {
			var text string
			block, delta := `{"type":"text","text":""}`, ""
			if json.Unmarshal(b, &text) == nil {
				if what, ok := strings.CutPrefix(text, "recall "); ok {
					text = map[bool]string{true: "yes", false: "no"}[strings.Contains(said, "I remember "+what+".")]
				}
				delta = fmt.Sprintf(`{"type":"text_delta","text":%s}`, quoted(text))
			} else {
				var call struct {
					Name  string
					Input json.RawMessage
				}
				_ = json.Unmarshal(b, &call)
				block, stop = fmt.Sprintf(`{"type":"tool_use","id":"t%d_%d","name":%q,"input":{}}`, len(req.Messages), i, call.Name), "tool_use"
				delta = fmt.Sprintf(`{"type":"input_json_delta","partial_json":%s}`, quoted(string(call.Input)))
			}
			send("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, i, block))
			send("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, i, delta))
			send("content_block_stop", fmt.Sprintf(`,"index":%d`, i))
		}
		send("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q},"usage":{"output_tokens":1}`, stop))
		send("message_stop", "")
	}))
	t.Cleanup(s.Close)
	return s
}

func quoted(s string) string {
	data, _ := json.Marshal(s) // a string has a form
	return string(data)
}

// A desk is a directory in which a host of an SDK works.
type desk struct {
	dir, home string
	env       []string
}

// newDesk makes a desk. The program notes its id in it.
func newDesk(t *testing.T) *desk {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	d := &desk{dir: t.TempDir(), home: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "c.txt"), []byte("this is c"), 0o600))
	wrapper := filepath.Join(d.home, "program")
	require.NoError(t, os.WriteFile(wrapper, fmt.Appendf(nil, "#!/bin/sh\necho $$ >> %s/ids\nAYCODER_TEST=program exec %s \"$@\"\n", d.home, self), 0o700))
	d.env = []string{
		"AYCODER_PROGRAM=" + wrapper, "PATH=" + os.Getenv("PATH"), "HOME=" + d.home, "TMPDIR=" + t.TempDir(), "GORACE=atexit_sleep_ms=0",
		"ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL=" + newScripted(t).URL,
	}
	return d
}

// gone waits until no program and no command of the desk is left.
func (d *desk) gone(t *testing.T) {
	t.Helper()
	for _, name := range []string{filepath.Join(d.home, "ids"), filepath.Join(d.dir, "pid")} {
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		for id := range strings.FieldsSeq(string(data)) {
			pid, err := strconv.Atoi(id)
			require.NoError(t, err)
			timed.Until(t, func() bool { return syscall.Kill(pid, 0) != nil }, "process "+id+" to end")
		}
	}
}

// node returns a command that runs a case of a script of testdata.
func (d *desk) node(t *testing.T, script, name string) *exec.Cmd {
	t.Helper()
	modules := os.Getenv(sdksVariable)
	if modules == "" {
		t.Skip(sdksVariable + " does not name the node_modules of the official SDKs")
	}
	published.Packages(t, modules, "@anthropic-ai/claude-agent-sdk@0.3.332", "@openai/codex-sdk@0.163.0")
	place := t.TempDir()
	require.NoError(t, os.Symlink(modules, filepath.Join(place, "node_modules")))
	text, err := os.ReadFile(filepath.Join("testdata", script))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(place, script), text, 0o600))
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(place, script), name)
	cmd.Dir, cmd.Env = d.dir, d.env
	return cmd
}

func testSDK(t *testing.T, script string, names ...string) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			out, err := d.node(t, script, name).CombinedOutput()
			require.NoError(t, err, "%s", out)
			d.gone(t)
		})
	}
	t.Run("killed", func(t *testing.T) {
		d := newDesk(t)
		cmd := d.node(t, script, "killed")
		require.NoError(t, cmd.Start())
		for _, name := range []string{"pid", "session"} {
			timed.Until(t, func() bool { data, _ := os.ReadFile(filepath.Join(d.dir, name)); return len(data) > 0 }, "the command to begin")
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
		d.gone(t)
		id, err := os.ReadFile(filepath.Join(d.dir, "session"))
		require.NoError(t, err)
		show := exec.CommandContext(t.Context(), d.env[0][len("AYCODER_PROGRAM="):], "sessions", "show", string(id))
		show.Dir, show.Env = d.dir, d.env
		out, err := show.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "sleep 1000")
	})
}

func TestClaudeSDK(t *testing.T) {
	testSDK(t, "claude.mjs", "query", "streaming input", "partial messages", "permission with edited input", "permission with refusal",
		"permission for the session", "refusal that interrupts", "nobody asked", "modes and rules", "hooks", "tool of the host", "second turn",
		"interrupt", "set mode and model", "typed result", "limits", "unsupported", "aborted")
}

func TestCodexSDK(t *testing.T) {
	testSDK(t, "codex.mjs", "thread", "streamed events", "second turn", "output schema", "sandbox", "unsupported", "aborted")
}
