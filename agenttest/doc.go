// Package agenttest tests that an agent, a model client, a tool or a store of sessions keeps the
// contract in its doc comment in package aycoder, session or tools. Each test suite is a function that a
// host calls from its own test. The suites import only the standard library and these packages.
//
// # Agents
//
// [TestAgent] is for agents that a host wrote, or wrapped to add telemetry, a cache or an
// approver. The host passes a function that makes such an agent:
//
//	func TestMyAgent(t *testing.T) {
//		agenttest.TestAgent(t, func(t testing.TB, s agenttest.AgentSetup) aycoder.Agent {
//			loop, err := aycoder.New(s.Model, aycoder.WithTools(s.Tools...),
//				aycoder.WithApprover(s.Approver), aycoder.WithStrictPrefix(true))
//			if err != nil {
//				t.Fatal(err)
//			}
//			return Traced(loop)
//		})
//	}
//
// The suite plays some fifty conversations with a scripted model. Some answers of the model contain
// text and calls that read or write. Others are cut off, refused, not valid UTF-8, or broken off
// before or after a tool has begun; or the model is overloaded. The tools fail, panic, wait, or
// ignore that they are cancelled.
//
// Each conversation is played to its end twice, the second time with a slow loop body. It is also
// left, cancelled and ended by a panic at every event; of hundreds of similar events, only some are
// tried. After each run the suite checks the history, compares the history with the calls that the
// tools logged, and continues the conversation in another run. No goroutine may remain.
//
// The suite runs in bubbles of [testing/synctest], so waits take no time and every goroutine that
// remains is found. The agent must be made inside the bubble. It must not wait for anything
// outside, such as the network or a goroutine that its package started earlier.
//
// # Model clients
//
// [TestModelClient] is for providers and for middleware around them. The host says how to make a
// client that answers in a known way, usually with a test server:
//
//	func TestMyClient(t *testing.T) {
//		agenttest.TestModelClient(t, agenttest.Clients{
//			Text: func(t testing.TB, pieces ...string) agenttest.Client { … },
//			Hang: func(t testing.TB, pieces ...string) agenttest.Client { … },
//			…
//		})
//	}
//
// If a field of [Clients] is nil, its tests are skipped, and the skip names the field.
//
// # Tools
//
// [TestTool] gets a function that makes the tool in a fresh directory, and some valid calls. It
// executes these calls, and many invalid calls that it derives from them:
//
//	func TestMyTool(t *testing.T) {
//		agenttest.TestTool(t, func(t testing.TB) agenttest.ToolSetup {
//			dir := t.TempDir()
//			return agenttest.ToolSetup{Tool: New(dir), Dir: dir}
//		}, agenttest.ToolCase{Name: "list", Args: `{"path":"."}`})
//	}
//
// # Stores of sessions
//
// [TestJournal] is for stores that keep sessions elsewhere than in files. The host says how to open
// the store in a directory, or anywhere that is named after it. The suite does so in other
// processes, too, and kills them while they write:
//
//	func TestMyStore(t *testing.T) {
//		agenttest.TestJournal(t, agenttest.JournalSetup{
//			Open: func(t testing.TB, dir string) journal.Store { return Open(dir) },
//		})
//	}
//
// # Workspaces elsewhere
//
// [TestFS] and [TestExec] are for files and commands that the tools reach by another way than package
// os, with a case for each sentence of [tools.FS] and [tools.Exec]:
//
//	func TestMyFS(t *testing.T) {
//		agenttest.TestFS(t, func(t testing.TB, dir string) tools.FS { return Mount(dir) })
//	}
//
// # Failures
//
// A failure names the rule that was violated, the place in the conversation, and the behaviour
// that was seen:
//
//	rule 5: each call has its own output, in call order: break at event 3: call 2 …
//
// The suites are tested, too: for each rule there is an agent, a client, a tool, a store or a file
// system that breaks the rule, and the suite must find it.
package agenttest
