//go:build unix

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
)

// A host speaks with the program as an SDK does. The lines are written after the protocol's documentation.
type host struct {
	*desk
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	pipe io.Closer // of out
	out  *bufio.Reader
	errs proc.Tail
}

func newHost(t *testing.T, d *desk, args ...string) *host {
	t.Helper()
	h := &host{desk: d, t: t, errs: proc.Tail{Max: proc.MaxStderr}}
	h.cmd = exec.CommandContext(t.Context(), strings.TrimPrefix(d.env[0], "AYCODER_PROGRAM="), args...)
	h.cmd.Dir, h.cmd.Env, h.cmd.Stderr = d.dir, d.env, &h.errs
	var err error
	h.in, err = h.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := h.cmd.StdoutPipe()
	require.NoError(t, err)
	h.pipe, h.out = out, bufio.NewReader(out)
	require.NoError(t, h.cmd.Start())
	return h
}

func newClaudeHost(t *testing.T, args ...string) *host {
	t.Helper()
	return newHost(t, newDesk(t), append([]string{"-compat", "claude", "--input-format", "stream-json", "--output-format=stream-json", "--verbose",
		"--model=claude-sonnet-4-5"}, args...)...)
}

// send writes a line. Quotes are simple ones in tests.
func (h *host) send(format string, args ...any) {
	h.t.Helper()
	_, err := io.WriteString(h.in, strings.ReplaceAll(fmt.Sprintf(format, args...), "'", `"`)+"\n")
	require.NoError(h.t, err)
}

// prompt sends what the model is to do.
func (h *host) prompt(steps string) {
	h.t.Helper()
	h.send(`{'type':'user','message':{'role':'user','content':%s},'parent_tool_use_id':null}`, quoted(steps))
}

// A heard line is one of the program.
type heard struct {
	Type, Subtype, Content string
	ID                     string `json:"request_id"`
	Request                struct {
		Subtype     string
		Tool        string `json:"tool_name"`
		Call        string `json:"tool_use_id"`
		Input       map[string]any
		Callback    string            `json:"callback_id"`
		Server      string            `json:"server_name"`
		Suggestions []json.RawMessage `json:"permission_suggestions"`
		Message     struct {
			ID     json.RawMessage
			Method string
		}
	}
	Response struct {
		Subtype, Error string
		ID             string `json:"request_id"`
		Code           string `json:"error_code"`
		Response       json.RawMessage
	}
	Message json.RawMessage
	IsError bool `json:"is_error"`
	Result  string
	Errors  []string
	Session string           `json:"session_id"`
	Denials []map[string]any `json:"permission_denials"`
	Value   json.RawMessage  `json:"structured_output"`
}

// next returns the next line of a type and subtype, either of which may be empty.
func (h *host) next(kind, subtype string) (l heard) {
	h.t.Helper()
	for {
		data, err := h.out.ReadBytes('\n')
		require.NoError(h.t, err, "%s %s: %s", kind, subtype, h.errs.Text())
		l = heard{}
		require.NoError(h.t, json.Unmarshal(data, &l), "%s", data)
		is := l.Subtype
		switch l.Type {
		case "control_request":
			is = l.Request.Subtype
		case "control_response":
			is = l.Response.Subtype
		}
		if (kind == "" || l.Type == kind) && (subtype == "" || is == subtype) {
			return l
		}
	}
}

// output returns the output of the next call that ends.
func (h *host) output() string {
	h.t.Helper()
	var m struct {
		Content []struct{ Content []struct{ Text string } }
	}
	require.NoError(h.t, json.Unmarshal(h.next("user", "").Message, &m))
	var text strings.Builder
	for _, c := range m.Content[0].Content {
		text.WriteString(c.Text)
	}
	return text.String()
}

// end closes the input, reads the rest, and waits for the program.
func (h *host) end() error {
	h.t.Helper()
	require.NoError(h.t, h.in.Close())
	_, err := io.Copy(io.Discard, h.out)
	require.NoError(h.t, err)
	err = h.cmd.Wait()
	h.gone(h.t)
	return err
}

