package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// noBuffers is an editor in which no file is open.
type noBuffers struct{}

func (noBuffers) read(context.Context, string) (string, error) { return "", errors.New("not open") }
func (noBuffers) write(context.Context, string, string) error  { return errors.New("not open") }

func TestFilesContract(t *testing.T) {
	agenttest.TestFS(t, func(t testing.TB, dir string) tools.FS {
		ws, err := workspace.Open(dir)
		require.NoError(t, err)
		t.Cleanup(func() { _ = ws.Close() })
		return newEditor(ws, noBuffers{}, dir, true)
	})
}

// testBuffers is an editor with one file.
type testBuffers struct {
	file, text string
	unsaved    bool                // a write does not save
	deaf       bool                // a write does nothing
	before     func(*testBuffers)  // a read
	after      func(*testBuffers)  // a read
	form       func(string) string // of the texts that it returns
	fails      error               // of a read
	meanwhile  func()              // happens while it takes a text
}

func (b *testBuffers) read(_ context.Context, name string) (string, error) {
	if name != b.file {
		return "", errors.New("not open")
	}
	if b.before != nil {
		b.before(b)
	}
	if b.after != nil {
		defer b.after(b)
	}
	if b.fails != nil {
		return "", b.fails
	}
	if b.form != nil {
		return b.form(b.text), nil
	}
	return b.text, nil
}

func (b *testBuffers) write(_ context.Context, name, text string) error {
	switch {
	case b.deaf:
		return nil
	case name == b.file:
		b.text = text
	}
	if b.meanwhile != nil {
		b.meanwhile()
	}
	if b.unsaved {
		return nil
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// a file of an editor
type edited struct {
	*editor
	buffers *testBuffers
	t       *testing.T
}

func openEditor(t *testing.T, text string) *edited {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	b := &testBuffers{file: filepath.Join(dir, "f"), text: text}
	require.NoError(t, os.WriteFile(b.file, []byte(text), 0o644))
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ws.Close() })
	e := &edited{newEditor(ws, b, dir, true), b, t}
	e.since = time.Now().Add(time.Minute) // the file was there before
	return e
}

func (e *edited) view() string {
	f, err := e.Within(e.t.Context()).Open("f")
	require.NoError(e.t, err)
	defer f.Close()
	text, err := io.ReadAll(f)
	require.NoError(e.t, err)
	info, err := f.Stat()
	require.NoError(e.t, err)
	require.EqualValues(e.t, len(text), info.Size())
	return string(text)
}

func (e *edited) disk() string {
	text, err := os.ReadFile(e.buffers.file)
	require.NoError(e.t, err)
	return string(text)
}

func (e *edited) save(text string) {
	require.NoError(e.t, os.WriteFile(e.buffers.file, []byte(text), 0o644))
}

func (e *edited) change(base, now string) (*edit.Result, error) {
	e.t.Helper()
	plan, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Change, Base: base, Proposed: now})
	require.NoError(e.t, err)
	return e.Apply(e.t.Context(), plan)
}

const five = "one\ntwo\nthree\nfour\nfive\n"

func swap(text, old, now string) string { return strings.Replace(text, old, now, 1) }

