//go:build linux

package tools

import (
	"cmp"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
)

// step is one thing to set up before a case; which, its keys say.
type step map[string]any

func (s step) text(key string) string {
	v, _ := s[key].(string)
	return v
}

// setUp prepares a recorded case, and reports what it cannot prepare.
func setUp(t testing.TB, base string, steps []step) (unable string) {
	t.Helper()
	for _, s := range steps {
		kind, name := "", ""
		for _, k := range []string{"dir", "file", "symlink", "hardlink", "fifo", "file_b64", "repeat", "chmod", "many_files", "sparse", "tmpfs", "background"} {
			if _, ok := s[k]; ok {
				kind, name = k, s.text(k)
			}
		}
		data := []byte(s.text("content"))
		if kind == "file_b64" {
			if b64, ok := s["b64"]; ok {
				data, _ = base64.StdEncoding.DecodeString(b64.(string))
			} else {
				raw, err := base64.StdEncoding.DecodeString(name)
				require.NoError(t, err)
				name = string(raw)
			}
		}
		full := filepath.Join(base, name)
		if kind != "background" {
			require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		}
		n, _ := s["n"].(float64)
		mode := fs.FileMode(0o644)
		if m, err := strconv.ParseUint(s.text("mode"), 8, 32); err == nil {
			mode = fs.FileMode(m)
		}
		var err error
		switch kind {
		case "dir":
			err = os.MkdirAll(full, 0o755)
		case "file", "file_b64":
			if err = os.WriteFile(full, data, 0o644); err == nil {
				err = os.Chmod(full, mode)
			}
		case "symlink":
			err = os.Symlink(placed(base, s.text("to")), full)
		case "hardlink":
			err = os.Link(filepath.Join(base, s.text("to")), full)
		case "fifo":
			err = syscall.Mkfifo(full, 0o644)
		case "repeat":
			err = os.WriteFile(full, []byte(strings.Repeat(s.text("unit"), int(n))), 0o644)
		case "chmod":
			err = os.Chmod(full, mode)
		case "many_files":
			require.NoError(t, os.MkdirAll(full, 0o755))
			err = manyFiles(full, int(n))
		case "background":
			beside(t, base, name)
		default:
			return kind
		}
		require.NoError(t, err)
	}
	return ""
}

