package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/internal/dialect"
	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A builder makes a runtime, step by step.
type builder struct {
	*Runtime
	in   setup
	dir  string
	recs *snapshot.Files
	// what ambient sources have given
	instructions *project.Instructions
	keeper       *project.Keeper
	skill        aycoder.Tool   // reads skills
	withheld     bool           // since there are no skills
	late         []aycoder.Tool // that came after New
	agentTools   []aycoder.Tool // that agents may have
	all          []aycoder.Tool // also those that are left out
	checks       Checks
	code         Code
	related      aycoder.ContextMiddleware // nil without the context of tools.code
	id           string                    // of the session, also for hooks that run before there is one
	window       atomic.Int64              // context.max_tokens that is in force
}

func newBuilder(dir string, opts []Option) (*builder, error) {
	b := &builder{Runtime: &Runtime{}, dir: dir}
	b.in = setup{
		models: catalog.Default(), ambient: map[Ambient]bool{}, servers: map[string]config.Server{},
		lookup: func(string) (string, bool) { return "", false },
	}
	if err := option.Apply(&b.in, opts); err != nil {
		return b, err
	}
	b.trust, b.id = b.in.trust, cmp.Or(b.in.id, session.NewID(b.in.session...))
	if !b.in.configured {
		defaults, err := config.Load()
		if err != nil {
			return b, err
		}
		b.in.settings = defaults.Config.Settings
	}
	b.addServers()
	if t := b.in.settings.Tools; t.Mask {
		b.masker = tools.NewMasker(nil, mask.Environment(t.Env)...)
	}
	return b, nil
}

// addServers adds the servers of the host to those of the configuration.
func (b *builder) addServers() {
	for name := range b.in.servers {
		if _, ok := b.in.settings.Servers[name]; ok {
			b.Notify("servers", fmt.Sprintf("server %s is the one of the configuration, and not the one that the host has passed", name))
		}
	}
	b.in.settings.Servers = b.withServers(b.in.settings.Servers)
}

// withServers returns servers of a configuration with those of the host.
func (b *builder) withServers(own map[string]config.Server) map[string]config.Server {
	all := maps.Clone(b.in.servers)
	maps.Copy(all, own)
	return all
}

func wrong(key string, format string, args ...any) error {
	return &aycoder.ConfigError{Option: key, Err: fmt.Errorf(format, args...)}
}

// told passes on what the configuration has to say to the user.
func (b *builder) told(context.Context) error {
	if b.in.loaded == nil {
		return nil
	}
	b.loaded.Store(b.in.loaded)
	for _, d := range b.in.loaded.Diagnostics {
		b.Notify("config", d.String())
	}
	return nil
}

// check reports, before anything is opened, all that the configuration needs and the program does not have.
func (b *builder) check(ctx context.Context) error {
	var errs []error
	for _, r := range b.roles(b.in.settings.Roles) {
		switch {
		case r.given != nil:
		case r.name == "" && r.key == "roles.main":
			errs = append(errs, wrong(r.key, "no model: name one, or pass WithClient or WithModel"))
		case r.name != "" && b.in.open == nil:
			errs = append(errs, wrong(r.key, "%s: %w: pass WithOpener, such as that of package linked", r.name, ErrNotLinked))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.in.settings.Servers)) {
		s := b.in.settings.Servers[name]
		if ours := s.Origin.Source != config.Project && s.Origin.Source != config.Local; ours && !s.Disabled && b.in.connect == nil {
			errs = append(errs, wrong("servers."+name, "%w: pass WithServers", ErrNotLinked))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.in.settings.AgentServers)) {
		if b.in.openAgent == nil {
			errs = append(errs, wrong("agent_servers."+name, "%w: pass WithAgentServers", ErrNotLinked))
		}
	}
	if len(b.in.settings.Tools.Checks) > 0 && b.in.checks == nil {
		errs = append(errs, wrong("tools.checks", "%w: pass WithChecks", ErrNotLinked))
	}
	for _, name := range slices.Sorted(maps.Keys(b.in.settings.LanguageServers)) {
		if b.in.checks == nil {
			errs = append(errs, wrong("language_servers."+name, "%w: pass WithChecks", ErrNotLinked))
		}
	}
	if len(b.in.settings.Tools.Code) > 0 && b.in.code == nil {
		errs = append(errs, wrong("tools.code", "%w: pass WithCode", ErrNotLinked))
	}
	if len(b.in.settings.Tools.Insight) > 0 && b.in.insight == nil {
		errs = append(errs, wrong("tools.insight", "%w: pass WithInsight", ErrNotLinked))
	}
	if name := b.in.settings.Agent.Budget; name != "" {
		if _, ok := b.in.settings.Budgets[name]; !ok {
			errs = append(errs, wrong("agent.budget", "there is no budget %q", name))
		}
	}
	for _, r := range b.roles(b.in.settings.Roles) { // without other faults, their models are opened soon
		if len(errs) == 0 || r.given != nil || r.name == "" || b.in.open == nil {
			continue
		}
		c, err := b.find(r.name)
		if err == nil {
			_, err = b.in.open(ctx, ModelSpec{Provider: c.Provider, Model: c.Model})
		}
		if c.Provider == "" || errors.Is(err, ErrNotLinked) { // others may be for lack of the key
			errs = append(errs, wrong("models."+r.name, "%w", err))
		}
	}
	return errors.Join(errs...)
}

