package tools

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
)

type netCase struct {
	ID, Tool, Name string
	Args           args
	Expect         struct {
		Outcome        string
		MaxMS          int    `json:"max_ms"`
		MaxOutputBytes int    `json:"max_output_bytes"`
		MaxRSS         int    `json:"max_rss_mb"`
		Contains       string `json:"contains"`
		NotContains    string `json:"not_contains"`
		ErrorKind      string `json:"error_kind"`
		Reported       bool
	}
}

// netRunners run a case and return the text of its result.
var netRunners = map[string]func(*netCase, *testing.T) (text string, isError bool){
	"fetch":    (*netCase).fetch,
	"todo":     (*netCase).todo,
	"ask_user": (*netCase).askUser,
	"subagent": (*netCase).subagent,
}

// Recorded awkward situations, for the tools that reach out of the workspace.
func TestNetRobustnessCases(t *testing.T) {
	ran := map[string]int{}
	for _, c := range robustCases[netCase](t, slices.Collect(maps.Keys(netRunners))...) {
		ran[c.Tool]++
		t.Run(c.Tool+" "+c.Name, func(t *testing.T) { c.run(t) })
	}
	t.Logf("cases: %v", ran)
	require.NotEmpty(t, ran)
}

func (c *netCase) run(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	text, isError := netRunners[c.Tool](c, t)
	if c.Expect.MaxMS > 0 {
		timed.Within(t, start, time.Duration(c.Expect.MaxMS)*time.Millisecond)
	}
	runtime.ReadMemStats(&after)
	if c.Expect.MaxRSS > 0 { // the total of all allocations is an upper bound of the memory in use
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(c.Expect.MaxRSS)<<20)
	}
	switch c.Expect.Outcome {
	case "ok":
		assert.False(t, isError, text)
	case "error", "timeout", "cancelled":
		assert.True(t, isError, text)
	}
	assert.True(t, utf8.ValidString(text))
	if c.Expect.MaxOutputBytes > 0 {
		assert.LessOrEqual(t, len(text), c.Expect.MaxOutputBytes)
	}
	assert.Contains(t, text, c.Expect.Contains)
	if c.Expect.NotContains != "" {
		assert.NotContains(t, text, c.Expect.NotContains)
	}
	if c.Expect.ErrorKind != "" {
		assert.True(t, strings.HasPrefix(text, c.Expect.ErrorKind+": "), "want %s: %s", c.Expect.ErrorKind, text)
	}
}

// direct calls a tool; an error without a result is one that the loop reports.
func (c *netCase) direct(t *testing.T, ctx context.Context, tool aycoder.Tool, in args) (string, bool) {
	t.Helper()
	r, err := tool.Call(ctx, aycoder.NewInvocation("c1", c.Tool, mustJSON(t, in), nil))
	if err != nil {
		return err.Error(), true
	}
	return r.Text(), r.IsError
}

func (c *netCase) fetch(t *testing.T) (string, bool) {
	address, _ := c.Args["url"].(string)
	kind, isTest := strings.CutPrefix(address, "TEST:")
	if !isTest {
		return c.direct(t, t.Context(), fetchTool(t), args{"url": address})
	}
	kind, to, _ := strings.Cut(kind, " ")
	if kind == "downgrade" {
		return c.downgrade(t)
	}
	handler := map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) },
		"loop":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) },
		"binary":   answer("", "\x7fELF\x02\x01\x01\x00\x00\x00"),
		"404":      http.NotFound,
		"slow": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				<-time.After(100 * time.Millisecond)
			}
		},
		"body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			chunk := []byte(strings.Repeat("0123456789abcde\n", 4096))
			for range 1 << 14 { // a gigabyte
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
	}[kind]
	if handler == nil {
		t.Skipf("no server for %s", address)
	}
	web := newWeb(t, handler)
	in := args{"url": web.URL}
	if kind == "slow" {
		in["timeout"] = 2 // TestFetchThatHangs covers the full time, on a fake clock
	}
	return c.direct(t, t.Context(), web.tool, in)
}

