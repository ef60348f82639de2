// Command aycoder-remote serves a directory to an agent on another machine, over its standard input
// and output: see package remote. It is started behind docker exec -i, ssh or the like, and ends with
// its input. It needs no other file.
//
//	aycoder-remote -dir /work
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/aycoder/aycoder/remote"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

func main() {
	dir := flag.String("dir", ".", "the directory of the workspace")
	sandbox := flag.Bool("sandbox", false, "confine commands, and refuse them if that is impossible")
	files := flag.Bool("files-only", false, "run no commands")
	flag.Parse()
	if err := serve(*dir, *sandbox, *files); err != nil {
		fmt.Fprintln(os.Stderr, "aycoder-remote:", err)
		os.Exit(1)
	}
}

func serve(dir string, sandbox, filesOnly bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ws, err := workspace.Open(dir)
	if err != nil {
		return err
	}
	defer ws.Close()
	if filesOnly {
		return remote.Serve(ctx, os.Stdin, os.Stdout, ws, nil)
	}
	var opts []tools.Option
	if sandbox {
		box, err := tools.Landlock(ws)
		if err != nil {
			return err
		}
		defer box.Close()
		opts = append(opts, tools.WithSandbox(box), tools.WithSandboxRequired(true))
	}
	commands, err := tools.LocalExec(opts...)
	if err != nil {
		return err
	}
	return remote.Serve(ctx, os.Stdin, os.Stdout, ws, commands)
}
