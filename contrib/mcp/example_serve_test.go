package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"
	"os"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/contrib/mcp"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
)

// A host serves a tool that asks the user of the client, and a prompt. The client is a connector here; it may be any other
// program.
func ExampleCallerOf() {
	paint, err := aycoder.NewTool("paint", "Paints the house.", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		answer, err := mcp.CallerOf(ctx).Ask(ctx, mcp.Question{Message: "Which color?",
			Schema: json.RawMessage(`{"type":"object","properties":{"color":{"type":"string"}},"required":["color"]}`)})
		if err != nil {
			return nil, err
		}
		var in struct{ Color string }
		if !answer.Accept || json.Unmarshal(answer.Content, &in) != nil {
			return aycoder.TextResult("The house stays as it is."), nil
		}
		return aycoder.TextResult("The house is " + in.Color + "."), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	loaded, err := config.Load()
	if err != nil {
		log.Fatal(err)
	}
	rt, err := harness.New(context.Background(), dir, harness.WithClient(script.New()), harness.WithSettings(loaded.Config.Settings), harness.WithTools(paint))
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	handler, err := mcp.Handler(rt, mcp.ServeConfig{Tools: []string{"paint"}, Prompts: []mcp.Prompt{{
		Name: "advice", Description: "Asks for advice.",
		Messages: func(context.Context, map[string]string) ([]*aycoder.Message, error) {
			return []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "Which color suits a house?"}}}}, nil
		},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close()
	server := httptest.NewServer(handler)
	defer server.Close()

	connect := mcp.Connector(mcp.WithElicitation(func(_ context.Context, q mcp.Question) (mcp.Answer, error) {
		fmt.Println(q.Server, "asks:", q.Message)
		return mcp.Answer{Accept: true, Content: json.RawMessage(`{"color":"blue"}`)}, nil
	}))
	source, err := connect(context.Background(), "painter", config.Server{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	defer source.Close()
	list, err := source.Tools(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	res, err := list[0].Call(context.Background(), aycoder.NewInvocation("1", "", json.RawMessage(`{}`), nil))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text())
	prompt, err := source.(harness.TextSource).Prompt(context.Background(), "mcp__painter__advice", "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(prompt[0].(*aycoder.Text).Text)
	// Output:
	// painter asks: Which color?
	// The house is blue.
	// Which color suits a house?
}
