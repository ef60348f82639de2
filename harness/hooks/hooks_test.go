package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

func pre(matcher, command string) hooks.Hook {
	return hooks.Hook{Event: hooks.PreToolUse, Matcher: matcher, Command: command}
}

// A hook reads the call as its authors know it.
func TestInput(t *testing.T) {
	b := newBench(t, pre("Write", `cat >"$CLAUDE_PROJECT_DIR/in.json"; pwd >pwd.txt`))
	out := b.outputOf("write_file", map[string]any{"path": "a b/it's.go", "content": "x' \"$(touch pwned)\"\n\x00`"})
	require.Equal(t, "written", out.Text())
	var in map[string]any
	require.NoError(t, json.Unmarshal([]byte(b.read("in.json")), &in))
	require.NotEmpty(t, in["tool_use_id"])
	delete(in, "tool_use_id")
	require.Equal(t, map[string]any{
		"session_id": "s1", "transcript_path": "", "cwd": b.dir, "permission_mode": "default",
		"hook_event_name": "PreToolUse", "tool_name": "Write",
		"tool_input": map[string]any{"file_path": b.dir + "/a b/it's.go", "content": "x' \"$(touch pwned)\"\n\x00`"},
	}, in)
	require.Equal(t, b.dir+"\n", b.read("pwd.txt"))
	require.Empty(t, b.read("pwned"))
}

func TestMatchers(t *testing.T) {
	for _, tt := range []struct {
		matcher string
		runs    bool
	}{
		{"", true}, {"*", true}, {"Bash", true}, {"bash", true}, {"Bas", false}, {"Edit|Bash", true}, {"Edit|Write", false},
		{".*", true}, {"B.sh", true}, {"^ba", true}, {"mcp__.*", false}, {"Notebook.*|Ba.h", true},
	} {
		b := newBench(t, pre(tt.matcher, "echo no >&2; exit 2"))
		require.Equal(t, tt.runs, b.output("ls").IsError, "%q", tt.matcher)
	}
}