// An interrupt while the session is being opened takes back what was said before it, and not what is said after it.
func TestClaudeEarlyInterrupt(t *testing.T) {
	h := newClaudeHost(t)
	h.send(`{'type':'control_request','request_id':'1','request':{'subtype':'initialize','sdkMcpServers':['mine']}}`)
	require.Equal(t, "mine", h.next("control_request", "").Request.Server) // it waits for the server
	h.send(`{'type':'user','uuid':'before','message':{'role':'user','content':'hi'}}` + "\n" +
		`{'type':'control_request','request_id':'2','request':{'subtype':'interrupt','cancel_queued':true}}` + "\n" +
		`{'type':'user','uuid':'after','message':{'role':'user','content':'hi'}}`)
	r := h.next("control_response", "")
	require.Equal(t, "2", r.Response.ID)
	require.JSONEq(t, `{"still_queued":[],"cancelled":["before"]}`, string(r.Response.Response))
	_ = h.end()
}

func TestClaudeRequests(t *testing.T) {
	h := newClaudeHost(t)
	h.send(`{'type':'control_request','request_id':'early','request':{'subtype':'interrupt'}}`)
	require.Contains(t, h.next("control_response", "error").Response.Error, "not open")
	h.send(`{'type':'control_request','request_id':'1','request':{'subtype':'initialize','hooks':null,'promptSuggestions':false}}` + "\n" +
		`{'type':'control_request','request_id':'soon','request':{'subtype':'set_permission_mode','mode':'default'}}`)
	r := h.next("control_response", "")
	require.Equal(t, "1", r.Response.ID)
	require.Equal(t, "success", r.Response.Subtype)
	r = h.next("control_response", "")
	require.Equal(t, "soon", r.Response.ID)
	require.Equal(t, "success", r.Response.Subtype, r.Response.Error)
	for _, tt := range []struct{ request, subtype, has string }{
		{`{'subtype':'initialize'}`, "error", "a second initialize"},
		{`{'subtype':'rewind_files','user_message_id':'x'}`, "error", `requests of the type "rewind_files"`},
		{`{}`, "error", `requests of the type ""`},
		{`7`, "error", "cannot unmarshal"},
		{`{'subtype':'set_permission_mode','mode':'bypassPermissions'}`, "error", "must be allowed"},
		{`{'subtype':'set_permission_mode','mode':'wild'}`, "error", `the permission mode "wild"`},
		{`{'subtype':'set_permission_mode','mode':'plan'}`, "success", `{"mode":"plan"}`},
		{`{'subtype':'set_model','model':'no-provider/x'}`, "error", "no-provider"},
		{`{'subtype':'mcp_message','server_name':'s','message':{}}`, "error", "no connection"},
		{`{'subtype':'mcp_status'}`, "success", `{"mcpServers":[]}`},
		{`{'subtype':'interrupt'}`, "success", `{"still_queued":[]}`},
	} {
		h.send(`{'type':'control_request','request_id':'x','request':%s}`, tt.request)
		r := h.next("control_response", "").Response
		require.Equal(t, tt.subtype, r.Subtype, tt.request)
		require.Contains(t, r.Error+string(r.Response), tt.has, tt.request)
		require.Equal(t, strings.Contains(tt.has, "requests of"), r.Code == "unsupported_request" && strings.Contains(r.Error, "requests of"), tt.request)
	}
	for line, has := range map[string]string{
		`{'type':'transcript_mirror'}`: `messages of the type "transcript_mirror"`, `{`: "unexpected end of JSON", `7`: "cannot unmarshal",
	} {
		h.send("%s", line)
		require.Contains(t, h.next("system", "informational").Content, has)
	}
	h.send(`{'type':'keep_alive'}`)
	h.send(`{'type':'control_response','response':{'subtype':'success','request_id':'nobody','response':{}}}`)
	for content, has := range map[string]string{
		`''`: "the message is empty", `[]`: "the message is empty", `7`: "cannot unmarshal",
		`[{'type':'document'}]`: `parts of messages of the type "document"`,
		`[{'type':'image','source':{'type':'base64','media_type':'image/png','data':'aGk='}}]`: "it is text/plain", `'/nothing here'`: "there is no command /nothing",
	} {
		h.send(`{'type':'user','message':{'role':'user','content':%s}}`, content)
		r := h.next("result", "")
		require.Equal(t, "error_during_execution", r.Subtype, content)
		require.True(t, r.IsError)
		require.Contains(t, r.Errors[0], has)
	}
	h.send(`{'type':'user','message':{'content':[{'type':'text','text':%s},{'type':'image','source':{'type':'base64','media_type':'image/png','data':'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=='}}]}}`,
		quoted(`["I see."]`))
	require.Equal(t, "I see.", h.next("result", "success").Result)
	require.NoError(t, h.end())
}

