//go:build unix

// Openai-go is OpenAI's own client in the contest. It has no loop over tools, so the loop
// is the one that its examples show.
package main

import (
	"context"
	"encoding/json"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/aycoder/aycoder/bench/internal/contest"
	"github.com/aycoder/aycoder/bench/internal/provider"
)

func main() {
	contest.Main(context.Background(), map[string]contest.Open{provider.OpenAI: open})
}

func open(s contest.Setup) (func() (contest.Conversation, error), error) {
	client := openai.NewClient(option.WithBaseURL(s.URL+"/v1/"), option.WithAPIKey("key"), option.WithMaxRetries(0))
	var schema openai.FunctionParameters
	if err := json.Unmarshal([]byte(contest.ToolSchema), &schema); err != nil {
		return nil, err
	}
	tools := []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: contest.ToolName, Description: openai.String(contest.ToolDescription), Parameters: schema,
	})}
	ask := func(ctx context.Context, history []openai.ChatCompletionMessageParamUnion) (openai.ChatCompletionMessage, error) {
		stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "gpt-4o", Messages: history, Tools: tools})
		defer stream.Close()
		var acc openai.ChatCompletionAccumulator
		for stream.Next() {
			chunk := stream.Current()
			acc.AddChunk(chunk)
			if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
				s.Text(chunk.Choices[0].Delta.Content)
			}
		}
		if err := stream.Err(); err != nil {
			return openai.ChatCompletionMessage{}, err
		}
		return acc.Choices[0].Message, nil
	}
	return func() (contest.Conversation, error) {
		history := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(contest.System)}
		return func(ctx context.Context, prompt string) error {
			history = append(history, openai.UserMessage(prompt))
			for {
				m, err := ask(ctx, history)
				if err != nil {
					return err
				}
				history = append(history, m.ToParam())
				if len(m.ToolCalls) == 0 {
					return nil
				}
				for _, call := range m.ToolCalls {
					var in contest.Args
					if err := json.Unmarshal([]byte(call.Function.Arguments), &in); err != nil {
						return err
					}
					history = append(history, openai.ToolMessage(s.Lookup(in), call.ID))
				}
			}
		}, nil
	}, nil
}