func TestBuffers(t *testing.T) {
	mine := swap(five, "five", "FIVE") // the user
	tests := []struct {
		name string
		do   func(e *edited) // between the reading and the change of the model
		base string          // of the model; default: five
		want string          // on disk and in the buffer, or a part of the error
		fail bool
	}{
		{name: "clean", do: func(*edited) {}, want: swap(five, "one", "ONE")},
		{name: "unsaved", do: func(e *edited) { e.buffers.text = mine }, want: swap(mine, "one", "ONE")},
		{name: "unsaved, same lines", do: func(e *edited) { e.buffers.text = swap(five, "one", "1") }, want: "same lines in the editor", fail: true},
		{name: "saved", do: func(e *edited) { e.buffers.text = mine; e.save(mine) }, want: swap(mine, "one", "ONE")},
		{name: "changed on disk", do: func(e *edited) { e.save(mine) }, want: swap(mine, "one", "ONE")},
		{name: "changed on disk, same lines", do: func(e *edited) { e.save(swap(five, "one", "1")) }, want: "same lines", fail: true},
		{name: "both", do: func(e *edited) { e.save(swap(five, "three", "THREE")); e.buffers.text = mine },
			want: swap(swap(mine, "one", "ONE"), "three", "THREE")},
		{name: "both, same lines", do: func(e *edited) { e.save(swap(five, "five", "5")); e.buffers.text = mine },
			want: "changed on disk and in the editor", fail: true},
		{name: "unsaved, not saved by writing", do: func(e *edited) { e.buffers.text, e.buffers.unsaved = mine, true }, want: swap(mine, "one", "ONE")},
		{name: "takes nothing", do: func(e *edited) { e.buffers.deaf = true }, want: swap(five, "one", "ONE")},
		{name: "reading only, clean", do: func(e *edited) { e.writes = false; e.buffers.deaf = true }, want: swap(five, "one", "ONE")},
		{name: "reading only, unsaved", do: func(e *edited) { e.writes = false; e.buffers.text = mine }, want: "save them first", fail: true},
		{name: "reading only, changed on disk", do: func(e *edited) { e.writes = false; e.save(mine) }, want: swap(mine, "one", "ONE")},
		{name: "without ends of lines", do: func(e *edited) {
			e.buffers.form = func(s string) string { return strings.TrimSuffix(s, "\n") }
			e.buffers.text = mine
		}, want: swap(mine, "one", "ONE")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := openEditor(t, five)
			require.Equal(t, five, e.view())
			tt.do(e)
			buffer, disk := e.buffers.text, e.disk()
			res, err := e.change(five, swap(five, "one", "ONE"))
			if tt.fail {
				conflict, ok := errors.AsType[*edit.ConflictError](err)
				require.True(t, ok, "%v", err)
				require.Contains(t, conflict.ModelText(), tt.want)
				require.Len(t, res.Files, 1)
				require.Equal(t, buffer, e.buffers.text, "nothing has changed")
				require.Equal(t, disk, e.disk(), "nothing has changed")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, e.disk())
			require.Equal(t, tt.want, res.Files[0].Content)
			require.Equal(t, tt.want, e.view(), "the model sees it")
			if e.writes && !e.buffers.deaf {
				require.Equal(t, tt.want, e.buffers.text)
			}
		})
	}
}

// A file that the session sees first when its user has it unsaved, or when a command has changed it.
func TestBuffersUnknown(t *testing.T) {
	e := openEditor(t, five)
	e.buffers.text = swap(five, "five", "FIVE")
	require.Equal(t, e.buffers.text, e.view(), "the disk is older than the session")
	_, err := e.change(e.buffers.text, swap(e.buffers.text, "one", "ONE"))
	require.NoError(t, err)

	e = openEditor(t, five)
	e.since = time.Now().Add(-time.Minute) // the disk has changed since
	e.save(swap(five, "two", "TWO"))
	require.Equal(t, five, e.view(), "what the user sees")
	_, err = e.change(five, swap(five, "one", "ONE"))
	require.ErrorContains(t, err, "either may be the newer one")
	require.Equal(t, swap(five, "two", "TWO"), e.disk())
	e.buffers.text = e.disk() // the user loads it again
	_, err = e.change(e.view(), swap(e.view(), "one", "ONE"))
	require.NoError(t, err)
	require.Equal(t, e.disk(), e.buffers.text)
}

