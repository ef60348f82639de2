package hooks_test

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
)

// quickExec answers at once like a hook that has no objection.
type quickExec struct{}

var mark = regexp.MustCompile(`%s %s\\n' (\w+) `)

func (quickExec) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m := mark.FindStringSubmatch(c.Script)[1]
	_, err := fmt.Fprintf(c.Output, "\n%s 0\n\n%s 0\n", m, m)
	return &tools.ExecResult{}, err
}

// An agent with hooks that have no objection is an agent like any other.
func TestAgent(t *testing.T) {
	timed.Long(t, "the whole contract of agents")
	if timed.Reduced(t) {
		t.Skip("left out with the race detector: package agenttest tests the contract with it")
	}
	var list []hooks.Hook
	for _, e := range []hooks.Event{hooks.PreToolUse, hooks.PostToolUse, hooks.PostToolUseFailure, hooks.PermissionRequest,
		hooks.PermissionDenied, hooks.UserPromptSubmit, hooks.Stop, hooks.Notification} {
		list = append(list, hooks.Hook{Event: e, Command: "true"})
	}
	agenttest.TestAgent(t, func(t testing.TB, s agenttest.AgentSetup) aycoder.Agent {
		r, err := hooks.New(hooks.Config{Hooks: list, Exec: quickExec{}, Root: "/work"})
		require.NoError(t, err)
		loop, err := aycoder.New(s.Model, aycoder.WithTools(s.Tools...), aycoder.WithApprover(r.Approver(s.Approver)),
			aycoder.WithToolMiddleware(r.Tool))
		require.NoError(t, err)
		return r.Agent(loop)
	})
}

// plainShell runs scripts by another shell than bash.
type plainShell struct {
	tools.Exec
	shell string
}

func (p plainShell) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	other := *c
	other.Script = "exec " + p.shell + " -c '" + strings.ReplaceAll(c.Script, "'", `'\''`) + "'"
	return p.Exec.Run(ctx, &other)
}

// Hooks work in the small shells of containers, too.
func TestDash(t *testing.T) {
	dash, err := exec.LookPath("dash")
	if err != nil {
		t.Skip("there is no dash")
	}
	for _, tt := range []struct{ command, reads string }{
		{"true", "done"},
		{"grep -q \"it's\" && exit 2; exit 0", "a hook refused this call"},
		{"echo no >&2; exit 2", "a hook refused this call: no"},
		{`printf '{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"never"}}'`, "never"},
		{"exit 3", "exit code 3"},
		{"if then (", "yntax error"},
		{"kill -9 $$", "died"},
		{"no-such-program", "exit code 127"},
		{"yes", "wrote more than"},
	} {
		b := newBench(t, pre("Bash", tt.command))
		b.config.Exec = plainShell{b.config.Exec, dash}
		command := "ls"
		if strings.HasPrefix(tt.command, "grep") {
			command = "echo it's"
		}
		out := b.output(command)
		require.Contains(t, out.Text(), tt.reads, tt.command)
		require.Equal(t, tt.reads == "done", len(b.ran) == 1, tt.command)
	}
}

// A hook need not read its input, however long that is.
func TestUnreadInput(t *testing.T) {
	b := newBench(t, pre("Bash", "exec <&-; exit 0"), pre("Bash", "head -c 10 >/dev/null"), pre("Bash", "wc -c >size"))
	require.Equal(t, "done", b.output(strings.Repeat("x ", 200_000)).Text())
	require.Regexp(t, `^\s*4\d{5}\s*$`, b.read("size"))
}

// The output of a hook comes to the model and to the user without secrets, but for an input, which runs as it is.
func TestMask(t *testing.T) {
	for _, command := range []string{
		"echo $K >&2; exit 2", "echo $K >&2; exit 1", `echo '{"decision":"block","reason":"'$K'"}'`,
		`echo '{"systemMessage":"'$K'","hookSpecificOutput":{"additionalContext":"'$K'"}}'`,
	} {
		b := newBench(t, pre("Bash", command))
		b.config.Env = append(b.config.Env, "K=key-1")
		b.config.Mask = func(s string) string { return strings.ReplaceAll(s, "key-1", "[secret]") }
		out := b.output("ls").Text()
		require.Contains(t, out, "[secret]", command)
		require.NotContains(t, out, "key-1", command)
		for _, r := range b.reports {
			require.NotContains(t, r.Text+fmt.Sprint(r.Err), "key-1", command)
		}
	}
	b := newBench(t, pre("Bash", "echo '{\"hookSpecificOutput\":{\"additionalContext\":\"</hook_context> \u202ex\"}}'"))
	require.Contains(t, b.output("ls").Text(), "&lt;/hook_context> <U+202E>x", "a file that a hook prints cannot end what is marked")
	b = newBench(t, pre("Bash", `echo '{"hookSpecificOutput":{"updatedInput":{"command":"ls key-1"}}}'`))
	b.config.Mask = func(s string) string { return strings.ReplaceAll(s, "key-1", "[secret]") }
	b.output("ls")
	require.Equal(t, []string{`bash {"command":"ls key-1"}`}, b.ran)
}
