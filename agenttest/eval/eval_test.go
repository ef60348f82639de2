package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest/eval"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

type object = map[string]any

// coder builds an agent with the coding tools, whose model follows the script of its case.
func coder(steps map[string][]script.Step, opts ...aycoder.Option) eval.Build {
	return func(_ context.Context, dir string, c *eval.Case) (*eval.Subject, error) {
		ws, err := workspace.Open(dir)
		if err != nil {
			return nil, err
		}
		list, err := tools.Coding(ws)
		if err != nil {
			return nil, err
		}
		allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
		agent, err := aycoder.New(script.New(steps[c.Name]...), append([]aycoder.Option{aycoder.WithTools(list...), aycoder.WithApprover(allow)}, opts...)...)
		return &eval.Subject{Agent: agent, Close: ws.Close}, err
	}
}

// twenty returns 20 cases and what a good model does in them.
func twenty() ([]eval.Case, map[string][]script.Step) {
	steps := map[string][]script.Step{}
	var cases []eval.Case
	add := func(c eval.Case, s ...script.Step) {
		c.Name = fmt.Sprintf("%02d %s", len(cases), c.Name)
		cases, steps[c.Name] = append(cases, c), s
	}
	for i := range 5 {
		was, now := fmt.Sprintf("n = %d\n", i), fmt.Sprintf("n = %d\n", i+1)
		files := map[string]string{"a/n.txt": was, "keep": "kept\n"}
		add(eval.Case{Name: "edit", Files: files, Prompts: []string{"Count up."},
			Checks: []eval.Check{eval.FileIs("a/n.txt", now), eval.Unchanged("keep"), eval.Called("edit_file", 1), eval.NotCalled("bash")}},
			script.Call("read_file", object{"path": "a/n.txt"}), script.Call("edit_file", object{"path": "a/n.txt", "old_string": was, "new_string": now}), script.Say("Done."))
		add(eval.Case{Name: "write", Prompts: []string{"Make a file."}, Checks: []eval.Check{eval.FileMatches("new", `(?m)^made$`), eval.TurnsAtMost(2)}},
			script.Call("write_file", object{"path": "new", "content": "made\n"}), script.Say("Made."))
		add(eval.Case{Name: "answer", Files: files, Prompts: []string{"What is n?", "And twice that?"},
			Checks: []eval.Check{eval.AnswerMatches(fmt.Sprintf(`\b%d\b`, 2*i)), eval.Unchanged("a/n.txt", "keep"), eval.NoFile("new")}},
			script.Call("read_file", object{"path": "a/n.txt"}), script.Say(fmt.Sprint(i)), script.Say(fmt.Sprint(2*i)))
		add(eval.Case{Name: "command", Files: map[string]string{"check.sh": "test -e ok\n"}, Prompts: []string{"Make the check pass."},
			Checks: []eval.Check{eval.Command("sh", "check.sh")}}, script.Call("write_file", object{"path": "ok", "content": "\n"}), script.Say("It passes."))
	}
	return cases, steps
}

// A command takes with it what it has started, also if it is cancelled.
func TestCommandEnds(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the checks run sh")
	}
	for _, script := range []string{"sleep 1000 & echo $! >pid", "sleep 1000 & echo $! >pid; wait"} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- eval.Command("sh", "-c", script)(ctx, &eval.Outcome{Dir: dir}) }()
		var pid []byte
		timed.Until(t, func() bool {
			pid, _ = os.ReadFile(filepath.Join(dir, "pid")) // not there yet
			return bytes.HasSuffix(pid, []byte("\n"))
		}, "the script to begin")
		cancel()
		<-done
		timed.Until(t, func() bool { // the one who adopted it has to reap it
			state, _ := exec.Command("ps", "-o", "stat=", "-p", strings.TrimSpace(string(pid))).Output() // fails if there is none
			return len(state) == 0 || state[0] == 'Z'
		}, "a process of ", script, " to end")
	}
}

