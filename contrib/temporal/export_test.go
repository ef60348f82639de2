package temporal

import (
	"context"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
)

// Put stores a message and returns its reference, as [Client.Steer] does.
func Put(ctx context.Context, store journal.Store, m *aycoder.Message) (string, error) {
	return putRef(ctx, store, &message{Say: &aycoder.Steered{Message: m}})
}

// PutResult stores the result of a call, as [Client.Answer] does.
func PutResult(ctx context.Context, store journal.Store, r aycoder.CallResult) (string, error) {
	return putRef(ctx, store, &message{Result: &r})
}

// PutDecision stores a decision, as [Client.Decide] does.
func PutDecision(ctx context.Context, store journal.Store, d aycoder.Decision) (string, error) {
	return putRef(ctx, store, &message{Decision: &d})
}

// Step is the activity of a step.
func (w *Worker) Step(session, key string) func(context.Context) (Plan, error) {
	return func(ctx context.Context) (Plan, error) { return w.step(ctx, stepInput{Session: session, Key: key}) }
}

// Claims returns the number of steps that wait for the run of a session.
func (w *Worker) Claims(session string) int {
	w.mu.Lock()
	l := w.lives[session]
	w.mu.Unlock()
	if l == nil {
		return 0
	}
	l.mu.Lock()
	a := l.run
	l.mu.Unlock()
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.claims)
}

// ChildID is the id of the child of a call.
func ChildID(parent, digest string) string { return childID(parent, Question{Digest: short(digest)}) }