// Whatever the host answers to a question, only a clear yes lets the call run.
func TestClaudeQuestions(t *testing.T) {
	h := newClaudeHost(t, "--permission-prompt-tool", "stdio", "--disallowedTools=Bash(rm:*)")
	for i, tt := range []struct{ subtype, answer, reads string }{
		{"success", `{'behavior':'allow'}`, "created"},
		{"success", `{'behavior':'allow','updatedInput':{'file_path':'%s','content':'x'}}`, "created"},
		{"success", `{'behavior':'allow','updatedInput':{'file_path':'%s','content':'y'}}`, "changed its arguments"},
		{"success", `{'behavior':'allow','updatedInput':{'file_path':'../../y','content':'x'}}`, "outside"},
		{"success", `{'behavior':'allow','updatedInput':{'content':'x'}}`, "not allowed it"},
		{"success", `{'behavior':'allow','updatedInput':7}`, "not allowed it"},
		{"success", `{'behavior':'allow','updatedInput':{'file_path':'a','path':'b','content':'x'}}`, "is there twice"},
		{"success", `{'behavior':'allow','updatedPermissions':[{'type':'addDirectories','directories':['/']}]}`, "not suggested"},
		{"success", `{'behavior':'deny','message':'not now'}`, "not now"},
		{"success", `{'behavior':'deny'}`, "the host said no"},
		{"success", `{}`, "not supported: the answer"},
		{"success", `null`, "not supported: the answer"},
		{"success", `'allow'`, "cannot unmarshal"},
		{"error", `null`, "the host has answered with error"},
		{"odd", `{'behavior':'allow'}`, "the host has answered with odd"},
	} {
		name := filepath.Join(h.dir, fmt.Sprint(i))
		h.prompt(fmt.Sprintf(`[{"name":"write_file","input":{"path":"%d","content":"x"}},"ok"]`, i))
		q := h.next("control_request", "can_use_tool")
		require.Equal(t, "Write", q.Request.Tool)
		require.Equal(t, name, q.Request.Input["file_path"])
		if strings.Contains(tt.answer, "%s") {
			tt.answer = fmt.Sprintf(tt.answer, name)
		}
		answer := fmt.Sprintf(`{'type':'control_response','response':{'subtype':'%s','request_id':'%s','response':%s}}`, tt.subtype, q.ID, tt.answer)
		h.send("%s", answer)
		h.send("%s", answer) // a second one changes nothing
		require.Contains(t, h.output(), tt.reads, tt.answer)
		denied := !strings.Contains("created changed its arguments", tt.reads)
		_, err := os.Stat(name)
		require.Equal(t, denied, os.IsNotExist(err), tt.answer)
		require.Equal(t, "ok", h.next("result", "success").Result)
	}
	h.prompt(`[{"name":"bash","input":{"command":"rm 0"}},"ok"]`) // by a rule of the host, which is not asked then
	require.Contains(t, h.next("system", "permission_denied").Subtype, "denied")
	require.Len(t, h.next("result", "success").Denials, 1)
	require.FileExists(t, filepath.Join(h.dir, "0"))

	h.prompt(`[{"name":"bash","input":{"command":"touch late"}},"ok"]`)
	q := h.next("control_request", "can_use_tool")
	h.send(`{'type':'control_request','request_id':'stop','request':{'subtype':'interrupt'}}`)
	require.Equal(t, q.ID, h.next("control_cancel_request", "").ID)
	require.Equal(t, []string{"interrupted by the host"}, h.next("result", "error_during_execution").Errors)
	h.send(`{'type':'control_response','response':{'subtype':'success','request_id':'%s','response':{'behavior':'allow'}}}`, q.ID)

	h.prompt(`[{"name":"bash","input":{"command":"touch late"}},"ok"]`)
	h.next("control_request", "can_use_tool")
	require.NoError(t, h.in.Close()) // nobody can answer any more
	require.Contains(t, h.output(), "the host has gone")
	require.Equal(t, "ok", h.next("result", "success").Result)
	_, err := io.Copy(io.Discard, h.out)
	require.NoError(t, err)
	require.NoError(t, h.cmd.Wait())
	require.NoFileExists(t, filepath.Join(h.dir, "late"))
}