// The editor changes while a plan is carried out.
func TestBuffersWhileApplying(t *testing.T) {
	for n := 2; n <= 4; n++ { // the second to the fourth reading
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			e := openEditor(t, five)
			reads := 0
			e.buffers.before = func(b *testBuffers) {
				if reads++; reads == n {
					b.text = swap(b.text, "five", "FIVE")
				}
			}
			require.Equal(t, five, e.view())
			_, err := e.change(five, swap(five, "one", "ONE"))
			require.NoError(t, err)
			require.Contains(t, e.buffers.text, "FIVE")
			require.Contains(t, e.buffers.text, "ONE")
			require.Contains(t, e.disk(), "ONE")
			require.Contains(t, e.view(), "ONE")
			require.Contains(t, e.view(), "FIVE")
		})
	}
	t.Run("unsaved", func(t *testing.T) { // and typed before it is saved
		e := openEditor(t, five)
		require.Equal(t, five, e.view())
		e.buffers.text = swap(five, "five", "FIVE")
		reads := 0
		e.buffers.after = func(b *testBuffers) {
			if reads++; reads == 1 {
				b.text = swap(b.text, "three", "THREE")
			}
		}
		_, err := e.change(five, swap(five, "one", "ONE"))
		require.NoError(t, err)
		require.Equal(t, "ONE\ntwo\nTHREE\nfour\nFIVE\n", e.buffers.text)
		require.Equal(t, e.buffers.text, e.disk())
		e.buffers.after = func(b *testBuffers) { b.text += "more\n" } // without end
		seen := e.view()
		_, err = e.change(seen, swap(seen, "two", "TWO"))
		require.ErrorContains(t, err, "is typing in it")
	})
	t.Run("same lines", func(t *testing.T) {
		e := openEditor(t, five)
		reads := 0
		e.buffers.before = func(b *testBuffers) {
			if reads++; reads == 3 { // after the disk was written
				b.text = swap(b.text, "one", "1")
			}
		}
		require.Equal(t, five, e.view())
		res, err := e.change(five, swap(five, "one", "ONE"))
		require.NoError(t, err)
		require.Contains(t, res.Files[0].Reason, "same lines")
		require.Equal(t, swap(five, "one", "1"), e.buffers.text)
		_, err = e.change(swap(five, "one", "ONE"), swap(five, "one", "Uno"))
		require.Error(t, err)
		require.Equal(t, swap(five, "one", "1"), e.buffers.text)
	})
}

// An editor that does not say what it has keeps it, whatever that is.
func TestBuffersUntold(t *testing.T) {
	mine := swap(five, "five", "FIVE")
	for n := 2; n <= 4; n++ { // the second to the fourth reading
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			e := openEditor(t, five)
			reads := 0
			e.buffers.before = func(b *testBuffers) {
				if reads++; reads == n {
					b.text, b.fails = swap(b.text, "five", "FIVE"), errors.New("busy")
				} else if reads > n {
					b.fails = nil
				}
			}
			require.Equal(t, five, e.view())
			_, err := e.change(five, swap(five, "one", "ONE"))
			require.NoError(t, err)
			require.Contains(t, e.buffers.text, "FIVE")
			require.Contains(t, e.disk(), "ONE")
		})
	}
	t.Run("older", func(t *testing.T) { // and has not noticed what a command has written
		e := openEditor(t, five)
		require.Equal(t, five, e.view())
		disk := five + "six\n"
		e.save(disk)
		e.buffers.fails = errors.New("busy")
		e.buffers.after = func(b *testBuffers) { b.fails = nil }
		_, err := e.change(disk, swap(disk, "one", "ONE"))
		require.NoError(t, err)
		require.Equal(t, swap(disk, "one", "ONE"), e.disk())
	})
	t.Run("large", func(t *testing.T) {
		e := openEditor(t, five)
		require.Equal(t, five, e.view())
		e.buffers.text = mine + strings.Repeat("x", 2*maxBuffer)
		_, _ = e.change(five, swap(five, "one", "ONE"))
		require.Contains(t, e.buffers.text, "FIVE")
	})
	t.Run("silent", func(t *testing.T) {
		for _, f := range []edit.File{{Path: "f", Kind: edit.Change, Base: five, Proposed: swap(five, "one", "ONE")}, {Path: "f", Kind: edit.Delete, Base: five}} {
			e := openEditor(t, five)
			require.Equal(t, five, e.view())
			e.buffers.text, e.buffers.fails = mine, errNoAnswer
			plan, err := edit.NewPlan(f)
			require.NoError(t, err)
			_, err = e.Apply(t.Context(), plan)
			require.ErrorIs(t, err, errNoAnswer)
			require.Equal(t, five, e.disk(), "it may have another text")
		}
	})
}

