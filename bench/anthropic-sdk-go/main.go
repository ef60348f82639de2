//go:build unix

// Anthropic-sdk-go is Anthropic's own client in the contest, with its tool runner.
package main

import (
	"context"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/toolrunner"

	"github.com/aycoder/aycoder/bench/internal/contest"
	"github.com/aycoder/aycoder/bench/internal/provider"
)

func main() {
	contest.Main(context.Background(), map[string]contest.Open{provider.Anthropic: open})
}

func open(s contest.Setup) (func() (contest.Conversation, error), error) {
	client := anthropic.NewClient(option.WithBaseURL(s.URL), option.WithAPIKey("key"), option.WithMaxRetries(0))
	lookup := func(_ context.Context, in contest.Args) (anthropic.BetaToolResultBlockParamContentUnion, error) {
		return anthropic.BetaToolResultBlockParamContentUnion{OfText: &anthropic.BetaTextBlockParam{Text: s.Lookup(in)}}, nil
	}
	tool, err := toolrunner.NewBetaToolFromJSONSchema(contest.ToolName, contest.ToolDescription, lookup)
	if err != nil {
		return nil, err
	}
	return func() (contest.Conversation, error) {
		var history []anthropic.BetaMessageParam
		return func(ctx context.Context, prompt string) error {
			history = append(history, anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(prompt)))
			r := client.Beta.Messages.NewToolRunnerStreaming([]anthropic.BetaTool{tool}, anthropic.BetaToolRunnerParams{
				BetaMessageNewParams: anthropic.BetaMessageNewParams{
					Model: "claude-sonnet-4-5", MaxTokens: 4096, Messages: history,
					System: []anthropic.BetaTextBlockParam{{Text: contest.System}},
				},
			})
			for events, err := range r.AllStreaming(ctx) {
				if err != nil {
					return err
				}
				for ev, err := range events {
					if err != nil {
						return err
					}
					if ev.Type == "content_block_delta" && ev.Delta.Type == "text_delta" {
						s.Text(ev.Delta.Text)
					}
				}
			}
			history = r.Messages()
			return r.Err()
		}, nil
	}, nil
}
