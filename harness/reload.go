package harness

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/internal/closest"
	"github.com/aycoder/aycoder/internal/dialect"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/policy"
)

// WithReloader sets the configuration to the one that r has, as [WithConfig] does, and follows its changes: before
// each turn of a run the runtime asks r whether files have changed. A change takes effect there, all at once, and
// notices say what has changed. Rules and mode of approvals, hooks, the limits of runs, those of the budgets that
// there are, the models of the roles that had one, context, servers, agent.system, agent.rules, agent.thinking and
// tools.disabled can change; other keys, and tools that were switched off from the start and are not of a server, take
// effect when the runtime is made again, and a notice names them. If a model cannot be opened, the one before stays, and
// a notice says why. A server that is gone, or is another one, is closed, so that calls of jobs in the background fail. A
// server of a project is connected to only after the user has decided about it as it is now.
//
// Instructions, commands, agents and skills are read again there, too, unless the workspace is on another machine: see
// [Runtime.Library]. The system prompt stays as it was sent, and the tail of each request says what has changed in it,
// until messages are left out of the requests, as in a compaction: then the prompt gets the new texts. If several
// runs work at the same time, a change waits until one of them works alone, so that it is never inside of a turn.
//
// A change never touches the rules, the mode, the limits and the models that other options of the host have set. With
// [WithLoopOptions], a change can only lower limits, and agent.thinking stays. If a file of the project changes that the user trusted, what it
// restricted stays until the user decides, and so do the models; its hooks before tools refuse their calls. An
// [aycoder.WithSetup] among the options of the loop replaces this one, and nothing changes then. Several runtimes may
// share r. Default: the configuration does not change.
func WithReloader(r *config.Reloader) Option {
	return func(s *setup) error {
		if r == nil {
			return wrong("WithReloader", "is nil")
		}
		s.reloader = r
		return WithConfig(r.Current())(s)
	}
}

// Config returns the configuration in force at once, or nil without [WithConfig] and [WithReloader]. It is safe for
// concurrent use.
func (r *Runtime) Config() *config.Loaded {
	return r.loaded.Load()
}

// Reload reads instructions, commands, agents and skills again, and the files of the configuration now, however young they are. A
// change takes effect at once if no run works, and else before its next turn. The error says that there is no
// [WithReloader], or it is that of the files, so that the configuration in force stays. It is safe for concurrent
// use.
func (r *Runtime) Reload(ctx context.Context) error {
	x := r.reload
	if x == nil {
		return wrong("WithReloader", "is not among the options")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.source.Reload()
	if x.b.runs.Load() == 0 {
		if len(x.failed) > 0 { // what the models need may be there now
			x.exchange(ctx, x.now.Config.Settings)
		}
		x.adopt(ctx)
		x.exchangeServers(ctx)
	}
	x.library(ctx)
	x.instructions(ctx)
	x.offer()
	return c.Err
}

// ToolsNow returns the tools that the model may call in the next turn. They are the Tools, unless those of servers or the
// configuration have changed. It is safe for concurrent use.
func (r *Runtime) ToolsNow() []aycoder.Tool {
	all := r.Tools
	if now := r.offered.Load(); now != nil {
		all = *now
	}
	r.served.mu.Lock()
	defer r.served.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.served.into(all, nil)), r.isOff)
}

// offer puts the tools of the next turn where ToolsNow finds them, without those of servers that are new.
func (x *reload) offer() {
	x.b.offered.Store(new(x.tools(slices.Clone(x.b.Tools))))
}

// A reload brings changes of the configuration into a runtime.
type reload struct {
	b        *builder
	source   *config.Reloader
	hostMode bool           // the host has set the mode
	first    aycoder.Limits // as the configuration had them in New

	mu      sync.Mutex // guards all that follows
	now     *config.Loaded
	refused *config.Loaded // was valid, but could not be used
	fault   error          // that was told
	made    *aycoder.Limits
	limits  aycoder.Limits
	lapsed  bool // the user has not decided yet about what a changed file of the project restricted
	think   *int // nil if it is as New has made it

	texts    []*updated
	read     *project.Instructions // the last ones, or nil
	run      string                // that the last request was of
	messages int                   // of it
	agents   *agents               // nil if they are as New has made them
	servers  map[string]config.Server
	hosts    map[string]config.Server // of the host, without those whose name the configuration had from the start
	closed   bool                     // no server is connected to any more
	failed   map[string]bool          // the roles whose models could not be opened
	main     aycoder.ModelClient      // nil if it is as New has opened it
}

