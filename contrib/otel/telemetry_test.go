package otel_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/otel"
	"github.com/aycoder/aycoder/contrib/otel/prom"
	"github.com/aycoder/aycoder/providers/script"
)

// spans is what the conventions say of spans: model/gen-ai/spans.yaml at the commit of Version. The attributes are
// those that are required, and those that are required under a condition which the test meets.
var spans = map[string]struct {
	kind     trace.SpanKind
	required []string
}{
	"invoke_agent": {trace.SpanKindInternal, []string{"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model",
		"gen_ai.agent.name", "gen_ai.conversation.id"}},
	"chat":         {trace.SpanKindClient, []string{"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.request.stream"}},
	"execute_tool": {trace.SpanKindInternal, []string{"gen_ai.operation.name", "gen_ai.tool.name"}},
}

// metrics is the same of metrics: metrics.yaml there. Those that begin with "aycoder" are not of the conventions.
var metrics = map[string]struct {
	instrument, unit string
	required         []string
}{
	"gen_ai.client.operation.duration":            {"histogram", "s", []string{"gen_ai.operation.name", "gen_ai.provider.name"}},
	"gen_ai.client.operation.time_to_first_chunk": {"histogram", "s", []string{"gen_ai.operation.name", "gen_ai.provider.name"}},
	"gen_ai.client.token.usage":                   {"histogram", "{token}", []string{"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.token.type"}},
	"gen_ai.invoke_agent.duration":                {"histogram", "s", []string{"gen_ai.operation.name"}},
	"gen_ai.execute_tool.duration":                {"histogram", "s", []string{"gen_ai.operation.name", "gen_ai.tool.name"}},
	"aycoder.sessions":                            {"counter", "", nil},
	"aycoder.messages":                            {"counter", "", []string{"role"}},
	"aycoder.tokens":                              {"counter", "", []string{"type"}},
	"aycoder.tool_calls":                          {"counter", "", []string{"tool", "status"}},
	"aycoder.api_cost_dollars":                    {"counter", "", nil},
	"aycoder.response_time":                       {"histogram", "s", nil},
}

// recorder collects spans and metrics.
type recorder struct {
	spans  *tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
	*otel.Telemetry
}

func newRecorder(t *testing.T, change func(*otel.Options)) *recorder {
	t.Helper()
	r := &recorder{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	o := otel.Options{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans)),
		Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))}
	if change != nil {
		change(&o)
	}
	var err error
	r.Telemetry, err = otel.New(o)
	require.NoError(t, err)
	return r
}

const secret = "ghp_x7Kq9vLm2Rt5Wz8Yb3Nd6Fg1Hj4Pc0SaUeQi"

