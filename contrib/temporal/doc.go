/*
Package temporal runs agents as workflows of Temporal, so that a run goes on when its process, its machine or the server dies.

Each process that works has a [Worker], and a worker of the SDK for each task queue that it serves:

	made, err := temporal.New(temporal.Config{Store: store, Open: open})
	w := worker.New(c, "agents", worker.Options{})
	made.Register(w)
	err = w.Run(worker.InterruptCh())

Open opens a session for writing. Any session will do, also that of a runtime of package harness, as it is:

	func open(ctx context.Context, id string) (*temporal.Agent, error) {
		rt, err := harness.New(ctx, dir, harness.WithClient(model), harness.WithStore(store, id))
		if err != nil {
			return nil, err
		}
		return &temporal.Agent{Session: rt.Session, Agent: rt.Agent, Close: rt.Close}, nil
	}

Each process that starts runs, shows them or answers their questions has a [Client]. It needs the server and the store, but
neither the workspace nor a model:

	c := &temporal.Client{Temporal: dialed, Store: store}
	err := c.Create(ctx, id) // unless there is the session
	run, err := c.Start(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "agents"}, temporal.Input{Session: id}, aycoder.User("fix the test"))

# The shape

The workflow is an interpreter: it carries out the steps that a [Plan] names, and decides nothing. A worker makes the plan
from the facts in the session, by the same [aycoder.State] that an ordinary run has. The plan is the result of each step and
so in the history; at the beginning, and when no step has one, it is that of a local activity. So a history
replays in another version of this library, with other tools, limits and prompts.

A call of the model and a call of a tool is an activity with the key of the action as its id, such as "t3/tool/toolu_01". Its
worker opens the session, continues the run in it for this step alone ([aycoder.WithSteps]), and leaves it. Reads of one message are
activities at the same time; what may write comes after them, alone. Reads start when the message of the model is complete,
and not while it comes. A [Worker] keeps a session open for the next step if models and tools have one queue.

# What is lost

An activity whose worker dies is given to another one after [Config].Heartbeat. The session decides what that one does: a call
that was recorded as done is not made again; a read that has no result is made again; a call that may write and has begun is never
made again, and the model is told that it was interrupted and its outcome is unknown. A request to the model is made again, so it may be
paid twice. An answer of the model that was recorded is used. Attempts are bounded by [Limits], for each tool and effect.

A rate limit or an overload ends the attempt of the activity. The server starts the next one when the provider allows that.
If no attempt is left, the workflow fails; the run is still in the session, and another workflow continues it ([Client.Start] without
a message).

# Questions

When a call needs an approval and nothing else can go on, no activity works. The workflow waits, for days if need be,
for the update [UpdateAnswer], which refuses all but open questions. [Client.Pending] returns what they are about, and
[Client.Decide] answers. The answers of several questions may come in any order; a question whose plan has changed by another answer
is asked again. Calls of declared tools wait for [Client.Answer] in the same way.

[Client.Steer] sends a message, which arrives once. When the workflow is cancelled, the steps that work are stopped, and the run is
settled in the session: calls say what they have done until then, as far as it is known, and messages that no step has taken wait for
the next run, as they do when the workflow fails.
[Client.Status] tells what works and what is asked.

# Child agents, schedules

A call of a tool in [Config].Children is answered by an agent in a new session, which runs as a child workflow. Children work
beside each other, outlive their machines and wait for answers, for days if need be, as every run does:
[Status].Children are their ids. A child ends with its parent: if that is cancelled, or its run ends, the child is cancelled.

Agents inside a call (subagents) work in the activity of the call. If its worker dies, they are interrupted with it, and their
questions are denied, since half a call cannot wait.

[Client.Schedule] sends a message to a session again and again, at times that the server keeps.

# What the server learns

Ids of sessions, keys of steps with the ids that the model's provider has given to calls, numbers, beginnings of digests, and kinds
of errors and ends. Prompts, paths, names of tools, arguments, outputs, answers and texts of errors stay in the stores: messages
and answers travel as references, each a small journal in [Config].References, removed when the session has taken it. The data
converter, codec and interceptors of the host's client apply to the rest.

The history grows by about a kilobyte for each step, whatever the size of outputs. When the server suggests it, the workflow continues as
a new one, also in the middle of a question.

# Queues

[Input].Tools is the task queue of the workers that can reach the workspace, one for each workspace. [Input].Models can be a
queue that all share; Open must then make an agent with the same prompt and tools where the workspace is not. One process at a time has
a session open, so steps wait while another process works in it. Reading a session takes about 50 ms for each
megabyte of its records, for each step that comes to another process.
*/
package temporal
