//go:build linux

package tools

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
)

// editCase is a recorded awkward situation for a tool that changes files.
type editCase struct {
	ID, Tool, Name, Why string
	Setup               []step
	Args                map[string]any
	Expect              struct {
		Outcome        string
		MaxMS          int                 `json:"max_ms"`
		MaxOutputBytes int                 `json:"max_output_bytes"`
		Contains       string              `json:"contains"`
		ErrorKind      string              `json:"error_kind"`
		FileAfter      map[string]string   `json:"file_after"`
		FileAfterB64   map[string]string   `json:"file_after_b64"`
		FileAfterOneOf map[string][]string `json:"file_after_one_of"`
		ModeAfter      map[string]string   `json:"mode_after"`
		StillSymlink   string              `json:"still_symlink"`
		MustKeep       string              `json:"must_keep"`
		AllApplied     bool                `json:"all_applied"`
		NoTempLeft     bool                `json:"no_temp_left"`
	}
}

// Recorded awkward situations, for the tools that change files: all of them.
func TestRobustEdits(t *testing.T) {
	ran := map[string]int{}
	for _, c := range robustCases[editCase](t, "edit_file", "multi_edit", "write_file", "apply_patch") {
		t.Run(c.Tool+" "+c.Name, func(t *testing.T) {
			c.run(t)
			ran[c.Tool]++
		})
	}
	t.Logf("ran %v", ran)
}

func (c *editCase) run(t *testing.T) {
	w := &world{t: t, base: t.TempDir(), tool: map[string]aycoder.Tool{}}
	require.NoError(t, os.MkdirAll(filepath.Join(w.base, "ws"), 0o755))
	require.Empty(t, setUp(t, w.base, mounted(t, w.base, c.Setup)))
	w.open()
	before := w.files()
	start := time.Now()
	text, failed := c.call(w)
	timed.Within(t, start, time.Duration(c.Expect.MaxMS)*time.Millisecond)
	assert.True(t, utf8.ValidString(text))
	c.checkText(t, text, failed)
	c.checkFiles(w, before)
}

// mounted makes the small file systems of a case.
func mounted(t *testing.T, base string, steps []step) (rest []step) {
	for _, s := range steps {
		name := s.text("tmpfs")
		if name == "" {
			rest = append(rest, s)
			continue
		}
		dir := filepath.Join(base, name)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", int(s["bytes"].(float64))))
		if errors.Is(err, fs.ErrPermission) {
			t.Skipf("only root mounts a small disk: %v", err)
		}
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	}
	return rest
}

// call makes the call of a case. Those that need more than one tool do it here.
func (c *editCase) call(w *world) (text string, failed bool) {
	switch {
	case c.Args["read_first"] == true:
		c.change(w)
	case c.Args["approval"] == "deny":
		return c.denied(w)
	case c.Args["parallel_appends"] != nil:
		return c.parallel(w)
	case c.Args["write_bytes"] != nil:
		old := w.read(c.Args["path"].(string))
		c.Args["old"], c.Args["new"] = old, strings.Repeat("y", int(c.Args["write_bytes"].(float64)))
	}
	r, err := w.callCtx(w.t.Context(), c.Tool, c.args())
	if err != nil {
		if _, ok := errors.AsType[*workspace.Error](err); ok { // this error ends the run
			return readable(err).Error(), true
		}
		return err.Error(), true
	}
	return r.Text(), r.IsError
}

// change lets the model read a file, which another program then changes.
func (c *editCase) change(w *world) {
	name := c.Args["path"].(string)
	info, err := os.Stat(w.path(name))
	require.NoError(w.t, err)
	w.ok("read_file", args{"path": name})
	w.ws.Seen().Add(name, w.read(name))
	w.write(name, c.Args["external_change"].(string))
	if c.Args["same_mtime"] == true {
		require.NoError(w.t, os.Chtimes(w.path(name), info.ModTime(), info.ModTime()))
	}
}

// denied makes the call in a run whose user refuses.
func (c *editCase) denied(w *world) (string, bool) {
	asked := 0
	text, fin := w.run(c.Tool, c.args(), func(a *aycoder.ApprovalRequested) {
		asked++
		a.Deny("no")
	})
	_, denied := errors.AsType[*aycoder.ToolDeniedError](fin.Err)
	assert.True(w.t, denied && asked == 1)
	return c.Expect.ErrorKind + ": " + text, fin.Output.IsError
}

