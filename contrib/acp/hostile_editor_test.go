package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// rawEditor is a client that writes its messages itself.
type rawEditor struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

type rawMessage struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *sdk.RequestError
}

func withRawEditor(t *testing.T, c Config) *rawEditor {
	toAgent, in := io.Pipe()
	out, fromAgent := io.Pipe()
	gone := make(chan error, 1)
	go func() { gone <- Serve(context.Background(), toAgent, fromAgent, c) }()
	t.Cleanup(func() {
		_ = in.Close()
		_ = out.Close()
		require.NoError(t, <-gone)
	})
	e := &rawEditor{t, in, bufio.NewScanner(out)}
	e.out.Buffer(nil, 64<<20)
	return e
}

func (e *rawEditor) send(format string, args ...any) {
	_, err := fmt.Fprintf(e.in, format+"\n", args...)
	require.NoError(e.t, err)
}

// until returns the next message that fits.
func (e *rawEditor) until(fits func(m *rawMessage) bool) *rawMessage {
	for e.out.Scan() {
		var m rawMessage
		require.NoError(e.t, json.Unmarshal(e.out.Bytes(), &m))
		if fits(&m) {
			return &m
		}
	}
	require.Fail(e.t, "the agent has gone")
	return nil
}

func (e *rawEditor) answer(id string) *rawMessage {
	return e.until(func(m *rawMessage) bool { return m.Method == "" && string(m.ID) == id })
}

func (e *rawEditor) request(method string) *rawMessage {
	return e.until(func(m *rawMessage) bool { return m.Method == method })
}

// begin begins a session in a directory with a file.
func (e *rawEditor) begin() (id, dir string) {
	dir = files(e.t, map[string]string{"a.txt": "one\n"})
	e.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,"telepathy":{"on":true}},"more":[1]}}`)
	require.Nil(e.t, e.answer("0").Error)
	e.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, dir)
	var resp sdk.NewSessionResponse
	require.NoError(e.t, json.Unmarshal(e.answer("1").Result, &resp))
	return string(resp.SessionId), dir
}

// A cancel that comes right behind a prompt cancels it.
func TestCancelAtOnce(t *testing.T) {
	asks := script.Call("bash", map[string]any{"command": "touch x"})
	e := withRawEditor(t, scripted(script.New(asks).With(script.WithLoop(true))))
	id, dir := e.begin()
	for n := 2; n < 22; n++ {
		e.send(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}
{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, n, id, id)
		require.Contains(t, string(e.answer(strconv.Itoa(n)).Result), "cancelled")
	}
	require.NoFileExists(t, filepath.Join(dir, "x"))
}

// An editor that never answers whether it has a buffer keeps nobody from cancelling, and one that answers twice, late or for
// nothing is not noticed.
func TestEditorAnswers(t *testing.T) {
	read := script.Call("read_file", map[string]any{"path": "a.txt"})
	touch := script.Call("bash", map[string]any{"command": "touch x"})
	e := withRawEditor(t, scripted(script.New(read, touch, touch, script.Say("ok"))))
	id, dir := e.begin()
	prompt := func(n int) {
		e.send(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}`, n, id)
	}
	cancel := func() {
		e.send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, id)
	}
	prompt(2)
	late := e.request("fs/read_text_file")
	cancel()
	require.Contains(t, string(e.answer("2").Result), "cancelled")
	e.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":"late"}}`, late.ID)
	e.send(`{"jsonrpc":"2.0","id":"none","result":{}}`)
	e.send(`{"jsonrpc":"2.0","result":{}}`)
	e.send(`not a message`)

	prompt(3)
	q := e.request("session/request_permission")
	cancel()
	cancel()
	require.Contains(t, string(e.answer("3").Result), "cancelled")
	allow := `{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}}`
	e.send(allow, q.ID)
	prompt(4)
	second := e.request("session/request_permission")
	require.NoFileExists(t, filepath.Join(dir, "x"), "the answer came after the cancellation")
	e.send(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"deny"}}}`, second.ID)
	e.send(allow, second.ID)
	e.send(allow, q.ID)
	require.Contains(t, string(e.answer("4").Result), "end_turn")
	require.NoFileExists(t, filepath.Join(dir, "x"), "the first answer counts")
}

// A prompt that comes while another one is answered is answered after it. A cancellation is one of both.
func TestEditorPromptsTwice(t *testing.T) {
	model := script.New(script.Call("bash", map[string]any{"command": "touch x"}), script.Say("first"), script.Say("second"), script.Say("third"))
	e := withRawEditor(t, scripted(model))
	id, _ := e.begin()
	prompt := `{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}`
	e.send(prompt, 2, id)
	q := e.request("session/request_permission")
	e.send(prompt, 3, id)
	e.send(prompt, 3, id) // the same id
	e.send(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"cancelled"}}}`, q.ID)
	require.Contains(t, string(e.answer("2").Result), "end_turn")
	require.Contains(t, string(e.answer("3").Result), "end_turn")
	e.answer("3")
	require.Len(t, model.Requests(), 4)
}

