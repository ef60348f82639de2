package aycoder_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

type foreignError struct{ error }

func (e *foreignError) Unwrap() error { return e.error }

func TestErrorType(t *testing.T) {
	limit := &aycoder.RateLimitError{ModelError: &aycoder.ModelError{Err: errors.New("slow down")}}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("x"), ""},
		{context.Canceled, ""},
		{limit, "RateLimitError"},
		{fmt.Errorf("run: %w", &foreignError{limit}), "RateLimitError"},
		{errors.Join(errors.New("x"), fmt.Errorf("%w: %w", context.Canceled, limit)), "RateLimitError"},
		{&aycoder.ToolTimeoutError{ToolError: &aycoder.ToolError{Tool: "bash"}}, "ToolTimeoutError"},
		{(*aycoder.ModelError)(nil), "ModelError"},
	} {
		require.Equal(t, tt.want, aycoder.ErrorType(tt.err), "%v", tt.err)
	}
}