// conversation is the name of the budget of agent.max_cost.
const conversation = "conversation"

// budgets makes the pots: those of the configuration, and that of agent.max_cost.
func (b *builder) budgets(context.Context) error {
	b.Budgets = map[string]*budget.Pot{}
	for name := range b.in.settings.Budgets {
		if err := b.pot(name); err != nil {
			return err
		}
	}
	if b.Budgets[conversation] == nil && (b.in.settings.Agent.MaxCost != nil || b.in.reloader != nil) { // a change may set it
		return b.pot(conversation)
	}
	return nil
}

func (b *builder) pot(name string) error {
	most, own := limitOf(b.in.settings, name), amountOf(b.in.settings.Budgets[name]).Money
	keys := map[string]string{"money": "cost", "tokens": "tokens", "work": "time"}
	key := func(kind string) string {
		if name == conversation && kind == "money" && (own == 0 || most.Money < own) {
			return "agent.max_cost"
		}
		return "budgets." + name + "." + keys[kind]
	}
	p, err := budget.New(budget.Config{
		Name: name, Key: key, Models: b.in.models.Lookup, Idle: []string{"ask_user"},
		Money: most.Money, Tokens: most.Tokens, Work: most.Work,
	})
	if err != nil {
		return err
	}
	b.Budgets[name] = p
	b.onClose(p)
	return nil
}

// amountOf returns the limits of a budget.
func amountOf(c config.Budget) budget.Amount {
	return budget.Amount{Money: limit(c.Cost, 1e-9), Tokens: limit(c.Tokens, 1), Work: limit(c.Time, 1)}
}

// limit returns a limit of a budget, where 0 is none. A budget of nothing is one that is used up at once.
func limit[T float64 | int64 | time.Duration](p *T, least T) T {
	if p == nil {
		return 0
	}
	return max(*p, least)
}

// workspace opens the files, and wraps them.
func (b *builder) workspace(context.Context) error {
	if err := b.open(); err != nil {
		return err
	}
	for _, wrap := range b.in.wrapFiles {
		b.Files = wrap(b.Files)
	}
	return nil
}

func (b *builder) open() error {
	roots := b.roots()
	if b.in.env.Files != nil {
		b.Files = b.in.env.Files
		b.pinned()
		if len(roots) > 0 {
			return wrong("WithRoot", "the workspace is on another machine, which has its own")
		}
		return nil
	}
	var opts []workspace.Option
	for _, r := range roots {
		opts = append(opts, workspace.WithRoot(r.Name, r.Dir))
	}
	ws, err := workspace.Open(b.dir, opts...)
	if err != nil {
		return err
	}
	b.onClose(ws)
	b.Files, b.Workspace = ws, ws
	if b.in.store != nil && b.in.settings.Session.Snapshots {
		b.recs = snapshot.New(ws)
		b.Files = b.recs
	}
	return nil
}

