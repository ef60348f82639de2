// Package server shows sessions to programs and browsers over HTTP. A [Server] is an [http.Handler] that a host mounts:
//
//	srv, err := server.New(server.Host{
//		Store: func(principal string) journal.Store { return stores[principal] },
//		Open: func(ctx context.Context, principal, id string, opts ...session.Option) (*harness.Runtime, error) {
//			return harness.New(ctx, dir, harness.WithClient(model), harness.WithStore(stores[principal], id, opts...))
//		},
//	})
//
// POST /api/prompt starts a run and streams its events, in the JSON form that docs/events.md lists. The run belongs to its
// session and not to the request: a client that goes away cancels nothing, and GET /api/runs/{run}/events goes on where a
// client stopped.
//
// # State
//
// The server keeps nothing that the sessions do not hold. The newest events of a run are in memory, once for all its
// clients; older ones are made again from the journal, also after the process was restarted. Texts then come in one piece,
// and progress reports, notices and events of runs inside calls are missing.
//
// # Several processes
//
// A session works in one process at a time. With [Host].Feed, the other ones stream its events, too. [Follow] is for hosts whose
// runs work elsewhere altogether, such as the workers of contrib/temporal, which tell their events to a [Publisher].
//
// # Security
//
// Whoever may use the server can let an agent work: without [Host].Principal and [WithToken], requests must come from the
// same machine. Requests are refused if they are for another host name (see [WithHosts]) or from a page of another origin
// (see [WithOrigins]). A session of another principal looks like one that does not exist.
package server
