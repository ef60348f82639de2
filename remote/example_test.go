package remote_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/remote"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A pipe takes the place of docker exec or ssh, behind which aycoder-remote does what serve does here.
// Usually Start makes the connection.
func Example() {
	dir, err := os.MkdirTemp("", "remote")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("hello, world\n"), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(dir, toServer, fromServer) }()

	ctx := context.Background()
	c, err := remote.Connect(ctx, toClient, fromClient)
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := tools.Coding(c, tools.WithExec(c)) // for aycoder.WithTools
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, call := range []struct{ tool, args string }{
		{"edit_file", `{"path":"hello.txt","old_string":"world","new_string":"machine"}`},
		{"bash", `{"command":"cat hello.txt"}`},
	} {
		for _, t := range list {
			if t.Spec().Name != call.tool {
				continue
			}
			r, err := t.Call(ctx, aycoder.NewInvocation("call_1", call.tool, []byte(call.args), nil))
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Print(r.Text())
		}
	}
	fmt.Println(c.Close(), <-ended)
	// Output:
	// diff --git a/hello.txt b/hello.txt
	// --- a/hello.txt
	// +++ b/hello.txt
	// @@ -1 +1 @@
	// -hello, world
	// +hello, machine
	// hello, machine
	// [exit 0]
	// <nil> <nil>
}

// serve serves a directory, as the program on the other machine does with its standard input and output.
func serve(dir string, in io.Reader, out io.Writer) error {
	ws, err := workspace.Open(dir)
	if err != nil {
		return err
	}
	defer ws.Close()
	commands, err := tools.LocalExec()
	if err != nil {
		return err
	}
	return remote.Serve(context.Background(), in, out, ws, commands)
}
