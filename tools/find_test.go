//go:build unix

package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
)

// Many models send an empty path for the workspace itself.
func TestEmptyPathIsTheWorkspace(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": "needle\n", "src/b.go": "needle\n"})
	for tool, in := range map[string]args{"list_files": {}, "glob": {"pattern": "**/*.go"}, "code_search": {"pattern": "needle"}} {
		want := w.ok(tool, in)
		require.Contains(t, want, "a.go", tool)
		for _, path := range []string{"", "."} {
			in["path"] = path
			require.Equal(t, want, w.ok(tool, in), "%s with path %q", tool, path)
		}
	}
}

func TestGlob(t *testing.T) {
	w := newWorld(t, map[string]string{
		"a.go": "", "src/b.go": "", "src/x/c.ts": "", "src/x/d.tsx": "", "[x].md": "", "odd\nname.go": "", ".hidden.go": "",
		".gitignore": "*.log\n", "x.log": "", "node_modules/m/i.js": "", "src/vendor/v.go": "", ".env": "S",
	})
	require.NoError(t, os.Symlink("a.go", w.path("l.go")))
	require.NoError(t, os.Symlink("..", w.path("up")))
	left := func(n string) string {
		return "[" + n + " left out: ignored by git, version control or dependencies; name such a directory as the path to see into it]\n"
	}
	tests := []struct {
		name, want string
		in         args
	}{
		{"name", ".hidden.go\na.go\nl.go (link)\n\"odd\\nname.go\"\nsrc/b.go\n" + left("3 entries"), args{"pattern": "*.go"}},
		{"path", "src/b.go\n" + left("1 entry"), args{"pattern": "src/*.go"}},
		{"from here", "src/b.go\n" + left("1 entry"), args{"pattern": "./src/*.go"}},
		{"absolute", "src/b.go\n" + left("1 entry"), args{"pattern": w.path("src/*.go")}},
		{"alternatives", "src/x/c.ts\nsrc/x/d.tsx\n" + left("3 entries"), args{"pattern": "**/*.{ts,tsx}"}},
		{"in a directory", "src/x/c.ts\n", args{"pattern": "*.ts", "path": "src/x"}},
		{"below a directory", "src/x/c.ts\nsrc/x/d.tsx\n", args{"pattern": "x/**", "path": "src"}},
		{"whole directory", "src/x/c.ts\nsrc/x/d.tsx\n", args{"pattern": "src/x/"}},
		{"quoted", "[x].md\n" + left("3 entries"), args{"pattern": `\[x\].md`}},
		{"ignored directory by name", "node_modules/m/i.js\n", args{"pattern": "node_modules/**/*.js"}},
		{"none", "No files match.\n" + left("3 entries"), args{"pattern": "*.rs"}},
		{"directories are none", "No files match.\n" + left("3 entries"), args{"pattern": "src"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, w.ok("glob", tt.in)) })
	}
	assert.Contains(t, w.fails("not_found", "glob", args{"pattern": "scr/*.go"}), "did you mean src?")
	w.fails("invalid_arguments", "glob", args{"pattern": ""})
	w.fails("invalid_arguments", "glob", args{"pattern": "{a"})
	w.fails("outside_workspace", "glob", args{"pattern": "../*"})
	w.fails("outside_workspace", "glob", args{"pattern": "/etc/*"})
	w.fails("outside_workspace", "glob", args{"pattern": "*", "path": ".."})
	w.fails("outside_workspace", "glob", args{"pattern": "up/*"})
	w.fails("not_directory", "glob", args{"pattern": "*", "path": "a.go"})
	assert.Equal(t, "3 files", w.call("glob", args{"pattern": "src/**"}).Summary)
	for i := range 1500 {
		w.write(fmt.Sprintf("many/%04d.c", i), "")
	}
	text := w.ok("glob", args{"pattern": "many/*.c"})
	assert.Contains(t, text, "many/0999.c\n[500 more, not listed; narrow the pattern or the path]\n")
}