// work runs an agent that calls two tools and costs something.
func work(t *testing.T, r *otel.Telemetry, model aycoder.ModelClient) error {
	t.Helper()
	read, err := aycoder.NewTool("read", "Reads.", func(context.Context, *aycoder.Invocation, struct{ Path string }) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("the text " + secret), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	fail, err := aycoder.NewTool("fail", "Fails.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return nil, errors.New("no such thing")
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	a, err := aycoder.New(r.Model(model), aycoder.WithTools(read, fail), aycoder.WithToolMiddleware(r.Tools()))
	require.NoError(t, err)
	r.SessionStarted(t.Context())
	for _, err := range r.Agent(a, otel.Run{Name: "coder", Conversation: "s1"}).Run(t.Context(), aycoder.Input{Prompt: "Read it."}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func scripted() aycoder.ModelClient {
	return script.New(script.Call("read", `{"Path":"a"}`), script.Call("fail", `{}`), script.Say("All is read."))
}

func attributes(s sdktrace.ReadOnlySpan) map[string]any {
	out := map[string]any{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.AsInterface()
	}
	return out
}

// Spans are those of the conventions, and nest.
func TestSpans(t *testing.T) {
	r := newRecorder(t, nil)
	require.NoError(t, work(t, r.Telemetry, scripted()))
	var names []string
	ended := r.spans.Ended()
	root := ended[len(ended)-1]
	for _, s := range ended {
		names = append(names, s.Name())
		operation, _, _ := strings.Cut(s.Name(), " ")
		want, known := spans[operation]
		require.True(t, known, s.Name())
		require.Equal(t, want.kind, s.SpanKind(), s.Name())
		attrs := attributes(s)
		for _, name := range want.required {
			require.NotEmpty(t, attrs[name], "%s: %s", s.Name(), name)
		}
		require.Equal(t, operation, attrs["gen_ai.operation.name"])
		if s != root {
			require.Equal(t, root.SpanContext().SpanID(), s.Parent().SpanID(), s.Name())
		}
		for name, v := range attrs {
			text, _ := v.(string)
			for _, said := range []string{"Read it", "the text", "All is read", "no such thing"} {
				require.NotContains(t, text, said, name)
			}
		}
		if s.Name() == "execute_tool fail" {
			require.Equal(t, codes.Error, s.Status().Code)
			require.Empty(t, s.Status().Description)
			require.NotEmpty(t, attrs["error.type"])
		} else {
			require.NotEqual(t, codes.Error, s.Status().Code, s.Name())
		}
	}
	slices.Sort(names)
	chats := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, "chat ") })
	require.Len(t, chats, 3)
	require.Equal(t, []string{"execute_tool fail", "execute_tool read", "invoke_agent coder"}, names[3:])
	require.Equal(t, attributes(root)["gen_ai.usage.output_tokens"], sum(ended, "chat", "gen_ai.usage.output_tokens"))
}

func sum(all []sdktrace.ReadOnlySpan, operation, attr string) any {
	var n int64
	for _, s := range all {
		if v, ok := attributes(s)[attr].(int64); ok && strings.HasPrefix(s.Name(), operation) {
			n += v
		}
	}
	return n
}

// With the option, texts are there, and secrets are not.
func TestContent(t *testing.T) {
	r := newRecorder(t, func(o *otel.Options) { o.Content = true })
	require.NoError(t, work(t, r.Telemetry, scripted()))
	var all strings.Builder
	for _, s := range r.spans.Ended() {
		for name, v := range attributes(s) {
			if text, ok := v.(string); ok {
				all.WriteString(name + "=" + text + "\n")
			}
		}
		all.WriteString(s.Status().Description)
	}
	for _, text := range []string{`gen_ai.tool.call.arguments={"Path":"a"}`, "gen_ai.tool.call.result=the text ",
		`gen_ai.output.messages=[{"finish_reason":"`, `"content":"All is read."`, `"content":"Read it."`, "no such thing"} {
		require.Contains(t, all.String(), text)
	}
	require.NotContains(t, all.String(), secret)
}

// collect returns the metrics by name.
func (r *recorder) collect(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, r.reader.Collect(t.Context(), &data))
	out := map[string]metricdata.Metrics{}
	for _, scope := range data.ScopeMetrics {
		require.Equal(t, "github.com/aycoder/aycoder/contrib/otel", scope.Scope.Name)
		for _, m := range scope.Metrics {
			out[m.Name] = m
		}
	}
	return out
}

// points returns the kind of a metric and the attributes of its points.
func points(m metricdata.Metrics) (kind string, all []map[string]string, values []float64) {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		kind = "counter"
		for _, p := range data.DataPoints {
			all, values = append(all, labels(p.Attributes.ToSlice())), append(values, float64(p.Value))
		}
	case metricdata.Sum[float64]:
		kind = "counter"
		for _, p := range data.DataPoints {
			all, values = append(all, labels(p.Attributes.ToSlice())), append(values, p.Value)
		}
	case metricdata.Histogram[int64]:
		kind = "histogram"
		for _, p := range data.DataPoints {
			all, values = append(all, labels(p.Attributes.ToSlice())), append(values, float64(p.Sum))
		}
	case metricdata.Histogram[float64]:
		kind = "histogram"
		for _, p := range data.DataPoints {
			all, values = append(all, labels(p.Attributes.ToSlice())), append(values, p.Sum)
		}
	}
	return kind, all, values
}

