// Package otlp sends spans and metrics to a collector, as the variables of the OpenTelemetry specification say.
//
//	e, err := otlp.New(ctx, "my-program")
//	if e != nil {
//		defer e.Close(context.Background())
//		t, err := otel.New(otel.Options{Tracer: e.Tracer, Meter: e.Meter})
//
// # Variables
//
// OTEL_TRACES_EXPORTER=otlp sends spans, and OTEL_METRICS_EXPORTER=otlp sends metrics. Unlike in the specification, nothing
// is sent without them, nor if OTEL_SDK_DISABLED is true. All other variables are those of the exporters and the SDK for Go:
// OTEL_EXPORTER_OTLP_ENDPOINT (https://localhost:4318), OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_METRIC_EXPORT_INTERVAL and the like. The protocol is http/protobuf.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Exporter sends what its providers get. It is safe for concurrent use.
type Exporter struct {
	// Tracer and Meter get spans and metrics. One that is off is nil.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider

	ends  []func(context.Context) error
	mu    sync.Mutex
	fault error // of the last sending that did not work
}

// New returns an exporter, or nil if the variables say that nothing is sent. The service is the name of the program, unless
// OTEL_SERVICE_NAME has another one. ctx is for New alone.
func New(ctx context.Context, service string) (*Exporter, error) {
	traces, err := wanted("TRACES")
	metrics, failed := wanted("METRICS")
	if err = errors.Join(err, failed); err != nil || !traces && !metrics {
		return nil, err
	}
	who, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	e := &Exporter{}
	if traces {
		x, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("export spans: %w", err)
		}
		p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(&spans{x, e}), sdktrace.WithResource(who))
		e.Tracer, e.ends = p, append(e.ends, p.Shutdown)
	}
	if metrics {
		x, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("export metrics: %w", err), e.Close(ctx))
		}
		p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(&figures{x, e})), sdkmetric.WithResource(who))
		e.Meter, e.ends = p, append(e.ends, p.Shutdown)
	}
	return e, nil
}

// wanted reports whether a signal is sent.
func wanted(signal string) (bool, error) {
	name := "OTEL_" + signal + "_EXPORTER"
	switch value := os.Getenv(name); {
	case value == "", value == "none", strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"):
		return false, nil
	case value != "otlp":
		return false, fmt.Errorf("%s is %q: only otlp and none are known", name, value)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if value := os.Getenv(name); value == "http/protobuf" {
			break
		} else if value != "" {
			return false, fmt.Errorf("%s is %q: only http/protobuf is known", name, value)
		}
	}
	return true, nil
}

// Close sends what is left, and ends the exporter. Spans and metrics are sent at the same time, since the collector of one
// may not answer. The error is that of the last sending that did not work, or nil.
func (e *Exporter) Close(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(e.ends))
	for i, end := range e.ends {
		wg.Go(func() { errs[i] = end(ctx) })
	}
	wg.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(append(errs, e.fault)...)
}

// failed remembers an error, which the SDK would print.
func (e *Exporter) failed(err error) error {
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.fault = err
	}
	return nil
}

type spans struct {
	sdktrace.SpanExporter
	e *Exporter
}

// ExportSpans implements [sdktrace.SpanExporter].
func (s *spans) ExportSpans(ctx context.Context, list []sdktrace.ReadOnlySpan) error {
	return s.e.failed(s.SpanExporter.ExportSpans(ctx, list))
}

type figures struct {
	sdkmetric.Exporter
	e *Exporter
}

// Export implements [sdkmetric.Exporter].
func (f *figures) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if len(m.ScopeMetrics) == 0 { // nothing was measured
		return nil
	}
	return f.e.failed(f.Exporter.Export(ctx, m))
}