// The workspace remembers the text of a file that the model was shown in whole, and no
// other.
func TestReadRemembers(t *testing.T) {
	text := strings.Repeat("line\r\n", 5000)
	w := newWorld(t, map[string]string{
		"f": text, "empty": "", "bin": "\x00", "utf16": "\xff\xfeh\x00i\x00", "large": strings.Repeat("x\n", maxKept/2+1), "past": "a\n", "d/g": "g",
	})
	w.ok("read_file", args{"path": "f", "offset": 3, "limit": 1})
	w.ok("read_file", args{"path": w.path("empty")})
	w.fails("binary_file", "read_file", args{"path": "bin"})
	w.ok("read_file", args{"path": "utf16"})
	w.ok("read_file", args{"path": "large", "limit": 1})
	w.fails("offset_out_of_range", "read_file", args{"path": "past", "offset": 9})
	w.ok("read_file", args{"path": "d"})
	for name, want := range map[string][]string{
		"f": {text}, "empty": {""}, "bin": nil, "utf16": {"\xff\xfeh\x00i\x00"}, "large": nil, "past": nil, "d": nil, "d/g": nil,
	} {
		assert.Equal(t, want, w.ws.Seen().Contents(name), name)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { assert.False(t, w.call("read_file", args{"path": "d/g"}).IsError) })
	}
	wg.Wait()
	assert.Equal(t, []string{"g"}, w.ws.Seen().Contents("d/g"))
}

// A large file is shown in part even without a range, and a very long line is truncated.
func TestReadLarge(t *testing.T) {
	timed.Serial(t)
	w := newWorld(t, map[string]string{"lines": strings.Repeat("0123456789\n", 1<<20), "line": strings.Repeat("x", 10<<20)})
	text := w.ok("read_file", args{"path": "lines"})
	assert.Contains(t, text, "[lines 1-2000 of 1048576; next offset 2001]\n")
	text = w.ok("read_file", args{"path": "line"})
	assert.Contains(t, text, fmt.Sprintf("[line truncated: %d bytes more]\n[lines 1-1 of 1]\n", 10<<20-maxLine))
	assert.Less(t, len(text), 3000)
}

func TestIgnoredPatterns(t *testing.T) {
	w := newWorld(t, map[string]string{
		"a.tmp": "hit", "b.txt": "hit", "c.swp": "hit", "keep.tmp": "hit", ".gitignore": "!keep.tmp\n", ".git/info/exclude": "!c.swp\n",
	})
	all, err := Coding(w.ws, WithIgnored("*.tmp\n*.swp"), WithIgnored("b.*"))
	require.NoError(t, err)
	for _, tool := range all {
		w.tool[tool.Spec().Name] = tool
	}
	for name, in := range map[string]args{
		"list_files": {"recursive": true}, "glob": {"pattern": "*"}, "code_search": {"pattern": "hit"}, "read_file": {"path": "."},
	} {
		text := w.ok(name, in)
		assert.Contains(t, text, "c.swp", name)
		assert.Contains(t, text, "keep.tmp", name)
		assert.NotContains(t, text, "a.tmp", name)
		assert.NotContains(t, text, "b.txt", name)
	}
}

func TestGitExcludes(t *testing.T) {
	timed.Serial(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not on this machine")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, "config"))
	expect := func(want string) {
		t.Helper()
		got, err := GitExcludes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	put := func(name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o644))
	}
	expect("")
	put(".config/git/ignore", "one\n")
	expect("one\n")
	put("xdg/git/ignore", "two\n")
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "xdg"))
	expect("two\n")
	put("more", "[core]\n\texcludesFile = ~/mine\n")
	put("config", "[include]\n\tpath = more\n")
	expect("")
	put("mine", "three\n")
	expect("three\n")
	// Without a reason, git is not started.
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho "+filepath.Join(home, "mine")+"\n"), 0o755))
	t.Setenv("PATH", bin)
	require.NoError(t, os.Unsetenv("GIT_CONFIG_GLOBAL"))
	put(".gitconfig", "[user]\n\tname = A\n")
	expect("two\n")
	put(".gitconfig", "[Core]\n\tExcludesFile = ~/mine\n")
	expect("three\n")
	// The system's configuration may be beside the program.
	put(".gitconfig", "")
	put("local/etc/gitconfig", "[core]\n\texcludesFile = /mine\n")
	require.NoError(t, os.Mkdir(filepath.Join(home, "local/bin"), 0o755))
	require.NoError(t, os.Rename(filepath.Join(bin, "git"), filepath.Join(home, "local/bin/git")))
	t.Setenv("PATH", filepath.Join(home, "local/bin"))
	expect("three\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	_, err := GitExcludes(ctx)
	require.ErrorIs(t, err, stop)
}

