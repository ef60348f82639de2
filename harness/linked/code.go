package linked

import (
	"context"
	"fmt"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/retrieval"
	"github.com/aycoder/aycoder/workspace"
)

// MaxFiles bounds the memory of the graph, which has up to 10 kB of a file.
const MaxFiles = 20_000

// MapWait is how long a person may be kept waiting for the map of a project, for [Code].
const MapWait = 300 * time.Millisecond

// Code returns what opens the code graph of a runtime, for [harness.WithCode]: the map of [codegraph.Graph.Map], if it is
// made within a time, such as [MapWait], git's state, [codegraph.Middleware] and the tools. The graph has at most 20,000 files. It is read in the
// background when the runtime begins, and as far as something has changed before each request and each answer of a tool. If
// the workspace is on another machine, only the tools are there.
//
// cache returns the directory in which the graph of a workspace is kept for the next runtime, if it took longer than the
// map may: see [codegraph.WithCache]. It may be nil, and it may return "". told, unless it is nil, gets the graph of each
// runtime before its first read. A host may use the graph as well, until the runtime is closed.
func Code(cache func(dir string) string, wait time.Duration, told func(*codegraph.Graph)) func(*harness.Runtime) (harness.Code, error) {
	return func(rt *harness.Runtime) (harness.Code, error) {
		opts := []codegraph.Option{codegraph.WithMaxFiles(MaxFiles), codegraph.WithIgnored([]byte(rt.Ignored))}
		if cache != nil {
			if dir := cache(rt.Files.Dir()); dir != "" {
				opts = append(opts, codegraph.WithCache(dir))
			}
		}
		if rt.Workspace != nil {
			opts = append(opts, codegraph.WithDir(rt.Workspace.Dir()))
		}
		g, err := codegraph.New(rt.Files, opts...)
		if err != nil {
			return harness.Code{}, err
		}
		if told != nil {
			told(g)
		}
		c := harness.Code{Tools: func(names []config.Code) ([]aycoder.Tool, error) { return codeTools(rt, g, names) }}
		if _, here := rt.Files.(*workspace.Workspace); !here && rt.Workspace == nil {
			return c, nil
		}
		life, end := context.WithCancel(context.Background())
		read, ended := make(chan error, 1), make(chan struct{})
		go func() {
			defer close(ended)
			start := time.Now()
			_, err := g.Refresh(life)
			read <- err
			if err == nil && time.Since(start) > wait {
				_ = g.Save() // the next one begins without it
			}
		}()
		c.Map = func(ctx context.Context) (string, error) {
			select {
			case err := <-read:
				if err != nil {
					return "", nil // the tools say why
				}
				return g.Map(ctx, g.Snapshot())
			case <-time.After(wait):
				return "", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		c.Tail = g.GitTail
		c.Context = func(mask func(string) string) (aycoder.ContextMiddleware, error) {
			return codegraph.Middleware(g, codegraph.WithMask(mask))
		}
		c.Close = func() error {
			end()
			<-ended
			return nil
		}
		return c, nil
	}
}

// codeTools makes the tools of tools.code.
func codeTools(rt *harness.Runtime, g *codegraph.Graph, names []config.Code) (list []aycoder.Tool, err error) {
	for _, name := range names {
		var more []aycoder.Tool
		switch name {
		case "context": // is in requests
		case "graph":
			more, err = codegraph.Tools(g)
		case "search":
			var r *retrieval.Retriever
			var t aycoder.Tool
			if r, err = retrieval.New(context.Background()); err == nil {
				t, err = retrieval.Tool(r, g, rt.Files)
			}
			more = []aycoder.Tool{t}
		default:
			err = fmt.Errorf("there are no tools %q", name)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}