// Whatever a hook before a tool does, its call runs only if the hook let it.
func TestPreToolUse(t *testing.T) {
	said := func(s string) string { return "printf '%s' '" + s + "'" }
	specific := func(s string) string { return said(`{"hookSpecificOutput":{"hookEventName":"PreToolUse",` + s + `}}`) }
	for _, tt := range []struct{ name, command, reads string }{
		{"nothing", "true", "done"},
		{"does not read its input", ":", "done"},
		{"plain text", "echo hello", "done"},
		{"allow", specific(`"permissionDecision":"allow"`), "done"},
		{"approve", said(`{"decision":"approve"}`), "done"},
		{"null", specific(`"permissionDecision":null,"updatedInput":null`), "done"},
		{"context", specific(`"additionalContext":"mind the gap"`), "done\n[hook] mind the gap"},
		{"same input", `sed 's/.*"tool_input":\({[^}]*}\).*/{"hookSpecificOutput":{"updatedInput":\1}}/'`, "done"},

		{"exit 2", "echo not here >&2; exit 2", "a hook refused this call: not here"},
		{"exit 2 with allow", specific(`"permissionDecision":"allow"`) + "; exit 2", "a hook refused this call"},
		{"deny", specific(`"permissionDecision":"deny","permissionDecisionReason":"never"`), "a hook refused this call: never"},
		{"block", said(`{"decision":"block","reason":"old form"}`), "a hook refused this call: old form"},
		{"deny and allow", said(`{"decision":"approve","hookSpecificOutput":{"permissionDecision":"deny"}}`), "a hook refused"},
		{"continue false", said(`{"continue":false,"stopReason":"enough"}`), ""},

		{"exit 1", "echo fault >&2; exit 1", "died with exit code 1: fault"},
		{"no such program", "no-such-program-here", "died with exit code 127"},
		{"not executable", "./data", "died with exit code 126"},
		{"syntax error", "if then (", "syntax error"},
		{"unbalanced", "echo ')' ; }", "syntax error"},
		{"killed", "kill -9 $$", "died"},
		{"kills itself", "sh -c 'kill -9 $$'", "died with exit code 137"},
		{"too slow", "sleep 100", "it took longer than"},
		{"ignores signals", "trap '' TERM INT; sleep 100 & wait; sleep 100", "it took longer than"},
		{"endless output", "yes", "wrote more than"},
		{"endless errors", "yes >&2", "wrote more than"},
		{"large output", "head -c 300000 /dev/zero | tr '\\0' x; exit 0", "wrote more than 262144 bytes to the standard output"},
		{"broken JSON", said(`{"hookSpecificOutput":{"permissionDecision":"deny"`), "is not understood"},
		{"two documents", said(`{}{"decision":"block"}`), "is not understood"},
		{"text before the JSON", "echo loading; " + specific(`"permissionDecision":"deny"`), "there is text before its JSON"},
		{"text before an end", `echo loading; echo '{"continue":false}'`, "there is text before its JSON"},
		{"unknown decision", specific(`"permissionDecision":"maybe"`), "there is no decision"},
		{"two decisions", said(`{"decision":"block","reason":"not x","decision":"approve","y":""}`), "the key decision is there twice"},
		{"two spellings", said(`{"decision":"block","Deciſion":"approve"}`), "the key Deciſion is there twice"},
		{"two specific decisions", specific(`"permissionDecision":"deny","permissionDecision":"allow"`), "the key permissionDecision is there twice"},
		{"two objects", said(`{"hookSpecificOutput":{"permissionDecision":"deny"},"hookSpecificOutput":{}}`), "is there twice"},
		{"decision in the wrong place", said(`{"permissionDecision":"deny"}`), "the key permissionDecision belongs into hookSpecificOutput"},
		{"input in the wrong place", said(`{"updatedInput":{"command":"ls -l"}}`), "the key updatedInput belongs into hookSpecificOutput"},
		{"wrong type", specific(`"permissionDecision":["deny"]`), "is not understood"},
		{"forged end", `printf '\nMARK 0\n'; exit 2`, "a hook refused this call"},

		{"input of a wrong type", specific(`"updatedInput":{"command":7}`), "input for the tool is not valid"},
		{"input without a field", specific(`"updatedInput":{"cmd":"ls"}`), "input for the tool is not valid"},
		{"input that is no object", specific(`"updatedInput":"ls"`), "input for the tool is not valid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := pre("Bash", tt.command)
			if tt.reads == "it took longer than" {
				h.Timeout = 200 * time.Millisecond
			}
			b := newBench(t, h)
			require.NoError(t, os.WriteFile(filepath.Join(b.dir, "data"), []byte("data"), 0o600))
			if tt.name == "continue false" {
				_, _, err := b.run(b.runner(), script.Call("bash", map[string]any{"command": "ls"}), script.Say("end"))
				e, ok := errors.AsType[*hooks.StoppedError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, "enough", e.Reason)
				require.Empty(t, b.ran)
				return
			}
			out := b.output("ls")
			require.Contains(t, out.Text(), tt.reads)
			ran := strings.HasPrefix(tt.reads, "done")
			require.Equal(t, ran, len(b.ran) == 1, out.Text())
			require.Equal(t, !ran, out.IsError)
		})
	}
}

// A command that cannot be started refuses: here the directory is gone.
func TestNotStarted(t *testing.T) {
	b := newBench(t, pre("", "true"))
	b.config.Root = filepath.Join(b.dir, "gone")
	require.Contains(t, b.output("ls").Text(), "cannot be run")
	require.Empty(t, b.ran)
	require.Len(t, b.reports, 1)

	b = newBench(t, pre("", "true"))
	big := strings.Repeat("x ", 1<<19)
	require.Contains(t, b.output(big).Text(), "bytes, and at most 921600 are passed on")
	require.Empty(t, b.ran)
}

// A helper program that the script needs may be missing: then the answer of the hook is lost, and not open.
func TestWithoutPrograms(t *testing.T) {
	b := newBench(t, pre("", `printf '{"decision":"block"}'`))
	b.config.Env = []string{"PATH=/nowhere"}
	require.Contains(t, b.output("ls").Text(), "not run: PreToolUse hook")
	require.Empty(t, b.ran)
}

// The environment is the one that was given.
func TestEnvironment(t *testing.T) {
	t.Setenv("AYCODER_TEST_SECRET", "secret")
	b := newBench(t, pre("", "env >env.txt"))
	b.config.Env = append(b.config.Env, "GIVEN=1")
	b.output("ls")
	env := b.read("env.txt")
	require.NotContains(t, env, "SECRET")
	require.Contains(t, env, "GIVEN=1\n")
	require.Contains(t, env, "CLAUDE_PROJECT_DIR="+b.dir+"\n")
}