// Functions and tools of the host are asked through the same stream.
func TestClaudeCallbacks(t *testing.T) {
	h := newClaudeHost(t, "--allowedTools", "mcp__mine__say")
	h.send(`{'type':'control_request','request_id':'1','request':{'subtype':'initialize','sdkMcpServers':['mine'],'hooks':{'PreToolUse':[{'matcher':'Read','hookCallbackIds':['f'],'timeout':60}]}}}`)
	answer := func(l heard, result string) {
		t.Helper()
		h.send(`{'type':'control_response','response':{'subtype':'success','request_id':'%s','response':{'mcp_response':{'jsonrpc':'2.0','id':%s,%s}}}}`,
			l.ID, cmp.Or(string(l.Request.Message.ID), "0"), result)
	}
	serve := func() {
		t.Helper()
		for {
			l := h.next("", "")
			if l.Type == "control_response" {
				require.Equal(t, "success", l.Response.Subtype, l.Response.Error)
				return
			}
			require.Equal(t, "mcp_message", l.Request.Subtype)
			require.Equal(t, "mine", l.Request.Server)
			switch l.Request.Message.Method {
			case "initialize":
				answer(l, `'result':{'protocolVersion':'2025-06-18','capabilities':{'tools':{}},'serverInfo':{'name':'mine','version':'1'}}`)
			case "tools/list":
				answer(l, `'result':{'tools':[{'name':'say','inputSchema':{'type':'object'}}]}`)
			case "notifications/initialized":
				answer(l, `'result':{}`)
			default: // what is newer than this server
				answer(l, `'error':{'code':-32601,'message':'there is no such method'}`)
			}
		}
	}
	serve()
	h.prompt(`[{"name":"mcp__mine__say","input":{}},{"name":"mcp__mine__say","input":{}},{"name":"read_file","input":{"path":"c.txt"}},"ok"]`)
	for range 2 {
		l := h.next("control_request", "mcp_message")
		require.Equal(t, "tools/call", l.Request.Message.Method)
		answer(l, `'result':{'content':[{'type':'text','text':'hello from inside'}]}`)
		require.Equal(t, "hello from inside", h.output())
	}
	l := h.next("control_request", "hook_callback")
	require.Equal(t, "f", l.Request.Callback)
	require.Equal(t, "Read", l.Request.Input["tool_name"])
	require.NotEmpty(t, l.Request.Input["session_id"])
	h.send(`{'type':'control_response','response':{'subtype':'success','request_id':'%s','response':{'decision':'block','reason':'not this file'}}}`, l.ID)
	require.Contains(t, h.output(), "not this file")
	require.Equal(t, "ok", h.next("result", "success").Result)

	h.prompt(`[{"name":"mcp__mine__say","input":{}},{"name":"read_file","input":{"path":"c.txt"}},"ok"]`)
	l = h.next("control_request", "mcp_message")
	h.send(`{'type':'control_response','response':{'subtype':'error','request_id':'%s','error':'it has no server'}}`, l.ID)
	require.Contains(t, h.output(), "it has no server")
	h.next("control_request", "hook_callback")
	h.send(`{'type':'control_request','request_id':'stop','request':{'subtype':'interrupt'}}`)
	h.next("result", "error_during_execution")

	h.prompt(`[{"name":"mcp__mine__say","input":{}},{"name":"read_file","input":{"path":"c.txt"}},"ok"]`)
	l = h.next("control_request", "mcp_message")
	h.send(`{'type':'control_response','response':{'subtype':'success','request_id':'%s','response':{}}}`, l.ID) // which has nothing for the server's client
	require.Contains(t, h.output(), "the host has not answered: unexpected end of JSON")
	h.next("control_request", "hook_callback")
	require.NoError(t, h.in.Close()) // a guard that cannot be asked lets nothing through
	require.Contains(t, h.output(), "the host has gone")
	require.Equal(t, "ok", h.next("result", "success").Result)
}

