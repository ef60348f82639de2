package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/linked"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers"
	"github.com/aycoder/aycoder/workspace"
)

// settings are the configuration of the user and of the project, and what the user trusts.
type settings struct {
	home    string // the user's directory of configuration, or ""
	user    string // the user's own directory, or ""
	trust   *config.Trust
	from    []config.Option
	loaded  *config.Loaded
	model   string // "" if nothing names one, and there is none that could be used
	why     string // it is this one, or there is none, if nobody has named it
	guessed bool   // nothing is configured: the model is one of Ollama, the demo, or none
	fixed   bool   // the model does not follow the configuration, which does not name it
	texts   bool   // those of the project are trusted
	project string // the directory that this is asked about
	app     *app   // that reads it
}

// settings reads the configuration. The demo has none.
func (a *app) settings(o *options) (*settings, error) {
	if o.model == demoModel {
		return &settings{model: demoModel}, nil
	}
	st, err := a.load(o)
	if err != nil {
		return nil, err
	}
	a.choose(o, st)
	return st, nil
}

// load reads the configuration.
func (a *app) load(o *options) (*settings, error) {
	st := &settings{home: a.home(), user: cmp.Or(a.getenv("HOME"), a.getenv("USERPROFILE")), texts: o.trust, app: a}
	if st.home != "" {
		st.trust = config.NewTrust(filepath.Join(st.home, "trust.json"))
	}
	if st.project = "."; a.worktree != nil { // has the texts of the user's own working tree
		st.project = a.worktree.from
	}
	st.from = a.sources(o, st)
	var err error
	if st.loaded, err = config.Load(st.from...); err != nil {
		return nil, err
	}
	if a.worktree != nil && len(st.loaded.Questions) > 0 {
		if err := st.inherit(); err != nil {
			return nil, err
		}
	}
	if o.sandbox {
		if err := st.keepRequired(a, o); err != nil {
			return nil, err
		}
	}
	if q, err := textsOf(st.project); !st.texts && err == nil {
		st.texts, _, _ = st.trust.Decided(q) // an error is that of the file, and nothing in it counts
	}
	return st, nil
}

// inherit takes the answers of the user about their own working tree for what a worktree brings that is the same.
func (st *settings) inherit() (err error) {
	for _, q := range st.loaded.Questions {
		own := q
		own.Root = st.project
		if own, err = own.Bind(); err != nil || own.Hash != q.Hash {
			continue
		}
		if yes, known, err := st.trust.Decided(own); err == nil && known {
			_ = st.trust.Decide(context.Background(), q, yes) // or else the question stays
		}
	}
	st.loaded, err = config.Load(st.from...)
	return err
}

// keepRequired leaves the flag -sandbox out if the configuration requires a sandbox, which is stricter.
func (st *settings) keepRequired(a *app, o *options) error {
	without := *o
	without.sandbox = false
	from := a.sources(&without, st)
	loaded, err := config.Load(from...)
	if err == nil && loaded.Config.Sandbox.Mode == "required" {
		st.from, st.loaded = from, loaded
	}
	return err
}

// home returns the user's directory for configuration, or "" if the environment does not set one.
func (a *app) home() string {
	dir := cmp.Or(a.getenv("XDG_CONFIG_HOME"), a.getenv("APPDATA"))
	if home := a.getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "aycoder")
}

// managed is the file of the administrator.
func managed() string {
	if runtime.GOOS == "windows" {
		return `C:\ProgramData\aycoder\config.toml`
	}
	return "/etc/aycoder/config.toml"
}

// sources are the places of the configuration: a flag counts if it is given.
func (a *app) sources(o *options, st *settings) []config.Option {
	project := "."
	if dir, err := os.Getwd(); err == nil && o.dir != "" { // another runtime of the process may work elsewhere later
		project = dir
	}
	from := []config.Option{
		config.WithProject(project), config.WithManagedFile(managed()), config.WithTrust(st.trust), config.WithProfile(o.profile),
		config.WithForms(a.forms()...), config.WithEnviron(os.Environ()), config.WithLookPath(exec.LookPath),
		config.WithProviders(providers.Names()...),
		config.WithLookup(func(name string) (string, bool) {
			v := a.getenv(name)
			return v, v != ""
		}),
	}
	if st.home != "" {
		from = append(from, config.WithUserFile(filepath.Join(st.home, "config.toml")))
	}
	if o.baseURL == "" { // another service may need no key
		from = append(from, config.WithKeys(a.customaryKeys()))
	}
	return append(from, o.flags()...)
}

