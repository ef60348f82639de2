package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// fake is the other side of a client, which answers what a test wants.
type fake struct {
	in *receiver
	w  io.Writer
}

// faked returns a client whose server is answer: it gets a request and returns an answer, or nil for
// none. It ends with the client.
func faked(t testing.TB, answer func(what op, body []byte) []byte) *Client {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	f := &fake{in: newReceiver(toServer), w: fromServer}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer fromServer.Close()
		f.serve(answer)
	}()
	c, err := Connect(t.Context(), toClient, fromClient)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(); <-done })
	return c
}

func (f *fake) serve(answer func(what op, body []byte) []byte) {
	if err := greeted(f.in.r); err != nil {
		return
	}
	h := reply(nil, &hello{Dir: "/w", Real: "/w", Environ: []string{"PATH=/bin"}})[1:]
	_, _ = f.w.Write(append(greeting(), frameOf(0, frameLast, h)...))
	for {
		r, err := f.in.next()
		if err != nil {
			return
		}
		if r.kind != frameLast {
			continue
		}
		if a := answer(op(r.payload[0]), r.payload[1:]); a != nil {
			if _, err := f.w.Write(frameOf(r.id, frameLast, a)); err != nil {
				return
			}
		}
	}
}

func frameOf(id uint32, kind byte, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
	b = binary.BigEndian.AppendUint32(b, id)
	return append(append(b, kind), payload...)
}

// oneEdit is a plan of one file.
func oneEdit(t testing.TB) edit.Plan {
	t.Helper()
	p, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Change, Base: "old\n", Proposed: "new\n"})
	require.NoError(t, err)
	return p
}

func kindOf(err error) workspace.ErrorKind {
	if e, ok := errors.AsType[*workspace.Error](err); ok {
		return e.Kind
	}
	return ""
}