// parallel adds many lines at the same time.
func (c *editCase) parallel(w *world) (string, bool) {
	name, first := c.Args["path"].(string), w.read("f")
	var wg sync.WaitGroup
	n := int(c.Args["parallel_appends"].(float64))
	for i := range n {
		wg.Go(func() {
			w.ok(c.Tool, args{"path": name, "old_string": first, "new_string": fmt.Sprintf("%sadded %d.\n", first, i)})
		})
	}
	wg.Wait()
	for i := range n {
		assert.Contains(w.t, w.read(name), fmt.Sprintf("\nadded %d.\n", i))
	}
	return "", false
}

// args returns the arguments under the names that the tools use.
func (c *editCase) args() args {
	in := args{}
	for k, v := range c.Args {
		switch k {
		case "old", "new":
			in[k+"_string"] = expand(v)
		case "path", "replace_all", "patch", "content":
			in[k] = expand(v)
		case "edits":
			in[k] = editList(v)
		}
	}
	return in
}

// editList converts pairs to objects. A list that is written as a string stays so.
func editList(v any) any {
	if text, ok := v.(string); ok {
		var list any
		if json.Unmarshal([]byte(text), &list) != nil {
			return v
		}
		raw, _ := json.Marshal(editList(list))
		return string(raw)
	}
	if m, ok := v.(map[string]any); ok {
		return slices.Repeat([]args{pairOf(m["$repeat_list"])}, int(m["$n"].(float64)))
	}
	edits := []args{}
	for _, pair := range v.([]any) {
		edits = append(edits, pairOf(pair))
	}
	return edits
}

func pairOf(v any) args {
	pair := v.([]any)
	return args{"old_string": expand(pair[0]), "new_string": expand(pair[1])}
}

func (c *editCase) checkText(t *testing.T, text string, failed bool) {
	if c.Expect.Outcome != "any" {
		assert.Equal(t, c.Expect.Outcome == "error", failed, text)
	}
	if c.Expect.MaxOutputBytes > 0 {
		assert.LessOrEqual(t, len(text), c.Expect.MaxOutputBytes)
	}
	assert.Contains(t, text, c.Expect.Contains)
	if kind := c.Expect.ErrorKind; kind != "" {
		assert.True(t, strings.HasPrefix(text, kind+": "), "want %s: %s", kind, text)
	}
}

func (c *editCase) checkFiles(w *world, before map[string]string) {
	for name, want := range c.Expect.FileAfter {
		switch want {
		case "UNCHANGED":
			assert.Equal(w.t, before[name], w.read(name))
		case "ABSENT":
			_, err := os.Lstat(w.path(name))
			assert.ErrorIs(w.t, err, fs.ErrNotExist)
		default:
			assert.Equal(w.t, want, w.read(name))
		}
	}
	for name, want := range c.Expect.FileAfterB64 {
		assert.Equal(w.t, want, base64.StdEncoding.EncodeToString([]byte(w.read(name))))
	}
	for name, any := range c.Expect.FileAfterOneOf {
		now := w.read(name)
		assert.True(w.t, slices.Contains(any, now) || slices.Contains(any, "UNCHANGED") && now == before[name], now)
	}
	for name, want := range c.Expect.ModeAfter {
		info, err := os.Stat(w.path(name))
		require.NoError(w.t, err)
		assert.Equal(w.t, want, fmt.Sprintf("%04o", info.Mode().Perm()))
	}
	if name := c.Expect.StillSymlink; name != "" {
		info, err := os.Lstat(w.path(name))
		require.NoError(w.t, err)
		assert.NotZero(w.t, info.Mode()&fs.ModeSymlink)
	}
	if keep := c.Expect.MustKeep; keep != "" {
		assert.Contains(w.t, w.read(c.Args["path"].(string)), keep)
	}
	for name := range w.files() {
		assert.False(w.t, strings.HasPrefix(filepath.Base(name), ".aycoder-"), "%s is left", name)
	}
	if c.Expect.Outcome == "error" {
		assert.Equal(w.t, before, w.files(), "a call that fails changes nothing")
	}
}
