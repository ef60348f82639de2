// Package eval measures agents: it gives them tasks in throw-away directories, checks what they did, and makes a table.
//
//	table, err := eval.Run(ctx, []eval.Case{{
//		Name:    "adds a test",
//		Files:   map[string]string{"sum.go": source},
//		Prompts: []string{"Write a test for Sum."},
//		Checks:  []eval.Check{eval.Command("go", "test", "./..."), eval.Unchanged("sum.go"), eval.CostAtMost(0.05)},
//	}}, build, eval.Options{Tries: 4, Parallel: 2, Budget: 5})
//	err = table.WriteText(os.Stdout)
//
// A model answers differently each time, so a case is tried several times. The table tells how many tries
// passed, and pass^k: the probability that k tries in a row pass, estimated as in "τ-bench" (Yao et al. 2024,
// arXiv:2406.12045). With a scripted model, the same table comes out each time.
//
// [FromSession] makes a case of a conversation that was recorded.
package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
)

// Case is a task for an agent.
type Case struct {
	// Name identifies the case in the table. No two cases have the same.
	Name string
	// Files are in the directory at the beginning, by their slash-separated paths. Executable says which of them
	// can be run.
	Files      map[string]string
	Executable []string
	// Prompts are what the user says, one after the other.
	Prompts []string
	// Checks are carried out in their order after the last prompt. A try passes if its runs ended well (see
	// [MayFail]) and all checks pass.
	Checks []Check
	// Tries is how often the case is tried. Default: that of the Options.
	Tries int
	// MayFail lets a try pass although its last run failed, for cases about limits and refusals.
	MayFail bool
}

// Subject is an agent for one try.
type Subject struct {
	// Agent gets the prompts.
	Agent aycoder.Agent
	// Keeps says that the agent keeps the conversation, as a session does. Otherwise each run gets the messages of
	// the one before.
	Keeps bool
	// Close ends the agent. It may be nil.
	Close func() error
}

// Build makes the agent for a try, which works in its own directory. It is called by several goroutines.
type Build func(ctx context.Context, dir string, c *Case) (*Subject, error)

// Options configure [Run]. The zero Options are valid.
type Options struct {
	// Tries is how often each case is tried, and Parallel how many tries run at the same time. Default: 1.
	Tries, Parallel int
	// Budget is what all tries together may cost in US dollars. When it is used up, no further try begins, so each of
	// the Parallel ones may go beyond it. An answer without a price counts as free. Default: no limit.
	Budget float64
	// Timeout limits a try. Default: 10 minutes.
	Timeout time.Duration
	// Approve answers questions, as the reader of the events. Default: they are denied.
	Approve func(*aycoder.ApprovalRequested)
	// Progress, if it is set, is called after each try, by one goroutine at a time.
	Progress func(*Try)
}

// Try is one attempt at a case.
type Try struct {
	Case   string `json:"case"`
	Number int    `json:"number"` // from 1
	// Failures say what went wrong. There is none if the try passed. NotRun says why it did not begin, or is "".
	Failures []string `json:"failures,omitempty"`
	NotRun   string   `json:"not_run,omitempty"`
	Outcome  `json:"outcome"`
}

// Passed reports whether the try ran and nothing went wrong.
func (t *Try) Passed() bool { return t.NotRun == "" && len(t.Failures) == 0 }

// Outcome is what an agent did in a try.
type Outcome struct {
	// Dir is the directory, which is removed after the checks. Before has the files from which it began.
	Dir    string            `json:"-"`
	Before map[string]string `json:"-"`
	// Calls are the calls of tools that came to an end, of agents inside as well, in their order.
	Calls []Call `json:"calls,omitempty"`
	// Answer is the text of the last message of the model.
	Answer string `json:"answer,omitempty"`
	// Turns is the number of answers of models. Usage, Cost and Unpriced are what they have used: see [aycoder.Spent].
	Turns    int           `json:"turns"`
	Usage    aycoder.Usage `json:"usage"`
	Cost     float64       `json:"cost"`
	Unpriced int           `json:"unpriced,omitempty"`
	// Time is how long the runs took. In JSON, it is in nanoseconds.
	Time time.Duration `json:"time"`
	// Err is the error that ended the last run, or nil.
	Err error `json:"-"`
}

