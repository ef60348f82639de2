// Todos shows a custom tool that reads the files below a directory: it stays in the
// workspace, stops when it is cancelled, bounds its output and reports its progress. It
// needs neither a network nor a key.
package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/workspace"
)

// todoArgs are the arguments. A comma in a tag needs two backslashes. The default is only
// what the model reads: an argument that it leaves out has the zero value here.
type todoArgs struct {
	Path string `json:"path,omitempty" jsonschema:"description=Directory\\, relative to the workspace,default=."`
	Max  int    `json:"max,omitempty" jsonschema:"description=Most lines to list,minimum=1,maximum=100,default=50"`
}

// finder lists lines with TODO. Open is that of the workspace; a test can make it slow.
type finder struct {
	ws   *workspace.Workspace
	open func(name string) (fs.File, error)
}

func (f *finder) tool() (aycoder.Tool, error) {
	return aycoder.NewTool("todos", "Lists the lines with TODO in the files below a directory.", f.call,
		aycoder.WithEffect(aycoder.EffectReadOnly),
		aycoder.WithSubject(aycoder.SubjectPath, "path"),
	)
}

func (f *finder) call(ctx context.Context, inv *aycoder.Invocation, in todoArgs) (*aycoder.ToolResult, error) {
	dir, err := f.ws.Rel(cmp.Or(in.Path, ".")) // "" is what many models send for the workspace itself
	if err != nil {
		return nil, err // the errors of a workspace are meant for the model
	}
	w := &walk{finder: f, inv: inv, most: cmp.Or(in.Max, 50)}
	if err := w.directory(ctx, dir); err != nil {
		return nil, err
	}
	text := strings.Join(w.lines, "\n")
	switch {
	case len(w.lines) == 0:
		text = "no TODO in " + dir
	case len(w.lines) == w.most:
		text += "\n[there may be more; call todos for a directory below]"
	}
	if w.unread > 0 {
		text += fmt.Sprintf("\n[%d files were not read to their end]", w.unread)
	}
	r := aycoder.TextResult(text)
	r.Summary = fmt.Sprintf("%d lines", len(w.lines))
	return r, nil
}

// walk is one call.
type walk struct {
	*finder
	inv   *aycoder.Invocation
	most  int
	lines []string
	files int64

	unread int // files that were not read to their end
}

// directory returns the cause of ctx when that is cancelled: an incomplete list must not
// look like a complete one.
func (w *walk) directory(ctx context.Context, dir string) error {
	entries, err := w.ws.ReadDir(ctx, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case len(w.lines) == w.most || strings.HasPrefix(e.Name(), "."):
			continue
		case e.IsDir():
			err = w.directory(ctx, name)
		case e.Type().IsRegular():
			w.file(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file reads the first MiB of a file. It counts those that it cannot read to the end, also
// those that it must not read, such as .env.
func (w *walk) file(name string) {
	f, err := w.open(name)
	if err != nil {
		w.unread++
		return
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, 1<<20+1))
	lines.Buffer(nil, 1<<20)
	size := 0
	for n := 1; lines.Scan() && len(w.lines) < w.most; n++ {
		size += len(lines.Bytes()) + 1
		if strings.Contains(lines.Text(), "TODO") {
			line := lines.Text()[:min(len(lines.Text()), 200)]
			w.lines = append(w.lines, strings.ToValidUTF8(fmt.Sprintf("%s:%d: %s", name, n, line), "?"))
		}
	}
	if lines.Err() != nil || size > 1<<20 {
		w.unread++
	}
	w.files++
	w.inv.Progress(aycoder.Progress{Current: w.files, Message: "files"})
}

func main() {
	model := script.New(script.Call("todos", todoArgs{}), script.Say("Two things are left to do."))
	if err := run(context.Background(), os.Stdout, model, "testdata"); err != nil {
		log.Fatal(err)
	}
}

// run lets an agent look for what is left to do below a directory.
func run(ctx context.Context, w io.Writer, model aycoder.ModelClient, dir string) error {
	ws, err := workspace.Open(dir)
	if err != nil {
		return err
	}
	defer ws.Close()
	tool, err := (&finder{ws, ws.Open}).tool()
	if err != nil {
		return err
	}
	loop, err := aycoder.New(model, aycoder.WithTools(tool))
	if err != nil {
		return err
	}
	for ev, err := range loop.Run(ctx, aycoder.Input{Prompt: "What is left to do?"}) {
		if err != nil {
			return err
		}
		switch ev := ev.(type) {
		case *aycoder.ToolFinished:
			fmt.Fprintf(w, "%s: %s\n%s\n", ev.Call.Name, ev.Summary, ev.Output.Text())
		case *aycoder.TextDelta:
			fmt.Fprint(w, ev.Text)
		case *aycoder.RunFinished:
			fmt.Fprintln(w)
		}
	}
	return nil
}