// reloads makes what follows the changes, before the loop.
func (b *builder) reloads(ctx context.Context) error {
	if b.in.reloader == nil {
		return nil
	}
	x := &reload{b: b, source: b.in.reloader, now: b.in.loaded, first: limitsOf(b.in.settings), servers: maps.Clone(b.in.settings.Servers)}
	x.limits = x.first
	x.hosts = maps.Clone(b.in.servers)
	maps.DeleteFunc(x.hosts, func(name string, _ config.Server) bool { _, ours := b.in.loaded.Config.Servers[name]; return ours })
	x.hostMode = len(b.in.policy) > 0 && setsMode(b.in.policy)
	base, rules := prompts(b.in.settings.Agent)
	x.follow("base", base, changedText("introduction"))
	x.follow("rules", rules, changedText("list of rules"))
	if b.instructions != nil {
		x.read = b.instructions
		x.follow("instructions", b.instructions.Prompt(), project.ChangedInstructions)
	}
	text := ""
	if b.served.any() {
		text = serversPrompt
	}
	x.follow("servers", text, changedText("note about servers"))
	if b.Library != nil {
		x.follow("skills", b.Library.SkillsPrompt(), changedText("list of skills"))
	}
	b.reload = x
	b.onClose(x)
	if len(x.now.Lapsed()) > 0 {
		return x.apply(ctx, x.now)
	}
	return nil
}

// setsMode reports whether options set the mode, which they do if it is not that of an option before them.
func setsMode(opts []policy.Option) bool {
	for _, m := range []policy.Mode{policy.Ask, policy.Plan} {
		p, err := policy.New(append([]policy.Option{policy.WithMode(m)}, opts...)...)
		if err != nil || p.Mode() != m {
			return true
		}
	}
	return false
}

// turn is the function of [aycoder.WithSetup].
func (x *reload) turn(ctx context.Context, s aycoder.Setup) (aycoder.Setup, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.made == nil {
		x.made = new(s.Limits)
	}
	if x.b.runs.Load() <= 1 {
		x.source.Check()
		x.adopt(ctx)
		x.exchangeServers(ctx)
		if x.b.Workspace != nil {
			x.library(ctx)
			x.instructions(ctx)
		}
		x.offer()
	}
	s.Limits, s.Tools = x.merged(s.Limits), x.tools(s.Tools)
	if x.main != nil {
		s.Client = x.main
	}
	return s, nil
}

// adopt puts the configuration of the source into force, and tells what is wrong with its files.
func (x *reload) adopt(ctx context.Context) {
	if err := x.source.Fault(); err != x.fault {
		if x.fault = err; err != nil {
			x.b.Notify("config", "the files are not valid, so the configuration in force stays:\n"+err.Error())
		}
	}
	next := x.source.Current()
	if next == x.now || next == x.refused {
		return
	}
	if err := x.apply(ctx, next); err != nil {
		x.refused = next
		x.b.Notify("config", "the files cannot be used, so the configuration in force stays:\n"+err.Error())
	}
}

// apply puts a configuration into force. The steps that can fail come first.
func (x *reload) apply(ctx context.Context, next *config.Loaded) error {
	b, c := x.b, next.Config.Settings
	b.in.verify = next.Verify
	list := b.hookList(c.Hooks)
	if err := hooks.Check(list); err != nil {
		b.in.verify = x.now.Verify
		return err
	}
	rules, limits := rulesOf(c), limitsOf(c)
	for _, s := range next.Lapsed() {
		rules[policy.Project] = append(rules[policy.Project], rulesOf(s)[policy.Project]...)
		limits = lowest(limits, limitsOf(s))
	}
	if b.Policy != nil {
		if err := b.Policy.Configure(policy.Configured{Mode: x.mode(c), Least: c.Approval.Least, Rules: rules}); err != nil {
			b.in.verify = x.now.Verify
			return err
		}
	}
	_ = b.Hooks.Replace(list) // which is valid
	x.limits, x.lapsed = limits, len(next.Lapsed()) > 0
	for name, pot := range b.Budgets {
		most := limitOf(c, name)
		for _, s := range next.Lapsed() {
			most = lowestAmount(most, limitOf(s, name))
		}
		_ = pot.SetLimits(most) // which package config has checked
	}
	if !x.lapsed { // a file of the project may have limited the use of models
		x.exchange(ctx, c)
		base, rules := prompts(c.Agent)
		x.update("base", base)
		x.update("rules", rules)
		x.think = new(c.Agent.Thinking)
		_ = b.Compactor.Configure(b.bounds(c.Context)...) // which package config has checked
	}
	x.switchTools(ctx, next)
	x.tell(next)
	x.now = next
	b.loaded.Store(next)
	return nil
}

