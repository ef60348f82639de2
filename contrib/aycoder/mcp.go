package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/contrib/mcp"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli"
	"github.com/aycoder/aycoder/tools"
)

// mcpExtension starts the servers of the configuration and of .mcp.json, and serves the tools.
func mcpExtension() cli.Extension {
	return cli.Extension{
		Options: []harness.Option{harness.WithServers(mcp.Connector(logins(mcp.WithBrowser(browse))...))},
		Asking: func(u *cli.User) []harness.Option {
			return []harness.Option{harness.WithServers(mcp.Connector(logins(mcp.WithBrowser(browse), mcp.WithSampling(u.Sample),
				mcp.WithElicitation(func(ctx context.Context, q mcp.Question) (mcp.Answer, error) {
					r, err := u.Ask(ctx, cli.Form(q))
					return mcp.Answer(r), err
				}))...))}
		},
		Forms: harness.ServerForms(),
		Subcommands: []cli.Subcommand{{
			Name: "mcp", Help: "serves the tools by the Model Context Protocol on stdin and stdout, with the flags of the program; login name: logs in to a server",
			Run: func(ctx context.Context, p cli.Program, args []string) error {
				if len(args) > 0 && args[0] == "login" {
					return login(ctx, p, args[1:])
				}
				return serve(ctx, p, args)
			},
		}},
	}
}

// logins adds the directory of the tokens, if there is a place for it.
func logins(opts ...mcp.Option) []mcp.Option {
	if dir := cli.StateDir(); dir != "" {
		opts = append(opts, mcp.WithLogins(filepath.Join(dir, "logins")))
	}
	return opts
}

// browse shows an address in the user's browser. Where there is none, the user opens the address that they are shown.
func browse(_ context.Context, address string) error {
	argv := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if argv == nil {
		argv = []string{"xdg-open"}
	}
	cmd := exec.Command(argv[0], append(argv[1:], address)...)
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // a browser that it starts may live longer than this program
	}
	return nil
}

// login lets the user log in to a server of the configuration.
func login(ctx context.Context, p cli.Program, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%w: aycoder mcp login name", cli.ErrUsage)
	}
	found := map[string]config.Server{}
	_, end, err := p.Open(ctx, nil, without(func(_ context.Context, name string, s config.Server) (harness.ToolSource, error) {
		found[name] = s
		return nil, nil
	})...)
	if err != nil {
		return err
	}
	end()
	s, ok := found[args[0]]
	if !ok {
		return fmt.Errorf("%w: there is no server %s, or it is off", cli.ErrUsage, args[0])
	}
	show := func(ctx context.Context, address string) error {
		fmt.Fprintln(p.Err, "Log in at", strconv.QuoteToGraphic(address))
		return browse(ctx, address)
	}
	if err := mcp.Login(ctx, args[0], s, logins(mcp.WithBrowser(show))...); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out, "You are logged in.")
	return err
}

// without are the options of a runtime whose model is not asked.
func without(connect harness.Connector) []harness.Option {
	none := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) { yield(nil, errors.New("there is no model here")) }
	})
	return []harness.Option{
		harness.WithClient(none), harness.WithSmallClient(none), harness.WithSummaryClient(none), harness.WithServers(connect),
		harness.WithAgentServers(noAgents),
	}
}

// serve offers the tools of the current directory to the program at the other end of stdin and stdout. It starts no
// servers and other agents: their tools are not passed on.
func serve(ctx context.Context, p cli.Program, args []string) error {
	in, ok := p.In.(io.ReadCloser)
	out, writes := p.Out.(io.WriteCloser)
	if !ok || !writes {
		return errors.New("stdin and stdout cannot be closed")
	}
	rt, end, err := p.Open(ctx, args, without(noServers)...)
	if err != nil {
		return err
	}
	defer end()
	fmt.Fprintln(p.Err, "aycoder: serving the tools of", rt.Files.Dir())
	return mcp.Serve(ctx, rt, in, out, mcp.ServeConfig{})
}

func noServers(context.Context, string, config.Server) (harness.ToolSource, error) { return nil, nil }

func noAgents(string, config.AgentServer, func() tools.FS, *tools.Masker, ...aycoder.Option) (aycoder.Tool, error) {
	return nil, nil
}
