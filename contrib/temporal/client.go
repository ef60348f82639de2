package temporal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// Client starts runs, answers their questions and sends them messages, from any process. Contents go through the stores; the
// engine gets references.
type Client struct {
	// Temporal is a client of the server. Its data converter and its other options apply.
	Temporal client.Client
	// Store and References are those of the [Config] of the workers.
	Store, References journal.Store
}

// message is the content of a reference.
type message struct {
	Say      *aycoder.Steered    `json:"say,omitempty"`
	Decision *aycoder.Decision   `json:"decision,omitempty"`
	Result   *aycoder.CallResult `json:"result,omitempty"`
}

// Start starts a workflow that answers a message, in the session of in. If the message is nil, the workflow continues the
// run of the session. opts needs an ID, such as that of the session, and a TaskQueue. If a workflow with the ID works already, the
// error is a [*serviceerror.WorkflowExecutionAlreadyStarted], and the message was not sent: see [Client.Say].
func (c *Client) Start(ctx context.Context, opts client.StartWorkflowOptions, in Input, m *aycoder.Message) (client.WorkflowRun, error) {
	opts.WorkflowExecutionErrorWhenAlreadyStarted = true // else it would take the message, and give it to nobody
	ref, err := "", error(nil)
	if m != nil {
		if ref, err = c.put(ctx, &message{Say: &aycoder.Steered{Message: m}}); err != nil {
			return nil, err
		}
		in.Say = append(in.Say, ref)
	}
	run, err := c.Temporal.ExecuteWorkflow(ctx, opts, WorkflowName, in)
	return run, c.sent(ctx, ref, err)
}

// Say sends a message to a session: to the workflow with the ID of opts, for the end of its run, or, if none works, to a new one.
func (c *Client) Say(ctx context.Context, opts client.StartWorkflowOptions, in Input, m *aycoder.Message) (client.WorkflowRun, error) {
	ref, err := c.put(ctx, &message{Say: &aycoder.Steered{Message: m, FollowUp: true}})
	if err != nil {
		return nil, err
	}
	return c.Temporal.SignalWithStartWorkflow(ctx, opts.ID, SignalSteer, ref, opts, WorkflowName, in)
}

// Steer sends a message to the run of a workflow, as [aycoder.Control] does. A message that comes when the run is over
// begins another one in the workflow, unless this has ended, too: then the error is one of the server.
func (c *Client) Steer(ctx context.Context, workflow string, m *aycoder.Steered) error {
	ref, err := c.put(ctx, &message{Say: m})
	if err != nil {
		return err
	}
	return c.sent(ctx, ref, c.Temporal.SignalWorkflow(ctx, workflow, "", SignalSteer, ref))
}

// Pending returns the suspended run of a session with its questions, or nil: see [session.ReadPending].
func (c *Client) Pending(ctx context.Context, id string) (*aycoder.Pending, error) {
	return session.ReadPending(ctx, c.Store, id)
}

// Decide answers a question of the run. d has the CallID and the Digest of one of the Requests of [Client.Pending]. If the
// question is not open any more, the error is one of the update.
func (c *Client) Decide(ctx context.Context, workflow string, p *aycoder.Pending, d aycoder.Decision) error {
	ref, err := c.put(ctx, &message{Decision: &d})
	if err != nil {
		return err
	}
	return c.answer(ctx, workflow, Answer{Key: questionKey(p, d.CallID), Digest: short(d.Digest), Ref: ref})
}

// Answer gives the result of a call of a declared tool: one of the Calls of [Client.Pending].
func (c *Client) Answer(ctx context.Context, workflow string, p *aycoder.Pending, r aycoder.CallResult) error {
	ref, err := c.put(ctx, &message{Result: &r})
	if err != nil {
		return err
	}
	return c.answer(ctx, workflow, Answer{Key: questionKey(p, r.CallID), Digest: short(r.Digest), Ref: ref})
}

func (c *Client) answer(ctx context.Context, workflow string, a Answer) error {
	h, err := c.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflow, UpdateName: UpdateAnswer, Args: []any{a}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = h.Get(ctx, nil)
	}
	return c.sent(ctx, a.Ref, err)
}

// sent removes the content of a reference if the server has refused it, so that nobody reads it. After any other error,
// the workflow may have it all the same.
func (c *Client) sent(ctx context.Context, ref string, err error) error {
	_, gone := errors.AsType[*serviceerror.NotFound](err)
	_, works := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err)
	app, closed := errors.AsType[*sdk.ApplicationError](err)
	if ref != "" && (gone || works || closed && app.Type() == noQuestion) {
		_ = c.references().Delete(context.WithoutCancel(ctx), ref) // what stays costs a few bytes
	}
	return err
}

// Status asks a workflow what it does.
func (c *Client) Status(ctx context.Context, workflow string) (s Status, err error) {
	v, err := c.Temporal.QueryWorkflow(ctx, workflow, "", QueryStatus)
	if err == nil {
		err = v.Get(&s)
	}
	return s, err
}

func (c *Client) put(ctx context.Context, m *message) (string, error) {
	return putRef(ctx, c.references(), m)
}

func (c *Client) references() journal.Store {
	if c.References != nil {
		return c.References
	}
	return c.Store
}

// questionKey is the Key of the [Question] about a call.
func questionKey(p *aycoder.Pending, call string) string {
	return safeKey((&aycoder.RunTool{Turn: p.State.Turn() + 1, Call: &aycoder.ToolUse{ID: call}}).Key())
}

