package harness

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"slices"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/harness/plugin"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// Option configures a runtime in [New]. Options are applied in order: a later one replaces an earlier one of the
// same kind, except for those that append, as their comments say.
type Option func(*setup) error

// An Ambient is something that a runtime takes from its surroundings, and only if it is named in [WithAmbient].
type Ambient string

const (
	// Instructions are AGENTS.md and the like, in the project and in the directory of [WithUserFiles]. They are part
	// of the system prompt, and those of a directory come with the first file that is read there.
	Instructions Ambient = "instructions"
	// Skills are the skills of the same places, and their commands and agents: see [Runtime].Library.
	Skills Ambient = "skills"
	// Lessons are the lessons and notes of the same places: see package memory.
	Lessons Ambient = "lessons"
	// Map is a description of the project in the system prompt: that of [WithCode], and a list of at most 60 files and
	// directories.
	Map Ambient = "map"
	// Git is the state of the repository at the end of each request, if [WithCode] knows it: the branch, and which files
	// have changed.
	Git Ambient = "git"
)

// Ambients returns all of them.
func Ambients() []Ambient { return []Ambient{Instructions, Skills, Lessons, Map, Git} }

// ModelSpec says which client an [Opener] is to open.
type ModelSpec struct {
	// Provider and Model name the model.
	Provider, Model string
	// Key is the API key, or "" for what the provider's own variable says. BaseURL is "" for the usual address.
	Key, BaseURL string
	// Headers are sent with each request.
	Headers map[string]string
	// MaxTokens and IdleTimeout are 0 for what the provider has.
	MaxTokens   int
	IdleTimeout time.Duration
	// HTTP is the client to use, or nil.
	HTTP *http.Client
}

// An Opener opens the client of a model. It returns an error that is [ErrNotLinked] for a provider that the
// program does not link.
type Opener func(ctx context.Context, spec ModelSpec) (aycoder.ModelClient, error)

// ErrNotLinked is the cause of the error for what a configuration needs and a program does not link.
var ErrNotLinked = errors.New("this program does not have it")

// setup is what options set.
type setup struct {
	settings   config.Settings
	configured bool // settings are given
	loaded     *config.Loaded
	verify     func(config.Origin) error
	reloader   *config.Reloader
	model      string
	client     aycoder.ModelClient
	small      aycoder.ModelClient
	summary    aycoder.ModelClient
	open       Opener
	connect    Connector
	openAgent  AgentOpener
	lookup     func(string) (string, bool)
	models     *catalog.Catalog

	env       Environment // zero for the directory of New
	wrapFiles []func(tools.FS) tools.FS
	servers   map[string]config.Server // besides those of the configuration
	userFiles tools.FS
	library   []project.Source // further ones of the user
	roots     []workspace.Root
	ambient   map[Ambient]bool
	around    []aroundFunc
	plugins   *plugin.Store
	distrust  bool // texts of the project are left out
	code      func(*Runtime) (Code, error)
	checks    Checker
	insight   Insighter

	sections []Section
	stages   []Stage
	ignored  []string
	more     []aycoder.Tool
	pick     func([]aycoder.Tool) []aycoder.Tool
	wrap     func(aycoder.Approver) aycoder.Approver
	approver aycoder.Approver
	store    journal.Store
	id       string
	session  []session.Option // further ones
	trust    *config.Trust
	loop     []aycoder.Option
	tools    []tools.Option
	policy   []policy.Option
	hooks    []hooks.Hook
}

// setting returns an option that cannot fail.
func setting(f func(*setup)) Option {
	return func(s *setup) error {
		f(s)
		return nil
	}
}

// required returns an option whose value must be there.
func required(option string, ok bool, f func(*setup)) Option {
	if !ok {
		return func(*setup) error { return wrong(option, "is nil") }
	}
	return setting(f)
}

// WithSettings sets the configuration. Default: the defaults of package config. Pass what [config.Load] has read to
// [WithConfig].
func WithSettings(c config.Settings) Option {
	return setting(func(s *setup) { s.settings, s.verify, s.configured = c, nil, true })
}