// Call is a call of a tool.
type Call struct {
	Name    string `json:"name"`
	Args    string `json:"args,omitempty"`
	Subject string `json:"subject,omitempty"`
	Failed  bool   `json:"failed,omitempty"`
}

const defaultTimeout = 10 * time.Minute

// Run tries the cases and returns the table. Tries that fail are in the table; the error is about the cases, the
// directories, or the end of ctx, with a table of what was done before.
func Run(ctx context.Context, cases []Case, build Build, o Options) (table *Table, err error) {
	if err := check(cases, build, &o); err != nil {
		return nil, err
	}
	base, err := os.MkdirTemp("", "eval-")
	if err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	e := &evaluation{build: build, options: o, base: base}
	for i := range cases {
		for n := range cmp.Or(cases[i].Tries, o.Tries) {
			e.tries = append(e.tries, &Try{Case: cases[i].Name, Number: n + 1, NotRun: "it was not begun"})
			e.cases = append(e.cases, &cases[i])
		}
	}
	var work sync.WaitGroup
	for range o.Parallel {
		work.Go(func() { e.work(ctx) })
	}
	work.Wait()
	table = newTable(e.tries)
	if err := ctx.Err(); err != nil {
		return table, fmt.Errorf("evaluate: %w", context.Cause(ctx))
	}
	return table, nil
}

func check(cases []Case, build Build, o *Options) error {
	wrong := func(option, format string, args ...any) error {
		return &aycoder.ConfigError{Option: option, Err: fmt.Errorf(format, args...)}
	}
	if build == nil {
		return wrong("build", "is nil")
	}
	if o.Tries < 0 || o.Parallel < 0 || o.Timeout < 0 || !(o.Budget >= 0) {
		return wrong("eval.Options", "a number is negative")
	}
	o.Tries, o.Parallel, o.Timeout = cmp.Or(o.Tries, 1), cmp.Or(o.Parallel, 1), cmp.Or(o.Timeout, defaultTimeout)
	names := map[string]bool{}
	for i := range cases {
		c := &cases[i]
		switch {
		case c.Name == "" || names[c.Name]:
			return wrong("Case.Name", "%q is empty, or the name of another case", c.Name)
		case len(c.Prompts) == 0:
			return wrong("Case.Prompts", "%s has none", c.Name)
		case c.Tries < 0:
			return wrong("Case.Tries", "%s has a negative number", c.Name)
		case slices.ContainsFunc(c.Checks, func(c Check) bool { return c == nil }):
			return wrong("Case.Checks", "%s has one that is nil", c.Name)
		}
		names[c.Name] = true
		for name := range c.Files {
			if !filepath.IsLocal(filepath.FromSlash(name)) {
				return wrong("Case.Files", "%s: %q leads out of the directory", c.Name, name)
			}
		}
		for _, name := range c.Executable {
			if _, ok := c.Files[name]; !ok {
				return wrong("Case.Executable", "%s has no file %q", c.Name, name)
			}
		}
	}
	return nil
}

// evaluation is a run of all tries.
type evaluation struct {
	build   Build
	options Options
	base    string
	tries   []*Try
	cases   []*Case // of the tries

	mu    sync.Mutex
	next  int
	spent float64
}

