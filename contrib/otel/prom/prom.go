// Package prom offers metrics to Prometheus: on a handler that a host mounts, or pushed to a gateway.
//
//	p, err := prom.New()
//	t, err := otel.New(otel.Options{Meter: p.Meter})
//	http.Handle("/metrics", p.Handler())
package prom

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/push"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// Exporter holds metrics for Prometheus. It is safe for concurrent use.
type Exporter struct {
	// Meter gets the metrics, those of the host as well.
	Meter    metric.MeterProvider
	registry *prometheus.Registry
	sdk      *sdk.MeterProvider
}

// New returns an exporter with its own registry.
func New() (*Exporter, error) {
	r := prometheus.NewRegistry()
	e, err := exporter.New(exporter.WithRegisterer(r), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("export metrics to Prometheus: %w", err)
	}
	p := sdk.NewMeterProvider(sdk.WithReader(e))
	return &Exporter{p, r, p}, nil
}

// Handler returns a handler for the address that Prometheus reads. It asks nobody for a token.
func (e *Exporter) Handler() http.Handler {
	return promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{})
}

// Push sends the metrics to a push gateway, in place of those that the job sent before.
func (e *Exporter) Push(ctx context.Context, url, job string) error {
	if err := push.New(url, job).Gatherer(e.registry).PushContext(ctx); err != nil {
		return fmt.Errorf("push metrics to %s: %w", url, err)
	}
	return nil
}

// Close ends the exporter.
func (e *Exporter) Close(ctx context.Context) error { return e.sdk.Shutdown(ctx) }
