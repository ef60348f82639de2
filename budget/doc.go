// Package budget limits what agents spend together: money, tokens and working time.
//
// A [Pot] is one shared budget. It wraps each model client that spends, and the tools, of all agents
// that draw on it: subagents, parallel branches, and the client that writes summaries for a compaction.
//
//	pot, err := budget.New(budget.Config{Name: "night", Money: 5, Work: 2 * time.Hour})
//	…
//	loop, err := aycoder.New(client,
//		aycoder.WithModelMiddleware(pot.Model),
//		aycoder.WithToolMiddleware(pot.Tool),
//	)
//
// A subagent has a client of its agent's options, so these need the middleware too. If an agent and the
// agents inside its calls use the same pot as a [aycoder.ToolMiddleware], time is counted once.
//
// # Reservations
//
// Before a request is sent, its highest cost is reserved: an estimate of its input and the longest answer
// that the model may give. A request that does not fit beside the reservations of other requests waits,
// in order of arrival, until some of these have ended and what they really cost is known. A request that
// does not fit although nothing else is reserved is sent all the same, as long as something is left. So
// any number of agents together exceed a limit by one request at most, and a budget can be used up, as
// far as the estimates are not too low. When nothing is left, each further request fails with an
// [*ExhaustedError].
//
// The price of a model may be known only from what its answers say they have cost. The first request to such a model
// reserves the whole limit of Config.Money, and the next ones reserve their tokens at the rate of the dearest answer so far.
// If an answer does not say its cost, the requests reserve no money. In a Ledger the first one reserves no more than that limit.
//
// A reservation ends with its request, however that ends: with an answer, an error, a break, a cancelled
// context or a panic. It is never stored, so nothing is reserved after a program was killed.
//
// # Costs
//
// The cost of an answer is the one of [aycoder.MessageDone], or its usage at the price of the model: of
// Config.Models, or else of the client's [aycoder.ModelInfoer]. The money of a model without a price
// cannot be counted: [Status].Unpriced names such models. An answer that breaks off after it has begun,
// or that comes without a usage, is counted by an estimate, since a provider charges for it and does not say how much.
// An answer whose cost is 0, as that of a cache, is free.
//
// # Working time
//
// Working time is the time that model calls and tools take, added up over all that work at the same time.
// Waits for approvals, for reservations and for people do not count. Of a call that contains a run, only
// the calls of that run count. When the time is used up, the calls that still work are cancelled with an
// [*ExhaustedError] as the cause.
//
// # Resuming
//
// A Pot encodes what was spent as JSON, which a host can keep with its session. Alternatively, Config.File
// names a file to which each cost is appended. It survives a killed process, and several processes can
// share it: they see what the others have spent, but not what the others have reserved, so together they
// exceed a limit by one request for each process at most. The file grows by a short line with each request,
// and is never shortened, since other processes may have it open. Remove it while none has, and the budget begins anew.
package budget
