// Package remote lets an agent work in a workspace that is somewhere else: in a container, behind ssh,
// or in another process. The agent, its model and its approvals stay in the host program. Only the
// files and the commands of package tools are on the other machine, where a small program runs
// [Serve]: aycoder-remote, or one of the host with the same call. A [Client] talks to it over its
// standard input and output, so whatever starts a program there is the transport:
//
//	CGO_ENABLED=0 go build github.com/aycoder/aycoder/remote/aycoder-remote
//	docker cp aycoder-remote NAME:/
//
// A host starts it there, and uses its files and commands:
//
//	c, err := remote.Start(ctx, exec.Command("docker", "exec", "-i", "NAME", "/aycoder-remote", "-dir", "/work"))
//	…
//	defer c.Close()
//	list, err := tools.Coding(c, tools.WithExec(c))
//
// The package opens no connection itself, has no authentication and no encryption: who can write to
// the program can do there what the program can do.
//
// # Which side does what
//
// The other machine reads and writes files under the rules of [workspace.Workspace], carries out
// plans with all comparisons and merges, and runs, confines and kills commands. This machine plans
// edits, remembers what the model was shown, masks secrets, and decides. The paths of the other
// machine are used on both, so both must have the same form of paths; policies that look at symbolic
// links do not see those of the other machine, but its workspace does.
//
// # When the connection is cut
//
// Nothing is repeated. A plan or command that was under way is reported to the model as "interrupted":
// it may have happened, or not. Each file is as before or as after. The other side kills the commands.
package remote
