package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

// A question of the model goes to the user, and the model reads the answer.
func TestQuestions(t *testing.T) {
	t.Parallel()
	few := map[string]any{"question": "Which\x1b[2J one?", "options": []string{"the red", "the blue\x1b[2J"}}
	many := map[string]any{"question": "Which ones?", "options": []string{"a", "b", "c"}, "multiple": true}
	open := map[string]any{"question": "What name?"}
	for _, tt := range []struct {
		name  string
		args  map[string]any
		lines string
		want  string
		shown []string
	}{
		{"an option", few, "2\n", "The user chose: the blue", []string{"question", "from the model", "one?", "1  the red", "2  the blue", "Your answer?", "1/2/t/n"}},
		{"other words", few, "t\nneither of them\n", "The user says: neither of them", nil},
		{"a number among words", few, "t\n1 2\n", "The user says: 1 2", nil}, // it asks for one
		{"its number typed", few, "t\n1\n", "The user chose: the red", nil},
		{"several", many, "t\n1, 3 1\n", "The user chose: a\nThe user chose: c\n", []string{"t/n"}},
		{"no such number", many, "t\n4\n", "The user says: 4", nil},
		{"none", open, "n\n", "the user gave no answer", nil},
		{"back to the question", open, "t\n\nt\nAda\n", "The user says: Ada", []string{"Your answer?", "Your answer?"}},
		{"anything else asks again", open, "Bob\n\nn\n", "the user gave no answer", []string{"Please answer with one of t, n, no"}},
		{"gone", open, "", "nobody is there to answer", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			asks := newAsks()
			read := ""
			steps := []script.Step{script.Call("ask_user", tt.args), script.Func(func(req *aycoder.Request) script.Step {
				for _, m := range req.Messages {
					for _, p := range m.Parts {
						if out, ok := p.(*aycoder.ToolOutput); ok {
							read = out.Text()
						}
					}
				}
				return script.Say("Well.")
			})}
			rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New(steps...)), asks.questions(),
				harness.WithStore(journal.Memory(), ""))
			require.NoError(t, err)
			defer func() { require.NoError(t, rt.Close()) }()
			s := newStage("go\n" + tt.lines)
			c := newTestChat(t, s, s, tty.Options{Plain: true}, &chat{session: &session{Runtime: rt}, asks: asks})
			require.Equal(t, exitOK, c.run(t.Context(), ""))
			require.NoError(t, c.Screen.Close())
			require.Contains(t, read, tt.want)
			inOrder(t, s.out, tt.shown...)
			require.NotContains(t, s.out, "\x1b[2J")
		})
	}
}