// flags are those of the command line that set keys of the configuration, if they are given.
func (o *options) flags() []config.Option {
	var from []config.Option
	add := func(flag, key, value string) {
		if value != "" {
			from = append(from, config.WithFlag(flag, key, value))
		}
	}
	add("-mode", "approval.mode", string(o.mode))
	add("-max-turns", "agent.max_turns", o.maxTurns)
	add("-max-cost", "agent.max_cost", o.maxCost)
	add("-log", "session.log", o.log)
	if o.sandbox {
		add("-sandbox", "sandbox.mode", "on")
	}
	return from
}

// options returns those of the runtime. It loads the configuration again, since the user may have answered
// questions.
func (st *settings) options(o *options) ([]harness.Option, error) {
	from := st.from
	if st.loaded.Config.Roles.Summary == "" {
		from = append(from, config.WithFlag("-model", "roles.summary", st.model))
	}
	follow, err := config.NewReloader(from...)
	if err != nil {
		return nil, err
	}
	opts := []harness.Option{
		harness.WithReloader(follow), harness.WithLookup(os.LookupEnv), harness.WithOpener(st.opener(o.baseURL)),
		harness.WithAmbient(harness.Ambients()...), harness.WithProjectTexts(st.texts), harness.WithChecks(linked.Checks),
		harness.WithInsight(linked.Insight(st.app.dismissals)),
	}
	if st.fixed {
		opts = append(opts, harness.WithModel(st.model))
	}
	if st.trust != nil {
		opts = append(opts, harness.WithTrust(st.trust))
	}
	if store := st.plugins(); store != nil {
		opts = append(opts, harness.WithPlugins(store))
	}
	return opts, nil
}

// code returns the option for the code graph, which told gets as well: see [linked.Code].
func (st *settings) code(told func(*codegraph.Graph)) harness.Option {
	return harness.WithCode(linked.Code(st.app.graphs, cmp.Or(st.app.mapWait, linked.MapWait), told))
}

// opener returns what opens models: those of the main model's provider at the address of the flag, if it is given.
// A project cannot set that address, since the key goes there. Where nothing else has a key, the one that the user has
// entered counts, and goes nowhere but to the provider or the address of the flag.
func (st *settings) opener(base string) harness.Opener {
	provider, _, _ := strings.Cut(st.model, "/")
	if m, ok := st.loaded.Config.Models[st.model]; ok {
		provider = m.Provider
	}
	return func(ctx context.Context, spec harness.ModelSpec) (aycoder.ModelClient, error) {
		if spec.Key == "" && spec.BaseURL == "" {
			spec.Key = st.app.enteredKey(spec.Provider)
		}
		if base != "" && spec.Provider == provider {
			spec.BaseURL = base
		}
		return linked.Open(ctx, spec)
	}
}

// own opens the user's directory for instructions, skills and lessons of all projects, if there is one.
func (st *settings) own() (*workspace.Workspace, error) {
	if info, err := os.Stat(st.home); st.home == "" || err != nil || !info.IsDir() {
		return nil, nil
	}
	return workspace.Open(st.home)
}

// library opens the directories in which other programs keep commands, agents and skills of the user. One that cannot be
// opened is as if it were not there.
func (st *settings) library() (sources []project.Source, closers []func() error) {
	for _, name := range []string{".claude", ".agents"} {
		if !filepath.IsAbs(st.user) {
			break
		}
		dir := filepath.Join(st.user, name)
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if ours, err := os.Stat(name); err == nil && os.SameFile(ours, info) && st.texts {
			continue // it is that of the project
		}
		ws, err := workspace.Open(dir)
		if err == nil {
			sources = append(sources, project.Source{Files: ws, Roots: []string{"."}, Label: "~/" + name})
			closers = append(closers, ws.Close)
		}
	}
	return sources, closers
}

// saved returns the option for rules that were saved for this directory, which hold in it.
func (st *settings) saved() []harness.Option {
	dir, err := filepath.Abs(".")
	if st.home == "" || err != nil {
		return nil
	}
	return []harness.Option{harness.WithPolicyOptions(policy.WithFile(filepath.Join(st.home, "rules-"+nameOf(dir)+".json")))}
}

// kindTexts asks about all texts of a project: they are read by the model, and change with every pull.
const kindTexts config.Kind = "texts"

// textsOf returns the question about the texts of a project. The answer is for the directory, whatever is in it.
func textsOf(dir string) (config.Question, error) {
	abs, err := filepath.Abs(dir)
	return config.Question{Kind: kindTexts, Root: abs, Hash: "directory"}, err
}

