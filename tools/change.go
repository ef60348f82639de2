package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/diff"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/view"
	"github.com/aycoder/aycoder/merge"
	"github.com/aycoder/aycoder/workspace"
)

// Tools that change files share one way: find the texts, propose new ones, make a plan,
// have it approved, apply it. Only the second step differs. A plan that a person has seen
// is carried out as it was: it is never made again from files that may have changed since.

// maxDiff bounds the diff that a result shows: more would cost the model more than reading
// the file.
const maxDiff = 48 << 10 // bytes of the diffs of a result

// changer is a tool that changes files. It makes a plan, and carries out that plan or the
// one that was approved.
type changer[In any] struct {
	aycoder.Tool
	ws   FS
	file string // of the subject
	find finder[In]
	turn *semaphore.Weighted // held during a change, so that no other makes its plan stale

	resolve func(context.Context, *edit.FileResult) (string, bool) // see WithConflicts
}

// Spec implements [aycoder.Tool].
func (c *changer[In]) Spec() aycoder.ToolSpec {
	s := c.Tool.Spec()
	s.Subject.File = c.file
	return s
}

var (
	_ aycoder.Planner   = (*changer[editArgs])(nil)
	_ aycoder.Previewer = (*changer[editArgs])(nil)
)

// finder computes what a call would change.
type finder[In any] func(ctx context.Context, from texts, in In) (*proposal, error)

// proposal is the change that a call would make. The notes tell the model how its
// arguments were interpreted.
type proposal struct {
	edits []edit.File
	notes []note
}

// plan makes the plan, and tells the model what to do if it is too large.
func (p *proposal) plan() (edit.Plan, error) {
	for i := range p.edits {
		p.edits[i].Memo = memoOf(p.notes, p.edits[i].Path)
	}
	plan, err := edit.NewPlan(p.edits...)
	if e, ok := errors.AsType[*edit.LimitError](err); ok {
		return plan, problemf("too_large", "the change is larger than one call can make (at most %d %s); "+
			"make it in several calls", e.Max, e.Limit)
	}
	return plan, err
}

// about describes a tool.
type about struct {
	name, description string
	subject           aycoder.Subject
}

// newChanger makes a tool that changes files. Each makes a plan first, so that a question
// can show the change before it is made.
func newChanger[In any](ws FS, opts []Option, what about, find finder[In]) (aycoder.Tool, error) {
	conf, err := configure(ws, opts)
	if err != nil {
		return nil, err
	}
	c := &changer[In]{ws: ws, file: what.subject.File, find: find, turn: semaphore.NewWeighted(1), resolve: conf.resolve}
	t, err := aycoder.NewTool(what.name, what.description, guard(c.call),
		aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithSubject(what.subject.Kind, what.subject.Arg))
	if err != nil {
		return nil, err
	}
	c.Tool = t
	return c, nil
}

// NewPlanner returns a tool that changes files, and is an [aycoder.Planner], for changes that are computed
// elsewhere, such as a rename by a language server. propose returns what a call would change, without changing
// anything; it may be called several times for a call, and its error is for the model. Everything else is as
// in [EditFile]: the plan is shown before it is carried out, merged with what the user changes meanwhile, and
// shown to the model as a diff. For the subject, see [aycoder.Subject]. Rules know only the file that it names: it is
// empty if a call may change others, which a rule may forbid.
func NewPlanner[In any](
	ws FS, name, description string, subject aycoder.Subject,
	propose func(context.Context, In) ([]edit.File, error), opts ...Option,
) (aycoder.Tool, error) {
	if propose == nil {
		return nil, fmt.Errorf("new tool %q: function is nil", name)
	}
	find := func(ctx context.Context, _ texts, in In) (*proposal, error) {
		files, err := propose(ctx, in)
		return &proposal{edits: files}, err
	}
	return newChanger(ws, opts, about{name, description, subject}, find)
}

// Plan implements [aycoder.Planner]. It computes the change without writing to any file.
func (c *changer[In]) Plan(ctx context.Context, inv *invocation) (edit.Plan, error) {
	var in In
	if err := checkText(inv.Args); err != nil {
		return edit.Plan{}, err
	}
	if err := json.Unmarshal(inv.Args, &in); err != nil {
		return edit.Plan{}, problemf("invalid_arguments", "read arguments: %v", err)
	}
	plan, err := c.make(workspace.WithCall(ctx, inv), in)
	return plan, readable(err)
}

