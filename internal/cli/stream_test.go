package cli

import (
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
)

// streamVar makes the test binary a program that streams the file of streamFile to its terminal, in one of some ways.
const (
	streamVar  = "AYCODER_TEST_STREAM"
	streamFile = "AYCODER_TEST_STREAM_FILE"
)

// stream writes a text in pieces of 20 bytes: raw, or as an answer of a model above the status area.
func stream(way string) error {
	text, err := os.ReadFile(os.Getenv(streamFile))
	if err != nil {
		return err
	}
	state, err := term.MakeRaw(0)
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(0, state) }()
	switch way {
	case "nothing":
		text = nil
	case "answer":
		s, keys, err := tty.Open(os.Stdin, os.Stdout, tty.Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		u := &ui{view: newView(&paper{Screen: s}, false), keys: keys, editor: line.New(line.Options{Prompt: "› "}), working: true}
		u.answers(text)
		return nil
	}
	for piece := range slices.Chunk(text, 20) {
		_, _ = os.Stdout.Write(piece)
	}
	return nil
}

// answers shows an answer as a chat does.
func (u *ui) answers(text []byte) {
	steps, next := stepping(func(yield func(aycoder.Event, error) bool) {
		for piece := range slices.Chunk(text, 20) {
			yield(&aycoder.TextDelta{Text: string(piece)}, nil)
		}
	})
	u.begin()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for h := u.wait(steps, nil, tick.C); !h.done; h = u.wait(steps, nil, tick.C) {
		if h.step != nil {
			u.event(h.step.ev)
			next <- struct{}{}
		}
	}
	u.saidAll()
}
