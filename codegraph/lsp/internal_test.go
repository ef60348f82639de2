package lsp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

func TestURIs(t *testing.T) {
	for _, tt := range []struct {
		uri, path string
		windows   bool
	}{
		{"file:///a/b.go", "/a/b.go", false},
		{"file:///a%20b/100%25/%C3%A4%23%3F.go", "/a b/100%/ä#?.go", false},
		{"file:///c:/x.go", "/c:/x.go", false},
		{"file:///C:/x%20y/z.go", `C:\x y\z.go`, true},
		{"file:///c%3A/x.go", `C:\x.go`, true},
		{"file://server/share/x.go", `\\server\share\x.go`, true},
		{"untitled:Untitled-1", "", false},
		{"jar:file:///a.jar!/b", "", false},
		{"file:///a%00b", "", false},
		{"file://localhost/a/b.go", "/a/b.go", false},
		{"file://host/a/b.go", "", false},
		{"file:///a#b.go", "", false},
		{"file:///a?b.go", "", false},
		{"file:a/b.go", "", false},
		{"%zz", "", false},
	} {
		require.Equal(t, tt.path, pathOf(tt.uri, tt.windows), tt.uri)
	}
	for _, p := range []string{"/a/b.go", "/a b/100%/ä#?.go", "/x+y/%20/z;=&.go", "/c:/x"} {
		require.Equal(t, p, pathOf(uriOf(p), false))
	}
	require.Equal(t, "file:///a%20b/100%25/%C3%A4%23%3F.go", uriOf("/a b/100%/ä#?.go"))
	require.Equal(t, "file:///C:/x.go", uriOf("C:/x.go"))
}

func TestColumnsOfEncodings(t *testing.T) {
	for _, line := range []string{"", "abc", "äöü x", "a😀b😀", "\u202e世界", "x\xff\xfey"} {
		for i := range line {
			units := len(utf16.Encode([]rune(line[:i])))
			require.Equal(t, units, characterOf(line, i, false), "%q[:%d]", line, i)
			require.Equal(t, i, byteOf(line, units, false), "%q %d", line, units)
			require.Equal(t, i, characterOf(line, i, true))
			require.Equal(t, i, byteOf(line, i, true))
		}
		require.Equal(t, len(line), byteOf(line, 1000, false))
		require.Equal(t, len(line), byteOf(line, 1000, true))
		require.Equal(t, 0, byteOf(line, -5, true))
	}
}

func TestAdded(t *testing.T) {
	p := func(line int, text string) problem { return problem{line, text} }
	for _, tt := range []struct {
		name, before, after string
		old, now, want      []problem
	}{
		{"moved down", "a\nb\n", "x\na\nb\n", []problem{p(2, "e")}, []problem{p(3, "e")}, nil},
		{"moved up", "x\na\nb\n", "b\n", []problem{p(3, "e")}, []problem{p(1, "e")}, nil},
		{"same words elsewhere", "a\nb\nc\n", "a\nb\nc\nd\n", []problem{p(1, "e")}, []problem{p(1, "e"), p(4, "e")}, []problem{p(4, "e")}},
		{"only elsewhere", "a\nb\nc\n", "a\nb\nc\nd\n", []problem{p(1, "e")}, []problem{p(4, "e")}, []problem{p(4, "e")}},
		{"in a line that was rewritten", "a\nb\nc\n", "a\nB\nc\n", []problem{p(2, "e")}, []problem{p(2, "e")}, nil},
		{"twice in it", "a\nb\nc\n", "a\nB\nC\nc\n", []problem{p(2, "e")}, []problem{p(2, "e"), p(3, "e")}, []problem{p(3, "e")}},
		{"moved with code", "f\n1\n2\n3\n", "1\n2\n3\nf\n", []problem{p(1, "e")}, []problem{p(4, "e")}, nil},
		{"other words", "a\n", "a\n", []problem{p(1, "e")}, []problem{p(1, "f")}, []problem{p(1, "f")}},
		{"twice before", "a\n", "a\n", []problem{p(1, "e"), p(1, "e")}, []problem{p(1, "e")}, nil},
		{"new file", "", "a\n", nil, []problem{p(1, "e")}, []problem{p(1, "e")}},
	} {
		require.ElementsMatch(t, tt.want, added(tt.old, tt.now, tt.before, tt.after), tt.name)
	}
}

func TestSettings(t *testing.T) {
	x := &session{server: &server{Server: Server{Command: []string{"/bin/gopls"}, Settings: json.RawMessage(`{"a":{"b":{"c":1}},"gopls.x":2}`)}}}
	for section, want := range map[string]string{
		"": `{"a":{"b":{"c":1}},"gopls.x":2}`, "gopls": `{"a":{"b":{"c":1}},"gopls.x":2}`,
		"a": `{"b":{"c":1}}`, "a.b": `{"c":1}`, "a.b.c": "1", "a.b.c.d": "null", "x": "null", "x.gopls": "null",
	} {
		got, err := json.Marshal(x.settings(section))
		require.NoError(t, err)
		require.JSONEq(t, want, string(got), section)
	}
}

// The store is bounded, whatever a server says.
func TestStoreIsBounded(t *testing.T) {
	s := newStore()
	list := problemsOf(make([]wireDiagnostic, 5000))
	require.Len(t, list, maxFileErrors)
	for i := range 2000 {
		s.set(fmt.Sprint(i), 0, list)
	}
	require.Equal(t, maxErrors, s.total)
	require.Len(t, s.errors(), maxErrors/maxFileErrors)
	for i := range 2000 {
		s.set(fmt.Sprint(i), 0, nil)
	}
	require.Zero(t, s.total)
	require.Empty(t, s.errors())
	text := problemsOf([]wireDiagnostic{{Message: strings.Repeat("ä\n", 1<<20), Code: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)}})[0].text
	require.LessOrEqual(t, len(text), maxErrorText+len("…"))
}