// manyFiles makes n empty files. Most are further names of others, which takes a small part of the
// time; a file can have 65,000 names on ext4.
func manyFiles(dir string, n int) error {
	first := ""
	for i := range n {
		name := filepath.Join(dir, strconv.Itoa(i))
		if i%10_000 > 0 {
			if err := os.Link(first, name); err != nil {
				return err
			}
			continue
		}
		first = name
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// beside runs a script until the test ends.
func beside(t testing.TB, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

type pathCase struct {
	ID, Family, Op, Expect, OS, Path, Pattern, To string
	AlsoOK                                        string  `json:"also_ok"`
	PathB64                                       *string `json:"path_b64"`
	Setup                                         []step
	SkipAsRoot                                    bool   `json:"skip_as_root"`
	MayOutside                                    bool   `json:"may_read_outside_content"`
	MaySecret                                     bool   `json:"may_read_sensitive"`
	MustContain                                   string `json:"must_contain"`
	MustNotContain                                string `json:"must_not_contain"`
	Attacker, Check                               string
	Why, Split, Policy                            string // for human readers
	Repeat                                        int    // of the attacker
}

// outsideKinds are the refusals of a path that leads where it must not.
var outsideKinds = map[string]bool{"outside_workspace": true, "sensitive_path": true, "protected_path": true}

// Recorded attacks on paths, each in its own world.
func TestPathCases(t *testing.T) {
	timed.Serial(t)
	var file struct {
		Version      int
		World, Split string
		Cases        []pathCase
	}
	shared(t, "attacks/paths.shared.json", "241 paths", &file)
	ran := 0
	left := map[string][]string{}
	for _, c := range file.Cases {
		if why := c.leftOut(); why != "" {
			left[why] = append(left[why], c.ID)
			continue
		}
		ran++
		t.Run(c.ID+" "+c.Family, func(t *testing.T) { c.run(t) })
	}
	t.Logf("%d of %d cases ran", ran, len(file.Cases))
	for op, way := range ways {
		t.Logf("%s is %s", op, way)
	}
	for why, ids := range left {
		t.Logf("left out, %s: %d: %s", why, len(ids), strings.Join(ids, " "))
	}
}

func (c *pathCase) leftOut() string {
	switch {
	case c.SkipAsRoot && Elsewhere != nil:
		return "the rights of a thread are not those of another process"
	case c.OS == "windows" || c.OS == "darwin":
		return c.OS
	case c.Attacker != "":
		return "a race, has a separate test"
	case c.Check != "" && !strings.HasPrefix(c.Check, "target_kept:"):
		return "check " + c.Check
	case !slices.Contains([]string{"read", "list", "search", "glob"}, c.Op) && ways[c.Op] == "":
		return "operation " + c.Op
	case !slices.Contains([]string{"allow", "deny", "error", "either"}, c.Expect):
		return "expectation " + c.Expect
	}
	for _, s := range c.Setup {
		if k := unknownKey(s, setupKeys); k != "" {
			return "setup " + k
		}
	}
	return ""
}

// ways say how a case is run whose operation no tool has: the same code confines it.
var ways = map[string]string{
	"write":  "a plan that creates, or changes what is there",
	"mkdir":  "a plan that creates a file in the new directory",
	"delete": "a plan that deletes",
	"rename": "a plan that creates and deletes",
	"chdir":  "ReadDir: a command starts where a directory can be listed",
}

func (c *pathCase) name(t *testing.T, base string) string {
	if c.PathB64 != nil {
		raw, err := base64.StdEncoding.DecodeString(*c.PathB64)
		require.NoError(t, err)
		return string(raw)
	}
	return placed(base, c.Path)
}

// placed puts the directories of a world into a text.
func placed(base, s string) string {
	return strings.NewReplacer("${WS}", filepath.Join(base, "ws"), "${OUT}", filepath.Join(base, "out"),
		"${BASE}", base, "${HOME}", filepath.Join(base, "home")).Replace(s)
}

func (c *pathCase) run(t *testing.T) {
	w := &world{t: t, base: t.TempDir(), tool: map[string]aycoder.Tool{}}
	require.NoError(t, os.MkdirAll(filepath.Join(w.base, "ws"), 0o755))
	require.Empty(t, setUp(t, w.base, c.Setup))
	w.open()
	before := outsideOf(t, w.base)
	name := c.name(t, w.base)
	kept, check := strings.CutPrefix(c.Check, "target_kept:")
	target, _ := os.ReadFile(filepath.Join(w.base, kept))
	start := time.Now()
	var kind, text string
	as := func(_ *testing.T, do func()) { do() }
	if c.SkipAsRoot {
		as = asNobody
	}
	as(t, func() { kind, text = c.do(w, name) })
	timed.Within(t, start, 2*time.Second)
	if check {
		now, err := os.ReadFile(filepath.Join(w.base, kept))
		assert.NoError(t, err)
		assert.Equal(t, target, now)
	}
	assert.Equal(t, before, outsideOf(t, w.base), "what lies outside was changed")
	if !c.MayOutside {
		assert.NotContains(t, text, "SECRET-")
	}
	if !c.MaySecret {
		assert.NotContains(t, text, "SENSITIVE")
	}
	assert.Contains(t, text, c.MustContain)
	if c.MustNotContain != "" {
		assert.NotContains(t, text, c.MustNotContain)
	}
	got := "allow"
	if kind != "" {
		assert.Less(t, len(text), 4096)
		if got = "error"; outsideKinds[kind] {
			got = "deny"
		}
	}
	switch c.Expect {
	case "either":
	case "error":
		assert.True(t, got != "allow" || c.AlsoOK == "allow", "%s: want an error, got %s", name, text)
	default:
		assert.Contains(t, []string{c.Expect, c.AlsoOK}, got, "%q: %s", name, text)
	}
}

// do runs a case. Names that are not valid UTF-8 cannot be passed in arguments; the
// workspace gets them directly.
func (c *pathCase) do(w *world, name string) (kind, text string) {
	var r *aycoder.ToolResult
	switch {
	case c.Op == "read" && c.PathB64 != nil:
		f, err := w.ws.Open(name)
		if err != nil {
			return string(kindOf(err)), err.Error()
		}
		f.Close()
		return "", ""
	case c.Op == "read":
		if r = w.call("read_file", args{"path": name}); strings.Contains(r.Text(), "\t") {
			break
		}
		if info, err := os.Stat(w.path(name)); err == nil && info.IsDir() {
			return "is_directory", r.Text() // a directory is listed instead
		}
	case ways[c.Op] != "":
		if err := c.change(w, name); err != nil {
			kind := string(kindOf(err))
			if c.Op == "write" || c.Op == "mkdir" {
				kind = cmp.Or(kind, "conflict")
			}
			return kind, err.Error()
		}
		return "", ""
	case c.Op == "list":
		r = w.call("list_files", args{"path": name})
	case c.Op == "search":
		r = w.call("code_search", args{"path": name, "pattern": cmp.Or(c.Pattern, "inside|SECRET")})
	case c.Op == "glob":
		if name != "" { // the same patterns choose what is searched
			if kind, text = checkKind(w.call("code_search", args{"pattern": ".", "include": name})); kind != "" {
				return kind, text
			}
		}
		kind, more := checkKind(w.call("glob", args{"pattern": name}))
		return kind, text + more
	}
	return checkKind(r)
}

// change carries out an operation that no tool has. An error that is not of the workspace
// says that the plan could not be made.
func (c *pathCase) change(w *world, name string) error {
	ctx, data := w.t.Context(), "written"
	planned := edit.File{Path: name, Kind: edit.Delete}
	switch c.Op {
	case "write":
		err := apply(w, edit.File{Path: name, Kind: edit.Create, Proposed: data})
		if c, ok := errors.AsType[*edit.ConflictError](err); ok && c.Files[0].Outcome == edit.OutcomeConflicted {
			old, readErr := os.ReadFile(w.path(name))
			require.NoError(w.t, readErr)
			err = apply(w, edit.File{Path: name, Kind: edit.Change, Base: string(old), Proposed: data})
		}
		return err
	case "mkdir":
		return apply(w, edit.File{Path: name + "/f", Kind: edit.Create, Proposed: data})
	case "chdir":
		_, err := w.ws.ReadDir(ctx, name)
		return err
	}
	// As if the model had been told the content by somebody with access.
	base, _ := os.ReadFile(filepath.Join(w.base, "ws", name))
	planned.Base = string(base)
	edits := []edit.File{planned}
	if c.Op == "rename" {
		edits = append(edits, edit.File{Path: placed(w.base, c.To), Kind: edit.Create, Proposed: planned.Base})
	}
	return apply(w, edits...)
}

// apply carries out a plan of these edits.
func apply(w *world, edits ...edit.File) error {
	plan, err := edit.NewPlan(edits...)
	if err == nil {
		_, err = w.ws.Apply(w.t.Context(), plan)
	}
	return err
}

// asNobody runs a function as a user without rights, on a separate thread.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		do()
		return
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := syscall.Setfsuid(65534); err != nil {
			done <- err
			return
		}
		do()
		done <- nil
	}()
	require.NoError(t, <-done)
}

func checkKind(r *aycoder.ToolResult) (kind, text string) {
	if r.IsError {
		kind, _, _ = strings.Cut(r.Text(), ":")
	}
	return kind, r.Text()
}

// outsideOf returns all files outside of the workspace.
func outsideOf(t *testing.T, base string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{"out", "ws2", "home"} {
		err := filepath.WalkDir(filepath.Join(base, dir), func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			data, _ := os.ReadFile(p)
			all[p] = string(data)
			return nil
		})
		require.NoError(t, err)
	}
	entries, err := os.ReadDir(base)
	require.NoError(t, err)
	for _, e := range entries {
		all[e.Name()] = ""
	}
	return all
}
