package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
)

type toolCall = func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error)

// previewer is a tool whose preview does what preview says.
type previewer struct {
	brokenTool
	preview func() string
}

func (p *previewer) Preview(context.Context, *aycoder.Invocation) (string, error) {
	return p.preview(), nil
}

// planner is a tool whose plan is what plan says.
type planner struct {
	brokenTool
	plan func() (edit.Plan, error)
}

func (p *planner) Plan(context.Context, *aycoder.Invocation) (edit.Plan, error) {
	return p.plan()
}

func TestSuiteFindsBrokenTools(t *testing.T) {
	dir := t.TempDir()
	var n atomic.Int64
	spec := func(schema string, e aycoder.Effect) func() aycoder.ToolSpec {
		return func() aycoder.ToolSpec {
			return aycoder.ToolSpec{Name: "probe", Description: "A tool.", Schema: json.RawMessage(schema),
				Effect: e}
		}
	}
	write := func() {
		path := filepath.Join(dir, fmt.Sprint(n.Add(1)))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	result := func(r *aycoder.ToolResult) toolCall {
		return func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) { return r, nil }
	}
	good := []ToolCase{{Name: "good", Args: `{"n":1}`, Want: "ok"}}
	slow := []ToolCase{{Name: "slow", Args: `{"n":1}`, Slow: true}}
	valid := func(s *toolSuite) { s.valid(s.cases[0]) }
	tests := []struct {
		name  string
		tool  aycoder.Tool
		cases []ToolCase
		check func(*toolSuite)
		rule  string
	}{
		{"spec that changes", &brokenTool{spec: func() aycoder.ToolSpec {
			s := spec(probeSchema, 0)()
			s.Description = fmt.Sprint(n.Add(1))
			return s
		}}, good, (*toolSuite).spec, ruleToolSpec},
		{"name with a space", &brokenTool{spec: func() aycoder.ToolSpec {
			s := spec(probeSchema, 0)()
			s.Name = "a tool"
			return s
		}}, good, (*toolSuite).spec, ruleToolSpec},
		{"schema of a string", &brokenTool{spec: spec(`{"type":"string"}`, 0)}, good, (*toolSuite).spec,
			ruleToolSpec},
		{"case that fails", &brokenTool{call: result(aycoder.ErrorResult("ok"))}, good, valid,
			ruleToolValid},
		{"case that does not fail", &brokenTool{},
			[]ToolCase{{Name: "bad", Args: `{"n":1}`, Fails: true}}, valid, ruleToolValid},
		{"another text", &brokenTool{call: result(aycoder.TextResult("?"))}, good, valid,
			ruleToolValid},
		{"neither result nor error", &brokenTool{call: result(nil)}, good, valid, ruleToolValid},
		{"result without bounds", &brokenTool{call: result(aycoder.TextResult("ok" + strings.Repeat("x", 1<<20)))}, good, valid, ruleToolBounds},
		{"many texts without bounds", &brokenTool{call: result(&aycoder.ToolResult{Parts: slices.Repeat(aycoder.TextResult("ok"+strings.Repeat("x", 1<<18)).Parts, 4)})}, good, valid, ruleToolBounds},
		{"error without bounds", &brokenTool{call: func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) {
			return nil, errors.New(strings.Repeat("x", 1<<20+1))
		}}, good, valid, ruleToolBounds},
		{"media without bounds", &brokenTool{call: result(&aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Media{Type: "image/png", Data: make([]byte, 16<<20+1)}}})}, good, valid, ruleToolBounds},
		{"invalid UTF-8", &brokenTool{call: result(aycoder.TextResult("ok\xff"))}, good, valid,
			ruleToolClean},
		{"summary of two lines", &brokenTool{call: result(&aycoder.ToolResult{Parts: aycoder.TextResult("ok").Parts, Summary: "a\nb"})}, good, valid, ruleToolClean},
		{"part that is none of a tool's",
			&brokenTool{call: result(&aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Thinking{}}})},
			good, valid, ruleToolClean},
		{"media without data", &brokenTool{call: result(&aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Media{Type: "image/png"}}})}, good, valid, ruleToolClean},
		{"panics at a missing argument",
			&brokenTool{call: func(_ context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult,
				error) {
				var in struct{ N *int }
				_ = json.Unmarshal(inv.Args, &in)
				return aycoder.TextResult(fmt.Sprint("ok", *in.N)), nil
			}}, good, (*toolSuite).invalid, ruleToolBad},
		{"panics at a negative number",
			&brokenTool{call: func(_ context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult,
				error) {
				if numberOf(inv.Args) < 0 {
					panic("negative")
				}
				return aycoder.TextResult("ok"), nil
			}}, good, (*toolSuite).strange, ruleToolBad},
		{"panics at a long text", &brokenTool{spec: spec(`{"type":"object","properties":{"s":{"type":"string"}}}`, aycoder.EffectReadOnly), call: func(_ context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			if len(inv.Args) > 1000 || strings.Contains(string(inv.Args), `\u0000`) {
				panic("long")
			}
			return aycoder.TextResult("ok"), nil
		}}, []ToolCase{{Name: "s", Args: `{"s":"x"}`}}, (*toolSuite).strange, ruleToolBad},
		{"ignores cancel", &brokenTool{call: func(context.Context,
			*aycoder.Invocation) (*aycoder.ToolResult, error) {
			<-time.After(400 * time.Millisecond)
			return aycoder.TextResult("ok"), nil
		}}, slow, (*toolSuite).cancelledAtWork, ruleToolCancel},
		{"ignores that it was cancelled before",
			&brokenTool{call: func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) {
				<-time.After(200 * time.Millisecond)
				return aycoder.TextResult("ok"), nil
			}}, good, (*toolSuite).cancelledBefore, ruleToolCancel},
		{"says it is done when it was cancelled",
			&brokenTool{call: func(ctx context.Context, _ *aycoder.Invocation) (*aycoder.ToolResult,
				error) {
				<-ctx.Done()
				return aycoder.TextResult("ok"), nil
			}}, slow, (*toolSuite).cancelledAtWork, ruleToolCancel},
		{"is not slow", &brokenTool{}, slow, (*toolSuite).cancelledAtWork, ruleToolCancel},
		{"one call at a time", &brokenTool{call: func() toolCall {
			var once atomic.Bool
			return func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) {
				if once.Swap(true) {
					return nil, errors.New("busy")
				}
				return aycoder.TextResult("ok"), nil
			}
		}()}, good, (*toolSuite).concurrent, ruleToolShared},
		{"one result for all calls", &brokenTool{call: func() toolCall {
			var last atomic.Pointer[aycoder.ToolResult]
			var calls sync.WaitGroup
			calls.Add(8)
			return func(_ context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
				last.Store(aycoder.TextResult(fmt.Sprint(numberOf(inv.Args))))
				calls.Done()
				calls.Wait()
				return last.Load(), nil
			}
		}()}, []ToolCase{{Name: "one", Args: `{"n":1}`, Want: "1"}, {Name: "two", Args: `{"n":2}`, Want: "2"}}, (*toolSuite).concurrent, ruleToolShared},
		{"writes though it only reads",
			&brokenTool{call: func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) {
				write()
				return aycoder.TextResult("ok"), nil
			}}, good, (*toolSuite).changesNothing, ruleToolReads},
		{"writes in its preview", &previewer{brokenTool{spec: spec(probeSchema, aycoder.EffectWrite)},
			func() string { write(); return "" }}, good, (*toolSuite).changesNothing, ruleToolReads},
		{"writes in its plan", &planner{brokenTool{spec: spec(probeSchema, aycoder.EffectWrite)},
			func() (edit.Plan, error) { write(); return edit.Plan{}, nil }}, good, (*toolSuite).changesNothing, ruleToolReads},
		{"another plan each time", &planner{brokenTool{}, func() (edit.Plan, error) {
			return edit.NewPlan(edit.File{Path: "f", Kind: edit.Create, Proposed: fmt.Sprint(n.Add(1))})
		}}, good, (*toolSuite).changesNothing, ruleToolPlan},
		{"no plan of a call that works", &planner{brokenTool{}, func() (edit.Plan, error) {
			return edit.Plan{}, errors.New("no")
		}}, good, (*toolSuite).changesNothing, ruleToolPlan},
		{"error of a plan of invalid UTF-8", &planner{brokenTool{}, func() (edit.Plan, error) {
			return edit.Plan{}, errors.New("\xff")
		}}, []ToolCase{{Name: "good", Args: `{"n":1}`, Fails: true}}, (*toolSuite).changesNothing, ruleToolClean},
		{"preview of invalid UTF-8", &previewer{brokenTool{}, func() string { return "\xff" }}, good,
			(*toolSuite).changesNothing, ruleToolClean},
		{"leaves a goroutine", &brokenTool{call: func(context.Context,
			*aycoder.Invocation) (*aycoder.ToolResult, error) {
			go func() { <-time.After(time.Second) }()
			return aycoder.TextResult("ok"), nil
		}}, good, valid, ruleToolGone},
		{"reports progress late", &brokenTool{call: func(_ context.Context,
			inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			go func() {
				<-time.After(20 * time.Millisecond)
				inv.Progress(aycoder.Progress{Current: 1})
			}()
			return aycoder.TextResult("ok"), nil
		}}, good, valid, ruleToolGone},
	}
	rules := map[string]bool{}
	for _, tt := range tests {
		rules[tt.rule] = true
		t.Run(tt.name, func(t *testing.T) {
			found := &findings{}
			tt.check(&toolSuite{t: t, ToolSetup: ToolSetup{Tool: tt.tool, Dir: dir}, found: found,
				cases: tt.cases, patience: 100 * time.Millisecond})
			if !found.of(tt.rule) {
				t.Errorf("the suite does not find %q; it finds %q", tt.rule, found)
			}
		})
	}
	for _, r := range []string{
		ruleToolSpec, ruleToolValid, ruleToolBad, ruleToolCancel, ruleToolShared, ruleToolClean, ruleToolBounds,
		ruleToolReads, ruleToolPlan, ruleToolGone,
	} {
		if !rules[r] {
			t.Errorf("no tool breaks %q", r)
		}
	}
}

