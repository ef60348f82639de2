package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// A bench runs agents with hooks in a directory.
type bench struct {
	t       *testing.T
	dir     string
	config  hooks.Config
	policy  aycoder.Approver
	mu      sync.Mutex
	ran     []string // the arguments of the calls that were run, with the tools' names
	reports []hooks.Report
	opts    []aycoder.Option
}

func newBench(t *testing.T, list ...hooks.Hook) *bench {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh")
	}
	e, err := tools.LocalExec()
	require.NoError(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	b := &bench{t: t, dir: dir}
	b.config = hooks.Config{Hooks: list, Exec: e, Root: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Session: "s1"}
	b.config.Report = func(r hooks.Report) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.reports = append(b.reports, r)
	}
	b.policy = aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Allow()
	})
	return b
}

func (b *bench) runner() *hooks.Runner {
	b.t.Helper()
	r, err := hooks.New(b.config)
	require.NoError(b.t, err)
	return r
}

func (b *bench) read(name string) string {
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	require.NoError(b.t, err)
	return string(data)
}

// tool makes a tool that notes its arguments and returns a text.
func (b *bench) tool(name, text string, schema string) aycoder.Tool {
	return &noting{b, aycoder.ToolSpec{Name: name, Schema: json.RawMessage(schema),
		Subject: aycoder.Subject{}}, text}
}

type noting struct {
	b    *bench
	spec aycoder.ToolSpec
	text string
}

func (n *noting) Spec() aycoder.ToolSpec { return n.spec }
func (n *noting) Call(_ context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	n.b.mu.Lock()
	defer n.b.mu.Unlock()
	n.b.ran = append(n.b.ran, inv.Name+" "+string(inv.Args))
	if n.text == "fail" {
		return nil, errors.New("it failed")
	}
	return aycoder.TextResult(n.text), nil
}

const (
	bashSchema  = `{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"integer"}},"required":["command"],"additionalProperties":false}`
	writeSchema = `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}`
	patchSchema = `{"type":"object","properties":{"patch":{"type":"string"}},"required":["patch"],"additionalProperties":false}`
)

func (b *bench) tools() []aycoder.Tool {
	return []aycoder.Tool{b.tool("bash", "done", bashSchema), b.tool("write_file", "written", writeSchema),
		b.tool("apply_patch", "patched", patchSchema)}
}

// run runs an agent with a script, and returns the result, the events and the error.
func (b *bench) run(r *hooks.Runner, steps ...script.Step) (*aycoder.Result, *script.Model, error) {
	return b.runWith(r, func(aycoder.Event) {}, steps...)
}

func (b *bench) runWith(r *hooks.Runner, see func(aycoder.Event), steps ...script.Step) (*aycoder.Result, *script.Model, error) {
	b.t.Helper()
	m := script.New(steps...)
	opts := append([]aycoder.Option{aycoder.WithApprover(r.Approver(b.policy)), aycoder.WithToolMiddleware(r.Tool),
		aycoder.WithTools(b.tools()...)}, b.opts...)
	loop, err := aycoder.New(m, opts...)
	require.NoError(b.t, err)
	var res aycoder.Result
	for ev, err := range r.Agent(loop).Run(b.t.Context(), aycoder.Input{Prompt: "do it"}, aycoder.Into(&res)) {
		if err != nil {
			return &res, m, err
		}
		see(ev)
	}
	return &res, m, nil
}

// output runs one call of bash and returns what the model reads.
func (b *bench) output(command string) *aycoder.ToolOutput {
	b.t.Helper()
	return b.outputOf("bash", map[string]any{"command": command})
}

func (b *bench) outputOf(tool string, args map[string]any) *aycoder.ToolOutput {
	b.t.Helper()
	_, m, err := b.run(b.runner(), script.Call(tool, args), script.Say("end"))
	require.NoError(b.t, err)
	return script.LastOutput(m.Requests()[1])
}
