package config

import (
	"time"

	"github.com/aycoder/aycoder/policy"
)

// Config is a whole configuration: the settings, and profiles that replace some of them. It is plain
// data. Its zero value is not the default configuration, which [Load] returns without options.
type Config struct {
	Settings
	// Named sets of settings. Those of the chosen profile take precedence over the other settings of
	// the same file.
	Profile map[string]Settings `toml:"profile"`
}

// Settings are all settings of a runtime.
type Settings struct {
	// The models, each under a name that roles and fallbacks refer to.
	Models map[string]Model `toml:"models"`
	// Which model does which work.
	Roles Roles `toml:"roles"`
	// The system prompt and the limits of a run.
	Agent Agent `toml:"agent"`
	// Named pots of money, tokens and working time that several runs share.
	Budgets map[string]Budget `toml:"budgets"`
	// How conversations are kept within the window of the model.
	Context Context `toml:"context"`
	// The tools and their limits.
	Tools Tools `toml:"tools"`
	// Which calls of tools need the approval of the user.
	Approval Approval `toml:"approval"`
	// The confinement of commands.
	Sandbox Sandbox `toml:"sandbox"`
	// Where conversations are stored, and what is stored with them.
	Session Session `toml:"session"`
	// Commands that run at events of a run. The hooks of all files add up.
	Hooks []Hook `toml:"hooks"`
	// Servers of the Model Context Protocol, whose tools the model may call.
	Servers map[string]Server `toml:"servers"`
	// Other agents, to which the model may give tasks: programs that speak the Agent Client Protocol, each under the name
	// of its tool. A file of a project sets nothing of them.
	AgentServers map[string]AgentServer `toml:"agent_servers"`
	// Language servers, which tell of new errors after an edit, and answer the model's questions about names. Each is a table
	// under a name: that of a known one, such as gopls, needs nothing more. They run code of the project, so they also need a
	// rule or a mode that allows their command. A file of a project sets nothing of them.
	LanguageServers map[string]LanguageServer `toml:"language_servers"`
	// How a program in a terminal looks and behaves.
	Terminal Terminal `toml:"terminal"`
	// Which other programs a program that serves sessions tells what agents do.
	Serve Serve `toml:"serve"`
}

// Model is a model at a provider.
type Model struct {
	// The provider, such as "anthropic" or "ollama".
	Provider string `toml:"provider" required:"true"`
	// The name of the model at the provider.
	Model string `toml:"model" required:"true" project:"any"`
	// The environment variable with the API key. Default: the variable of the provider.
	KeyEnv string `toml:"key_env"`
	// A command that prints the API key. A shell runs it.
	KeyCommand string `toml:"key_command" literal:"true"`
	// The address of the service. Default: that of the provider.
	BaseURL string `toml:"base_url" form:"address"`
	// Headers that are sent with every request.
	Headers map[string]string `toml:"headers"`
	// The address of an HTTP proxy. Default: that of the environment.
	Proxy string `toml:"proxy" form:"address"`
	// The longest answer, in tokens. Default: that of the provider.
	MaxTokens int `toml:"max_tokens" min:"1" high:"1000000" tight:"limit" project:"tighter"`
	// How many requests a minute are sent. Default: no limit.
	RequestsPerMinute int `toml:"requests_per_minute" min:"1" tight:"lower" project:"tighter"`
	// How many tokens a minute are sent and received. Default: no limit.
	TokensPerMinute int `toml:"tokens_per_minute" min:"1" tight:"lower" project:"tighter"`
	// How long the client waits for the next data from the service. Default: that of the provider.
	IdleTimeout time.Duration `toml:"idle_timeout" min:"1s" high:"1h" project:"any"`
	// The models that are asked in turn if this one cannot answer.
	Fallbacks []string `toml:"fallbacks" project:"any"`
}

// Roles says which model does which work. A role names an entry of Models, or a model itself in the
// form "provider/model".
type Roles struct {
	// The model that works.
	Main string `toml:"main" project:"any"`
	// A fast model for small work, such as titles. Default: the main model.
	Small string `toml:"small" project:"any"`
	// The model that writes summaries of long conversations. Default: rules write them.
	Summary string `toml:"summary" project:"any"`
}

