package part

import "github.com/aycoder/aycoder"

// NoModel is the provider of answers that no model has given: see [harness.Runtime.Caller].
const NoModel = "none"

// Spent returns what a fact says that models have used: for an answer, for the summary of a compaction, or in a call. The
// sum over the facts of a run is all that the run has used, with the runs inside of its calls.
func Spent(f aycoder.Fact) []aycoder.Spent {
	one := aycoder.Spent{Answers: 1}
	var cost *float64
	switch f := f.(type) {
	case *aycoder.MessageDone:
		if f.Provider == NoModel {
			return nil
		}
		one.Provider, one.Model, one.Usage, cost = f.Provider, f.Model, f.Usage, f.Cost
	case *aycoder.Compacted:
		if f.Usage == (aycoder.Usage{}) && f.Cost == nil { // without a model
			return nil
		}
		one.Provider, one.Model, one.Usage, cost = f.Provider, f.Model, f.Usage, f.Cost
	case *aycoder.ToolDone:
		return f.Spent
	default:
		return nil
	}
	if cost == nil {
		one.Unpriced = 1
	} else {
		one.Cost = *cost
	}
	return []aycoder.Spent{one}
}
