package temporal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// Create makes a session with an id: see [journal.CheckID]. A worker opens it with its agent. If there is one with the id,
// errors.Is(err, fs.ErrExist) is true.
func (c *Client) Create(ctx context.Context, id string) error { return create(ctx, c.Store, id) }

func create(ctx context.Context, store journal.Store, id string) error {
	// It is never run.
	none, err := aycoder.New(aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] { return nil }))
	if err != nil {
		return err
	}
	s, err := session.New(ctx, store, none, session.WithID(id))
	if errors.Is(err, fs.ErrExist) && empty(ctx, store, id) && store.Delete(ctx, id) == nil {
		s, err = session.New(ctx, store, none, session.WithID(id))
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// empty reports whether a journal has no records: a process was lost while it made the session.
func empty(ctx context.Context, store journal.Store, id string) bool {
	j, err := store.Open(ctx, id, true)
	if err != nil {
		return false // somebody may be making it
	}
	none := true
	for range j.Records(ctx) {
		none = false
		break
	}
	return j.Close() == nil && none
}

// childID is the id of the session and of the workflow of a child agent. The digest has the run of the parent.
func childID(parent string, q Question) string { return parent[:min(len(parent), 40)] + "-" + q.Digest }

// adopt starts the workflow of a child agent, whose end answers a question. If it is asked again, so is the child, which
// has its answer then.
func (p *interpreter) adopt(ctx workflow.Context, q Question) {
	id := childID(p.in.Session, q)
	has := func(a Answer) bool { return a.Key == q.Key && a.Digest == q.Digest }
	if !q.Child || slices.Contains(p.children, id) || slices.ContainsFunc(p.answers, has) {
		return
	}
	ctx, cancel := workflow.WithCancel(ctx)
	p.children, p.cancels = append(p.children, id), append(p.cancels, cancel)
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { p.children = slices.DeleteFunc(p.children, func(c string) bool { return c == id }) }()
		in := childInput{Session: p.in.Session, Question: q}
		work := workflow.WithActivityOptions(ctx, p.brief())
		ref := ""
		err := workflow.ExecuteActivity(work, BeginName, in).Get(ctx, &ref)
		if err == nil {
			child := Input{Session: id, Tools: p.in.Tools, Models: p.in.Models, Say: []string{ref}}
			opts := workflow.ChildWorkflowOptions{WorkflowID: id, WaitForCancellation: true}
			for wait := time.Second; ; wait = min(2*wait, time.Minute) {
				err = workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, opts), WorkflowName, child).Get(ctx, &in.Output)
				// The server may still end that of a parent that has failed.
				if _, there := errors.AsType[*sdk.ChildWorkflowExecutionAlreadyStartedError](err); !there || workflow.Sleep(ctx, wait) != nil {
					break
				}
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil { // also if nothing could be started
			in.Output = Output{End: aycoder.EndFailed}
		}
		var a Answer
		err = workflow.ExecuteActivity(work, ReportName, in).Get(ctx, &a)
		if e, ok := errors.AsType[*sdk.ApplicationError](err); ok && e.Type() == noQuestion {
			a, err = Answer{Key: q.Key, Digest: q.Digest}, nil // a step finds out why
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			p.failed = err
		default:
			p.answers = append(p.answers, a)
		}
	})
}

// noQuestion is the type of the error about an answer to a question that is not open.
const noQuestion = "NoQuestion"

// disown cancels the children of a run that is over.
func (p *interpreter) disown(ctx workflow.Context) error {
	for _, cancel := range p.cancels {
		cancel()
	}
	p.cancels = nil
	return workflow.Await(ctx, func() bool { return len(p.children) == 0 })
}

// childInput is the argument of the activities before and after the workflow of a child.
type childInput struct {
	Session  string   `json:"s"`
	Question Question `json:"q"`
	Output   Output   `json:"o"`
}

// called returns the call that a child agent answers.
func (w *Worker) called(ctx context.Context, in childInput) (*aycoder.CallRequest, error) {
	p, err := session.ReadPending(ctx, w.config.Store, in.Session)
	if err != nil {
		return nil, err
	}
	if p != nil {
		for i := range p.Calls {
			if c := &p.Calls[i]; questionKey(p, c.CallID) == in.Question.Key && short(c.Digest) == in.Question.Digest {
				return c, nil
			}
		}
	}
	return nil, sdk.NewNonRetryableApplicationError("no such open question", noQuestion, nil)
}

