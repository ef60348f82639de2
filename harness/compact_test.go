package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/providers/script"
)

// A hook refuses the compactions for which the user asks, in a run and between two runs, and the user reads why.
func TestPreCompactHook(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	model := script.New(script.Say("1"), script.Say("2"), script.Say("3"))
	dir := project(t, nil)
	rt := open(t, dir, harness.WithClient(model), harness.WithSettings(settings(t, func(c *config.Settings) {
		c.Hooks = []config.Hook{{Event: "PreCompact", Matcher: "manual", Command: "test -e fine || { echo not now >&2; exit 2; }"}}
	})))
	talk := []*aycoder.Message{aycoder.User("hello"), aycoder.Assistant("hello")}
	for range 30 {
		talk = append(talk, aycoder.User(strings.Repeat("words ", 100)), aycoder.Assistant(strings.Repeat("words ", 100)))
	}
	compact := func() (events []string) {
		in := aycoder.Input{Messages: talk, Prompt: "go on", Parts: []aycoder.Part{compaction.Command("")}}
		for ev, err := range rt.Run(t.Context(), in) {
			require.NoError(t, err)
			switch ev := ev.(type) {
			case *aycoder.Compacting, *aycoder.Compacted:
				events = append(events, fmt.Sprintf("%T", ev))
			case *aycoder.Notice:
				events = append(events, ev.Text)
			}
		}
		return events
	}
	require.Equal(t, []string{"the compaction is refused: not now"}, compact())
	same, _, err := rt.Compact(t.Context(), talk, "")
	require.ErrorAs(t, err, new(*hooks.StoppedError))
	require.Equal(t, talk, same)
	put(t, dir, "fine", "yes")
	require.Equal(t, []string{"*aycoder.Compacting", "*aycoder.Compacted"}, compact())
	short, _, err := rt.Compact(t.Context(), talk, "")
	require.NoError(t, err)
	require.Greater(t, len(short), len(talk), "there is a note")
}

// After a compaction, in a run or between two, the hooks of SessionStart run with the source compact, and the model reads what
// they say until the next one, as the form of the hooks has it.
func TestSessionStartAfterCompaction(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	model := script.New(script.Say("1"), script.Say("2"), script.Say("3"), script.Say("4"))
	dir := project(t, nil)
	rt := open(t, dir, harness.WithClient(model), harness.WithSettings(settings(t, func(c *config.Settings) {
		c.Hooks = []config.Hook{{Event: "SessionStart", Matcher: "compact", Command: "cat >>in; n=$(wc -l <in); echo >>in; echo REMEMBER $n"}}
	})))
	talk := []*aycoder.Message{aycoder.User("hello"), aycoder.Assistant("hello")}
	for range 30 {
		talk = append(talk, aycoder.User(strings.Repeat("words ", 100)), aycoder.Assistant(strings.Repeat("words ", 100)))
	}
	said := func(parts ...aycoder.Part) string {
		var res aycoder.Result
		for _, err := range rt.Run(t.Context(), aycoder.Input{Messages: talk, Prompt: "go on", Parts: parts}, aycoder.Into(&res)) {
			require.NoError(t, err)
		}
		talk = res.Messages
		reqs := model.Requests()
		return tail(reqs[len(reqs)-1])
	}
	require.NotContains(t, said(), "REMEMBER")
	require.Contains(t, said(compaction.Command("")), "<hook_context>\nREMEMBER 0\n</hook_context>")
	require.Contains(t, said(), "REMEMBER 0")
	for range 30 {
		talk = append(talk, aycoder.User(strings.Repeat("words ", 100)), aycoder.Assistant(strings.Repeat("words ", 100)))
	}
	var err error
	talk, _, err = rt.Compact(t.Context(), talk, "")
	require.NoError(t, err)
	require.Contains(t, said(), "REMEMBER 1")
	in, err := os.ReadFile(filepath.Join(dir, "in"))
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(in), `"source":"compact"`))
}
