package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder/insight/forecast"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/workspace"
)

var forecastFlags = []Flag{
	{"all", "by the conversations of all directories", ""},
	{"factor", "how many times as long as an agent a person works on the same", "n"},
}

// forecastCommand says what the task may take that the arguments of "aycoder forecast" name.
func forecastCommand(ctx context.Context, k *call) error {
	factor := 0.0
	if s, ok := k.values["factor"]; ok {
		var err error
		if factor, err = strconv.ParseFloat(s, 64); err != nil || !(factor > 0) || math.IsInf(factor, 1) {
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
	f, skipped, err := forecast.Load(ctx, forecast.Sources{Store: store, Files: ws, Dir: ws.Dir(), Factor: factor, Keep: listedOf(ws.Dir(), k.on["all"])})
	if err != nil {
		return err
	}
	if skipped != nil {
		k.tell(fmt.Sprintf("without the history: %v", skipped))
	}
	t := f.Of(strings.Join(k.args, " "))
	return k.print(t, func(w io.Writer) { fmt.Fprint(w, clean(t.Text())) })
}

const (
	forecastTasks = 100
	forecastTime  = 500 * time.Millisecond
)

// foresee says what similar tasks of this directory took, in one line, or "" if too little is known, if it would take long to find
// out, or if the conversation has a bound already.
func (a *app) foresee(ctx context.Context, s *session, st *settings, words string) string {
	if !s.kept || s.demo || !st.loaded.Config.Terminal.Forecast || st.loaded.Config.Agent.MaxCost != nil || s.Session.View().Len() > 1 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, forecastTime)
	defer cancel()
	store, err := a.store(st)
	if err != nil {
		return ""
	}
	tasks, err := forecast.Tasks(ctx, store, forecastTasks, func(e *journal.Entry) bool { return e.Dir == s.Files.Dir() })
	if err != nil {
		return ""
	}
	return forecast.New(forecast.Options{Tasks: tasks}).Brief(words)
}
