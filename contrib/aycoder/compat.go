package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli"
)

// compatVariable makes the program speak a protocol where a host cannot choose its arguments.
const compatVariable = "AYCODER_COMPAT"

// compatExtension speaks the protocols by which the SDKs of other agents lead their programs, so that a host tries this one
// by naming another path.
func compatExtension() cli.Extension {
	return cli.Extension{Subcommands: []cli.Subcommand{{
		Name: "compat", Help: "speaks the protocol by which another agent's SDK leads its program: claude or codex, with the flags of that SDK; also -compat, and " + compatVariable,
		Run: func(ctx context.Context, p cli.Program, args []string) error {
			faces := map[string]func(context.Context, cli.Program, []string) error{"claude": serveClaude, "codex": serveCodex}
			if len(args) == 0 || faces[args[0]] == nil {
				return fmt.Errorf("%w: aycoder -compat claude or codex", cli.ErrUsage)
			}
			os.Stdout = os.Stderr // so that only the protocol is on the standard output
			return faces[args[0]](ctx, p, args[1:])
		},
	}}}
}

// compatArgs returns the arguments with the subcommand in place of the flag, or of the variable.
func compatArgs(args []string, variable string) []string {
	if len(args) > 0 {
		name, face, joined := strings.Cut(args[0], "=")
		switch {
		case name != "-compat" && name != "--compat":
		case joined:
			return append([]string{"compat", face}, args[1:]...)
		default:
			return append([]string{"compat"}, args[1:]...)
		}
	}
	if variable != "" {
		return append([]string{"compat", variable}, args...)
	}
	return args
}

// An unsupportedError reports what a host wants and this program does not have.
type unsupportedError struct{ what string }

// Error implements the error interface.
func (e *unsupportedError) Error() string { return "not supported: " + e.what }

// Is reports that the host has started the program in a wrong way.
func (e *unsupportedError) Is(target error) bool { return target == cli.ErrUsage }

func unsupported(format string, args ...any) error {
	return &unsupportedError{fmt.Sprintf(format, args...)}
}

// wrongFlag returns an error of package flag as one of this program.
func wrongFlag(err error) error {
	if name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
		return unsupported("the flag --%s", name)
	}
	return fmt.Errorf("%w: %w", cli.ErrUsage, err)
}

var errHostGone = errors.New("the host has gone")

// writeFor is how long the host may leave the last lines unread when the program is to end.
const writeFor = 2 * time.Second

// A wire writes lines to the host. One goroutine writes, so that a host which reads nothing does not keep the program from
// ending.
type wire struct {
	lines chan []byte
	beats chan string   // what is sent from then on each second
	end   chan struct{} // closed when there are no more lines
	done  chan struct{} // closed when the goroutine has ended
	late  <-chan struct{}
}

// newWire begins to write. gone is called when the host does not read any more.
func newWire(ctx context.Context, to io.Writer, gone func()) *wire {
	late, giveUp := context.WithCancel(context.Background())
	w := &wire{lines: make(chan []byte), beats: make(chan string, 1), end: make(chan struct{}), done: make(chan struct{}), late: late.Done()}
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(writeFor, giveUp) })
	go func() {
		defer close(w.done)
		defer stop()
		var line, beat []byte
		var ticks <-chan time.Time
		for {
			select {
			case line = <-w.lines:
			case <-ticks:
				line = beat
			case text := <-w.beats:
				beat, ticks = []byte(text), time.Tick(time.Second)
				continue
			case <-w.end:
				return
			}
			if _, err := to.Write(line); err != nil {
				gone()
				return
			}
		}
	}()
	return w
}

// send writes a value as a line, unless the host cannot get it any more.
func (w *wire) send(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // all values are of this program, or were decoded from JSON
	}
	select {
	case w.lines <- b.Bytes():
	case <-w.done:
	case <-w.late:
	}
}

// finish ends the writing. Nobody sends any more.
func (w *wire) finish() {
	close(w.end)
	select {
	case <-w.done:
	case <-w.late:
	}
}

// beat sends something that means nothing to the host, again and again, so that it is noticed when the host is gone: the
// end of its input says only that the host has no more to say. It is called once.
func (w *wire) beat(line string) { w.beats <- line }

// expanding is an agent whose prompts may call a command or a skill.
type expanding struct{ rt *harness.Runtime }

// Run implements [aycoder.Agent].
func (e expanding) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	if in.Prompt == "" {
		return e.rt.Run(ctx, in, opts...)
	}
	return func(yield func(aycoder.Event, error) bool) {
		var typed harness.Typed
		for ev, err := range e.rt.Expand(ctx, in.Prompt, &typed) {
			if !yield(ev, err) || err != nil {
				return
			}
		}
		typed.Input.Parts = append(typed.Input.Parts, in.Parts...)
		typed.Run(ctx, opts...)(yield)
	}
}

// answer lets the agent answer, and tells what happens meanwhile. If there is a schema, the answer is a document. The error of
// a run that was cancelled is the cause of that.
func answer(ctx context.Context, rt *harness.Runtime, in aycoder.Input, schema json.RawMessage, tell func(aycoder.Event)) (res aycoder.Result, document json.RawMessage, failed error) {
	run := expanding{rt}.Run(ctx, in, aycoder.Into(&res))
	if schema != nil {
		run = generate.RunAs(ctx, expanding{rt}, in, &document, generate.WithSchema(schema), generate.WithRun(aycoder.Into(&res)))
	}
	for ev, err := range run {
		if err != nil {
			failed = cmp.Or(context.Cause(ctx), err)
			break
		}
		tell(ev)
	}
	if failed == nil && res.End == aycoder.EndSuspended {
		failed = errors.New("the run waits for an approval or a result that nobody here can give")
	}
	return res, document, failed
}

// asking asks the host as long as it can answer. Otherwise a question is a denial.
type asking struct {
	aycoder.Approver
	denying aycoder.Approver
	can     func(tool string) bool
}

// Decide implements [aycoder.Approver].
func (a *asking) Decide(ctx context.Context, call *aycoder.ToolUse, spec *aycoder.ToolSpec) aycoder.Verdict {
	if !a.can(call.Name) {
		return a.denying.Decide(ctx, call, spec)
	}
	return a.Approver.Decide(ctx, call, spec)
}

// Unwrap returns the approver that decides.
func (a *asking) Unwrap() aycoder.Approver { return a.Approver }

func withAsking(can func(tool string) bool) harness.Option {
	return harness.WithQuestions(func(next aycoder.Approver) aycoder.Approver { return &asking{next, aycoder.DenyAsks(next), can} })
}

// modelName returns the name of a model here. A host names that of its provider, or "provider/model".
func modelName(provider, name string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return provider + "/" + name
}

// modelOf returns the name of the model that a runtime asks.
func modelOf(rt *harness.Runtime) (provider, model string) {
	if namer, ok := aycoder.As[aycoder.ModelNamer](rt.Client); ok {
		return namer.ModelName()
	}
	return "", ""
}

// newUUID returns a random id.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // which never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
