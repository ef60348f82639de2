//go:build unix

package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
)

func TestRead(t *testing.T) {
	files := map[string]string{
		"lf": "a\nb\nc\n", "none": "a\nb", "crlf": "a\r\nb\r\n", "mixed": "a\r\nb\n", "empty": "", "bad": "caf\xe9\n", "bom": "\xef\xbb\xbfa\n",
		"late": strings.Repeat("x\n", 5000) + "a\x00b\n", "utf16": "\xff\xfeh\x00i\x00\n\x00", "long": strings.Repeat("é", 1500) + "\n",
		"many": strings.Repeat("line\n", 3000), "big": strings.Repeat("0123456789abcde\n", 1<<17), "wide": strings.Repeat(strings.Repeat("x", 1500)+"\n", 400),
		"exact": strings.Repeat("x", 2000) + "\r\nb\n",
	}
	tests := []struct {
		name    string
		in      args
		want    string // the whole text, or with … its end
		summary string
	}{
		{"all", args{"path": "lf"}, "     1\ta\n     2\tb\n     3\tc\n[lines 1-3 of 3]\n", "3 lines"},
		{"range", args{"path": "lf", "offset": 2, "limit": 1}, "     2\tb\n[lines 2-2 of 3; next offset 3]\n", "1 line"},
		{"no last newline", args{"path": "none"}, "     1\ta\n     2\tb\n[lines 1-2 of 2]\n", "2 lines"},
		{"crlf", args{"path": "crlf"}, "     1\ta\n     2\tb\n[lines 1-2 of 2]\n[line endings are CRLF; edit_file keeps them]\n", "2 lines"},
		{"mixed", args{"path": "mixed"}, "…[line endings are mixed, CRLF and LF; edit_file keeps them]\n", "2 lines"},
		{"empty", args{"path": "empty"}, "[empty file]\n", "empty file"},
		{"not utf-8", args{"path": "bad"}, "     1\tcaf\uFFFD\n[lines 1-1 of 1]\n[bytes that are not valid UTF-8, or NUL, are shown as \uFFFD]\n", "1 line"},
		{"byte order mark", args{"path": "bom"}, "     1\ta\n[lines 1-1 of 1]\n", "1 line"},
		{"late NUL", args{"path": "late", "offset": 5001}, "  5001\ta\uFFFDb\n…shown as \uFFFD]\n", "1 line"},
		{"utf-16", args{"path": "utf16"}, "     1\thi\n[lines 1-1 of 1]\n", "1 line"},
		{"long line", args{"path": "long"}, "…éé… [line truncated: 1000 bytes more]\n[lines 1-1 of 1]\n", "1 line"},
		{"line of the limit", args{"path": "exact", "limit": 1}, "     1\t" + strings.Repeat("x", 2000) + "\n[lines 1-1 of 2; next offset 2]\n…edit_file keeps them]\n", "1 line"},
		{"many lines", args{"path": "many"}, "…  2000\tline\n[lines 1-2000 of 3000; next offset 2001]\n", "2000 lines"},
		{"many lines, end", args{"path": "many", "offset": 2999}, "  2999\tline\n  3000\tline\n[lines 2999-3000 of 3000]\n", "2 lines"},
		{"big with a range", args{"path": "big", "offset": 1 << 17}, "131072\t0123456789abcde\n[lines 131072-131072 of 131072]\n", "1 line"},
		{"directory", args{"path": "."}, "…utf16\nwide\n", "14 entries"},
	}
	w := newWorld(t, files)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := w.call("read_file", tt.in)
			head, tail, cut := strings.Cut(tt.want, "…")
			switch {
			case tt.name == "long line":
				assert.True(t, strings.HasSuffix(r.Text(), strings.TrimPrefix(tt.want, "…")))
			case cut:
				assert.True(t, strings.HasPrefix(r.Text(), head) && strings.HasSuffix(r.Text(), tail), r.Text())
			default:
				assert.Equal(t, tt.want, r.Text())
			}
			assert.Equal(t, tt.summary, r.Summary)
		})
	}
	t.Run("bytes a call", func(t *testing.T) {
		text := w.ok("read_file", args{"path": "wide"})
		assert.LessOrEqual(t, len(text), maxRead)
		assert.Contains(t, text, "of 400; next offset ")
	})
}

