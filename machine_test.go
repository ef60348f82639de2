package aycoder

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

var machineTools = []*ToolSpec{{Name: "read", Effect: EffectReadOnly}, {Name: "write", Effect: EffectWrite}}

func start(turns int) State {
	s, _ := Start(StartInput{Messages: []*Message{User("go")}, Tools: machineTools, MaxTurns: turns, MaxCalls: 6})
	return s
}

func mustApply(t testing.TB, s State, facts ...Fact) State {
	t.Helper()
	for i, f := range facts {
		next, _, err := s.Apply(f)
		require.NoError(t, err, "fact %d", i)
		s = next
	}
	return s
}

func block(id, tool string) *BlockDone {
	return &BlockDone{&ToolUse{ID: id, Name: tool, Args: json.RawMessage(`{}`)}}
}

func textBlock(s string) *BlockDone { return &BlockDone{&Text{Text: s}} }

func verdict(id string, v Verdict) *Decided {
	return &Decided{Decision: Decision{CallID: id, Verdict: v, By: ByUser}}
}

func output(id string) *ToolDone {
	return &ToolDone{ID: id, Output: &ToolOutput{ID: id, Parts: []Part{&Text{Text: "out " + id}}}}
}

// every state the machine can be in, by the way that leads there.
func machineStates(t *testing.T) map[string]State {
	toolUse := &MessageDone{Stop: StopToolUse}
	asked := mustApply(t, start(3), block("w", "write"), toolUse)
	suspended := mustApply(t, asked, verdict("w", Suspend()))
	reading := mustApply(t, start(3), block("r", "read"), verdict("r", Allow()))
	return map[string]State{
		"zero":               {},
		"asked the model":    start(3),
		"talking":            mustApply(t, start(3), textBlock("a")),
		"call held":          mustApply(t, start(3), block("w", "write")),
		"eager asked":        mustApply(t, start(3), block("r", "read")),
		"eager issued":       reading,
		"eager begun":        mustApply(t, reading, &ToolBegan{"r"}),
		"eager settled":      mustApply(t, reading, &ToolBegan{"r"}, output("r")),
		"tools asked":        asked,
		"tools issued":       mustApply(t, asked, verdict("w", Allow())),
		"tools begun":        mustApply(t, asked, verdict("w", Allow()), &ToolBegan{"w"}),
		"broken, tool begun": mustApply(t, reading, &ToolBegan{"r"}, &ModelFailed{Retry: true}),
		"waiting":            mustApply(t, start(3), &ModelFailed{Retry: true, After: time.Second}),
		"done":               mustApply(t, start(3), textBlock("a"), &MessageDone{Stop: StopEndTurn}),
		"turns":              mustApply(t, start(1), block("w", "write"), toolUse, verdict("w", Deny("no"))),
		"refused":            mustApply(t, start(3), textBlock("a"), &MessageDone{Stop: StopRefusal}),
		"failed":             mustApply(t, start(3), &ModelFailed{}),
		"cancelled":          mustApply(t, start(3), &Cancelled{}),
		"suspended":          suspended,
	}
}

func machineFacts() map[string]Fact {
	return map[string]Fact{
		"text":        textBlock("t"),
		"read call":   block("r2", "read"),
		"write call":  block("w2", "write"),
		"same id":     block("r", "read"),
		"nil part":    &BlockDone{},
		"nil call":    &BlockDone{(*ToolUse)(nil)},
		"output part": &BlockDone{&ToolOutput{ID: "r"}},
		"cut":         &BlockTruncated{&ToolUse{ID: "c", Name: "write", Args: json.RawMessage(`{"a`)}},
		"nil cut":     &BlockTruncated{},
		"end turn":    &MessageDone{Stop: StopEndTurn},
		"refusal":     &MessageDone{Stop: StopRefusal},
		"paused":      &MessageDone{Stop: StopPaused},
		"fail-again":  &ModelFailed{Retry: true},
		"fail-later":  &ModelFailed{Retry: true, After: time.Second},
		"fail-shrink": &ModelFailed{Retry: true, Shrink: true},
		"fail":        &ModelFailed{},
		"waited":      &Waited{},
		"began r":     &ToolBegan{"r"},
		"began w":     &ToolBegan{"w"},
		"began x":     &ToolBegan{"x"},
		"done r":      output("r"),
		"done w":      output("w"),
		"done nil":    &ToolDone{ID: "w"},
		"done none":   &ToolDone{},
		"spent":       &ToolDone{Spent: []Spent{{Agent: "a", Answers: 1, Usage: Usage{Input: 1}}}},
		"done other":  &ToolDone{ID: "w", Output: &ToolOutput{ID: "r"}},
		"allow r":     verdict("r", Allow()),
		"allow w":     verdict("w", Allow()),
		"deny w":      verdict("w", Deny("no")),
		"suspend w":   verdict("w", Suspend()),
		"ask w":       verdict("w", Ask()),
		"allow x":     verdict("x", Allow()),
		"steer":       &Steered{Message: User("hey")},
		"follow up":   &Steered{Message: User("then"), FollowUp: true},
		"steer bad":   &Steered{Message: Assistant("no")},
		"steer nil":   &Steered{},
		"cancel":      &Cancelled{},
		"resume":      &Resumed{},
		"setup":       &SetupChanged{Tools: map[string]Effect{"read": EffectReadOnly}, MaxTurns: 9, MaxCalls: 9},
		"setup bad":   &SetupChanged{MaxTurns: 9},
		"nil":         nil,
	}
}