// The processes that a hook has started end with it.
func TestNothingStays(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are found by /proc")
	}
	h := pre("", `echo $$ >pid; sleep 1000 & echo $! >>pid; sleep 1000`)
	h.Timeout = 300 * time.Millisecond
	b := newBench(t, h)
	before := runtime.NumGoroutine()
	require.Contains(t, b.output("ls").Text(), "it took longer than 300ms")
	for pid := range strings.FieldsSeq(b.read("pid")) {
		timed.Until(t, func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		}, pid)
	}
	timed.Until(t, func() bool { return runtime.NumGoroutine() <= before })
}

// updatedInput replaces what runs, after the schema and the policy have had their say.
func TestUpdatedInput(t *testing.T) {
	safe := `printf '{"hookSpecificOutput":{"updatedInput":{"command":"ls -la","timeout":1500}}}'`
	b := newBench(t, pre("Bash", safe))
	out := b.output("ls")
	require.Contains(t, out.Text(), "ls -la", "the model learns what ran")
	require.Equal(t, []string{`bash {"command":"ls -la","timeout":2}`}, b.ran)

	t.Run("path", func(t *testing.T) {
		b := newBench(t, pre("Write", `printf '{"hookSpecificOutput":{"updatedInput":{"file_path":"%s/b.txt","content":"y"}}}' "$CLAUDE_PROJECT_DIR"`))
		b.outputOf("write_file", map[string]any{"path": "a.txt", "content": "x"})
		require.Equal(t, []string{`write_file {"content":"y","path":"b.txt"}`}, b.ran)
	})
	t.Run("policy denies it", func(t *testing.T) {
		b := newBench(t, pre("Bash", `printf '{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"rm -rf /"}}}'`))
		b.policy = aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if strings.Contains(string(c.Args), "rm") {
				return aycoder.Deny("no rm")
			}
			return aycoder.Allow()
		})
		require.Contains(t, b.output("ls").Text(), "the policy denies it as it is then: no rm")
		require.Empty(t, b.ran)
	})
	t.Run("policy asks about it", func(t *testing.T) {
		b := newBench(t, pre("Bash", safe))
		b.policy = aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if strings.Contains(string(c.Args), "-la") {
				return aycoder.Ask()
			}
			return aycoder.Allow()
		})
		var asked []string
		_, m, err := b.runWith(b.runner(), func(ev aycoder.Event) {
			if q, ok := ev.(*aycoder.ApprovalRequested); ok {
				asked = append(asked, string(q.Request.Args))
				q.Allow()
			}
		}, script.Call("bash", map[string]any{"command": "ls"}),
			script.Call("bash", map[string]any{"command": "ls -la", "timeout": 2}), script.Say("end"))
		require.NoError(t, err)
		require.Contains(t, script.LastOutput(m.Requests()[1]).Text(), `Make the call again with exactly this one: {"command":"ls -la","timeout":2}`)
		require.Equal(t, []string{`{"command":"ls -la","timeout":2}`}, asked, "the user sees what runs")
		require.Len(t, b.ran, 1)
	})
	t.Run("guards see it", func(t *testing.T) {
		guard := `if grep -q '"command":"rm'; then echo "no rm" >&2; exit 2; fi`
		rewrite := `printf '{"hookSpecificOutput":{"updatedInput":{"command":"rm x"}}}'`
		for _, list := range [][]hooks.Hook{{pre("", guard), pre("", rewrite)}, {pre("", rewrite), pre("", guard)}} {
			b := newBench(t, list...)
			require.Contains(t, b.output("ls").Text(), "a hook refused this call: no rm")
			require.Empty(t, b.ran)
		}
	})
	t.Run("guards that change it see it", func(t *testing.T) {
		guard := `if grep -q '"command":"rm'; then echo "no rm" >&2; exit 2; fi; printf '{"hookSpecificOutput":{"updatedInput":{"command":"nice ls"}}}'`
		rewrite := `printf '{"hookSpecificOutput":{"updatedInput":{"command":"rm x"}}}'`
		b := newBench(t, pre("", guard), pre("", rewrite))
		require.Contains(t, b.output("ls").Text(), "a hook refused this call: no rm")
		require.Empty(t, b.ran)
	})
	t.Run("hooks do not agree", func(t *testing.T) {
		b := newBench(t, pre("", `printf '{"hookSpecificOutput":{"updatedInput":{"command":"a"}}}'`),
			pre("", `grep -q '"command":"a"' || exit 0; printf '{"hookSpecificOutput":{"updatedInput":{"command":"b"}}}'`),
			pre("", `grep -q '"command":"b"' || exit 0; printf '{"hookSpecificOutput":{"updatedInput":{"command":"c"}}}'`))
		b.output("ls")
		require.Equal(t, []string{`bash {"command":"c"}`}, b.ran, "one after the other")
		b = newBench(t, pre("", `grep -q '"command":"a"' || exit 0; printf '{"hookSpecificOutput":{"updatedInput":{"command":"b"}}}'`),
			pre("", `printf '{"hookSpecificOutput":{"updatedInput":{"command":"a"}}}'`))
		require.Contains(t, b.output("ls").Text(), "do not agree")
		require.Empty(t, b.ran)
	})
	t.Run("grows each time", func(t *testing.T) {
		b := newBench(t, pre("", `sed 's/.*"command":"\([^"]*\)".*/{"hookSpecificOutput":{"updatedInput":{"command":"nice \1"}}}/'`))
		b.output("ls")
		require.Equal(t, []string{`bash {"command":"nice ls"}`}, b.ran)
	})
}

