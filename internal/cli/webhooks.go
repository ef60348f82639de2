package cli

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/server/webhook"
)

// webhooks begins to deliver to the endpoints of the configuration, and returns the options by which runtimes tell them what
// agents do. Events that wait are kept for the directory, so that the next program there delivers them.
func (k *call) webhooks(c config.Serve, dir string) (opts []harness.Option, end func() error, err error) {
	if len(c.Webhooks) == 0 {
		return nil, nil, nil
	}
	state := k.state("webhooks", nameOf(dir))
	if state == "" {
		return nil, nil, errors.New("there is no place for webhooks: HOME is not set")
	}
	hooks, err := webhook.Open(state, webhook.Options{
		Logger: slog.New(slog.NewTextHandler(k.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Webhooks)) {
		err = errors.Join(err, k.register(hooks, name, c.Webhooks[name]))
	}
	if err != nil {
		return nil, nil, errors.Join(err, hooks.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- hooks.Run(ctx) }()
	end = func() error {
		stop()
		<-done
		return hooks.Close()
	}
	var thresholds []float64
	if c.CostThreshold != nil {
		thresholds = append(thresholds, *c.CostThreshold)
	}
	return []harness.Option{harness.WithAgentMiddleware(func(rt *harness.Runtime) (func(aycoder.Agent) aycoder.Agent, func() error) {
		_, cost := rt.Session.View().Usage()
		w := hooks.Watch(rt.Session.ID(), cost, thresholds...)
		return w.Agent, w.Close
	})}, end, nil
}

// register registers an endpoint of the configuration.
func (k *call) register(hooks *webhook.Sender, name string, c config.Webhook) error {
	e := webhook.Endpoint{ID: name, URL: c.URL, Types: c.Types, Content: c.Content, AllowPrivate: c.Private, Disabled: c.Disabled}
	for _, variable := range c.SecretEnv {
		secret := k.getenv(variable)
		if secret == "" {
			return &aycoder.ConfigError{Option: "serve.webhooks." + name + ".secret_env", Err: errors.New(variable + " is not set")}
		}
		e.Secrets = append(e.Secrets, secret)
	}
	if err := hooks.Register(e); err != nil {
		return &aycoder.ConfigError{Option: "serve.webhooks." + name, Err: err}
	}
	return nil
}
