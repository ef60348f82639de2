package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/dialect"
	"github.com/aycoder/aycoder/internal/untag"
	"github.com/aycoder/aycoder/tools"
)

// Config configures a [Runner]. Exec and Root are required.
type Config struct {
	// Hooks are the hooks that may run, in their order.
	Hooks []Hook
	// Exec runs them where the workspace is. Root is its directory, as an absolute path.
	Exec tools.Exec
	Root string
	// Env is the environment of the hooks, as "NAME=value". CLAUDE_PROJECT_DIR is added, which is Root.
	Env []string
	// Session and Transcript are session_id and transcript_path. Default: the id of the run, if there is
	// one at the event, and none.
	Session, Transcript string
	// Dir returns the directory that hooks are told as cwd, absolute or below Root, such as the method DirOf of [tools.Shell].
	// Default: Root.
	Dir func(context.Context) string
	// Mode returns permission_mode, such as "plan". Default: "default".
	Mode func() string
	// Subagents are the names of the tools that start agents. Default: "subagent".
	Subagents []string
	// Mask hides the secrets in what hooks tell the model and the user, such as the method Mask of [tools.Masker].
	// Default: nothing is hidden.
	Mask func(string) string
	// Report is told what hooks tell the user, and which hooks did not work. It must be safe for concurrent
	// use and must not wait. Default: nobody is told.
	Report func(Report)
}

// Report is a message of a hook for the user.
type Report struct {
	Event Event
	Hook  Hook
	// Agent is the name of the agent in whose run the hook ran.
	Agent string
	// Text is the message of the hook. Err is set instead if it did not work, and is an [*Error].
	Text string
	Err  error
}

// Runner runs hooks. It is safe for concurrent use, and has no goroutine between hooks.
type Runner struct {
	conf  Config
	hooks atomic.Pointer[[]*hook]
	said  atomic.Pointer[notes] // by those of SessionStart after the last compaction

	mu    sync.Mutex // guards the calls that were judged, the oldest first
	known map[string]*judgment
	order []string
}

// A note is what the hook with a command has told the model.
type note struct{ command, text string }

type notes []note

func (list notes) texts() (texts []string) {
	for _, n := range list {
		texts = append(texts, n.text)
	}
	return texts
}

type hook struct {
	Hook
	matcher *regexp.Regexp // nil for all
}

// New returns a runner. The error joins an [*aycoder.ConfigError] for each hook that is not valid.
func New(c Config) (*Runner, error) {
	var errs []error
	if c.Exec == nil || c.Root == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "Exec and Root", Err: errors.New("are required")})
	}
	c.Env = append(slices.Clone(c.Env), "CLAUDE_PROJECT_DIR="+c.Root)
	if c.Subagents = slices.Clone(c.Subagents); len(c.Subagents) == 0 {
		c.Subagents = []string{"subagent"}
	}
	if c.Report == nil {
		c.Report = func(Report) {}
	}
	if c.Mask == nil {
		c.Mask = func(s string) string { return s }
	}
	if c.Dir == nil {
		c.Dir = func(context.Context) string { return c.Root }
	}
	if c.Mode == nil {
		c.Mode = func() string { return "default" }
	}
	r := &Runner{conf: c, known: map[string]*judgment{}}
	errs = append(errs, r.Replace(c.Hooks))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new hooks: %w", err)
	}
	return r, nil
}

// Replace replaces the hooks, all at once: those that run go on. If one is not valid, it changes nothing, and the
// error is as that of [New].
func (r *Runner) Replace(list []Hook) error {
	checked, err := compile(list)
	if err == nil {
		r.hooks.Store(&checked)
	}
	return err
}

// Check returns the error that [Runner.Replace] would return.
func Check(list []Hook) error {
	_, err := compile(list)
	return err
}

func compile(list []Hook) ([]*hook, error) {
	var out []*hook
	var errs []error
	for _, h := range list {
		matcher, err := h.compiled()
		if err != nil {
			errs = append(errs, &aycoder.ConfigError{Option: cmp.Or(h.Source, "hook"), Err: err})
			continue
		}
		h.Timeout = min(cmp.Or(h.Timeout, defaultTimeout), longestTimeout)
		out = append(out, &hook{h, matcher})
	}
	return out, errors.Join(errs...)
}

// Hooks returns the hooks that are in force.
func (r *Runner) Hooks() []Hook {
	var out []Hook
	for _, h := range *r.hooks.Load() {
		out = append(out, h.Hook)
	}
	return out
}

// A StoppedError reports that a hook ended the run, or refused the prompt of the user or a compaction.
type StoppedError struct {
	Hook   Hook
	Reason string
}

// Error implements the error interface.
func (e *StoppedError) Error() string {
	return fmt.Sprintf("stopped by the %s hook %s: %s", e.Hook.Event, e.Hook.title(), cmp.Or(e.Reason, "no reason given"))
}

// stoppedKey is the key, in the context of a run of [Runner.Agent] and of the runs inside of it, of why the run is to stop.
type stoppedKey struct{ *Runner }

// stopped returns why the run of ctx is to stop, or nil.
func (r *Runner) stopped(ctx context.Context) *StoppedError {
	if p, ok := ctx.Value(stoppedKey{r}).(*atomic.Pointer[StoppedError]); ok {
		return p.Load()
	}
	return nil
}

