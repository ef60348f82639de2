package tty_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/cli/ttytest"
	"github.com/aycoder/aycoder/internal/timed"
)

// Half of a line can be read behind more keys than are read ahead, and comes behind them.
func TestHalfBehindManyKeys(t *testing.T) {
	t.Parallel()
	p := ttytest.Open(t, 80, 24)
	in := tty.NewInput(p.Slave, true)
	defer in.Close()
	var typed strings.Builder
	for i := range 60 {
		line := fmt.Sprintf("%s%03d\n", strings.Repeat("x", 96), i)
		typed.WriteString(line)
		p.Type(strings.TrimSuffix(line, "\n") + "\r")
		p.Until("the echo", func(e *ttytest.Emulator) bool { return strings.Contains(e.Text(), fmt.Sprintf("x%03d", i)) })
	}
	p.Type("half")
	typed.WriteString("half")
	p.Until("the echo", func(e *ttytest.Emulator) bool { return strings.Contains(e.Text(), "half") })

	var done atomic.Bool
	go func() {
		_ = in.Half()
		done.Store(true)
	}()
	timed.Until(t, done.Load, "half of a line")
	var got strings.Builder
	for got.Len() < typed.Len() {
		if k := <-in.Keys(); k.Name == tty.Enter {
			got.WriteByte('\n')
		} else {
			got.WriteRune(k.Rune)
		}
	}
	require.Equal(t, typed.String(), got.String())
}
