package lsp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/lint"
	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// change changes a file in a run, with the tool write_file, and returns what the middleware has added to its result.
func (w *world) change(name, text string) string {
	w.Helper()
	w.ws.Seen().Add(name, w.text(name))
	tool, err := tools.WriteFile(w.ws)
	require.NoError(w, err)
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	model := script.New(script.Call("write_file", map[string]any{"path": name, "content": text}), script.Say("done"))
	loop, err := aycoder.New(model, aycoder.WithTools(tool), aycoder.WithToolMiddleware(w.client.Middleware), aycoder.WithApprover(allow))
	require.NoError(w, err)
	for _, err := range loop.Run(w.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(w, err)
	}
	require.Equal(w, text, w.text(name))
	out := model.Requests()[1].Messages
	o := out[len(out)-1].Parts[0].(*aycoder.ToolOutput)
	require.False(w, o.IsError)
	if len(o.Parts) == 1 {
		return ""
	}
	return o.Parts[1].(*aycoder.Text).Text
}

// finder is a checker for tests: each line with "bad" is a finding. It is counted in the file runs.
func finder(more string) lsp.Option {
	return lsp.WithCommand(lsp.Command{Files: "*.txt", Findings: lint.TSC,
		Script: more + ` echo x >> ../runs; grep -n bad {file} | sed -e 's/^\([0-9]*\):\(.*\)$/F(\1,1): error TS9: \2/' -e "s#^F#"{file}"#"`})
}

func TestFindings(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "bad old\none\nbad older\n", "b.txt": "bad\n"}, finder(""), lsp.WithWait(time.Minute))
	require.Empty(t, w.change("a.txt", "one\nbad old\nfine\nbad older\n"), "they were there before, or have moved")
	require.Equal(t, "\nwritten; new findings:\na.txt:2: bad new (TS9)\n", w.change("a.txt", "one\nbad new\nfine\nbad older\n"))
	require.Equal(t, "\nwritten; new findings:\nc.txt:1: bad (TS9)\n", w.change("c.txt", "bad\n"), "a new file")
	w.write("b.txt", "bad\nbad of the user\n")
	require.Empty(t, w.change("b.txt", "more\nbad\nbad of the user\n"))
	require.Empty(t, w.change("x.go", "bad\n"))
	runs, err := os.ReadFile(filepath.Join(filepath.Dir(w.dir), "runs"))
	require.NoError(t, err)
	require.Equal(t, 7, strings.Count(string(runs), "x"), "before and after, and once for the new file")
	// Without a plan, only lines that the edit has written are known to be new, until the checker has seen the file.
	w = newWorld(t, map[string]string{"a.txt": "bad old\none\n"}, finder(""), lsp.WithWait(time.Minute))
	require.Equal(t, "\nwritten; new findings:\na.txt:2: bad two (TS9)\n", w.save("a.txt", "bad old\nbad two\n"))
	require.Equal(t, "\nwritten; new findings:\na.txt:3: bad old (TS9)\n", w.save("a.txt", "bad old\nbad two\nbad old\n"), "as often as it is there")
}

// A checker that fails, hangs, dies or floods says nothing, and costs at most the wait.
func TestFindingsFail(t *testing.T) {
	for _, more := range []string{"sleep 1000;", "kill -9 $$;", "exit 3;", "yes 'a.txt(1,1): error TS9: flood';", "none-such-program || exit;",
		"head -c 20000000 /dev/zero | tr '\\0' x;", "(sleep 1000 &) ; exit 1;"} {
		w := newWorld(t, map[string]string{"a.txt": "bad\n"}, finder(more), lsp.WithWait(700*time.Millisecond))
		require.Empty(t, w.change("a.txt", "bad\nbad new\n"), more)
	}
	for _, cmd := range []lsp.Command{{Files: "*.go", Script: "x", Findings: "other"}, {Files: "*.go", Script: "x", Findings: lint.GoVet, Format: true}} {
		_, err := lsp.New(newWorld(t, nil).ws, lsp.WithCommand(cmd))
		require.Error(t, err)
	}
	for _, f := range lint.Formats() {
		_, ok := lsp.KnownCommand(string(f))
		require.Equal(t, f != lint.SARIF, ok, f)
	}
}

