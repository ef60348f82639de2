package forecast_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/insight/forecast"
	"github.com/aycoder/aycoder/insight/usage"
	"github.com/aycoder/aycoder/internal/gittest"
	"github.com/aycoder/aycoder/workspace"
)

func task(words string, turns int, d time.Duration, cost float64) forecast.Task {
	return forecast.Task{Words: words, Figures: usage.Figures{Answers: turns, Time: d, Cost: cost, Usage: aycoder.Usage{Input: int64(turns) * 1000}}}
}

func TestOfTasks(t *testing.T) {
	var tasks []forecast.Task
	for i := range 20 {
		tasks = append(tasks, task("add a page for users", 100, time.Hour, 9))
		if i%2 == 0 {
			fix := task("fix the crash of the parser", 1+i/2, time.Duration(1+i/2)*time.Minute, 0.12)
			fix.Tools = map[string]int{"read_file": 3, "edit_file": 1, "bash": 2, "x": 4}
			tasks = append(tasks, fix)
		} else {
			tasks[len(tasks)-1].Tools = map[string]int{"bash": 100}
		}
	}
	f := forecast.New(forecast.Options{Tasks: tasks, Factor: 3})
	got := f.Of("The parser crashes, fix it")
	require.Equal(t, usage.Fix, got.Kind)
	require.Equal(t, &forecast.Range{Median: 5.5, Least: 1, Most: 10}, got.Turns)
	require.Equal(t, &forecast.Range{Median: 5.5, Least: 1, Most: 10}, got.Minutes)
	require.InDelta(t, 0.12, got.MaxCost, 1e-9)
	require.InDelta(t, 5.5/60*3, got.Hours, 1e-9)
	require.Equal(t, []forecast.Phase{{"looking", 0.3}, {"changing", 0.1}, {"running", 0.2}, {"other tools", 0.4}}, got.Phases)
	require.Equal(t, `kind: fix
the 10 most similar tasks in your journals took, as a median:
  turns    6; these took 1 to 10
  minutes  6; these took 1 to 10
  tokens   5500; these took 1000 to 10000
  dollars  0.12; these took 0.12 to 0.12
a bound that they would have kept: -max-cost 0.12
a person: 0.3 hours, if it takes 3.0 times as long, as you say
their calls of tools: looking 30 % changing 10 % running 20 % other tools 40 %
`, got.Text())
	tasks[1].Unpriced = 1
	got = forecast.New(forecast.Options{Tasks: tasks}).Of("fix the crash of the parser")
	require.Nil(t, got.Dollars, "the cost of one is not known")
	require.Zero(t, got.MaxCost)
	require.Zero(t, got.Hours)
	require.Equal(t, 1, forecast.New(forecast.Options{Tasks: tasks[:1]}).Of("anything").Tasks)
	require.Equal(t, "kind: other\n", forecast.New(forecast.Options{}).Of("").Text())
}

// A range is shown where it was right, and not where later tasks are other ones, or the values have no middle.
func TestRange(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	commits := func(n int, lines func(i int) int) (out []forecast.Commit) {
		for i := range n {
			out = append(out, forecast.Commit{Subject: fmt.Sprintf("fix part %d", random.IntN(40)), Files: []string{"a"}, Lines: lines(i)})
		}
		return out
	}
	same := forecast.New(forecast.Options{Commits: commits(300, func(int) int { return random.IntN(1000) })}).Of("fix part 3")
	require.InDelta(t, 0.8, same.Lines.Holds, 0.05)
	require.Less(t, same.Lines.Least, same.Lines.Most)
	require.Contains(t, same.Text(), "four of five from")
	for name, all := range map[string][]forecast.Commit{
		"drift": commits(300, func(i int) int { return 1000*i + random.IntN(1000) }),
		"few":   commits(90, func(int) int { return random.IntN(1000) }),
		"two":   commits(300, func(i int) int { return i % 2 }),
	} {
		got := forecast.New(forecast.Options{Commits: all}).Of("fix part 3")
		require.Zero(t, got.Lines.Holds, name)
		require.NotContains(t, got.Text(), "four of five", name)
	}
}