// A hook tightens what the policy says, and never loosens it.
func TestTightens(t *testing.T) {
	decide := func(d string) string {
		return `printf '{"hookSpecificOutput":{"permissionDecision":"` + d + `","permissionDecisionReason":"because"}}'; echo x >>ran`
	}
	for _, tt := range []struct {
		policy aycoder.Verdict
		hook   string
		want   string // "runs", "asked", "denied", "suspended"
	}{
		{aycoder.Allow(), "allow", "runs"}, {aycoder.Allow(), "ask", "asked"}, {aycoder.Allow(), "deny", "denied"}, {aycoder.Allow(), "defer", "suspended"},
		{aycoder.Ask(), "allow", "asked"}, {aycoder.Ask(), "ask", "asked"}, {aycoder.Ask(), "deny", "denied"}, {aycoder.Ask(), "defer", "suspended"},
		{aycoder.Deny("rule"), "allow", "denied"}, {aycoder.Deny("rule"), "ask", "denied"}, {aycoder.Deny("rule"), "defer", "denied"},
		{aycoder.Suspend(), "allow", "suspended"}, {aycoder.Suspend(), "ask", "suspended"}, {aycoder.Suspend(), "deny", "denied"},
	} {
		t.Run(fmt.Sprint(tt.policy, tt.hook), func(t *testing.T) {
			b := newBench(t, pre("Bash", decide(tt.hook)))
			b.policy = aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return tt.policy })
			asked := false
			res, _, err := b.runWith(b.runner(), func(ev aycoder.Event) {
				if q, ok := ev.(*aycoder.ApprovalRequested); ok {
					asked = true
					if tt.hook == "ask" {
						require.Contains(t, strings.Join(q.Request.Reasons, " ")+"because", "because")
					}
				}
			}, script.Call("bash", map[string]any{"command": "ls"}), script.Say("end"))
			require.NoError(t, err)
			require.Equal(t, tt.want == "asked", asked)
			require.Equal(t, tt.want == "runs", len(b.ran) == 1)
			require.Equal(t, tt.want == "suspended", res.Pending != nil)
			require.LessOrEqual(t, len(b.read("ran")), 2, "a hook runs once for a call")
		})
	}
}

// A question that a hook asks does not bring back the arguments that the policy has replaced.
func TestTightensReplaced(t *testing.T) {
	for _, decision := range []string{"ask", "defer"} {
		b := newBench(t, pre("Bash", `printf '{"hookSpecificOutput":{"permissionDecision":"`+decision+`"}}'`))
		b.policy = aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
			return aycoder.AllowWith([]byte(`{"command":"ls -l"}`))
		})
		var asked []string
		res, m, err := b.runWith(b.runner(), func(ev aycoder.Event) {
			if q, ok := ev.(*aycoder.ApprovalRequested); ok {
				asked = append(asked, string(q.Request.Args))
				q.Allow()
			}
		}, script.Call("bash", map[string]any{"command": "ls"}), script.Call("bash", map[string]any{"command": "ls -l"}), script.Say("end"))
		require.NoError(t, err)
		require.Contains(t, script.LastOutput(m.Requests()[1]).Text(), `Make the call again with exactly this one: {"command":"ls -l"}`)
		if decision == "defer" {
			require.Equal(t, `{"command":"ls -l"}`, string(res.Pending.Requests[0].Args))
			continue
		}
		require.Equal(t, []string{`{"command":"ls -l"}`}, asked)
		require.Equal(t, []string{`bash {"command":"ls -l"}`}, b.ran)
	}
}

