package lsp_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// fake returns a server of a mode.
func fake(mode string) lsp.Server {
	return lsp.Server{
		Command: []string{os.Args[0]}, Languages: map[string]string{".fake": "fake"}, Watch: []string{"project.txt"},
		Settings: json.RawMessage(`{"fake":{"sub":{"level":3}}}`), Env: []string{modeVariable + "=" + mode}, Memory: -1, Reopen: mode == "changes",
	}
}

// A world is a workspace with a client and the tools that change files.
type world struct {
	testing.TB
	dir    string
	ws     *workspace.Workspace
	client *lsp.Client
	edit   aycoder.ToolFunc
}

func newWorld(t testing.TB, files map[string]string, opts ...lsp.Option) *world {
	if runtime.GOOS == "windows" {
		t.Skip("servers and commands do not run on Windows")
	}
	w := &world{TB: t, dir: filepath.Join(t.TempDir(), "a b 100% ä#?")}
	require.NoError(t, os.Mkdir(w.dir, 0o755))
	for name, text := range files {
		w.write(name, text)
	}
	ws, err := workspace.Open(w.dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	w.ws = ws
	w.client, err = lsp.New(ws, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { w.client.Close() })
	tool, err := tools.WriteFile(ws)
	require.NoError(t, err)
	w.edit = w.client.Middleware(tool.Call)
	return w
}

func (w *world) write(name, text string) {
	w.Helper()
	require.NoError(w, os.MkdirAll(filepath.Dir(filepath.Join(w.dir, name)), 0o755))
	require.NoError(w, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644))
}

func (w *world) text(name string) string {
	data, _ := os.ReadFile(filepath.Join(w.dir, name))
	return string(data)
}

// save changes a file with the tool, and returns what the middleware has added to the result.
func (w *world) save(name, text string) string {
	w.Helper()
	w.ws.Seen().Add(name, w.text(name))
	args, err := json.Marshal(map[string]string{"path": name, "content": text})
	require.NoError(w, err)
	r, err := w.edit(w.Context(), aycoder.NewInvocation("1", "write_file", args, nil))
	require.NoError(w, err)
	require.False(w, r.IsError, r.Text())
	require.Equal(w, text, w.text(name))
	if len(r.Parts) == 1 {
		return ""
	}
	require.Len(w, r.Parts, 2)
	return r.Parts[1].(*aycoder.Text).Text
}

// log returns what the server has seen.
func (w *world) log() string { return w.text("seen.log") }

func TestNewErrorsFollowAnEdit(t *testing.T) {
	timed.Serial(t)
	for _, mode := range []string{"good", "pull", "unversioned", "changes"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, map[string]string{"a.fake": "one\nerror: old\ntwo\n"},
				lsp.WithServer(fake(mode)), lsp.WithWait(time.Minute))
			require.Equal(t, "\nwritten; new errors:\na.fake:5: new (E1)\n", w.save("a.fake", "zero\none\nerror: old\ntwo\nerror: new\n"))
			require.Empty(t, w.save("a.fake", "zero\none\nerror: old\nerror: new\n"), "both have moved")
			require.Equal(t, "\nwritten; new errors:\na.fake:1: old (E1)\n",
				w.save("a.fake", "error: old\nerror: old\nerror: new\n"), "one of them is a second one")
			require.Empty(t, w.save("a.fake", "fine\n"))
			require.Empty(t, w.save("a.fake", "still fine\n"))
			require.Equal(t, "\nwritten; new errors:\nc.fake:1: other (E1)\n", w.save("c.fake", "error: other\n"))
			require.Equal(t, "\nwritten; new errors:\na.fake:2: new (E1)\n", w.save("a.fake", "still fine\nerror: new\n"))
			require.Empty(t, w.save("a.fake", "fine\n"))
			require.Empty(t, w.save("text.txt", "error: no\n"))
			require.Equal(t, "\nwritten; new errors:\nb.fake:1: in a new file (E1)\n", w.save("b.fake", "error: in a new file\n"))
			w.write("a.fake", "fine\nerror: of the user\n")
			require.Equal(t, "\nwritten; new errors:\na.fake:1: mine (E1)\n",
				w.save("a.fake", "error: mine\nerror: of the user\n"))
			require.Equal(t, 1, strings.Count(w.log(), "start "))
		})
	}
}

func TestErrorsInOtherFiles(t *testing.T) {
	w := newWorld(t, map[string]string{"a.fake": "one\n", "other.fake": "x\n"},
		lsp.WithServer(fake("others")), lsp.WithWait(time.Minute))
	require.Equal(t, "\nwritten; new errors:\nother.fake:3: broken by another file (E1)\n", w.save("a.fake", "breaks\n"))
	require.Empty(t, w.save("a.fake", "breaks still\n"))
}