// A server that lies is cut off, and nothing of what it says is used.
func TestAnswersThatCannotBeRight(t *testing.T) {
	run := func(c *Client) error {
		_, err := c.Run(t.Context(), &tools.ExecCommand{Root: "/w", Dir: "/w", Output: io.Discard})
		return err
	}
	open := func(c *Client) error { _, err := c.Open("f"); return err }
	list := func(c *Client) error { _, err := c.ReadDir(t.Context(), "d"); return err }
	apply := func(c *Client) error { _, err := c.Apply(t.Context(), oneEdit(t)); return err }
	openedOf := func(c content) opened { return opened{File: &c} }
	one, none := openedOf(content{}), opened{}
	good := edit.FileResult{Path: "f", Kind: edit.Change, Outcome: edit.OutcomeApplied, Written: true, Exists: true, Content: "new\n"}
	result := func(change func(r *edit.FileResult), n int) []byte {
		var all []edit.FileResult
		for range n {
			r := good
			change(&r)
			all = append(all, r)
		}
		return reply(nil, new(&applied{changedOf(all)}))
	}
	listed := func(all ...entry) []byte { return reply(nil, &all) }
	ended := func(change func(r *tools.ExecResult)) []byte {
		r := &ended{tools.ExecResult{Dir: "/w"}}
		change(&r.ExecResult)
		return reply(nil, &r)
	}
	opened := func(all ...opened) []byte { return reply(nil, &all) }
	for _, tt := range []struct {
		name   string
		answer []byte
		call   func(c *Client) error
		kind   workspace.ErrorKind
	}{
		{"empty", []byte{}, open, workspace.KindIO},
		{"unknown failure", []byte{99}, open, workspace.KindIO},
		{"more than asked", append(opened(one), 1, 1), open, workspace.KindIO},
		{"negative size", opened(openedOf(content{Size: -1})), open, workspace.KindIO},
		{"a directory", opened(openedOf(content{Mode: fs.ModeDir})), open, workspace.KindIO},
		{"a length that is not there", []byte{0, 1, 0, 1, 0, 0, 0, 200}, open, workspace.KindIO},
		{"no file", opened(), open, workspace.KindIO},
		{"two files in the place of one", opened(one, one), open, workspace.KindIO},
		{"a file that was left out", opened(none), open, workspace.KindIO},
		{"no command", reply(nil, new((*tools.ExecResult)(nil))), run, workspace.KindInterrupted},
		{"no plan", reply(nil, new((*applied)(nil))), apply, workspace.KindInterrupted},
		{"no result", reply(nil), run, workspace.KindInterrupted},
		{"a relative directory", ended(func(r *tools.ExecResult) { r.Dir = "d" }), run, workspace.KindInterrupted},
		{"too many notes", ended(func(r *tools.ExecResult) { r.Notes = make([]string, 99) }), run, workspace.KindInterrupted},
		{"a long signal", ended(func(r *tools.ExecResult) { r.Signal = strings.Repeat("x", maxText+1) }), run, workspace.KindInterrupted},
		{"a long directory", ended(func(r *tools.ExecResult) { r.Dir = "/" + strings.Repeat("x", maxPath) }), run, workspace.KindInterrupted},
		{"fewer than no survivors", ended(func(r *tools.ExecResult) { r.Survivors = -1 }), run, workspace.KindInterrupted},
		{"a long kind", reply(&workspace.Error{Kind: workspace.ErrorKind(strings.Repeat("x", maxText+1)), Err: io.EOF}), open, workspace.KindIO},
		{"a long reason", result(func(r *edit.FileResult) { r.Reason = strings.Repeat("x", maxText+1) }, 1), apply, workspace.KindInterrupted},
		{"a long sidecar", result(func(r *edit.FileResult) { r.Sidecars = []string{strings.Repeat("x", maxPath+1)} }, 1), apply, workspace.KindInterrupted},
		{"a name with a slash", listed(entry{Base: "../x"}), list, workspace.KindIO},
		{"an empty name", listed(entry{}), list, workspace.KindIO},
		{"dots", listed(entry{Base: ".."}), list, workspace.KindIO},
		{"NUL", listed(entry{Base: "a\x00"}), list, workspace.KindIO},
		{"not sorted", listed(entry{Base: "b"}, entry{Base: "a"}), list, workspace.KindIO},
		{"twice", listed(entry{Base: "a"}, entry{Base: "a"}), list, workspace.KindIO},
		{"a type that is none", listed(entry{Base: "a", Mode: 0o777}), list, workspace.KindIO},
		{"another file", result(func(r *edit.FileResult) { r.Path = "g" }, 1), apply, workspace.KindInterrupted},
		{"another kind", result(func(r *edit.FileResult) { r.Kind = edit.Delete }, 1), apply, workspace.KindInterrupted},
		{"another outcome", result(func(r *edit.FileResult) { r.Outcome = "done" }, 1), apply, workspace.KindInterrupted},
		{"no files", result(nil, 0), apply, workspace.KindInterrupted},
		{"two files", result(func(*edit.FileResult) {}, 2), apply, workspace.KindInterrupted},
		{"a sidecar elsewhere", result(func(r *edit.FileResult) { r.Sidecars = []string{"../x"} }, 1), apply, workspace.KindInterrupted},
		{"undoes another file", result(func(r *edit.FileResult) { r.Undo = &edit.File{Path: "g"} }, 1), apply, workspace.KindInterrupted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := faked(t, func(op, []byte) []byte { return tt.answer })
			err := tt.call(c)
			require.Equal(t, tt.kind, kindOf(err), "%v", err)
			require.ErrorIs(t, err, ErrDisconnected)
			e, ok := errors.AsType[*ProtocolError](err)
			require.True(t, ok, "%v", err)
			assert.NotEmpty(t, e.Text)
			<-c.Done()
			_, err = c.Open("f") // and nothing comes after it
			require.ErrorIs(t, err, ErrDisconnected)
			assert.Equal(t, workspace.KindIO, kindOf(err))
		})
	}
	c := faked(t, func(op, []byte) []byte { return result(func(*edit.FileResult) {}, 1) })
	res, err := c.Apply(t.Context(), oneEdit(t)) // the good one is right
	require.NoError(t, err)
	assert.Equal(t, "new\n", res.Files[0].Content)
}

// A list that is said to be long takes no memory, and neither does a frame.
func TestLengthsAreNotBelieved(t *testing.T) {
	huge := binary.AppendUvarint(reply(nil), maxEntries)
	c := faked(t, func(op, []byte) []byte { return huge })
	before := allocated()
	_, err := c.ReadDir(t.Context(), ".")
	require.ErrorIs(t, err, ErrDisconnected)
	assert.Less(t, allocated()-before, uint64(8<<20))
	for _, head := range [][]byte{
		frameOf(1, 99, nil), {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, frameLast}, {0, 1, 0, 1, 0, 0, 0, 1, frameLast}, frameOf(1, 0, nil),
	} {
		_, err := newReceiver(bytes.NewReader(append(head, make([]byte, 100)...))).next()
		_, ok := errors.AsType[*ProtocolError](err)
		assert.True(t, ok, "%v", err)
	}
}