// begin is the activity that makes the session of a child agent. It returns the reference of its prompt.
func (w *Worker) begin(ctx context.Context, in childInput) (ref string, err error) {
	defer guard(&err)
	call, err := w.called(ctx, in)
	if err != nil {
		return "", failure(err)
	}
	f := w.config.Children[call.Tool]
	if f == nil {
		return "", failure(errors.New("not a tool of child agents here"))
	}
	m, err := f(ctx, in.Session, call)
	if err != nil {
		return "", failure(err)
	}
	id := childID(in.Session, in.Question)
	if err := create(ctx, w.config.Store, id); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", failure(err)
	}
	ref = refPrefix + hash(id)[:26] // the session takes it once, whoever begins
	return ref, failure(putOnce(ctx, w.config.References, ref, &message{Say: &aycoder.Steered{Message: m}}))
}

// report is the activity that makes the result of the call from the last message of the child.
func (w *Worker) report(ctx context.Context, in childInput) (_ Answer, err error) {
	defer guard(&err)
	call, err := w.called(ctx, in)
	if err != nil {
		return Answer{}, failure(err)
	}
	v, _, err := session.Read(ctx, w.config.Store, childID(in.Session, in.Question))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else it could not be made
		return Answer{}, failure(err)
	}
	var text string
	var untrusted bool
	if err == nil {
		messages := v.Messages(v.Head(""))
		untrusted = slices.ContainsFunc(messages, part.Untrusted)
		if n := len(messages); n > 0 && messages[n-1].Role == aycoder.RoleAssistant {
			text = messages[n-1].Text()
		}
	}
	end := in.Output.End
	failed := end != aycoder.EndDone && end != EndUnknown
	if failed {
		text = strings.TrimSpace(fmt.Sprintf("%s\n\n[the agent did not finish: %s]", text, end))
	}
	res := aycoder.TextResult(text)
	res.IsError, res.Untrusted = failed, untrusted
	result := call.Result(res)
	ref, err := putRef(ctx, w.config.References, &message{Result: &result})
	return Answer{Key: in.Question.Key, Digest: in.Question.Digest, Ref: ref}, failure(err)
}

// scheduled is the argument of the workflow of a schedule, and of its activity.
type scheduled struct {
	ID    string `json:"id"`
	Queue string `json:"queue"`
	Ref   string `json:"r"`
	Input Input  `json:"in"`
}

// Schedule makes a schedule of the server. At its times, a message is sent as by [Client.Say], to the workflow with the ID of start in
// its TaskQueue; each arrives once. opts needs an ID and a Spec; its Action is set. The Priority of start holds.
func (c *Client) Schedule(ctx context.Context, opts client.ScheduleOptions, start client.StartWorkflowOptions, in Input, m *aycoder.Message) (client.ScheduleHandle, error) {
	ref, err := c.put(ctx, &message{Say: &aycoder.Steered{Message: m, FollowUp: true}})
	if err != nil {
		return nil, err
	}
	opts.Action = &client.ScheduleWorkflowAction{ID: opts.ID, TaskQueue: start.TaskQueue, Priority: start.Priority,
		Workflow: ScheduledName, Args: []any{scheduled{ID: start.ID, Queue: start.TaskQueue, Ref: ref, Input: in}}}
	return c.Temporal.ScheduleClient().Create(ctx, opts)
}

// say is the workflow of a schedule.
func say(ctx workflow.Context, in scheduled) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	return workflow.ExecuteActivity(ctx, SayName, in).Get(ctx, nil)
}

// say is the activity of a schedule. Its message has a new reference each time, the same in each attempt.
func (w *Worker) say(ctx context.Context, in scheduled) (err error) {
	defer guard(&err)
	m, err := getRef(ctx, w.config.References, in.Ref)
	if errors.Is(err, fs.ErrNotExist) {
		return sdk.NewNonRetryableApplicationError("no such message", "NoMessage", nil)
	} else if err != nil {
		return failure(err)
	}
	info := activity.GetInfo(ctx)
	ref := refPrefix + hash(in.Ref + info.WorkflowExecution.RunID)[:26]
	if err := putOnce(ctx, w.config.References, ref, m); err != nil {
		return failure(err)
	}
	opts := client.StartWorkflowOptions{ID: in.ID, TaskQueue: in.Queue, Priority: info.Priority}
	_, err = activity.GetClient(ctx).SignalWithStartWorkflow(ctx, in.ID, SignalSteer, ref, opts, WorkflowName, in.Input)
	return failure(err)
}
