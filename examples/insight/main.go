// Insight tells about a repository: what it looks like, what could be done next, and what a task may take.
//
//	insight ~/src/project fix the crash in the parser
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/insight/code"
	"github.com/aycoder/aycoder/insight/forecast"
	"github.com/aycoder/aycoder/insight/suggest"
	"github.com/aycoder/aycoder/workspace"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: insight directory [words of a task]")
	}
	ws, err := workspace.Open(args[0])
	if err != nil {
		return err
	}
	defer ws.Close()
	h, err := code.Read(ctx, ws.Dir(), code.Options{})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "commits %d, people %d\n", h.Commits, len(h.Authors))
	for _, f := range h.Hotspots(3) {
		fmt.Fprintf(out, "hotspot: %s, %d commits, complexity %d\n", f.Name(), f.Recent, f.Complexity)
	}
	g, err := codegraph.New(ws, codegraph.WithDir(ws.Dir()))
	if err != nil {
		return err
	}
	s, err := g.Refresh(ctx)
	if err != nil {
		return err
	}
	for i, dirs := range code.StructureOf(s).Layers {
		fmt.Fprintf(out, "layer %d: %q\n", i, dirs)
	}
	// With a directory of osv.dev as Advisories, it would also tell vulnerable dependencies.
	r, err := suggest.Find(ctx, suggest.Options{Files: ws, Dir: ws.Dir()})
	if err != nil {
		return err
	}
	for _, s := range r.Unasked() {
		fmt.Fprintf(out, "%s in %s: %s\n", s.Kind, cmp.Or(s.Path, "."), s.Text)
	}
	if len(args) == 1 {
		return nil
	}
	commits, err := forecast.Commits(ctx, ws.Dir())
	if err != nil {
		return err
	}
	t := forecast.New(forecast.Options{Commits: commits, Graph: s}).Of(strings.Join(args[1:], " "))
	_, err = io.WriteString(out, t.Text())
	return err
}