// A suspended call runs when the user has answered, in another process.
func TestDeferred(t *testing.T) {
	b := newBench(t, pre("Bash", `printf '{"hookSpecificOutput":{"permissionDecision":"defer","permissionDecisionReason":"later"}}'`))
	res, _, err := b.run(b.runner(), script.Call("bash", map[string]any{"command": "ls"}))
	require.NoError(t, err)
	require.Len(t, res.Pending.Requests, 1)
	require.Equal(t, []string{"later"}, res.Pending.Requests[0].Reasons)
	q := res.Pending.Requests[0]
	r := b.runner()
	loop, err := aycoder.New(script.New(script.Say("end")), aycoder.WithApprover(r.Approver(b.policy)), aycoder.WithTools(b.tools()...))
	require.NoError(t, err)
	in := aycoder.Input{Pending: res.Pending, Decisions: []aycoder.Decision{{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}}}
	for _, err := range r.Agent(loop).Run(t.Context(), in) {
		require.NoError(t, err)
	}
	require.Len(t, b.ran, 1)
}

// A patch is an edit of each of its files.
func TestPatch(t *testing.T) {
	b := newBench(t, pre("Edit|Write", `if grep -q '"file_path":"'"$CLAUDE_PROJECT_DIR"'/secret.txt"'; then echo protected >&2; exit 2; fi`))
	patch := "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+y\n*** Delete File: secret.txt\n*** End Patch"
	require.Contains(t, b.outputOf("apply_patch", map[string]any{"patch": patch}).Text(), "protected")
	require.Empty(t, b.ran)
	b.outputOf("apply_patch", map[string]any{"patch": strings.ReplaceAll(patch, "secret", "other")})
	require.Len(t, b.ran, 1)
	require.Contains(t, b.outputOf("apply_patch", map[string]any{"patch": "not a patch"}).Text(), "not run")
}

func TestAfter(t *testing.T) {
	post := func(command string) hooks.Hook {
		return hooks.Hook{Event: hooks.PostToolUse, Matcher: "Bash", Command: command}
	}
	for _, tt := range []struct{ name, command, reads string }{
		{"nothing", "cat >in.json", "done"},
		{"feedback", "echo lint failed >&2; exit 2", "done\n[hook] a hook objects: lint failed"},
		{"block", `printf '{"decision":"block","reason":"format it"}'`, "done\n[hook] a hook objects: format it"},
		{"context", `printf '{"hookSpecificOutput":{"additionalContext":"note"}}'`, "done\n[hook] note"},
		{"text", `printf '{"hookSpecificOutput":{"updatedToolOutput":"masked"}}'`, "masked"},
		{"object", `printf '{"hookSpecificOutput":{"updatedToolOutput":{"stdout":"out","stderr":"err"}}}'`, "out\nerr"},
		{"dies", "exit 9", "done"},
	} {
		b := newBench(t, post(tt.command))
		require.Equal(t, tt.reads, b.output("ls").Text(), tt.name)
		require.Equal(t, tt.name == "dies", len(b.reports) == 1, tt.name)
		if tt.name == "nothing" {
			require.Contains(t, b.read("in.json"), `"tool_response":{"interrupted":false,"isImage":false,"is_error":false,"output":"done","stderr":"","stdout":"done"}`)
		}
	}
	b := newBench(t, hooks.Hook{Event: hooks.PostToolUseFailure, Command: `cat >in.json; echo try again >&2; exit 2`}, post("echo never >ran"))
	b.opts = []aycoder.Option{aycoder.WithTools(b.tool("broken", "fail", `{"type":"object"}`))}
	out := b.outputOf("broken", map[string]any{})
	require.Equal(t, "it failed\n[hook] a hook objects: try again", out.Text())
	require.True(t, out.IsError)
	require.Contains(t, b.read("in.json"), `"error":"it failed"`)
	require.Contains(t, b.read("in.json"), `"is_interrupt":false`)
	require.Empty(t, b.read("ran"))

	b = newBench(t, post(`printf '{"continue":false,"stopReason":"red"}'`))
	_, m, err := b.run(b.runner(), script.Call("bash", map[string]any{"command": "ls"}), script.Say("end"))
	e, ok := errors.AsType[*hooks.StoppedError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "red", e.Reason)
	require.Len(t, m.Requests(), 1)
}

