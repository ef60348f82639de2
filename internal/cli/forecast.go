package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/insight/forecast"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

var forecastFlags = []switchOf{
	{"all", "by the conversations of all directories", ""},
	{"factor", "how many times as long as an agent a person works on the same", "n"},
}

// forecastCommand says what the task may take that the arguments of "aycoder forecast" name.
func forecastCommand(ctx context.Context, k *call) error {
	var o forecast.Options
	if s, ok := k.values["factor"]; ok {
		var err error
		if o.Factor, err = strconv.ParseFloat(s, 64); err != nil || !(o.Factor > 0) || math.IsInf(o.Factor, 1) {
			return fmt.Errorf("%w: -factor %s is not a number above 0", ErrUsage, s)
		}
	}
	if len(k.args) == 0 {
		return fmt.Errorf("%w: name the task: aycoder forecast fix the crash in the parser", ErrUsage)
	}
	st, err := k.load(&options{})
	if err != nil {
		return err
	}
	store, err := k.store(st)
	if err != nil {
		return err
	}
	ws, err := workspace.Open(".")
	if err != nil {
		return err
	}
	defer ws.Close()
	mask := tools.NewMasker(nil).Mask
	o.Tasks, o.Calls, err = forecast.Tasks(ctx, store, func(e *journal.Entry) bool {
		e.Title, e.Prompt = mask(e.Title), mask(e.Prompt)
		return k.on["all"] || e.Dir == ws.Dir()
	})
	if err != nil {
		return err
	}
	g, err := codegraph.New(ws)
	if err != nil {
		return err
	}
	if o.Graph, err = g.Refresh(ctx); err != nil {
		return err
	}
	if o.Commits, err = forecast.Commits(ctx, ws.Dir()); err != nil {
		if ctx.Err() != nil {
			return err
		}
		k.tell(fmt.Sprintf("without the history: %v", err))
	}
	t := forecast.New(o).Of(strings.Join(k.args, " "))
	return k.print(t, func(w io.Writer) { fmt.Fprint(w, clean(t.Text())) })
}
