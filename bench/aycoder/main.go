//go:build unix

// Aycoder is this repository's library in the contest.
package main

import (
	"context"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/bench/internal/contest"
	"github.com/aycoder/aycoder/bench/internal/provider"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/openai"
)

func main() {
	contest.Main(context.Background(), map[string]contest.Open{
		provider.Anthropic: open(func(url string) (aycoder.ModelClient, error) {
			return anthropic.New("claude-sonnet-4-5", anthropic.WithAPIKey("key"), anthropic.WithBaseURL(url))
		}),
		provider.OpenAI: open(func(url string) (aycoder.ModelClient, error) {
			return openai.New("gpt-4o", openai.WithAPIKey("key"), openai.WithBaseURL(url+"/v1"))
		}),
	})
}

func open(dial func(url string) (aycoder.ModelClient, error)) contest.Open {
	return func(s contest.Setup) (func() (contest.Conversation, error), error) {
		client, err := dial(s.URL)
		if err != nil {
			return nil, err
		}
		lookup := func(_ context.Context, _ *aycoder.Invocation, in contest.Args) (*aycoder.ToolResult, error) {
			return aycoder.TextResult(s.Lookup(in)), nil
		}
		tool, err := aycoder.NewTool(contest.ToolName, contest.ToolDescription, lookup, aycoder.WithEffect(aycoder.EffectReadOnly))
		if err != nil {
			return nil, err
		}
		return func() (contest.Conversation, error) {
			agent, err := aycoder.New(client, aycoder.WithTools(tool), aycoder.WithSystem(contest.System),
				aycoder.WithLimits(aycoder.Limits{Turns: contest.Turns + 10}))
			if err != nil {
				return nil, err
			}
			var res aycoder.Result
			return func(ctx context.Context, prompt string) error {
				in := aycoder.Input{Messages: res.Messages, Prompt: prompt}
				for ev, err := range agent.Run(ctx, in, aycoder.Into(&res)) {
					if err != nil {
						return err
					}
					if text, ok := ev.(*aycoder.TextDelta); ok {
						s.Text(text.Text)
					}
				}
				return nil
			}, nil
		}, nil
	}
}