// Agent has the system prompt and the limits of a run.
type Agent struct {
	// The system prompt, in place of the usual one.
	System string `toml:"system" project:"any"`
	// Whether rules of work are added to the system prompt: when to plan, to check and to hand work to a subagent.
	Rules bool `toml:"rules" project:"any"`
	// How many messages the model may send in a run.
	MaxTurns int `toml:"max_turns" default:"50" min:"1" high:"1000" tight:"lower" project:"tighter"`
	// How many calls are run for one message of the model.
	MaxCalls int `toml:"max_calls" default:"128" min:"1" high:"1000" tight:"lower" project:"tighter"`
	// How many tokens a run may use, in and out. Default: no limit.
	MaxTokens int64 `toml:"max_tokens" min:"1" tight:"lower" project:"tighter"`
	// How much the conversation may cost, in US dollars. Default: no limit.
	MaxCost *float64 `toml:"max_cost" min:"0" low:"0.01" high:"1000" tight:"lower" project:"tighter"`
	// The budget that runs share. Default: none.
	Budget string `toml:"budget"`
	// How many tokens the model may think for an answer. Default: the model decides.
	Thinking int `toml:"thinking" min:"0" high:"200000" project:"any"`
	// How often a request for one message is sent again. -1 is never.
	Retries int `toml:"retries" default:"5" min:"-1" high:"100" project:"any"`
	// How long the waits for one message may be in total.
	RetryTime time.Duration `toml:"retry_time" default:"5m" min:"1s" high:"24h" project:"any"`
}

// Budget is a pot that several runs share. A nil field is not limited.
type Budget struct {
	// US dollars.
	Cost *float64 `toml:"cost" min:"0" low:"0.01" high:"100000" tight:"lower" project:"tighter"`
	// Tokens, in and out.
	Tokens *int64 `toml:"tokens" min:"0" low:"1000" tight:"lower" project:"tighter"`
	// The time in which a model or a tool works.
	Time *time.Duration `toml:"time" min:"0s" low:"1s" high:"8760h" tight:"lower" project:"tighter"`
}

// Context says how conversations are kept within the window of the model.
type Context struct {
	// The window, in tokens, for a request and its answer. Default: that of the model.
	MaxTokens int64 `toml:"max_tokens" min:"1000" high:"2000000" project:"any"`
	// The size of the messages of a request, in bytes.
	MaxBytes int64 `toml:"max_bytes" default:"33554432" min:"4096" high:"1073741824" project:"any"`
	// How much of the window a request fills after a compaction.
	Fill float64 `toml:"fill" default:"0.5" min:"0.1" max:"0.9" project:"any"`
	// Whether the service of the model compacts conversations where it can.
	Server bool `toml:"server" project:"any"`
}

// Tools has the limits of the tools.
type Tools struct {
	// Tools that the model does not get. The lists of all files add up.
	Disabled []string `toml:"disabled" project:"add"`
	// Variables for commands: NAME copies one of this program, and NAME=value sets one.
	Env []string `toml:"env"`
	// Patterns, as in .gitignore, of files that searches leave out. The lists of all files add up.
	Ignore []string `toml:"ignore" project:"add"`
	// Hosts outside the public Internet that may be fetched from, such as "wiki.intranet".
	PrivateHosts []string `toml:"private_hosts"`
	// Further directories of the workspace, such as lib = "/home/me/lib". The files are lib:/path then.
	Dirs map[string]string `toml:"dirs" form:"path"`
	// Whether secrets are masked before a text reaches the model.
	Mask bool `toml:"mask" default:"true" tight:"true" project:"tighter"`
	// The longest text that the model gets from one call, in bytes.
	MaxOutput int `toml:"max_output" default:"262144" min:"1024" high:"16777216" tight:"lower" project:"tighter"`
	// How many calls that only read run at the same time.
	Parallel int `toml:"parallel" default:"8" min:"1" high:"256" tight:"lower" project:"tighter"`
	// The memory of a command and its processes, in bytes. -1 removes the limit. Default: a share of the machine's.
	Memory int64 `toml:"memory" min:"-1" tight:"limit" project:"tighter"`
	// How many background commands live at a time.
	Commands int `toml:"commands" default:"16" min:"1" high:"1000" tight:"lower" project:"tighter"`
	// How many background agents live at a time.
	Agents int `toml:"agents" default:"8" min:"1" high:"1000" tight:"lower" project:"tighter"`
	// Checkers that look at the files that an edit has changed. Their new findings follow the result.
	// Those that run code of the project, such as eslint, also need a rule that allows their command. Default: none.
	Checks []Check `toml:"checks"`
	// Looks at the code: tools for the model that only read, by the graph of what uses what or by words, and parts of files that
	// those in play use, which requests get unasked.
	Code []Code `toml:"code"`
	// More tools for the model, which only read: what could be done next, what a task may take, what has become of a file.
	Insight []Insight `toml:"insight"`
	// How long a cancelled run waits for its tools.
	Grace time.Duration `toml:"grace" default:"1s" min:"1ms" high:"10m" project:"any"`
}

