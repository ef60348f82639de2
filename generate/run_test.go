package generate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/providers/script"
)

// nativeTools is a scripted model that honours Request.Output beside tools.
type nativeTools struct{ native }

func (nativeTools) FormatsWithTools(model string) bool { return model != "old" }

type pathArgs struct {
	Path string `json:"path"`
}

// look is a tool that reads, and fails for the path "no".
func look(t testing.TB) aycoder.Tool {
	t.Helper()
	tool, err := aycoder.NewTool("look", "Looks.", func(_ context.Context, _ *aycoder.Invocation, in pathArgs) (*aycoder.ToolResult, error) {
		if in.Path == "no" {
			return nil, errors.New("no such file")
		}
		return aycoder.TextResult("seen " + in.Path), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	return tool
}

func newLoop(t testing.TB, m aycoder.ModelClient, opts ...aycoder.Option) *aycoder.Loop {
	t.Helper()
	l, err := aycoder.New(m, append([]aycoder.Option{aycoder.WithTools(look(t)), aycoder.WithStrictPrefix(true)}, opts...)...)
	require.NoError(t, err)
	return l
}

// An end is what came of a run.
type end struct {
	who    person
	res    aycoder.Result
	events []aycoder.Event
	err    error
}

func runs(t testing.TB, a aycoder.Agent, in aycoder.Input, opts ...generate.Option) (e end) {
	t.Helper()
	for ev, err := range generate.RunAs(t.Context(), a, in, &e.who, append(opts, generate.WithRun(aycoder.Into(&e.res)))...) {
		require.NoError(t, e.err, "the error comes last")
		if e.err = err; err == nil {
			e.events = append(e.events, ev)
		}
	}
	require.NoError(t, aycoder.CheckHistory(e.res.Messages))
	return e
}

var who = aycoder.Input{Prompt: "Who?"}

func TestRunAs(t *testing.T) {
	see, answer := script.Call("look", `{"path":"a"}`), script.Call("person", ada)
	fence := "```json\n" + ada + "\n```"
	tests := []struct {
		name   string
		steps  []script.Step
		turns  int // without and
		native int // with Request.Output beside tools
		misses int
	}{
		{"at once", []script.Step{answer, script.Say(ada)}, 1, 2, 0},
		{"after a tool", []script.Step{see, answer, script.Say(ada)}, 2, 3, 0},
		{"text", []script.Step{script.Say(ada)}, 1, 1, 0},
		{"fence", []script.Step{script.Say(fence)}, 1, 1, 0},
		{"words around, then a call", []script.Step{see, script.Say("Here: " + ada + "!"), answer}, 3, 2, 1},
		{"words, then words around", []script.Step{see, script.Say("Done."), script.Say("Here: " + ada + "!")}, 3, 3, 1},
		{"repaired", []script.Step{script.Call("person", noName), script.Say("I."), answer, script.Say(ada)}, 3, 4, 2},
		{"with another call", []script.Step{script.Reply(see, answer), script.Say(ada)}, 1, 2, 0},
		{"with a call that fails", []script.Step{script.Reply(script.Call("look", `{"path":"no"}`), answer), see, script.Say(ada)}, 3, 3, 0},
		{"with a call of an unknown tool", []script.Step{script.Reply(answer, script.Call("nope", nil)), script.Say(ada)}, 2, 2, 0},
		{"twice", []script.Step{script.Reply(answer, script.Call("person", `{"name":"Bob","age":1}`)), script.Say(ada)}, 1, 2, 0},
		{"twice, one wrong", []script.Step{script.Reply(script.Call("person", noName), answer), script.Say(ada)}, 2, 2, 0},
		{"empty", []script.Step{{}, {}, script.Say(ada)}, 3, 3, 2},
		{"thinking alone", []script.Step{script.Think("hm"), answer, script.Say(ada)}, 2, 3, 1},
		{"cut call", []script.Step{script.Cut("person", `{"name":"A`), answer, script.Say(ada)}, 2, 3, 1},
		{"cut text", []script.Step{script.Say(ada[:9]).WithStop(aycoder.StopMaxTokens), answer, script.Say(ada)}, 2, 3, 1},
		{"pause", []script.Step{script.Say("Searching").WithStop(aycoder.StopPaused), answer, script.Say(ada)}, 2, 3, 0},
		{"the same id again", []script.Step{script.Call("person", noName).WithID("x"), answer.WithID("x"), script.Say(ada)}, 2, 3, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, native := range []bool{false, true} {
				for i, s := range tt.steps {
					tt.steps[i] = s.WithUsage(aycoder.Usage{Input: 10, Output: 3})
				}
				m := script.New(tt.steps...)
				client, turns := aycoder.ModelClient(m), tt.turns
				if native {
					client, turns = wrapped{nativeTools{nativeOf(m)}}, tt.native
				}
				// In the native way, each call of the answer is one of a tool that was not offered.
				e := runs(t, newLoop(t, client), who, generate.WithRepairs(5))
				require.NoError(t, e.err)
				require.Equal(t, person{Name: "Ada", Age: 36}, e.who)
				assert.Equal(t, turns, e.res.Turns)
				assert.Equal(t, aycoder.EndDone, e.res.End)
				assert.Equal(t, int64(10*turns), e.res.Usage.Input)
				assert.IsType(t, &aycoder.RunFinished{}, e.events[len(e.events)-1])
				requireAsks(t, m.Requests(), native)
				if !native {
					few := runs(t, newLoop(t, script.New(tt.steps...)), who, generate.WithRepairs(tt.misses))
					require.NoError(t, few.err)
					if tt.misses > 0 {
						few = runs(t, newLoop(t, script.New(tt.steps...)), who, generate.WithRepairs(tt.misses-1))
						gave, ok := errors.AsType[*generate.Error](few.err)
						require.True(t, ok, "%v", few.err)
						require.Equal(t, tt.misses, gave.Attempts)
						require.Zero(t, few.who)
						require.Equal(t, few.res, *gave.Result)
					}
				}
			}
		})
	}
}

func nativeOf(m *script.Model) native { return native{m} }

// requireAsks checks that each request of a run begins with the one before, and how it asks.
func requireAsks(t *testing.T, reqs []*aycoder.Request, native bool) {
	t.Helper()
	for i, r := range reqs {
		require.NoError(t, aycoder.CheckHistory(r.Messages))
		names := []string{}
		for _, s := range r.Tools {
			names = append(names, s.Name)
		}
		if native {
			require.Equal(t, []string{"look"}, names)
			require.Equal(t, "person", r.Output.Name)
			require.Zero(t, r.ToolChoice)
			continue
		}
		require.Equal(t, []string{"look", "person"}, names)
		require.Nil(t, r.Output)
		said, _ := r.Messages[len(r.Messages)-1].Parts[0].(*aycoder.Text)
		forced := said != nil && strings.HasPrefix(said.Text, "This is not the document")
		require.Equal(t, forced, r.ToolChoice.Mode == aycoder.ToolNamed, "request %d", i)
	}
}