// Preview implements [aycoder.Previewer]. It returns the preview of the plan.
func (c *changer[In]) Preview(ctx context.Context, inv *invocation) (string, error) {
	if inv.Plan != nil {
		return inv.Plan.Preview(), nil
	}
	plan, err := c.Plan(ctx, inv)
	return plan.Preview(), err
}

// make makes a plan from the current content of the files.
func (c *changer[In]) make(ctx context.Context, in In) (edit.Plan, error) {
	if err := context.Cause(ctx); err != nil {
		return edit.Plan{}, err
	}
	p, err := c.find(ctx, texts{within(ctx, c.ws), c.resolve != nil}, in)
	if err != nil {
		return edit.Plan{}, err
	}
	return p.plan()
}

// readable returns an error whose text begins with its kind.
func readable(err error) error {
	if e, ok := errors.AsType[*edit.ConflictError](err); ok {
		return &conflict{e}
	}
	if e, ok := errors.AsType[*workspace.Error](err); ok {
		return &problem{string(e.Kind), printable(e.Error())}
	}
	if e, ok := errors.AsType[*problem](err); ok {
		return &problem{e.kind, printable(e.text)}
	}
	return err
}

// conflict describes a conflict to the model.
type conflict struct{ *edit.ConflictError }

func (c *conflict) Error() string { return c.Kind() + ": " + c.ModelText() }
func (c *conflict) Unwrap() error { return c.ConflictError }

// Call carries out the plan in inv. If inv has no plan, because nobody was asked to approve the
// call, Call makes a plan from the arguments. Otherwise it ignores the arguments, because the
// plan holds everything that they say.
func (c *changer[In]) Call(ctx context.Context, inv *invocation) (*result, error) {
	if inv == nil || inv.Plan == nil {
		return c.Tool.Call(ctx, inv)
	}
	plan := withMoved(*inv.Plan)
	ctx = workspace.WithCall(ctx, inv)
	r, err := c.inTurn(ctx, func() (*result, error) { return c.apply(ctx, plan, workspace.WithApproved(plan.Digest())) })
	if err != nil {
		return explain(err)
	}
	return r, nil
}

// call makes a plan that nobody was asked about, and carries it out.
func (c *changer[In]) call(ctx context.Context, _ *invocation, in In) (*result, error) {
	return c.inTurn(ctx, func() (*result, error) {
		plan, err := c.make(ctx, in)
		if err != nil {
			return nil, err
		}
		return c.apply(ctx, plan)
	})
}

// inTurn makes a change while no other is made: a second one would be planned on a file
// that the first is changing.
func (c *changer[In]) inTurn(ctx context.Context, change func() (*result, error)) (*result, error) {
	if c.turn.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer c.turn.Release(1)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return change()
}

// apply carries out a plan.
func (c *changer[In]) apply(
	ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption,
) (*result, error) {
	if len(plan.Files()) == 0 {
		return textResult(plan.OmittedText()+"Nothing was changed.\n", "nothing changed"), nil
	}
	res, err := c.ws.Apply(ctx, plan, opts...)
	if err == nil {
		return c.done(ctx, plan, res), nil
	}
	if r, done := c.resolved(ctx, plan, err, len(opts) > 0); done {
		return r, nil
	}
	if e, ok := errors.AsType[*edit.ConflictError](err); ok && res != nil {
		r := conflictResult(e)
		r.Changes = res
		if left := plan.OmittedText(); left != "" {
			r.Parts = append(r.Parts, &aycoder.Text{Text: left})
		}
		return r, nil
	}
	return nil, err
}

// maxResolved is how often a conflict of one call is put to a person: each time, somebody has changed the file
// again.
const maxResolved = 8

// resolved lets somebody resolve the conflicts with which a plan failed, and carries the resolution out. It
// reports false if the conflict stays.
func (c *changer[In]) resolved(ctx context.Context, made edit.Plan, err error, approved bool) (*result, bool) {
	plan, kept := made, []edit.FileResult(nil)
	for range maxResolved {
		e, ok := errors.AsType[*edit.ConflictError](err)
		if !ok || c.resolve == nil || ctx.Err() != nil {
			return nil, false
		}
		if plan, ok = e.Resolve(plan, func(f *edit.FileResult) (string, bool) { return c.resolve(ctx, f) }); !ok {
			return nil, false
		}
		kept = append(kept, e.Files...)
		if len(plan.Files()) == 0 {
			r := conflictResult(e)
			r.Parts = []aycoder.Part{&aycoder.Text{Text: "conflict: the user was asked, and keeps the file as it is. Read it again.\n"}}
			return r, true
		}
		var opts []workspace.ApplyOption
		if approved {
			opts = append(opts, workspace.WithApproved(plan.Digest()))
		}
		var res *edit.Result
		if res, err = c.ws.Apply(ctx, plan, opts...); err == nil {
			res.Resolved(made, kept)
			return c.done(ctx, made, res), true
		}
	}
	return nil, false
}

