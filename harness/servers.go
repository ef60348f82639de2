package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
)

// A ToolSource gives tools that may change while a program runs, such as those of a server. Its methods must be safe
// for concurrent use. If it has a method Notices() []string, that returns what the user has to know of the tools and
// was not told yet, such as why one is left out. Each text becomes a notice.
type ToolSource interface {
	// Tools returns the tools that are there now. A runtime asks once in [New] and then before each turn, so Tools
	// returns at once unless something has changed. After an error, which becomes a notice, the tools stay as they were.
	Tools(ctx context.Context) ([]aycoder.Tool, error)
	// Close ends the source and everything that it has started. Calls that are in flight fail.
	Close() error
}

// A TextSource is a [ToolSource] that also has texts for the user to send: prompts, which are commands for
// [Runtime.Expand], and resources, which a line mentions as "@server:uri". A stranger has written them.
type TextSource interface {
	ToolSource
	// Prompts returns the names of the prompts, such as "mcp__files__review", at once.
	Prompts() []string
	// Prompt returns the texts and images of a prompt. words are what follows its name.
	Prompt(ctx context.Context, name, words string) ([]aycoder.Part, error)
	// Resource returns the texts and images of a resource.
	Resource(ctx context.Context, uri string) ([]aycoder.Part, error)
}

// A Connector connects to a server of the Model Context Protocol, or returns nil for none. The runtime closes what is
// returned. ctx is for the connection to be made, not for the tools. A tool's name says which server it is of, as in
// "mcp__files__read". The separate module contrib/mcp has one.
type Connector func(ctx context.Context, name string, s config.Server) (ToolSource, error)

// WithServers sets what connects to the servers of the configuration. A server that cannot be reached, and a tool whose
// name another one has, are a notice, and the rest works without. If the tools of a server change, the model gets the
// new ones with its next turn, and so do subagents. Default: none, so that a configuration with servers is an error,
// unless they come from a file of the project: then each is a notice.
func WithServers(connect Connector) Option {
	return required("WithServers", connect != nil, func(s *setup) { s.connect = connect })
}

