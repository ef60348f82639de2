// Package runner lets an agent work in a workspace on a machine that accepts no connections: a laptop, a container, a host
// behind a firewall. A program there, such as aycoder runner, dials the server and offers its files and commands
// ([Serve]). The server has the model with its keys, the history and the approvals, and gives a runtime the runner's
// workspace ([Hub.Environment]):
//
//	authorize, err := runner.Tokens(map[string]string{"laptop": token})
//	hub, err := runner.NewHub(authorize)
//	mux.Handle("/api/runner", hub)
//	…
//	env, err := hub.Environment(ctx, "laptop")
//	rt, err := harness.New(ctx, env.Dir(), harness.WithEnvironment(harness.Environment{
//		Files: env, Exec: env, System: env.Manifest().System, Texts: env.Texts(), Pin: env.Pin, Changes: env.Changes,
//	}))
//
// The connection is a request of HTTP/1.1 that becomes a stream (Upgrade), over which the protocol of package remote goes:
// a call is one message there and one back, with progress and cancel.
//
// # When the connection is cut
//
// The runner cancels all calls and kills all commands, then dials again. A call that was under way is an error, of
// [workspace.KindInterrupted] if it may have changed something, and is never sent again. The next call uses the new
// connection. So the model reads what happened, and looks before it goes on.
//
// Each connection has a fencing token, higher than all before it. A new one of the same process ends the old one, whose
// late results reach nobody. Another process cannot have the name as long as the first one is connected, nor for the time
// of [WithLease] after a cut, in which it may still work. Once another one has had the name, the first one is refused when
// it comes back.
//
// # What was approved
//
// A plan and a command travel with the digest of what the tool was about to do, and the machine of the runner compares it
// right before it acts. The [Manifest] of a runner is pinned as a run begins: if it changes meanwhile, the run is told, and a text whose digest is
// another one is not read.
//
// # Trust
//
// The server does not trust a runner more than package remote does. A text from there may say anything, and permits
// nothing. The runner believes its server: who has the server can do in the workspace what the runner can do, and no more.
// A token of a runner is not one for package server: its holder can pass for the runner, and answer no approval.
package runner