// Files that may not be read do not come out of a search or a list either.
func TestClaudeReadDenied(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, os.Mkdir(filepath.Join(d.dir, "secrets"), 0o700))
	for _, name := range []string{"secrets/key.txt", "open.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(d.dir, name), []byte("needle in "+name+"\n"), 0o600))
	}
	h := newHost(t, d, "-compat", "claude", "--input-format=stream-json", "--output-format=stream-json",
		"--model=claude-test", // whose window, which is larger than a path of a megabyte, nobody knows
		"--disallowedTools=Read(secrets/**)")
	h.prompt(`[{"name":"code_search","input":{"pattern":"needle"}},{"name":"list_files","input":{"recursive":true}},` +
		`{"name":"glob","input":{"pattern":"**/*.txt"}},{"name":"read_file","input":{"path":"open.txt"}},` +
		`{"name":"read_file","input":{"path":"secrets/key.txt"}},{"name":"code_search","input":{"pattern":"needle","path":"secrets/key.txt"}},` +
		`{"name":"code_search","input":{"pattern":"needle","path":"secrets/../secrets/./key.txt"}},` +
		fmt.Sprintf(`{"name":"code_search","input":{"pattern":"needle","path":%q}},`, filepath.Join(d.dir, "secrets/key.txt")) +
		fmt.Sprintf(`{"name":"code_search","input":{"pattern":"needle","path":%q}},`, strings.Repeat("a/", 1<<19)) +
		`{"name":"code_search","input":{"pattern":"needle","path":"secrets"}},{"name":"glob","input":{"pattern":"secrets/*.txt"}},"ok"]`)
	for range 4 {
		out := h.output()
		require.Contains(t, out, "open.txt")
		require.NotContains(t, out, "key.txt")
	}
	for range 7 {
		out := h.output()
		require.NotContains(t, out, "needle in")
		require.NotContains(t, out, "key.txt\n")
	}
	require.Equal(t, "ok", h.next("result", "success").Result)
	require.NoError(t, h.end())
}