// WithConfig sets the configuration that was loaded. Its warnings, also about what the user has not decided
// on, are notices of the first run. Right before a hook of a project runs, or a tool of a server of a project, the scripts
// of the hook or server are compared with what the user trusts.
func WithConfig(l *config.Loaded) Option {
	return required("WithConfig", l != nil, func(s *setup) {
		s.settings, s.verify, s.loaded, s.configured = l.Config.Settings, l.Verify, l, true
	})
}

// WithClient sets the model of the role main, in place of that of the configuration.
func WithClient(m aycoder.ModelClient) Option {
	return required("WithClient", m != nil, func(s *setup) { s.client = m })
}

// WithSmallClient sets the model of the role small, in place of that of the configuration.
func WithSmallClient(m aycoder.ModelClient) Option {
	return required("WithSmallClient", m != nil, func(s *setup) { s.small = m })
}

// WithSummaryClient sets the model of the role summary, in place of that of the configuration.
func WithSummaryClient(m aycoder.ModelClient) Option {
	return required("WithSummaryClient", m != nil, func(s *setup) { s.summary = m })
}

// WithModel names the model of the role main: a name of the configuration, or "provider/model".
func WithModel(name string) Option {
	return setting(func(s *setup) { s.model = name })
}

// WithOpener sets the function that opens models. Default: none, so that only WithClient works.
func WithOpener(open Opener) Option {
	return required("WithOpener", open != nil, func(s *setup) { s.open = open })
}

// WithLookup sets the function that reads variables of the environment, such as [os.LookupEnv], for the keys
// that the configuration names. Default: there are none.
func WithLookup(lookup func(name string) (string, bool)) Option {
	return required("WithLookup", lookup != nil, func(s *setup) { s.lookup = lookup })
}

// WithCatalog sets the data about models: prices, which budgets and sessions use, and windows, see [Runtime.Window].
// Default: [catalog.Default].
func WithCatalog(c *catalog.Catalog) Option {
	return required("WithCatalog", c != nil, func(s *setup) { s.models = c })
}

// WithFileMiddleware wraps the files on which the tools work, such as with the unsaved buffers of an editor. The
// runtime closes only what is inside, and a session still holds the files of a workspace on this machine. Of several
// options, the last is the outermost. Default: none.
func WithFileMiddleware(wrap func(tools.FS) tools.FS) Option {
	return required("WithFileMiddleware", wrap != nil, func(s *setup) { s.wrapFiles = append(s.wrapFiles, wrap) })
}

// WithServer adds a server to those of the configuration, such as one that an editor passes to its agents. It counts
// as the user's own. If the configuration has one of the same name, that one stays, and a notice says so.
func WithServer(name string, c config.Server) Option {
	return setting(func(s *setup) { s.servers[name] = c })
}

// WithRoot adds a further directory to the workspace, whose files are "name:/path" for the model and in
// rules: see [workspace.WithRoot]. The name takes precedence over that of the configuration (tools.dirs). It
// appends, and does not go with [WithEnvironment]. Default: the directories of the configuration.
func WithRoot(name, dir string) Option {
	return setting(func(s *setup) { s.roots = append(s.roots, workspace.Root{Name: name, Dir: dir}) })
}

// WithUserFiles sets the user's own directory, such as ~/.config/aycoder, opened as a workspace. [WithAmbient]
// says what is read there. Default: none.
func WithUserFiles(files tools.FS) Option {
	return required("WithUserFiles", files != nil, func(s *setup) { s.userFiles = files })
}

// WithUserLibrary sets further directories of the user, the nearest first, in which commands, agents and skills are looked
// for after that of [WithUserFiles], such as ~/.claude. Nothing else is read there, and only with the ambient Skills.
// Default: none.
func WithUserLibrary(sources ...project.Source) Option {
	return setting(func(s *setup) {
		s.library = slices.Clone(sources)
		for i := range s.library {
			s.library[i].User = true
		}
	})
}

