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
	t.Parallel()
	const early = stdinWait - 1
	tests := []struct {
		name  string
		wait  time.Duration
		write []string // what comes, each an hour after the one before, but the first one before the wait is over
		want  string
		err   error
		after time.Duration
	}{
		{"silent", stdinWait, nil, "", errSilent, stdinWait},
		{"a byte in time, the rest late", stdinWait, []string{"a", "b"}, "ab", nil, early + time.Hour},
		{"the end in time", stdinWait, []string{""}, "", nil, early},
		{"waited for", 0, []string{"", "late"}, "late", nil, early + time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				start := time.Now()
				for i, text := range tt.write {
					time.AfterFunc(early+time.Duration(i)*time.Hour, func() {
						_, _ = io.WriteString(w, text)
						if i == len(tt.write)-1 {
							w.Close()
						}
					})
				}
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
	t.Parallel()
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
	t.Parallel()
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
