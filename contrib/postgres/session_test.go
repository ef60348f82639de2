package postgres

import (
	"errors"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A conversation goes on at another host, and is found by its words there.
func TestSession(t *testing.T) {
	dir, ctx := tempDir(t), t.Context()
	one, two := openStore(t, dir), openStore(t, dir)
	loop, err := aycoder.New(script.New(script.Say("Use a map."), script.Say("Sort it first.")))
	must(t, err)
	ask := func(s *session.Session, prompt string) {
		for _, err := range s.Run(ctx, aycoder.Input{Prompt: prompt}) {
			must(t, err)
		}
	}
	s, err := session.New(ctx, one, loop)
	must(t, err)
	ask(s, "How do I find duplicates?")
	_, err = session.Open(ctx, two, s.ID(), loop)
	if _, busy := errors.AsType[*journal.BusyError](err); !busy {
		t.Errorf("open beside a writer: error %v", err)
	}
	must(t, s.Close())
	s, err = session.Open(ctx, two, s.ID(), loop)
	must(t, err)
	ask(s, "Without a map.")
	must(t, s.Close())
	messages := s.View().Messages(s.Head())
	if len(messages) != 4 || messages[3].Text() != "Sort it first." {
		t.Errorf("%d messages", len(messages))
	}
	hits, err := session.Find(ctx, one, "sort first", 0)
	if err != nil || len(hits) != 1 || hits[0].Excerpt != "Sort it first." {
		t.Errorf("hits %v, error %v", hits, err)
	}
	list, err := one.Search(ctx, Search{Text: "duplic"})
	if err != nil || len(list) != 1 || list[0].ID != s.ID() || list[0].Nodes != 5 {
		t.Errorf("entries %v, error %v", list, err)
	}
}