// stop has the run of ctx stop. The first reason counts.
func (r *Runner) stop(ctx context.Context, by *StoppedError) {
	if p, ok := ctx.Value(stoppedKey{r}).(*atomic.Pointer[StoppedError]); ok {
		p.CompareAndSwap(nil, by)
	}
}

// input returns what every hook reads.
func (r *Runner) input(ctx context.Context, e Event, at aycoder.Place) map[string]any {
	in := map[string]any{"session_id": cmp.Or(r.conf.Session, at.Run), "transcript_path": r.conf.Transcript,
		"cwd": dialect.Absolute(r.conf.Root, cmp.Or(r.conf.Dir(ctx), ".")), "permission_mode": r.conf.Mode(), "hook_event_name": string(e)}
	if len(at.Calls) > 0 { // as in SubagentStart
		in["agent_id"], in["agent_type"] = at.Calls[len(at.Calls)-1], at.Agent
	}
	return in
}

// of returns the hooks of an event that match one of the names.
func (r *Runner) of(e Event, names ...string) []*hook {
	var found []*hook
	for _, h := range *r.hooks.Load() {
		if h.Event == e && h.matches(names...) {
			found = append(found, h)
		}
	}
	return found
}

// ask runs a hook and reads its answer. The error is an [*Error], or that of ctx.
func (r *Runner) ask(ctx context.Context, h *hook, in map[string]any, agent string) (opinion, error) {
	res, err := r.run(ctx, h, in)
	if err != nil {
		r.fail(h, agent, err)
		return opinion{}, err
	}
	o, err := res.opinion(h.Event)
	if err != nil {
		err = &Error{Hook: h.Hook, Err: err, Stderr: res.Stderr}
		r.fail(h, agent, err)
		return opinion{}, err
	}
	o.reason, o.context, o.message = r.inert(o.reason), r.inert(o.context), r.inert(o.message)
	if o.message != "" {
		r.conf.Report(Report{Event: h.Event, Hook: h.Hook, Agent: agent, Text: o.message})
	}
	if o.stop {
		r.stop(ctx, &StoppedError{h.Hook, o.reason})
	}
	return o, nil
}

// inert returns a text that a hook has printed, perhaps from a file, in a form that is only text.
func (r *Runner) inert(s string) string { return untag.Text(tools.EscapeInvisible(r.conf.Mask(s))) }

func (r *Runner) fail(h *hook, agent string, err error) {
	if _, ok := err.(*Error); ok {
		r.conf.Report(Report{Event: h.Event, Hook: h.Hook, Agent: agent, Err: err})
	}
}

// tell runs the hooks of an event that cannot prevent anything but by refusing. It returns what they want
// the model to know, and the first refusal. Hooks that do not work are only reported.
func (r *Runner) tell(
	ctx context.Context, e Event, at aycoder.Place, add map[string]any, names ...string,
) (said notes, refused *StoppedError) {
	for _, h := range r.of(e, names...) {
		in := r.input(ctx, e, at)
		maps.Copy(in, add)
		o, err := r.ask(ctx, h, in, at.Agent)
		if ctx.Err() != nil {
			return said, refused
		}
		if err == nil && o.context != "" {
			said = append(said, note{h.Command, o.context})
		}
		if err == nil && o.refuse && refused == nil {
			refused = &StoppedError{h.Hook, o.reason}
		}
	}
	return said, refused
}

// SessionStart runs the hooks of this event, and returns what they tell the model. source is "startup", "resume", "clear" or
// "compact". The last is for a compaction between two runs: those of [Runner.Agent] run it after theirs. The texts of hooks
// after a compaction are in the tail of their requests until SessionStart is called again, or [Runner.Replace] removes the hook.
func (r *Runner) SessionStart(ctx context.Context, source string) (context string) {
	said, _ := r.tell(ctx, SessionStart, aycoder.Place{}, map[string]any{"source": source}, source)
	if r.said.Store(nil); source == "compact" {
		r.said.Store(&said)
	}
	return strings.Join(said.texts(), "\n")
}

// remembered returns what hooks that are still in force have said after the last compaction.
func (r *Runner) remembered() string {
	said := r.said.Load()
	if said == nil {
		return ""
	}
	now := r.of(SessionStart, "compact")
	still := slices.DeleteFunc(slices.Clone(*said), func(n note) bool {
		return !slices.ContainsFunc(now, func(h *hook) bool { return h.Command == n.command })
	})
	return strings.Join(still.texts(), "\n")
}

// SessionEnd runs the hooks of this event. reason is "clear", "logout", "prompt_input_exit" or "other".
func (r *Runner) SessionEnd(ctx context.Context, reason string) {
	r.tell(ctx, SessionEnd, aycoder.Place{}, map[string]any{"reason": reason}, reason)
}

// Notify runs the hooks of Notification. kind is "permission_prompt", "idle_prompt" or another word.
func (r *Runner) Notify(ctx context.Context, kind, message string) {
	at, _ := aycoder.PlaceFromContext(ctx)
	r.tell(ctx, Notification, at, map[string]any{"notification_type": kind, "message": message}, kind)
}
