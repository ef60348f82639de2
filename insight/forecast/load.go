package forecast

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/journal"
)

// Sources are what [Load] reads. Each is optional.
type Sources struct {
	// Store has the conversations, those for which Keep returns true: see [Tasks].
	Store journal.Store
	Keep  func(*journal.Entry) bool
	// Files is the workspace, and Dir its directory, for git.
	Files codegraph.FS
	Dir   string
	// Factor is that of [Options].
	Factor float64
}

// Load prepares forecasts from the newest 1,000 conversations, the newest 20,000 commits and the files. Without a history of
// commits, forecasts say less, and skipped says why. The error is that of reading the conversations or the files, or of ctx.
func Load(ctx context.Context, s Sources) (f *Forecaster, skipped, err error) {
	o := Options{Factor: s.Factor}
	if s.Store != nil {
		if o.Tasks, err = Tasks(ctx, s.Store, maxTasks, s.Keep); err != nil {
			return nil, nil, err
		}
	}
	if s.Files != nil {
		g, err := codegraph.New(s.Files)
		if err != nil {
			return nil, nil, fmt.Errorf("prepare a forecast: %w", err)
		}
		if o.Graph, err = g.Refresh(ctx); err != nil {
			return nil, nil, fmt.Errorf("prepare a forecast: %w", err)
		}
	}
	if s.Dir != "" {
		if o.Commits, skipped = Commits(ctx, s.Dir); ctx.Err() != nil {
			return nil, nil, skipped
		}
	}
	return New(o), skipped, nil
}

const toolDescription = `Say what a task may take before it is begun: how long similar ones took, which files it may touch, and what is
risky about them. It is a guess from the words and from what was done before.`

type toolArgs struct {
	Task string `json:"task" jsonschema:"minLength=1,maxLength=4000" jsonschema_description:"The task, in the words of the user."`
}

const (
	maxTasks = 1000
	loadTime = 30 * time.Second
	kept     = 10 * time.Minute
)

// Tool returns the tool forecast, which only reads. The first call loads the sources, for at most 30 seconds, and they are kept
// for ten minutes.
func Tool(s Sources) (aycoder.Tool, error) {
	turn := make(chan struct{}, 1) // guards f and at
	var f *Forecaster
	var at time.Time
	return aycoder.NewTool("forecast", toolDescription, func(ctx context.Context, _ *aycoder.Invocation, in toolArgs) (*aycoder.ToolResult, error) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if f == nil || time.Since(at) > kept {
			ctx, cancel := context.WithTimeout(ctx, loadTime)
			defer cancel()
			now, _, err := Load(ctx, s)
			if err != nil {
				return nil, err
			}
			f, at = now, time.Now()
		}
		return aycoder.TextResult(f.Of(in.Task).Text()), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectText, "task"))
}

// newest returns keep, narrowed to the newest conversations of those that it keeps.
func newest(entries []journal.Entry, keep func(*journal.Entry) bool, most int) func(*journal.Entry) bool {
	slices.SortStableFunc(entries, func(a, b journal.Entry) int { return b.Created.Compare(a.Created) })
	ids := map[string]bool{}
	for i := range entries {
		if e := entries[i]; len(ids) < most && (keep == nil || keep(&e)) {
			ids[e.ID] = true
		}
	}
	return func(e *journal.Entry) bool { return ids[e.ID] && (keep == nil || keep(e)) }
}