func TestPrompt(t *testing.T) {
	h := func(command string) hooks.Hook {
		return hooks.Hook{Event: hooks.UserPromptSubmit, Command: command}
	}
	b := newBench(t, h("cat >in.json; echo it is Monday"))
	res, m, err := b.run(b.runner(), script.Say("hello"))
	require.NoError(t, err)
	require.Contains(t, b.read("in.json"), `"prompt":"do it"`)
	require.Contains(t, m.Requests()[0].Messages[0].Text(), "it is Monday")
	require.Contains(t, res.Messages[0].Text(), "it is Monday", "it stays in the history")

	for _, command := range []string{"echo no >&2; exit 2", `printf '{"decision":"block","reason":"no"}'`, `printf '{"continue":false,"stopReason":"no"}'`} {
		b = newBench(t, h(command))
		res, m, err = b.run(b.runner(), script.Say("hello"))
		e, ok := errors.AsType[*hooks.StoppedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "no", e.Reason)
		require.Empty(t, m.Requests())
		require.Equal(t, aycoder.EndFailed, res.End)
		require.Empty(t, res.Messages)
	}
}

func TestStop(t *testing.T) {
	h := hooks.Hook{Event: hooks.Stop, Command: `cat >>in.json; test -e ready && exit 0; touch ready; echo run the tests >&2; exit 2`}
	b := newBench(t, h)
	_, m, err := b.run(b.runner(), script.Say("finished"), script.Say("tested"))
	require.NoError(t, err)
	require.Contains(t, script.LastText(m.Requests()[1]), "run the tests")
	require.Contains(t, b.read("in.json"), `"last_assistant_message":"finished"`)
	require.Contains(t, b.read("in.json"), `"stop_hook_active":true`)

	b = newBench(t, hooks.Hook{Event: hooks.Stop, Command: "exit 2"})
	loop := script.New(script.Say("finished")).With(script.WithLoop(true))
	a, err := aycoder.New(loop)
	require.NoError(t, err)
	for _, err := range b.runner().Agent(a).Run(t.Context(), aycoder.Input{Prompt: "x"}) {
		require.NoError(t, err)
	}
	require.Len(t, loop.Requests(), 9, "a hook cannot make it go on for ever")

	b = newBench(t, hooks.Hook{Event: hooks.Stop, Command: "exit 1"})
	_, _, err = b.run(b.runner(), script.Say("finished"))
	require.NoError(t, err)
	require.Len(t, b.reports, 1)
}