// refPrefix begins the id of each reference. Each has a journal to itself, so that writers do not wait for each other.
const refPrefix = "ref-"

func isRef(ref string) bool {
	return len(ref) == len(refPrefix)+26 && strings.HasPrefix(ref, refPrefix) && journal.CheckID(ref) == nil
}

// putRef stores the content of a new reference.
func putRef(ctx context.Context, store journal.Store, m *message) (string, error) {
	ref := refPrefix + strings.ToLower(rand.Text())
	return ref, putAs(ctx, store, ref, m)
}

// putOnce stores the content of a reference, unless it is there.
func putOnce(ctx context.Context, store journal.Store, ref string, m *message) error {
	if _, err := getRef(ctx, store, ref); err == nil {
		return nil
	}
	return putAs(ctx, store, ref, m)
}

// putAs stores the content of a reference. That of an earlier attempt may be there, with or without its content.
func putAs(ctx context.Context, store journal.Store, ref string, m *message) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	j, err := store.Create(ctx, ref)
	if errors.Is(err, fs.ErrExist) {
		j, err = store.Open(ctx, ref, true)
	}
	if err != nil {
		return err
	}
	return errors.Join(j.Append(ctx, true, line), j.Close())
}

// getRef reads the content of a reference. Without it, errors.Is(err, fs.ErrNotExist) is true.
func getRef(ctx context.Context, store journal.Store, ref string) (m *message, err error) {
	if !isRef(ref) {
		return nil, fs.ErrNotExist
	}
	j, err := store.Open(ctx, ref, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	for line, err := range j.Records(ctx) {
		if err != nil {
			return nil, err
		}
		m = new(message)
		return m, json.Unmarshal(line, m)
	}
	return nil, fs.ErrNotExist
}

// deliver gives messages of the user to the session, each once.
func (w *Worker) deliver(ctx context.Context, l *live, refs []string) error {
	for _, ref := range refs {
		m, err := getRef(ctx, w.config.References, ref)
		var say aycoder.Steered
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was delivered, or the session refuses the empty message
		case err != nil:
			return err
		case m.Say != nil && m.Say.Message != nil:
			say = *m.Say
		}
		var parts []aycoder.Part
		if say.Message != nil {
			parts = say.Message.Parts
		}
		if err := l.agent.Session.SteerOnce(ctx, ref, "", parts, say.FollowUp); err != nil {
			return err
		}
	}
	return nil
}

// forget removes the contents of references that the session has taken.
func (w *Worker) forget(ctx context.Context, in stepInput) {
	refs := in.Say
	for _, a := range in.Answers {
		refs = append(refs, a.Ref)
	}
	for _, ref := range refs {
		if isRef(ref) {
			_ = w.config.References.Delete(ctx, ref) // what stays costs a few bytes
		}
	}
}

// fits reports whether a decision is about an open question, which a worker that was lost may have begun to ask again.
func fits(p *aycoder.Pending, d *aycoder.Decision) bool {
	return slices.ContainsFunc(p.Requests, func(q aycoder.ApprovalRequest) bool { return q.CallID == d.CallID && q.Digest == d.Digest }) ||
		slices.ContainsFunc(p.State.Outstanding(), func(a aycoder.Action) bool {
			ask, ok := a.(*aycoder.AskApproval)
			return ok && ask.Call.ID == d.CallID
		})
}

// answers adds those answers to the input of a run that fit its questions. A result that was refused is an error for the model.
func (w *Worker) answers(ctx context.Context, p *aycoder.Pending, list []Answer, refused map[string]error, in *aycoder.Input) error {
	for _, a := range list {
		m := &message{}
		if a.Ref != "" {
			var err error
			if m, err = getRef(ctx, w.config.References, a.Ref); errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return err
			}
		}
		d := m.Decision
		for i := range p.Requests {
			if q := &p.Requests[i]; a.Ref == "" && questionKey(p, q.CallID) == a.Key && short(q.Digest) == a.Digest {
				d = &aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Deny("")}
				if a.Allow {
					d.Verdict = aycoder.Allow()
				}
			}
		}
		if d != nil && questionKey(p, d.CallID) == a.Key && short(d.Digest) == a.Digest && fits(p, d) {
			in.Decisions = append(in.Decisions, *d)
		}
		for i := range p.Calls {
			if q := &p.Calls[i]; m.Result != nil && m.Result.CallID == q.CallID && m.Result.Digest == q.Digest && questionKey(p, q.CallID) == a.Key {
				r := *m.Result
				if err := refused[q.CallID]; err != nil {
					res := aycoder.TextResult(fmt.Sprint("the report of the agent does not fit: ", err))
					res.IsError = true
					r = q.Result(res)
				}
				in.Results = append(in.Results, r)
			}
		}
	}
	return nil
}

// short is as much of a digest as the history has.
func short(digest string) string { return digest[:min(16, len(digest))] }

// safeKey returns the key of a step for the history: without the number of the attempt, and with nothing but an id.
func safeKey(key string) string {
	head, rest, _ := strings.Cut(key, "/")
	head, _, _ = strings.Cut(head, ".")
	kind, id, call := strings.Cut(rest, "/")
	if !call || kind == "model" {
		return head + "/" + kind
	}
	return head + "/" + kind + "/" + safeID(id)
}

func safeID(id string) string {
	if id == "" || len(id) > 64 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return "sha256-" + hash(id)[:16]
	}
	return id
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// ofCall reports whether a key is that of a call.
func ofCall(key, id string) bool { return strings.HasSuffix(key, "/tool/"+safeID(id)) }