// roots returns the further directories of the workspace.
func (b *builder) roots() []workspace.Root {
	all := slices.Clone(b.in.roots)
	for _, name := range slices.Sorted(maps.Keys(b.in.settings.Tools.Dirs)) {
		if !slices.ContainsFunc(all, func(r workspace.Root) bool { return r.Name == name }) {
			all = append(all, workspace.Root{Name: name, Dir: b.in.settings.Tools.Dirs[name]})
		}
	}
	return all
}

// places tells a policy what the directories of the workspace are.
func (r *Runtime) places() []policy.Option {
	opts := []policy.Option{policy.WithWorkspace(r.Files.Dir()), policy.WithDir(r.Shell.DirOf)}
	if r.Workspace != nil {
		for _, root := range r.Workspace.Roots()[1:] {
			opts = append(opts, policy.WithRoot(root.Name, root.Dir))
		}
	}
	return opts
}

// tools makes the tools of the model.
func (b *builder) tools(ctx context.Context) error {
	c := b.in.settings.Tools
	jobs, err := background.New(background.WithLimits(background.Limits{Agents: c.Agents, Commands: c.Commands}))
	if err != nil {
		return err
	}
	b.Jobs, b.Shell, b.Todos = jobs, new(tools.Shell), new(tools.TodoList)
	b.Ignored = strings.Join(slices.Concat(b.in.ignored, c.Ignore), "\n")
	b.onClose(jobs)
	b.onClose(b.Shell)
	opts, err := b.toolOptions(ctx)
	if err != nil {
		return err
	}
	coding, err := tools.Coding(b.Files, opts...)
	if err != nil {
		return err
	}
	b.Tools = slices.Concat(coding, b.Tools, b.in.env.Tools, b.in.more) // those of the ambient sources are there already
	for _, step := range []func() error{
		func() error { return b.linked(opts) },
		func() error { return b.pluginTools(opts) },
		func() error { return b.servers(ctx) },
		func() error { return b.pluginServers(ctx) },
		b.agentServers,
		b.searching,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	sub := new(agents)
	b.agentTools = b.Tools
	if err := b.general(sub); err != nil {
		return err
	}
	b.Tools = append(b.Tools, sub)
	b.filter()
	b.served.keep(b.Tools)
	b.OtherAgents = slices.DeleteFunc(b.OtherAgents, func(t aycoder.Tool) bool { return !named(b.Tools, t.Spec().Name) })
	b.withholdSkills()
	b.agentTools = slices.Clone(b.Tools)
	if err := b.agents(ctx, sub); err != nil { // again, without the tools that were left out
		return err
	}
	b.prepareCommands(ctx)
	return nil
}

// linked makes the checks and tools of packages that only some programs link.
func (b *builder) linked(opts []tools.Option) error {
	c := b.in.settings.Tools
	if on := b.in.ambient; b.in.code != nil && (len(c.Code) > 0 || !b.in.distrust && (on[Map] || on[Git])) {
		var err error
		if b.code, err = b.in.code(b.Runtime); err != nil {
			return wrong("WithCode", "%w", err)
		}
		if b.code.Close != nil {
			b.closers = append(b.closers, b.code.Close)
		}
	}
	if len(c.Code) > 0 && b.code.Tools != nil {
		more, err := b.code.Tools(c.Code)
		if err != nil {
			return wrong("tools.code", "%w", err)
		}
		b.Tools = append(b.Tools, more...)
	}
	if slices.Contains(c.Code, "context") && b.code.Context != nil && !b.in.distrust {
		var err error
		if b.related, err = b.code.Context(b.masked); err != nil {
			return wrong("tools.code", "%w", err)
		}
	}
	if len(c.Insight) > 0 {
		more, err := b.in.insight(b.Runtime, b.in.store, c.Insight)
		if err != nil {
			return wrong("tools.insight", "%w", err)
		}
		b.Tools = append(b.Tools, more...)
	}
	return b.checkers(opts)
}

// checkers makes the checkers and the language servers.
func (b *builder) checkers(opts []tools.Option) error {
	s := b.in.settings
	if len(s.Tools.Checks)+len(s.LanguageServers) == 0 {
		return nil
	}
	exec, err := tools.LocalExec(opts...) // or that of the environment
	if err != nil {
		return err
	}
	start, err := tools.LocalStart(opts...)
	if err != nil {
		return err
	}
	if names := slices.Sorted(maps.Keys(s.LanguageServers)); len(names) > 0 && (start == nil || b.Workspace == nil) {
		b.Notify("checks", "no language server runs, since the workspace or its commands are on another machine: "+strings.Join(names, ", "))
		s.LanguageServers = nil
	}
	if b.checks, err = b.in.checks(b.Runtime, exec, start, s); err != nil {
		return wrong("WithChecks", "%w", err)
	}
	if b.checks.Close != nil {
		b.closers = append(b.closers, b.checks.Close)
	}
	for _, t := range b.checks.Tools {
		if b.masker != nil {
			t = b.masker.Wrap(b.Files, t)
		}
		b.Tools = append(b.Tools, t)
	}
	return nil
}

func (b *builder) toolOptions(ctx context.Context) ([]tools.Option, error) {
	c := b.in.settings.Tools
	opts := []tools.Option{
		tools.WithShell(b.Shell), tools.WithBackground(b.Jobs), tools.WithTodoList(b.Todos), tools.WithMasking(c.Mask),
		tools.WithEnv(c.Env...), tools.WithPrivateHosts(c.PrivateHosts...), tools.WithIgnored(b.Ignored),
	}
	if b.masker != nil {
		opts = append(opts, tools.WithMasker(b.masker))
	}
	if c.Memory != 0 {
		opts = append(opts, tools.WithMemoryLimit(c.Memory))
	}
	if b.in.env.Exec != nil {
		opts = append(opts, tools.WithExec(b.in.env.Exec))
	}
	box, err := b.sandbox(ctx)
	if err != nil {
		return nil, err
	}
	opts = append(opts, box...)
	if b.recs != nil {
		opts = append(opts, tools.WithExecMiddleware(b.recs.Exec))
	}
	return append(opts, b.in.tools...), nil
}

// filter leaves out the tools that the configuration and the host do not want.
func (b *builder) filter() {
	off := b.in.settings.Tools.Disabled
	b.all = slices.Clone(b.Tools)
	for _, name := range off {
		if !named(b.Tools, name) {
			b.Notify("config", fmt.Sprintf("tools.disabled: there is no tool %q", name))
		}
	}
	b.off.Store(&off)
	b.Tools = slices.DeleteFunc(b.Tools, b.isOff)
	if b.in.pick != nil {
		b.Tools = b.in.pick(b.Tools)
	}
}

// approver makes the policy, and what is around it.
func (b *builder) approver(context.Context) error {
	if b.Approver = b.in.approver; b.Approver == nil {
		p, err := policy.New(b.policyOptions()...)
		if err != nil {
			return err
		}
		if err := p.Configure(policy.Configured{Least: b.in.settings.Approval.Least, Rules: rulesOf(b.in.settings)}); err != nil {
			return err
		}
		b.Policy, b.Approver = p, p
	}
	b.Approver = &limitApprover{b.Approver, b.Runtime}
	if b.Hooks != nil {
		b.Approver = b.Hooks.Approver(b.Approver)
	}
	if b.in.wrap != nil {
		b.Approver = b.in.wrap(b.Approver)
	}
	return nil
}

// hooks makes what runs the hooks of the configuration.
func (b *builder) hooks(context.Context) error {
	list := b.hookList(b.in.settings.Hooks)
	if len(list) == 0 && b.in.reloader == nil {
		return nil
	}
	exec := b.in.env.Exec
	if exec == nil {
		var err error
		if exec, err = tools.LocalExec(); err != nil {
			return err
		}
	}
	r, err := hooks.New(hooks.Config{
		Hooks: list, Exec: exec, Root: b.Files.Dir(), Env: tools.Environ(exec), Session: b.id, Dir: b.Shell.DirOf,
		Mode: b.permissionMode, Mask: b.masked, Report: b.report,
	})
	b.Hooks = r
	return err
}

// permissionMode is the mode of approvals as hooks know it.
func (b *builder) permissionMode() string {
	if b.Policy == nil {
		return dialect.Mode("")
	}
	return dialect.Mode(string(b.Policy.Mode()))
}

// hookList returns hooks of the configuration as package hooks runs them, those of plugins, and those of the host.
func (b *builder) hookList(all []config.Hook) (list []hooks.Hook) {
	for _, h := range all {
		list = append(list, b.hook(h))
	}
	return append(append(list, b.pluginHooks()...), b.in.hooks...)
}

func (b *builder) hook(h config.Hook) hooks.Hook {
	out := hooks.Hook{
		Event: hooks.Event(h.Event), Matcher: h.Matcher, Command: h.Command, Timeout: h.Timeout, Source: h.Origin.String(),
	}
	for _, name := range h.Env {
		if value, ok := b.in.lookup(name); ok {
			out.Env = append(out.Env, name+"="+value)
		}
	}
	if verify := b.in.verify; verify != nil { // of this configuration, also after a change
		home := b.home(h.Origin)
		out.Verify = func() error { return errors.Join(home, verify(h.Origin)) }
	}
	return out
}

// home returns an error for a hook of a project that is not in the directory of the runtime: what the user trusts
// are the scripts of the project, and the hook would run others of the same names.
func (b *builder) home(at config.Origin) error {
	if at.Source != config.Project && at.Source != config.Local {
		return nil
	}
	root := filepath.Dir(filepath.Dir(at.File)) // see config.ProjectFile
	theirs, err := os.Stat(root)
	if err != nil {
		return err
	}
	if ours, err := os.Stat(b.Files.Dir()); err != nil || !os.SameFile(theirs, ours) {
		return fmt.Errorf("%s is trusted in %s, and would run in %s", at, root, b.Files.Dir())
	}
	return nil
}

// report tells the user what a hook says, or why it did not work.
func (b *builder) report(r hooks.Report) {
	text := r.Text
	if r.Err != nil {
		text = r.Err.Error()
	}
	b.Notify("hook", text)
}

func (b *builder) policyOptions() []policy.Option {
	opts := append(b.places(), policy.WithMode(b.in.settings.Approval.Mode), policy.WithTools(b.Tools...))
	return append(opts, b.in.policy...)
}

// context makes what chooses the contents of requests.
func (b *builder) context(ctx context.Context) error {
	opts := b.bounds(b.in.settings.Context)
	if b.Summary != nil {
		opts = append(opts, compaction.WithSummarizer(summarizer{b.Summary}, ""))
	}
	compactor, err := compaction.New(b.Client, opts...)
	if err != nil {
		return err
	}
	b.Compactor = compactor
	b.Tools = append(b.Tools, compactor.Recall())
	return b.system(ctx)
}

// bounds puts a window into force, and returns options for the compactor.
func (b *builder) bounds(c config.Context) []compaction.Option {
	b.window.Store(c.MaxTokens)
	opts := []compaction.Option{compaction.WithBytes(c.MaxBytes), compaction.WithFill(c.Fill), compaction.WithServer(c.Server)}
	if c.MaxTokens > 0 {
		opts = append(opts, compaction.WithWindow(c.MaxTokens))
	}
	return opts
}

// loop makes the agent.
func (b *builder) loop(context.Context) error {
	for _, note := range b.misnamed(b.in.settings) {
		b.Notify("config", note)
	}
	b.stages = staged(b.usual(), b.in.stages)
	var blocks []string
	for _, s := range b.Sections {
		blocks = append(blocks, s.Text)
	}
	a := b.in.settings.Agent
	opts := []aycoder.Option{
		aycoder.WithTools(b.Tools...), aycoder.WithApprover(b.Approver), aycoder.WithSystem(blocks...),
		aycoder.WithLimits(limitsOf(b.in.settings)), aycoder.WithRetry(aycoder.RetryPolicy{Attempts: a.Retries, Budget: a.RetryTime}),
		aycoder.WithThinking(a.Thinking), aycoder.WithWholeOutputs(b.Compactor.KeepOutput),
	}
	setup := b.turn(nil)
	if b.reload != nil {
		setup = both(b.reload.turn, setup)
	}
	if setup != nil {
		opts = append(opts, aycoder.WithSetup(setup))
	}
	opts = append(append(opts, stageOptions(b.stages)...), b.in.loop...)
	log, err := b.logs()
	if err != nil {
		return err
	}
	b.plain = append([]aycoder.Option{aycoder.WithApprover(b.Approver), aycoder.WithLimits(limitsOf(b.in.settings))}, log...)
	loop, err := aycoder.New(b.Client, append(opts, log...)...)
	if err != nil {
		return err
	}
	b.Loop, b.Agent = loop, &agent{Loop: loop, r: b.Runtime, repeat: b.in.settings.Session.RepeatReads}
	if b.Hooks != nil {
		b.Agent = b.Hooks.Agent(b.Agent)
	}
	return nil
}

// logs opens the files that session.audit and session.log name.
func (b *builder) logs() (opts []aycoder.Option, err error) {
	open := func(key, name string, to func(io.Writer) aycoder.Option) {
		switch {
		case name == "" || err != nil:
			return
		case !filepath.IsAbs(name):
			err = wrong(key, "%s is not an absolute path", name)
			return
		}
		f, failed := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if failed != nil {
			err = wrong(key, "%w", failed)
			return
		}
		b.onClose(f)
		opts = append(opts, to(f))
	}
	open("session.audit", b.in.settings.Session.Audit, func(w io.Writer) aycoder.Option {
		return aycoder.WithAudit(policy.NewAuditLog(w))
	})
	open("session.log", b.in.settings.Session.Log, func(w io.Writer) aycoder.Option {
		return aycoder.WithLogger(slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})))
	})
	return opts, err
}

