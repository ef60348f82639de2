package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

func Example() {
	main()
	// Output:
	// I will count.[words: 6 words]
	//
	// -- turn ended: tool_use
	// [words: 2000 words]
	//
	// -- turn ended: tool_use
	// [compacted: 1 texts are shortened]
	// Six and two thousand.
	// -- turn ended: end_turn
	// 3 turns, 6 messages
}

func TestRun(t *testing.T) {
	call := script.Call("words", wordsArgs{"a b"})
	tests := []struct {
		name   string
		model  *script.Model
		turns  int
		output string
		err    string
	}{
		{"answers at once", script.New(script.Say("None.")), 3, "1 turns, 2 messages", ""},
		{"one call", script.New(call, script.Say("Two.")), 3, "2 words", ""},
		{"bound", script.New(call).With(script.WithLoop(true)), 3, "2 words", "limit of 3 turns reached"},
		{"error", script.New(call, script.Fail(errors.New("gone"))), 3, "2 words", "turn 2: gone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			err := run(t.Context(), &b, tt.model, tt.turns)
			require.Contains(t, b.String(), tt.output)
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.err)
		})
	}
}

// The request of each turn contains all earlier messages, outputs included.
func TestHistoryGrows(t *testing.T) {
	m := script.New(script.Call("words", wordsArgs{"a"}), script.Say("One."))
	require.NoError(t, run(t.Context(), io.Discard, m, 5))
	reqs := m.Requests()
	require.Len(t, reqs, 2)
	require.Len(t, reqs[0].Messages, 1)
	require.Len(t, reqs[1].Messages, 3)
	require.NoError(t, aycoder.CheckHistory(reqs[1].Messages))
	require.Equal(t, "1 words", script.LastOutput(reqs[1]).Text())
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ctx, io.Discard, script.New(script.Say("x")), 1), context.Canceled)
}
