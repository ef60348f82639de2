package agenttest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/providers/script"
)

func ExampleTestAgent() {
	_ = func(t *testing.T) { // func TestMyAgent(t *testing.T)
		agenttest.TestAgent(t, func(t testing.TB, s agenttest.AgentSetup) aycoder.Agent {
			loop, err := aycoder.New(s.Model, aycoder.WithTools(s.Tools...),
				aycoder.WithApprover(s.Approver), aycoder.WithStrictPrefix(true))
			if err != nil {
				t.Fatal(err)
			}
			return loop // or what the host puts around it
		})
	}
	// Output:
}

func ExampleTestModelClient() {
	_ = func(t *testing.T) { // func TestMyClient(t *testing.T)
		agenttest.TestModelClient(t, agenttest.Clients{
			Text: func(_ testing.TB, pieces ...string) agenttest.Client {
				var text strings.Builder
				for _, p := range pieces {
					text.WriteString(p)
				}
				return agenttest.Client{Model: script.New(script.Say(text.String())).With(script.WithLoop(true))}
			},
			Refuse: func(testing.TB) agenttest.Client {
				return agenttest.Client{Model: script.New(script.Fail(script.Overloaded())).With(script.WithLoop(true))}
			},
		})
	}
	// Output:
}

func ExampleTestTool() {
	type args struct {
		Name string `json:"name"`
	}
	greet := func(_ context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("Hello, " + in.Name), nil
	}
	_ = func(t *testing.T) { // func TestGreet(t *testing.T)
		agenttest.TestTool(t, func(t testing.TB) agenttest.ToolSetup {
			tool, err := aycoder.NewTool("greet", "Greets someone.", greet,
				aycoder.WithEffect(aycoder.EffectReadOnly))
			if err != nil {
				t.Fatal(err)
			}
			return agenttest.ToolSetup{Tool: tool, Dir: t.TempDir()}
		}, agenttest.ToolCase{Name: "Bob", Args: `{"name":"Bob"}`, Want: "Hello, Bob"})
	}
	// Output:
}