func labels(set []attribute.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range set {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

func TestMetrics(t *testing.T) {
	r := newRecorder(t, nil)
	cost := 0.25
	require.NoError(t, work(t, r.Telemetry, priced{scripted(), cost}))
	got := r.collect(t)
	for name, m := range got {
		want, known := metrics[name]
		require.True(t, known, name)
		require.Equal(t, want.unit, m.Unit, name)
		kind, all, _ := points(m)
		require.Equal(t, want.instrument, kind, name)
		require.NotEmpty(t, all, name)
		for _, point := range all {
			for _, attr := range want.required {
				require.NotEmpty(t, point[attr], "%s: %s", name, attr)
			}
		}
	}
	require.Len(t, got, len(metrics), "each metric is there")
	_, _, values := points(got["aycoder.api_cost_dollars"])
	require.InDelta(t, 3*cost, values[0], 1e-9)
	_, labels, values := points(got["aycoder.tool_calls"])
	calls := map[string]float64{}
	for i, l := range labels {
		calls[l["tool"]+" "+l["status"]] = values[i]
	}
	require.Equal(t, map[string]float64{"read ok": 1, "fail error": 1}, calls)
	_, labels, values = points(got["aycoder.messages"])
	roles := map[string]float64{}
	for i, l := range labels {
		roles[l["role"]] = values[i]
	}
	require.Equal(t, map[string]float64{"user": 1, "assistant": 3}, roles)
}

// The cost of an answer counts once, whichever of the runs inside each other are told, and so does that of a summary.
func TestCostCountsOnce(t *testing.T) {
	for _, tt := range []struct {
		name       string
		wrap, emit bool
	}{
		{"all are told", true, true},
		{"all are told, and the events of the inner runs go nowhere", true, false},
		{"only the outer run is told", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t, nil)
			leaf, err := aycoder.New(priced{script.New(script.Say("leaf")), 1})
			require.NoError(t, err)
			agent := func(model aycoder.ModelClient, inner aycoder.Agent) aycoder.Agent {
				if tt.wrap {
					inner = r.Agent(inner, otel.Run{})
				}
				ask, err := aycoder.NewTool("ask", "Asks.", func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
					for ev, err := range inner.Run(ctx, aycoder.Input{Prompt: "x"}, aycoder.WithParent(inv)) {
						if err != nil {
							return nil, err
						}
						if tt.emit {
							if err := inv.Emit(ctx, ev); err != nil {
								return nil, err
							}
						}
					}
					return aycoder.TextResult("done"), nil
				}, aycoder.WithEffect(aycoder.EffectReadOnly))
				require.NoError(t, err)
				a, err := aycoder.New(priced{model, 1}, aycoder.WithTools(ask))
				require.NoError(t, err)
				return a
			}
			middle := agent(script.New(script.Call("ask", `{}`), script.Say("middle")), leaf)
			outer := r.Agent(agent(script.New(script.Call("ask", `{}`), script.Say("outer")), middle), otel.Run{})
			for _, err := range outer.Run(t.Context(), aycoder.Input{Prompt: "x"}) {
				require.NoError(t, err)
			}
			_, _, values := points(r.collect(t)["aycoder.api_cost_dollars"])
			require.InDelta(t, 5, values[0], 1e-9) // two answers outside, two in its call, and one in the call of that
		})
	}
	t.Run("summary", func(t *testing.T) {
		r := newRecorder(t, nil)
		cost := 0.5
		compacts := agentFunc(func(c *aycoder.RunConfig) error {
			return errors.Join(c.Facts(t.Context(), &aycoder.FactRecord{Fact: &aycoder.Compacted{Cost: &cost}}),
				c.Facts(t.Context(), &aycoder.FactRecord{Fact: &aycoder.MessageDone{Cost: &cost}}))
		})
		for range r.Agent(compacts, otel.Run{}).Run(t.Context(), aycoder.Input{Prompt: "x"}) {
		}
		_, _, values := points(r.collect(t)["aycoder.api_cost_dollars"])
		require.InDelta(t, 2*cost, values[0], 1e-9)
	})
}

// An agentFunc is an agent whose runs have only facts.
type agentFunc func(*aycoder.RunConfig) error

func (f agentFunc) Run(_ context.Context, _ aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(yield func(aycoder.Event, error) bool) {
		var c aycoder.RunConfig
		for _, o := range opts {
			if err := o(&c); err != nil {
				yield(nil, err)
				return
			}
		}
		if err := f(&c); err != nil {
			yield(nil, err)
		}
	}
}

// Names that nobody expects do not fill a metrics store.
func TestBoundedNames(t *testing.T) {
	r := newRecorder(t, func(o *otel.Options) { o.Tools = []string{"read"} })
	require.NoError(t, work(t, r.Telemetry, scripted()))
	_, labels, _ := points(r.collect(t)["aycoder.tool_calls"])
	var tools []string
	for _, l := range labels {
		tools = append(tools, l["tool"])
	}
	require.ElementsMatch(t, []string{"read", "other"}, tools)

	r = newRecorder(t, nil)
	f := r.Tools()(func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) {
		return aycoder.TextResult(""), nil
	})
	for i := range 1000 {
		_, err := f(t.Context(), aycoder.NewInvocation("c", "tool"+strings.Repeat("x", i), nil, nil))
		require.NoError(t, err)
	}
	_, labels, _ = points(r.collect(t)["aycoder.tool_calls"])
	require.Len(t, labels, 101)
}