// The configuration of a project can ask Ruff for fixes, git for programs, and tsc for a file beside the sources, but a
// checker that runs unasked does none of it. A composite project refuses --incremental false alone.
func TestKnownCommandsOnlyLook(t *testing.T) {
	for name, flags := range map[string][]string{"ruff": {"--no-fix ", "--no-fix-only ", "--no-cache "}, "staticcheck": {"-buildvcs=false"},
		"tsc": {"--noEmit --composite false --incremental false "}, "node_modules/.bin/tsc": {"--noEmit --composite false --incremental false "}} {
		cmd, _ := lsp.KnownCommand(name)
		for _, flag := range flags {
			require.Contains(t, cmd.Script, flag)
		}
	}
}

// A checker that is said to run no code of the workspace does not find its programs there.
func TestFindingsWithoutProgramsOfWorkspace(t *testing.T) {
	for _, path := range []string{".:", ":"} {
		t.Setenv("PATH", path+os.Getenv("PATH"))
		w := newWorld(t, map[string]string{"a.txt": "one\n", "evil": "#!/bin/sh\ntouch ../ran\n"}, finder("evil;"), lsp.WithWait(time.Minute))
		require.NoError(t, os.Chmod(filepath.Join(w.dir, "evil"), 0o755))
		require.Contains(t, w.change("a.txt", "one\nbad\n"), "new findings")
		require.NoFileExists(t, filepath.Join(filepath.Dir(w.dir), "ran"))
	}
	w := newWorld(t, map[string]string{"a.txt": "one\n"}, finder(""))
	t.Setenv("PATH", filepath.Join(w.dir, "node_modules", ".bin")+":"+os.Getenv("PATH"))
	w.write("node_modules/.bin/evil", "#!/bin/sh\ntouch ../ran\n")
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "node_modules/.bin/evil"), 0o755))
	var err error
	w.client, err = lsp.New(w.ws, finder("evil;"), lsp.WithWait(time.Minute))
	require.NoError(t, err)
	defer w.client.Close()
	require.Contains(t, w.change("a.txt", "one\nbad\n"), "new findings")
	require.NoFileExists(t, filepath.Join(filepath.Dir(w.dir), "ran"))
}

// goCode has a finding of go vet and one of staticcheck, each in a function that no edit below touches.
const goCode = `package x

import (
	"fmt"
	"strings"
)

func old() {
	fmt.Printf("%d\n", "old")
	_ = strings.Replace("a", "b", "c", 0)
}

var _ = old
`

// The edits plant findings, and the places are those that the programs alone report in the texts after the edit but not
// in those before it. The real go vet finds all, and with AYCODER_STATICCHECK, the path of the program, staticcheck as well.
func TestFindingsOfGo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands do not run on Windows")
	}
	timed.Serial(t)
	vet, _ := lsp.KnownCommand("go vet")
	opts := []lsp.Option{lsp.WithCommand(vet), lsp.WithWait(10 * time.Minute)}
	static := os.Getenv("AYCODER_STATICCHECK")
	if static != "" {
		cmd, _ := lsp.KnownCommand("staticcheck")
		cmd.Script = strings.Replace(cmd.Script, "staticcheck", static, 1)
		opts = append(opts, lsp.WithCommand(cmd))
	} else {
		t.Log("without staticcheck: AYCODER_STATICCHECK does not name it")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("go is not installed")
	}
	w := newWorld(t, map[string]string{"go.mod": "module x\n\ngo 1.26\n", "sub/a.go": goCode}, opts...)
	head := "// A line above.\n"
	printf := "\nfunc New() { fmt.Printf(\"%d\\n\", \"new\") }\n"
	vetSays := func(line, of string) string {
		return "sub/a.go:" + line + ": fmt.Printf format %d has arg \"" + of + "\" of wrong type string (printf)\n"
	}
	staticSays := func(line string) string {
		if static == "" {
			return ""
		}
		return "sub/a.go:" + line + ": Printf format %d has arg #1 of wrong type string (SA5009)\n"
	}
	const title = "\nwritten; new findings:\n"
	require.Empty(t, w.change("sub/a.go", head+goCode), "the lines have moved")
	require.Equal(t, title+vetSays("16", "new")+staticSays("16"), w.change("sub/a.go", head+goCode+printf))
	require.Empty(t, w.change("sub/a.go", head+head+goCode+printf))
	require.Equal(t, title+vetSays("11", "older"), w.change("sub/a.go", head+head+strings.Replace(goCode, `"old"`, `"older"`, 1)+printf),
		"the message of go vet is another one")
	broken := w.change("sub/a.go", head+strings.Replace(goCode, `"old"`, `"older"`, 1)+printf+"var _ = undefined\n")
	require.Contains(t, broken, "sub/a.go:17: undefined: undefined (compile)\n")
	require.Equal(t, 1, strings.Count(broken, "undefined: undefined"), "once, whoever says it")
	require.NotContains(t, broken, "Printf")
	require.Empty(t, w.change("sub/a.go", head+strings.Replace(goCode, `"old"`, `"older"`, 1)+printf), "what the error has hidden was there before")
	require.Contains(t, w.change("sub/b.go", "package x\n\nfunc G(s int) int {\n\ts = s\n\treturn s\n}\n"), title+"sub/b.go:4: self-assignment of s (assign); fix: Remove self-assignment\n")
}

