package session_test

import (
	"context"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// The facts of a run come back in their order, also those of a second run and of a run that another process continues.
func TestFacts(t *testing.T) {
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	tool, err := aycoder.NewTool("look", "Looks.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("seen"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	loop, err := aycoder.New(script.New(script.Reply(script.Say("I look."), script.Call("look", `{}`)), script.Say("Done."), script.Say("Again.")),
		aycoder.WithTools(tool))
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, loop, session.WithID("chosen"))
	require.NoError(t, err)
	require.Equal(t, "chosen", s.ID())
	told := map[string][]string{}
	var runs []string
	for range 2 {
		record := aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
			if rec.Fact == nil {
				runs = append(runs, rec.Run)
			} else {
				told[rec.Run] = append(told[rec.Run], factOf(t, rec.Fact))
			}
			return nil
		})
		for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}, record) {
			require.NoError(t, err)
		}
	}
	require.Len(t, runs, 2)
	for _, run := range runs {
		var got []string
		for rec, err := range session.Facts(t.Context(), store, "chosen", run) {
			require.NoError(t, err)
			require.Equal(t, run, rec.Run)
			got = append(got, factOf(t, rec.Fact))
		}
		require.Equal(t, told[run], got)
		require.NotEmpty(t, got)
	}
	for range session.Facts(t.Context(), store, "chosen", "other") {
		t.Fatal("there is no such run")
	}
	for _, err := range session.Facts(t.Context(), store, "none", runs[0]) {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	_, err = session.New(t.Context(), store, loop, session.WithID("chosen"))
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = session.New(t.Context(), store, loop, session.WithID("../x"))
	require.Error(t, err)
	require.NoError(t, s.Close())
}

func factOf(t *testing.T, f aycoder.Fact) string {
	data, err := aycoder.FactRecord{Fact: f}.MarshalJSON()
	require.NoError(t, err)
	return string(data)
}
