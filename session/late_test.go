package session_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// brokenStore fails to create sessions as long as it has an error.
type brokenStore struct {
	journal.Store
	err error
}

func (s *brokenStore) Create(ctx context.Context, id string) (journal.Journal, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.Store.Create(ctx, id)
}

func lateSession(t *testing.T, store journal.Store, opts ...session.Option) *session.Session {
	t.Helper()
	loop, err := aycoder.New(script.New(script.Say("Hello.")).With(script.WithLoop(true)))
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, loop, append(opts, session.WithLateCreate())...)
	require.NoError(t, err)
	return s
}

// runOnce returns the error of a run.
func runOnce(t *testing.T, s *session.Session, prompt string) error {
	t.Helper()
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: prompt}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// A session in which nothing is said leaves nothing, whatever is set in it, and whether it is closed or not.
func TestLateCreateLeavesNothing(t *testing.T) {
	for name, do := range map[string]func(s *session.Session) error{
		"nothing": func(*session.Session) error { return nil },
		"title":   func(s *session.Session) error { return s.SetTitle(t.Context(), "A title") },
		"label":   func(s *session.Session) error { return s.SetLabel(t.Context(), session.Root, "begin") },
		"clear": func(s *session.Session) error {
			_, err := s.Checkout(t.Context(), session.Root, session.OnlyConversation())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := journal.Dir(dir)
			require.NoError(t, err)
			s := lateSession(t, store)
			require.NoError(t, do(s))
			require.Empty(t, namesIn(t, dir), "before it is closed")
			require.NoError(t, s.Close())
			require.Empty(t, namesIn(t, dir))
		})
	}
}

// A title that was set before the first message is in the session when it is opened again, and so is every message.
func TestLateCreateBegins(t *testing.T) {
	dir := t.TempDir()
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	s := lateSession(t, store)
	require.NoError(t, s.SetTitle(t.Context(), "A title"))
	require.NoError(t, runOnce(t, s, "Good morning."))
	require.NoError(t, runOnce(t, s, "And again."))
	require.Contains(t, namesIn(t, dir), s.ID())
	list, err := session.List(t.Context(), store, nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "A title", list[0].Title)
	require.NoError(t, s.Close())

	loop, err := aycoder.New(script.New(script.Say("Hello.")))
	require.NoError(t, err)
	again, err := session.Open(t.Context(), store, s.ID(), loop)
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, "A title", again.View().Title())
	var texts []string
	for _, m := range again.View().Messages(again.Head()) {
		texts = append(texts, m.Text())
	}
	require.Equal(t, []string{"Good morning.", "Hello.", "And again.", "Hello."}, texts)
	require.Empty(t, again.Damage())
}

// If the store cannot create the session, the run ends with that error, and the next one works once the store does.
func TestLateCreateFails(t *testing.T) {
	dir := t.TempDir()
	kept, err := journal.Dir(dir)
	require.NoError(t, err)
	full := errors.New("the disk is full")
	store := &brokenStore{Store: kept, err: full}
	s := lateSession(t, store)
	defer s.Close()
	require.ErrorIs(t, runOnce(t, s, "lost?"), full)
	store.err = nil
	require.NoError(t, runOnce(t, s, "kept"))
	require.Contains(t, namesIn(t, dir), s.ID())

	memory := lateSession(t, &brokenStore{Store: kept, err: full}, session.WithoutStopping())
	defer memory.Close()
	require.NoError(t, runOnce(t, memory, "in memory"))
	require.ErrorIs(t, memory.Err(), full)
}

// A fork is created when it takes over the messages.
func TestLateFork(t *testing.T) {
	dir := t.TempDir()
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	s := lateSession(t, store)
	defer s.Close()
	require.NoError(t, runOnce(t, s, "Good morning."))
	f, err := s.Fork(t.Context(), s.Head(), session.WithLateCreate())
	require.NoError(t, err)
	defer f.Close()
	require.Contains(t, namesIn(t, dir), f.ID())
	require.Len(t, f.View().Messages(f.Head()), 2)
}

// secondFails is a store whose journals fail to append for the second time.
type secondFails struct{ journal.Store }

type secondFailing struct {
	journal.Journal
	appended bool
}

func (s secondFails) Create(ctx context.Context, id string) (journal.Journal, error) {
	j, err := s.Store.Create(ctx, id)
	return &secondFailing{Journal: j}, err
}

func (j *secondFailing) Append(ctx context.Context, durable bool, records ...[]byte) error {
	if j.appended {
		return errors.New("full")
	}
	j.appended = true
	return j.Journal.Append(ctx, durable, records...)
}

// A session that could not be made leaves nothing, also if a part of it is in the store by then.
func TestLateImportLeavesNothing(t *testing.T) {
	kept, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	s := lateSession(t, kept)
	require.NoError(t, runOnce(t, s, "hi"))
	var doc bytes.Buffer
	require.NoError(t, s.View().WriteJSON(&doc))
	require.NoError(t, s.Close())
	dir := t.TempDir()
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	_, err = session.Import(t.Context(), secondFails{store}, saysNothing{}, &doc, session.WithLateCreate())
	require.ErrorContains(t, err, "full")
	list, err := session.List(t.Context(), store, nil)
	require.NoError(t, err)
	require.Empty(t, list)
}

// A session in which nothing was said cannot become smaller.
func TestLateTrim(t *testing.T) {
	dir := t.TempDir()
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	s := lateSession(t, store)
	require.NoError(t, s.Trim(t.Context()))
	require.NoError(t, s.Close())
	require.Empty(t, namesIn(t, dir))
}

// saysNothing is an agent that tells of no facts.
type saysNothing struct{}

func (saysNothing) Run(_ context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(func(aycoder.Event, error) bool) {
		var rc aycoder.RunConfig
		for _, o := range opts {
			_ = o(&rc)
		}
		*rc.Into = aycoder.Result{End: aycoder.EndDone, Messages: append(in.Messages, aycoder.User(in.Prompt))}
	}
}

// A run that cannot be stored at its end is not lost without an error.
func TestLateCreateOfWholeRun(t *testing.T) {
	kept, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	full := errors.New("full")
	s, err := session.New(t.Context(), &brokenStore{kept, full}, saysNothing{}, session.WithLateCreate())
	require.NoError(t, err)
	require.NoError(t, runOnce(t, s, "first"))
	require.ErrorIs(t, s.Err(), full)
	require.ErrorIs(t, runOnce(t, s, "second"), full)
	require.NoError(t, s.Close())
}
