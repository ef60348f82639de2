//go:build unix

// Package contest has the parts that all contestants share, and the measurements. Each
// contestant is a program that calls [Main] with an adapter for each wire that it speaks.
// The runner starts it once for a measurement and reads one JSON object from it, so
// contestants cannot disturb each other, and the provider's work is not counted as theirs.
package contest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aycoder/aycoder/bench/internal/provider"
)

// The system prompt and the task, the same for each contestant.
const (
	System = "You are a careful coding agent. You read before you write."
	Prompt = "Find out where the names are set."
)

// The one tool that it offers. Its arguments are [Args].
const (
	ToolName        = "lookup"
	ToolDescription = "Looks a name up."
)

// ToolSchema is the JSON Schema of [Args].
const ToolSchema = `{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query","limit"]}`

// Args are the arguments of the tool.
type Args struct {
	Query string `json:"query" jsonschema:"required"`
	Limit int    `json:"limit" jsonschema:"required"`
}

// Setup has the parameters of a contestant.
type Setup struct {
	// Wire is the API it speaks, and URL where the provider is, without "/v1".
	Wire, URL string
	// Lookup is the tool. It may be called from any goroutine.
	Lookup func(Args) string
	// Text is to be called with each piece of text, in order, as soon as it is there.
	Text func(string)
}

// A Conversation sends a prompt, runs the tools that the model calls, and goes on until the
// model has answered. It keeps its history.
type Conversation func(ctx context.Context, prompt string) error

// Open makes what the conversations of a program share, such as a client, and returns a
// function that begins one.
type Open func(Setup) (begin func() (Conversation, error), err error)

// Report is the result of a measurement.
type Report struct {
	// Values are the figures, by the name of the measure.
	Values map[string]float64 `json:"values,omitempty"`
	// Steps is the processor time of each step of a loop, in µs, in groups of [Group].
	Steps []float64 `json:"steps,omitempty"`
	Error string    `json:"error,omitempty"`
}

// Group is the number of steps that one figure of Report.Steps is the mean of.
const Group = 10

// The measurements.
const (
	Decode = "decode"
	Loop   = "loop"
	Idle   = "idle"
)

// Sizes of the measurements.
const (
	Deltas        = 5000 // of an answer
	Answers       = 12
	Turns         = 200 // of a loop
	Calls         = 3   // of a turn
	ResultBytes   = 1000
	Conversations = 300
)