// conflictResult reports a conflict to the model and to the host.
func conflictResult(e *edit.ConflictError) *result {
	r := aycoder.ErrorResult((&conflict{e}).Error())
	r.Summary = strings.ReplaceAll(e.Kind(), "_", " ")
	r.Changes = &edit.Result{Files: e.Files}
	return r
}

// unshown is in a text of package edit that says not everything.
const unshown = "[more is not shown]"

// done reports the changes. The model has then been shown the new content of the files.
func (c *changer[In]) done(ctx context.Context, plan edit.Plan, res *edit.Result) *result {
	var b strings.Builder
	omitted := plan.OmittedText()
	b.WriteString(omitted)
	tellNotes(&b, plan, res)
	var stat diff.Stat
	merged := false
	for i := range res.Files {
		f := &res.Files[i]
		merged = merged || f.Outcome != edit.OutcomeApplied || f.OtherNames || len(f.Sidecars) > 0
		planned, _ := plan.File(f.Path)
		d := changeOf(f, planned)
		stat = stat.Add(d.Stat())
		if f.Kind == edit.Change && f.Outcome == edit.OutcomeApplied {
			b.WriteString(d.Brief(maxDiff / len(res.Files)))
		} else if f.Outcome == edit.OutcomeApplied {
			fmt.Fprintf(&b, "%s: %s.\n", showPath(f.Path), wholeFile(f.Kind, d.Stat()))
		}
	}
	told := ""
	if merged {
		told = res.ModelText()
		b.WriteString(told)
	}
	for i := range res.Files {
		planned, _ := plan.File(res.Files[i].Path)
		c.learn(ctx, &res.Files[i], planned, omitted, told)
	}
	r := textResult(printable(b.String()), fmt.Sprintf("+%d −%d", stat.Insertions, stat.Deletions))
	r.Changes = res
	return r
}

// learn records what the model knows of a file now: its content, except for lines of the
// user's that the model was not shown. If those counted as seen, the next write_file
// would delete them.
func (c *changer[In]) learn(ctx context.Context, f *edit.FileResult, planned edit.File, omitted, told string) {
	shown := c.ws.Seen().For(ctx)
	switch {
	case !f.Exists:
		return
	case strings.Contains(omitted, unshown): // not even the text that was approved is known
		shown.AddPart(f.Path, f.Content)
		return
	}
	last, contents := shown.Hash(f.Path), shown.Contents(f.Path)
	if planned.Kind != edit.Create {
		shown = shown.After(planned.Base)
	}
	add := shown.AddPart
	switch {
	case planned.Kind == edit.Create || last != "" && last == hashOf(planned.Base):
		add = shown.Add
		fallthrough
	case len(contents) == 0, slices.Contains(contents, planned.Base):
		if strings.Contains(told, unshown) {
			add(f.Path, planned.Proposed)
		} else {
			add(f.Path, f.Content)
		}
	default: // the edit was found in the current text, beside newer lines
		shown = shown.After(contents[0])
		add = shown.AddPart
		if last == hashOf(contents[0]) {
			add = shown.Add
		}
		m := merge.Merge([]byte(planned.Base), []byte(contents[0]), []byte(planned.Proposed))
		if m.Clean() {
			add(f.Path, string(m.Bytes()))
		}
	}
}

// changeOf returns the change that a call made, compared with the file right before it.
func changeOf(f *edit.FileResult, planned edit.File) *diff.File {
	before, from, to := planned.Base, f.Path, f.Path
	if f.Merge != nil {
		before = f.Ours
	}
	if f.Kind == edit.Create {
		from = ""
	}
	if f.Kind == edit.Delete {
		to = ""
	}
	return diff.Compare(view.Bytes(before), view.Bytes(f.Content), diff.WithNames(from, to))
}

// wholeFile says in a few words what became of a file that was created or deleted.
func wholeFile(kind edit.Kind, s diff.Stat) string {
	if kind == edit.Delete {
		return "deleted"
	}
	return "created, " + plural(s.Insertions, "line")
}