// Another program writes the file while the editor is asked to save it, and the editor does not.
func TestBuffersSavedByOthers(t *testing.T) {
	e := openEditor(t, five)
	require.Equal(t, five, e.view())
	e.buffers.text, e.buffers.unsaved = swap(five, "five", "FIVE"), true
	e.buffers.meanwhile = func() {
		e.buffers.meanwhile = nil
		e.save(swap(five, "three", "THREE"))
	}
	_, err := e.change(five, swap(five, "one", "ONE"))
	require.NoError(t, err)
	require.Equal(t, "ONE\ntwo\nTHREE\nfour\nFIVE\n", e.buffers.text)
	require.Equal(t, e.buffers.text, e.disk())
}

func TestBuffersForm(t *testing.T) {
	for disk, buffer := range map[string]string{
		"a\r\nb\r\n": "a\nb\n", "\ufeffa\n": "a\n", "a\nb\n": "a\nb", "a\r\nb\r\n ": "a\nb\n ", "": "",
	} {
		require.Equal(t, disk, inForm(buffer, disk), "%q", disk)
	}
	for disk, buffer := range map[string]string{"a\nb\r\n": "a\nb\n", "a": "a\n"} {
		require.Equal(t, buffer, inForm(buffer, disk), "%q", disk)
	}
}

func TestBuffersCreateAndDelete(t *testing.T) {
	e := openEditor(t, five)
	require.NoError(t, os.Remove(e.buffers.file))
	e.buffers.text = "unsaved\n"
	create, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Create, Proposed: "mine\n"})
	require.NoError(t, err)
	_, err = e.Apply(t.Context(), create)
	require.ErrorContains(t, err, "not saved")
	require.NoFileExists(t, e.buffers.file)
	e.buffers.text = ""
	_, err = e.Apply(t.Context(), create)
	require.NoError(t, err)
	require.Equal(t, "mine\n", e.buffers.text)

	remove, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Delete, Base: "mine\n"})
	require.NoError(t, err)
	e.buffers.text = "mine\nand yours\n"
	_, err = e.Apply(t.Context(), remove)
	require.ErrorContains(t, err, "in the editor")
	require.FileExists(t, e.buffers.file)
	e.buffers.text = "mine\n"
	_, err = e.Apply(t.Context(), remove)
	require.NoError(t, err)
	require.NoFileExists(t, e.buffers.file)
	_, err = e.Apply(t.Context(), create) // the editor still shows what was deleted
	require.NoError(t, err)
	require.Equal(t, "mine\n", e.disk())
}

// The user types, saves and loads, commands write, and the model edits. No line that the user has typed is ever lost.
func TestBuffersKeepLines(t *testing.T) {
	rounds := uint64(10)
	if n, err := strconv.ParseUint(os.Getenv("AYCODER_ACP_ROUNDS"), 10, 64); err == nil {
		rounds = n
	}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(seed, 1))
		e := openEditor(t, strings.Repeat("line\n", 3)+five)
		typed := map[string]bool{}
		model := e.view()
		insert := func(text, line string) string {
			lines := strings.SplitAfter(text, "\n")
			i := r.IntN(len(lines))
			return strings.Join(lines[:i], "") + line + "\n" + strings.Join(lines[i:], "")
		}
		i := 0
		e.buffers.before = func(b *testBuffers) { // the user types at any time
			if r.IntN(8) == 0 {
				line := fmt.Sprintf("user %d-%d while reading %d", seed, i, len(typed))
				b.text = insert(b.text, line)
				typed[line] = true
			}
		}
		for i = range 40 {
			name := fmt.Sprintf("%d-%d", seed, i)
			switch r.IntN(6) {
			case 0, 1:
				e.buffers.text = insert(e.buffers.text, "user "+name)
				typed["user "+name] = true
			case 2: // an editor saves only what it has loaded
				if base, ok := e.last("f"); ok && e.disk() == base {
					e.save(e.buffers.text)
				}
			case 3: // a command, and an editor that notices it or not
				now := insert(e.disk(), "command "+name)
				if clean := e.buffers.text == e.disk(); clean && r.IntN(2) == 0 {
					e.buffers.text = now
				}
				e.save(now)
				typed["command "+name] = true
			case 4:
				model = e.view()
			case 5:
				next := insert(model, "model "+name)
				if res, err := e.change(model, next); err == nil {
					model = res.Files[0].Content
				} else {
					_, ok := errors.AsType[*edit.ConflictError](err)
					require.True(t, ok, "%v", err)
				}
			}
			for line := range typed {
				require.True(t, strings.Contains(e.buffers.text+e.disk(), line+"\n"), "%s is lost in step %d", line, i)
			}
		}
	}
}