// Neither a link, nor a file of ignore patterns, nor a tool that knows the code leads to what may not be read.
func TestClaudeReadDeniedRoundabout(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, os.MkdirAll(filepath.Join(d.dir, "a/secrets"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(d.dir, "b"), 0o700))
	for name, text := range map[string]string{
		"a/secrets/key.go": "package secrets\n\nfunc Needle() { hidden() }\n", "b/b.go": "package b\n\nfunc Open() { Needle() }\n", "b/.gitignore": "!x\n", ".gitignore": "!a/secrets/\n!key.go\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600))
	}
	for link, to := range map[string]string{"near": "a/secrets", "b/far.go": "../a/secrets/key.go"} {
		require.NoError(t, os.Symlink(to, filepath.Join(d.dir, link)))
	}
	calls := []string{
		`{"name":"code_search","input":{"pattern":"hidden"}}`, `{"name":"list_files","input":{"recursive":true}}`,
		`{"name":"list_files","input":{"path":"near"}}`, `{"name":"code_search","input":{"pattern":"hidden","path":"near"}}`,
		`{"name":"code_search","input":{"pattern":"hidden","path":"near/key.go"}}`, `{"name":"code_search","input":{"pattern":"hidden","path":"b/far.go"}}`,
		`{"name":"glob","input":{"pattern":"near/*"}}`, `{"name":"glob","input":{"pattern":"a/secrets/*"}}`,
		`{"name":"read_file","input":{"path":"near/key.go"}}`, `{"name":"read_file","input":{"path":"b/far.go"}}`,
		`{"name":"outline","input":{"path":"near/key.go"}}`, `{"name":"outline","input":{"path":"b/far.go"}}`, `{"name":"symbol","input":{"name":"Needle"}}`,
	}
	h := newHost(t, d, "-compat", "claude", "--input-format=stream-json", "--output-format=stream-json", "--model=claude-sonnet-4-5",
		"--disallowedTools=Read(a/secrets/**)")
	h.prompt("[" + strings.Join(calls, ",") + `,"ok"]`)
	for _, call := range calls {
		out := h.output()
		if strings.Contains(out, "hidden()") || strings.Contains(out, "key.go\n") {
			t.Errorf("%s: %s", call, out)
		}
	}
	require.Equal(t, "ok", h.next("result", "success").Result)
	require.NoError(t, h.end())
}

// A pattern of what may not be edited is that of a .gitignore file, and holds for all tools that edit.
func TestClaudeEditDenied(t *testing.T) {
	h := newClaudeHost(t, "--permission-mode=acceptEdits", "--disallowedTools=Edit(lock.json),Edit(gen/),Edit(/top.txt),Edit(src/old)")
	denied := []string{"lock.json", "sub/lock.json", "gen/a", "sub/gen/deep/a", "top.txt", "src/old/a", "src/old"}
	allowed := []string{"sub/top.txt", "lock.json5", "generated/a", "src/older"}
	var calls []string
	for _, name := range append(slices.Clone(denied), allowed...) {
		calls = append(calls, fmt.Sprintf(`{"name":"write_file","input":{"path":%q,"content":"x"}}`, name))
	}
	h.prompt("[" + strings.Join(calls, ",") + `,"ok"]`)
	for _, name := range denied {
		require.Contains(t, h.output(), "forbids it", name)
	}
	for _, name := range allowed {
		require.Contains(t, h.output(), "created", name)
	}
	require.Equal(t, "ok", h.next("result", "success").Result)
	require.NoError(t, h.end())
}

// A wish of the host that cannot be met ends the program before it does anything.
func TestClaudeUnsupported(t *testing.T) {
	for request, has := range map[string]string{
		`'agents':{'a':{}},'toolAliases':{'a':'b'}`:                              "not supported: agents, toolAliases in initialize",
		`'hooks':{'WorktreeCreate':[{'hookCallbackIds':['f']}]}`:                 `there is no event "WorktreeCreate"`,
		`'hooks':{'PreToolUse':[{'hookCallbackIds':['f'],'onFailure':'block'}]}`: "not supported: onFailure",
		`'mcpServers':{'s':{'type':'sse','url':'http://127.0.0.1:1'}}`:           "not supported: server s",
		`'mcpServers':{'s':{'command':'x','url':'http://127.0.0.1:1'}}`:          "not supported: server s",
		`'mcpServers':{'s':{'command':'x','alwaysLoad':true}}`:                   "not supported: server s",
		`'disallowedTools':['Edit(~/x)']`:                                        "a file outside of the workspace",
		`'jsonSchema':7,'systemPrompt':'text'`:                                   "systemPrompt",
		`'sdkMcpServers':['a b']`:                                                "server a b",
	} {
		h := newClaudeHost(t)
		h.send(`{'type':'control_request','request_id':'1','request':{'subtype':'initialize',%s}}`, request)
		r := h.next("control_response", "error")
		require.Contains(t, r.Response.Error, has)
		err := h.end()
		require.Error(t, err)
		require.Contains(t, h.errs.Text(), has)
	}
}

