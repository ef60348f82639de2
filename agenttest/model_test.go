package agenttest_test

import (
	"context"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/providers/script"
)

// repeat is a client that answers every request with the same step.
func repeat(step script.Step) agenttest.Client {
	return agenttest.Client{Model: script.New(step).With(script.WithLoop(true))}
}

func say(pieces []string) script.Step {
	var text strings.Builder
	for _, p := range pieces {
		text.WriteString(p)
	}
	return script.Say(text.String())
}

// stall is a client that hangs after the deltas of another.
func stall(m aycoder.ModelClient) aycoder.ModelClient {
	return aycoder.ModelFunc(func(ctx context.Context,
		req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			for ev, err := range m.Stream(ctx, req) {
				if _, delta := ev.(*aycoder.TextDelta); !delta || err != nil {
					break
				}
				if !yield(ev, nil) {
					return
				}
			}
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	})
}

func TestScriptIsAModelClient(t *testing.T) {
	agenttest.TestModelClient(t, agenttest.Clients{
		Text: func(_ testing.TB, pieces ...string) agenttest.Client { return repeat(say(pieces)) },
		Thinking: func(_ testing.TB, thinking, text string) agenttest.Client {
			return repeat(script.Reply(script.Think(thinking), script.Say(text)))
		},
		Call: func(_ testing.TB, text string, c *aycoder.ToolUse) agenttest.Client {
			return repeat(script.Reply(script.Say(text), script.Call(c.Name, c.Args).WithID(c.ID)))
		},
		Cut: func(_ testing.TB, c *aycoder.ToolUse) agenttest.Client {
			return repeat(script.Cut(c.Name, string(c.Args)).WithID(c.ID))
		},
		Refused: func(_ testing.TB, text string) agenttest.Client {
			return repeat(script.Say(text).WithStop(aycoder.StopRefusal))
		},
		Broken: func(_ testing.TB, pieces ...string) agenttest.Client {
			return repeat(script.Break(len(pieces), nil, say(pieces)))
		},
		Hang: func(_ testing.TB, pieces ...string) agenttest.Client {
			return agenttest.Client{Model: stall(repeat(say(pieces)).Model)}
		},
		Silent: func(testing.TB) agenttest.Client {
			return agenttest.Client{Model: stall(script.New())}
		},
		Refuse: func(testing.TB) agenttest.Client { return repeat(script.Fail(script.Overloaded())) },
	})
}

// A test that is skipped names the field of Clients that it takes. Its own name begins with
// that field.
func TestSkippedTestsNameTheField(t *testing.T) {
	out, err := exec.Command(os.Args[0], "-test.v", "-test.run=^TestScriptIsAModelClient$/^Signed").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Clients.Signed is nil: skipped") || strings.Count(string(out), "=== RUN") != 2 {
		t.Errorf("the suite says %s, error %v", out, err)
	}
}
