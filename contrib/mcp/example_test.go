package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/contrib/mcp"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
)

// weather is a server with one tool.
func weather() *httptest.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "now", Description: "Tells the weather.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "rain"}}}, nil
		})
	return httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
}

// A runtime with a server. In a program, the settings come from the files of the configuration.
func ExampleConnector() {
	server := weather()
	defer server.Close()
	loaded, err := config.Load()
	if err != nil {
		log.Fatal(err)
	}
	loaded.Config.Settings.Servers = map[string]config.Server{"weather": {URL: server.URL}}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	model := script.New(script.Call("mcp__weather__now", nil), script.Say("Take an umbrella."))
	rt, err := harness.New(context.Background(), dir, harness.WithClient(model),
		harness.WithSettings(loaded.Config.Settings), harness.WithServers(mcp.Connector()))
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	for ev, err := range rt.Run(context.Background(), aycoder.Input{Prompt: "How is the weather?"}) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			fmt.Println("asked about", ev.Request.Tool)
			ev.Allow()
		case *aycoder.ToolFinished:
			fmt.Println(ev.Output.Text(), "- untrusted:", ev.Output.Untrusted)
		case *aycoder.TextDelta:
			fmt.Println(ev.Text)
		}
	}
	// Output:
	// asked about mcp__weather__now
	// rain - untrusted: true
	// Take an umbrella.
}