// An answer takes a bounded amount of memory, whatever it says.
func TestAnswersDoNotGrow(t *testing.T) {
	timed.Serial(t)
	for name, tt := range map[string]struct {
		many func() any // what is encoded
		into any
	}{
		"a tree of many entries": {func() any {
			var all tree
			for d := range 8 { // each directory has as many as one may have
				dir := treeDir{Path: strconv.Itoa(d)}
				for i := range maxEntries - 1 {
					dir.Entries = append(dir.Entries, entry{Base: string([]byte{byte(1 + i>>14), byte(128 + i>>7&127), byte(128 + i&127)})})
				}
				all.Dirs = append(all.Dirs, dir)
			}
			return &all
		}, new(tree)},
		"a tree of empty directories": {func() any { return &tree{Dirs: make([]treeDir, maxEntries)} }, new(tree)},
		"many texts of the user beside": {func() any {
			return &applied{[]changed{{FileResult: edit.FileResult{Path: "f", Sidecars: make([]string, 2*maxEntries)}}}}
		}, new(applied)},
		"many results": {func() any { return &applied{make([]changed, math.MaxUint16)} }, new(applied)},
		"many failures": {func() any {
			all := make([]opened, maxEntries)
			for i := range all {
				all[i].Failure = failureOf(&workspace.Error{Err: io.EOF})
			}
			return &all
		}, new([]opened)},
		"one text in many places": {func() any {
			return &hello{Environ: slices.Repeat([]string{"A=" + strings.Repeat("x", 1<<20)}, 1<<10)}
		}, new(hello)},
		"many variables": {func() any { return &hello{Environ: make([]string, 2*maxEntries)} }, new(hello)},
	} {
		c := new(coder).code(tt.many())
		d := decoder(c.b)
		before := allocated()
		d.code(tt.into)
		grown := allocated() - before
		assert.Less(t, grown, uint64(8<<20), "%s: %d bytes", name, len(c.b))
		assert.Error(t, d.end(), name)
	}
}

// The error quotes a message of a shell, or of another program, in the place of a greeting.
func TestStrangersAreQuoted(t *testing.T) {
	for _, tt := range []struct{ said, want string }{
		{"sh: aycoder-remote: not found\n", "aycoder-remote: not found"},
		{"Welcome to this machine!\nLast login: today\n", "Last login"},
		{magic + "\x00\x63", "version 99"},
		{magic[:5], "EOF"},
		{"", "EOF"},
	} {
		_, err := Connect(t.Context(), io.NopCloser(strings.NewReader(tt.said)), discard{})
		require.ErrorContains(t, err, tt.want, "%q", tt.said)
	}
	_, err := Connect(t.Context(), io.NopCloser(strings.NewReader(magic+"\x00\x07")), discard{})
	e, ok := errors.AsType[*VersionError](err)
	require.True(t, ok)
	assert.Equal(t, 7, e.There)

	var out bytes.Buffer // the server answers an old client with its version
	err = Serve(t.Context(), strings.NewReader(magic+"\x00\x00"), &out, nil, nil)
	_, ok = errors.AsType[*VersionError](err)
	assert.True(t, ok, "%v", err)
	assert.Equal(t, string(greeting()), out.String())
	require.ErrorContains(t, Serve(t.Context(), strings.NewReader("GET / HTTP/1.1\r\n\r\n"), &out, nil, nil), "GET")
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

// A peer that never answers does not hold anybody up: a call ends with its context, and without one
// when the peer was silent for a minute.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := faked(t, func(op, []byte) []byte { return nil })
		why := errors.New("why it was cancelled")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := c.Within(ctx).Open("f")
		require.ErrorIs(t, err, why)
		_, err = c.ReadDir(ctx, ".")
		require.ErrorIs(t, err, why)

		start := time.Now() // of a plan, nobody knows then
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err = c.Apply(ctx, oneEdit(t))
		require.Equal(t, workspace.KindInterrupted, kindOf(err), "%v", err)
		assert.Equal(t, time.Second+patience, time.Since(start))
		require.NoError(t, c.Err())

		_, err = c.Open("f")
		require.ErrorIs(t, err, ErrDisconnected)
		require.Equal(t, workspace.KindIO, kindOf(err))
		assert.LessOrEqual(t, time.Since(start), goneAfter+pingEvery)
	})
}

// A server whose client is silent ends, and kills the commands.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toServer, fromClient := io.Pipe()
		toClient, fromServer := io.Pipe()
		go io.Copy(io.Discard, toClient)
		killed := false
		commands := execFunc(func(ctx context.Context, _ *tools.ExecCommand) (*tools.ExecResult, error) {
			<-ctx.Done()
			killed = true
			return &tools.ExecResult{Code: -1}, context.Cause(ctx)
		})
		done := make(chan error, 1)
		go func() { done <- Serve(t.Context(), toServer, fromServer, dirOnly{}, commands) }()
		c := (&coder{b: []byte{byte(opRun)}}).code(&request{Command: tools.ExecCommand{Dir: "/w"}})
		_, err := fromClient.Write(append(greeting(), frameOf(1, frameLast, c.b)...))
		require.NoError(t, err)
		require.ErrorContains(t, <-done, "silent")
		assert.True(t, killed)
	})
}

