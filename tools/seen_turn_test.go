package tools_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

var allowed = aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
	return aycoder.Allow()
})

// The model has not seen what the other calls of its message read. So a file that it writes in the same
// message keeps the lines that the user has added since the model last saw it.
func TestReadAndWriteInOneMessage(t *testing.T) {
	read := func() script.Step { return script.Call("read_file", map[string]any{"path": "a"}) }
	write := func(text string) script.Step {
		return script.Call("write_file", map[string]any{"path": "a", "content": text})
	}
	for name, tt := range map[string]struct {
		first, second func(save func(string)) script.Step
		want          string
		refused       bool
	}{
		"read and write": {
			func(func(string)) script.Step { return read() },
			func(save func(string)) script.Step {
				save("one\ntwo\nthree\nuser\n")
				return script.Reply(read(), write("ONE\ntwo\nthree\n"))
			}, "ONE\ntwo\nthree\nuser\n", false,
		},
		"never seen before": {
			func(save func(string)) script.Step {
				return script.Reply(read(), write("ONE\n"))
			},
			func(func(string)) script.Step { return script.Say("ok") }, "one\ntwo\nthree\n", true,
		},
		"search and write": {
			func(func(string)) script.Step { return read() },
			func(save func(string)) script.Step {
				save("one\ntwo\nthree\nuser\n")
				return script.Reply(script.Call("code_search", map[string]any{"pattern": "user"}), write("ONE\ntwo\nthree\n"))
			}, "ONE\ntwo\nthree\nuser\n", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			save := func(text string) { require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o600)) }
			save("one\ntwo\nthree\n")
			ws, err := workspace.Open(dir)
			require.NoError(t, err)
			list, err := tools.Coding(ws)
			require.NoError(t, err)
			n := 0
			step := script.Func(func(*aycoder.Request) script.Step {
				switch n++; n {
				case 1:
					return tt.first(save)
				case 2:
					return tt.second(save)
				}
				return script.Say("done")
			})
			l, err := aycoder.New(script.New(step).With(script.WithLoop(true)), aycoder.WithTools(list...), aycoder.WithApprover(allowed))
			require.NoError(t, err)
			refused := false
			for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
				if e, ok := ev.(*aycoder.ToolFinished); ok && e.Call.Name == "write_file" {
					refused = e.Output.IsError
				}
			}
			data, err := os.ReadFile(filepath.Join(dir, "a"))
			require.NoError(t, err)
			require.Equal(t, tt.want, string(data))
			require.Equal(t, tt.refused, refused)
		})
	}
}

// Of two different readings in one message, nobody knows which one the model goes by.
func TestTwoReadingsInOneMessage(t *testing.T) {
	var s workspace.SeenFiles
	call := func(turn int) workspace.SeenBy {
		inv := &aycoder.Invocation{Place: aycoder.Place{Run: "r"}, Key: fmt.Sprintf("t%d/tool/x", turn)}
		return s.For(workspace.WithCall(t.Context(), inv))
	}
	call(1).Add("a", "old\n")
	require.Empty(t, call(1).Hash("a"))
	require.Empty(t, call(1).Contents("a"))
	require.NotEmpty(t, call(2).Hash("a"))
	call(2).Add("a", "new\n")
	call(2).Add("a", "old\n")
	call(2).Add("a", "old\n")
	require.Equal(t, []string{"old\n"}, call(2).Contents("a"))
	require.Empty(t, call(3).Hash("a"))
	require.Equal(t, []string{"old\n", "new\n"}, call(3).Contents("a"))
	call(3).Add("a", "new\n")
	require.Empty(t, call(3).Hash("a"))
	require.NotEmpty(t, call(4).Hash("a"))
	s.Add("a", "host\n") // the host has put it into the prompt
	require.NotEmpty(t, call(4).Hash("a"))
	require.Equal(t, "host\n", call(4).Contents("a")[0])
}