// places of texts that are worth a question, beside a repository, which has code, of which the model gets a map.
var textPlaces = []string{
	"AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".github/copilot-instructions.md", ".aycoder", ".claude", ".agents",
}

// hasTexts reports whether the project has texts that are worth a question.
func hasTexts() bool {
	there := func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	}
	found := slices.ContainsFunc(textPlaces, there)
	dir, err := os.Getwd()
	for above := ""; !found && err == nil && dir != above; above, dir = dir, filepath.Dir(dir) {
		found = there(filepath.Join(dir, ".git"))
	}
	return found
}

// questions returns what the user has not decided on: the parts of the configuration, and the texts of the project
// if there are any.
func (st *settings) questions() ([]config.Question, error) {
	all := st.loaded.Questions
	q, err := textsOf(st.project)
	if err != nil || st.texts {
		return all, err
	}
	if _, known, err := st.trust.Decided(q); known || err != nil || !hasTexts() {
		return all, err
	}
	return append([]config.Question{q}, all...), nil
}

// trusts asks about what the project brings, and stores the answers. Without an answer, it stays off.
func (c *chat) trusts(ctx context.Context, st *settings) error {
	if st.trust == nil || st.model == demoModel || st.model == "" {
		return nil // there is no place for an answer, or nothing that would use it
	}
	questions, err := st.questions()
	if err != nil {
		return err
	}
	for _, q := range questions {
		if _, err := c.decide(ctx, st, q); errors.Is(err, errNoAnswer) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// trustAgain asks about the texts of the project, whatever was answered before, and about what is not decided.
func (c *chat) trustAgain(ctx context.Context, _ string) (string, error) {
	st := c.settings
	if st.trust == nil {
		return "", errors.New("there is no place for an answer: HOME is not set")
	}
	q, err := textsOf(st.project)
	if err != nil {
		return "", err
	}
	was, _, err := st.trust.Decided(q)
	if err != nil {
		return "", err
	}
	yes, err := c.decide(ctx, st, q)
	if err != nil {
		return "", err
	}
	if st.texts = yes; yes != was {
		c.prose("", "This takes effect with the next conversation (/resume, or when you start again).")
	}
	return "", c.reload(ctx)
}

var errNoAnswer = errors.New("end of input: nobody is there to answer")

// decide asks one question, and stores the answer.
func (c *chat) decide(ctx context.Context, st *settings, q config.Question) (yes bool, err error) {
	c.brings(q)
	key, err := c.answerKey("Do you trust this?", yesNo)
	if err != nil {
		return false, err
	}
	if key == endOfInput {
		return false, errNoAnswer
	}
	yes = key == 'y'
	st.texts = st.texts || yes && q.Kind == kindTexts
	return yes, st.trust.Decide(ctx, q, yes)
}

// reload reads the configuration again, and asks about what has come.
func (c *chat) reload(ctx context.Context) error {
	if c.settings.trust == nil {
		return errors.New("there is no configuration")
	}
	if err := c.session.Reload(ctx); err != nil {
		return err
	}
	c.settings.loaded = c.session.Config()
	if len(c.settings.loaded.Questions) == 0 {
		return nil
	}
	if err := c.trusts(ctx, c.settings); err != nil {
		return err
	}
	return c.session.Reload(ctx)
}

// brings shows what a project brings.
func (c *chat) brings(q config.Question) {
	c.fresh()
	c.whole = true
	defer func() { c.whole = false }()
	what := map[config.Kind]string{
		kindTexts:           "texts of this project for the model: instructions, skills, commands, agents, lessons, a map of its code",
		config.KindSettings: "settings of this project",
		config.KindHook:     "a command that would run by itself",
		config.KindServer:   "a server that would be started or connected to",
		harness.KindCommand: "commands in a prompt of this project, which run when you call it",
	}[q.Kind]
	c.headline(cmp.Or(what, words(string(q.Kind))), "")
	show := func(name string, list ...string) {
		if text := strings.Join(list, ", "); text != "" {
			c.plain(name + ": " + text)
		}
	}
	root, _ := filepath.Abs(q.Root)
	show("project", root)
	if q.File != "" {
		show("file", strings.TrimSuffix(fmt.Sprint(q.File, ":", q.Line), ":0")) // if there is a line
	}
	show("command", q.Command)
	show("address", q.Address)
	show("scripts", q.Scripts...)
	show("variables that it gets", q.Variables...)
}
