package remote

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// named is a request for a name without its op.
func named(name string) *coder {
	c := new(coder)
	(&request{op: opOpen, name: name}).code(c)
	return c
}

// codes are all messages, each as a function for both directions.
func codes() map[string]func(c *coder) {
	return map[string]func(c *coder){
		"hello":   func(c *coder) { (&hello{}).code(c) },
		"meta":    func(c *coder) { (&fileMeta{}).code(c) },
		"entries": func(c *coder) { entries(c, new([]entry), maxEntries) },
		"tree":    func(c *coder) { (&tree{}).code(c) },
		"name":    func(c *coder) { (&request{op: opTree}).code(c) },
		"names":   func(c *coder) { (&request{op: opOpenFiles}).code(c) },
		"command": func(c *coder) { (&request{op: opRun}).code(c) },
		"about":   func(c *coder) { c.bytes(new([]byte)) },
		"ending":  func(c *coder) { ending(c, &tools.ExecResult{}) },
		"plan":    func(c *coder) { (&request{op: opApply}).code(c) },
		"changes": func(c *coder) { changes(c, new([]edit.FileResult)) },
		"failure": func(c *coder) { (&failure{}).code(c) },
	}
}

// Messages of any bytes are decoded without a panic, and take no more memory than they are worth.
func FuzzMessages(f *testing.F) {
	seeds := []func(c *coder){
		func(c *coder) { (&hello{"/w", "/w", []string{"A=1"}}).code(c) },
		func(c *coder) { (&fileMeta{5, 6, 0o644}).code(c) },
		func(c *coder) { entries(c, &[]entry{{"a", 0}, {"b", os.ModeDir}}, maxEntries) },
		func(c *coder) {
			(&request{op: opApply, settings: workspace.ApplySettings{Approved: "sha256:", WrittenConflicts: true, WriterWait: time.Second},
				files: []edit.File{{Path: "f", Kind: edit.Change, Base: "a", Proposed: "b"}}}).code(c)
		},
		func(c *coder) {
			changes(c, &[]edit.FileResult{{Path: "f", Sidecars: []string{"s"}, UserChanges: []edit.LineChange{{Old: "a"}}, Undo: &edit.File{}}})
		},
		func(c *coder) {
			(&failure{class: failedFile, op: "read", kind: workspace.KindNotFound, text: "x"}).code(c)
		},
	}
	for _, s := range seeds {
		var c coder
		s(&c)
		f.Add(c.b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, code := range codes() {
			before := allocated()
			c := decoder(b)
			c.texts, c.plan = []string{"known"}, []edit.File{{Path: "f", Proposed: "a\n"}}
			code(c)
			if took := allocated() - before; took > uint64(1<<20+200*len(b)) {
				t.Fatalf("%s of %d bytes takes %d", name, len(b), took)
			}
			require.LessOrEqual(t, len(c.b), len(b))
		}
	})
}

// A client that gets any bytes after the greeting returns from each call.
func FuzzClient(f *testing.F) {
	var h coder
	(&hello{"/w", "/w", nil}).code(&h)
	greet := frameOf(0, frameLast, h.b)
	f.Add([]byte{})
	f.Add(greet)
	var m coder
	(&fileMeta{size: 1, mode: 0o644}).code(&m)
	for id := range uint32(5) {
		f.Add(append(bytes.Clone(greet), frameOf(id, frameLast, append(reply(nil).b, append(m.b, 0, 0, 0, 1, 'x')...))...))
		f.Add(append(append(bytes.Clone(greet), frameOf(id, frameOutput, []byte("out"))...), frameOf(id, frameLast, reply(errNoCommands).b)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c, err := Connect(ctx, io.NopCloser(io.MultiReader(bytes.NewReader(greeting()), bytes.NewReader(b))), discard{})
		if err != nil {
			return
		}
		defer c.Close()
		if file, err := c.Within(ctx).Open("f"); err == nil {
			_, _ = io.ReadAll(file)
			file.Close()
		}
		_, _ = c.ReadDir(ctx, ".")
		_, _ = c.Apply(ctx, oneEdit(t))
		_, _ = c.Run(ctx, &tools.ExecCommand{Root: "/w", Dir: "/w", Output: io.Discard})
		for file, err := range c.OpenFiles(ctx, []string{"a", "b"}) {
			if err == nil {
				file.Close()
			}
		}
		_, _ = c.Ahead(ctx, ".", nil).ReadDir(ctx, ".")
		require.NoError(t, ctx.Err(), "a call hangs")
	})
}

// A server that gets any bytes ends with its input, and touches nothing outside of its directory.
func FuzzServer(f *testing.F) {
	base := f.TempDir()
	dir := filepath.Join(base, "ws")
	require.NoError(f, os.Mkdir(dir, 0o755))
	require.NoError(f, os.WriteFile(filepath.Join(dir, "f"), []byte("old\n"), 0o644))
	ws, err := workspace.Open(dir)
	require.NoError(f, err)
	for _, what := range []op{opOpen, opReadDir, opTree, opWritable, opOpenFiles} {
		f.Add(frameOf(1, frameLast, append([]byte{byte(what)}, named("f").b...)))
		f.Add(frameOf(1, frameLast, append([]byte{byte(what)}, named("../x").b...)))
	}
	var c coder
	(&request{op: opApply, files: []edit.File{{Path: "../f", Kind: edit.Create, Proposed: "x"}},
		settings: workspace.ApplySettings{WriterWait: time.Millisecond}}).code(&c)
	f.Add(frameOf(1, frameLast, append([]byte{byte(opApply)}, c.b...)))
	c = coder{b: []byte{byte(opRead)}}
	c.num(new(uint64(1)), math.MaxUint64)
	f.Add(append(frameOf(1, framePart, c.b), frameOf(1, frameCancel, nil)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = Serve(t.Context(), io.MultiReader(bytes.NewReader(greeting()), bytes.NewReader(b)), io.Discard, ws, nil)
		all, err := os.ReadDir(base)
		require.NoError(t, err)
		require.Len(t, all, 1)
	})
}
