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
