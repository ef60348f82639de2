// Package mcp connects agents to servers of the Model Context Protocol, and serves the tools of a runtime by it.
//
// # Servers as tools
//
// A [harness.Connector] of this package starts the servers of a configuration and offers their tools:
//
//	connect := mcp.Connector(mcp.WithDir(dir))
//	rt, err := harness.New(ctx, dir, harness.WithConfig(loaded), harness.WithServers(connect))
//
// A server is a program, spoken to over its standard input and output, or an address, spoken to by streamable HTTP.
// Programs need a Unix system. The tool read of the server files has the name mcp__files__read.
//
// If a server has resources, the tools list_resources and read_resource of it are there, too. Its prompts are commands
// that a user types, such as /mcp__files__review, and a line that mentions @files:uri brings a resource: see
// [harness.TextSource].
//
// # What a server cannot do
//
// A server, its texts and its results count as written by a stranger.
//
//   - Its tools have the effect Unknown, so each call is asked about, whatever it says of them. Only if the user's own
//     configuration trusts the server (see [config.Server]) do tools that say that they only read run unasked.
//   - What was approved is a definition: the program or address with a tool's name, description, schema and hints. Rules
//     that answer questions cover only that definition ([aycoder.ToolSpec.Definition]). If it changes, the next turn
//     offers the new one, and a call of the old one is an [Error] that is [ErrChanged].
//   - A program gets the variables that its configuration names, and PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG, LC_ALL
//     and TMPDIR. Redirects to another host are not followed, so that headers with keys stay where they belong.
//   - Results are bounded and marked as untrusted. A message of more than 16 MiB ends the connection.
//
// # When a server fails
//
// A call is never repeated. If the connection is lost during a call, the error is [ErrLost], and nobody knows whether
// the call has been carried out. The next call connects again, after a wait that grows from a second to a minute. A call
// ends with its context, or after [config.Server].Timeout, also if the server hangs. The errors have the end of what the
// program has written to its standard error, or to its standard output in lines that are not messages. An answer of a
// program that cannot be understood is an error, and the connection stays. After Close, neither a process nor a goroutine is left.
//
// # Logins
//
// A server at an address may ask for a login by OAuth, if the host has named a directory for tokens with [WithLogins]. The
// login is not a part of the handshake: the tool oauth_login stands for the tools of the server, and asks the user, in the
// browser of [WithBrowser]. A call of it is a question like any other, so that a run in which nobody can be asked is
// suspended by it, and goes on when the user has logged in, in this process or with [Login] in another one. A token that
// the server refuses is renewed once. If that does not help, calls fail with [ErrUnauthorized] or [ErrRefresh], without
// a request, until there is another token.
//
// # Serving
//
// [Serve] offers the tools of a runtime to a client of the protocol. Each call goes through the approver, the hooks
// and the stages of the runtime, and a question becomes one of the client's user. Commands and skills are prompts. A host
// adds its own resources and prompts by the [ServeConfig], and its tools ask the client something by [CallerOf].
package mcp