// Not all lines of a file of many gigabytes are counted.
func TestReadHugeFile(t *testing.T) {
	w := newWorld(t, map[string]string{"f": strings.Repeat("line\n", 3000)})
	require.NoError(t, os.Truncate(w.path("f"), 8*maxTail)) // a hole, which takes no space
	text := w.ok("read_file", args{"path": "f", "limit": 1})
	assert.Equal(t, "     1\tline\n[lines 1-1 of at least 3001; next offset 2]\n", text)
	text = w.ok("read_file", args{"path": "f", "offset": 3000, "limit": 1})
	assert.Contains(t, text, "[lines 3000-3000 of at least 3001; next offset 3001]\n")
}

func TestReadRefuses(t *testing.T) {
	w := newWorld(t, map[string]string{"README.md": "a\nb\n", "src/server_test.go": "", "src/server.go": "", "bin": "\x7fELF\x00"})
	require.NoError(t, syscall.Mkfifo(w.path("pipe"), 0o644))
	tests := []struct {
		kind string
		in   args
		says string
	}{
		{"not_found", args{"path": "readme.md"}, "did you mean README.md?"},
		{"not_found", args{"path": "src/sever.go"}, "did you mean src/server.go"},
		{"not_found", args{"path": "scr/server.go"}, "did you mean src?"},
		{"not_found", args{"path": "zzzzzzzzzzzz"}, `list_files, path "."`},
		{"not_regular", args{"path": "pipe"}, "not a regular file"},
		{"binary_file", args{"path": "bin"}, "bash"},
		{"offset_out_of_range", args{"path": "README.md", "offset": 9}, "2 lines"},
		{"invalid_arguments", args{"path": "README.md", "limit": -1}, "at least 0"},
		{"invalid_arguments", args{"path": "a\x00b"}, "NUL"},
		{"invalid_arguments", args{"path": ""}, "empty"},
		{"outside_workspace", args{"path": "../x"}, "relative"},
		{"sensitive_path", args{"path": ".env"}, "secrets"},
	}
	for _, tt := range tests {
		assert.Contains(t, w.fails(tt.kind, "read_file", tt.in), tt.says)
	}
}

func TestArgumentsAreText(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a"})
	for raw, ok := range map[string]bool{
		`{"path":"f"}`: true, `{"path":"\u0066"}`: true, `{"path":"f\u0000"}`: false, "{\"path\":\"f\xff\"}": false, `{"path":"f\ud800"}`: false, `{"path":"\udc00f"}`: false, `{"path":"f\ud800\u0041"}`: false,
	} {
		r, err := answered(w.tool["read_file"].Call(t.Context(), aycoder.NewInvocation("c", "read_file", json.RawMessage(raw), nil)))
		require.NoError(t, err)
		assert.Equal(t, ok, !r.IsError, "%s: %s", raw, r.Text())
	}
}