// Check is the name of a checker that package codegraph/lsp knows.
type Check string

func (Check) values() []string {
	return []string{"go vet", "go fix", "staticcheck", "golangci-lint", "eslint", "ruff", "clippy", "tsc"}
}

// Code is a part of the code graph: graph are the tools outline, symbol, dependencies, dependents, why and find_file, search is
// semantic_search, and context adds what the files in play use to the messages where they come into play.
type Code string

func (Code) values() []string { return []string{"graph", "search", "context"} }

// Insight is the name of a tool of the packages of insight.
type Insight string

func (Insight) values() []string { return []string{"suggestions", "forecast", "file_history"} }

// Approval says which calls of tools need the approval of the user.
type Approval struct {
	// The decision about calls that no rule covers.
	Mode policy.Mode `toml:"mode" default:"ask" enum:"full-auto|accept-edits|ask|plan" tight:"later"`
	// How long a question waits for an answer. After that the call is denied. Default: no limit.
	Timeout time.Duration `toml:"timeout" min:"1s" high:"720h" tight:"lower" project:"tighter"`
	// Rules that allow calls, deny them, or ask about them. The rules of all files add up.
	Rules []Rule `toml:"rules" project:"add"`

	// Least is the mode of the managed file, or "": no other may be less strict, also one that the user chooses later.
	Least policy.Mode `toml:"-"`
}

// Rule is a [policy.Rule] with the source that it came from.
type Rule struct {
	// The decision about a call that the rule covers.
	Action policy.RuleAction `toml:"action" required:"true" enum:"allow|ask|deny" project:"ask|deny"`
	// The name of a tool, in which * matches any text.
	Tool string `toml:"tool" required:"true" literal:"true" project:"any"`
	// The commands, paths or addresses that the rule covers. Default: all.
	Pattern string `toml:"pattern" literal:"true" project:"any"`
	// The class that limits the rule.
	Class Class `toml:"class" project:"any"`
	// The text that the model reads when the rule denies a call.
	Reason string `toml:"reason" literal:"true" project:"any"`
	// Examples that the rule must cover.
	Match []string `toml:"match" literal:"true" project:"any"`
	// Examples that the rule must not cover.
	NotMatch []string `toml:"not_match" literal:"true" project:"any"`

	// Source is the source of the file.
	Source policy.Source `toml:"-"`
}

// Class is a class of calls, as package policy has them.
type Class string

func (Class) values() []string {
	return []string{
		"read_only", "writes_workspace", "needs_approval", "writes_outside", "network", "destructive", "escalates",
	}
}

// Policy returns the rule as package policy takes it.
func (r Rule) Policy() policy.Rule {
	return policy.Rule{
		Action: r.Action, Tool: r.Tool, Pattern: r.Pattern, Class: string(r.Class),
		Reason: r.Reason, Match: r.Match, NotMatch: r.NotMatch,
	}
}

// Sandbox says what commands may reach.
type Sandbox struct {
	// Whether commands run in a sandbox. With "required", none runs without all its protections.
	Mode string `toml:"mode" default:"off" enum:"off|on|required" tight:"later" project:"tighter"`
	// The means by which commands are confined.
	Kind string `toml:"kind" default:"auto" enum:"auto|landlock|bubblewrap"`
	// Whether all commands may use the network.
	Network bool `toml:"network" tight:"false" project:"tighter"`
	// Whether commands may use the sockets of other programs where the sandbox cannot prevent it.
	Sockets bool `toml:"sockets" tight:"false" project:"tighter"`
	// Whether commands may be traced by debuggers that they start.
	Debuggers bool `toml:"debuggers" tight:"false" project:"tighter"`
	// Whether commands may change the build caches of the user.
	SharedCaches bool `toml:"shared_caches" default:"true" tight:"false" project:"tighter"`
	// More files and directories that commands may read.
	Read []string `toml:"read" form:"path"`
	// More files and directories that commands may change.
	Write []string `toml:"write" form:"path"`
	// Names in the workspace that commands may not change. The lists of all files add up.
	Protect []string `toml:"protect" project:"add"`
	// Hosts that commands may reach, or not. The lists of all files add up.
	Hosts []Host `toml:"hosts" project:"add"`
}