// switchTools has the model get what tools.disabled says.
func (x *reload) switchTools(ctx context.Context, next *config.Loaded) {
	off := slices.Clone(next.Config.Tools.Disabled)
	for _, s := range next.Lapsed() {
		off = append(off, s.Tools.Disabled...)
	}
	if slices.Equal(off, *x.b.off.Load()) {
		return
	}
	x.b.off.Store(&off)
	x.b.served.recheck(x.b.isOff)
	x.exchangeAgents(ctx)
}

// mode returns the new mode, or "" if it stays: it has not changed, or the host or the user has chosen another one.
func (x *reload) mode(c config.Settings) policy.Mode {
	before := x.now.Config.Approval.Mode
	if c.Approval.Mode == before || x.hostMode || x.b.Policy.Mode() != before {
		return ""
	}
	return c.Approval.Mode
}

// tell says what has changed.
func (x *reload) tell(next *config.Loaded) {
	for _, d := range next.Diagnostics {
		if !slices.ContainsFunc(x.now.Diagnostics, func(o config.Diagnostic) bool { return o.String() == d.String() }) {
			x.b.Notify("config", d.String())
		}
	}
	before := x.b.misnamed(x.now.Config.Settings)
	for _, note := range x.b.misnamed(next.Config.Settings) {
		if !slices.Contains(before, note) {
			x.b.Notify("config", note)
		}
	}
	var lines []string
	for _, c := range next.Since(x.now) {
		line := c.String()
		if !x.live(c.Key, next.Config.Settings) {
			line += x.later(c.Key)
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		x.b.Notify("config", "the configuration has changed:\n"+strings.Join(lines, "\n"))
	}
}

// later says when the value of a key takes effect that has not.
func (x *reload) later(key string) string {
	models := strings.HasPrefix(key, "models.") || strings.HasPrefix(key, "roles.")
	context := strings.HasPrefix(key, "context.")
	servers := strings.HasPrefix(key, "servers.") && x.b.in.connect != nil
	switch {
	case (models || context || servers || key == "agent.thinking" || x.follows(key)) && x.lapsed:
		return " (takes effect when you have decided about the file of the project)"
	case models && len(x.failed) > 0:
		return " (could not be opened)"
	}
	return " (takes effect when started again)"
}

// live reports whether the value of a key has taken effect.
func (x *reload) live(key string, c config.Settings) bool {
	if rest, ok := strings.CutPrefix(key, "budgets."); ok {
		name, _, _ := strings.Cut(rest, ".")
		return x.b.Budgets[name] != nil
	}
	if strings.HasPrefix(key, "models.") || strings.HasPrefix(key, "roles.") {
		return !x.lapsed && x.filled(key)
	}
	if strings.HasPrefix(key, "context.") {
		return !x.lapsed
	}
	if rest, ok := strings.CutPrefix(key, "servers."); ok {
		name, _, _ := strings.Cut(rest, ".")
		_, hosts := x.hosts[name]
		return x.b.in.connect != nil && !hosts && !x.lapsed
	}
	switch key {
	case "approval.mode":
		return x.b.Policy != nil && x.b.Policy.Mode() == c.Approval.Mode
	case "approval.rules":
		return x.b.Policy != nil
	case "hooks", "agent.max_cost":
		return true
	case "agent.system", "agent.rules":
		return !x.lapsed && x.follows(key)
	case "agent.thinking":
		return !x.lapsed && len(x.b.in.loop) == 0
	case "tools.disabled": // New has left those out, and only servers are asked for theirs again
		return !slices.ContainsFunc(x.b.in.settings.Tools.Disabled, func(name string) bool { return !x.b.switchedOff(name) && !x.b.served.has(name) })
	}
	want, got := fields(limitsOf(c)), fields(x.merged(aycoder.Limits{}))
	i := slices.Index(limitKeys, key)
	return i >= 0 && want[i] == got[i]
}

// limitKeys are the keys of the limits, in the order of fields.
var limitKeys = []string{
	"agent.max_turns", "agent.max_calls", "agent.max_tokens", "tools.max_output", "tools.parallel", "tools.grace",
	"approval.timeout",
}

func fields(l aycoder.Limits) [7]int64 {
	return [...]int64{
		int64(l.Turns), int64(l.Calls), l.Total, int64(l.ToolOutput), int64(l.Parallel), int64(l.Grace), int64(l.Approval),
	}
}

// withFields returns l with the fields, where 0 is none.
func withFields(l aycoder.Limits, f [7]int64) aycoder.Limits {
	l.Turns, l.Calls, l.Total, l.ToolOutput, l.Parallel = int(f[0]), int(f[1]), f[2], int(f[3]), int(f[4])
	l.Grace, l.Approval = time.Duration(f[5]), time.Duration(f[6])
	return l
}

// merged returns the limits of a turn: those in force, but for those that options of the host have set. A limit that
// the runtime was made with cannot be removed, since 0 means that one.
func (x *reload) merged(l aycoder.Limits) aycoder.Limits {
	out, first := fields(x.limits), fields(x.first)
	if x.made == nil {
		return withFields(l, out)
	}
	for i, made := range fields(*x.made) {
		switch {
		case made != first[i] || out[i] == 0:
			out[i] = made
		case len(x.b.in.loop) > 0:
			out[i] = lower(out[i], made)
		}
	}
	return withFields(l, out)
}

// lower returns the lower one of two limits, where 0 is none.
func lower[T cmp.Ordered](a, b T) T {
	var none T
	if a == none || b != none && b < a {
		return b
	}
	return a
}

func lowest(a, b aycoder.Limits) aycoder.Limits {
	x, y := fields(a), fields(b)
	for i := range x {
		x[i] = lower(x[i], y[i])
	}
	return withFields(a, x)
}

func lowestAmount(a, b budget.Amount) budget.Amount {
	return budget.Amount{Money: lower(a.Money, b.Money), Tokens: lower(a.Tokens, b.Tokens), Work: lower(a.Work, b.Work)}
}

// limitOf returns the limits of the budget of a name.
func limitOf(c config.Settings, name string) budget.Amount {
	most := amountOf(c.Budgets[name])
	if name == conversation {
		most = lowestAmount(most, amountOf(config.Budget{Cost: c.Agent.MaxCost}))
	}
	return most
}

// rulesOf returns the rules of a configuration by their sources.
func rulesOf(c config.Settings) map[policy.Source][]policy.Rule {
	out := map[policy.Source][]policy.Rule{}
	for _, r := range c.Approval.Rules {
		source := cmp.Or(r.Source, policy.User)
		out[source] = append(out[source], r.Policy())
	}
	return out
}

// toolEvents are the events whose hooks have a tool as their matcher.
var toolEvents = set("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied")

// toolNames matches a matcher that names tools, and one that also says what they do, which matches nothing.
var toolNames = late.Regexp(`^[\w|]+$|^\w+\(.* .*\)$`)

// misnamed returns a note for each tool of rules and hooks that is not there, if its name is that of another one, mistyped or
// as other agents have it: such a rule covers nothing, and a user who has made it relies on it.
func (b *builder) misnamed(c config.Settings) (notes []string) {
	var names []string
	others := map[string][]string{}
	for _, t := range slices.Concat(b.all, b.Tools) {
		name := t.Spec().Name
		if slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		for _, n := range dialect.Names(name) {
			others[n] = append(others[n], name)
		}
	}
	for _, t := range b.OtherAgents { // whose questions are calls
		names = append(names, t.Spec().Name+"_permission")
	}
	look := func(key, name, with string) {
		tool := name
		if i := strings.IndexAny(name, ":("); i >= 0 { // as in "bash:go test *"
			tool = name[:i]
		} else {
			with = ""
		}
		if strings.ContainsAny(tool, `*?[{\`) || strings.HasPrefix(tool, "mcp__") {
			return
		}
		meant := others[tool]
		if meant == nil {
			meant = closest.Closest(tool, names, 1)
		}
		note := fmt.Sprintf("%s: there is no tool %q; did you mean %s%s?", key, name, strings.Join(meant, ", "), with)
		if meant != nil && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	for _, r := range c.Approval.Rules {
		if !slices.Contains(names, r.Tool) {
			look("approval.rules", r.Tool, ", and the rest as the pattern")
		}
	}
	for _, h := range c.Hooks {
		if !toolEvents[string(h.Event)] || !toolNames().MatchString(h.Matcher) || path.Ext(h.Origin.File) == ".json" { // whose tools others have
			continue
		}
		for name := range strings.SplitSeq(h.Matcher, "|") {
			if name != "" && others[name] == nil {
				look("hooks", name, ", and a command that looks at the rest")
			}
		}
	}
	return notes
}
