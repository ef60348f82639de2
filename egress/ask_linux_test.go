//go:build linux && (amd64 || arm64)

package egress_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/egress"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A desk is an agent whose commands have a proxy, a server that they may want to reach by any
// name, and a user who is asked.
type desk struct {
	ws      *workspace.Workspace
	tools   []aycoder.Tool
	port    string
	paths   sync.Map // that the server was asked for
	asked   []aycoder.ApprovalRequest
	records []egress.Record
	mu      sync.Mutex
}

func newDesk(t *testing.T, opts ...egress.Option) *desk {
	d := &desk{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.paths.Store(r.URL.Path, true)
		fmt.Fprintln(w, "hello", r.Host)
	}))
	t.Cleanup(server.Close)
	_, d.port, _ = net.SplitHostPort(server.Listener.Addr().String())
	var err error
	d.ws, err = workspace.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { d.ws.Close() })
	landlock, err := tools.Landlock(d.ws)
	require.NoError(t, err)
	bwrap, err := tools.Bubblewrap(d.ws)
	require.NoError(t, err)
	box := tools.FirstSandbox(landlock, bwrap)
	t.Cleanup(func() { require.NoError(t, errors.Join(landlock.Close(), bwrap.Close())) })
	if _, err := tools.CheckSandbox(t.Context(), box, tools.SandboxCall{Proxy: func(l net.Listener) { l.Close() }}); err != nil {
		t.Skipf("no sandbox of this machine can hand connections to a proxy: %v", err)
	}
	opts = append(opts, egress.WithResolver(resolver(t, func(string) []string { return []string{"127.0.0.1"} })),
		egress.WithRules(egress.Rule{Host: "*", Private: true}), egress.WithLog(func(r egress.Record) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.records = append(d.records, r)
		}))
	proxy, err := egress.New(opts...)
	require.NoError(t, err)
	d.tools, err = tools.Coding(d.ws, tools.WithSandbox(box), tools.WithProxy(proxy))
	require.NoError(t, err)
	return d
}

func (d *desk) reached(path string) bool { _, ok := d.paths.Load(path); return ok }

// curl is a command that asks for paths on a host, one after the other.
func (d *desk) curl(host string, paths ...string) string {
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "curl -sS http://%s:%s%s; ", host, d.port, p)
	}
	return b.String()
}

// run runs commands by a model, and returns what each printed. The user answers questions about
// the network by a function.
func (d *desk) run(t *testing.T, ctx context.Context, approver aycoder.Approver, answer func(*aycoder.ApprovalRequested), commands ...string) ([]string, error) {
	t.Helper()
	var steps []script.Step
	for _, c := range commands {
		steps = append(steps, script.Call("bash", map[string]string{"command": c}))
	}
	agent, err := aycoder.New(script.New(append(steps, script.Say("done"))...), aycoder.WithTools(d.tools...), aycoder.WithApprover(approver))
	require.NoError(t, err)
	var out []string
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: "go"}) {
		if err != nil {
			return out, err
		}
		switch ev := ev.(type) {
		case *aycoder.ChildEvent:
			q, ok := ev.Innermost().(*aycoder.ApprovalRequested)
			require.True(t, ok, "only questions come out: %T", ev.Innermost())
			require.Equal(t, "network", q.Request.Tool)
			d.asked = append(d.asked, q.Request)
			answer(q)
		case *aycoder.ToolFinished:
			out = append(out, ev.Output.Text())
		}
	}
	return out, nil
}

func rules(t *testing.T, lines ...string) *policy.Policy {
	t.Helper()
	var all []policy.Rule
	for _, line := range append(lines, "allow bash@escalates") {
		action, text, _ := strings.Cut(line, " ")
		r, err := policy.ParseRule(policy.RuleAction(action), text)
		require.NoError(t, err)
		all = append(all, r)
	}
	p, err := policy.New(policy.WithRules(policy.User, all...))
	require.NoError(t, err)
	return p
}

