package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/runner"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const (
	runnerToken = "AYCODER_RUNNER_TOKEN"
	runnerPath  = "/api/runner"
)

// offer offers this directory to a server, until a signal comes or the server refuses it.
func offer(ctx context.Context, k *call) error {
	name := cmp.Or(k.values["token-env"], runnerToken)
	switch {
	case k.values["server"] == "":
		return fmt.Errorf("%w: -server is missing; aycoder runner -h tells more", ErrUsage)
	case k.getenv(name) == "":
		return fmt.Errorf("%w: the variable %s has no token; aycoder serve -runner prints one", ErrUsage, name)
	}
	here, err := directory()
	if err != nil {
		return err
	}
	ws, err := workspace.Open(here)
	if err != nil {
		return err
	}
	defer ws.Close()
	var commands tools.Exec
	if !k.on["files-only"] {
		var opts []tools.Option
		if k.on["sandbox"] {
			box, err := tools.Landlock(ws)
			if err != nil {
				return err
			}
			defer box.Close()
			opts = append(opts, tools.WithSandbox(box), tools.WithSandboxRequired(true))
		}
		if commands, err = tools.LocalExec(opts...); err != nil {
			return err
		}
	}
	return runner.Serve(ctx, strings.TrimSuffix(k.values["server"], "/")+runnerPath, k.getenv(name), ws, commands,
		runner.WithVersion(version()), runner.WithPlainHTTP(k.on["plain-http"]), runner.WithReport(slog.New(slog.NewTextHandler(k.stderr, nil))))
}

// elsewhere is the runner whose directory a server works in. It is nil if that is the one of the server.
type elsewhere struct {
	name  string
	token string
	given bool // the token is one of the user
	texts bool
	hub   *runner.Hub
}

// elsewhere makes what the runner of the flag connects to.
func (k *call) elsewhere() (*elsewhere, error) {
	name := k.values["runner"]
	if name == "" {
		return nil, nil
	}
	e := &elsewhere{name: name, token: k.getenv(runnerToken), texts: k.on["runner-texts"]}
	if e.given = e.token != ""; !e.given {
		e.token = rand.Text()
	} else if e.token == k.getenv(serveToken) {
		return nil, fmt.Errorf("%w: %s and %s are the same: the machine of the runner could answer approvals", ErrUsage, runnerToken, serveToken)
	}
	authorize, err := runner.Tokens(map[string]string{name: e.token})
	if err != nil {
		return nil, err
	}
	e.hub, err = runner.NewHub(authorize, runner.WithLogger(slog.New(slog.NewTextHandler(k.stderr, nil))))
	return e, err
}

// label is the directory of the sessions in lists. None on this machine has this name.
func (e *elsewhere) label() string {
	return filepath.Join(string(filepath.Separator), "runner:"+e.name)
}

// mount adds to the handler of a server where the runner connects.
func (e *elsewhere) mount(srv http.Handler) http.Handler {
	if e == nil {
		return srv
	}
	mux := http.NewServeMux()
	mux.Handle(runnerPath, e.hub)
	mux.Handle("/", srv)
	return mux
}

// say tells how to start the runner.
func (e *elsewhere) say(k *call, addr net.Addr) {
	if e == nil {
		return
	}
	fmt.Fprintf(k.out, "Runner: aycoder runner -server http://%s\n", addr)
	if !e.given {
		fmt.Fprintf(k.out, "%s: %s\n", runnerToken, e.token)
	}
}

// options are those of a runtime. They wait for the runner.
func (e *elsewhere) options(ctx context.Context) ([]harness.Option, error) {
	if e == nil {
		return nil, nil
	}
	env, err := e.hub.Environment(ctx, e.name)
	if err != nil {
		return nil, err
	}
	return []harness.Option{harness.WithProjectTexts(e.texts), harness.WithEnvironment(harness.Environment{
		Files: env, Exec: env, System: env.Manifest().System, Texts: env.Texts(), Pin: env.Pin, Changes: env.Changes,
	})}, nil
}

func (e *elsewhere) close() error {
	if e == nil {
		return nil
	}
	return e.hub.Close()
}
