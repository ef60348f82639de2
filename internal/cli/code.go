package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/insight/code"
	"github.com/aycoder/aycoder/workspace"
)

var codeFlags = []switchOf{
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
		return k.print(owners, func(w io.Writer) {
			for _, o := range owners {
				fmt.Fprintf(w, "%7d  %s <%s>\n", o.Lines, cleanLine(o.Name), cleanLine(o.Email))
			}
		})
	}
	if k.action == "structure" {
		return structure(ctx, k)
	}
	var o code.Options
	if day, ok := k.values["since"]; ok {
		var err error
		if o.Since, err = time.ParseInLocation(time.DateOnly, day, time.Local); err != nil {
			return fmt.Errorf("%w: -since %s is not a day like 2026-01-31", ErrUsage, day)
		}
	}
	if k.json && k.on["html"] {
		return fmt.Errorf("%w: -html and -json exclude each other", ErrUsage)
	}
	h, err := code.Read(ctx, ".", o)
	if err != nil {
		return err
	}
	var b strings.Builder
	switch {
	case k.json:
		return k.print(json.Marshaler(h), nil)
	case k.on["html"]:
		err = h.WriteHTML(&b)
	default:
		err = h.WriteText(&b)
	}
	if err != nil {
		return err
	}
	return k.write(clean(b.String()))
}

// structure tells how the code of this directory depends on itself.
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
	t := code.StructureOf(s)
	return k.print(t, func(w io.Writer) { _ = t.WriteText(w) }) // to memory
}
