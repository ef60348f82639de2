package aycoder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/aycoder/aycoder/internal/schema"
)

// A Setup is what may change between the turns of a run: see [WithSetup].
type Setup struct {
	// Client is the model client, without the middleware of [WithModelMiddleware].
	Client ModelClient
	// Model is the name of the model to ask (see [Request.Model]), or "" for the client's default.
	Model string
	// Tools are the tools that the model may call, without the middleware of [WithToolMiddleware].
	Tools []Tool
	// Limits are the limits of the run. A field that is 0 has its value of [New]. If the model has sent
	// as many messages as Turns allows, or more, the run ends before the next one. Grace applies at
	// once, and the other limits to the answers, calls and questions that come.
	Limits Limits
}

// WithSetup sets a function that is asked before each turn what the model may call, which model that is,
// and what the limits are. now is the setup of the turn before, and at first that of [New]. The function
// returns it unchanged, which costs nothing, or with other fields; it may change the list in now.Tools. The
// setup is that of one run: a run inside a call (see [WithParent]) begins with the options of its loop.
//
//	aycoder.WithSetup(func(ctx context.Context, now aycoder.Setup) (aycoder.Setup, error) {
//		now.Tools = registry.Tools()
//		return now, nil
//	})
//
// The turn before is over then: its calls have their outputs, so that each call runs with the tool that
// the model was offered. A retry of a turn keeps its setup. When a run is resumed, the function is asked
// at once, too, and the open calls run with the tools of the same names.
//
// The host gets a [SetupChanged] about a change. The middleware of New wraps new tools and new clients;
// those that cannot be compared, such as a [ModelFunc], may be checked and wrapped again. Parts of the
// history that only the old provider understands are not sent to a new one.
//
// If the function returns an error or panics, or if the setup is invalid, the run ends with a
// [*ContextError]. ctx is that of the run, and [PlaceFromContext] tells the run. Runs may call the
// function at the same time. Default: the setup of New.
func WithSetup(next func(ctx context.Context, now Setup) (Setup, error)) Option {
	return option("WithSetup", next != nil, "is nil", func(c *config) {
		c.setups = &setups{next: next, ask: (*run).askSetup, askNow: (*run).askSetupNow, fail: (*run).endBefore}
	})
}

// setups are linked only into programs with [WithSetup].
type setups struct {
	next        func(context.Context, Setup) (Setup, error)
	ask, askNow func(*run, context.Context) (*setup, error)
	fail        func(*run, context.Context, error)
	last        atomic.Pointer[setup] // that next gave
}

// A setup is a Setup that was checked, with the middleware of New around its client and tools.
type setup struct {
	Client ModelClient // as given, and Model
	Model  string
	Limits Limits // complete
	client ModelClient
	tools  []*tool
	specs  []*ToolSpec // of tools
	given  int         // how many of tools are not those of a run
}

// givenTools returns a new list of the tools that s was made from.
func (s *setup) givenTools() []Tool {
	given := make([]Tool, s.given)
	for i := range given {
		given[i] = s.tools[i].impl
	}
	return given
}

// A tool is a Tool that was checked, with its middleware around it.
type tool struct {
	spec   ToolSpec
	schema *schema.Schema
	impl   Tool
	call   ToolFunc
}

// A comparableClient stands for a client that cannot be compared, such as a function.
type comparableClient struct{ ModelClient }

func (c *comparableClient) Unwrap() ModelClient { return c.ModelClient }

// identical reports whether a and b are one value, and not only alike.
func identical(a, b any) bool {
	t := reflect.TypeOf(a)
	if t == nil || t != reflect.TypeOf(b) {
		return false
	}
	return (t.Kind() == reflect.Pointer || reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable()) && a == b
}

// is reports whether s was made from given, whose limits are complete.
func (s *setup) is(given *Setup) bool {
	return s != nil && s.Model == given.Model && s.Limits == given.Limits && identical(s.Client, given.Client) &&
		s.has(given.Tools)
}

// has reports whether these are the tools of s, without those of a single run.
func (s *setup) has(tools []Tool) bool {
	return slices.EqualFunc(s.tools[:s.given], tools, func(t *tool, g Tool) bool { return identical(t.impl, g) })
}