// A failed suite names the line of its caller, not one of this package: the test binary
// runs the failing suites below, and the lines that it prints are compared with where
// they stand in this file.
func TestFailuresNameTheLineOfTheCaller(t *testing.T) {
	src, err := os.ReadFile("broken_tool_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, suite := range []string{"TestTool(", "TestModelClient(", "TestAgent("} {
		before, _, ok := strings.Cut(string(src), "\t\t"+suite)
		if !ok {
			t.Fatalf("no call of %s in this file", suite)
		}
		name := "TestFails/" + strings.TrimSuffix(suite, "(")
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$")
		cmd.Env = append(os.Environ(), failsEnv+"=1")
		out, err := cmd.CombinedOutput()
		want := fmt.Sprintf("broken_tool_test.go:%d: ", 1+strings.Count(before, "\n"))
		named := regexp.MustCompile(`(?m)^ +(\w+\.go:\d+: )`).FindAllStringSubmatch(string(out), -1)
		if err == nil || len(named) == 0 {
			t.Errorf("%s: error %v, no failure named: %s", suite, err, out)
		}
		for _, n := range named {
			if n[1] != want {
				t.Errorf("%s: a failure names %q, want %q", suite, n[1], want)
			}
		}
	}
}

const failsEnv = "AGENTTEST_FAILING"

// TestFails has suites that fail, for the test above.
func TestFails(t *testing.T) {
	if os.Getenv(failsEnv) == "" {
		t.Skip("is for TestFailuresNameTheLineOfTheCaller")
	}
	t.Run("TestTool", func(t *testing.T) {
		broken := func(testing.TB) ToolSetup { return ToolSetup{Tool: &brokenTool{}} }
		TestTool(t, broken, ToolCase{Name: "none", Args: `{"n":1}`, Want: "?"})
	})
	t.Run("TestModelClient", func(t *testing.T) {
		ends := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			return func(func(aycoder.ModelEvent, error) bool) {}
		})
		TestModelClient(t, Clients{Text: func(testing.TB, ...string) Client { return Client{Model: ends} }})
	})
	t.Run("TestAgent", func(t *testing.T) {
		TestAgent(t, func(testing.TB, AgentSetup) aycoder.Agent { return idleAgent{} })
	})
}

// idleAgent does nothing.
type idleAgent struct{}

func (idleAgent) Run(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(func(aycoder.Event, error) bool) {}
}

func TestMisfits(t *testing.T) {
	const schema = `{"type":"object","required":["p"],"additionalProperties":false,
		"properties":{"p":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean"},"x":{"enum":[1]}}}`
	bad, err := misfits(json.RawMessage(schema), `{"p":"a","n":1}`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"no p": `{"n":1}`, "p = [1]": `{"n":1,"p":[1]}`, `n = "x"`: `{"p":"a","n":"x"}`,
		"b = [1]": `{"n":1,"p":"a","b":[1]}`, "an unknown key": `{"n":1,"p":"a","no_such_argument":1}`,
		"half of the JSON text": `{"p":"a`, "an array": `[]`,
	}
	for _, m := range bad {
		if w, ok := want[m.what]; ok && w != m.args {
			t.Errorf("%s: %s, want %s", m.what, m.args, w)
		}
		delete(want, m.what)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	for _, in := range [][2]string{{`{`, `{}`}, {`{}`, `[]`}, {`{}`, `null`}, {`{}`, `{`}} {
		if _, err := misfits(json.RawMessage(in[0]), in[1]); err == nil {
			t.Errorf("misfits(%q, %q): no error", in[0], in[1])
		}
		if _, err := oddities(json.RawMessage(in[0]), in[1]); err == nil {
			t.Errorf("oddities(%q, %q): no error", in[0], in[1])
		}
	}
}
