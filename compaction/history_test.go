package compaction_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
)

// A note does not count in a history from which a host has removed messages, or to which it added some: it
// would leave out others than those that its summary has.
func TestNoteOfAnotherHistory(t *testing.T) {
	for name, change := range map[string]func([]*aycoder.Message) []*aycoder.Message{
		"removed": func(m []*aycoder.Message) []*aycoder.Message { return slices.Concat(m[:1], m[3:]) },
		"added": func(m []*aycoder.Message) []*aycoder.Message {
			return slices.Concat(m[:1], []*aycoder.Message{aycoder.User("added")}, m[1:])
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := worker(32_000, 5)
			c := newChat(t, m, compaction.WithWindow(32_000))
			for i := 0; len(c.events) == 0 || c.events[len(c.events)-1].Replaced == 0; i++ {
				require.NoError(t, c.ask(fmt.Sprint("prompt ", i)))
			}
			again := newChat(t, m, compaction.WithWindow(400_000))
			again.messages = change(c.messages)
			require.NoError(t, aycoder.CheckHistory(again.messages))
			m.window = 400_000
			require.NoError(t, again.ask("go on"))
			require.Len(t, m.last.Messages, len(again.messages)-1)
		})
	}
}

// The messages that a note keeps must be prompts, each of them once and in their order.
func TestForgedNotes(t *testing.T) {
	for name, kept := range map[string]string{
		"good": "[2]", "twice": "[2,2]", "order": "[4,2]", "answer": "[1]", "outputs": "[6]", "mark": "[7]", "after": "[8]", "before": "[-1]", "far": "[99]",
	} {
		t.Run(name, func(t *testing.T) {
			m := worker(400_000, 0)
			keep, err := compaction.New(m)
			require.NoError(t, err)
			loop, err := aycoder.New(m, aycoder.WithContextMiddleware(keep.Middleware))
			require.NoError(t, err)
			mark := &aycoder.Opaque{Provider: "aycoder", Raw: fmt.Appendf(nil, `{"note":{"v":1,"at":9,"from":8,"summary":"s","kept":%s}}`, kept)}
			use, out := &aycoder.ToolUse{ID: "1", Name: "look", Args: []byte("{}")}, &aycoder.ToolOutput{ID: "1", Name: "look"}
			of := func(r aycoder.Role, p aycoder.Part) *aycoder.Message {
				return &aycoder.Message{Role: r, Parts: []aycoder.Part{p}}
			}
			messages := []*aycoder.Message{aycoder.User("0"), aycoder.Assistant("1"), aycoder.User("2"), aycoder.Assistant("3"), aycoder.User("4"),
				of(aycoder.RoleAssistant, use), of(aycoder.RoleUser, out), of(aycoder.RoleUser, mark), aycoder.User("8"),
				{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "9"}, mark}}}
			needed, err := keep.Needed(len(messages), func(i int) (*aycoder.Message, error) { return messages[i], nil })
			require.NoError(t, err)
			for _, err := range loop.Run(t.Context(), aycoder.Input{Messages: messages, Prompt: "go on"}) {
				require.NoError(t, err)
			}
			var texts strings.Builder
			for _, sent := range m.last.Messages {
				if text := sent.Text(); text != "" && len(text) < 10 {
					texts.WriteString(text + " ")
				}
			}
			want := "0 1 2 3 4 8 9 go on " // all of them
			if name == "good" {
				want = "0 2 8 9 go on "
			}
			require.Equal(t, want, texts.String())
			require.Equal(t, name != "good", needed(4))
		})
	}
}

