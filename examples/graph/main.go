// Graph draws which parts of a directory of a workspace depend on which, as a picture in SVG, or for
// Graphviz or Mermaid. Cycles are red.
//
//	graph -dir internal ~/src/project > graph.svg
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/workspace"
)

var formats = map[string]func(*codegraph.Drawing) string{
	"svg": (*codegraph.Drawing).SVG, "dot": (*codegraph.Drawing).DOT, "mermaid": (*codegraph.Drawing).Mermaid,
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("graph", flag.ContinueOnError)
	dir := flags.String("dir", ".", "directory to draw, relative to the workspace")
	format := flags.String("format", "svg", "svg, dot or mermaid")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	draw := formats[*format]
	if draw == nil {
		return fmt.Errorf("unknown format %q", *format)
	}
	ws, err := workspace.Open(cmp.Or(flags.Arg(0), "."))
	if err != nil {
		return err
	}
	defer ws.Close()
	g, err := codegraph.New(ws)
	if err != nil {
		return err
	}
	s, err := g.Refresh(ctx)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, draw(s.Draw(*dir)))
	return err
}
