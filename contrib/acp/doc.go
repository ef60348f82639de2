// Package acp puts agents into editors that speak the Agent Client Protocol, such as Zed, JetBrains' IDEs, Neovim and
// Emacs, and makes other agents that speak it tools of an agent.
//
// # In an editor
//
// A program that an editor starts calls [ServeStdio]. A function composes the runtime of each session:
//
//	err := acp.ServeStdio(ctx, acp.Config{
//		Open: func(ctx context.Context, s acp.Start) (*harness.Runtime, error) {
//			own := []harness.Option{harness.WithClient(model), harness.WithAmbient(harness.Skills)}
//			return harness.New(ctx, s.Dir, append(own, s.Options...)...)
//		},
//		Store: store,
//	})
//
// The editor's user gets texts and thoughts as they stream, the calls with their diffs and places, and the questions of
// the approver with the rules that it suggests. Modes are those of package policy. The list of tasks is the plan, and the
// commands and skills of the library and the prompts of servers are the editor's commands. A session that is loaded is told
// as a whole. Stopping a prompt stops the run as [aycoder.Agent] describes, and the conversation goes on with the next prompt.
//
// # Unsaved text
//
// If the editor offers to read files, each file that the model reads or changes is compared with the editor's buffer. The
// model reads what the user sees. A change is merged with what the user has not saved: the text of the buffer is saved, the
// change is made on disk with all guarantees of package workspace, and the buffer gets the result. If both have changed the same
// lines, it is a conflict, and nothing is saved.
//
//   - If the editor offers only to read, unsaved changes of a file are a conflict: only the user can save them.
//   - After a command, neither text is trusted. The last text that disk and buffer both had decides which of them has
//     changed; if both have, they are merged. If no such text is known and the file was written since the session
//     began, a change of it is a conflict until the user saves the file or loads it again.
//   - Walks, such as those of code_search and glob, read the disk, and the buffers only of files that were read before.
//   - Files of more than 2 MiB and files that are not UTF-8 are the disk's.
//
// Between the last look at a buffer and the write to it, a message is on its way. A key that is pressed in that time may be
// lost: the protocol has no way to rule that out.
//
// # What is not offered
//
// Commands do not run in terminals of the editor, which have neither a sandbox nor the guarantees of [tools.Exec]. There
// are no methods to log in.
//
// # Other agents
//
// [Agent] makes a tool of another agent's program. Its requests are calls of a nested run:
//
//	var rt *harness.Runtime
//	tool, err := acp.Agent(acp.AgentConfig{Name: "other", Command: "other-agent", Files: func() tools.FS { return rt.Files }})
//	…
//	rt, err = harness.New(ctx, dir, harness.WithClient(model), harness.WithTools(tool))
package acp
