package tty_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// next returns the key that comes next, and the time it took.
func next(in *tty.Input) (string, time.Duration) {
	start := time.Now()
	k := <-in.Keys()
	return k.String(), k.At.Sub(start)
}

func TestInput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		in := tty.NewInput(r, false)
		types := func(keys string) {
			_, err := io.WriteString(w, keys)
			require.NoError(t, err)
		}
		go types("a")
		name, took := next(in)
		require.Equal(t, "a", name)
		require.Zero(t, took)

		go types("\x1b")
		name, took = next(in)
		require.Equal(t, "esc", name)
		require.Equal(t, 50*time.Millisecond, took)

		go func() {
			types("\x1b")
			time.Sleep(49 * time.Millisecond)
			types("[")
			time.Sleep(400 * time.Millisecond)
			types("A")
		}()
		name, took = next(in)
		require.Equal(t, "up", name)
		require.Equal(t, 449*time.Millisecond, took)

		go func() {
			types("\x1b[1;")
			time.Sleep(time.Second)
			types("x")
		}()
		name, _ = next(in)
		require.Equal(t, "x", name)

		// A paste without brackets ends when nothing follows.
		go func() {
			types("one\rtwo\r")
			time.Sleep(49 * time.Millisecond)
			types("three")
		}()
		start := time.Now()
		k := <-in.Keys()
		require.Equal(t, tty.Key{Name: tty.Paste, Text: "one\ntwo\nthree", At: start.Add(99 * time.Millisecond)}, k)

		// Text that comes at once behind a paste is a part of it if another end follows.
		go func() {
			types("\x1b[200~one\x1b[201~\r!two\r")
			time.Sleep(9 * time.Millisecond)
			types("\x1b[201~")
			time.Sleep(time.Second)
			types("\x1b[200~three\x1b[201~\r")
		}()
		for _, want := range []string{"one", "\n!two\n", "three"} {
			k := <-in.Keys()
			require.Equal(t, []string{tty.Paste, want}, []string{k.Name, k.Text})
		}
		require.Equal(t, tty.Enter, (<-in.Keys()).Name)

		// The mark of a second paste may come in two parts.
		go func() {
			types("\x1b[200~one\x1b[201~\x1b[20")
			time.Sleep(50 * time.Millisecond)
			types("0~two\rthree\x1b[201~")
		}()
		for _, want := range []string{"one", "two\nthree"} {
			k := <-in.Keys()
			require.Equal(t, []string{tty.Paste, want}, []string{k.Name, k.Text})
		}

		// Keys have the time of their read, whenever they are received.
		start = time.Now()
		types("yn")
		time.Sleep(time.Minute)
		types("\x1b[200~half")
		time.Sleep(time.Minute)
		for _, want := range "yn" {
			k := <-in.Keys()
			require.Equal(t, tty.Key{Rune: want, At: start, Read: 2}, k)
		}
		w.CloseWithError(errors.New("gone"))
		k = <-in.Keys()
		require.Equal(t, "half", k.Text)
		_, ok := <-in.Keys()
		require.False(t, ok)
		require.EqualError(t, in.Err(), "gone")
		in.Close()
	})
}

func TestInputOfLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := tty.NewInput(strings.NewReader("y\n"), true)
		name, _ := next(in)
		require.Equal(t, "y", name)
		name, _ = next(in)
		require.Equal(t, "enter", name)
		_, ok := <-in.Keys()
		require.False(t, ok)
		require.NoError(t, in.Err())
		require.NoError(t, in.Half())
	})
}

// An Input that nobody receives from reads ahead, but not everything, and can be closed.
func TestInputReadsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		in := tty.NewInput(r, false)
		n := 0
		go func() {
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 100)); err != nil {
					return
				}
				n += 100
			}
		}()
		synctest.Wait()
		require.Greater(t, n, 4000)
		require.Less(t, n, 5000)
		in.Close()
		r.Close()
	})
}
