//go:build unix

package harness_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	projects "github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// ExampleRuntime_Command shows the line "!echo hello" of a terminal program, whose user has decided by typing it.
func ExampleRuntime_Command() {
	ctx := context.Background()
	rt, err := harness.New(ctx, ".", harness.WithClient(script.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	for ev, err := range rt.Command(ctx, "echo hello") {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			ev.Allow()
		case *aycoder.ToolFinished:
			fmt.Print(ev.Output.Text())
		}
	}
	// Output:
	// hello
	// [exit 0]
}

// ExampleRuntime_Caller makes a call of a tool as a run, for a host that keeps it in a session.
func ExampleRuntime_Caller() {
	ctx := context.Background()
	rt, err := harness.New(ctx, ".", harness.WithClient(script.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	agent, err := rt.Caller("bash", []byte(`{"command":"echo hello"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: "Call it."}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			ev.Allow()
		case *aycoder.ToolFinished:
			fmt.Print(ev.Output.Text())
		}
	}
	// Output:
	// hello
	// [exit 0]
}

// The user's own commands are in directories that several programs share.
func ExampleWithUserLibrary() {
	ctx := context.Background()
	home, err := os.MkdirTemp("", "home")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(home)
	if err := os.MkdirAll(filepath.Join(home, "commands"), 0o700); err != nil {
		fmt.Println(err)
		return
	}
	if err := os.WriteFile(filepath.Join(home, "commands", "hi.md"), []byte("Greet $1.\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	files, err := workspace.Open(home) // such as ~/.claude
	if err != nil {
		fmt.Println(err)
		return
	}
	defer files.Close()
	rt, err := harness.New(ctx, ".", harness.WithClient(script.New()), harness.WithAmbient(harness.Skills), harness.WithProjectTexts(false),
		harness.WithUserLibrary(projects.Source{Files: files, Roots: []string{"."}, Label: "~/.claude"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	for _, c := range rt.Library.Commands {
		fmt.Println(c.Name, c.File, c.User)
	}
	// Output:
	// hi ~/.claude/commands/hi.md true
}

// ExampleWithAgentServers offers another agent to the model. A program with contrib/acp passes what opens an agent of the
// Agent Client Protocol.
func ExampleWithAgentServers() {
	loaded, err := config.Load()
	if err != nil {
		fmt.Println(err)
		return
	}
	settings := loaded.Config.Settings
	settings.AgentServers = map[string]config.AgentServer{"colleague": {Command: "colleague", Description: "Knows the database."}}
	open := func(name string, c config.AgentServer, _ func() tools.FS, _ *tools.Masker, _ ...aycoder.Option) (aycoder.Tool, error) {
		return aycoder.NewTool(name, c.Description, func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("done"), nil
		})
	}
	rt, err := harness.New(context.Background(), ".", harness.WithSettings(settings), harness.WithClient(script.New()), harness.WithAgentServers(open))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	for _, t := range rt.OtherAgents {
		fmt.Println(t.Spec().Name, "-", t.Spec().Description)
	}
	// Output:
	// colleague - Knows the database.
}

// ExampleImage refuses an image that was cut off on its way.
func ExampleImage() {
	_, err := harness.Image("screenshot.png", []byte("\x89PNG\r\n\x1a\n"))
	fmt.Println(err)
	// Output: it is cut off or damaged
}