// accepted lists, for each state, the facts that fit; all others are refused.
var accepted = map[string]string{
	"zero":               "",
	"asked the model":    "setup, text, read call, write call, same id, cut, end turn, refusal, paused, fail-again, fail-later, fail-shrink, fail, steer, follow up, cancel, resume, spent",
	"talking":            "text, read call, write call, same id, cut, end turn, refusal, paused, fail-again, fail-later, fail-shrink, fail, steer, follow up, cancel, resume, spent",
	"call held":          "text, read call, write call, same id, cut, end turn, refusal, paused, fail-again, fail-later, fail-shrink, fail, steer, follow up, cancel, resume, spent",
	"eager asked":        "text, read call, write call, same id, cut, end turn, refusal, paused, fail-again, fail-later, fail-shrink, fail, done r, allow r, steer, follow up, cancel, resume, spent",
	"eager issued":       "text, read call, write call, same id, cut, end turn, refusal, paused, fail-again, fail-later, fail-shrink, fail, began r, done r, steer, follow up, cancel, resume, spent",
	"eager begun":        "text, read call, write call, same id, cut, end turn, refusal, paused, fail-again, fail-later, fail-shrink, fail, done r, steer, follow up, cancel, resume, spent",
	"eager settled":      "text, read call, write call, same id, cut, end turn, refusal, paused, fail-again, fail-later, fail-shrink, fail, steer, follow up, cancel, resume, spent",
	"tools asked":        "done w, allow w, deny w, suspend w, steer, follow up, cancel, resume, spent",
	"tools issued":       "began w, done w, steer, follow up, cancel, resume, spent",
	"tools begun":        "done w, steer, follow up, cancel, resume, spent",
	"broken, tool begun": "done r, steer, follow up, cancel, resume, spent",
	"waiting":            "waited, steer, follow up, cancel, resume, spent",
	"done":               "steer, follow up, spent",
	"turns":              "",
	"refused":            "",
	"failed":             "",
	"cancelled":          "",
	"suspended":          "allow w, deny w, suspend w, cancel, resume",
}

func TestMachineEveryStateEveryFact(t *testing.T) {
	states, facts := machineStates(t), machineFacts()
	require.Len(t, accepted, len(states))
	pairs := 0
	for sname, s := range states {
		fits := ", " + accepted[sname] + ","
		for fname, f := range facts {
			pairs++
			want := strings.Contains(fits, ", "+fname+",")
			next, _, err := s.Apply(f)
			require.Equal(t, want, err == nil, "%s × %s: %v", sname, fname, err)
			require.NoError(t, checkEmpty(next.Messages()), "%s × %s", sname, fname)
			if err != nil {
				_, typed := errors.AsType[*FactError](err)
				require.True(t, typed)
				require.Equal(t, s, next)
			}
		}
	}
	t.Logf("%d states × %d facts = %d pairs", len(states), len(facts), pairs)
}

func checkEmpty(m []*Message) error {
	if len(m) == 0 {
		return nil
	}
	return CheckHistory(m)
}

// A walk is a legal history: its facts, and the state before each.
type walk struct {
	facts  []Fact
	states []State
	end    State
	began  map[string]int
}

