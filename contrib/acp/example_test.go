package acp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/aycoder/aycoder/contrib/acp"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
)

// client is the other end, usually an editor. It prints what the agent says.
type client struct{ sdk.Client }

func (client) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	if text := n.Update.AgentMessageChunk; text != nil {
		fmt.Print(text.Content.Text.Text)
	}
	return nil
}

func ExampleServe() {
	toAgent, in := io.Pipe()
	out, fromAgent := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- acp.Serve(context.Background(), toAgent, fromAgent, acp.Config{
			Open: func(ctx context.Context, s acp.Start) (*harness.Runtime, error) {
				own := []harness.Option{harness.WithClient(script.New(script.Say("Hello, editor.")))}
				return harness.New(ctx, s.Dir, append(own, s.Options...)...)
			},
		})
	}()

	ctx := context.Background()
	editor := sdk.NewClientSideConnection(client{}, in, out)
	if _, err := editor.Initialize(ctx, sdk.InitializeRequest{ProtocolVersion: 1}); err != nil {
		log.Fatal(err)
	}
	s, err := editor.NewSession(ctx, sdk.NewSessionRequest{Cwd: os.TempDir(), McpServers: []sdk.McpServer{}})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := editor.Prompt(ctx, sdk.PromptRequest{SessionId: s.SessionId, Prompt: []sdk.ContentBlock{sdk.TextBlock("Hello")}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("\n%s\n", answer.StopReason)
	_ = in.Close()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// Hello, editor.
	// end_turn
}
