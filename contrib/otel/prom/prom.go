// Package prom offers metrics to Prometheus: on a handler that a host mounts, or pushed to a gateway.
//
//	p, err := prom.New()
//	t, err := otel.New(otel.Options{Meter: p.Meter})
//	http.Handle("/metrics", p.Handler())
package prom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

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

// Push sends the metrics to a push gateway, in place of those that the job sent before. The error names the host of the
// gateway alone, since its address may have a password.
func (e *Exporter) Push(ctx context.Context, gateway, job string) error {
	u, err := url.Parse(gateway)
	if err != nil || u.Host == "" {
		return errors.New("push metrics: the gateway has no address such as http://host:9091")
	}
	if err := push.New(gateway, job).Gatherer(e.registry).Client(doer{}).PushContext(ctx); err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address
		}
		return fmt.Errorf("push metrics to %s: %w", u.Host, err)
	}
	return nil
}

// doer sends requests of package push, whose error for an answer has the address and the whole answer. A redirect would become
// another request, without the metrics.
type doer struct{}

// Do implements [push.HTTPDoer].
func (doer) Do(req *http.Request) (*http.Response, error) {
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted { // any other is an error there
		err = errors.Join(errors.New("the gateway answered "+resp.Status), resp.Body.Close())
	}
	return resp, err
}

// Close ends the exporter.
func (e *Exporter) Close(ctx context.Context) error { return e.sdk.Shutdown(ctx) }