// legal picks a fact that fits the state, as a driver could report it.
func legal(rnd *rand.Rand, s State, n int) Fact {
	var can []Fact
	add := func(f Fact, weight int) {
		for range weight {
			can = append(can, f)
		}
	}
	id := fmt.Sprintf("c%d", n)
	switch s.phase {
	case phaseModel:
		add(textBlock("t"), 2)
		add(block(id, "read"), 3)
		add(block(id, "write"), 2)
		add(block("dup", "read"), 1)
		add(&BlockTruncated{&ToolUse{ID: id, Name: "write", Args: json.RawMessage(`{"a`)}}, 1)
		add(&MessageDone{Stop: StopToolUse}, 4)
		add(&ModelFailed{Retry: true, After: time.Duration(rnd.IntN(2))}, 1)
		if rnd.IntN(8) == 0 {
			add(&MessageDone{Stop: StopRefusal}, 2)
			add(&ModelFailed{}, 1)
			add(&ModelFailed{Retry: true, Shrink: true}, 2)
		}
		if len(s.parts.Items) == 0 && rnd.IntN(2) == 0 {
			add(&SetupChanged{Model: []string{"", "p/a", "p/b"}[rnd.IntN(3)], MaxTurns: 1 + rnd.IntN(90), MaxCalls: 1 + rnd.IntN(9),
				Tools: map[string]Effect{"read": Effect(rnd.IntN(3)), "write": Effect(rnd.IntN(3)), id: EffectWrite}}, 4)
		}
	case phaseWait:
		add(&Waited{}, 5)
	}
	for _, c := range s.calls {
		switch c.status {
		case callAsked:
			add(verdict(c.use.ID, Allow()), 5)
			add(verdict(c.use.ID, AllowWith(json.RawMessage(`{"x":1}`))), 1)
			add(verdict(c.use.ID, Deny("no")), 1)
			add(verdict(c.use.ID, Suspend()), 1)
			add(output(c.use.ID), 1)
			outside := verdict(c.use.ID, Allow())
			outside.Outside = true
			add(outside, 4)
		case callIssued:
			if c.outside {
				add(&CallRequested{Request: CallRequest{CallID: c.use.ID, Tool: c.use.Name, Args: c.use.Args}}, 4)
			} else {
				add(&ToolBegan{c.use.ID}, 4)
			}
		case callOutside:
			add(verdict(c.use.ID, Suspend()), 2)
			add(output(c.use.ID), 2)
		case callDeferred:
			add(output(c.use.ID), 3)
		case callBegun:
			add(output(c.use.ID), 4)
		case callSuspended:
			add(verdict(c.use.ID, Allow()), 2)
		}
	}
	if rnd.IntN(6) == 0 {
		add(&ToolDone{Spent: []Spent{{Agent: "beside", Answers: 1, Usage: Usage{Output: 1}}}}, 1)
		add(&Steered{Message: User("s" + id), FollowUp: rnd.IntN(2) == 0}, 2)
		add(&Resumed{}, 1)
	}
	if rnd.IntN(40) == 0 || len(can) == 0 {
		add(&Cancelled{}, 1)
	}
	return can[rnd.IntN(len(can))]
}

// wander makes a legal history, and checks on the way what must always hold.
func wander(t testing.TB, rnd *rand.Rand, steps int) walk {
	w := walk{began: map[string]int{}}
	s := start(4)
	for n := range steps {
		f := legal(rnd, s, n)
		next, actions, err := s.Apply(f)
		if err != nil {
			if s.phase != phaseDone { // a legal fact is refused only once the run is over
				t.Fatalf("%T in %s: %v", f, s.Phase(), err)
			}
			break
		}
		if b, ok := f.(*ToolBegan); ok {
			w.began[b.ID]++
		}
		checkStep(t, next, actions, f)
		w.facts, w.states = append(w.facts, f), append(w.states, s)
		s = next
	}
	w.end = s
	for id, n := range w.began {
		if n != 1 {
			t.Fatalf("%s began %d times", id, n)
		}
	}
	return w
}

