package session

import (
	"context"
	"slices"

	"github.com/aycoder/aycoder"
)

// A run of a branch may be inside of a call that another branch of the session makes. The outer run then tells with the call what
// the inner one has spent, but the nodes of the inner branch have that already.

// around returns the run of this session around one that begins, or nil. The mutex is held.
func (s *Session) around(ctx context.Context, parent *aycoder.Invocation) *activeRun {
	ids := aycoder.RunsFromContext(ctx)
	if parent != nil {
		ids = slices.Insert(ids, 0, parent.Run)
	}
	for _, id := range ids {
		for _, b := range s.branches {
			if b.active != nil && b.active.id == id {
				return b.active
			}
		}
	}
	return nil
}

// ownSpent returns what was spent in calls without what runs inside of them have recorded themselves. The mutex is held.
func (a *activeRun) ownSpent(spent []aycoder.Spent) []aycoder.Spent {
	if len(a.inside) == 0 {
		return spent
	}
	spent, inside := slices.Clone(spent), slices.Clone(a.inside)
	for i := range spent {
		for j := range inside {
			cancelOut(&spent[i], &inside[j])
		}
	}
	none := func(x aycoder.Spent) bool {
		return x == aycoder.Spent{Agent: x.Agent, Provider: x.Provider, Model: x.Model}
	}
	a.inside = slices.DeleteFunc(inside, none)
	return slices.DeleteFunc(spent, none)
}

// cancelOut removes from both what is in both.
func cancelOut(x, y *aycoder.Spent) {
	if x.Agent != y.Agent || x.Provider != y.Provider || x.Model != y.Model {
		return
	}
	less(&x.Answers, &y.Answers)
	less(&x.Uncounted, &y.Uncounted)
	less(&x.Unpriced, &y.Unpriced)
	less(&x.Cost, &y.Cost)
	less(&x.Usage.Input, &y.Usage.Input)
	less(&x.Usage.Output, &y.Usage.Output)
	less(&x.Usage.Reasoning, &y.Usage.Reasoning)
	less(&x.Usage.CacheRead, &y.Usage.CacheRead)
	less(&x.Usage.CacheWrite, &y.Usage.CacheWrite)
}

func less[N int | int64 | float64](x, y *N) {
	both := min(*x, *y)
	*x, *y = *x-both, *y-both
}