// When the first edit creates a file, nothing is known of the errors that other files had before.
func TestFirstEditCreatesAFile(t *testing.T) {
	w := newWorld(t, map[string]string{"other.fake": "x\n"}, lsp.WithServer(fake("others")), lsp.WithWait(time.Minute))
	require.Equal(t, "\nwritten; new errors:\na.fake:1: mine (E1)\n", w.save("a.fake", "error: mine\n"))
	require.Equal(t, "\nwritten; new errors:\nother.fake:3: broken by another file (E1)\n", w.save("b.fake", "breaks\n"))
}

// gopls finds no errors in a file of a package that it does not know yet, and says nothing more until something changes.
func TestFirstFileOfAPackage(t *testing.T) {
	s := fake("unloaded")
	s.Languages, s.Watch = map[string]string{".go": "go"}, []string{"go.mod"}
	w := newWorld(t, map[string]string{"a.go": "one\n", "b/go.mod": "module b\n"}, lsp.WithServer(s), lsp.WithWait(time.Minute))
	require.Empty(t, w.save("a.go", "two\n"))
	require.Equal(t, "\nwritten; new errors:\nb/b.go:1: mine (E1)\n", w.save("b/b.go", "error: mine\n"))
}

// Errors of such a file that come too late follow the next edit.
func TestLateErrorsOfAPackage(t *testing.T) {
	s := fake("unloaded")
	s.Languages = map[string]string{".go": "go"}
	w := newWorld(t, map[string]string{"a.go": "one\n", "c.go": "one\n"}, lsp.WithServer(s), lsp.WithWait(time.Minute))
	require.Empty(t, w.save("a.go", "two\n"))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		timed.Until(t, func() bool { return strings.Contains(w.log(), "waits") }, "the server to be late")
		cancel()
	})
	r, err := w.edit(ctx, aycoder.NewInvocation("1", "write_file", []byte(`{"path":"b/b.go","content":"error: late\n"}`), nil))
	require.NoError(t, err)
	require.Len(t, r.Parts, 1)
	wg.Wait()
	require.Equal(t, "\nwritten; new errors:\nb/b.go:1: late (E1)\n", w.save("c.go", "two\n"))
}

// Errors that came too late for their edit follow the next one.
func TestLateErrors(t *testing.T) {
	w := newWorld(t, map[string]string{"a.fake": "one\ntwo\n"}, lsp.WithServer(fake("slow")), lsp.WithWait(time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		timed.Until(t, func() bool { return strings.Contains(w.log(), "waits") }, "the server to be late")
		cancel()
	})
	w.ws.Seen().Add("a.fake", "one\ntwo\n")
	r, err := w.edit(ctx, aycoder.NewInvocation("1", "write_file", []byte(`{"path":"a.fake","content":"one\nerror: late\n"}`), nil))
	require.NoError(t, err)
	require.False(t, r.IsError)
	require.Len(t, r.Parts, 1)
	wg.Wait()
	require.Equal(t, "\nwritten; new errors:\na.fake:3: late (E1)\n", w.save("a.fake", "zero\none\nerror: late\n"))
}