// The hooks of the outer agent see what the inner one does, with its name, and stop it.
func TestSubagents(t *testing.T) {
	b := newBench(t,
		hooks.Hook{Event: hooks.SubagentStart, Matcher: "subagent", Command: "cat >start.json"},
		hooks.Hook{Event: hooks.SubagentStop, Command: "cat >stop.json"},
		pre("Bash", `cat >pre.json; echo not you >&2; exit 2`),
		hooks.Hook{Event: hooks.PostToolUse, Matcher: "Write", Command: "cat >>post.json; echo >>post.json"})
	inner := script.New(script.Call("bash", map[string]any{"command": "ls"}),
		script.Call("write_file", map[string]any{"path": "x", "content": "y"}), script.Say("the report"))
	r := b.runner()
	sub, err := tools.Subagent(tools.SubagentConfig{Model: inner, Tools: b.tools(),
		Options: []aycoder.Option{aycoder.WithApprover(r.Approver(b.policy)), aycoder.WithToolMiddleware(r.Tool)}})
	require.NoError(t, err)
	b.opts = []aycoder.Option{aycoder.WithTools(sub)}
	_, m, err := b.run(r, script.Call("subagent", map[string]any{"task": "look"}), script.Say("end"))
	require.NoError(t, err)
	require.Contains(t, script.LastOutput(m.Requests()[1]).Text(), "the report")
	require.Contains(t, script.LastOutput(inner.Requests()[1]).Text(), "a hook refused this call: not you")
	require.Equal(t, []string{`write_file {"content":"y","path":"x"}`}, b.ran)
	id := m.Requests()[1].Messages[1].Calls()[0].ID
	for _, name := range []string{"start.json", "stop.json", "pre.json", "post.json"} {
		require.Contains(t, b.read(name), `"agent_id":"`+id+`","agent_type":"subagent"`, name)
	}
	require.Contains(t, b.read("stop.json"), "the report")
	require.Equal(t, 1, strings.Count(b.read("post.json"), "\n"), "once, although both agents have the middleware")

	for _, matcher := range []string{"finder", "subagent"} {
		b = newBench(t, hooks.Hook{Event: hooks.SubagentStart, Matcher: matcher, Command: "cat >start.json"},
			hooks.Hook{Event: hooks.SubagentStart, Matcher: "writer", Command: "exit 2"},
			hooks.Hook{Event: hooks.SubagentStop, Matcher: matcher, Command: "cat >stop.json"})
		b.opts = []aycoder.Option{aycoder.WithTools(b.tool("subagent", "report", `{"type":"object"}`))}
		require.Equal(t, "report", b.outputOf("subagent", map[string]any{"agent": "finder"}).Text())
		require.Contains(t, b.read("start.json"), `"agent_type":"finder"`, matcher)
		require.Contains(t, b.read("stop.json"), `"agent_type":"finder"`, matcher)
	}

	b = newBench(t, hooks.Hook{Event: hooks.SubagentStart, Command: "echo no agents >&2; exit 2"})
	b.opts = []aycoder.Option{aycoder.WithTools(b.tool("subagent", "report", `{"type":"object"}`))}
	require.Contains(t, b.outputOf("subagent", map[string]any{}).Text(), "no agents")
	require.Empty(t, b.ran)
}

func TestPermissions(t *testing.T) {
	list := []hooks.Hook{
		{Event: hooks.PermissionRequest, Matcher: "Bash", Command: `cat >request.json; echo x >>asked
			grep -q forbidden request.json && printf '{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"by hook"}}}'
			grep -q 'broken' request.json && exit 1; exit 0`},
		{Event: hooks.PermissionDenied, Command: "cat >>denied.json; echo >>denied.json"},
		{Event: hooks.Notification, Matcher: "permission_prompt", Command: "cat >notified.json"},
	}
	b := newBench(t, list...)
	b.policy = aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		if strings.Contains(string(c.Args), "rm") {
			return aycoder.Deny("no rm")
		}
		return aycoder.Ask()
	})
	for _, tt := range []struct {
		command string
		asked   bool
	}{{"ls", true}, {"forbidden", false}, {"broken", true}, {"rm", false}} {
		asked := false
		_, _, err := b.runWith(b.runner(), func(ev aycoder.Event) {
			if _, ok := ev.(*aycoder.ApprovalRequested); ok {
				asked = true
			}
		}, script.Call("bash", map[string]any{"command": tt.command}), script.Say("end"))
		require.NoError(t, err)
		require.Equal(t, tt.asked, asked, tt.command)
	}
	require.Contains(t, b.read("notified.json"), `"notification_type":"permission_prompt"`)
	require.Equal(t, 1, strings.Count(b.read("denied.json"), "\n"))
	require.Contains(t, b.read("denied.json"), `"reason":"no rm"`)
	require.Equal(t, 3, strings.Count(b.read("asked"), "x"))
	require.Empty(t, b.ran)
}

func TestSession(t *testing.T) {
	b := newBench(t, hooks.Hook{Event: hooks.SessionStart, Matcher: "startup|resume", Command: "cat >start.json; echo branch main"},
		hooks.Hook{Event: hooks.SessionStart, Matcher: "clear", Command: "echo never"},
		hooks.Hook{Event: hooks.SessionEnd, Command: `cat >end.json; printf '{"systemMessage":"bye"}'`})
	r := b.runner()
	require.Equal(t, "branch main", r.SessionStart(t.Context(), "startup"))
	require.Contains(t, b.read("start.json"), `"source":"startup"`)
	r.SessionEnd(t.Context(), "other")
	require.Contains(t, b.read("end.json"), `"reason":"other"`)
	require.Len(t, b.reports, 1)
	require.Equal(t, "bye", b.reports[0].Text)
}

