package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/aycoder/aycoder/contrib/otel"
	"github.com/aycoder/aycoder/contrib/otel/prom"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli"
)

// metricsExtension offers the metrics of what the command serve serves to Prometheus.
func metricsExtension() cli.Extension {
	return cli.Extension{Serve: &cli.Serving{
		Flags: []cli.Flag{
			{Name: "metrics", Value: "address", Help: "offers metrics to Prometheus at /metrics of this address, such as :9090, to anybody"},
			{Name: "push", Value: "address", Help: "sends metrics to this push gateway, such as http://gateway:9091, every 15 s"},
		},
		Start: func(_ context.Context, p cli.Program, values map[string]string) ([]harness.Option, func() error, error) {
			return metrics(p, values["metrics"], values["push"])
		},
	}}
}

const (
	pushEvery = 15 * time.Second
	pushTime  = 10 * time.Second
)

// metrics begins to offer metrics at an address, and to push them to a gateway, and returns the options by which runtimes
// are measured. Either may be "".
func metrics(p cli.Program, address, gateway string) ([]harness.Option, func() error, error) {
	if address == "" && gateway == "" {
		return nil, nil, nil
	}
	e, err := prom.New()
	if err != nil {
		return nil, nil, err
	}
	t, err := otel.New(otel.Options{Meter: e.Meter})
	if err != nil {
		return nil, nil, err
	}
	ends := []func() error{func() error { return e.Close(context.Background()) }}
	if address != "" {
		stop, err := serveMetrics(p, e, address)
		if err != nil {
			return nil, nil, errors.Join(err, ends[0]())
		}
		ends = append(ends, stop)
	}
	if gateway != "" {
		ends = append(ends, push(p, e, gateway))
	}
	end := func() (err error) {
		for i := range ends {
			err = errors.Join(err, ends[len(ends)-1-i]())
		}
		return err
	}
	return measured("metrics", t), end, nil
}

// serveMetrics serves the metrics.
func serveMetrics(p cli.Program, e *prom.Exporter, address string) (stop func() error, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e.Handler())
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10}
	fmt.Fprintf(p.Out, "Metrics on http://%s/metrics\n", l.Addr())
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	return func() error {
		err := s.Close()
		if failed := <-done; !errors.Is(failed, http.ErrServerClosed) {
			err = errors.Join(failed, err)
		}
		return err
	}, nil
}

// push sends the metrics now and then, and when the program ends. It tells the user when it begins to fail.
func push(p cli.Program, e *prom.Exporter, gateway string) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	failing := false
	send := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, pushTime)
		defer cancel()
		err := e.Push(ctx, gateway, "aycoder")
		if err != nil && !failing {
			fmt.Fprintln(p.Err, "aycoder:", err)
		}
		failing = err != nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(pushEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				send(context.WithoutCancel(ctx))
				return
			case <-ticks.C:
				send(ctx)
			}
		}
	}()
	return func() error {
		cancel()
		<-done
		return nil
	}
}