func TestList(t *testing.T) {
	w := newWorld(t, map[string]string{
		"a.go": "", "b/c.go": "", "b/d/e.go": "", "node_modules/x.js": "", "b/vendor/y.go": "", ".git/HEAD": "", ".git/info/exclude": "skip\n",
		".gitignore": "*.log\n", "x.log": "", "skip": "", "odd\nname": "",
	})
	require.NoError(t, os.Symlink("a.go", w.path("l")))
	require.NoError(t, syscall.Mkfifo(w.path("p"), 0o644))
	assert.Equal(t, ".git/\n.gitignore\na.go\nb/\nl (link)\nnode_modules/\n\"odd\\nname\"\np (pipe)\n"+
		"[2 entries left out: ignored by git, version control or dependencies; name such a directory as the path to see into it]\n", w.ok("list_files", args{}))
	assert.Equal(t, ".gitignore\na.go\nb/\nb/c.go\nb/d/\nb/d/e.go\nl (link)\n\"odd\\nname\"\np (pipe)\n"+
		"[5 entries left out: ignored by git, version control or dependencies; name such a directory as the path to see into it]\n", w.ok("list_files", args{"path": ".", "recursive": true}))
	assert.Equal(t, "node_modules/x.js\n", w.ok("list_files", args{"path": w.path("node_modules"), "recursive": true}))
	w.fails("not_directory", "list_files", args{"path": "a.go"})
	assert.Contains(t, w.fails("not_found", "list_files", args{"path": "a.goo"}), "did you mean a.go")
	for i := range 1500 {
		w.write(fmt.Sprintf("many/%04d/f", i), "")
	}
	text := w.ok("list_files", args{"path": "many", "recursive": true})
	assert.Equal(t, 1001, strings.Count(text, "\n"))
	assert.Contains(t, text, "[2000 more, not listed;")
}

func TestCodeSearch(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": "one\nfunc A() {}\nthree\nfour\n", "b.txt": "func B", ".env": "func SECRET"})
	assert.Equal(t, "a.go\n2:func A() {}\n\nb.txt\n1:func B\n\n[2 files searched; left out: 1 not readable or secret]\n", w.ok("code_search", args{"pattern": "func [AB]"}))
	assert.Equal(t, "a.go\n1-one\n2:func A() {}\n3-three\n\n[1 file searched]\n",
		w.ok("code_search", args{"pattern": "func", "include": "*.go", "context": 1}))
	assert.Equal(t, "a.go\n2:func A() {}\n\n[first 1 match; there are more: narrow the pattern, path or include, or raise max_results]",
		strings.Split(w.ok("code_search", args{"pattern": "FUNC", "ignore_case": true, "max_results": 1}), "\n[2 files")[0])
	assert.Contains(t, w.ok("code_search", args{"pattern": "A() {", "literal": true}), "2:func A() {}")
	assert.Contains(t, w.ok("code_search", args{"pattern": "nothing"}), "No matches.")
	assert.Contains(t, w.fails("invalid_regex", "code_search", args{"pattern": "a(?=b)"}), "literal=true")
	assert.Contains(t, w.fails("invalid_regex", "code_search", args{"pattern": strings.Repeat(".{0,1000}", 12)}), "too large")
	w.fails("invalid_arguments", "code_search", args{"pattern": "a", "include": "{a"})
	w.fails("outside_workspace", "code_search", args{"pattern": "a", "include": "{b,../a}/*"})
	w.fails("sensitive_path", "code_search", args{"pattern": "a", "path": ".env"})
	assert.Equal(t, "2 matches", w.call("code_search", args{"pattern": "func [AB]"}).Summary)
}

func TestBash(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "content\n"})
	tests := []struct {
		command, want, summary string
	}{
		{"cat f", "content\n[exit 0]\n", "exit 0"},
		{"echo x; exit 7", "x\n[exit 7]\n", "exit 7"},
		{"printf x", "x\n[exit 0]\n", "exit 0"},
		{"true", "[no output]\n[exit 0]\n", "exit 0"},
		{"cat", "[no output]\n[exit 0]\n", "exit 0"},
		{"printf 'a\\0'", "a?\n[bytes that are not text are shown as ?]\n[exit 0]\n", "exit 0"},
		{"kill -KILL $$", "[no output]\n[killed by signal: killed]\n", "killed by signal: killed"},
		{"echo '" + strings.Repeat("x", 200_000) + "' | wc -c", "200001\n[exit 0]\n", "exit 0"},
		{"[ \"$(pwd -P)\" = \"" + w.path("") + "\" ] && echo here", "here\n[exit 0]\n", "exit 0"},
	}
	for _, tt := range tests {
		r := w.call("bash", args{"command": tt.command})
		assert.False(t, r.IsError)
		assert.Equal(t, tt.want, r.Text(), runes.Cut(tt.command, 40))
		assert.Equal(t, tt.summary, r.Summary)
	}
	w.fails("invalid_arguments", "bash", args{"command": " "})
	w.fails("command_too_long", "bash", args{"command": strings.Repeat("x", maxCommand+1)})
	r := w.call("bash", args{"command": "echo before; sleep 30", "timeout": 1})
	assert.True(t, r.IsError)
	assert.Regexp(t, `^timeout: the command was killed after [^s]+s; give .*Its output:\nbefore\n\[timed out after 1`, r.Text())
}