// slowFS takes a second for each directory and file.
type slowFS struct{ FS }

func (s slowFS) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if err := nap(ctx); err != nil {
		return nil, err
	}
	return s.FS.ReadDir(ctx, name)
}

func (s slowFS) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	return slowFile{f}, err
}

type slowFile struct{ fs.File }

func (f slowFile) Read(p []byte) (int, error) {
	_ = nap(context.Background())
	return f.File.Read(p)
}

// nap waits in the fake time of a test.
func nap(ctx context.Context) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A long call reports its progress five times a second, and not after its end.
func TestProgress(t *testing.T) {
	w := newWorld(t, map[string]string{"a/f": strings.Repeat("hit\n", 10<<20/4), "b/g": "hit"})
	for name, in := range map[string]args{
		"read_file": {"path": "a/f"}, "list_files": {"recursive": true}, "glob": {"pattern": "*"}, "code_search": {"pattern": "hit"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, err := Coding(slowFS{w.ws})
				require.NoError(t, err)
				var reports []aycoder.Progress
				start := time.Now()
				var last time.Duration
				inv := aycoder.NewInvocation("c", name, mustJSON(t, in), func(p aycoder.Progress) {
					reports = append(reports, p)
					last = time.Since(start)
				})
				for _, tool := range all {
					if tool.Spec().Name == name {
						_, err = tool.Call(t.Context(), inv)
						require.NoError(t, err)
					}
				}
				took := time.Since(start)
				require.GreaterOrEqual(t, took, time.Second)
				want := float64(took / progressEvery)
				assert.InDelta(t, want, float64(len(reports)), max(2, want/50))
				assert.LessOrEqual(t, took-last, 2*progressEvery)
				n := len(reports)
				synctest.Wait()
				assert.Len(t, reports, n)
				for i, r := range reports[1:] {
					assert.GreaterOrEqual(t, r.Current, reports[i].Current)
				}
			})
		})
	}
}

// partial is a workspace whose directories are so large that they are not read whole.
type partial struct{ FS }

func (p partial) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	all, err := p.FS.ReadDir(ctx, name)
	if err == nil && name != "." {
		all, err = all[:1], &workspace.Error{Op: "list", Path: name, Kind: "too_large", Err: errors.New("has too many")}
	}
	return all, err
}

func TestPartOfADirectory(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "hit", "d/b": "hit"})
	all, err := Coding(partial{w.ws})
	require.NoError(t, err)
	for _, tool := range all {
		w.tool[tool.Spec().Name] = tool
	}
	note := "[d/ has too many entries: not all of them were looked at; use bash with ls and grep]\n"
	assert.Equal(t, "d/a\n"+note, w.ok("list_files", args{"path": "d"}))
	assert.Equal(t, "d/a\n"+note, w.ok("glob", args{"pattern": "d/*"}))
	assert.Contains(t, w.ok("code_search", args{"pattern": "hit"}), "[1 file searched; left out: 1 directories with too many entries, in part")
}

// All tools agree which files are binary: a NUL among the first 8,000 bytes, as git has it.
func TestToolsAgreeWhatIsBinary(t *testing.T) {
	text := func(n int) string {
		return strings.Repeat(strings.Repeat("x", 99)+"\n", 79) + strings.Repeat("y", n) + "\x00 needle\n"
	}
	w := newWorld(t, map[string]string{"binary": text(99), "text": text(100)})
	change := args{"old_string": "needle", "new_string": "pin"}
	with := func(name string) args { return args{"path": name, "old_string": "needle", "new_string": "pin"} }
	w.fails("binary_file", "read_file", args{"path": "binary"})
	w.fails("binary_file", "edit_file", with("binary"))
	w.fails("binary_file", "multi_edit", args{"path": "binary", "edits": []args{change}})
	require.Contains(t, w.ok("code_search", args{"pattern": "needle", "path": "binary"}), "No match")
	w.ok("read_file", args{"path": "text"})
	require.Contains(t, w.ok("code_search", args{"pattern": "needle", "path": "text"}), "needle")
	w.ok("edit_file", with("text"))
	require.Equal(t, strings.Replace(text(100), "needle", "pin", 1), w.read("text"))
}
