package otlp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/otel"
	"github.com/aycoder/aycoder/contrib/otel/otlp"
	"github.com/aycoder/aycoder/providers/script"
)

// off unsets the variables of the machine.
func off(t *testing.T) {
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_SERVICE_NAME",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_RESOURCE_ATTRIBUTES"} {
		t.Setenv(name, "")
	}
}

// A collector gets the spans of a run and its metrics, as messages that the definitions of OTLP can read.
func TestSends(t *testing.T) {
	off(t)
	var mu sync.Mutex
	var spans []string
	metrics, service := map[string]bool{}, ""
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, "application/x-protobuf", r.Header.Get("Content-Type"))
		switch r.URL.Path {
		case "/v1/traces":
			var req collect.ExportTraceServiceRequest
			require.NoError(t, proto.Unmarshal(body, &req))
			for _, of := range req.ResourceSpans {
				for _, a := range of.Resource.Attributes {
					if a.Key == "service.name" {
						service = a.Value.GetStringValue()
					}
				}
				for _, scope := range of.ScopeSpans {
					for _, s := range scope.Spans {
						spans = append(spans, s.Name)
					}
				}
			}
		case "/v1/metrics":
			var req collectmetrics.ExportMetricsServiceRequest
			require.NoError(t, proto.Unmarshal(body, &req))
			for _, scope := range req.ResourceMetrics[0].ScopeMetrics {
				for _, m := range scope.Metrics {
					metrics[m.Name] = true
				}
			}
		default:
			t.Errorf("a request for %s", r.URL.Path)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_METRICS_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	e, err := otlp.New(t.Context(), "test")
	require.NoError(t, err)
	tele, err := otel.New(otel.Options{Tracer: e.Tracer, Meter: e.Meter})
	require.NoError(t, err)
	loop, err := aycoder.New(tele.Model(script.New(script.Say("Hello."))))
	require.NoError(t, err)
	for _, err := range tele.Agent(loop, otel.Run{Name: "hello"}).Run(t.Context(), aycoder.Input{Prompt: "Hello?"}) {
		require.NoError(t, err)
	}
	require.NoError(t, e.Close(context.Background()))
	slices.Sort(spans)
	require.Equal(t, []string{"chat script", "invoke_agent hello"}, spans)
	require.True(t, metrics["aycoder.messages"] && metrics["gen_ai.client.operation.duration"], fmt.Sprint(metrics))
	require.Equal(t, "test", service)
}

// Nothing is sent unless a variable says so, and what cannot be sent as it says is an error.
func TestVariables(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		on   bool
		err  string
	}{
		{"none", nil, false, ""},
		{"an endpoint of other programs", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, false, ""},
		{"off", map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false, ""},
		{"disabled", map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "TRUE"}, false, ""},
		{"traces", map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		{"another exporter", map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, false, `OTEL_METRICS_EXPORTER is "prometheus": only otlp and none are known`},
		{"gRPC", map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, "only http/protobuf is known"},
		{"gRPC of others", map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			off(t)
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			e, err := otlp.New(t.Context(), "test")
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, tt.on, e != nil)
			if e != nil {
				require.NotNil(t, e.Tracer)
				require.Nil(t, e.Meter)
				require.NoError(t, e.Close(t.Context()))
			}
		})
	}
}

// A collector that refuses is an error at the end, and nothing is printed meanwhile.
func TestRefused(t *testing.T) {
	off(t)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }))
	defer collector.Close()
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	e, err := otlp.New(t.Context(), "test")
	require.NoError(t, err)
	_, span := e.Tracer.Tracer("x").Start(t.Context(), "x")
	span.End()
	require.ErrorContains(t, e.Close(t.Context()), "403")
}

// Metrics do not wait for a collector of spans that does not answer.
func TestSlowCollector(t *testing.T) {
	off(t)
	got := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-got:
		case <-r.Context().Done(): // the exporter has given up
		}
	}))
	defer slow.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(got) }))
	defer other.Close()
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_METRICS_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", slow.URL+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", other.URL+"/v1/metrics")
	e, err := otlp.New(t.Context(), "test")
	require.NoError(t, err)
	_, span := e.Tracer.Tracer("x").Start(t.Context(), "x")
	span.End()
	n, err := e.Meter.Meter("x").Int64Counter("n")
	require.NoError(t, err)
	n.Add(t.Context(), 1)
	require.NoError(t, e.Close(t.Context()))
}
