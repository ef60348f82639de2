package agenttest_test

import (
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/internal/timed"
)

func newLoop(t testing.TB, s agenttest.AgentSetup) aycoder.Agent {
	loop, err := aycoder.New(s.Model, aycoder.WithTools(s.Tools...),
		aycoder.WithApprover(s.Approver), aycoder.WithStrictPrefix(true))
	if err != nil {
		t.Fatal(err)
	}
	return loop
}

func TestLoopIsAnAgent(t *testing.T) {
	timed.Long(t, "the whole contract of agents")
	agenttest.TestAgent(t, newLoop)
}