// A session is continued in its own directory only, and whoever asks for it in another one does not close it.
func TestEditorLoadsElsewhere(t *testing.T) {
	c := scripted(script.New(script.Say("the secret of a"), script.Say("still here")))
	e := connect(t, c)
	id, dir := begin(t, e, both, nil)
	e.ask(t, id, "go")
	e.take()
	other := files(t, nil)
	for _, cwd := range []string{other, filepath.Join(dir, "none"), "/"} {
		_, err := e.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: id, Cwd: cwd, McpServers: []sdk.McpServer{}})
		require.Equal(t, codeInvalidParams, codeOf(t, err), cwd)
		_, err = e.ResumeSession(t.Context(), sdk.ResumeSessionRequest{SessionId: id, Cwd: cwd})
		require.Equal(t, codeInvalidParams, codeOf(t, err), cwd)
	}
	require.Empty(t, said(e.take()))
	e.ask(t, id, "go on")
	require.Equal(t, "still here", said(e.take()))
	list, err := session.List(t.Context(), c.Store, nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, dir, list[0].Dir)
}

// A list of servers is refused as a whole if it has one that no user has configured.
func TestEditorServers(t *testing.T) {
	started := 0
	c := scripted(script.New(script.Say("ok")))
	c.Servers = func(context.Context, string, config.Server) (harness.ToolSource, error) {
		started++
		return nil, errors.New("not to be started")
	}
	e := connect(t, c)
	_, dir := begin(t, e, both, nil)
	server := func(name, command string) sdk.McpServer {
		return sdk.McpServer{Stdio: &sdk.McpServerStdio{Name: name, Command: command, Args: []string{}, Env: []sdk.EnvVariable{}}}
	}
	var many []sdk.McpServer
	for i := range maxServers + 1 {
		many = append(many, server(fmt.Sprint("s", i), "/bin/true"))
	}
	for name, list := range map[string][]sdk.McpServer{
		"a program of the project": {server("ok", "/bin/true"), server("s", "./run.sh")},
		"one of a directory":       {server("s", "bin/run")},
		"no program":               {server("s", "")},
		"the same name":            {server("a b", "/bin/true"), server("a-b", "/bin/true")},
		"many":                     many,
	} {
		_, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: list})
		require.Equal(t, codeInvalidParams, codeOf(t, err), name)
	}
	require.Zero(t, started)
}

// A hundred sessions work side by side, and end with the connection.
func TestEditorSessions(t *testing.T) {
	e := connect(t, scripted(script.New(script.Say("ok"))))
	_, dir := begin(t, e, both, nil)
	var ids []sdk.SessionId
	for range 100 {
		resp, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
		require.NoError(t, err)
		ids = append(ids, resp.SessionId)
	}
	for _, id := range ids {
		_, err := e.CloseSession(t.Context(), sdk.CloseSessionRequest{SessionId: id})
		require.NoError(t, err)
		_, err = e.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock(strings.Repeat("x", 10))}})
		require.Equal(t, codeNotFound, codeOf(t, err))
	}
}

// Whether an editor that does not answer has another text is not known, so the model does not get that of the disk.
func TestEditorIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withRawEditor(t, scripted(script.New(script.Call("read_file", map[string]any{"path": "a.txt"}), script.Say("ok"))))
		id, _ := e.begin()
		e.send(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}`, id)
		e.request("fs/read_text_file")
		told := e.until(func(m *rawMessage) bool { return strings.Contains(string(m.Params), "failed") })
		require.Contains(t, string(told.Params), "the editor has not answered within 30s")
		require.Contains(t, string(e.answer("2").Result), "end_turn")
	})
}

// deafOutput is a standard output that nobody reads any more: a Write with a text of the model waits, also after Close.
type deafOutput struct {
	io.WriteCloser
	waits, end chan struct{}
}

func (d *deafOutput) Write(p []byte) (int, error) {
	if !strings.Contains(string(p), "agent_message_chunk") {
		return d.WriteCloser.Write(p)
	}
	close(d.waits)
	<-d.end
	return 0, io.ErrClosedPipe
}

// An editor that reads nothing does not keep the program from ending.
func TestEditorReadsNothing(t *testing.T) {
	toAgent, in := io.Pipe()
	out, fromAgent := io.Pipe()
	deaf := &deafOutput{fromAgent, make(chan struct{}), make(chan struct{})}
	t.Cleanup(func() { close(deaf.end) })
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- Serve(ctx, toAgent, deaf, scripted(script.New(script.Say("words")))) }()
	e := &rawEditor{t, in, bufio.NewScanner(out)}
	id, _ := e.begin()
	go func() { _, _ = io.Copy(io.Discard, out) }()
	e.send(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}`, id)
	<-deaf.waits
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
}