// Main runs the measurement that the command line names, and prints its report. Without
// arguments it prints the wires that there are.
func Main(ctx context.Context, wires map[string]Open) {
	what := flag.String("measure", "", "decode, loop or idle")
	url := flag.String("url", "", "address of the provider")
	wire := flag.String("wire", "", "API to speak")
	flag.Parse()
	if *what == "" {
		for _, w := range []string{provider.Anthropic, provider.OpenAI} {
			if wires[w] != nil {
				fmt.Println(w)
			}
		}
		return
	}
	values, steps, err := measure(ctx, *what, wires[*wire], Setup{Wire: *wire, URL: *url})
	r := Report{Values: values, Steps: steps}
	if err != nil {
		r = Report{Error: err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, what string, open Open, s Setup) (map[string]float64, []float64, error) {
	if open == nil {
		return nil, nil, fmt.Errorf("no adapter for %q", s.Wire)
	}
	switch what {
	case Decode:
		v, err := decode(ctx, open, s)
		return v, nil, err
	case Loop:
		return loop(ctx, open, s)
	case Idle:
		v, err := idle(ctx, open, s)
		return v, nil, err
	}
	return nil, nil, fmt.Errorf("no measurement is called %q", what)
}

// A game is a contestant that plays a script, with the observations about it.
type game struct {
	begin  func() (Conversation, error)
	script provider.Script
	result string
	text   []byte
	onCall func() // with mu held

	mu    sync.Mutex
	calls int
}

func newGame(open Open, s Setup, script provider.Script) (*game, error) {
	g := &game{script: script, result: strings.Repeat("0123456789", ResultBytes/10)}
	s.URL += script.Path()
	s.Text = func(t string) { g.text = append(g.text, t...) }
	s.Lookup = func(a Args) string {
		if a.Limit/max(script.Calls, 1) >= script.Turns || a.Query == "" {
			return "error: arguments that nobody sent"
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.calls++
		if g.onCall != nil {
			g.onCall()
		}
		return strings.Clone(g.result) // a new string each time, like that of a real tool
	}
	var err error
	g.begin, err = open(s)
	return g, err
}

// play plays the script once, and checks that all of it arrived.
func (g *game) play(ctx context.Context) (Conversation, error) {
	g.text, g.calls = g.text[:0], 0
	c, err := g.begin()
	if err != nil {
		return nil, err
	}
	if err := c(ctx, Prompt); err != nil {
		return nil, err
	}
	if want := g.script.Turns * g.script.Calls; g.calls != want {
		return nil, fmt.Errorf("%d tool calls ran, want %d", g.calls, want)
	}
	want := strings.Repeat(strings.Join(provider.Pieces(g.script.Deltas), ""), g.script.Turns) + provider.Last
	if sum(g.text) != sum([]byte(want)) {
		return nil, fmt.Errorf("%d bytes of text arrived, want %d, or they differ", len(g.text), len(want))
	}
	return c, nil
}

func sum(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	return h.Sum64()
}

// decode measures long answers that end with one call.
func decode(ctx context.Context, open Open, s Setup) (map[string]float64, error) {
	g, err := newGame(open, s, provider.Script{Turns: 1, Calls: 1, Deltas: Deltas})
	if err != nil {
		return nil, err
	}
	if _, err := g.play(ctx); err != nil {
		return nil, err
	}
	u, err := used(func() error {
		for range Answers {
			if _, err := g.play(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	n := float64(Answers * Deltas)
	return map[string]float64{
		"decode_cpu_ns": float64(u.cpu) / n, "decode_allocs": float64(u.allocs) / n, "decode_bytes": float64(u.bytes) / n,
	}, err
}

// loop measures a run of many turns: what a step costs, and how that grows.
func loop(ctx context.Context, open Open, s Setup) (map[string]float64, []float64, error) {
	warm, err := newGame(open, s, provider.Script{Turns: 5, Calls: Calls, Deltas: 20})
	if err == nil {
		_, err = warm.play(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	g, err := newGame(open, s, provider.Script{Turns: Turns, Calls: Calls, Deltas: 20})
	if err != nil {
		return nil, nil, err
	}
	var at []time.Duration // when the first call of each turn began
	g.onCall = func() {
		if g.calls%Calls == 1 {
			at = append(at, cpuTime())
		}
	}
	u, err := used(func() error {
		_, err := g.play(ctx)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	var steps []float64
	for i := Group; i < len(at); i += Group {
		steps = append(steps, float64(at[i]-at[i-Group])/Group/1e3)
	}
	if len(steps) < 4 {
		return nil, nil, errors.New("too few steps")
	}
	n := len(steps)
	return map[string]float64{
		"loop_cpu_us": float64(u.cpu) / Turns / 1e3, "loop_allocs": float64(u.allocs) / Turns,
		"loop_bytes":    float64(u.bytes) / Turns,
		"loop_first_us": (steps[0] + steps[1]) / 2, "loop_last_us": (steps[n-1] + steps[n-2]) / 2,
	}, steps, nil
}

// idle measures what a conversation holds after one exchange with one call.
func idle(ctx context.Context, open Open, s Setup) (map[string]float64, error) {
	g, err := newGame(open, s, provider.Script{Turns: 1, Calls: 1, Deltas: 20})
	if err != nil {
		return nil, err
	}
	var kept []Conversation
	hold := func(n int) error {
		for range n {
			c, err := g.play(ctx)
			if err != nil {
				return err
			}
			kept = append(kept, c)
		}
		return nil
	}
	if err := hold(20); err != nil { // caches and pools do not belong to a conversation
		return nil, err
	}
	before, routines := heap(), runtime.NumGoroutine()
	if err := hold(Conversations); err != nil {
		return nil, err
	}
	after := heap()
	v := map[string]float64{
		"idle_heap_bytes": float64(after-before) / Conversations,
		"idle_goroutines": float64(runtime.NumGoroutine()-routines) / Conversations,
	}
	runtime.KeepAlive(kept)
	return v, nil
}

// heap returns the bytes in use after garbage collection.
func heap() int64 {
	for range 3 { // memory held by a finalizer or a pool takes more than one cycle
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

type usage struct {
	cpu           time.Duration
	allocs, bytes uint64
}

func used(f func() error) (usage, error) {
	runtime.GC()
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	cpu := cpuTime()
	err := f()
	u := usage{cpu: cpuTime() - cpu}
	runtime.ReadMemStats(&b)
	u.allocs, u.bytes = b.Mallocs-a.Mallocs, b.TotalAlloc-a.TotalAlloc
	return u, err
}

// cpuTime returns the processor time of the process, user and system, over all threads.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // only a bad argument fails
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
