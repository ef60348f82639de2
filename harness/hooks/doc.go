// Package hooks runs the hooks of a team: commands that see what an agent is about to do, and can stop it.
//
// The form is that of the hooks in .claude/settings.json, so that existing ones work. A hook is a shell
// command. It reads a JSON object on its standard input, and answers by its exit code and its output:
//
//	{"hooks": {"PreToolUse": [{"matcher": "Edit|Write", "hooks": [
//		{"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/guard.sh", "timeout": 10}]}]}}
//
// [Parse] reads such a file. A [Runner] gets the hooks that may run: this package does not decide whom to
// trust, and reads no file and no environment. It connects the hooks to an agent:
//
//	r, err := hooks.New(hooks.Config{Hooks: list, Exec: exec, Root: dir, Env: env})
//	…
//	loop, err := aycoder.New(model,
//		aycoder.WithApprover(r.Approver(policy)), // PreToolUse, PermissionRequest, PermissionDenied
//		aycoder.WithToolMiddleware(r.Tool),       // PostToolUse, PostToolUseFailure, SubagentStart, SubagentStop
//	)
//	agent := r.Agent(loop) // UserPromptSubmit, Stop, PreCompact, Notification, SessionStart after a compaction
//
// The host calls [Runner.SessionStart] and [Runner.SessionEnd], and [Runner.Notify] for "idle_prompt".
// Subagents need none of this: the hooks of the outer agent see their calls, with agent_id and agent_type.
// Where the tool has an argument agent, that is the agent_type; SubagentStart and SubagentStop match it,
// and the name of the tool.
//
// # Decisions
//
// Exit code 2 refuses, and the model reads the standard error. With exit code 0, a JSON object on the
// standard output may refuse, ask, suspend the run ("defer"), or replace the input of the tool
// ("updatedInput") or its output ("updatedToolOutput"), and tell the model or the user something.
//
// A hook can tighten and never loosen. The policy decides first. If it denies a call, no hook before the
// tool runs. The decision "allow" is not an opinion, and "ask" leaves a denial as it is. A replaced input
// is checked against the schema, and the policy and the other hooks decide about it again. If the policy
// would ask the user about it, the call is refused, and the model reads which input to use: so the user
// sees what would run.
//
// A PreToolUse hook that cannot be started, dies, takes too long, writes too much, or answers with
// something that is not understood refuses the call. An exit code other than 0 and 2 counts as a death:
// a script with a fault must not let calls through. Failures of other hooks are reported, see
// Config.Report, and change nothing.
//
// # Differences
//
// Hooks of an event run one after the other, in their order, each in the directory Root. A hook with
// "async" is waited for. Handlers other than commands, and the condition "if", are not supported: [Parse]
// reports and leaves out such hooks. A hook sees the names that its authors know (Bash, Read, Edit, …,
// absolute paths in file_path), and matchers find a tool by either name. A patch is shown as one Edit for
// each of its files. PreCompact cannot prevent a compaction without which the conversation does not fit; the
// report then says that the refusal is overruled. A message that is sent into a run has no UserPromptSubmit.
// SubagentStart can refuse to start an agent, and SubagentStop can tell the outer agent something, but cannot
// make the inner one go on.
package hooks
