package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// With a prompt, a pipe that brings nothing for three seconds is left alone. One that has brought a byte is read to
// its end, and without a prompt it is waited for.
func TestReadPiped(t *testing.T) {
	tests := []struct {
		name  string
		wait  time.Duration
		write func(w *io.PipeWriter)
		want  string
		err   error
		after time.Duration
	}{
		{"silent", stdinWait, func(*io.PipeWriter) {}, "", errSilent, stdinWait},
		{"a byte in time, the rest late", stdinWait, func(w *io.PipeWriter) {
			time.Sleep(stdinWait - 1)
			_, _ = io.WriteString(w, "a")
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, "b")
			w.Close()
		}, "ab", nil, stdinWait - 1 + time.Hour},
		{"the end in time", stdinWait, func(w *io.PipeWriter) { w.Close() }, "", nil, 0},
		{"waited for", 0, func(w *io.PipeWriter) {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, "late")
			w.Close()
		}, "late", nil, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				start := time.Now()
				go tt.write(w)
				got, err := readPiped(t.Context(), r, tt.wait)
				require.Equal(t, tt.err, err)
				require.Equal(t, tt.want, got)
				require.Equal(t, tt.after, time.Since(start))
				w.Close()
			})
		})
	}
}

func TestReadPipedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		r, w := io.Pipe()
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := readPiped(ctx, r, stdinWait)
		require.Equal(t, why, err)
		w.Close()
	})
	_, err := readPiped(t.Context(), strings.NewReader(strings.Repeat("x", maxStdin+1)), 0)
	require.ErrorContains(t, err, "larger than 4 MB")
}

// The program itself says that it leaves a silent pipe alone.
func TestSilentPipe(t *testing.T) {
	s := newService(t, says("Hello.", "end_turn"))
	cmd := program(t, s.env(), "-p", "hi")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	require.NoError(t, cmd.Wait(), errs.String())
	require.Equal(t, "Hello.\n", out.String())
	require.Equal(t, 1, strings.Count(errs.String(), "nothing came from standard input"))
}