// downgrade redirects from https to http on the same host.
func (c *netCase) downgrade(t *testing.T) (string, bool) {
	plain := newWeb(t, answer("text/plain", "not encrypted"))
	secret := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL, http.StatusFound)
	}))
	defer secret.Close()
	tool := fetchTool(t, WithHTTPClient(secret.Client()), WithPrivateHosts("127.0.0.1"))
	text, isError := c.direct(t, t.Context(), tool, args{"url": secret.URL})
	require.Equal(t, c.Expect.Reported, strings.Contains(text, plain.URL), text)
	return text, isError
}

func (c *netCase) todo(t *testing.T) (string, bool) {
	in := args{}
	maps.Copy(in, c.Args)
	if n, ok := in["todos_n"].(float64); ok {
		delete(in, "todos_n")
		items := make([]args, int(n))
		for i := range items {
			items[i] = args{"content": fmt.Sprint("item ", i), "status": "pending"}
		}
		in["todos"] = items
	}
	tool, err := Todo()
	require.NoError(t, err)
	fin, _, _ := delegate(t, tool, in) // the loop accepts a list that is written as a string
	return fin.Output.Text(), fin.Output.IsError
}

func (c *netCase) askUser(t *testing.T) (string, bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ask := func(context.Context, Question) (Answer, error) { return Answer{Text: "yes"}, nil }
	in := args{}
	for k, v := range c.Args {
		switch k {
		case "headless":
			ask = nil
		case "cancel_at_ms":
			time.AfterFunc(time.Duration(v.(float64))*time.Millisecond, cancel)
			ask = func(ctx context.Context, _ Question) (Answer, error) {
				<-ctx.Done()
				return Answer{}, ctx.Err()
			}
		default:
			in[k] = v
		}
	}
	if in["options"] != nil {
		ask = func(_ context.Context, q Question) (Answer, error) {
			assert.NotContains(t, q.Text+strings.Join(q.Options, ""), "\x1b")
			assert.NotContains(t, q.Text+strings.Join(q.Options, ""), "\u202e")
			return Answer{Options: []int{0}, Text: q.Text}, nil
		}
	}
	return c.direct(t, ctx, askTool(t, ask), in)
}

// subagent makes an agent do what the case says, in a parent with the case's rule. The
// refusal of the agent's call is the result.
func (c *netCase) subagent(t *testing.T) (string, bool) {
	ran := 0
	var tools []aycoder.Tool
	for _, name := range []string{"read_file", "bash"} {
		effect := map[string]aycoder.Effect{"read_file": aycoder.EffectReadOnly}[name]
		tools = append(tools, fake(t, name, effect, &ran))
	}
	in := args{"task": c.Args["task"]}
	config := SubagentConfig{Model: modelOf(says("done")), Tools: tools}
	rules := []policy.Rule{{Action: policy.RuleAllow, Tool: "*", Class: "escalates"}}
	if names, ok := c.Args["tools"]; ok {
		in["tools"] = names
	}
	if rule, ok := c.Args["parent_rule"].(string); ok {
		action, rest, _ := strings.Cut(rule, " ")
		parsed, err := policy.ParseRule(policy.RuleAction(action), strings.TrimSuffix(strings.Replace(rest, "(", ":", 1), ")"))
		require.NoError(t, err)
		rules = append(rules, parsed)
		config.Model = modelOf(uses("bash", args{"command": "rm x"}), says("done"))
	}
	// each agent calls the next one, beyond the limit
	if depth, ok := c.Args["depth"].(float64); ok {
		for range int(depth) {
			inner := subagent(t, config)
			config = SubagentConfig{Model: modelOf(uses("subagent", in), says("done")), Tools: []aycoder.Tool{inner}}
		}
	}
	approver, err := policy.New(policy.WithRules(policy.User, rules...))
	require.NoError(t, err)
	fin, events, _ := delegate(t, subagent(t, config), in, aycoder.WithApprover(approver))
	require.Zero(t, ran)
	if inside := textsOf(events); len(inside) > 0 {
		return inside[0], true
	}
	return fin.Output.Text(), fin.Output.IsError
}
