//go:build unix

// Eino is CloudWeGo's framework in the contest, with its ReAct agent.
package main

import (
	"context"
	"errors"
	"io"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/aycoder/aycoder/bench/internal/contest"
	"github.com/aycoder/aycoder/bench/internal/provider"
)

func main() {
	contest.Main(context.Background(), map[string]contest.Open{provider.OpenAI: open})
}

func open(s contest.Setup) (func() (contest.Conversation, error), error) {
	ctx := context.Background()
	model, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{APIKey: "key", BaseURL: s.URL + "/v1", Model: "gpt-4o"})
	if err != nil {
		return nil, err
	}
	lookup, err := utils.InferTool(contest.ToolName, contest.ToolDescription, func(_ context.Context, in contest.Args) (string, error) {
		return s.Lookup(in), nil
	})
	if err != nil {
		return nil, err
	}
	return func() (contest.Conversation, error) {
		agent, err := react.NewAgent(ctx, &react.AgentConfig{
			ToolCallingModel: model,
			ToolsConfig:      compose.ToolsNodeConfig{Tools: []tool.BaseTool{lookup}},
			MaxStep:          2*contest.Turns + 20,
			// Its default looks at the first chunk alone, and text comes before the calls here.
			StreamToolCallChecker: calls,
		})
		if err != nil {
			return nil, err
		}
		history := []*schema.Message{schema.SystemMessage(contest.System)}
		return func(ctx context.Context, prompt string) error {
			history = append(history, schema.UserMessage(prompt))
			return run(ctx, agent, s, &history)
		}, nil
	}, nil
}

func run(ctx context.Context, agent *react.Agent, s contest.Setup, history *[]*schema.Message) error {
	option, future := react.WithMessageFuture()
	done := make(chan error, 1)
	in := *history
	go func() {
		out, err := agent.Stream(ctx, in, option)
		if err == nil {
			out.Close() // the future has the last message, too
		}
		done <- err
	}()
	streams := future.GetMessageStreams()
	for {
		stream, ok, err := streams.Next()
		if err != nil {
			return errors.Join(err, <-done)
		}
		if !ok {
			return <-done
		}
		m, err := read(stream, s)
		if err != nil {
			return errors.Join(err, <-done)
		}
		*history = append(*history, m)
	}
}

// read hands out the text of a message as it comes, and puts the message together.
func read(stream *schema.StreamReader[*schema.Message], s contest.Setup) (*schema.Message, error) {
	defer stream.Close()
	var chunks []*schema.Message
	for {
		c, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return schema.ConcatMessages(chunks)
		}
		if err != nil {
			return nil, err
		}
		if c.Role == schema.Assistant && c.Content != "" {
			s.Text(c.Content)
		}
		chunks = append(chunks, c)
	}
}

// calls reports whether a message calls a tool.
func calls(_ context.Context, stream *schema.StreamReader[*schema.Message]) (bool, error) {
	defer stream.Close()
	for {
		c, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil || len(c.ToolCalls) > 0 {
			return err == nil, err
		}
	}
}