// Of 20 cases, in which 5 regressions are planted, exactly these are found, and the same table comes out again.
func TestPlanted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the checks run sh")
	}
	cases, steps := twenty()
	good, err := eval.Run(t.Context(), cases, coder(steps), eval.Options{Parallel: 4})
	require.NoError(t, err)
	require.True(t, good.Passed(), good.Rows)
	require.Len(t, good.Rows, 20)
	planted := map[string][]script.Step{
		cases[0].Name: {script.Say("Done.")}, // claimed, and not done
		cases[4].Name: {script.Call("write_file", object{"path": "a/n.txt", "content": "n = 2\n"}), script.Call("write_file", object{"path": "keep", "content": "lost\n"}),
			script.Say("Done.")}, // more than was asked
		cases[9].Name: {script.Call("write_file", object{"path": "new", "content": "made\n"}), script.Call("read_file", object{"path": "new"}),
			script.Say("Made.")}, // a turn too many
		cases[14].Name: {script.Call("read_file", object{"path": "a/n.txt"}), script.Say("3"), script.Say("7")},               // wrong
		cases[19].Name: {script.Call("write_file", object{"path": "okay", "content": "\n"}), script.Say("The check passes.")}, // untrue
	}
	for name, s := range steps {
		if planted[name] == nil {
			planted[name] = s
		}
	}
	var tables [2]bytes.Buffer
	for i := range tables {
		table, err := eval.Run(t.Context(), cases, coder(planted), eval.Options{Parallel: 1 + 3*i})
		require.NoError(t, err)
		require.False(t, table.Passed())
		var failed []string
		for _, r := range table.Rows {
			if r.Passed < r.Tries {
				failed = append(failed, r.Case)
				require.NotEmpty(t, r.Failures)
			}
		}
		require.Equal(t, []string{cases[0].Name, cases[4].Name, cases[9].Name, cases[14].Name, cases[19].Name}, failed)
		require.NoError(t, table.WriteText(&tables[i]))
	}
	require.Equal(t, tables[0].String(), tables[1].String())
	require.Contains(t, tables[0].String(), "15/20")
}

func one(checks ...eval.Check) []eval.Case {
	return []eval.Case{{Name: "one", Prompts: []string{"go"}, Checks: checks}}
}

func says(text string) map[string][]script.Step {
	return map[string][]script.Step{"one": {script.Say(text), script.Say(text), script.Say(text)}}
}

func TestPass(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	every := func(context.Context, *eval.Outcome) error {
		if n.Add(1)%2 == 0 {
			return errors.New("even")
		}
		return nil
	}
	table, err := eval.Run(t.Context(), one(every), coder(says("x")), eval.Options{Tries: 4})
	require.NoError(t, err)
	r := table.Rows[0]
	require.Equal(t, []int{4, 2}, []int{r.Tries, r.Passed})
	require.InDelta(t, 0.5, r.Pass(1), 1e-12)
	require.InDelta(t, 1.0/6, r.Pass(2), 1e-12, "of six pairs, one passed")
	require.Zero(t, r.Pass(3)+r.Pass(5)+r.Pass(0)+r.PassAll)
	require.Equal(t, []string{"even"}, r.Failures)
	var b bytes.Buffer
	require.NoError(t, table.WriteJUnit(&b, "agents <x>"))
	var s struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	require.NoError(t, xml.Unmarshal(b.Bytes(), &s), b.String())
	require.Equal(t, []int{4, 2, 4}, []int{s.Tests, s.Failures, len(s.Cases)})
	require.Equal(t, "even", s.Cases[1].Failure.Message)
	b.Reset()
	require.NoError(t, table.WriteJSON(&b))
	var back eval.Table
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, table.Rows, back.Rows)
}

// paid is a model whose answers cost a dollar.
type paid struct{ aycoder.ModelClient }