// work does one try after the other.
func (e *evaluation) work(ctx context.Context) {
	for {
		e.mu.Lock()
		i := e.next
		over := e.options.Budget > 0 && e.spent >= e.options.Budget
		if i == len(e.tries) || ctx.Err() != nil {
			e.mu.Unlock()
			return
		}
		e.next++
		e.mu.Unlock()
		if t := e.tries[i]; over {
			t.NotRun = "the budget was used up"
		} else {
			t.NotRun, t.Failures = "", []string{"the try did not end: it ended its goroutine"} // as FailNow of package testing does
			t.Failures = e.try(ctx, filepath.Join(e.base, fmt.Sprint(i)), e.cases[i], t)
			t.Dir, t.Before = "", nil
		}
		e.mu.Lock()
		e.spent += e.tries[i].Cost
		if e.options.Progress != nil {
			e.options.Progress(e.tries[i])
		}
		e.mu.Unlock()
	}
}

// try does a try and returns what went wrong.
func (e *evaluation) try(ctx context.Context, dir string, c *Case, t *Try) (failures []string) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.options.Timeout, fmt.Errorf("the try took more than %s", e.options.Timeout))
	defer cancel()
	t.Dir, t.Before = dir, c.Files
	defer os.RemoveAll(dir)
	fail := func(err error) { failures = append(failures, err.Error()) }
	defer func() {
		if p := recover(); p != nil { // of the host's functions
			fail(fmt.Errorf("panic: %v", p))
		}
	}()
	if err := c.lay(dir); err != nil {
		return []string{err.Error()}
	}
	s, err := e.build(ctx, dir, c)
	if err == nil && (s == nil || s.Agent == nil) {
		err = errors.New("it returned no agent")
	}
	if err != nil {
		return []string{fmt.Sprintf("build: %v", err)}
	}
	err = func() (err error) {
		if s.Close != nil {
			defer func() { err = errors.Join(err, s.Close()) }() // also if there is a panic
		}
		return e.talk(ctx, s, c, t)
	}()
	if t.Err = err; err != nil && !c.MayFail {
		fail(err)
	}
	for _, check := range c.Checks {
		if err := check(ctx, &t.Outcome); err != nil {
			fail(err)
		}
	}
	return failures
}

// lay writes the files of a case.
func (c *Case) lay(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("lay out the files: %w", err)
	}
	for name, text := range c.Files {
		mode := os.FileMode(0o644)
		if slices.Contains(c.Executable, name) {
			mode = 0o755
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte(text), mode)
		}
		if err != nil {
			return fmt.Errorf("lay out the files: %w", err)
		}
	}
	return nil
}

// talk says the prompts and notes what happens.
func (e *evaluation) talk(ctx context.Context, s *Subject, c *Case, t *Try) error {
	start := time.Now()
	defer func() { t.Time = time.Since(start) }()
	var messages []*aycoder.Message
	for _, prompt := range c.Prompts {
		in := aycoder.Input{Prompt: prompt}
		if !s.Keeps {
			in.Messages = messages
		}
		var res aycoder.Result
		var failed error
		for ev, err := range s.Agent.Run(ctx, in, aycoder.Into(&res)) {
			if err != nil {
				failed = err
				break
			}
			e.note(t, ev)
		}
		messages, t.Answer = res.Messages, res.Text()
		for _, x := range res.Spent {
			t.Turns, t.Usage, t.Cost, t.Unpriced = t.Turns+x.Answers, t.Usage.Add(x.Usage), t.Cost+x.Cost, t.Unpriced+x.Unpriced
		}
		if failed == nil && res.End != aycoder.EndDone {
			failed = fmt.Errorf("the run ended with %q", res.End)
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// note takes an event of a run, or of one inside.
func (e *evaluation) note(t *Try, ev aycoder.Event) {
	switch ev := ev.(type) {
	case *aycoder.ToolFinished:
		t.Calls = append(t.Calls, Call{ev.Call.Name, string(ev.Call.Args), ev.Subject, ev.Output.IsError})
	case *aycoder.ApprovalRequested:
		if e.options.Approve != nil {
			e.options.Approve(ev)
		} else {
			ev.Deny("nobody is there to be asked")
		}
	case *aycoder.ChildEvent:
		e.note(t, ev.Event)
	}
}
