// Package whole connects what keeps whole outputs of tools with where they are stored. Package
// compaction makes and reads them, and package session stores them; neither imports the other.
package whole

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/aycoder/aycoder/internal/late"
)

// Store stores whole outputs by their keys.
type Store interface {
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
}

type storeKey struct{}

// With returns a context in which outputs are kept in a store.
func With(ctx context.Context, s Store) context.Context { return context.WithValue(ctx, storeKey{}, s) }

// From returns the store of a context, or nil.
func From(ctx context.Context) Store {
	s, _ := ctx.Value(storeKey{}).(Store)
	return s
}

// Key returns the key of the output of a call. Nobody who does not know the output can guess it.
func Key(call, text string) string {
	h := sha256.New()
	_, _ = io.WriteString(h, call+"\x00")
	_, _ = io.WriteString(h, text)
	return "out_" + hex.EncodeToString(h.Sum(nil)[:8])
}

var keys = late.Regexp(`\bout_[0-9a-f]{16}\b`)

// Keys returns what in a text looks like a key.
func Keys(text string) []string { return keys().FindAllString(text, -1) }
