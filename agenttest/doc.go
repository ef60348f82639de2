// Package agenttest tests that what a host plugs into aycoder holds to the
// contracts in the doc comments of package aycoder: an agent, a model client, a
// tool. The suites are functions for a test of the host's own. They import the
// standard library and aycoder, and nothing else.
//
// # Agents
//
// [TestAgent] is for agents that a host wrote or wrapped: with telemetry, a cache,
// its own approver. It gets a function that makes one:
//
//	func TestMyAgent(t *testing.T) {
//		agenttest.TestAgent(t, func(t testing.TB, s agenttest.AgentSetup) aycoder.Agent {
//			loop, err := aycoder.New(s.Model, aycoder.WithTools(s.Tools...), aycoder.WithApprover(s.Approver))
//			if err != nil {
//				t.Fatal(err)
//			}
//			return Traced(loop)
//		})
//	}
//
// Some fifty conversations are played with a scripted model: text, calls that read
// and write, tools that fail, panic, wait, ignore that they are cancelled, approvals,
// answers that are cut off, refused, broken off before and after a tool began,
// overload, invalid UTF-8. Each is played to its end, by a body that is slow, and
// left, cancelled and panicked out of at every event (of hundreds that are alike, at
// some). After each run the history is checked, compared with what the tools did,
// and gone on with in a next run; no goroutine may remain.
//
// The suite runs in bubbles of [testing/synctest], so that waits take no time and
// goroutines that remain are found surely. The agent must be made in the bubble, and
// what it waits for must be there, too: no goroutine of the package, no network.
//
// # Model clients
//
// [TestModelClient] is for providers and for middleware around them. The host says
// how to make a client that answers in a known way, usually with a test server:
//
//	func TestMyClient(t *testing.T) {
//		agenttest.TestModelClient(t, agenttest.Clients{
//			Text: func(t testing.TB, pieces ...string) agenttest.Client { … },
//			Hang: func(t testing.TB, pieces ...string) agenttest.Client { … },
//			…
//		})
//	}
//
// The tests of a field of [Clients] that is nil are skipped, and say which field that is.
//
// # Tools
//
// [TestTool] gets a function that makes the tool in a fresh directory, and calls that
// fit its schema. It makes those, and many that do not fit, out of them:
//
//	func TestMyTool(t *testing.T) {
//		agenttest.TestTool(t, func(t testing.TB) agenttest.ToolSetup {
//			dir := t.TempDir()
//			return agenttest.ToolSetup{Tool: New(dir), Dir: dir}
//		}, agenttest.ToolCase{Name: "list", Args: `{"path":"."}`})
//	}
//
// # What a failure says
//
// A failure names the rule that was violated, where in the conversation, and what
// was seen:
//
//	rule 5: each call has its own output, in call order: break at event 3: call 2 …
//
// The suites are tested, too: for each rule there is an agent, a client or a tool
// that breaks it, and the suite must find that.
package agenttest