// check makes a setup. It takes over what was checked for the known ones.
func (l *Loop) check(given Setup, known ...*setup) (*setup, error) {
	s := &setup{Client: given.Client, Model: given.Model, Limits: given.Limits}
	var errs []error
	if err := l.checkClient(s, known); err != nil {
		errs = append(errs, err)
	}
	s.tools, s.specs = make([]*tool, 0, len(given.Tools)), make([]*ToolSpec, 0, len(given.Tools))
	for _, g := range given.Tools {
		t, err := l.checkTool(g, known)
		if err == nil && s.tool(t.spec.Name) != nil {
			err = &ConfigError{Option: fmt.Sprintf("tool %q", t.spec.Name), Err: errors.New("name is used twice")}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.tools, s.specs = append(s.tools, t), append(s.specs, &t.spec)
	}
	s.given = len(s.tools)
	return s, errors.Join(errs...)
}

// checkClient puts the middleware around the client of a setup.
func (l *Loop) checkClient(s *setup, known []*setup) error {
	if s.Client == nil {
		return isNilError("model")
	}
	for _, k := range known {
		if k != nil && identical(k.Client, s.Client) {
			s.client = k.client
			return nil
		}
	}
	if !reflect.ValueOf(s.Client).Comparable() {
		s.Client = &comparableClient{s.Client}
	}
	s.client = s.Client
	for _, wrap := range slices.Backward(l.wrapModel) {
		if s.client = wrap(s.client); s.client == nil {
			return isNilError("client of WithModelMiddleware")
		}
	}
	return nil
}

// checkTool checks a tool and puts the middleware around it.
func (l *Loop) checkTool(given Tool, known []*setup) (*tool, error) {
	if given == nil {
		return nil, isNilError("tool")
	}
	for _, k := range known {
		for i := 0; k != nil && i < len(k.tools); i++ {
			if identical(k.tools[i].impl, given) {
				return k.tools[i], nil
			}
		}
	}
	t := &tool{impl: given}
	if made, ok := given.(*funcTool); !ok {
		var err error
		t.spec, t.call = given.Spec(), given.Call
		if t.schema, err = checkSpec(&t.spec, nil); err != nil {
			return nil, &ConfigError{Option: fmt.Sprintf("tool %q", t.spec.Name), Err: err}
		}
	} else if t = &made.tool; len(l.wrapTool) > 0 { // NewTool has checked the spec; made.call decodes
		t = new(made.tool)
	}
	for _, wrap := range slices.Backward(l.wrapTool) {
		if t.call = wrap(t.call); t.call == nil {
			return nil, isNilError("function of WithToolMiddleware")
		}
	}
	return t, nil
}

//go:noinline
func (s *setup) tool(name string) *tool {
	for _, t := range s.tools {
		if t.spec.Name == name {
			return t
		}
	}
	return nil
}

// subject returns the subject of a call, or "".
func (s *setup) subject(call *ToolUse) string {
	t := s.tool(call.Name)
	if t == nil {
		return ""
	}
	subject, _ := subjectOf(call, &t.spec)
	return t.spec.Subject.display(subject)
}

// model returns "provider/model", or "" if the client does not tell it.
func (s *setup) model() string {
	n, ok := As[ModelNamer](s.client)
	if !ok {
		return ""
	}
	provider, model := n.ModelName()
	if s.Model != "" {
		model = s.Model
	}
	return provider + "/" + model
}

// start returns what a run starts with, apart from Messages.
func (s *setup) start() StartInput {
	return StartInput{Tools: s.specs, Model: s.model(), MaxTurns: s.Limits.Turns, MaxCalls: s.Limits.Calls}
}

// askSetup asks for the setup of a turn.
func (r *run) askSetup(ctx context.Context) (s *setup, err error) {
	l, now := r.loop, r.setup.Load()
	defer func() {
		if p := recover(); p != nil {
			l.log(ctx, slog.LevelError, "function of WithSetup panicked",
				"run", r.id, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("function of WithSetup panicked: %v", p)
		}
		if err != nil {
			err = &ContextError{Op: "set up turn", Err: err}
		}
	}()
	if r.tools == nil {
		r.tools = now.givenTools() // the function may change its list
	}
	given := Setup{Client: now.Client, Model: now.Model, Tools: r.tools, Limits: now.Limits}
	if given, err = l.setups.next(ctx, given); err != nil {
		return nil, err
	}
	if !now.has(r.tools) {
		r.tools = nil
	}
	if given.Limits != now.Limits {
		if given.Limits, err = l.first.Limits.with(given.Limits, "Setup.Limits"); err != nil {
			return nil, err
		}
	}
	known := [...]*setup{now, l.first, l.setups.last.Load()}
	for _, s := range known {
		if s.is(&given) {
			return r.extended(s)
		}
	}
	if s, err = l.check(given, known[:]...); err != nil {
		return nil, err
	}
	l.setups.last.Store(s)
	return r.extended(s)
}

// extended returns s with the tools of the run.
func (r *run) extended(s *setup) (*setup, error) {
	if len(r.extra) == 0 || len(s.tools) > s.given {
		return s, nil
	}
	all := *s
	all.tools, all.specs = slices.Clip(s.tools), slices.Clip(s.specs)
	for _, t := range r.extra {
		if all.tool(t.spec.Name) != nil {
			return nil, &ConfigError{Option: "tool " + t.spec.Name, Err: errors.New("the run adds a tool of a name that is used")}
		}
		all.tools, all.specs = append(all.tools, t), append(all.specs, &t.spec)
	}
	return &all, nil
}

// extend adds x to a run that has not begun.
func (x *RunExtension) extend(r *run) error {
	if x == nil {
		return nil
	}
	if x.Continue != nil {
		r.proceed = func() { r.goOn(x.Continue) }
	}
	if x.Begin != nil {
		r.begun = func() { r.activate(x.Begin) }
	}
	if x.Context != nil {
		if r.builder = x.Context(r.builder); r.builder == nil {
			return isNilError("builder of RunExtension.Context")
		}
	}
	for _, g := range x.Tools {
		t, err := r.loop.checkTool(g, nil)
		if err != nil {
			return err
		}
		r.extra = append(r.extra, t)
	}
	s, err := r.extended(r.loop.first)
	if err == nil {
		r.use(s)
	}
	return err
}

// configure asks for the setup of a turn, and tells the state and the host of a change. It returns the
// action as it is then, or nil if the run ends.
func (r *run) configure(ctx context.Context, a *CallModel) *CallModel {
	s := r.setup.Load()
	if r.loop.setups != nil && r.setUp != a.Turn {
		var err error
		if s, err = r.loop.setups.ask(r, ctx); err != nil {
			r.loop.setups.fail(r, ctx, err)
			return nil
		}
		r.setUp = a.Turn
	}
	if s == r.known {
		return a
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil || r.stopping {
		return nil
	}
	r.use(s)
	change := r.setupChange(s)
	r.known = s
	if change == nil {
		return a
	}
	if err := r.step(change, change); err != nil {
		r.fail(err)
		return nil
	}
	recorded := r.facts == nil || r.facts.wait(ctx)
	if r.state.phase != phaseModel || r.stopping || ctx.Err() != nil || !recorded {
		return nil
	}
	return r.state.callModel()
}

// use makes s the setup of the run. The mutex is held, if the run has begun.
func (r *run) use(s *setup) {
	if before := r.setup.Swap(s); before != nil && (before.Model != s.Model || !identical(before.Client, s.Client)) {
		r.window, r.usage = 0, Usage{} // of the other model
	}
	r.base = Request{Model: s.Model, System: r.loop.system, Tools: s.specs, MaxTokens: s.Limits.Tokens,
		Thinking: r.loop.thinking, MaxResponse: s.Limits.Response}
	r.incoming.max, r.slots, r.tools = s.Limits.Response, nil, nil
}

// setupChange returns what the state and the host do not know yet of a setup, or nil.
func (r *run) setupChange(s *setup) *SetupChanged {
	rules, start := r.state.rules, s.start()
	if r.single {
		start.MaxTurns = 1
	}
	c := &SetupChanged{Tools: make(map[string]Effect, len(s.specs)),
		Model: start.Model, MaxTurns: start.MaxTurns, MaxCalls: start.MaxCalls}
	known := r.known != nil
	for _, spec := range s.specs {
		c.Tools[spec.Name] = spec.Effect
		switch effect, had := rules.find(spec.Name); {
		case !had:
			c.Added = append(c.Added, spec.Name)
		case effect != spec.Effect, known && !alike([]*ToolSpec{&r.known.tool(spec.Name).spec}, []*ToolSpec{spec}):
			c.Changed = append(c.Changed, spec.Name)
		}
	}
	for _, e := range rules.effects {
		if s.tool(e.Name) == nil {
			c.Removed = append(c.Removed, e.Name)
		}
	}
	same := !known && len(c.Added)+len(c.Removed)+len(c.Changed) == 0 || known && alike(r.known.specs, s.specs)
	same = same && c.Model == rules.model
	r.declared = r.declared || !same
	if same && c.MaxTurns == rules.maxTurns && c.MaxCalls == rules.maxCalls {
		return nil
	}
	return c
}

// endBefore ends the run before a turn.
func (r *run) endBefore(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() == nil && !r.stopping {
		r.fail(err)
		_ = r.step(&ModelFailed{})
	}
}

// askSetupNow asks for the setup before a resumed run begins. A function that does not return in time
// after a cancel is abandoned.
func (r *run) askSetupNow(ctx context.Context) (s *setup, err error) {
	done := make(chan struct{})
	var next *setup
	failed := errExited
	go func() {
		defer close(done)
		next, failed = r.askSetup(context.WithValue(ctx, placeKey{}, r))
	}()
	select {
	case <-done:
		return next, failed
	case <-ctx.Done():
	}
	expired := make(chan struct{})
	defer r.loop.clock.AfterFunc(r.loop.first.Limits.Grace, func() { close(expired) })()
	select {
	case <-done:
		return next, failed
	case <-expired:
		return nil, &ContextError{Op: "set up turn", Err: context.Cause(ctx)}
	}
}