func (p paid) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range p.ModelClient.Stream(ctx, req) {
			if done, ok := ev.(*aycoder.MessageDone); ok {
				done.Cost = new(1.0)
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// When the budget is used up, no further try begins, and the table says so.
func TestBudget(t *testing.T) {
	t.Parallel()
	build := func(context.Context, string, *eval.Case) (*eval.Subject, error) {
		agent, err := aycoder.New(paid{script.New(script.Say("x"))})
		return &eval.Subject{Agent: agent}, err
	}
	told := 0
	table, err := eval.Run(t.Context(), one(eval.CostAtMost(1)), build, eval.Options{Tries: 10, Budget: 2.5, Progress: func(*eval.Try) { told++ }})
	require.NoError(t, err)
	require.Equal(t, []int{3, 3, 7, 10}, []int{table.Rows[0].Tries, table.Rows[0].Passed, table.Rows[0].NotRun, told})
	require.False(t, table.Passed())
	require.InDelta(t, 3, table.Rows[0].Cost, 1e-9)
	var b bytes.Buffer
	require.NoError(t, table.WriteText(&b))
	require.Contains(t, b.String(), "7 tries were not run")
}

// A check that ends its goroutine, as those with a testing.T do, has not passed. The agent is closed in any case.
func TestEndsEarly(t *testing.T) {
	t.Parallel()
	leaves := func(context.Context, *eval.Outcome) error { runtime.Goexit(); return nil }
	table, err := eval.Run(t.Context(), one(leaves), coder(says("x")), eval.Options{Tries: 2})
	require.NoError(t, err)
	require.False(t, table.Passed())
	require.Equal(t, []int{0, 1, 1}, []int{table.Rows[0].Passed, table.Rows[0].Tries, table.Rows[0].NotRun})
	require.Contains(t, table.Rows[0].Failures[0], "did not end")

	closed := false
	build := func(context.Context, string, *eval.Case) (*eval.Subject, error) {
		return &eval.Subject{Agent: panics{}, Close: func() error { closed = true; return nil }}, nil
	}
	table, err = eval.Run(t.Context(), one(), build, eval.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"panic: oh"}, table.Rows[0].Failures)
	require.True(t, closed)
}

type panics struct{}

func (panics) Run(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	panic("oh")
}

func TestTroubles(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		build eval.Build
		check eval.Check
		want  string
	}{
		"no agent":       {func(context.Context, string, *eval.Case) (*eval.Subject, error) { return nil, nil }, nil, "no agent"},
		"build fails":    {func(context.Context, string, *eval.Case) (*eval.Subject, error) { return nil, errors.New("no key") }, nil, "no key"},
		"build panics":   {func(context.Context, string, *eval.Case) (*eval.Subject, error) { panic("oh") }, nil, "panic: oh"},
		"check panics":   {coder(says("x")), func(context.Context, *eval.Outcome) error { panic("oh") }, "panic: oh"},
		"script is over": {coder(nil), nil, "script"},
		"out of dir":     {coder(says("x")), eval.FileIs("../../etc/hostname", ""), "escapes"},
		"unpriced":       {coder(says("x")), eval.CostAtMost(1), "no known price"},
		"no program":     {coder(says("x")), eval.Command("no-such-program-here"), "no-such-program-here"},
	} {
		var checks []eval.Check
		if tt.check != nil {
			checks = append(checks, tt.check)
		}
		table, err := eval.Run(t.Context(), one(checks...), tt.build, eval.Options{})
		require.NoError(t, err, name)
		require.Contains(t, strings.Join(table.Rows[0].Failures, "\n"), tt.want, name)
	}
	for _, cases := range [][]eval.Case{
		{{Prompts: []string{"x"}}}, {{Name: "x"}}, {{Name: "x", Prompts: []string{"x"}}, {Name: "x", Prompts: []string{"x"}}},
		{{Name: "x", Prompts: []string{"x"}, Files: map[string]string{"../x": ""}}}, {{Name: "x", Prompts: []string{"x"}, Executable: []string{"y"}}},
		{{Name: "x", Prompts: []string{"x"}, Checks: []eval.Check{nil}}},
	} {
		_, err := eval.Run(t.Context(), cases, coder(nil), eval.Options{})
		require.ErrorAs(t, err, new(*aycoder.ConfigError))
	}
	_, err := eval.Run(t.Context(), one(), nil, eval.Options{})
	require.ErrorAs(t, err, new(*aycoder.ConfigError))
}