func TestQuestion(t *testing.T) {
	tests := []struct {
		name   string
		rules  []string
		answer func(t *testing.T, q *aycoder.ApprovalRequested)
		// asks is how many questions two commands raise that each connect to a host twice.
		asks    int
		reaches bool
		says    string
	}{
		{"once", nil, func(_ *testing.T, q *aycoder.ApprovalRequested) { q.Allow() }, 2, true, "hello a.test"},
		{"for the session", nil, func(t *testing.T, q *aycoder.ApprovalRequested) {
			require.NoError(t, q.AllowFor(aycoder.Session, q.Request.Suggested[0]))
		}, 1, true, "hello a.test"},
		{"no", nil, func(_ *testing.T, q *aycoder.ApprovalRequested) { q.Deny("not there") }, 2, false, "not there"},
		{"ignored", nil, func(*testing.T, *aycoder.ApprovalRequested) {}, 2, false, "nobody gave it (ignored)"},
		{"later", nil, func(_ *testing.T, q *aycoder.ApprovalRequested) {
			a := q.Detach()
			go a.Allow()
		}, 2, true, "hello a.test"},
		{"abandoned with another place", nil, func(t *testing.T, q *aycoder.ApprovalRequested) {
			require.NoError(t, q.AllowWith(json.RawMessage(`{"url": "http://b.test"}`)))
		}, 2, false, "another host was allowed"},
		{"a rule", []string{"allow network:a.test:PORT"}, nil, 0, true, "hello a.test"},
		{"a rule for a star", []string{"allow network:*.test:*"}, nil, 0, true, "hello a.test"},
		{"a rule for another port", []string{"allow network:a.test"}, func(_ *testing.T, q *aycoder.ApprovalRequested) { q.Deny("") }, 2, false, "refused"},
		{"a rule against it", []string{"deny network:*.test", "allow network"}, nil, 0, false, "denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			for i, r := range tt.rules {
				tt.rules[i] = strings.ReplaceAll(r, "PORT", d.port)
			}
			out, err := d.run(t, t.Context(), rules(t, tt.rules...), func(q *aycoder.ApprovalRequested) { tt.answer(t, q) },
				d.curl("a.test", "/1", "/2"), d.curl("a.test", "/3", "/4"))
			require.NoError(t, err)
			require.Len(t, out, 2)
			assert.Len(t, d.asked, tt.asks)
			for _, q := range d.asked {
				assert.Equal(t, "http://a.test:"+d.port, q.Subject)
				assert.Equal(t, []string{"network:a.test:" + d.port}, q.Suggested)
				assert.Contains(t, q.Preview, "curl")
				assert.Equal(t, "network", q.Class)
			}
			for _, path := range []string{"/1", "/2", "/3", "/4"} {
				assert.Equal(t, tt.reaches, d.reached(path), path)
			}
			for _, text := range out {
				assert.Contains(t, text, tt.says)
				assert.Equal(t, !tt.reaches, strings.Contains(text, "[network: a.test:"+d.port+" is denied: "), text)
			}
			assert.Len(t, d.records, 4)
			for _, r := range d.records {
				assert.Equal(t, tt.reaches, r.Allowed)
				assert.Equal(t, "a.test", r.Destination.Host)
			}
		})
	}
}

// Programs that connect at the same time raise one question, those of other hosts wait.
func TestQuestionsTogether(t *testing.T) {
	d := newDesk(t)
	var open, most atomic.Int32
	out, err := d.run(t, t.Context(), rules(t), func(q *aycoder.ApprovalRequested) {
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		q.Allow()
	}, strings.ReplaceAll(d.curl("a.test", "/1", "/2", "/3")+d.curl("b.test", "/4", "/5"), ";", " &")+" wait")
	require.NoError(t, err)
	assert.Len(t, d.asked, 2)
	assert.EqualValues(t, 1, most.Load())
	for _, path := range []string{"/1", "/2", "/3", "/4", "/5"} {
		assert.True(t, d.reached(path), "%s: %s", path, out)
	}
}

