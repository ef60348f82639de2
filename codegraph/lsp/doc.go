// Package lsp asks language servers such as gopls and pyright, and tells a model which errors its edits have made.
//
// Package codegraph knows a workspace without any other program. Where a language server is installed, it knows
// more: which declaration a name means, all places where it is used, and what the compiler says. A [Client]
// starts the servers that the host has configured, when they are first needed, and offers two things.
//
// # After an edit
//
// [Client.Middleware] adds to the result of each tool that changes files the errors that were not there
// before:
//
//	written; new errors:
//	shop/cart.go:14: undefined: pric (UndeclaredName)
//
// The edit is never presented as failed, and nothing is added if there are no new errors. Errors that were there
// before stay out of it, also if the edit has moved their lines. Those in other files that the edit has broken are
// in it, as far as the server tells. A server that is missing, slow or dead costs at most the time of [WithWait],
// and changes nothing but that. Errors that come too late follow the next result, unless it is not known which
// there were before, or somebody else has changed files meanwhile.
//
// Where there is no server, commands do: see [WithCommand]. They can also format. The checkers of a project, such as
// go vet, ESLint or Clippy, join the list of new errors with what they find in the edited files: see [KnownCommand]. They
// work on the disk, so they run before an edit and after it.
//
//	client, err := lsp.New(ws,
//		lsp.WithServer(gopls),
//		lsp.WithCommand(lsp.Command{Files: "*.sh", Script: "shellcheck -f gcc {file}"}),
//		lsp.WithCommand(vet), // vet, ok := lsp.KnownCommand("go vet")
//		lsp.WithCommand(lsp.Command{Files: "*.css", Script: "prettier {file}", Format: true}))
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	loop, err := aycoder.New(model, aycoder.WithTools(list...), aycoder.WithToolMiddleware(client.Middleware))
//
// Use the middleware once, and give [New] the same [tools.FS] as the tools, so that a session has what a command has
// formatted.
//
// # Questions
//
// [Client.Tools] returns the tools definition, references and rename. A model names a place by its line and the name
// in it, since models cannot count columns. A rename is an edit like any other: it is shown before it is made,
// merged with what the user changes meanwhile, and refused as a whole if it reaches out of the workspace.
// The results and the errors quote the workspace. If the other tools mask secrets, mask these, too: wrap the tools
// with the same [tools.Masker], and put its middleware, [tools.Masking], before this one.
//
// # Trust
//
// A language server is a program of the host that works on the user's files, without a sandbox unless [WithStart] has
// one. It obeys the workspace: it may read any file there, run build scripts, load plug-ins, and download dependencies.
// So it is started only because the host has named it, never because a workspace asks for it: name servers only for
// workspaces whose code may run, or say by [WithPermission] where it may. The same holds for commands. A server gets no
// secrets of the host in its environment, and runs in a session of processes that ends with [Client.Close], on Linux also
// if the host is killed. On Windows, neither servers nor commands are started.
//
// The client believes a server no more than it must. It never lets a server change a file: the protocol's
// workspace/applyEdit is refused. It bounds the messages, errors and places that it takes, and ends a server that
// sends without end or does not read. It never reads a file outside of the workspace, and takes a rename only if
// each part of it replaces the old name. After the third start, a server that has ended is given up: see
// [ErrGone].
package lsp
