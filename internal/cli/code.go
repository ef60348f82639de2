package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/insight/code"
	"github.com/aycoder/aycoder/workspace"
)

var codeFlags = []Flag{
	{"since", "only commits since a day, such as 2026-01-31", "day"},
	{"html", "print a page", ""},
}

// codeCommand does what the arguments of "aycoder code" say.
func codeCommand(ctx context.Context, k *call) error {
	if k.action == "owners" {
		owners, err := code.Owners(ctx, ".", k.arg(0))
		if err != nil {
			return err
		}
		return printList(k, owners, func(o *code.Owner) string {
			return fmt.Sprintf("%7d  %s <%s>", o.Lines, cleanLine(o.Name), cleanLine(o.Email))
		}, "")
	}
	if k.action == "structure" || k.action == "clones" {
		return structure(ctx, k)
	}
	var o code.Options
	if day, ok := k.values["since"]; ok {
		var err error
		if o.Since, err = time.ParseInLocation(time.DateOnly, day, time.Local); err != nil {
			return fmt.Errorf("%w: -since %s is not a day like 2026-01-31", ErrUsage, day)
		}
	}
	h, err := code.Read(ctx, ".", o)
	if err != nil {
		return err
	}
	return k.printReport(h)
}

// structure tells how the code of this directory depends on itself, or where it is repeated.
func structure(ctx context.Context, k *call) error {
	ws, err := workspace.Open(".")
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
	if k.action == "clones" {
		files, left, skipped := map[string][]byte{}, int64(maxSources), 0
		for name := range s.Files() {
			if path.Ext(name) != ".go" {
				continue
			}
			data, err := readSource(ws, name, min(left, maxSource))
			if err != nil {
				skipped++
				continue
			}
			files[name], left = data, left-int64(len(data))
		}
		if skipped > 0 {
			k.tell(fmt.Sprintf("%d files in Go were not looked at: they are too long, or cannot be read", skipped))
		}
		list := code.Clones(files, 100)
		return k.print(list, func(w io.Writer) {
			fmt.Fprintf(w, "%d parts of at least 100 nodes of the syntax tree stand in several places\n", len(list))
			for _, c := range list {
				fmt.Fprintf(w, "\n%d nodes, %d times\n", c.Size, len(c.Places))
				for _, p := range c.Places {
					fmt.Fprintf(w, "  %s:%d-%d\n", cleanLine(p.Path), p.Line, p.End)
				}
			}
		})
	}
	t := code.StructureOf(s)
	return k.print(t, func(w io.Writer) { _ = t.WriteText(w) }) // to memory
}

const (
	maxSource  = 1 << 20  // bytes of a file in Go
	maxSources = 64 << 20 // of all; their syntax trees take about thirty times as much
)

// readSource returns the content of a file of at most so many bytes.
func readSource(files fs.FS, name string, most int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return data, err
}