func TestBashCancel(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	line := make(chan string, 1)
	var cancelled time.Time
	inv := aycoder.NewInvocation("c", "bash", mustJSON(t, args{"command": "sleep 300 & echo $$ $!; wait"}), func(p aycoder.Progress) {
		cancelled = time.Now()
		cancel()
		line <- p.Message
	})
	r, err := w.tool["bash"].Call(ctx, inv)
	timed.Within(t, cancelled, 2*time.Second) // alone a few ms
	require.NoError(t, err)
	assert.True(t, r.IsError)
	assert.Contains(t, r.Text(), "cancelled: the command was stopped")
	for f := range strings.FieldsSeq(<-line) {
		pid, err := strconv.Atoi(f)
		require.NoError(t, err)
		timed.Until(t, func() bool {
			stat, _ := os.ReadFile("/proc/" + f + "/stat")
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || strings.Contains(string(stat), ") Z ")
		}, "process ", f, " to end")
	}
}

func TestEnvironment(t *testing.T) {
	host := []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "OPENAI_API_KEY=k", "GITHUB_TOKEN=t", "MY=1", "BASH_ENV=x", "LD_PRELOAD=x", "GIT_DIR=x", "LC_SECRET=x",
		"LC_GITHUB_PAT=ghp", "GOPROXY=https://user:hidden@proxy.corp,direct", "GOFLAGS=-mod=mod", "GIT_AUTHOR_NAME=Ann", "GOPRIVATE=corp.com/a@b"}
	env := strings.Join(environ(host, host, []string{"MY", "NEW=2", "ABSENT"}), "\n")
	for _, want := range []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "MY=1", "NEW=2", "GIT_PAGER=cat", "GOFLAGS=-mod=mod", "GIT_AUTHOR_NAME=Ann", "GOPRIVATE=corp.com/a@b"} {
		assert.Contains(t, env, want)
	}
	for _, not := range []string{"KEY=k", "TOKEN", "BASH_ENV", "LD_PRELOAD", "GIT_DIR", "ABSENT", "LC_SECRET", "LC_GITHUB", "hidden"} {
		assert.NotContains(t, env, not)
	}
}

func TestGitWorksInBash(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n"})
	script := "git init -q . && git add f && git -c user.name=a -c user.email=a@b commit -qm first && echo b > f && git diff && git log --oneline && git status --short"
	text := w.ok("bash", args{"command": script})
	assert.Contains(t, text, "-a\n+b\n")
	assert.Contains(t, text, "first\n M f\n[exit 0]")
}

// Git does not write what it finds out about unchanged files into the index, where the user's git could be at work.
func TestGitDiffOnlyReads(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n"})
	w.ok("bash", args{"command": "git init -q . && git add f && git -c user.name=a -c user.email=a@b commit -qm first"})
	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(w.path("f"), long, long))
	before, err := os.ReadFile(w.path(".git/index"))
	require.NoError(t, err)
	for _, command := range []string{"git diff", "git diff HEAD", "git diff --stat", "git status"} {
		w.ok("bash", args{"command": command})
		after, err := os.ReadFile(w.path(".git/index"))
		require.NoError(t, err)
		require.Equal(t, before, after, command)
	}
}