func TestOfRepository(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) { gittest.Run(t, dir, args...) }
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	git("init", "-q", "-b", "main")
	write("go.mod", "module m\n")
	write("odd\tname\x01\n.txt", "a\n")
	write("token/lexer.go", "package token\n\nfunc Next() {}\n")
	for i := range 11 {
		write(fmt.Sprintf("u%d/u.go", i), "package u\n\nimport \"m/token\"\n\nvar _ = token.Next\n")
	}
	write("tested/t.go", "package tested\n\nfunc Shape() {}\n")
	write("tested/t_test.go", "package tested\n")
	git("add", "-A")
	git("commit", "-qm", "begin\n\nwith a body")
	for i := range 12 {
		write("token/lexer.go", fmt.Sprintf("package token\n\nfunc Next() {}\n// %d\n", i))
		git("commit", "-qam", fmt.Sprintf("lexer: fix tokens %d", i))
	}
	git("checkout", "-qb", "side", "HEAD~1")
	write("side.txt", "x\n")
	git("add", "-A")
	git("commit", "-qm", "\x01not\x02a head")
	git("checkout", "-q", "main")
	git("merge", "-q", "--no-ff", "-m", "merged", "side")
	all, err := forecast.Commits(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, all, 14, "without the merge")
	require.Equal(t, "begin", all[0].Subject)
	require.Contains(t, all[0].Files, "odd\tname\x01\n.txt")
	require.Equal(t, 2, all[2].Lines)
	shallow := filepath.Join(t.TempDir(), "shallow")
	git("clone", "-q", "--depth", "3", "file://"+filepath.ToSlash(dir), shallow)
	part, err := forecast.Commits(t.Context(), shallow)
	require.NoError(t, err)
	require.Len(t, part, 2, "the oldest one seems to have written all files")
	require.LessOrEqual(t, max(part[0].Lines, part[1].Lines), 2)
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	g, err := codegraph.New(ws)
	require.NoError(t, err)
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	f := forecast.New(forecast.Options{Commits: all, Graph: s})
	got := f.Of("the lexer loses tokens")
	require.Equal(t, forecast.Probable{Path: "token/lexer.go", Commits: 12}, got.Probable[0])
	require.Equal(t, "high", got.Risk)
	require.Equal(t, []string{"token/lexer.go has changed in 13 commits of the newest 90 days", "11 files depend on token/lexer.go", "no test uses token/lexer.go"}, got.Reasons[:3])
	got = f.Of("another shape")
	require.Equal(t, "tested/t.go", got.Probable[0].Path, "by a name that it declares")
	require.Equal(t, "low", got.Risk)
	require.NotContains(t, f.Of("\x1b[31m begin").Text(), "\x1b")
	_, err = forecast.Commits(t.Context(), t.TempDir())
	require.Error(t, err)
	agenttest.TestTool(t, func(t testing.TB) agenttest.ToolSetup {
		tool, err := forecast.Tool(forecast.Sources{Files: ws, Dir: dir})
		require.NoError(t, err)
		return agenttest.ToolSetup{Tool: tool, Dir: dir}
	}, agenttest.ToolCase{Name: "task", Args: `{"task":"the lexer loses tokens"}`, Want: "token/lexer.go (in 12 of the similar commits)"})
}

func TestKindOf(t *testing.T) {
	for words, want := range map[string]string{
		"feat(ui)!: say more": usage.Feature, "fix: x": usage.Fix, "chore: x": usage.Refactor, "docs: x": usage.Docs, "tests: x": usage.Tests,
		"session: add x": usage.Feature, "Fix the crash": usage.Fix, "": usage.Other, ":": usage.Other,
	} {
		require.Equal(t, want, forecast.KindOf(words), words)
	}
}

func ExampleForecaster_Of() {
	var tasks []forecast.Task
	for i := range 10 {
		tasks = append(tasks, task(fmt.Sprintf("fix the parser, part %d", i), 4+2*i, 3*time.Minute, 0.5))
	}
	fmt.Print(strings.TrimSpace(forecast.New(forecast.Options{Tasks: tasks}).Of("fix another crash of the parser").Text()))
	// Output:
	// kind: fix
	// the 10 most similar tasks in your journals took, as a median:
	//   turns    13; these took 4 to 22
	//   minutes  3; these took 3 to 3
	//   tokens   13000; these took 4000 to 22000
	//   dollars  0.50; these took 0.50 to 0.50
	// a bound that they would have kept: -max-cost 0.50
}

func TestBrief(t *testing.T) {
	for want, of := range map[string]forecast.Task{
		"took 1 turn, 1 minute and $0.01 as a median": task("fix it", 1, time.Minute, 0.006),
		"took 2 turns and 2 minutes as a median":      task("fix it", 2, 2*time.Minute, 0.001),
		"took 1 turn and $1.00 as a median":           task("fix it", 1, 29*time.Second, 1),
		"":                                            task("fix it", 1, 29*time.Second, 0.004),
	} {
		got := forecast.New(forecast.Options{Tasks: slices.Repeat([]forecast.Task{of}, 10)}).Brief("fix it")
		require.Contains(t, got, want)
		require.Equal(t, want == "", got == "", got)
	}
}

func ExampleForecaster_Brief() {
	var tasks []forecast.Task
	for i := range 10 {
		tasks = append(tasks, task(fmt.Sprintf("fix the parser, part %d", i), 4+2*i, 3*time.Minute, 0.5))
	}
	fmt.Println(forecast.New(forecast.Options{Tasks: tasks}).Brief("fix another crash of the parser"))
	fmt.Printf("%q\n", forecast.New(forecast.Options{Tasks: tasks[1:]}).Brief("fix another crash of the parser"))
	// Output:
	// The 10 most similar tasks took 13 turns, 3 minutes and $0.50 as a median; -max-cost 0.50 would have held for all of them.
	// ""
}