// A file that is created had no errors before, also if the server is still busy, and when others are edited then.
func TestLateErrorsOfANewFile(t *testing.T) {
	w := newWorld(t, map[string]string{"a.fake": "one\n", "c.fake": "one\n"}, lsp.WithServer(fake("asleep")), lsp.WithWait(time.Minute))
	for i, args := range []string{
		`{"path":"a.fake","content":"two\n"}`, `{"path":"b.fake","content":"error: mine\n"}`, `{"path":"c.fake","content":"two\n"}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			timed.Until(t, func() bool { return strings.Count(w.log(), "waits") > 2*i }, "the server to be late")
			cancel()
		})
		w.ws.Seen().Add("a.fake", "one\n")
		w.ws.Seen().Add("c.fake", "one\n")
		r, err := w.edit(ctx, aycoder.NewInvocation("1", "write_file", []byte(args), nil))
		require.NoError(t, err)
		require.Len(t, r.Parts, 1)
		wg.Wait()
	}
	require.Equal(t, "\nwritten; new errors:\nb.fake:1: mine (E1)\n", w.save("a.fake", "three\n"))
}

func TestServerIsToldOfOtherChanges(t *testing.T) {
	w := newWorld(t, map[string]string{"a.fake": "one\n", "b.fake": "b\n", "project.txt": "1\n", "other.txt": "1\n"},
		lsp.WithServer(fake("good")), lsp.WithWait(time.Minute))
	require.Empty(t, w.save("a.fake", "two\n"))
	w.write("b.fake", "changed\n")
	w.write("c.fake", "created\n")
	w.write("project.txt", "changed\n")
	w.write("other.txt", "changed\n")
	require.NoError(t, os.Remove(filepath.Join(w.dir, "a.fake")))
	require.Empty(t, w.save("d.fake", "new\n"))
	require.NoError(t, w.client.Close())
	for _, want := range []string{"2 b.fake", "1 c.fake", "2 project.txt", "3 a.fake", "1 d.fake", "exit"} {
		require.Contains(t, w.log(), want+"\n")
	}
	require.NotContains(t, w.log(), "other.txt")
}

// Whatever a server does, an edit is done, costs at most the wait, and leaves no process.
func TestBadServers(t *testing.T) {
	const wait = 200 * time.Millisecond
	for _, mode := range []string{"silent", "dies at start", "mute", "hangs", "dies", "floods", "giant", "garbage",
		"endless header", "wrong ids", "deaf", "asks"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]string{"a.fake": "one\n"}, lsp.WithServer(fake(mode)), lsp.WithWait(wait))
			for i := range 6 {
				start := time.Now()
				added := w.save("a.fake", strings.Repeat("error: x\n", i+1))
				timed.Within(t, start, wait+time.Second, mode)
				if mode != "wrong ids" && mode != "asks" {
					require.Empty(t, added)
				}
			}
			start := time.Now()
			require.NoError(t, w.client.Close())
			timed.Within(t, start, 3*time.Second, "close")
			require.LessOrEqual(t, strings.Count(w.log(), "start "+mode+"\n"), 3)
			_, err := w.client.Definition(t.Context(), "a.fake", lsp.Position{Line: 1, Column: 1})
			require.ErrorIs(t, err, lsp.ErrGone)
			require.Empty(t, w.save("a.fake", "after the end\n"))
		})
	}
}

func TestMissingServer(t *testing.T) {
	s := fake("good")
	s.Command = []string{filepath.Join(t.TempDir(), "no-such-server")}
	w := newWorld(t, map[string]string{"a.fake": "one\n"}, lsp.WithServer(s))
	require.Empty(t, w.save("a.fake", "error: x\n"))
	_, err := w.client.Definition(t.Context(), "a.fake", lsp.Position{Line: 1, Column: 1})
	var e *lsp.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "no-such-server", e.Server)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = w.client.Definition(t.Context(), "a.txt", lsp.Position{Line: 1, Column: 1})
	require.ErrorIs(t, err, lsp.ErrNoServer)
}

func TestErrorHasTheServersWords(t *testing.T) {
	w := newWorld(t, map[string]string{"a.fake": "one\n"}, lsp.WithServer(fake("dies at start")))
	_, err := w.client.Definition(t.Context(), "a.fake", lsp.Position{Line: 1, Column: 1})
	require.ErrorContains(t, err, "fake server in mode dies at start")
}

// The questions of a server are answered, and no edit of it is applied.
func TestQuestionsOfTheServer(t *testing.T) {
	w := newWorld(t, map[string]string{"a.fake": "one\n"}, lsp.WithServer(fake("asks")), lsp.WithWait(time.Minute))
	require.Empty(t, w.save("a.fake", "two\n"))
	require.NoError(t, w.client.Close())
	require.Contains(t, w.log(), `answer [{"level":3},null]`+"\n")
	require.Contains(t, w.log(), `answer {"applied":false,"failureReason":"edits by the server are not accepted"}`+"\n")
	require.Contains(t, w.log(), `answer {"code":-32601,"message":"method not found"}`+"\n")
	require.Contains(t, w.log(), `"name":"workspace"`)
	require.Equal(t, "two\n", w.text("a.fake"))
}

func TestCancelledEdit(t *testing.T) {
	w := newWorld(t, map[string]string{"a.fake": "one\n"}, lsp.WithServer(fake("mute")), lsp.WithWait(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	edit := w.client.Middleware(func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		tool, err := tools.WriteFile(w.ws)
		require.NoError(t, err)
		r, err := tool.Call(ctx, inv)
		cancel()
		return r, err
	})
	r, err := edit(ctx, aycoder.NewInvocation("1", "write_file", []byte(`{"path":"b.fake","content":"error: x\n"}`), nil))
	require.NoError(t, err)
	require.False(t, r.IsError)
	require.Len(t, r.Parts, 1)
}