func checkStep(t testing.TB, s State, actions []Action, f Fact) {
	if err := CheckHistory(s.Messages()); err != nil {
		t.Fatalf("after %T: %v", f, err)
	}
	working, writing := 0, false
	for i, c := range s.calls {
		if c.outside && (c.status == callIssued || c.status == callOutside || c.status == callDeferred) {
			here := func(o call) bool {
				return !o.outside && o.status != callSettled && (o.effect != EffectReadOnly || c.effect != EffectReadOnly)
			}
			if s.phase == phaseModel || slices.ContainsFunc(s.calls[:i], here) {
				t.Fatalf("after %T: a call goes outside too early", f)
			}
			continue
		}
		if c.status != callIssued && c.status != callBegun {
			continue
		}
		working++
		if c.effect == EffectReadOnly {
			continue
		}
		writing = true
		open := slices.ContainsFunc(s.calls[:i], func(c call) bool { return c.status != callSettled })
		if s.phase == phaseModel || open {
			t.Fatalf("after %T: a write works while the model talks or out of order", f)
		}
	}
	if writing && working > 1 {
		t.Fatalf("after %T: a write is not alone", f)
	}
	stuck := s.phase != phaseDone && len(s.Outstanding()) == 0
	begun := slices.ContainsFunc(s.calls, func(c call) bool { return c.status == callBegun })
	if stuck && !begun {
		t.Fatalf("after %T: nothing is left to do in phase %s", f, s.Phase())
	}
	keys := map[string]bool{}
	for _, a := range s.Outstanding() {
		if keys[a.Key()] {
			t.Fatalf("key %s is not unique", a.Key())
		}
		keys[a.Key()] = true
	}
	for _, a := range actions {
		if !keys[a.Key()] {
			t.Fatalf("after %T: action %s is not outstanding", f, a.Key())
		}
	}
}

func sameTranscript(a, b State) bool {
	return a.phase == b.phase && a.end == b.end && a.usage == b.usage &&
		slices.EqualFunc(a.Messages(), b.Messages(), func(x, y *Message) bool {
			return x.Role == y.Role && slices.EqualFunc(x.Parts, y.Parts, samePart)
		})
}

func samePart(a, b Part) bool {
	switch x := a.(type) {
	case *ToolOutput:
		y, ok := b.(*ToolOutput)
		return ok && x.ID == y.ID && x.IsError == y.IsError && x.Text() == y.Text()
	case *ToolUse: // a copy, if it got another id
		y, ok := b.(*ToolUse)
		return ok && x.ID == y.ID && x.Name == y.Name && string(x.Args) == string(y.Args)
	case *Opaque: // a mark that the machine adds
		y, ok := b.(*Opaque)
		return ok && x.Provider == y.Provider && string(x.Raw) == string(y.Raw)
	}
	return a == b
}

func TestMachineReplaysFromEveryCut(t *testing.T) {
	timed.Long(t, "a replay from every fact of every run")
	runs := 6_000
	if timed.Reduced(t) {
		runs = 1_000 // uses one goroutine
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	cuts := 0
	for range runs {
		w := wander(t, rnd, 25)
		for k := range w.states {
			s := w.states[k]
			for _, f := range w.facts[k:] {
				next, _, err := s.Apply(f)
				if err != nil {
					t.Fatalf("cut %d: %v", k, err)
				}
				s = next
			}
			if !sameTranscript(s, w.end) {
				t.Fatalf("cut %d of %d: another transcript", k, len(w.facts))
			}
			cuts++
		}
	}
	t.Logf("%d histories, %d cuts", runs, cuts)
}

func TestMachineReplaysFromJSON(t *testing.T) {
	timed.Long(t, "a replay from JSON of every run")
	rnd := rand.New(rand.NewPCG(3, 4))
	cuts, runs := 0, 1000
	if timed.Reduced(t) {
		runs = 100
	}
	for range runs {
		w := wander(t, rnd, 25)
		want, err := json.Marshal(w.end)
		require.NoError(t, err)
		for k := range w.states {
			data, err := json.Marshal(w.states[k])
			require.NoError(t, err)
			var s State
			require.NoError(t, json.Unmarshal(data, &s))
			got, err := json.Marshal(mustApply(t, s, w.facts[k:]...))
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(got))
			cuts++
		}
	}
	t.Logf("%d cuts", cuts)
}

func TestMachineForks(t *testing.T) {
	s := mustApply(t, start(3), textBlock("a"), &MessageDone{Stop: StopEndTurn})
	a := mustApply(t, s, &Steered{Message: User("left")})
	b := mustApply(t, s, &Steered{Message: User("right")})
	a = mustApply(t, a, block("x", "write"), &MessageDone{}, verdict("x", Deny("")))
	b = mustApply(t, b, block("x", "write"), &MessageDone{}, verdict("x", Deny("")))
	require.Equal(t, "left", a.Messages()[2].Text())
	require.Equal(t, "right", b.Messages()[2].Text())
	require.Equal(t, "x", b.Messages()[3].Calls()[0].ID, "an id of the other branch is free here")
	require.Len(t, s.Messages(), 2)
}