// A session holds what the user had not saved as if it had been saved: it can be taken back, and comes again.
func TestBuffersUndo(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	b := &testBuffers{file: filepath.Join(dir, "a.txt"), text: five}
	require.NoError(t, os.WriteFile(b.file, []byte(five), 0o644))
	model := script.New(script.Call("read_file", map[string]any{"path": "a.txt"}), script.Call("edit_file", edits("one", "ONE")), script.Say("ok"))
	rt, err := harness.New(t.Context(), dir, harness.WithClient(model), harness.WithStore(journal.Memory(), ""),
		harness.WithFileMiddleware(func(inner tools.FS) tools.FS { return newEditor(inner, b, dir, true) }))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	mine := swap(five, "five", "FIVE")
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			b.text = mine
			q.Allow()
		}
	}
	disk, err := os.ReadFile(b.file)
	require.NoError(t, err)
	require.Equal(t, swap(mine, "one", "ONE"), string(disk))
	_, err = rt.Session.Undo(t.Context())
	require.NoError(t, err)
	disk, err = os.ReadFile(b.file)
	require.NoError(t, err)
	require.Equal(t, five, string(disk))
	_, err = rt.Session.Redo(t.Context())
	require.NoError(t, err)
	disk, err = os.ReadFile(b.file)
	require.NoError(t, err)
	require.Equal(t, swap(mine, "one", "ONE"), string(disk))
}

// The same through the protocol: what a session does with an editor.
func TestEditor(t *testing.T) {
	read := script.Call("read_file", map[string]any{"path": "a.txt"})
	change := script.Call("edit_file", edits("one", "ONE"))
	tests := []struct {
		name  string
		offer sdk.FileSystemCapabilities
		do    func(e *editorClient, file string) // at the question about the change
		want  string                             // in the buffer, or a part of what the model reads
		fail  bool
	}{
		{"merged", both, func(e *editorClient, file string) { e.set(file, swap(five, "five", "FIVE")) }, swap(swap(five, "five", "FIVE"), "one", "ONE"), false},
		{"conflicting", both, func(e *editorClient, file string) { e.set(file, swap(five, "one", "1")) }, "same lines in the editor", true},
		{"reading only", readingOnly, func(e *editorClient, file string) { e.set(file, swap(five, "five", "FIVE")) }, "save them first", true},
		{"neither", sdk.FileSystemCapabilities{}, func(e *editorClient, file string) {}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			model := script.New(read, change, script.Say("ok"))
			e := connect(t, scripted(model))
			id, dir := begin(t, e, tt.offer, map[string]string{"a.txt": five})
			file := filepath.Join(dir, "a.txt")
			e.answer = func(sdk.RequestPermissionRequest) string { tt.do(e, file); return allowAnswer }
			before := e.buffer(file)
			require.Equal(t, sdk.StopReasonEndTurn, e.ask(t, id, "go"))
			disk, err := os.ReadFile(file)
			require.NoError(t, err)
			if tt.fail {
				require.Contains(t, script.LastOutput(model.Requests()[2]).Text(), tt.want)
				require.NotContains(t, string(disk), "ONE")
				require.NotEqual(t, before, e.buffer(file))
				require.Empty(t, e.writes)
				return
			}
			require.Contains(t, string(disk), "ONE")
			if tt.want != "" {
				require.Equal(t, tt.want, string(disk))
				require.Equal(t, tt.want, e.buffer(file))
			} else {
				require.Empty(t, e.writes, "the client does not offer it")
			}
		})
	}
}