// Host says what commands may do with a host.
type Host struct {
	// A name, an address, "*.example.com" or "*", each perhaps with a port.
	Host string `toml:"host" required:"true" project:"any"`
	// The decision about a connection.
	Action string `toml:"action" required:"true" enum:"allow|ask|deny" project:"ask|deny"`
	// Whether addresses are permitted that are not public.
	Private bool `toml:"private" project:"false"`
	// Whether other protocols than TLS are permitted.
	Tunnel bool `toml:"tunnel" project:"false"`
	// Headers that are set in each request to the host, and that commands do not know.
	Headers map[string]string `toml:"headers"`
}

// Session says where conversations are stored, and what is stored with them.
type Session struct {
	// The directory of the conversations. Default: the host decides.
	Dir string `toml:"dir" form:"path"`
	// Whether the files of the workspace are stored with the conversation, so that both can be taken back.
	Snapshots bool `toml:"snapshots" default:"true" tight:"true" project:"tighter"`
	// When records are flushed to the disk.
	Sync string `toml:"sync" default:"records" enum:"turns|records" tight:"later" project:"tighter"`
	// The file to which an audit log is appended. Default: none.
	Audit string `toml:"audit" form:"path"`
	// The file to which a log of what happens is appended, for those who are asked for help: ids, names, sizes and times, but
	// no texts. Default: none.
	Log string `toml:"log" form:"path"`
	// Whether calls that only read run again if a crash has interrupted them. Otherwise the model is told of it.
	RepeatReads bool `toml:"repeat_reads"`
	// How long a conversation is kept after its last use. Older ones are deleted. Default: for ever.
	Keep time.Duration `toml:"keep" min:"24h"`
	// How many bytes all conversations may take. If it is more, the oldest are deleted. Default: no limit.
	MaxBytes int64 `toml:"max_bytes" min:"1048576"`
}

// Terminal says how a program in a terminal looks and behaves. A file of a project sets nothing of it.
type Terminal struct {
	// Whether the line is edited with the keys of vi.
	Vi bool `toml:"vi"`
	// The actions of keys, such as "ctrl+x" = "undo". An empty action takes the meaning of a key away.
	Keys map[string]string `toml:"keys" literal:"true"`
	// Whether the program rings (bell), has the terminal show a message (OSC 9), or both, when a turn has ended or a
	// question waits, and nobody has pressed a key for a while.
	Notify string `toml:"notify" default:"off" enum:"off|bell|message|both"`
	// How long that while is.
	NotifyAfter time.Duration `toml:"notify_after" default:"10s" min:"0s" high:"1h"`
	// Whether the title of the window is set.
	Title bool `toml:"title" default:"true"`
	// Whether a new conversation begins with what similar ones in this directory took, where enough are known.
	Forecast bool `toml:"forecast" default:"true"`
	// Whether a new conversation begins with what is open here: the state of git, and secrets and risky patterns in files that
	// are not committed. All secrets are shown, and of the others at most five in all.
	Suggestions bool `toml:"suggestions" default:"true"`
	// A command whose first line of output is shown below the line that is typed. A shell runs it at the start and after
	// each turn, for two seconds at most. It gets the state of the conversation as JSON.
	Status string `toml:"status" literal:"true"`
}

// Serve says which other programs a program that serves sessions tells what agents do. A file of a project sets nothing of it.
type Serve struct {
	// Endpoints that are told what agents do, each under a name of letters, digits, "_" and "-".
	Webhooks map[string]Webhook `toml:"webhooks"`
	// The cost of a session, in US dollars, that is told as cost.threshold. Default: none.
	CostThreshold *float64 `toml:"cost_threshold" min:"0" low:"0.01" high:"100000"`
}

// Webhook is an endpoint of another program. The requests to it are signed as Standard Webhooks specifies.
type Webhook struct {
	// The address, which begins with https://.
	URL string `toml:"url" required:"true" form:"address"`
	// The environment variables with the secrets that sign the requests: one, or two while one is replaced.
	SecretEnv []string `toml:"secret_env" required:"true" literal:"true"`
	// The types of events that are sent, such as "tool.*" or "error". Default: all.
	Types []string `toml:"types" literal:"true"`
	// Whether texts, arguments and outputs are sent, too, with secrets masked.
	Content bool `toml:"content"`
	// Whether the address may be in a private network or on this machine, and begin with http://.
	Private bool `toml:"private"`
	// Whether the endpoint is switched off.
	Disabled bool `toml:"disabled"`
}

