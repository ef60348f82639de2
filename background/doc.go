/*
Package background keeps the agents and the commands that work beside a conversation.

# A group

A [Group] owns the jobs of one conversation: the agents that the tool subagent starts with the argument
background, and the background commands of bash. The host makes the group, gives it to the tools and to
the runs, and closes it:

	group, err := background.New()
	…
	defer group.Close()
	coding, err := tools.Coding(ws, tools.WithBackground(group))
	helper, err := tools.Subagent(tools.SubagentConfig{Model: model, Tools: coding, Background: group})
	…
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: "…"}, group.Attach()) { … }

A job goes on when the call and the run that started it are over, and also when that run is cancelled.
It ends by itself, when the model stops it with the tool job_stop, with [Group.Stop], and at the latest
with [Group.Close], which waits until nothing is left of it. The jobs of an inner run, such as that of a
subagent, end with the inner run. Tools without a group have one whose jobs end with their run.

# The set of jobs

Whenever the jobs change, the run that is active yields an [aycoder.JobsChanged] with all of them, and
[Group.Changes] yields the same between runs. A reader that is slow gets the last state and misses
nothing by it. A job is in the set before anything of it works, and has not ended there until nothing of
it does.

# Notes

When a job has ended, the conversation gets a note, as a message of the user: the active run sends it
to the model with its next request, or else the next run does. A note has the id of the job and how it
ended. It has nothing that the job has written, since somebody unknown may have written that: the model
reads it with the tool job_output, whose result says so. A job that the model stops, or that ends before the
call that starts it has returned, has no note, because the output of that call tells. [Group.Wakes] lets
a host start a run when there is a note and no run is active:

	for notes := range group.Wakes(ctx) {
		in := aycoder.Input{Messages: append(res.Messages, notes...)}
		for ev, err := range agent.Run(ctx, in, aycoder.Into(&res), group.Attach()) { … }
	}

If a run is suspended, as the Pending of its result tells, the notes wait for the run that resumes it. Wakes
yields nothing before that one has ended, and ends when no job lives. Resume the run with Attach, and call Wakes
again.

In a session, use [github.com/aycoder/aycoder/session.Branch.SetBackground] instead of Attach and Wakes. It records the notes,
and tells which jobs have ended with their process.

# Guards

An agent in the background works in an inner run of the call that started it, for its whole life: the
Approver, the auditors, the tool middleware and the limit Total of the outer runs apply to it, and see its
name and depth. Its questions, and its calls of declared tools, go to the consumer of the run that is active. If
none is, the agent waits, its state is "waiting", and nobody decides or gives a result until a run begins, the
agent is stopped or its time is over. Verdicts to suspend count as denials, and a call for which the consumer
does not give a result has an error as its output. The tokens and costs of an agent are counted once, when it
has ended: by the run that is active then, or else by the next one, also in another process. Until then [aycoder.Job].Spent is empty.
*/
package background
