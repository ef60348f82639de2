package tty_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/term"

	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/cli/ttytest"
	"github.com/aycoder/aycoder/internal/timed"
)

const writerVar = "AYCODER_TEST_WRITER"

// TestMain is a program that writes to its terminal, if the tests have started it.
func TestMain(m *testing.M) {
	if way := os.Getenv(writerVar); way != "" {
		if err := write(way); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const pieceSize = 20

// megabyte is text like an answer, with lines of prose and code.
func megabyte() string {
	const part = "The **parser** reads a line — and then the next one, until `EOF`.\n\n\tif err != nil {\n\t\treturn fmt.Errorf(\"read: %w\", err) // 理由\n\t}\n- an item with some more words in it\n"
	return strings.Repeat(part, 1<<20/len(part))
}

func write(way string) error {
	if way == "stops" {
		return stopAgain()
	}
	state, err := term.MakeRaw(0)
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(0, state) }()
	put := func(piece string) { _, _ = io.WriteString(os.Stdout, piece) }
	if way != "raw" {
		s, _, err := tty.Open(os.Stdin, os.Stdout, tty.Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		put = s.Print
		s.Status([]string{"a spinner", "> a prompt"}, tty.Cursor{Row: 1, Col: 2})
	}
	text := megabyte()
	if way == "nothing" {
		text = ""
	}
	for text != "" {
		n := min(pieceSize, len(text))
		put(text[:n])
		text = text[n:]
	}
	return nil
}

// cpu returns the processor time of the program, the least of some runs.
func cpu(t *testing.T, way string) time.Duration {
	t.Helper()
	best := time.Duration(0)
	for i := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerVar+"="+way, "TERM=xterm-256color")
		p := ttytest.Start(t, cmd, 80, 24)
		require.Zero(t, p.Wait())
		if used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); i == 0 || used < best {
			best = used
		}
	}
	return best
}

// A megabyte in pieces of 20 bytes costs at most three times the processor time of writing
// the same pieces to the same terminal.
func TestCostOfPrinting(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: the processor time of printing")
	}
	if timed.Reduced(t) {
		t.Skip("the race detector changes the processor time")
	}
	nothing := cpu(t, "nothing")
	raw, screen := cpu(t, "raw")-nothing, cpu(t, "screen")-nothing
	t.Logf("raw %v, screen %v, %.2f times, besides %v for a start", raw, screen, float64(screen)/float64(raw), nothing)
	timed.AtMost(t, screen, 3*raw, "to print")
}
