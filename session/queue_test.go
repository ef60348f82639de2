package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A run option that fails leaves no result of another run.
func TestResultOfARunThatDoesNotBegin(t *testing.T) {
	s, err := session.New(t.Context(), journal.Memory(), agent(t, script.Say("hello")))
	require.NoError(t, err)
	res := aycoder.Result{End: aycoder.EndDone, Turns: 3}
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}, nil, aycoder.Into(&res)) {
		require.Error(t, err)
	}
	require.Equal(t, aycoder.Result{End: aycoder.EndFailed}, res)
}

// Messages that wait for a run keep their kind: a follow-up is sent when the run would otherwise end.
func TestFollowUpsWaitForTheEndOfTheNextRun(t *testing.T) {
	model := script.New(script.Say("to a"), script.Say("to b and c"))
	loop, err := aycoder.New(model)
	require.NoError(t, err)
	s, err := session.New(t.Context(), journal.Memory(), loop)
	require.NoError(t, err)
	require.NoError(t, s.Steer(t.Context(), "a"))
	require.NoError(t, s.FollowUp(t.Context(), "b"))
	require.NoError(t, s.FollowUp(t.Context(), "c"))
	for _, err := range s.Run(t.Context(), aycoder.Input{}) {
		require.NoError(t, err)
	}
	var texts []string
	for _, m := range s.View().Messages(s.Head()) {
		texts = append(texts, m.Text())
	}
	require.Equal(t, []string{"a", "to a", "b", "c", "to b and c"}, texts)
}

// A message that the host has put into its own control is not lost with a run that does not begin.
func TestControlOutlivesAFailedRun(t *testing.T) {
	s, err := session.New(t.Context(), journal.Memory(), agent(t, script.Say("hello")))
	require.NoError(t, err)
	control := new(aycoder.Control)
	control.Steer("one")
	control.Steer("two")
	var failed error
	for _, err := range s.Run(t.Context(), aycoder.Input{Results: []aycoder.CallResult{{}}}, aycoder.WithControl(control)) {
		failed = err
	}
	require.Error(t, failed)
	var texts []string
	for _, m := range control.Queued() {
		texts = append(texts, m.Text())
	}
	require.Equal(t, []string{"one", "two"}, texts)
}
