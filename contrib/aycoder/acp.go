package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/contrib/acp"
	"github.com/aycoder/aycoder/contrib/mcp"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli"
	"github.com/aycoder/aycoder/tools"
)

// acpExtension serves the agent to editors, and gives it the other agents of the configuration.
func acpExtension() cli.Extension {
	return cli.Extension{Options: []harness.Option{harness.WithAgentServers(otherAgent)}, Subcommands: []cli.Subcommand{{
		Name: "acp", Help: "serves the agent to an editor by the Agent Client Protocol on stdin and stdout, with the flags of the program",
		Run: serveEditor,
	}}}
}

func otherAgent(name string, c config.AgentServer, files func() tools.FS, m *tools.Masker, opts ...aycoder.Option) (aycoder.Tool, error) {
	return acp.Agent(acp.AgentConfig{
		Name: name, Description: c.Description, Command: c.Command, Args: c.Args, Env: c.Env, Auth: c.Auth, Mode: c.Mode, Timeout: c.Timeout,
		Files: files, Masker: m, Options: opts,
	})
}

// serveEditor serves the editor at the other end of stdin and stdout. Conversations are kept where the program keeps its
// own, unless there is no place for them or the flags say otherwise.
func serveEditor(ctx context.Context, p cli.Program, args []string) error {
	if given(args, "C") {
		return fmt.Errorf("%w: the editor says in which directory it works", cli.ErrUsage)
	}
	store, err := p.Store(args)
	if err != nil {
		return err
	}
	c := acp.Config{Store: store, Servers: mcp.Connector(logins(mcp.WithBrowser(browse))...)}
	c.Models = func(rt *harness.Runtime) (list []acp.Model) {
		for _, m := range p.Models(rt.Config()) {
			list = append(list, acp.Model{ID: m.Text, Description: m.Note})
		}
		return list
	}
	var opening sync.Mutex // a runtime is made in the current directory
	var ends []func()
	c.Open = func(ctx context.Context, s acp.Start) (*harness.Runtime, error) {
		opening.Lock()
		defer opening.Unlock()
		rt, end, err := p.Open(ctx, append(slices.Clone(args), "-C", s.Dir), s.Options...)
		if err == nil {
			ends = append(ends, end)
		}
		return rt, err
	}
	err = acp.ServeStdio(ctx, c)
	for _, end := range ends {
		end()
	}
	if errors.Is(err, context.Canceled) { // a signal, as editors end their agents
		return nil
	}
	return err
}

// given reports whether a flag is among the arguments.
func given(args []string, flag string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return name == "-"+flag || name == "--"+flag
	})
}