// After a command has changed a file, the editor may have noticed it or not.
func TestEditorAfterCommand(t *testing.T) {
	for _, notices := range []bool{true, false} {
		model := script.New(script.Call("read_file", map[string]any{"path": "a.txt"}),
			script.Call("bash", map[string]any{"command": "sed -i.bak s/five/FIVE/ a.txt && rm a.txt.bak"}),
			script.Call("read_file", map[string]any{"path": "a.txt"}),
			script.Call("edit_file", edits("one", "ONE")), script.Say("ok"))
		e := connect(t, scripted(model))
		id, dir := begin(t, e, both, map[string]string{"a.txt": five})
		file := filepath.Join(dir, "a.txt")
		e.set(file, five)
		e.answer = func(q sdk.RequestPermissionRequest) string {
			if *q.ToolCall.Kind == sdk.ToolKindEdit && notices {
				e.set(file, swap(five, "five", "FIVE"))
			}
			return allowAnswer
		}
		e.ask(t, id, "go")
		require.Contains(t, script.LastOutput(model.Requests()[3]).Text(), "FIVE")
		want := swap(swap(five, "five", "FIVE"), "one", "ONE")
		disk, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(disk))
		require.Equal(t, want, e.buffer(file))
	}
}

// A session that is loaded again knows which text of a file is the newer one, as before.
func TestEditorAfterLoad(t *testing.T) {
	read := script.Call("read_file", map[string]any{"path": "a.txt"})
	model := script.New(read, script.Call("bash", map[string]any{"command": "sed -i.bak s/five/FIVE/ a.txt && rm a.txt.bak"}), script.Say("ok"),
		read, script.Call("edit_file", edits("one", "ONE")), script.Say("ok"))
	e := connect(t, scripted(model))
	id, dir := begin(t, e, both, map[string]string{"a.txt": five})
	file := filepath.Join(dir, "a.txt")
	e.set(file, five) // and the editor does not notice the command
	e.answer = func(sdk.RequestPermissionRequest) string { return allowAnswer }
	e.ask(t, id, "go")
	info, err := os.Stat(file)
	require.NoError(t, err)
	timed.Until(t, func() bool { return time.Since(changed(info)) > 2*tick })
	_, err = e.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: id, Cwd: dir, McpServers: []sdk.McpServer{}})
	require.NoError(t, err)
	e.ask(t, id, "go on")
	want := swap(swap(five, "five", "FIVE"), "one", "ONE")
	disk, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(disk))
	require.Equal(t, want, e.buffer(file))
}

// The editor knows the files of a further root by their place, and nothing is written under another name.
func TestEditorRoots(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, dir := range []string{"ws", "more"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, dir), 0o755))
	}
	lib := filepath.Join(base, "more")
	b := &testBuffers{file: filepath.Join(lib, "f"), text: swap(five, "five", "FIVE")}
	require.NoError(t, os.WriteFile(b.file, []byte(five), 0o644))
	ws, err := workspace.Open(filepath.Join(base, "ws"), workspace.WithRoot("lib", lib))
	require.NoError(t, err)
	t.Cleanup(func() { _ = ws.Close() })
	e := newEditor(ws, b, ws.Dir(), true)
	e.since = time.Now().Add(time.Minute)
	plan, err := edit.NewPlan(edit.File{Path: "lib:/f", Kind: edit.Change, Base: five, Proposed: swap(five, "one", "ONE")})
	require.NoError(t, err)
	_, err = e.Apply(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, swap(swap(five, "one", "ONE"), "five", "FIVE"), b.text, "what the user has not saved is kept")
	saved, err := os.ReadFile(b.file)
	require.NoError(t, err)
	require.Equal(t, b.text, string(saved))
	var files tools.FS = e
	roots, ok := files.(tools.RootsFS)
	require.True(t, ok, "commands find all roots")
	require.Equal(t, ws.Roots(), roots.Roots())
}