// A host may put instructions before a conversation that was compacted, more than the conversation had messages then.
func TestInstructionsBeforeANote(t *testing.T) {
	m := serving{script.New(script.Say("4"))}
	keep, err := compaction.New(m, compaction.WithWindow(400_000), compaction.WithServer(true))
	require.NoError(t, err)
	loop, err := aycoder.New(m, aycoder.WithContextMiddleware(keep.Middleware))
	require.NoError(t, err)
	mark := &aycoder.Opaque{Provider: "aycoder", Raw: []byte(`{"note":{"v":1,"at":3,"short":2,"each":1024}}`)}
	system := &aycoder.Message{Role: aycoder.RoleSystem, Parts: []aycoder.Part{&aycoder.Text{Text: "s"}}}
	messages := []*aycoder.Message{system, system, system, aycoder.User("0"), aycoder.Assistant("1"), aycoder.User("2"),
		{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "3"}, mark}}}
	for _, err := range loop.Run(t.Context(), aycoder.Input{Messages: messages, Prompt: "go on"}) {
		require.NoError(t, err)
	}
	require.Contains(t, text(m.Requests()[0].Messages), "go on")
}

// A message of the model without calls does not answer the request before it if another one follows: the service has paused,
// or the stream broke off.
func TestRequestAfterAPause(t *testing.T) {
	keep, err := compaction.New(script.New(), compaction.WithWindow(4_000))
	require.NoError(t, err)
	b := keep.Middleware(aycoder.ContextFunc(func(_ context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		return &aycoder.Request{Messages: in.Messages}, nil
	}))
	long := strings.Repeat("and so on ", 500)
	messages := []*aycoder.Message{aycoder.User("first"), aycoder.Assistant(long), aycoder.User("rename a to b"), aycoder.Assistant("I look at it.")}
	for i := range 5 {
		id := fmt.Sprint(i)
		messages = append(messages,
			&aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.ToolUse{ID: id, Name: "look", Args: []byte("{}")}}},
			&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.ToolOutput{ID: id, Name: "look", Parts: []aycoder.Part{&aycoder.Text{Text: long}}}}})
	}
	req, err := b.Build(t.Context(), aycoder.ContextInput{Run: "r", Messages: messages, Base: &aycoder.Request{}})
	require.NoError(t, err)
	require.Less(t, len(req.Messages), len(messages))
	require.True(t, slices.ContainsFunc(req.Messages, func(m *aycoder.Message) bool { return m.Text() == "rename a to b" }), "%s", text(req.Messages))
}

// A host may edit the history between two runs. The compactor forgets its form of the old one, and a summary
// of a text that is gone does not count.
func TestEditedHistory(t *testing.T) {
	timed.Serial(t)
	for _, place := range []string{"before the summary", "after it"} {
		for _, how := range []string{"copy", "in place", "other process"} {
			t.Run(place+", "+how, func(t *testing.T) {
				m := worker(32_000, 5)
				c := newChat(t, m, compaction.WithWindow(32_000))
				for i := 0; len(c.events) == 0 || c.events[len(c.events)-1].Replaced == 0; i++ {
					require.NoError(t, c.ask(fmt.Sprint("prompt ", i)))
				}
				m.window, m.step = 400_000, func(*aycoder.Request) script.Step { return script.Say("ok") }
				again := newChat(t, m, compaction.WithWindow(400_000))
				if how == "other process" {
					again.messages = c.messages
				} else { // the compactor knows the history
					messages := append(slices.Clip(c.messages), aycoder.User("go on"))
					for _, err := range again.agent.Run(t.Context(), aycoder.Input{Messages: messages}) {
						require.NoError(t, err)
					}
					again.messages = messages
				}
				require.NotContains(t, text(m.last.Messages), "an edit of the host")
				if how == "copy" {
					again.messages = slices.Clone(again.messages)
				}
				i := 3
				if place == "after it" {
					i = len(c.messages) - 1
				}
				edited := again.messages[i]
				require.Equal(t, aycoder.RoleAssistant, edited.Role)
				again.messages[i] = &aycoder.Message{Role: edited.Role, Parts: append([]aycoder.Part{&aycoder.Text{Text: "an edit of the host"}}, edited.Parts...)}
				for _, err := range again.agent.Run(t.Context(), aycoder.Input{Messages: append(slices.Clip(again.messages), aycoder.User("and on"))}) {
					require.NoError(t, err)
				}
				require.Contains(t, text(m.last.Messages), "an edit of the host")
			})
		}
	}
}
