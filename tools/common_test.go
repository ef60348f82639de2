package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
)

// world is a workspace with its tools, in a directory that has others beside it.
type world struct {
	t    testing.TB
	base string // contains ws and the files outside of it
	ws   *workspace.Workspace
	tool map[string]aycoder.Tool
	more []Option // of the tools in runAll
}

// Elsewhere returns a workspace as over a connection, and its commands. If it is set, the tests
// of tools are those of this connection: see TestElsewhere.
var Elsewhere func(t testing.TB, ws *workspace.Workspace) (FS, Exec)

type args = map[string]any

func newWorld(t testing.TB, files map[string]string, opts ...workspace.Option) *world {
	t.Helper()
	w := &world{t: t, base: t.TempDir(), tool: map[string]aycoder.Tool{}}
	require.NoError(t, os.MkdirAll(filepath.Join(w.base, "ws"), 0o755))
	for name, text := range files {
		w.write(name, text)
	}
	w.open(opts...)
	return w
}

func (w *world) open(opts ...workspace.Option) {
	w.t.Helper()
	ws, err := workspace.Open(filepath.Join(w.base, "ws"), opts...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { ws.Close() })
	var files FS = ws
	var coding []Option
	if Elsewhere != nil {
		var e Exec
		files, e = Elsewhere(w.t, ws)
		coding = append(coding, WithExec(e))
	}
	all, err := Coding(files, coding...)
	require.NoError(w.t, err)
	w.ws = ws
	for _, tool := range all {
		w.tool[tool.Spec().Name] = tool
	}
}

func (w *world) path(name string) string {
	return filepath.Join(w.base, "ws", filepath.FromSlash(name))
}

func (w *world) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(text), 0o644))
}

func (w *world) read(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(w.path(name))
	require.NoError(w.t, err)
	return string(data)
}

// files returns what is in the files of the workspace.
func (w *world) files() map[string]string {
	found := map[string]string{}
	root := w.path("")
	require.NoError(w.t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(root, path)
			found[filepath.ToSlash(rel)] = w.read(rel)
		}
		return err
	}))
	return found
}

// call runs a tool, and checks what holds for every result.
func (w *world) call(tool string, in args) *aycoder.ToolResult {
	w.t.Helper()
	r, err := w.callCtx(w.t.Context(), tool, in)
	require.NoError(w.t, err)
	return r
}

func (w *world) callCtx(ctx context.Context, tool string, in args) (*aycoder.ToolResult, error) {
	w.t.Helper()
	return w.callRaw(ctx, tool, mustJSON(w.t, in))
}

func (w *world) callRaw(ctx context.Context, tool string, raw json.RawMessage) (*aycoder.ToolResult, error) {
	w.t.Helper()
	r, err := answered(w.tool[tool].Call(ctx, aycoder.NewInvocation("c1", tool, raw, nil)))
	if r != nil {
		assert.True(w.t, utf8.ValidString(r.Text()))
		assert.NotContains(w.t, r.Text(), "\x00")
		assert.NotEmpty(w.t, r.Summary)
		if r.IsError && tool != "bash" {
			assert.Less(w.t, len(r.Text()), 4096)
		}
	}
	return r, err
}

// answered converts a refusal by the schema to the result that the model gets.
func answered(r *aycoder.ToolResult, err error) (*aycoder.ToolResult, error) {
	if _, ok := errors.AsType[*aycoder.ToolArgsError](err); !ok {
		return r, err
	}
	r = aycoder.TextResult("invalid_arguments: " + err.Error())
	r.IsError, r.Summary = true, "not run"
	return r, nil
}

// ok runs a tool that must succeed.
func (w *world) ok(tool string, in args) string {
	w.t.Helper()
	r := w.call(tool, in)
	require.False(w.t, r.IsError, r.Text())
	return r.Text()
}

// fails runs a tool that must refuse, and returns the text after the kind.
func (w *world) fails(kind, tool string, in args) string {
	w.t.Helper()
	r := w.call(tool, in)
	require.True(w.t, r.IsError, r.Text())
	text, found := strings.CutPrefix(r.Text(), kind+": ")
	require.True(w.t, found, "want %s: %s", kind, r.Text())
	return text
}

// shared reads a file of recorded material.
func shared(t testing.TB, name, cases string, into any) {
	t.Helper()
	timed.Long(t, "shared cases")
	data, err := os.ReadFile(corpus.Path(t, name, cases))
	require.NoError(t, err)
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(into), name)
}

func mustJSON(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}