// An error of a request ends its span and that of the run with its type, and a panic of a loop body leaves no span open.
func TestEnds(t *testing.T) {
	r := newRecorder(t, nil)
	limit := &aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: "x", Err: errors.New("the key is wrong")}}
	require.Error(t, work(t, r.Telemetry, script.New(script.Fail(limit))))
	require.Len(t, r.spans.Ended(), 2)
	for _, s := range r.spans.Ended() {
		require.Equal(t, "AuthError", attributes(s)["error.type"], s.Name())
		require.Equal(t, codes.Error, s.Status().Code)
	}
	a, err := aycoder.New(r.Model(scripted()))
	require.NoError(t, err)
	require.Panics(t, func() {
		for range r.Agent(a, otel.Run{}).Run(t.Context(), aycoder.Input{Prompt: "x"}) {
			panic("in the body")
		}
	})
	require.Len(t, r.spans.Ended(), len(r.spans.Started()))
	seq := r.Agent(a, otel.Run{}).Run(t.Context(), aycoder.Input{Prompt: "x"})
	for range seq {
		break
	}
	for _, err := range seq {
		require.ErrorIs(t, err, aycoder.ErrConsumed)
	}
	require.Len(t, r.spans.Ended(), len(r.spans.Started()))
	_, err = otel.New(otel.Options{Version: "1.36"})
	require.Error(t, err)
}

// priced is a client that knows what an answer costs.
type priced struct {
	aycoder.ModelClient
	cost float64
}

// Stream implements [aycoder.ModelClient].
func (p priced) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range p.ModelClient.Stream(ctx, req) {
			if done, ok := ev.(*aycoder.MessageDone); ok {
				with := *done
				with.Cost = &p.cost
				ev = &with
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func (p priced) Unwrap() aycoder.ModelClient { return p.ModelClient }

// Prometheus gets the metrics under the names that the documentation says.
func TestPrometheus(t *testing.T) {
	p, err := prom.New()
	require.NoError(t, err)
	tel, err := otel.New(otel.Options{Meter: p.Meter})
	require.NoError(t, err)
	require.NoError(t, work(t, tel, priced{scripted(), 0.5}))
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{"aycoder_sessions_total 1", `aycoder_messages_total{role="user"} 1`, `aycoder_tokens_total{type="output"}`,
		`aycoder_tool_calls_total{status="ok",tool="read"} 1`, "aycoder_api_cost_dollars_total 1.5", "aycoder_response_time_seconds_count 3",
		"gen_ai_client_operation_duration_seconds_bucket"} {
		require.Contains(t, w.Body.String(), line)
	}
	var pushed string
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pushed = r.Method + " " + r.URL.Path
		w.WriteHeader(http.StatusAccepted)
	}))
	defer gateway.Close()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil { // never ends
				return
			}
		}
	}))
	defer refuses.Close()
	err = p.Push(t.Context(), strings.Replace(refuses.URL, "http://", "http://user:hunter2@", 1), "agents")
	require.ErrorContains(t, err, "400 Bad Request")
	require.NotContains(t, err.Error(), "hunter2")
	require.NoError(t, p.Push(t.Context(), gateway.URL, "agents"))
	require.Equal(t, "PUT /metrics/job/agents", pushed)
	gateway.Close()
	for _, address := range []string{strings.Replace(gateway.URL, "http://", "http://user:hunter2@", 1), "hunter2", "http://hunter2:x:y/"} {
		err := p.Push(t.Context(), address, "agents")
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.NoError(t, p.Close(t.Context()))
}

// Without providers, a call of a tool costs next to nothing.
func BenchmarkNobody(b *testing.B) {
	tel, err := otel.New(otel.Options{})
	require.NoError(b, err)
	f := tel.Tools()(func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) { return nil, nil })
	inv := aycoder.NewInvocation("c", "read", nil, nil)
	for b.Loop() {
		if _, err := f(b.Context(), inv); err != nil {
			b.Fatal(err)
		}
	}
}