func TestSeverities(t *testing.T) {
	got := problemsOf([]wireDiagnostic{
		{Severity: 1, Message: "one\n  two", Code: json.RawMessage(`7`)}, {Severity: 2, Message: "warning"}, {Message: "unsaid", Code: json.RawMessage(`null`)},
	})
	require.Equal(t, []problem{{1, "one two (7)"}, {1, "unsaid"}}, got)
}

// discard is a connection whose handler refuses everything.
func discard() *conn {
	return newConn(func(string, json.RawMessage) (any, *ResponseError) { return nil, &ResponseError{} })
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}"))
	f.Add([]byte("content-length:51\r\nContent-Type: x\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":[1]}"))
	f.Add([]byte("Content-Length: 99999999999\r\n\r\n{"))
	f.Add([]byte("Content-Length: -1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := discard()
		require.Error(t, c.read(bytes.NewReader(data)))
		require.LessOrEqual(t, c.queued, 200*(len(data)+1), "few bytes of answers")
	})
}

func FuzzMessages(f *testing.F) {
	f.Add("textDocument/publishDiagnostics", []byte(`{"uri":"file:///w/a.go","version":1,"diagnostics":[{"range":{"start":{"line":1}},"severity":1,"message":"m","code":"c"}]}`))
	f.Add("workspace/configuration", []byte(`{"items":[{"section":"a.b"}]}`))
	f.Add("client/registerCapability", []byte(`{"registrations":[{"method":"textDocument/diagnostic"}]}`))
	f.Fuzz(func(t *testing.T, method string, params []byte) {
		x := &session{server: &server{Server: Server{Command: []string{"x"}}, client: &Client{root: "/w"}}, store: newStore()}
		x.client.files = noFiles{}
		_, _ = x.serve(method, params)
		require.LessOrEqual(t, x.store.total, maxErrors)
		var at locations
		if json.Unmarshal(params, &at) == nil {
			x.resolve(at)
		}
		var e workspaceEdit
		if json.Unmarshal(params, &e) == nil {
			_, _ = x.edited(&e)
		}
	})
}

func FuzzReplace(f *testing.F) {
	f.Add("one two\nzwei ä😀two\n", 0, 4, 1, 8, true)
	f.Fuzz(func(t *testing.T, text string, line, from, other, to int, utf8 bool) {
		x := &session{utf8: utf8}
		edits := []wireEdit{{wireRange{wirePosition{line, from}, wirePosition{line, from + 3}}, "THREE"},
			{wireRange{wirePosition{other, to}, wirePosition{other, to + 3}}, "THREE"}}
		got, err := x.replace(text, edits, "two", "THREE")
		if err == nil {
			n := strings.Count(got, "THREE") - strings.Count(text, "THREE")
			require.LessOrEqual(t, 1, n)
			require.Equal(t, len(text)+2*n, len(got))
		}
	})
}

func FuzzAdded(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nx\nc\n", 2)
	f.Fuzz(func(t *testing.T, before, after string, line int) {
		p := []problem{{line, "e"}}
		require.Empty(t, added(p, p, before, before))
		require.Equal(t, p, added(nil, p, before, after))
		require.Empty(t, added(p, nil, before, after))
	})
}

// A message that comes in many pieces, or lies about its length, costs no more than its bytes.
func TestReadIsLinear(t *testing.T) {
	timed.Serial(t)
	frame := func(n int) []byte {
		body := []byte(`{"method":"` + strings.Repeat("x", n) + `"}`)
		return append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(body)), body...)
	}
	read := func(n int) func() {
		data := frame(n)
		return func() { _ = discard().read(bytes.NewReader(data)) }
	}
	small, large := timed.Best(3, read(1<<20)), timed.Best(3, read(8<<20))
	timed.AtMost(t, large, 8*4*small+time.Millisecond, "8 times as much")
	_, err := readFrame(bufio.NewReader(io.LimitReader(zeros{}, 1<<20)))
	require.ErrorIs(t, err, errMessage)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// noFiles is a workspace without files.
type noFiles struct{ tools.FS }

func (noFiles) Dir() string                       { return "/w" }
func (noFiles) Open(name string) (fs.File, error) { return nil, fs.ErrNotExist }

// A file of a further root has the path of its directory in the system, for servers and for commands.
func TestRoots(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no shell")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dir, lib := filepath.Join(base, "ws"), filepath.Join(base, "lib")
	require.NoError(t, errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(lib, 0o755)))
	ws, err := workspace.Open(dir, workspace.WithRoot("lib", lib))
	require.NoError(t, err)
	defer ws.Close()
	c, err := New(ws)
	require.NoError(t, err)
	defer c.Close()
	for name, abs := range map[string]string{"lib:/src/a.go": filepath.Join(lib, "src", "a.go"), "a.go": filepath.Join(dir, "a.go"), "lib:x": filepath.Join(dir, "lib:x")} {
		require.Equal(t, abs, c.absolute(name))
		back, ok := c.relative(abs)
		require.True(t, ok)
		require.Equal(t, name, back)
	}
	_, ok := c.relative(filepath.Dir(dir))
	require.False(t, ok)
	out, code, ok := c.run(t.Context(), Command{Script: "pwd; echo {file}"}, "lib:/src/a.go")
	require.True(t, ok)
	require.Zero(t, code)
	require.Equal(t, lib+"\nsrc/a.go\n", out)
}