func TestMachineRules(t *testing.T) {
	allowed := func(id string) Fact { return verdict(id, Allow()) }
	tests := []struct {
		name  string
		facts []Fact
		want  []string // keys of the actions of the last fact
	}{
		{"read starts while the model talks", []Fact{block("r", "read"), allowed("r")}, []string{"t1/tool/r"}},
		{"write is asked about after the message", []Fact{block("w", "write"), &MessageDone{}}, []string{"t1/ask/w"}},
		{"reads start together", []Fact{block("a", "read"), block("b", "read"), allowed("a"), allowed("b")}, []string{"t1/tool/b"}},
		{"write waits for reads", []Fact{block("a", "read"), block("w", "write"), &MessageDone{}, allowed("w")}, nil},
		{"read behind a write waits", []Fact{block("w", "write"), block("a", "read"), &MessageDone{}, allowed("a")}, nil},
		{"read behind a write starts after it", []Fact{block("w", "write"), block("a", "read"), &MessageDone{}, allowed("a"), allowed("w"), output("w")}, []string{"t1/tool/a"}},
		{"writes in order", []Fact{block("v", "write"), block("w", "write"), &MessageDone{}, allowed("w"), allowed("v")}, []string{"t1/tool/v"}},
		{"second write after the first", []Fact{block("v", "write"), block("w", "write"), &MessageDone{}, allowed("w"), allowed("v"), output("v")}, []string{"t1/tool/w"}},
		{"model is asked when all are settled", []Fact{block("v", "write"), &MessageDone{}, allowed("v"), output("v")}, []string{"t2/model"}},
		{"a cut call is never run", []Fact{&BlockTruncated{&ToolUse{ID: "c", Name: "read"}}, &MessageDone{Stop: StopMaxTokens}}, []string{"t2/model"}},
		{"refusal runs nothing", []Fact{block("w", "write"), &MessageDone{Stop: StopRefusal}}, nil},
		{"pause asks again", []Fact{textBlock("a"), &MessageDone{Stop: StopPaused}}, []string{"t2/model"}},
		{"failure waits", []Fact{&ModelFailed{Retry: true, After: 5}}, []string{"t1/wait/1"}},
		{"wait asks again", []Fact{&ModelFailed{Retry: true, After: 5}, &Waited{}}, []string{"t1/model/1"}},
		{"follow-up at the end", []Fact{&Steered{Message: User("f"), FollowUp: true}, textBlock("a"), &MessageDone{}}, []string{"t2/model"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			last := len(tt.facts) - 1
			_, actions, err := mustApply(t, start(5), tt.facts[:last]...).Apply(tt.facts[last])
			require.NoError(t, err)
			var keys []string
			for _, a := range actions {
				keys = append(keys, a.Key())
			}
			require.Equal(t, tt.want, keys)
		})
	}
}