// WithAmbient switches on what a runtime takes from its surroundings. Texts of a project are those of its
// authors: a host asks its user first whether to trust them. It appends.
func WithAmbient(names ...Ambient) Option {
	return func(s *setup) error {
		for _, n := range names {
			if !slices.Contains(Ambients(), n) {
				return wrong("WithAmbient", "there is no %s", n)
			}
			s.ambient[n] = true
		}
		return nil
	}
}

// WithProjectTexts sets whether [WithAmbient] takes instructions, skills, commands, agents and lessons from the
// project, besides those of the user, and a map of it that has more than short names of files. A host that asks its
// user about them passes the answer. Default: true.
func WithProjectTexts(trusted bool) Option {
	return setting(func(s *setup) { s.distrust = !trusted })
}

// Code tells the model about the code of a workspace. A function that is nil does nothing.
type Code struct {
	// Map describes the project for the ambient Map. It is called once, in [New].
	Map func(ctx context.Context) (string, error)
	// Tail adds the state of the repository to requests, for the ambient Git.
	Tail aycoder.ContextMiddleware
	// Context makes what adds parts of files to requests, if tools.code has context. mask hides secrets.
	Context func(mask func(text string) string) (aycoder.ContextMiddleware, error)
	// Tools makes the tools of tools.code.
	Tools func(names []config.Code) ([]aycoder.Tool, error)
	// Close is called when the runtime is closed.
	Close func() error
}

// WithCode sets what knows the code of a workspace, such as the code graph of package linked. open is called in [New] if
// something of it is wanted. Unless the texts of the project are trusted, see [WithProjectTexts], only the tools are.
// Default: none, and a configuration with tools.code is an error.
func WithCode(open func(rt *Runtime) (Code, error)) Option {
	return required("WithCode", open != nil, func(s *setup) { s.code = open })
}

// Checks look at what tools change. A field that is nil does nothing.
type Checks struct {
	// Around adds to the result of a call what checkers and language servers find.
	Around aycoder.ToolMiddleware
	// Tools ask language servers.
	Tools []aycoder.Tool
	// Close is called when the runtime is closed.
	Close func() error
}

// A Checker makes what runs checkers and language servers: tools.checks and language_servers of s. The runtime is complete when
// Around is first called. exec runs commands as bash does, and start starts programs that stay, in the same sandbox: see
// [tools.LocalStart]. No language servers are there if the workspace or the commands of bash are on another machine, which
// is a notice.
type Checker func(rt *Runtime, exec tools.Exec, start func(context.Context, *exec.Cmd) error, s config.Settings) (Checks, error)

// WithChecks sets what makes checkers and language servers, such as that of package linked. Default: none, and a configuration that
// names some is an error.
func WithChecks(c Checker) Option {
	return required("WithChecks", c != nil, func(s *setup) { s.checks = c })
}

// An Insighter makes the tools of tools.insight. store is that of [WithStore], or nil.
type Insighter func(rt *Runtime, store journal.Store, names []config.Insight) ([]aycoder.Tool, error)

// WithInsight sets what makes the tools of tools.insight, such as that of package linked. Default: none, and a configuration that
// names some is an error.
func WithInsight(i Insighter) Option {
	return required("WithInsight", i != nil, func(s *setup) { s.insight = i })
}

// WithSection replaces the section of the system prompt with this name, removes it if text is "", or adds one at
// the end. It appends.
func WithSection(name, text string) Option {
	return setting(func(s *setup) { s.sections = append(s.sections, Section{name, text}) })
}

// WithStage replaces the stage with the name of st, removes it if st has no function, or adds st around the
// others. It appends.
func WithStage(st Stage) Option {
	return func(s *setup) error {
		if st.Name == "" {
			return wrong("WithStage", "the stage has no name")
		}
		s.stages = append(s.stages, st)
		return nil
	}
}

