/*
Package session keeps conversations. A conversation survives its process, branches at any message,
and takes the files of the workspace back with it.

# A session

[New] starts a session in a [journal.Store], and [Open] opens one. [journal.Dir] is the store in files, [journal.Memory]
one that leaves nothing on disk. A [Session] is an [aycoder.Agent]: where a host calls Run of a
Loop, it calls Run of the Session, and does not keep the messages itself:

	store, err := journal.Dir(filepath.Join(home, ".local/state/myagent"))
	s, err := session.New(ctx, store, loop, session.WithDir(workspace))
	for ev, err := range s.Run(ctx, aycoder.Input{Prompt: "fix the test"}) { … }

Each fact of a run is recorded before anything that follows from it begins: a tool starts only when
the record that it begins is on disk. So after a crash at any moment, the session continues where
it was, and no call that may have had an effect runs twice:

	s, err := session.Open(ctx, store, id, loop)
	if s.Pending() != nil {
		for ev, err := range s.Run(ctx, aycoder.Input{}) { … } // goes on with the interrupted run
	}

[Session.Changes] tells what is not as it was: files, tools, the model, commands in the background.
[WithValue] makes a session keep the mode and the rules of a policy, and [Branch.Keep] makes the list of
tasks go back and forth with the conversation.

# The tree

A session is a tree of nodes. A [Node] adds a message to the conversation, and knows what the files
of the workspace were like when the message was complete. Nodes are never changed or removed.
[Session.View] returns a snapshot, which never changes either: reading it takes no lock, also while
a run adds nodes.

	v := s.View()
	for _, n := range v.Path(s.Head()) { … }

[Branch.Checkout] continues the conversation at another node; what was said since stays in the
tree. [Branch.Undo] takes back the last turn, and [Branch.Redo] takes that back again.
[Session.SetLabel] marks a node to be found again. [Branch.Fork] makes a separate session.
[Session.Compare] tells what differs in the files of two branches.

[Session.NewBranch] makes a second branch, with its own agent. Branches of one session work at
the same time, in one process: the session is the only writer of its records. Another process that
opens the session gets a [*journal.BusyError]; [Read] gives it a snapshot.

The View of a [journal.Dir] or [journal.Memory] store reads messages from the store. A run has the whole conversation
in memory, unless a [Compactor] says what of it is left out of requests: see [WithCompactor]. A View then
also reads older nodes from the store.

# Commands

A program may give a [Branch] each of its commands at any moment of a run. The effect depends on the phase of the branch,
which [Branch.Phase] returns:

	            idle     model    tools    question  compacting  suspended  closed
	Run         starts   refused  refused  refused   refused     resumes    refused
	Steer       queued   turn     turn     turn      queued      queued     refused
	FollowUp    queued   end      end      end       queued      queued     refused
	Drain       done     done     done     done      done        done       refused
	Cancel      refused  done     done     done      done        settles    refused
	Checkout    done     waits    waits    waits     waits       settles    refused
	Undo, Redo  done     waits    waits    waits     waits       settles    refused
	Compact     done     waits    waits    waits     waits       settles    refused
	SetAgent    done     next     next     next      next        next       refused

"done" is at once. "queued" is for the next run, "turn" for the next request to the model, and
"end" for the moment when the run would end. "waits" is for the end of the run, which the option
[StoppingRun] brings about; without [StoppingRun] or [AwaitingRun] the command is refused.
"settles" ends the suspended run first: its open calls are not run. "next" is for the next run; another model for the
next turn of a run that works is set with [aycoder.WithSetup], as harness.Runtime.SetModel does.
"refused" is a [*CommandError]. A session is closed from the moment at which [Session.Close] is called, also while Close
waits for the end of a run.

# Files

With [WithFiles], a node holds what the files looked like that the agent has read or changed, and
those that its commands have changed. The tools work through a [snapshot.Files], which stores a file before a
plan or a command changes it. Then a Checkout, Undo or Redo takes the files back together with the
conversation, all of them or, after an error, none:

	move, err := s.Undo(ctx, session.DryRun())
	for _, f := range move.Files {
		fmt.Println(f.Action, f.Path, f.Reason)
	}

No change of the user is lost: before files are taken back, all that the user has changed becomes a
node, which another Checkout brings back. Files that the user has created or changed since are not
removed. The [Move] names each file that is not as it was at the node, and why: for example because
the session does not hold its content (a file of secrets, or one that was too large).

The [aycoder.Result] of a run has in Changes what the run has changed in these files. Without a session,
[snapshot.Files.Watch] tells the same.

# What is recorded

Messages are recorded as the model got them, so a resumed conversation sends the same bytes.
[WithSync] says when records are flushed. If the journal fails, the run ends with a
[*journal.OpError], or goes on in memory: see [WithoutStopping]. Damaged records are reported by
[Session.Damage] and cost only what they hold. Records of an older version of this package are rewritten by
[Open]. [Session.Trim] makes the records smaller, and
[journal.Prune] deletes sessions by age and size.

[View.WriteJSON], [View.WriteMarkdown] and [View.WriteHTML] export a session, and [Import] reads the
first of these.
*/
package session