// A server of the host does not get the name of one of the user's own, which may be trusted.
func TestClaudeServerOfTheUser(t *testing.T) {
	h := &host{desk: newDesk(t)}
	file := filepath.Join(h.home, ".config", "aycoder", "config.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte("[servers.mine]\ncommand = \"/bin/false\"\n"), 0o600))
	h = newHost(t, h.desk, "-compat", "claude", "--input-format=stream-json", "--output-format=stream-json", "--model=x", "--strict-mcp-config",
		`--mcp-config={"mcpServers":{"mine":{"command":"/bin/true"}}}`)
	h.send(`{'type':'control_request','request_id':'1','request':{'subtype':'initialize'}}`)
	require.Contains(t, h.next("control_response", "error").Response.Error, "the configuration has another one of this name")
	require.Error(t, h.end())
}

// Messages that nobody can answer yet are bounded.
func TestClaudeQueue(t *testing.T) {
	h := newClaudeHost(t, "--permission-prompt-tool=stdio")
	h.prompt(`[{"name":"bash","input":{"command":"touch a"}},"ok"]`)
	q := h.next("control_request", "can_use_tool")
	for range maxQueued + 1 {
		h.send(`{'type':'user','uuid':'u','message':{'content':''}}`)
	}
	require.Contains(t, h.next("system", "informational").Content, "256 messages wait already")
	h.send(`{'type':'control_request','request_id':'1','request':{'subtype':'interrupt','cancel_queued':true}}`)
	require.Equal(t, maxQueued, strings.Count(string(h.next("control_response", "success").Response.Response), `"u"`))
	require.NotEmpty(t, q.ID)
	require.Len(t, h.next("result", "").Errors, 1)
	require.NoError(t, h.end())
}

// The flags of the other program become those of this one, or an error that names them.
func TestClaudeArgs(t *testing.T) {
	base := []string{"--input-format=stream-json", "--output-format=stream-json"}
	a, err := parseClaudeArgs(append(base, "--permission-mode=acceptEdits", "--max-turns", "3", "--resume=abc", "--tools=", "--model", "x/y",
		"--allowedTools=Bash(go test:*),Read Edit(/src/**)", "--add-dir=/a", "--setting-sources=user", "--strict-mcp-config",
		`--mcp-config={"mcpServers":{"s":{"command":"c","args":["a"],"timeout":1500},"inside":{"type":"sdk","name":"inside"}}}`))
	require.NoError(t, err)
	require.Equal(t, []string{"-max-turns=3", "-r=abc", "-add-dir=/a", "-mode=accept-edits", "-model=x/y"}, a.flags)
	require.Equal(t, []string{}, a.tools)
	require.False(t, a.texts)
	require.Len(t, a.servers, 1)
	require.Equal(t, "1.5s", a.servers["s"].Timeout.String())
	rules, err := a.rules(policy.RuleAllow, append(a.allow, "mcp__s", "WebSearch"))
	require.NoError(t, err)
	var texts []string
	for _, r := range rules {
		texts = append(texts, r.String())
	}
	require.Equal(t, []string{"bash:go test *", "read_file", "edit_file:src/**", "multi_edit:src/**", "mcp__s__*"}, texts)
	require.Equal(t, []string{`there is no tool like "WebSearch" here`}, a.notes)
	for flag, has := range map[string]string{
		"--fork-session": "the flag --fork-session", "--resume=": "is empty", "--permission-mode=auto": `the permission mode "auto"`, "--permission-mode=bypassPermissions": "must be allowed",
		"--permission-prompt-tool=mcp__a__b": "a tool that answers questions", "--max-turns": "needs an argument", "do this": "a prompt among the arguments",
		"--input-format=text": "other formats than stream-json", "--mcp-config=/a/file": "these servers", "--thinking=disabled": "thinking disabled",
	} {
		_, err := parseClaudeArgs(append(base, flag))
		require.ErrorContains(t, err, has)
	}
}