// A try that takes too long ends, and a cancel leaves the rest undone.
func TestEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		build := func(context.Context, string, *eval.Case) (*eval.Subject, error) {
			agent, err := aycoder.New(hangs{})
			return &eval.Subject{Agent: agent}, err
		}
		start := time.Now()
		table, err := eval.Run(t.Context(), one(), build, eval.Options{Timeout: time.Minute})
		require.NoError(t, err)
		require.Contains(t, table.Rows[0].Failures[0], "more than 1m0s")
		require.Equal(t, time.Minute, time.Since(start))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		table, err = eval.Run(ctx, one(), build, eval.Options{Tries: 3, Parallel: 2})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []int{2, 0, 1}, []int{table.Rows[0].Tries, table.Rows[0].Passed, table.Rows[0].NotRun})
	})
}

type hangs struct{}

func (hangs) Stream(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}

// A recorded session becomes a case, which the same model passes and a lazy one does not.
func TestFromSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("one\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gone"), []byte("old\n"), 0o644))
	steps := []script.Step{
		script.Call("read_file", object{"path": "a"}), script.Call("edit_file", object{"path": "a", "old_string": "one", "new_string": "two"}), script.Say("Edited."),
		script.Call("write_file", object{"path": "b/c", "content": "new\n"}), script.Say("Made."),
	}
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	files := snapshot.New(ws)
	list, err := tools.Coding(files)
	require.NoError(t, err)
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	agent, err := aycoder.New(script.New(steps...), aycoder.WithTools(list...), aycoder.WithApprover(allow))
	require.NoError(t, err)
	sessions := t.TempDir()
	store, err := journal.Dir(sessions)
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, agent, session.WithFiles(files))
	require.NoError(t, err)
	for _, prompt := range []string{"Edit it.", "Make another."} {
		for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: prompt}) {
			require.NoError(t, err)
		}
	}
	require.NoError(t, s.Close())

	c, missing, err := eval.FromSession(t.Context(), store, s.ID())
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Equal(t, []string{"Edit it.", "Make another."}, c.Prompts)
	require.Equal(t, map[string]string{"a": "one\n"}, c.Files)
	same, missing, err := eval.SameFiles(t.Context(), store, s.ID())
	require.NoError(t, err)
	require.Empty(t, missing)
	c.Checks = []eval.Check{same}
	table, err := eval.Run(t.Context(), []eval.Case{*c}, coder(map[string][]script.Step{c.Name: steps}), eval.Options{})
	require.NoError(t, err)
	require.True(t, table.Passed(), table.Rows)
	steps[3] = script.Say("Made, I think.")
	table, err = eval.Run(t.Context(), []eval.Case{*c}, coder(map[string][]script.Step{c.Name: steps[:4]}), eval.Options{})
	require.NoError(t, err)
	require.False(t, table.Passed())
	require.Contains(t, table.Rows[0].Failures[0], "b/c")

	f, err := os.OpenFile(filepath.Join(sessions, s.ID(), "journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("[damaged]\n")
	require.NoError(t, errors.Join(err, f.Close()))
	_, missing, err = eval.FromSession(t.Context(), store, s.ID())
	require.NoError(t, err)
	require.Len(t, missing, 1)
	require.Contains(t, missing[0], "is damaged")
}
