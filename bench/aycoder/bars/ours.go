//go:build unix

package main

import (
	"context"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/google"
	"github.com/aycoder/aycoder/providers/openai"
)

type lookupArgs struct {
	Query string `json:"query" jsonschema:"required"`
	Limit int    `json:"limit" jsonschema:"required"`
}

func dial(w *wire, s setup) (aycoder.ModelClient, error) {
	switch w.name {
	case "anthropic":
		return anthropic.New("claude-sonnet-4-5", anthropic.WithAPIKey("key"), anthropic.WithBaseURL(address), anthropic.WithHTTPClient(s.client))
	case "gemini":
		return google.New("gemini-2.5-pro", google.WithAPIKey("key"), google.WithBaseURL(address+"/v1beta"), google.WithHTTPClient(s.client))
	}
	return openai.New("gpt-5", openai.WithAPIKey("key"), openai.WithBaseURL(address+"/v1"), openai.WithHTTPClient(s.client),
		openai.WithResponses(w.name == "responses"))
}

func newOurs(w *wire, s setup) (agent, error) {
	client, err := dial(w, s)
	if err != nil {
		return nil, err
	}
	opts := []aycoder.Option{aycoder.WithSystem(system), aycoder.WithLimits(aycoder.Limits{Turns: 1000})}
	tool, err := aycoder.NewTool("lookup", "Looks a name up.", func(_ context.Context, _ *aycoder.Invocation,
		in lookupArgs) (*aycoder.ToolResult, error) {
		return aycoder.TextResult(s.lookup(in)), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		return nil, err
	}
	loop, err := aycoder.New(client, append(opts, aycoder.WithTools(tool))...)
	if err != nil {
		return nil, err
	}
	var res aycoder.Result
	return func(ctx context.Context, prompt string) (string, error) {
		for ev, err := range loop.Run(ctx, aycoder.Input{Messages: res.Messages, Prompt: prompt}, aycoder.Into(&res)) {
			if err != nil {
				return "", err
			}
			if d, ok := ev.(*aycoder.TextDelta); ok {
				s.text(d.Text)
			}
		}
		return res.Text(), nil
	}, nil
}
