package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/linked"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	sessions "github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A session is an agent with the directory in which it works, and the conversation that it keeps.
type session struct {
	*harness.Runtime
	demo    bool
	kept    bool             // on disk
	graph   *codegraph.Graph // see code
	closers []func() error
	notes   []*aycoder.Notice // what the user has to know of it before a run

	reading    chan struct{} // is closed when the files are read that have changed: see reads
	endReading func()        // or nil
}

// open makes the agent, with its conversation: a new one, or the one that the flags name.
func (a *app) open(ctx context.Context, o *options, st *settings) (*session, error) {
	s := &session{}
	var err error
	switch st.model {
	case "":
		err = &noModelError{st.why}
	case demoModel:
		err = a.openDemo(ctx, s, o)
	default:
		err = a.openModel(ctx, s, o, st)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// openModel makes a session with a model that the settings name. The options of extensions, and then more, come last.
func (a *app) openModel(ctx context.Context, s *session, o *options, st *settings, more ...harness.Option) error {
	opts, err := s.options(ctx, o, st)
	if err != nil {
		return err
	}
	if err := s.converse(ctx, o, a.place(o, st), slices.Concat(opts, a.extra(), more)); err != nil {
		return err
	}
	if a.asks == nil { // a chat asks
		tellUnfinished(s.Runtime)
	}
	if !st.texts && hasTexts() {
		s.note("trust", "the instructions, skills and lessons of this project and the map of its code are off: you have not trusted them (see -trust)")
	}
	if a.asks == nil {
		for _, n := range s.notes {
			s.Notify(n.Source, n.Text)
		}
	}
	return nil
}

func (s *session) note(source, text string) {
	s.notes = append(s.notes, &aycoder.Notice{Source: source, Text: text})
}

// options returns what the settings say, and opens the user's directories.
func (s *session) options(ctx context.Context, o *options, st *settings) ([]harness.Option, error) {
	opts, err := st.options(o)
	if err != nil {
		return nil, err
	}
	own, err := st.own()
	if err != nil {
		return nil, err
	}
	if own != nil {
		s.closers = append(s.closers, own.Close)
		opts = append(opts, harness.WithUserFiles(own))
	}
	if excludes, err := tools.GitExcludes(ctx); err == nil { // else git cannot read them either
		opts = append(opts, harness.WithIgnored(excludes))
	}
	library, closers := st.library()
	s.closers = append(s.closers, closers...)
	opts = append(opts, harness.WithUserLibrary(library...))
	opts = append(opts, st.code(func(g *codegraph.Graph) { s.graph = g }))
	return append(opts, st.saved()...), nil
}

// code returns the code graph of the workspace. If the model has none, it makes one, and begins to read.
func (s *session) code() (*codegraph.Graph, error) {
	if s.graph != nil {
		return s.graph, nil
	}
	opts := []codegraph.Option{codegraph.WithMaxFiles(linked.MaxFiles), codegraph.WithIgnored([]byte(s.Ignored))}
	if s.Workspace != nil {
		opts = append(opts, codegraph.WithDir(s.Workspace.Dir()))
	}
	g, err := codegraph.New(s.Files, opts...)
	if err != nil {
		return nil, err
	}
	s.graph = g
	s.reads(g, 0)
	return g, nil
}

// reads looks for files that have changed, until all are read or the session is closed, and reports whether they are
// within a time.
func (s *session) reads(g *codegraph.Graph, within time.Duration) bool {
	select {
	case <-s.reading:
		s.reading = nil
	default:
	}
	if s.reading == nil {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		s.reading = done
		go func() {
			defer close(done)
			_, _ = g.Refresh(ctx) // after an error, the graph is as it was
		}()
		s.endReading = func() { stop(); <-done }
	}
	select {
	case <-s.reading:
		return true
	case <-time.After(within):
		return false
	}
}

// model returns the name of the model, which a change of the configuration may exchange.
func (s *session) model() string {
	namer, ok := aycoder.As[aycoder.ModelNamer](s.Client)
	switch {
	case s.demo:
		return demoModel
	case !ok:
		return ""
	}
	provider, name := namer.ModelName()
	return clean(provider + "/" + name)
}

// converse makes the agent with one of the conversations of a place.
func (s *session) converse(ctx context.Context, o *options, p *sessionPlace, opts []harness.Option) error {
	ids, err := p.choose(ctx, o)
	if err != nil {
		return err
	}
	passed := 0
	for _, id := range ids {
		err = s.build(ctx, ".", o, append(slices.Clip(opts), harness.WithStore(p.store, id, sessions.WithLateCreate())))
		if !is[*journal.BusyError](err) || o.resume != "" {
			break
		}
		passed++
	}
	if err != nil {
		return err
	}
	s.kept = p.kept
	switch {
	case passed > 0 && passed == len(ids)-1:
		s.note("session", "another process has the newest session of this directory open: this is a new one")
	case passed > 0:
		s.note("session", "another process has the newest session of this directory open: this is an older one")
	}
	if p.note != "" {
		s.note("session", p.note)
	}
	s.resumed(o)
	return nil
}

// resumed tells what is not as it was when the session was used last. A flag takes precedence over what the
// session has kept.
func (s *session) resumed(o *options) {
	for _, c := range s.Session.Changes() {
		s.note("session", c.String())
	}
	for _, err := range s.Session.Damage() {
		s.note("session", err.Error())
	}
	if o.mode != "" && s.Policy.Mode() != o.mode {
		if err := s.Policy.SetMode(o.mode); err != nil {
			s.note("config", err.Error())
		}
	}
}

// tellUnfinished tells of changes that a crash left half done, where nobody can be asked about them.
func tellUnfinished(rt *harness.Runtime) {
	if rt.Workspace == nil {
		return
	}
	for _, p := range rt.Workspace.Interrupted() {
		rt.Notify("session", unfinished(p)+"; aycoder in a terminal takes that back here, or leaves it")
	}
}

// unfinished describes a change that a crash left half done.
func unfinished(p *workspace.InterruptedPlan) string {
	return "a crash left a change of files half done: changed " + someOf(p.Done) + "; not changed yet " + someOf(p.Open)
}

const mostNames = 5 // of files in a line

// someOf lists names, of which there may be many.
func someOf(names []string) string {
	text := cmp.Or(strings.Join(names[:min(len(names), mostNames)], ", "), "none")
	if more := len(names) - mostNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return cleanLine(text)
}

// id returns the id of the session, or "" if nothing is kept of it.
func (s *session) id() string {
	if !s.kept {
		return ""
	}
	return s.Session.ID()
}

// close undoes everything, the last thing first.
func (s *session) close() {
	if s.endReading != nil {
		s.endReading()
	}
	for _, f := range slices.Backward(s.closers) {
		_ = f()
	}
}

// build makes the agent of a session for a directory.
func (s *session) build(ctx context.Context, dir string, o *options, opts []harness.Option) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if o.print && o.input == "" { // where nobody can be asked, a question ends the run
		opts = append(opts, harness.WithQuestions(aycoder.SuspendAsks))
	}
	for _, r := range o.roots {
		opts = append(opts, harness.WithRoot(r.Name, r.Dir))
	}
	if s.Runtime, err = harness.New(ctx, abs, opts...); err != nil {
		if len(o.roots) > 0 {
			return asSet(err, "WithRoot", "-add-dir")
		}
		return asSet(err, "WithRoot", "tools.dirs")
	}
	s.closers = append(s.closers, s.Close)
	allowed, err := parseRules(o.allow, s.Tools, s.OtherAgents...)
	if err != nil {
		return err
	}
	for _, r := range allowed {
		if err := s.Policy.KeepRule(ctx, aycoder.Session, r.String()); err != nil {
			return err
		}
	}
	return nil
}

// asSet names in an error of an option of the library what the user has set.
func asSet(err error, option, set string) error {
	if e, ok := errors.AsType[*aycoder.ConfigError](err); ok && e.Option == option {
		return &aycoder.ConfigError{Option: set, Err: e.Err}
	}
	return err
}

// parseRules parses the -allow flags. The questions of other agents are calls of tools, too, which they alone have.
func parseRules(flags []string, all []aycoder.Tool, agents ...aycoder.Tool) ([]policy.Rule, error) {
	var names []string
	for _, t := range all {
		names = append(names, t.Spec().Name)
	}
	var rules []policy.Rule
	for _, f := range flags {
		for _, text := range splitRules(f) {
			r, err := policy.ParseRule(policy.RuleAllow, text)
			if err != nil {
				return nil, err
			}
			asks := func(t aycoder.Tool) bool { return t.Spec().Name+"_permission" == r.Tool }
			if !slices.Contains(names, r.Tool) && !slices.ContainsFunc(agents, asks) {
				return nil, &aycoder.ConfigError{Option: "-allow " + text,
					Err: fmt.Errorf("no tool %q; there are %s", r.Tool, strings.Join(names, ", "))}
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// splitRules splits a list at its commas. Those behind the first colon belong to a pattern, which a model may have written: a
// suggested rule must not become two.
func splitRules(list string) []string {
	names, pattern, ok := strings.Cut(list, ":")
	rules := strings.Split(names, ",")
	if ok {
		rules[len(rules)-1] += ":" + pattern
	}
	return rules
}
