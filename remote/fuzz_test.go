package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/merge"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// named is a request for a name without its op.
func named(name string) *coder {
	return new(coder).code(&request{Name: name, Names: []string{name}})
}

// messages are pointers to the values in all messages.
func messages() []any {
	return []any{new(hello), new([]opened), new(listing), new(tree), new(request), new(*ended), new(*applied), new(*failure), new([]byte)}
}

// Messages of any bytes are decoded without a panic, and take no more memory than they are worth.
func FuzzMessages(f *testing.F) {
	for _, v := range []any{
		&hello{"/w", "/w", []string{"A=1"}},
		&[]opened{{File: &content{5, 6, 0o644, []byte("x"), true}}, {}},
		&listing{{"a", 0}, {"b", os.ModeDir}},
		&request{Approved: "sha256:", WrittenConflicts: true, WriterWait: time.Second,
			Files: []edit.File{{Path: "f", Kind: edit.Change, Base: "a", Proposed: "b"}}},
		new(&applied{changedOf([]edit.FileResult{{Path: "f", Sidecars: []string{"s"}, UserChanges: []edit.LineChange{{Old: "a"}}, Undo: &edit.File{}}})}),
		new(failureOf(&workspace.Error{Op: "read", Kind: workspace.KindNotFound, Err: io.EOF})),
	} {
		f.Add(new(coder).code(v).b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range messages() {
			before := allocated()
			c := decoder(b).remember(strings.Repeat("known", minRepeated)).code(v)
			if took := allocated() - before; took > uint64(1<<20+300*len(b)) {
				t.Fatalf("%T of %d bytes takes %d", v, len(b), took)
			}
			require.LessOrEqual(t, len(c.b), len(b))
		}
	})
}

// A message is decoded as it was encoded, and sends a text that it has twice only once.
func TestCoder(t *testing.T) {
	long := strings.Repeat("known\xff", minRepeated)
	r := edit.FileResult{Path: "\xff", Kind: edit.Change, Outcome: edit.OutcomeMerged, Content: long, Base: long, Ours: "o",
		Sidecars: []string{"s", ""}, Undo: &edit.File{Path: "f", Mode: 0o755, Proposed: long}}
	for _, v := range []any{
		&hello{"/w", "/w", []string{"A=1"}},
		&[]opened{{File: &content{1 << 40, -6, 0o644, []byte("x"), true}}, {Failure: failureOf(tools.ErrExecDir)}, {}},
		&tree{[]treeDir{{"d", listing{{"a", 0}, {"b", os.ModeDir}}}}, []treeFile{{"f", true, []byte{}}, {"g", false, []byte("*.o")}}},
		&request{Ignored: []byte{}, Size: 5, File: 1<<32 - 1, WriterWait: time.Second, Command: tools.ExecCommand{Script: "a", Env: []string{"A=1"}}},
		new(&ended{tools.ExecResult{Code: -1, Signal: "killed"}}),
		new((*ended)(nil)),
		new(&applied{changedOf([]edit.FileResult{r, r})}),
	} {
		b := new(coder).code(v).b
		got := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		require.NoError(t, decoder(b).code(got).end())
		require.Equal(t, v, got)
		require.Less(t, len(b), 3*len(long)/2)
		for n := range b { // a part of a message is none
			require.Error(t, decoder(b[:n]).code(got).end())
		}
	}
}

// Encoding changes no value, as commands may have one environment.
func TestEncodingWritesNothing(t *testing.T) {
	r := &request{Name: "f", Size: 1, File: 2, Command: tools.ExecCommand{Env: []string{"A=1"}, Network: true}, Files: []edit.File{{Path: "f", Mode: 1}}}
	var work sync.WaitGroup
	for range 2 { // the race detector watches
		work.Go(func() { new(coder).code(r) })
	}
	work.Wait()
	require.Equal(t, []string{"A=1"}, r.Command.Env)
}

// The messages have the fields of types of other packages. If this changes, the version of the protocol has to.
func TestMessagesOfVersion(t *testing.T) {
	sent := []reflect.Kind{reflect.Struct, reflect.Pointer, reflect.Slice, reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint32,
		reflect.Interface, reflect.Func} // of which the last two belong to one process
	seen := map[reflect.Type]bool{}
	var shape strings.Builder
	var add func(reflect.Type)
	add = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || typ == reflect.TypeFor[merge.Result]() { // which is never sent
			return
		}
		seen[typ] = true
		for f := range typ.Fields() {
			if f.IsExported() {
				fmt.Fprintf(&shape, "%s.%s %s\n", typ, f.Name, f.Type)
				require.Contains(t, sent, f.Type.Kind(), "%s.%s would not be sent", typ, f.Name)
				add(f.Type)
			}
		}
	}
	for _, v := range messages() {
		add(reflect.TypeOf(v))
	}
	sum := sha256.Sum256([]byte(shape.String()))
	require.Equal(t, "3 7f51a0ca", fmt.Sprintf("%d %x", version, sum[:4]), "%s", &shape)
}

// A client that gets any bytes after the greeting returns from each call.
func FuzzClient(f *testing.F) {
	greet := frameOf(0, frameLast, new(coder).code(&hello{"/w", "/w", nil}).b)
	f.Add([]byte{})
	f.Add(greet)
	for id := range uint32(5) {
		f.Add(append(bytes.Clone(greet), frameOf(id, frameLast, reply(nil, &[]opened{{File: &content{Size: 1, Data: []byte("x")}}}))...))
		f.Add(append(append(bytes.Clone(greet), frameOf(id, frameOutput, []byte("out"))...), frameOf(id, frameLast, reply(errNoCommands))...))
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
	for _, what := range []op{opOpen, opReadDir, opTree, opWritable} {
		f.Add(frameOf(1, frameLast, append([]byte{byte(what)}, named("f").b...)))
		f.Add(frameOf(1, frameLast, append([]byte{byte(what)}, named("../x").b...)))
	}
	c := (&coder{b: []byte{byte(opApply)}}).code(&request{WriterWait: time.Millisecond,
		Files: []edit.File{{Path: "../f", Kind: edit.Create, Proposed: "x"}}})
	f.Add(frameOf(1, frameLast, c.b))
	c = (&coder{b: []byte{byte(opRead)}}).code(&request{File: 1})
	f.Add(append(frameOf(1, framePart, c.b), frameOf(1, frameCancel, nil)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = Serve(t.Context(), io.MultiReader(bytes.NewReader(greeting()), bytes.NewReader(b)), io.Discard, ws, nil)
		all, err := os.ReadDir(base)
		require.NoError(t, err)
		require.Len(t, all, 1)
	})
}