// Event is the name of an event at which hooks run.
type Event string

func (Event) values() []string {
	return []string{
		"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied", "UserPromptSubmit",
		"Stop", "SubagentStart", "SubagentStop", "PreCompact", "Notification", "SessionStart", "SessionEnd",
	}
}

// Hook is a command that runs at an event of a run.
type Hook struct {
	// The event.
	Event Event `toml:"event" required:"true"`
	// The tools that the hook is for, as a regular expression. Default: all.
	Matcher string `toml:"matcher" literal:"true" form:"expression"`
	// The command. A shell runs it in the directory of the project.
	Command string `toml:"command" required:"true" literal:"true"`
	// How long the command may take.
	Timeout time.Duration `toml:"timeout" default:"1m" min:"1s" high:"1h"`
	// The names of the variables that the command gets.
	Env []string `toml:"env" literal:"true"`

	// Origin says where the hook stands.
	Origin Origin `toml:"-"`
}

func (h Hook) ask() Question {
	return Question{Kind: KindHook, Command: h.Command, Variables: h.Env}
}

// Server is a server of the Model Context Protocol: a command, or an address.
type Server struct {
	// The program that is the server.
	Command string `toml:"command"`
	// The arguments of the program.
	Args []string `toml:"args"`
	// Variables for the program.
	Env map[string]string `toml:"env"`
	// The address of the server.
	URL string `toml:"url" form:"address"`
	// Headers that are sent with every request to the address.
	Headers map[string]string `toml:"headers"`
	// The client that the authorization server of the address knows, if it registers none by itself.
	ClientID string `toml:"client_id"`
	// The secret of that client, if it has one.
	ClientSecret string `toml:"client_secret"`
	// How long a call may take.
	Timeout time.Duration `toml:"timeout" default:"1m" min:"1s" high:"1h"`
	// The tools that the model gets. Default: all.
	Tools []string `toml:"tools"`
	// Whether to believe what the server says of its tools: those that only read then run without a question. A project
	// cannot set it.
	Trust bool `toml:"trust"`
	// Whether the server is switched off.
	Disabled bool `toml:"disabled"`

	// Origin says where the server stands.
	Origin Origin `toml:"-"`
}

func (s Server) ask() Question {
	return Question{Kind: KindServer, Command: commandLine(s.Env, s.Command, s.Args), Address: s.URL}
}

// AgentServer is another agent: a program that speaks the Agent Client Protocol. A file of a project sets nothing of it.
type AgentServer struct {
	// The program that is the agent.
	Command string `toml:"command" required:"true"`
	// The arguments of the program.
	Args []string `toml:"args"`
	// Variables for the program.
	Env map[string]string `toml:"env"`
	// The method by which the agent authenticates itself, if it has to be told, such as "api-key". An error names those that it offers.
	Auth string `toml:"auth"`
	// The mode of the agent, such as "default" for one that then asks before it changes something. An error names those that it offers.
	// Default: that in which it begins.
	Mode string `toml:"mode"`
	// The text that tells the model what the agent is good for. Default: one that fits any task.
	Description string `toml:"description"`
	// How long a task may take.
	Timeout time.Duration `toml:"timeout" default:"10m" min:"1s" high:"24h"`
}

// LanguageServer is a program that speaks the Language Server Protocol. A file of a project sets nothing of it.
type LanguageServer struct {
	// The program that is the server. Default: that of the known server of this name.
	Command string `toml:"command"`
	// The arguments of the program. Default: those of the known server, if command is left out.
	Args []string `toml:"args"`
	// Variables for the program.
	Env map[string]string `toml:"env"`
	// The languages by extensions of files, such as ".go" = "go". Default: those of the known server.
	Languages map[string]string `toml:"languages"`
	// The server's own settings, as its documentation has them. They take precedence over those that are preset for a known server.
	Settings map[string]any `toml:"settings"`
}

// knownLanguageServers are those of package codegraph/lsp.
var knownLanguageServers = []string{"gopls", "pyright-langserver", "rust-analyzer", "typescript-language-server"}