type execFunc func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error)

func (f execFunc) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	return f(ctx, c)
}

// dirOnly is files of which only the directory is asked for.
type dirOnly struct{ tools.FS }

func (dirOnly) Dir() string { return "/w" }

// A connection that is quiet stays, as each side gives signs of life.
func TestQuietConnectionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := here(t, dirOnly{}, nil)
		time.Sleep(time.Hour)
		require.NoError(t, c.Err())
	})
}

// A client that breaks the rules of the protocol is cut off.
func TestClientsThatAreCutOff(t *testing.T) {
	timed.Serial(t)
	many := func(kind byte, n int, payload []byte) (all []byte) {
		for i := range n {
			all = append(all, frameOf(uint32(i+1), kind, payload)...)
		}
		return all
	}
	for name, frames := range map[string][]byte{
		"unknown request":      frameOf(1, frameLast, []byte{byte(opEnd)}),
		"empty request":        frameOf(1, frameLast, nil),
		"not well-formed":      frameOf(1, frameLast, []byte{byte(opOpen), 200}),
		"more than it says":    frameOf(1, frameLast, append(append([]byte{byte(opOpen)}, named("f").b...), 1)),
		"a frame of a server":  frameOf(1, frameOutput, []byte("x")),
		"parts without an end": many(framePart, 4*(maxCalls+maxCommands)+1, []byte{byte(opOpen)}),
		"a large request":      bytes.Repeat(frameOf(1, framePart, make([]byte, maxFrame)), maxRequests/maxFrame+1),
	} {
		t.Run(name, func(t *testing.T) {
			ws, _ := local(t, t.TempDir())
			in := io.MultiReader(bytes.NewReader(append(greeting(), frames...)), forever{})
			err := Serve(t.Context(), in, io.Discard, ws, nil)
			_, ok := errors.AsType[*ProtocolError](err)
			require.True(t, ok, "%v", err)
		})
	}
}

// forever is a reader that waits.
type forever struct{}

func (forever) Read([]byte) (int, error) { select {} }

// The directory of commands is that of the server, whatever a client says.
func TestCommandsStayInside(t *testing.T) {
	dir := t.TempDir()
	ws, e := local(t, dir)
	c := here(t, ws, e)
	for _, at := range []string{"/", "..", filepath.Dir(dir), dir + "/none"} {
		_, err := c.Run(t.Context(), &tools.ExecCommand{Script: "echo x >run", Root: dir, Dir: at, Output: io.Discard})
		assert.ErrorIs(t, err, tools.ErrExecDir, at)
	}
	_, err := c.Run(t.Context(), &tools.ExecCommand{Script: "echo x >run", Root: "/", Dir: dir, Output: io.Discard})
	assert.ErrorIs(t, err, tools.ErrExecDir)
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, all)

	none := here(t, ws, nil)
	_, err = none.Run(t.Context(), &tools.ExecCommand{Script: "true", Root: dir, Dir: dir, Output: io.Discard})
	assert.ErrorContains(t, err, errNoCommands.Error())
}

// A server that makes up directories without end is not followed without end.
func TestEndlessDirectories(t *testing.T) {
	wide := make(listing, 5000)
	for i := range wide {
		wide[i] = entry{fmt.Sprintf("d%05d", i), fs.ModeDir}
	}
	for name, dir := range map[string]listing{"deep": {{"a", fs.ModeDir}}, "wide": wide} {
		t.Run(name, func(t *testing.T) {
			if name == "wide" {
				timed.Serial(t)
			}
			requests := 0
			c := faked(t, func(what op, _ []byte) []byte {
				requests++
				switch what {
				case opReadDir:
					return reply(nil, &dir)
				case opTree:
					return reply(nil, &tree{})
				}
				return reply(&workspace.Error{Op: "read", Kind: workspace.KindIsDirectory, Err: errors.New("is a directory")})
			})
			for args, build := range map[string]func(tools.FS, ...tools.Option) (aycoder.Tool, error){
				`{"recursive":true}`: tools.ListFiles, `{"pattern":"x"}`: tools.CodeSearch, `{"pattern":"**/x*"}`: tools.Glob,
			} {
				tool, err := build(c)
				require.NoError(t, err)
				before := allocated()
				r, err := tool.Call(t.Context(), aycoder.NewInvocation("c1", tool.Spec().Name, []byte(args), nil))
				require.NoError(t, err)
				assert.Less(t, len(r.Text()), 100<<10)
				assert.Less(t, allocated()-before, uint64(3<<29))
			}
			t.Logf("%d requests", requests)
			assert.Greater(t, requests, 200)
			assert.Less(t, requests, 10_000)
		})
	}
}