// Nothing is approved by who stops a run, and nothing waits for an answer that cannot come.
func TestQuestionEnds(t *testing.T) {
	t.Run("cancel", func(t *testing.T) {
		d := newDesk(t)
		ctx, cancel := context.WithCancel(t.Context())
		var late *aycoder.Approval
		_, err := d.run(t, ctx, rules(t), func(q *aycoder.ApprovalRequested) {
			late = q.Detach()
			cancel()
		}, d.curl("a.test", "/1"))
		require.ErrorIs(t, err, context.Canceled)
		assert.False(t, late.Allow(), "an answer after the end")
		assert.False(t, d.reached("/1"))
	})
	t.Run("the command ends", func(t *testing.T) {
		d := newDesk(t)
		var late *aycoder.Approval
		_, err := d.run(t, t.Context(), rules(t), func(q *aycoder.ApprovalRequested) {
			late = q.Detach()
			require.NoError(t, os.WriteFile(filepath.Join(d.ws.Dir(), "asked"), nil, 0o600))
		}, strings.ReplaceAll(d.curl("a.test", "/1"), ";", "&")+"until [ -e asked ]; do sleep 0.01; done")
		require.NoError(t, err)
		assert.False(t, late.Allow(), "an answer after the end")
		assert.False(t, d.reached("/1"))
	})
	t.Run("patience", func(t *testing.T) {
		d := newDesk(t, egress.WithPatience(1))
		var late *aycoder.Approval
		out, err := d.run(t, t.Context(), rules(t), func(q *aycoder.ApprovalRequested) { late = q.Detach() }, d.curl("a.test", "/1"))
		require.NoError(t, err)
		assert.Contains(t, out[0], "is denied")
		if late != nil {
			assert.False(t, late.Allow())
		}
		assert.False(t, d.reached("/1"))
	})
	t.Run("nobody there", func(t *testing.T) {
		d := newDesk(t)
		for name, approver := range map[string]aycoder.Approver{
			"deny": aycoder.DenyAsks(rules(t)), "suspend": aycoder.SuspendAsks(rules(t)),
		} {
			out, err := d.run(t, t.Context(), approver, nil, d.curl("a.test", "/"+name))
			require.NoError(t, err)
			assert.Contains(t, out[0], "is denied")
			if name == "deny" {
				assert.Contains(t, out[0], "network:a.test:"+d.port, "the rule that would allow it")
			}
			assert.False(t, d.reached("/"+name))
		}
	})
	t.Run("outside of a run", func(t *testing.T) {
		d := newDesk(t)
		args, err := json.Marshal(map[string]string{"command": d.curl("a.test", "/1")})
		require.NoError(t, err)
		for _, tool := range d.tools {
			if tool.Spec().Name == "bash" {
				r, err := tool.Call(t.Context(), aycoder.NewInvocation("1", "bash", args, nil))
				require.NoError(t, err)
				assert.Contains(t, r.Text(), "a rule of the proxy for a.test:"+d.port+" would allow it")
			}
		}
		assert.False(t, d.reached("/1"))
	})
}

// A command in the background can ask nobody any more, but uses what rules allow.
func TestQuestionInTheBackground(t *testing.T) {
	d := newDesk(t)
	var steps []script.Step
	steps = append(steps, script.Call("bash", map[string]any{"command": "until [ -e go ]; do sleep 0.01; done; " + d.curl("a.test", "/1") + d.curl("b.test", "/2"), "background": true}),
		script.Call("bash", map[string]any{"command": "touch go"}))
	for range 5 { // each waits for some output, or the end
		steps = append(steps, script.Call("job_output", map[string]any{"id": "bash-1", "wait": 10}))
	}
	steps = append(steps, script.Say("done"))
	agent, err := aycoder.New(script.New(steps...), aycoder.WithTools(d.tools...), aycoder.WithApprover(rules(t, "allow network:b.test:"+d.port, "allow job_output")))
	require.NoError(t, err)
	for ev, err := range agent.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if q, ok := ev.(*aycoder.ChildEvent); ok {
			t.Errorf("asked: %T", q.Event)
		}
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			t.Log(f.Output.Text())
		}
	}
	assert.False(t, d.reached("/1"))
	assert.True(t, d.reached("/2"))
}
