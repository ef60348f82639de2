package aycoder_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func TestWithProgress(t *testing.T) {
	var outer, inner []string
	report := func(to *[]string) func(aycoder.Progress) {
		return func(p aycoder.Progress) { *to = append(*to, p.Message) }
	}
	inv := aycoder.NewInvocation("1", "x", nil, report(&outer))
	inv.Run = "r"
	wrapped := inv.WithProgress(func(p aycoder.Progress) {
		report(&inner)(p)
		inv.Progress(aycoder.Progress{Message: "<" + p.Message + ">"})
	})
	wrapped.Progress(aycoder.Progress{Message: "a"})
	inv.Progress(aycoder.Progress{Message: "b"})
	require.Equal(t, "r", wrapped.Run)
	require.Equal(t, []string{"a"}, inner)
	require.Equal(t, []string{"<a>", "b"}, outer)
	aycoder.NewInvocation("1", "x", nil, nil).Progress(aycoder.Progress{})
}