// WithAgentMiddleware wraps the agents of the runtime, such as to tell others of their events. around gets the runtime when
// all else is made, and returns what wraps an agent: [Runtime].Agent, around its session, and those of [Runtime.Caller]. It
// also returns what to call when the runtime is closed, before the session is, or nil. Of several options, the last is the
// outermost. Default: none.
func WithAgentMiddleware(around func(*Runtime) (wrap func(aycoder.Agent) aycoder.Agent, end func() error)) Option {
	return required("WithAgentMiddleware", around != nil, func(s *setup) { s.around = append(s.around, around) })
}

type aroundFunc = func(*Runtime) (wrap func(aycoder.Agent) aycoder.Agent, end func() error)

// WithIgnored adds patterns, as in .gitignore, of files that searches and the code graph leave out, such as those of
// [tools.GitExcludes]. Those of the configuration and of the workspace take precedence. It appends.
func WithIgnored(patterns string) Option {
	return setting(func(s *setup) { s.ignored = append(s.ignored, patterns) })
}

// WithTools adds tools. It appends.
func WithTools(more ...aycoder.Tool) Option {
	return required("WithTools", !slices.Contains(more, nil), func(s *setup) { s.more = append(s.more, more...) })
}

// WithAskUser adds the tool ask_user, whose questions go to ask: see [tools.AskUser]. Default: the model has no such tool.
func WithAskUser(ask func(context.Context, tools.Question) (tools.Answer, error)) Option {
	return func(s *setup) error {
		t, err := tools.AskUser(ask)
		if err != nil {
			return wrong("WithAskUser", "%w", err)
		}
		s.more = append(s.more, t)
		return nil
	}
}

// WithToolFilter sets a function that gets all tools, and returns those that the model may call.
func WithToolFilter(pick func([]aycoder.Tool) []aycoder.Tool) Option {
	return required("WithToolFilter", pick != nil, func(s *setup) { s.pick = pick })
}

// WithApprover replaces the policy. Hooks are still around it.
func WithApprover(a aycoder.Approver) Option {
	return required("WithApprover", a != nil, func(s *setup) { s.approver = a })
}

// WithQuestions sets what becomes of questions to the user, such as [aycoder.DenyAsks] or [aycoder.SuspendAsks]
// where nobody is there. Default: they are events of the run.
func WithQuestions(wrap func(aycoder.Approver) aycoder.Approver) Option {
	return required("WithQuestions", wrap != nil, func(s *setup) { s.wrap = wrap })
}

// WithHooks adds hooks of the host, after those of the configuration and of plugins: see [hooks.Hook.Call] for those that
// are functions. It appends.
func WithHooks(list ...hooks.Hook) Option {
	return func(s *setup) error {
		s.hooks = append(s.hooks, list...)
		return hooks.Check(list)
	}
}

// WithStore keeps the conversation in a store: the session with the id, or a new one if id is "". The options are
// further ones of the session, such as [session.WithLateCreate]. Default: no session, so that the host keeps the
// messages.
func WithStore(store journal.Store, id string, opts ...session.Option) Option {
	return required("WithStore", store != nil, func(s *setup) { s.store, s.id, s.session = store, id, opts })
}

// WithTrust sets the answers of the user about commands of the project that run a shell: see [Runtime.Expand].
// Default: nothing is trusted.
func WithTrust(t *config.Trust) Option {
	return required("WithTrust", t != nil, func(s *setup) { s.trust = t })
}

// WithLoopOptions adds options of [aycoder.New], after those of the runtime. It appends.
func WithLoopOptions(opts ...aycoder.Option) Option {
	return setting(func(s *setup) { s.loop = append(s.loop, opts...) })
}

// WithToolOptions adds options of package tools, after those of the runtime. It appends.
func WithToolOptions(opts ...tools.Option) Option {
	return setting(func(s *setup) { s.tools = append(s.tools, opts...) })
}

// WithPolicyOptions adds options of package policy, after those of the runtime. It appends.
func WithPolicyOptions(opts ...policy.Option) Option {
	return setting(func(s *setup) { s.policy = append(s.policy, opts...) })
}
