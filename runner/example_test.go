package runner_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/runner"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A laptop dials the server, as aycoder runner does, and an agent on the server works in its directory.
func Example() {
	const token = "a-token-of-the-laptop"
	authorize, err := runner.Tokens(map[string]string{"laptop": token})
	if err != nil {
		fmt.Println(err)
		return
	}
	hub, err := runner.NewHub(authorize)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(hub)
	defer server.Close()
	defer hub.Close()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- laptop(ctx, server.URL, token) }()
	rt, err := onLaptop(ctx, hub, script.New(script.Call("read_file", map[string]any{"path": "note.txt"}), script.Say("done")))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	for ev, err := range rt.Run(ctx, aycoder.Input{Prompt: "read the note"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			line, _, _ := strings.Cut(f.Output.Parts[0].(*aycoder.Text).Text, "\n")
			fmt.Println(line)
		}
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// 1	hello from the laptop
	// serve workspace: context canceled
}

// onLaptop makes an agent of this program that works on the laptop, for which it waits.
func onLaptop(ctx context.Context, hub *runner.Hub, model aycoder.ModelClient) (*harness.Runtime, error) {
	env, err := hub.Environment(ctx, "laptop")
	if err != nil {
		return nil, err
	}
	return harness.New(ctx, env.Dir(), harness.WithClient(model), harness.WithEnvironment(harness.Environment{
		Files: env, Exec: env, System: env.Manifest().System,
		Texts: env.Texts(), Pin: env.Pin, Changes: env.Changes,
	}))
}

// laptop is the program on the other machine.
func laptop(ctx context.Context, server, token string) error {
	dir, err := os.MkdirTemp("", "laptop")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("hello from the laptop\n"), 0o644); err != nil {
		return err
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		return err
	}
	defer ws.Close()
	commands, err := tools.LocalExec()
	if err != nil {
		return err
	}
	return runner.Serve(ctx, server, token, ws, commands)
}