func TestMachineOutputsOfWhatDidNotRun(t *testing.T) {
	tests := []struct {
		name  string
		facts []Fact
		want  []string
	}{
		{"cut off", []Fact{&BlockTruncated{&ToolUse{ID: "c", Name: "read"}}, &MessageDone{Stop: StopMaxTokens}}, []string{outCut}},
		{"refusal", []Fact{block("w", "write"), &MessageDone{Stop: StopRefusal}}, []string{outRefused}},
		{"cancelled", []Fact{block("w", "write"), &MessageDone{}, &Cancelled{}}, []string{outCancelled}},
		{"cancelled at work", []Fact{block("r", "read"), verdict("r", Allow()), &ToolBegan{"r"}, &Cancelled{}}, []string{outStopped}},
		{"broken after a tool began", []Fact{block("r", "read"), block("w", "write"), verdict("r", Allow()), &ToolBegan{"r"}, &ModelFailed{Retry: true}, output("r")}, []string{"out r", outBroken}},
		{"crashed at work", []Fact{block("w", "write"), &MessageDone{}, verdict("w", Allow()), &ToolBegan{"w"}, &Resumed{}}, []string{outLost}},
		{"too many", []Fact{block("1", "x"), block("2", "x"), block("3", "x"), block("4", "x"), block("5", "x"), block("6", "x"), block("7", "x"), &MessageDone{Stop: StopRefusal}},
			[]string{outRefused, outRefused, outRefused, outRefused, outRefused, outRefused, outTooMany}},
	}
	repeated := make([]Fact, 1000, 1001) // as of a model that repeats itself
	for i := range repeated {
		repeated[i] = block(strconv.Itoa(i), "x")
		if i%3 == 0 {
			repeated[i] = &BlockTruncated{&ToolUse{ID: strconv.Itoa(i), Name: "x"}}
		}
	}
	want := slices.Concat([]string{outCut, outRefused, outRefused, outCut, outRefused, outRefused}, slices.Repeat([]string{outTooMany}, 6))
	tests = append(tests, struct {
		name  string
		facts []Fact
		want  []string
	}{"far too many", append(repeated, &MessageDone{Stop: StopRefusal}), want})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustApply(t, start(5), tt.facts...)
			require.NoError(t, CheckHistory(s.Messages()))
			var got []string
			for _, p := range s.Messages()[2].Parts {
				got = append(got, p.(*ToolOutput).Text())
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// The machine is pure: this checks the statements of its files, and of the methods of State and machine that
// are in others.
func TestMachineIsPure(t *testing.T) {
	timed.Serial(t)
	fset := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(fset, name, nil, 0)
			require.NoError(t, err)
			files = append(files, f)
		}
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil), Error: func(error) {}}
	_, _ = conf.Check("aycoder", fset, files, info)
	checked, elsewhere := 0, 0
	for _, f := range files {
		name := fset.File(f.Pos()).Name()
		whole := slices.Contains([]string{"machine.go", "transition.go", "list.go", "snapshot.go", "fit.go"}, name)
		if whole {
			checked++
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); !whole && (!ok || !isStateMethod(fn)) {
				continue
			} else if !whole {
				elsewhere++
			}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
					t.Errorf("%s: %T", fset.Position(n.Pos()), n)
				case *ast.RangeStmt:
					if ty := info.Types[n.X].Type; ty == nil {
						t.Errorf("%s: type of range is unknown", fset.Position(n.Pos()))
					} else if _, ok := ty.Underlying().(*types.Map); ok {
						t.Errorf("%s: ranges over a map", fset.Position(n.Pos()))
					}
				case *ast.SelectorExpr:
					x, ok := n.X.(*ast.Ident)
					if ok && (x.Name == "time" && n.Sel.Name != "Duration" || slices.Contains([]string{"rand", "os", "context"}, x.Name)) {
						t.Errorf("%s: %s.%s", fset.Position(n.Pos()), x.Name, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
	require.NotZero(t, elsewhere, "the transitions for approvals are beside the answers")
	require.Equal(t, 5, checked)
}

func FuzzStateJSON(f *testing.F) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		w := wander(f, rnd, 20)
		for _, s := range w.states {
			data, _ := json.Marshal(s)
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s State
		if json.Unmarshal(data, &s) != nil {
			return
		}
		for _, fact := range machineFacts() {
			next, _, err := s.Apply(fact)
			if err == nil {
				require.NoError(t, checkEmpty(next.Messages()))
			}
		}
	})
}

// BenchmarkMachineStep measures one fact, at the end of histories of different
// lengths: a turn of three calls is 14 facts.
func BenchmarkMachineStep(b *testing.B) {
	for _, turns := range []int{10, 1000} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) {
			s, _ := Start(StartInput{Messages: []*Message{User("go")}, Tools: machineTools, MaxTurns: 1 << 30})
			turn := func(n int) {
				ids := []string{fmt.Sprint("a", n), fmt.Sprint("b", n), fmt.Sprint("c", n)}
				for _, id := range ids {
					s, _, _ = s.Apply(block(id, "read"))
					s, _, _ = s.Apply(verdict(id, Allow()))
				}
				s, _, _ = s.Apply(textBlock("t"))
				s, _, _ = s.Apply(&MessageDone{Stop: StopToolUse})
				for _, id := range ids {
					s, _, _ = s.Apply(&ToolBegan{id})
					s, _, _ = s.Apply(output(id))
				}
			}
			for n := range turns {
				turn(n)
			}
			n := turns
			b.ReportAllocs()
			for b.Loop() {
				turn(n)
				n++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/14, "ns/step")
		})
	}
}

func isStateMethod(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return false
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	name, ok := of.(*ast.Ident)
	return ok && (name.Name == "State" || name.Name == "machine")
}

// A run is allocated in the size class of 2,048 bytes; the next one has 2,304.
func TestSizeOfRun(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, reflect.TypeFor[run]().Size(), uintptr(2048))
}