// limitsOf returns the limits of runs.
func limitsOf(c config.Settings) aycoder.Limits {
	a, t := c.Agent, c.Tools
	return aycoder.Limits{
		Turns: a.MaxTurns, Calls: a.MaxCalls, Total: a.MaxTokens,
		ToolOutput: t.MaxOutput, Parallel: t.Parallel, Grace: t.Grace, Approval: c.Approval.Timeout,
	}
}

// session opens the conversation.
func (b *builder) session(ctx context.Context) error {
	if b.in.store == nil {
		return nil
	}
	opts := []session.Option{session.WithDir(b.Files.Dir()), session.WithCompactor(b.Compactor), session.WithValue("shell", b.Shell)}
	if b.in.settings.Session.Sync == "turns" {
		opts = append(opts, session.WithSync(session.SyncTurns))
	}
	if b.recs != nil {
		opts = append(opts, session.WithFiles(b.recs))
	}
	if b.Policy != nil {
		opts = append(opts, session.WithValue("policy", b.Policy))
	}
	for name, pot := range b.Budgets {
		opts = append(opts, session.WithValue("budget "+name, pot))
	}
	opts = append(append(opts, session.WithPrices(b.price)), b.in.session...)
	var err error
	if b.in.id == "" {
		b.Session, err = session.New(ctx, b.in.store, b.Agent, append(opts, session.WithID(b.id))...)
	} else {
		b.Session, err = session.Open(ctx, b.in.store, b.in.id, b.Agent, opts...)
	}
	if err != nil {
		return err
	}
	b.onClose(b.Session)
	b.Agent = b.Session
	return errors.Join(b.Session.Keep("todos", b.Todos), b.Session.SetBackground(ctx, b.Jobs, nil))
}

// wrapped puts around the agent what the host wants to have there.
func (b *builder) wrapped(context.Context) (err error) {
	for _, around := range b.in.around {
		wrap, end := around(b.Runtime)
		if wrap == nil {
			return wrong("WithAgentMiddleware", "the function is nil")
		}
		b.around = append(b.around, wrap)
		if end != nil {
			b.closers = append(b.closers, end)
		}
	}
	b.Agent, err = b.wrap(b.Agent)
	return err
}

// wrap puts around an agent what the host wants to have there.
func (r *Runtime) wrap(agent aycoder.Agent) (aycoder.Agent, error) {
	for _, wrap := range r.around {
		if agent = wrap(agent); agent == nil {
			return nil, wrong("WithAgentMiddleware", "the agent is nil")
		}
	}
	return agent, nil
}

func (b *builder) price(provider, model string) (aycoder.Price, bool) {
	info, ok := b.in.models.Lookup(provider, model)
	if !ok || info.Price == nil {
		return aycoder.Price{}, false
	}
	return *info.Price, true
}
