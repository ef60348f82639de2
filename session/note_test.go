package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A run that ends in any way after its summary is paid for, and before the model has answered, leaves the
// summary to the next run: in the same process, in another one, and after a crash.
func TestSummaryOfAnEndedRun(t *testing.T) {
	for _, way := range []string{"break", "cancel", "kill"} {
		for _, outlines := range []bool{false, true} {
			t.Run(fmt.Sprint(way, outlines), func(t *testing.T) {
				dir, killed, asked := t.TempDir(), "", 0
				m := script.New(script.Say("ok")).With(script.WithLoop(true))
				writer := script.New(script.Func(func(*aycoder.Request) script.Step {
					asked++
					return script.Say("A summary.")
				})).With(script.WithLoop(true))
				process := func(dir, id string) *session.Session {
					keep, err := compaction.New(m, compaction.WithWindow(8_000), compaction.WithFill(0.3), compaction.WithSummarizer(writer, ""))
					require.NoError(t, err)
					loop, err := aycoder.New(m, aycoder.WithContextMiddleware(keep.Middleware))
					require.NoError(t, err)
					store, err := journal.Dir(dir)
					require.NoError(t, err)
					var opts []session.Option
					if outlines {
						opts = append(opts, session.WithCompactor(keep))
					}
					var s *session.Session
					if id == "" {
						s, err = session.New(t.Context(), store, loop, opts...)
					} else {
						s, err = session.Open(t.Context(), store, id, loop, opts...)
					}
					require.NoError(t, err)
					return s
				}
				s := process(dir, "")
				run := func(s *session.Session, prompt string) (compacted bool) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					for ev, err := range s.Run(ctx, aycoder.Input{Prompt: prompt}) {
						if c, ok := ev.(*aycoder.Compacted); ok {
							require.Equal(t, 1, asked, "the summary was paid for twice")
							require.False(t, compacted)
							compacted = c.Replaced > 0
						}
						switch {
						case compacted && way == "break":
							return true
						case compacted && way == "cancel":
							cancel()
						case compacted && way == "kill" && killed == "":
							killed = t.TempDir()
							require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
						case !compacted:
							require.NoError(t, err)
						}
					}
					return compacted
				}
				for n := 0; !run(s, fmt.Sprint("prompt ", n, strings.Repeat(" and the rest of it", 200))); n++ {
					require.Less(t, n, 100)
				}
				require.False(t, run(s, "go on"))
				require.NoError(t, s.Close())
				if way == "kill" {
					dir = killed
				}
				next := process(dir, s.ID())
				require.False(t, run(next, "go on"))
				require.NoError(t, next.Close())
				require.Equal(t, 1, asked)
			})
		}
	}
}

// outlined returns a session on disk whose runs begin with outlines, in a new process with the agent that a
// function makes.
func outlined(t *testing.T, next func(m aycoder.ModelClient, keep *compaction.Compactor) aycoder.Agent) *session.Session {
	m := script.New(script.Call("look", map[string]any{}), script.Say("It is a secret.")).With(script.WithLoop(true))
	look := looker(t, 2_000)
	keep, err := compaction.New(m, compaction.WithWindow(3_000), compaction.WithFill(0.2))
	require.NoError(t, err)
	loop, err := aycoder.New(m, aycoder.WithTools(look), aycoder.WithContextMiddleware(keep.Middleware))
	require.NoError(t, err)
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	s := inNextProcess(t, store, nil, loop, keep)
	for n := range 8 {
		say(t, s, n)
	}
	return inNextProcess(t, store, s, next(m, keep), keep)
}

// An agent without the compactor does not send outlines: its run fails before the request.
func TestOutlinesAreNotSent(t *testing.T) {
	asked := 0
	s := outlined(t, func(aycoder.ModelClient, *compaction.Compactor) aycoder.Agent {
		loop, err := aycoder.New(script.New(script.Func(func(*aycoder.Request) script.Step {
			asked++
			return script.Say("ok")
		})).With(script.WithLoop(true)))
		require.NoError(t, err)
		return loop
	})
	var res aycoder.Result
	var failed error
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go on"}, aycoder.Into(&res)) {
		failed = err
	}
	require.Zero(t, asked)
	require.ErrorAs(t, failed, new(*aycoder.ContextError))
	require.ErrorContains(t, failed, "WithCompactor")
	data, err := json.Marshal(res.Messages) // as a host stores them
	require.NoError(t, err)
	var stored []*aycoder.Message
	require.NoError(t, json.Unmarshal(data, &stored))
	loop, err := aycoder.New(script.New(script.Say("ok")))
	require.NoError(t, err)
	for _, err := range loop.Run(t.Context(), aycoder.Input{Messages: stored, Prompt: "go on"}) {
		require.ErrorAs(t, err, new(*aycoder.ContextError))
	}
	for n := range s.View().Len() {
		if m := s.View().Node(session.ID(n)).Message(); m != nil {
			require.NotContains(t, encodedAll(t, []*aycoder.Message{m})[0], "outline")
		}
	}
	require.NoError(t, s.Close())
}

// The messages of a run inside of another one are not taken for outlines of the messages around it.
func TestNestedRunsHaveNoOriginals(t *testing.T) {
	nested := 0
	s := outlined(t, func(m aycoder.ModelClient, keep *compaction.Compactor) aycoder.Agent {
		var inner aycoder.Agent
		check := func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
			return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
				for i, m := range in.Messages {
					whole, err := original.Message(ctx, i, m)
					require.NoError(t, err)
					require.Same(t, m, whole)
					nested++
				}
				return next.Build(ctx, in)
			})
		}
		outer, err := aycoder.NewTool("look", "Looks.", func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
			messages := []*aycoder.Message{aycoder.User("prompt 0")}
			for i := 1; i < 32; i++ { // calls with the ids of the outer run, but other outputs
				use := &aycoder.ToolUse{ID: fmt.Sprint("call_", i), Name: "look", Args: []byte("{}")}
				out := &aycoder.ToolOutput{ID: use.ID, Name: "look"}
				messages = append(messages, &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{use}},
					&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{out}}, aycoder.Assistant("ok"), aycoder.User("[this message is left out]"))
			}
			for _, err := range inner.Run(ctx, aycoder.Input{Messages: messages}, aycoder.WithParent(inv)) {
				require.NoError(t, err)
			}
			return aycoder.TextResult("ok"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		inner, err = aycoder.New(script.New(script.Say("ok")).With(script.WithLoop(true)), aycoder.WithContextMiddleware(check))
		require.NoError(t, err)
		loop, err := aycoder.New(m, aycoder.WithTools(outer), aycoder.WithContextMiddleware(keep.Middleware))
		require.NoError(t, err)
		return loop
	})
	say(t, s, 9)
	require.Positive(t, nested)
	require.NoError(t, s.Close())
}