// A host that is gone, or ends the program, leaves nothing behind but the conversation.
func TestClaudeEnds(t *testing.T) {
	for name, end := range map[string]func(h *host){
		"the host is gone": func(h *host) {
			require.NoError(t, h.in.Close())
			require.NoError(t, h.pipe.Close())
		},
		"a signal": func(h *host) { require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newClaudeHost(t, "--permission-mode=bypassPermissions", "--allow-dangerously-skip-permissions")
			h.prompt(`[{"name":"bash","input":{"command":"echo $$ > pid; exec sleep 1000"}},"never"]`)
			id := h.next("assistant", "").Session
			timed.Until(t, func() bool { data, _ := os.ReadFile(filepath.Join(h.dir, "pid")); return len(data) > 0 }, "the command to begin")
			end(h)
			require.Error(t, h.cmd.Wait())
			h.gone(t)
			show := exec.CommandContext(t.Context(), h.cmd.Path, "sessions", "show", id)
			show.Dir, show.Env = h.dir, h.env
			out, err := show.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "exec sleep 1000")
		})
	}
}

// A host that reads nothing does not keep the program from ending.
func TestClaudeUnread(t *testing.T) {
	h := newClaudeHost(t, "--include-partial-messages")
	h.prompt("[" + quoted(strings.Repeat("x", 1<<20)) + "]")
	h.next("system", "init")
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, h.cmd.Wait())
}

// Of changes of the permissions, all are made or none.
func TestClaudeUpdates(t *testing.T) {
	p, err := policy.New()
	require.NoError(t, err)
	f := &claudeFace{claudeArgs: &claudeArgs{mode: "default"}}
	rt := &harness.Runtime{Policy: p}
	edits := json.RawMessage(`{"type":"setMode","mode":"acceptEdits","destination":"session"}`)
	for what, updates := range map[string][]json.RawMessage{
		"not suggested":   {edits, json.RawMessage(`{"type":"addDirectories","directories":["/"]}`)},
		"must be allowed": {edits, json.RawMessage(`{"type":"setMode","mode":"bypassPermissions","destination":"session"}`)},
	} {
		_, err = f.updates(rt, nil, updates)
		require.ErrorContains(t, err, what)
		require.Equal(t, policy.Ask, p.Mode())
		require.Equal(t, "default", f.mode)
	}
	_, err = f.updates(rt, nil, []json.RawMessage{edits})
	require.NoError(t, err)
	require.Equal(t, policy.AcceptEdits, p.Mode())
	require.Equal(t, "acceptEdits", f.modeNow(rt))

	// A host that always allows gives all suggestions back, of which the narrowest is the first.
	offers := offersOf(&aycoder.ApprovalRequest{Suggested: []string{"bash:touch a", "bash:touch *"}})
	narrow := json.RawMessage(`{"type":"addRules","behavior":"allow","destination":"session","rules":[{"toolName":"Bash","ruleContent":"touch a"}]}`)
	wide := json.RawMessage(`{"type":"addRules","behavior":"allow","destination":"session","rules":[{"toolName":"Bash","ruleContent":"touch *"}]}`)
	for want, updates := range map[string][]json.RawMessage{"bash:touch a": {narrow}, "bash:touch *": {wide, narrow}} {
		rule, err := f.updates(rt, offers, updates)
		require.NoError(t, err)
		require.Equal(t, want, rule)
	}
}

// The mode that a reloaded configuration has set is told as the protocol calls it.
func TestClaudeModeNow(t *testing.T) {
	for now, name := range map[policy.Mode]string{
		policy.Ask: "dontAsk", policy.AcceptEdits: "acceptEdits", policy.Plan: "plan", policy.FullAuto: "bypassPermissions",
	} {
		p, err := policy.New(policy.WithMode(now))
		require.NoError(t, err)
		f := &claudeFace{claudeArgs: &claudeArgs{mode: "dontAsk"}}
		require.Equal(t, name, f.modeNow(&harness.Runtime{Policy: p}))
		f.mode = "plan"
		if now == policy.Ask {
			name = "default"
		}
		require.Equal(t, name, f.modeNow(&harness.Runtime{Policy: p}))
	}
}
