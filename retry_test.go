package aycoder_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func base(text string) *aycoder.ModelError {
	return &aycoder.ModelError{Provider: "p", Model: "m", Status: 400, RequestID: "r1", Err: errors.New(text)}
}

func TestRetryDecide(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rate := func(after time.Duration, reset time.Time) error {
		return &aycoder.RateLimitError{ModelError: base("slow down"), RetryAfter: after, ResetAt: reset}
	}
	tests := []struct {
		name string
		f    aycoder.Failure
		want aycoder.ModelFailed
	}{
		{"as told", aycoder.Failure{Err: rate(7*time.Second, time.Time{})}, aycoder.ModelFailed{Retry: true, After: 7 * time.Second}},
		{"at the reset", aycoder.Failure{Err: rate(0, now.Add(9*time.Second))}, aycoder.ModelFailed{Retry: true, After: 9 * time.Second}},
		{"reset in the past", aycoder.Failure{Err: rate(0, now.Add(-9*time.Second))}, aycoder.ModelFailed{Retry: true, After: time.Second}},
		{"not told", aycoder.Failure{Err: rate(0, time.Time{}), Attempt: 2}, aycoder.ModelFailed{Retry: true, After: 4 * time.Second}},
		{"spread", aycoder.Failure{Err: rate(0, time.Time{}), Random: 0.5}, aycoder.ModelFailed{Retry: true, After: 875 * time.Millisecond}},
		{"longer than the budget", aycoder.Failure{Err: rate(time.Hour, time.Time{})}, aycoder.ModelFailed{}},
		{"budget is used up", aycoder.Failure{Err: rate(time.Second, time.Time{}), Waited: 5 * time.Minute}, aycoder.ModelFailed{}},
		{"too often", aycoder.Failure{Err: rate(time.Second, time.Time{}), Attempt: 5}, aycoder.ModelFailed{}},
		{"never more than a minute", aycoder.Failure{Err: &aycoder.OverloadedError{ModelError: base("x")}, Attempt: 4, Random: 0}, aycoder.ModelFailed{Retry: true, After: 16 * time.Second}},
		{"overloaded, as told", aycoder.Failure{Err: &aycoder.OverloadedError{ModelError: base("x"), RetryAfter: 3 * time.Second}}, aycoder.ModelFailed{Retry: true, After: 3 * time.Second}},
		{"broken", aycoder.Failure{Err: &aycoder.StreamBrokenError{ModelError: base("x")}}, aycoder.ModelFailed{Retry: true, After: time.Second}},
		{"timeout", aycoder.Failure{Err: &aycoder.TimeoutError{ModelError: base("x")}}, aycoder.ModelFailed{Retry: true, After: time.Second}},
		{"short silence", aycoder.Failure{Err: &aycoder.TimeoutError{ModelError: base("x"), Elapsed: time.Minute}}, aycoder.ModelFailed{Retry: true, After: time.Second}},
		{"short silences add up", aycoder.Failure{Err: &aycoder.TimeoutError{ModelError: base("x"), Elapsed: time.Minute}, Attempt: 4, Waited: 15 * time.Second}, aycoder.ModelFailed{}},
		{"long silence", aycoder.Failure{Err: &aycoder.TimeoutError{ModelError: base("x"), Elapsed: 5 * time.Minute}}, aycoder.ModelFailed{}},
		{"too large", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x")}}, aycoder.ModelFailed{Retry: true, Shrink: true}},
		{"too large again", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x")}, Sent: 800}, aycoder.ModelFailed{Retry: true, Shrink: true, Limit: 600}},
		{"too large once more", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x")}, Sent: 800, Attempt: 1}, aycoder.ModelFailed{Retry: true, Shrink: true, Limit: 400}},
		// Of 1,000 bytes, 500 fit, and 200 of these are fixed. A sixteenth is kept free.
		{"too large by so much", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x"), Actual: 20, Max: 10}, Sent: 800, Fixed: 200}, aycoder.ModelFailed{Retry: true, Shrink: true, Limit: 281}},
		// At four bytes a token, 1,000 bytes are 250 tokens: 400 bytes fit, and 200 of these are fixed.
		{"too large for so much", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x"), Max: 100}, Sent: 800, Fixed: 200}, aycoder.ModelFailed{Retry: true, Shrink: true, Limit: 187}},
		{"too large for so much again", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x"), Max: 100}, Sent: 800, Fixed: 200, Attempt: 1}, aycoder.ModelFailed{Retry: true, Shrink: true, Limit: 187}},
		{"too large for slightly less", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x"), Max: 240}, Sent: 800, Fixed: 200}, aycoder.ModelFailed{Retry: true, Shrink: true, Limit: 600}},
		{"too large for more", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x"), Max: 300}, Sent: 800, Fixed: 200}, aycoder.ModelFailed{Retry: true, Shrink: true, Limit: 600}},
		{"too large with less", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x"), Actual: 90, Max: 100}, Sent: 800, Fixed: 200}, aycoder.ModelFailed{Retry: true, Shrink: true, Limit: 600}},
		{"too large, and fixed is too much", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x"), Max: 10}, Sent: 800, Fixed: 200}, aycoder.ModelFailed{Retry: true, Shrink: true, Limit: 1}},
		{"too large, and fixed", aycoder.Failure{Err: &aycoder.ContextTooLargeError{ModelError: base("x")}, Shrunk: true}, aycoder.ModelFailed{}},
		{"over a bound", aycoder.Failure{Err: &aycoder.ModelError{Err: &aycoder.LimitError{}}}, aycoder.ModelFailed{Keep: true}},
		{"auth", aycoder.Failure{Err: &aycoder.AuthError{ModelError: base("x")}}, aycoder.ModelFailed{}},
		{"bad request", aycoder.Failure{Err: &aycoder.BadRequestError{ModelError: base("x")}}, aycoder.ModelFailed{}},
		{"unknown model", aycoder.Failure{Err: &aycoder.UnknownModelError{ModelError: base("x")}}, aycoder.ModelFailed{}},
		{"refusal", aycoder.Failure{Err: &aycoder.RefusalError{ModelError: base("x")}}, aycoder.ModelFailed{}},
		{"plain error", aycoder.Failure{Err: io.ErrUnexpectedEOF}, aycoder.ModelFailed{}},
		{"cancelled", aycoder.Failure{Err: context.Canceled}, aycoder.ModelFailed{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.Now = now
			require.Equal(t, tt.want, aycoder.RetryPolicy{}.Decide(tt.f))
		})
	}
	none := aycoder.RetryPolicy{Attempts: -1}.Decide(aycoder.Failure{Err: rate(time.Second, now), Now: now})
	require.False(t, none.Retry)
}

func TestErrorsSayWhatAndUnwrap(t *testing.T) {
	tb := &aycoder.ToolError{Tool: "read", CallID: "c1", Err: io.EOF}
	tests := []struct {
		err  error
		want string
	}{
		{base("why"), "p m: (status 400, request r1): why"},
		{&aycoder.RateLimitError{ModelError: base("why"), RetryAfter: time.Second}, "p m: rate limited (status 400, request r1): why; retry after 1s"},
		{&aycoder.OverloadedError{ModelError: base("why")}, "p m: overloaded (status 400, request r1): why"},
		{&aycoder.AuthError{ModelError: base("why")}, "p m: not authorised (status 400, request r1): why"},
		{&aycoder.UnknownModelError{ModelError: base("why"), Available: []string{"a", "b"}}, "p m: unknown model (status 400, request r1): why; known: a, b"},
		{&aycoder.ContextTooLargeError{ModelError: base("why")}, "p m: context too large (status 400, request r1): why"},
		{&aycoder.BadRequestError{ModelError: base("why")}, "p m: bad request (status 400, request r1): why"},
		{&aycoder.RefusalError{ModelError: base("why")}, "p m: refused to answer (status 400, request r1): why"},
		{&aycoder.TimeoutError{ModelError: base("why"), Elapsed: 2 * time.Second}, "p m: no answer for 2s (status 400, request r1): why"},
		{&aycoder.StreamBrokenError{ModelError: base("why")}, "p m: connection lost (status 400, request r1): why"},
		{&aycoder.ModelError{Err: io.EOF}, "model: EOF"},
		{tb, "tool read: EOF"},
		{&aycoder.ToolNotFoundError{ToolError: tb, Available: []string{"x"}}, "tool read: no such tool: EOF; there are x"},
		{&aycoder.ToolArgsError{ToolError: tb, Problems: []string{"/a: required"}}, "tool read: invalid arguments: /a: required: EOF"},
		{&aycoder.ToolDeniedError{ToolError: tb, By: aycoder.ByUser, Reason: "no"}, "tool read: denied by user: EOF: no"},
		{&aycoder.ToolPanicError{ToolError: tb, Value: 7}, "tool read: panic: 7: EOF"},
		{&aycoder.ToolTimeoutError{ToolError: tb, Elapsed: time.Second}, "tool read: timed out after 1s: EOF"},
		{&aycoder.ToolCancelledError{ToolError: tb}, "tool read: cancelled: EOF"},
		{&aycoder.ToolCancelledError{ToolError: tb, Abandoned: true}, "tool read: cancelled and abandoned: it did not stop: EOF"},
		{&aycoder.ContextError{Op: "build request", Err: io.EOF}, "build request: EOF"},
		{&aycoder.ConfigError{Option: "WithTools", Err: io.EOF}, "WithTools: EOF"},
		{&aycoder.LimitError{Limit: "turns", Max: 5}, "limit of 5 turns reached"},
		{aycoder.Fatal(io.EOF), "EOF"},
	}
	for _, tt := range tests {
		require.EqualError(t, tt.err, tt.want)
		_, model := errors.AsType[*aycoder.ModelError](tt.err)
		_, tool := errors.AsType[*aycoder.ToolError](tt.err)
		require.False(t, model && tool)
		if tt.want[:1] == "p" {
			require.True(t, model, "%T unwraps to its base", tt.err)
		}
		if len(tt.want) > 4 && tt.want[:4] == "tool" {
			require.True(t, tool, "%T unwraps to its base", tt.err)
			require.ErrorIs(t, tt.err, io.EOF)
		}
	}
	require.NoError(t, aycoder.Fatal(nil))
}

// Requests that were made smaller leave the attempts for an overload.
func TestSmallerRequestsAreNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var history []*aycoder.Message
		for range 40 {
			history = append(history, aycoder.User(strings.Repeat("q ", 2000)), aycoder.Assistant(strings.Repeat("a ", 2000)))
		}
		large := []any{&aycoder.ContextTooLargeError{ModelError: base("too large")}}
		busy := []any{&aycoder.RateLimitError{ModelError: base("busy")}}
		m := &fake{turns: [][]any{large, large, large, busy, busy, say("done")}}
		var res aycoder.Result
		_, err := collect(newLoop(t, m, aycoder.WithRetry(aycoder.RetryPolicy{Attempts: 2})).
			Run(t.Context(), aycoder.Input{Messages: history, Prompt: "go"}, aycoder.Into(&res)))
		require.NoError(t, err)
		require.Equal(t, "done", res.Text())
	})
}

// A client that does not say that its retry discards something is corrected, since the consumer has that.
func TestRetryDiscards(t *testing.T) {
	retry, whole := &aycoder.Retrying{}, &aycoder.TextDelta{Text: "whole"}
	for _, tt := range []struct {
		name   string
		events []any
		want   []bool // Discarded of each retry
	}{
		{"text", []any{&aycoder.TextDelta{Text: "half"}, retry}, []bool{true}},
		{"thinking", []any{&aycoder.ThinkingDelta{Text: "half"}, retry}, []bool{true}},
		{"the begin of a call", []any{&aycoder.ToolDelta{ID: "1", Name: "read", Args: "{"}, retry}, []bool{true}},
		{"nothing", []any{retry}, []bool{false}},
		{"nothing, the second time", []any{&aycoder.ThinkingDelta{Text: "half"}, retry, retry}, []bool{true, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := append(tt.events, whole, &aycoder.BlockDone{Part: &aycoder.Text{Text: "whole"}}, &aycoder.MessageDone{Stop: aycoder.StopEndTurn})
			events, err := collect(newLoop(t, &fake{turns: [][]any{answer}}).Run(t.Context(), aycoder.Input{Prompt: "go"}))
			require.NoError(t, err)
			var got []bool
			for _, ev := range events {
				if r, ok := ev.(*aycoder.Retrying); ok {
					got = append(got, r.Discarded)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}