// Random edits add, change, move and remove functions with findings that differ by a number, in two files of a package, while
// the user does the same in the other file. All that an edit has planted is reported, and nothing else.
func TestFindingsOfRandomEdits(t *testing.T) {
	timed.Serial(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("go is not installed")
	}
	vet, _ := lsp.KnownCommand("go vet")
	w := newWorld(t, map[string]string{"go.mod": "module x\n\ngo 1.26\n"}, lsp.WithCommand(vet), lsp.WithWait(10*time.Minute))
	times := count(t, 4)
	random, next := rand.New(rand.NewPCG(1, 2)), 0
	type piece struct{ id, lines, finding int }
	files := map[string][]piece{}
	text := func(name string) string {
		b := strings.Builder{}
		b.WriteString("package x\n\nimport \"fmt\"\n\nvar _ = fmt.Sprint\n")
		for _, p := range files[name] {
			fmt.Fprintf(&b, "\n%sfunc f%d() {\n", strings.Repeat("// A line.\n", p.lines), p.id)
			if p.finding > 0 {
				fmt.Fprintf(&b, "\tfmt.Printf(\"%%d\", \"n%d\")\n", p.finding)
			}
			b.WriteString("}\n")
		}
		return b.String()
	}
	vary := func(name string) {
		for range 1 + random.IntN(4) {
			next++
			all := files[name]
			at := random.IntN(len(all) + 1)
			switch random.IntN(5) {
			case 0, 1:
				files[name] = slices.Insert(all, at, piece{next, random.IntN(3), random.IntN(2) * next})
			case 2:
				if at < len(all) {
					files[name] = slices.Delete(all, at, at+1)
				}
			case 3:
				if at < len(all) {
					all[at].lines = random.IntN(4)
				}
			default:
				if at < len(all) {
					all[at].finding = random.IntN(2) * next
				}
			}
		}
	}
	numbers := func(name string) (out []int) {
		for _, p := range files[name] {
			if p.finding > 0 {
				out = append(out, p.finding)
			}
		}
		return out
	}
	said := regexp.MustCompile(`"n(\d+)"`)
	planted := 0
	for range times {
		names := []string{"a.go", "b.go"}
		random.Shuffle(2, func(i, j int) { names[i], names[j] = names[j], names[i] })
		vary(names[1])
		w.write(names[1], text(names[1])) // the user
		before := numbers(names[0])
		for old := w.text(names[0]); text(names[0]) == old || len(files[names[0]]) == 0; {
			vary(names[0])
		}
		want, got := map[int]bool{}, map[int]bool{}
		for _, n := range numbers(names[0]) {
			if !slices.Contains(before, n) {
				want[n] = true
			}
		}
		planted += len(want)
		out := w.change(names[0], text(names[0]))
		for _, m := range said.FindAllStringSubmatch(out, -1) {
			n, _ := strconv.Atoi(m[1])
			got[n] = true
		}
		require.Equal(t, want, got, out)
	}
	t.Logf("%d edits, %d findings planted", times, planted)
}
