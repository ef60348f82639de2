package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/contrib/mcp"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli"
)

// mcpExtension starts the servers of the configuration and of .mcp.json, and serves the tools.
func mcpExtension() cli.Extension {
	return cli.Extension{
		Options: []harness.Option{harness.WithServers(mcp.Connector())},
		Forms:   harness.ServerForms(),
		Subcommands: []cli.Subcommand{{
			Name: "mcp", Help: "serves the tools by the Model Context Protocol on stdin and stdout, with the flags of the program", Run: serve,
		}},
	}
}

// serve offers the tools of the current directory to the program at the other end of stdin and stdout. It starts none
// of the servers: their tools are not passed on.
func serve(ctx context.Context, p cli.Program, args []string) error {
	in, ok := p.In.(io.ReadCloser)
	out, writes := p.Out.(io.WriteCloser)
	if !ok || !writes {
		return errors.New("stdin and stdout cannot be closed")
	}
	none := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) { yield(nil, errors.New("there is no model here")) }
	})
	rt, end, err := p.Open(ctx, args, harness.WithClient(none), harness.WithSmallClient(none), harness.WithSummaryClient(none),
		harness.WithServers(noServers))
	if err != nil {
		return err
	}
	defer end()
	fmt.Fprintln(p.Err, "aycoder: serving the tools of", rt.Files.Dir())
	return mcp.Serve(ctx, rt, in, out, mcp.ServeConfig{})
}

func noServers(context.Context, string, config.Server) (harness.ToolSource, error) { return nil, nil }