func TestFullDiskEndsTheRun(t *testing.T) {
	_, err := explain(&workspace.Error{Op: "write", Path: "f", Kind: "no_space", Err: syscall.ENOSPC})
	require.ErrorIs(t, err, syscall.ENOSPC)
	r, err := explain(&workspace.Error{Op: "write", Path: "f", Kind: "stale", Err: errors.New("x")})
	require.NoError(t, err)
	assert.True(t, r.IsError)
}

var samples = map[string]args{
	"read_file":   {"path": "f"},
	"list_files":  {"path": ".", "recursive": true},
	"glob":        {"pattern": "*"},
	"code_search": {"pattern": "a"},
	"edit_file":   {"path": "f", "old_string": "a\n", "new_string": "aa\n"},
	"multi_edit":  {"path": "f", "edits": []args{{"old_string": "a\n", "new_string": "aa\n"}}},
	"write_file":  {"path": "new/f", "content": "a\n"},
	"apply_patch": {"patch": "*** Begin Patch\n*** Add File: p\n+a\n*** End Patch\n"},
	"bash":        {"command": "cat f"},
	"todo":        {"todos": []args{{"content": "a", "status": "pending"}}},
	"job_output":  {"id": "bash-1"},
	"job_stop":    {"id": "bash-1"},
}

// The contract of every tool.
func TestConformance(t *testing.T) {
	w := newWorld(t, map[string]string{"f": "a\n"})
	all, err := Coding(w.ws)
	require.NoError(t, err)
	names := []string{}
	w.ok("bash", args{"command": "sleep 300", "background": true})
	for _, tool := range all {
		spec := tool.Spec()
		names = append(names, spec.Name)
		if spec.Name == "fetch" {
			continue // see TestNetConformance
		}
		t.Run(spec.Name, func(t *testing.T) {
			assert.NotEmpty(t, spec.Description)
			require.True(t, json.Valid(spec.Schema), "%s", spec.Schema)
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := errors.New("stop")
			cancel(stop)
			_, err := w.callCtx(ctx, spec.Name, samples[spec.Name])
			require.ErrorIs(t, err, stop)
			var wg sync.WaitGroup
			var worked atomic.Int32
			for range 8 {
				wg.Go(func() {
					r := w.call(spec.Name, samples[spec.Name])
					again := strings.HasPrefix(r.Text(), "no_change: ") || strings.HasPrefix(r.Text(), "exists: ")
					assert.True(t, !r.IsError || again, r.Text())
					if !r.IsError {
						worked.Add(1)
					}
				})
			}
			wg.Wait()
			assert.NotZero(t, worked.Load())
			assert.Equal(t, spec, tool.Spec())
		})
	}
	assert.Equal(t, []string{
		"read_file", "list_files", "glob", "code_search", "edit_file", "multi_edit", "write_file", "apply_patch",
		"bash", "job_output", "job_stop", "fetch", "todo",
	}, names)
	_, err = Coding(nil)
	require.Error(t, err)
	_, err = Coding(w.ws, WithEnv("=x"))
	require.ErrorContains(t, err, "WithEnv")
}

// Bash and fetch are left out: they would run, or request, the fuzzer's inputs.
func FuzzArguments(f *testing.F) {
	w := newWorld(f, map[string]string{"f": "a\r\nb\n", "d/g": "c"})
	for _, name := range []string{
		"read_file", "list_files", "glob", "code_search", "edit_file", "multi_edit", "write_file", "apply_patch",
	} {
		f.Add(name, string(mustJSON(f, samples[name])))
	}
	f.Fuzz(func(t *testing.T, name, raw string) {
		tool := w.tool[name]
		if tool == nil || name == "bash" || name == "fetch" {
			return
		}
		r, err := tool.Call(t.Context(), aycoder.NewInvocation("c", name, json.RawMessage(raw), nil))
		if err == nil {
			require.NotNil(t, r)
			require.NotContains(t, r.Text(), "\x00")
			require.Equal(t, strings.ToValidUTF8(r.Text(), "?"), r.Text())
		}
		outside, err := os.ReadDir(filepath.Dir(w.path("")))
		require.NoError(t, err)
		require.Len(t, outside, 1)
	})
}