// A text after a compaction is gone from the requests as soon as its hook is gone.
func TestTextsOfRemovedHooks(t *testing.T) {
	other := hooks.Hook{Event: hooks.SessionStart, Command: "echo OTHER"}
	gone := hooks.Hook{Event: hooks.SessionStart, Matcher: "compact", Command: "echo GONE", Source: "settings.json:3"}
	b := newBench(t, gone, other)
	var tail string
	b.opts = []aycoder.Option{aycoder.WithModelMiddleware(func(next aycoder.ModelClient) aycoder.ModelClient {
		return aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			for _, part := range req.Tail {
				tail += part.Text
			}
			return next.Stream(ctx, req)
		})
	})}
	r := b.runner()
	said := func(list ...hooks.Hook) string {
		require.NoError(t, r.Replace(list))
		tail = ""
		_, _, err := b.run(r, script.Say("hello"))
		require.NoError(t, err)
		return tail
	}
	require.Equal(t, "GONE\nOTHER", r.SessionStart(t.Context(), "compact"))
	require.Equal(t, "<hook_context>\nGONE\nOTHER\n</hook_context>\n", said(gone, other))
	other.Source = "settings.json:4" // it has only moved
	require.Equal(t, "<hook_context>\nOTHER\n</hook_context>\n", said(other))
	require.Empty(t, said())
}

// Before a compaction, its hooks run, also when the user has asked for it.
func TestPreCompact(t *testing.T) {
	b := newBench(t, hooks.Hook{Event: hooks.PreCompact, Matcher: "manual", Command: "cat >in.json"})
	b.opts = []aycoder.Option{aycoder.WithContext(aycoder.ContextFunc(func(_ context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		require.Empty(t, b.read("in.json"))
		require.NoError(t, in.Compacting(&aycoder.Compacting{Reason: "command"}))
		require.Contains(t, b.read("in.json"), `"trigger":"manual"`)
		req := *in.Base
		req.Messages = in.Messages
		return &req, nil
	}))}
	_, _, err := b.run(b.runner(), script.Say("hello"))
	require.NoError(t, err)
}

// A hook refuses a compaction, which is made all the same if the conversation does not fit otherwise. The user reads both.
func TestPreCompactRefuses(t *testing.T) {
	b := newBench(t, hooks.Hook{Event: hooks.PreCompact, Command: "echo not now >&2; exit 2"})
	r := b.runner()
	b.opts = []aycoder.Option{aycoder.WithContext(aycoder.ContextFunc(func(_ context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		require.ErrorAs(t, in.Compacting(&aycoder.Compacting{Reason: "threshold"}), new(*hooks.StoppedError))
		require.NoError(t, in.Compacting(&aycoder.Compacting{Reason: "refusal", Needed: true}))
		req := *in.Base
		req.Messages = in.Messages
		return &req, nil
	}))}
	var begun []string
	_, _, err := b.runWith(r, func(ev aycoder.Event) {
		if c, ok := ev.(*aycoder.Compacting); ok {
			begun = append(begun, c.Reason)
		}
	}, script.Say("hello"))
	require.NoError(t, err)
	require.Equal(t, []string{"refusal"}, begun)
	require.Len(t, b.reports, 2)
	require.Equal(t, "the compaction is refused: not now", b.reports[0].Text)
	require.Equal(t, "the compaction is refused, but the conversation does not fit otherwise, so it is made: not now", b.reports[1].Text)
	require.ErrorContains(t, r.PreCompact(t.Context(), "keep"), "not now")
}

// A cancelled run does not wait for its hooks.
func TestCancelled(t *testing.T) {
	b := newBench(t, pre("", "touch started; sleep 1000"))
	r := b.runner()
	loop, err := aycoder.New(script.New(script.Call("bash", map[string]any{"command": "ls"})),
		aycoder.WithApprover(r.Approver(b.policy)), aycoder.WithTools(b.tools()...))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		timed.Until(t, func() bool {
			_, err := os.Stat(filepath.Join(b.dir, "started"))
			return err == nil
		})
		cancel()
	}()
	start := time.Now()
	for _, err = range r.Agent(loop).Run(ctx, aycoder.Input{Prompt: "x"}) {
	}
	require.ErrorIs(t, err, context.Canceled)
	timed.Within(t, start, 5*time.Second)
	require.Empty(t, b.ran)
	require.Empty(t, b.reports, "the hook is not to blame")
}