// servers adds the tools of the servers.
func (b *builder) servers(ctx context.Context) error {
	b.onClose(&b.served)
	for _, name := range slices.Sorted(maps.Keys(b.in.settings.Servers)) {
		s := b.in.settings.Servers[name]
		if s.Disabled {
			b.served.off(name, "off by the configuration")
			continue
		}
		if err := b.server(ctx, name, s); err != nil {
			b.serverOff(name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// serverOff tells why a server is off.
func (b *builder) serverOff(name string, err error) {
	b.Notify("servers", fmt.Sprintf("server %s is off: %v", name, err))
	b.served.off(name, "off: "+err.Error())
}

func (b *builder) server(ctx context.Context, name string, s config.Server) error {
	of, err := b.trustedServer(ctx, name, s)
	b.add(of)
	return err
}

// trustedServer connects to a server if the user trusts it.
func (b *builder) trustedServer(ctx context.Context, name string, s config.Server) (*served, error) {
	if b.in.verify != nil {
		if err := b.in.verify(s.Origin); err != nil {
			return nil, err
		}
	}
	return b.connect(ctx, name, s, b.trusted(name, s))
}

// trusted returns a function that returns an error unless the user trusts a server as it was when the runtime was made: a
// call may start its program again. The place of the same server in its file may have changed, and be trusted, since then.
func (b *builder) trusted(name string, s config.Server) func(context.Context) error {
	verify := b.in.verify
	return func(context.Context) error {
		if verify == nil {
			return nil
		}
		err := verify(s.Origin)
		if err == nil {
			return nil
		}
		now := b.Config()
		if same := now.Config.Servers[name]; sameServer(same, s) {
			return now.Verify(same.Origin)
		}
		return err
	}
}

// connect connects to a server. allowed is asked before each call. The source may be nil, without an error.
func (b *builder) connect(ctx context.Context, name string, s config.Server, allowed func(context.Context) error) (*served, error) {
	if b.in.connect == nil {
		return nil, ErrNotLinked
	}
	source, err := b.in.connect(ctx, name, s)
	if source == nil {
		return nil, err
	}
	of := &served{name: name, wanted: s.Tools, source: source, allowed: allowed}
	var list []aycoder.Tool
	if err == nil {
		list, err = source.Tools(ctx)
		b.heard(of)
	}
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	of.offered, _ = of.take(list)
	return of, nil
}

// add adds the tools of a server, which may be nil, in New.
func (b *builder) add(of *served) {
	if of == nil {
		return
	}
	b.choose(of)
	for _, t := range of.offered {
		b.addTool("servers", "of server "+of.name, t)
	}
	b.served.list = append(b.served.list, of)
}

// addTool adds a tool from elsewhere, unless another one has its name.
func (b *builder) addTool(source, of string, t aycoder.Tool) {
	name := t.Spec().Name
	if named(b.Tools, name) {
		b.leftOut(source, of, name)
		return
	}
	b.Tools = append(b.Tools, t)
}

func (b *builder) leftOut(source, of, name string) {
	b.Notify(source, fmt.Sprintf("tool %s %s is left out: there is another of this name", name, of))
}

// A ServerState says how a server is.
type ServerState struct {
	// Name is that of the configuration, or that of a plugin with the server's own.
	Name string
	// State is "on", or why the server is off, or what its [ToolSource] says of itself, if it has a method State() string.
	State string
	// Tools are the names of the tools that the model may call, and Prompts those of the commands of a [TextSource].
	Tools, Prompts []string
}

// Servers says how the servers of the configuration and of plugins are, by name. It is safe for concurrent use.
func (r *Runtime) Servers() []ServerState {
	x := &r.served
	x.mu.Lock()
	defer x.mu.Unlock()
	all := slices.Clone(x.without)
	for _, s := range x.list {
		now := ServerState{Name: s.name, State: "on"}
		if st, ok := s.source.(interface{ State() string }); ok {
			now.State = st.State()
		}
		for _, t := range s.offered {
			now.Tools = append(now.Tools, t.Spec().Name)
		}
		if ts, ok := s.source.(TextSource); ok {
			now.Prompts = ts.Prompts()
		}
		all = append(all, now)
	}
	slices.SortFunc(all, func(a, b ServerState) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// sourceList has the sources that are asked for their tools before each turn.
type sourceList struct {
	asking  sync.Mutex // held while sources are asked
	mu      sync.Mutex // guards what follows, also in the sources
	list    []*served
	without []ServerState // of the servers that have no source
}

func (x *sourceList) off(name, why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.without = append(x.without, ServerState{Name: name, State: why})
}

// put adds a source.
func (b *builder) put(s *served) {
	x := &b.served
	x.asking.Lock()
	defer x.asking.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	b.choose(s)
	x.list = append(x.list, s)
}

// remove removes a server of the configuration, and closes its source.
func (x *sourceList) remove(name string) error {
	x.asking.Lock()
	defer x.asking.Unlock()
	x.mu.Lock()
	x.without = slices.DeleteFunc(x.without, func(s ServerState) bool { return s.Name == name })
	i := slices.IndexFunc(x.list, func(s *served) bool { return s.name == name && !s.plugin })
	if i < 0 {
		x.mu.Unlock()
		return nil
	}
	s := x.list[i]
	x.list = slices.Delete(slices.Clone(x.list), i, i+1)
	x.mu.Unlock()
	return s.source.Close()
}

// Close closes all sources, the last one first.
func (x *sourceList) Close() error {
	var errs []error
	for _, s := range slices.Backward(x.list) {
		errs = append(errs, s.source.Close())
	}
	return errors.Join(errs...)
}

// any reports whether there is a source.
func (x *sourceList) any() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.list) > 0
}

// is reports whether there is a source of a name.
func (x *sourceList) is(name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(x.list, func(s *served) bool { return s.name == name })
}

// served is a source, and what it offered last.
type served struct {
	name    string
	plugin  bool // it is of a plugin
	wanted  []string
	source  ToolSource
	allowed func(context.Context) error

	last    []aycoder.Tool // as the source has returned them
	clashes []string       // names of tools that were told to be left out
	recheck bool           // what is switched off has changed since then
	offered []aycoder.Tool // those that are wanted, as [servedTool]
	fault   string         // that was told
}

// take notes what the source offers now, and returns those that are wanted. It reports whether that has changed.
func (s *served) take(list []aycoder.Tool) (wanted []aycoder.Tool, changed bool) {
	if !s.recheck && slices.Equal(s.last, list) {
		return nil, false
	}
	s.recheck, s.last = false, slices.Clone(list)
	for _, t := range list {
		if s.wants(t.Spec().Name) {
			wanted = append(wanted, s.wrap(t))
		}
	}
	return wanted, true
}

func (s *served) wants(name string) bool {
	return len(s.wanted) == 0 || slices.Contains(s.wanted, name)
}

// keep leaves out of what the sources offer the tools that the model does not get.
func (x *sourceList) keep(all []aycoder.Tool) {
	for _, s := range x.list {
		s.offered = slices.DeleteFunc(s.offered, func(t aycoder.Tool) bool { return !slices.Contains(all, t) })
	}
}

// recheck leaves out what is off now, and has the sources asked again for what is not off any more.
func (x *sourceList) recheck(off func(aycoder.Tool) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.list {
		s.recheck, s.offered = true, slices.DeleteFunc(slices.Clone(s.offered), off)
	}
}

// has reports whether a source offers a tool, which may be switched off.
func (x *sourceList) has(name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(x.list, func(s *served) bool { return s.wants(name) && named(s.last, name) })
}

// serving reports whether there are sources, or a change of the configuration may bring some.
func (b *builder) serving() bool {
	return b.in.reloader != nil && b.in.connect != nil || b.served.any()
}

// turn returns what [aycoder.WithSetup] needs to follow the sources, or nil if there are none. Of their tools, may
// chooses.
func (b *builder) turn(may func(name string) bool) func(context.Context, aycoder.Setup) (aycoder.Setup, error) {
	if !b.serving() {
		return nil
	}
	return func(ctx context.Context, now aycoder.Setup) (aycoder.Setup, error) {
		b.served.asking.Lock()
		defer b.served.asking.Unlock()
		for _, s := range b.served.list {
			b.ask(ctx, s)
		}
		b.served.mu.Lock()
		defer b.served.mu.Unlock()
		now.Tools = b.served.into(now.Tools, may)
		return now, context.Cause(ctx)
	}
}

// ask asks a source for its tools.
func (b *builder) ask(ctx context.Context, s *served) {
	list, err := s.source.Tools(ctx)
	b.heard(s)
	fault := ""
	if err != nil {
		fault = err.Error()
	} else {
		b.accept(s, list)
	}
	if fault != s.fault && ctx.Err() == nil {
		if s.fault = fault; fault != "" {
			b.Notify("servers", fmt.Sprintf("the tools of server %s stay as they were: %s", s.name, fault))
		}
	}
}

// accept takes what a source offers now. The host's filter is asked without the lock, since it may ask the runtime.
func (b *builder) accept(s *served, list []aycoder.Tool) {
	x := &b.served
	x.mu.Lock()
	offered, changed := s.take(list)
	x.mu.Unlock()
	if !changed {
		return
	}
	offered = b.withoutDisabled(offered)
	x.mu.Lock()
	defer x.mu.Unlock()
	before := s.offered
	s.offered = offered
	b.choose(s)
	for _, o := range x.list {
		free := func(name string) bool { return named(before, name) && !named(s.offered, name) }
		o.recheck = o.recheck || slices.ContainsFunc(o.clashes, free)
	}
}

// heard passes on what a source has to tell.
func (b *builder) heard(s *served) {
	if src, ok := s.source.(interface{ Notices() []string }); ok {
		for _, text := range src.Notices() {
			b.Notify("servers", "server "+s.name+": "+text)
		}
	}
}

// choose leaves out of what a source offers the tools whose name another one has.
func (b *builder) choose(s *served) {
	s.offered = slices.DeleteFunc(s.offered, func(t aycoder.Tool) bool {
		name := t.Spec().Name
		taken := slices.ContainsFunc(b.Tools, func(t aycoder.Tool) bool {
			_, of := t.(interface{ served() })
			return !of && t.Spec().Name == name
		}) || slices.ContainsFunc(b.served.list, func(o *served) bool { return o != s && named(o.offered, name) })
		if taken && !slices.Contains(s.clashes, name) {
			s.clashes = append(s.clashes, name)
			b.leftOut("servers", "of server "+s.name, name)
		}
		return taken
	})
}

// withoutDisabled leaves out what the configuration and the host do not want, as in New.
func (b *builder) withoutDisabled(list []aycoder.Tool) []aycoder.Tool {
	list = slices.DeleteFunc(list, b.isOff)
	if b.in.pick == nil {
		return list
	}
	picked := b.in.pick(slices.Clone(list))
	return slices.DeleteFunc(list, func(t aycoder.Tool) bool { return !slices.Contains(picked, t) })
}

// into returns a list of tools with those that the sources offer now, in the place of those that they have offered.
func (x *sourceList) into(list []aycoder.Tool, may func(string) bool) []aycoder.Tool {
	at, taken := -1, map[string]bool{}
	var others, before []aycoder.Tool
	for _, t := range list {
		if _, ok := t.(interface{ served() }); ok {
			if before = append(before, t); at < 0 {
				at = len(others)
			}
			continue
		}
		others = append(others, t)
		taken[t.Spec().Name] = true
	}
	var now []aycoder.Tool
	for _, s := range x.list {
		for _, t := range s.offered {
			if name := t.Spec().Name; !taken[name] && (may == nil || may(name)) {
				now, taken[name] = append(now, t), true
			}
		}
	}
	if slices.Equal(before, now) {
		return list
	}
	if at < 0 {
		at = len(others)
	}
	return slices.Insert(others, at, now...)
}

// both returns a setup that asks one function after the other. The second one may be nil.
func both(first, then func(context.Context, aycoder.Setup) (aycoder.Setup, error)) func(context.Context, aycoder.Setup) (aycoder.Setup, error) {
	if then == nil {
		return first
	}
	return func(ctx context.Context, now aycoder.Setup) (aycoder.Setup, error) {
		now, err := first(ctx, now)
		if err != nil {
			return now, err
		}
		return then(ctx, now)
	}
}

// wrap marks a tool as one of the source.
func (s *served) wrap(t aycoder.Tool) aycoder.Tool {
	st := &servedTool{t, s.allowed}
	if p, ok := t.(aycoder.Planner); ok {
		return &servedPlanner{st, p}
	}
	return st
}

// A servedTool is a tool of a source.
type servedTool struct {
	aycoder.Tool
	allowed func(context.Context) error
}

func (*servedTool) served() {}

// Call implements [aycoder.Tool].
func (t *servedTool) Call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	if t.allowed != nil {
		if err := t.allowed(ctx); err != nil {
			return nil, err
		}
	}
	return t.Tool.Call(ctx, inv)
}

// Preview implements [aycoder.Previewer].
func (t *servedTool) Preview(ctx context.Context, inv *aycoder.Invocation) (string, error) {
	if p, ok := t.Tool.(aycoder.Previewer); ok {
		return p.Preview(ctx, inv)
	}
	return "", nil
}

type servedPlanner struct {
	*servedTool
	aycoder.Planner
}
