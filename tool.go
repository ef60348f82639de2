package aycoder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/aycoder/aycoder/internal/schema"
)

// Tool is something the model may call. Its methods are safe for concurrent use,
// and Spec always returns the same.
//
// Call runs one call. The arguments in inv were checked against the schema. It
// stops soon after ctx is cancelled; one that does not is abandoned and its late
// result thrown away. An error or a panic becomes an output that the model reads,
// so its text should say what to do instead; only [Fatal] ends the run.
//
// Optional abilities of a tool are interfaces of their own: [Planner], [Previewer].
type Tool interface {
	Spec() ToolSpec
	Call(ctx context.Context, inv *Invocation) (*ToolResult, error)
}

// Previewer is an optional ability of a [Tool]: it shows what a call would do, for
// the one who is asked to approve it. It changes nothing. What it returns is plain
// text; for a change to files, a unified diff. A [Planner] gets its plan in inv.Plan,
// and can return [EditPlan.Preview].
type Previewer interface {
	Preview(ctx context.Context, inv *Invocation) (string, error)
}

// Planner is an optional ability of a [Tool] that changes files: Plan returns the
// change that a call would make, and makes none. The loop asks for it when somebody is
// to be asked about the call: they are shown the plan, may cut it down, and the call
// then gets what was approved in [Invocation.Plan], to carry it out with
// Workspace.Apply. So what is approved is what runs, and what others write into the
// files meanwhile is merged. The result tells the model [EditPlan.OmittedText]. If the tool
// is a [Previewer] too, it gets the plan in [Invocation.Plan] to show it, and
// [EditPlan.Preview] does.
//
// An error says that the call cannot work. Nobody is asked then, Call is not called,
// and the model reads the error. Plan is safe for concurrent use, and may be called
// several times for a call: if calls of the same message before it touch the same
// files, or if there is an error while such calls are open, it is called again after
// them. It stops soon after ctx is cancelled.
type Planner interface {
	Plan(ctx context.Context, inv *Invocation) (EditPlan, error)
}

// safePlan calls Plan. A panic is an error.
func safePlan(ctx context.Context, p Planner, inv *Invocation) (plan EditPlan, err error) {
	defer func() {
		if v := recover(); v != nil {
			base := &ToolError{Tool: inv.Name, CallID: inv.ID}
			err = &ToolPanicError{ToolError: base, Value: v, Stack: debug.Stack()}
		}
	}()
	if plan, err = p.Plan(ctx, inv); err != nil {
		_ = err.Error() // one that panics does so here
	}
	return plan, err
}

// ToolSpec describes a [Tool] to the model and to those who decide about its calls.
type ToolSpec struct {
	// Name is 1 to 64 letters, digits, "_" and "-".
	Name string
	// Description is written for the model: what it does, when to use it.
	Description string
	// Schema is the JSON schema of the arguments, an object.
	Schema json.RawMessage
	// Effect decides when a call may start. Default: EffectUnknown, which is treated
	// like EffectWrite.
	Effect Effect
	// Destructive says that a call may destroy what cannot be brought back, OpenWorld
	// that it reaches things outside the workspace. Both are hints, as in the Model
	// Context Protocol.
	Destructive, OpenWorld bool
	// Subject names the argument that says what a call is about, for rules and for
	// display. The zero value means that the tool has none.
	Subject Subject
}

// Subject is the argument that says what a call is about.
type Subject struct {
	// Arg is the name of a top-level string argument.
	Arg string
	// Kind says how a [Rule]'s pattern is matched against it.
	Kind SubjectKind
}

// SubjectKind says how a pattern is matched against a [Subject].
type SubjectKind int

// The kinds of a [Subject].
const (
	SubjectText    SubjectKind = iota // any text; * matches anything
	SubjectPath                       // a slash-separated path; * stays within a folder, ** does not
	SubjectCommand                    // a shell command; * matches words, never an operator
	SubjectURL                        // an http or https address; matched is its host, * is any part of a name
	SubjectPatch                      // a patch as apply_patch takes it; matched are the paths in it, for allow rules all
)

// Effect says what a tool does to the world, and so when a call may start.
type Effect int

// The effects.
const (
	// EffectUnknown is treated like EffectWrite.
	EffectUnknown Effect = iota
	// EffectReadOnly changes nothing. A call may start while the model is still
	// talking, beside others.
	EffectReadOnly
	// EffectWrite changes something. A call starts after the model has finished, in
	// order, alone.
	EffectWrite
)

// Invocation is one call, as a tool sees it.
type Invocation struct {
	// ID is the call's, Name the tool's.
	ID, Name string
	// Key is stable for this call in this run, such as "t3/tool/toolu_01": an
	// idempotency key.
	Key string
	// Run is the id of the run.
	Run string
	// Depth is how many runs the run is inside of: 0 for one that a host started. See
	// [WithParent].
	Depth int
	// Args is the JSON text of the arguments, an object that fits the schema: the
	// model's own, or if it wrote values as text ("3" for 3) with these as they were meant.
	Args json.RawMessage
	// Plan is what was approved, if the tool is a [Planner] and somebody was asked: the
	// call makes this change and no other, and its result tells [EditPlan.OmittedText]. So it
	// is where a rule has allowed the call that names a file which runs code, see
	// [Workspace]: only with [WithApproved] is such a file written. It is nil if nobody was
	// asked; the tool then plans itself.
	Plan *EditPlan
	// ReadOnly says that nobody approved the call: it runs only because the [Approver]
	// takes it to change nothing. A tool whose calls might do more holds it to that where
	// the system has a way to, as bash of package tools does. A tool that wraps another
	// passes it on, as every copy of the Invocation does.
	ReadOnly bool

	progress func(Progress)
	emit     func(context.Context, Event) error
	alert    func(event, detail string)
	run      *run
	atEnd    func(func())
}

// NewInvocation returns an invocation, for calling a tool outside a run, in a test
// or in a loop of one's own. The function gets the progress reports; it may be nil.
func NewInvocation(id, name string, args json.RawMessage, progress func(Progress)) *Invocation {
	return &Invocation{ID: id, Name: name, Key: id, Args: args, progress: progress}
}

// Progress tells how far a call is. It never blocks, and reports may be dropped
// when the consumer is slow. Reports after the call has returned are ignored.
func (inv *Invocation) Progress(p Progress) {
	if inv.progress != nil {
		inv.progress(p)
	}
}

// WithProgress returns a copy whose progress reports go to a function, for a tool that
// wraps another one. The function may pass them on to the invocation it was made of.
func (inv *Invocation) WithProgress(report func(Progress)) *Invocation {
	c := *inv
	c.progress = report
	return &c
}

// Cleanup has f called when the run is over, however it ends: for what a tool starts
// in one call and needs in the next, as a process or a connection. The run waits for
// f as it waits for tools that were cancelled: f works beside them and returns soon.
// A run that is suspended is over, too. If the run is over already, f is called at once. Cleanup reports false, and does
// nothing, where a call is not part of a longer run: in [Loop.Turn], and for an
// invocation of [NewInvocation]. Then the host has to end what the tool has started.
func (inv *Invocation) Cleanup(f func()) bool {
	if inv.atEnd == nil {
		return false
	}
	inv.atEnd(f)
	return true
}

// Alert reports a security event of the call for the audit log: what was refused,
// masked or is missing, in a stable word such as "masked_secret", and in a few words
// for people, without a secret in them. It never blocks.
func (inv *Invocation) Alert(event, detail string) {
	if inv.alert != nil {
		inv.alert(event, detail)
	}
}

// Progress is how far a call is. Current and Total count whatever the tool counts;
// Total is 0 where it is not known.
type Progress struct {
	Current int64  `json:"current"`
	Total   int64  `json:"total,omitempty"`
	Message string `json:"message,omitempty"`
}

// ToolResult is what a call gave.
type ToolResult struct {
	// Parts are for the model: [Text] and [Media].
	Parts []Part
	// IsError tells the model that the call did not do what it was to do.
	IsError bool
	// Summary is a few words for people: "9 lines", "exit 1".
	Summary string
	// Untrusted says that strangers may have written what is in the parts: a page of the
	// web. A policy may ask more from then on.
	Untrusted bool
	// Usage counts the tokens of models that the call asked itself; the loop adds it to
	// that of the run.
	Usage Usage
	// Changes says what became of the files that the call was to change: what
	// Workspace.Apply of package workspace returned. It is for the host, see [ToolFinished]; the model
	// reads Parts only.
	Changes *ApplyResult
}

// TextResult returns a result of one text.
func TextResult(text string) *ToolResult {
	return &ToolResult{Parts: []Part{&Text{Text: text}}}
}

// ErrorResult returns a result that tells the model what went wrong.
func ErrorResult(text string) *ToolResult {
	return &ToolResult{Parts: []Part{&Text{Text: text}}, IsError: true}
}

// Text returns the text of the result.
func (r *ToolResult) Text() string { return (&Message{Parts: r.Parts}).Text() }

// ToolFunc runs a call; it is what a [ToolMiddleware] wraps.
type ToolFunc func(ctx context.Context, inv *Invocation) (*ToolResult, error)

// ToolMiddleware wraps every call of every tool: telemetry, timeouts, masking.
type ToolMiddleware func(next ToolFunc) ToolFunc

// ToolOption sets a property of a tool that [NewTool] makes.
type ToolOption func(*ToolSpec) error

// WithEffect says what the tool does to the world. Default: EffectUnknown.
func WithEffect(e Effect) ToolOption {
	return func(s *ToolSpec) error {
		if e < EffectUnknown || e > EffectWrite {
			return fmt.Errorf("WithEffect: no such effect: %d", e)
		}
		s.Effect = e
		return nil
	}
}

// WithSubject names the argument that says what a call is about, for rules and for
// display. Default: none.
func WithSubject(kind SubjectKind, arg string) ToolOption {
	return func(s *ToolSpec) error {
		s.Subject = Subject{Arg: arg, Kind: kind}
		return nil
	}
}

// WithHints sets the hints Destructive and OpenWorld. Default: both false.
func WithHints(destructive, openWorld bool) ToolOption {
	return func(s *ToolSpec) error {
		s.Destructive, s.OpenWorld = destructive, openWorld
		return nil
	}
}

// NewTool makes a tool of a function. In is a struct whose fields are the
// arguments; the schema is made from it: the json tag names a field, a field
// without omitempty or omitzero is required, no other keys are allowed, and
// jsonschema tags add the rest:
//
//	type args struct {
//		Path  string `json:"path" jsonschema:"description=File to read"`
//		Limit int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=2000"`
//		Mode  string `json:"mode,omitempty" jsonschema:"enum=text,enum=hex"`
//	}
//
// Arguments are checked against the schema before fn is called. Integers may be
// written 1.0 or 1e3, as some models do, and numbers, booleans, lists and objects as
// text ("3", "[1]") where the schema takes no text. It is an error if In is not a
// struct, contains itself, or the name is not valid.
func NewTool[In any](name, description string, fn func(context.Context, *Invocation, In) (*ToolResult, error), opts ...ToolOption) (Tool, error) {
	spec := ToolSpec{Name: name, Description: description}
	raw, err := schema.Reflect[In]()
	if err != nil {
		return nil, fmt.Errorf("new tool %q: %w", name, err)
	}
	spec.Schema = raw
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("new tool %q: %w", name, isNilError("option"))
		}
		if err := opt(&spec); err != nil {
			return nil, fmt.Errorf("new tool %q: %w", name, err)
		}
	}
	compiled, err := checkSpec(&spec)
	if err != nil {
		return nil, fmt.Errorf("new tool %q: %w", name, err)
	}
	if fn == nil {
		return nil, fmt.Errorf("new tool %q: function is nil", name)
	}
	call := func(ctx context.Context, inv *Invocation) (*ToolResult, error) {
		in, err := decode[In](compiled, inv.Args)
		if err != nil {
			base := &ToolError{Tool: name, CallID: inv.ID}
			return nil, &ToolArgsError{ToolError: base, Problems: []string{schema.Problem(err)}}
		}
		return fn(ctx, inv, in)
	}
	return &funcTool{spec, compiled, call}, nil
}

// decode decodes arguments that fit the schema. Integers that are written 1.0 fit, and
// values that are written as text; they are put in the form that encoding/json takes
// when it has refused them.
func decode[In any](s *schema.Schema, args json.RawMessage) (in In, err error) {
	if json.Unmarshal(args, &in) == nil {
		return in, nil
	}
	var again In
	err = json.Unmarshal(s.Normalize(s.Coerce(args)), &again)
	return again, err
}

type funcTool struct {
	spec   ToolSpec
	schema *schema.Schema
	call   ToolFunc
}

func (t *funcTool) Spec() ToolSpec { return t.spec }

// Call checks the arguments, as the loop does before it calls what is inside.
func (t *funcTool) Call(ctx context.Context, inv *Invocation) (*ToolResult, error) {
	if inv == nil {
		return nil, isNilError("Invocation")
	}
	args, err := fitArgs(t.schema, inv.ID, t.spec.Name, inv.Args)
	if err != nil {
		return nil, err
	}
	fit := *inv
	fit.Args = args
	return t.call(ctx, &fit)
}

// CheckArgs checks the arguments of a call against the schema, as the loop does, for
// those who call tools themselves. It returns them as a tool gets them: values that the
// model wrote as text, where the schema wants no text, are what the text says, and
// integers such as 2.0 are in plain digits. The error is a [*ToolArgsError], or a
// [*ConfigError] if the spec is wrong.
func (s *ToolSpec) CheckArgs(args json.RawMessage) (json.RawMessage, error) {
	c, err := checkSpec(s)
	if err != nil {
		return nil, &ConfigError{Option: fmt.Sprintf("tool %q", s.Name), Err: err}
	}
	return fitArgs(c, "", s.Name, args)
}

// fitArgs is CheckArgs with a schema that was checked. It returns args themselves if
// they are as the tool gets them.
func fitArgs(c *schema.Schema, id, tool string, args json.RawMessage) (json.RawMessage, error) {
	fit, problems := c.Fit(args)
	if len(problems) > 0 {
		base := &ToolError{Tool: tool, CallID: id}
		return nil, &ToolArgsError{ToolError: base, Problems: problems}
	}
	return fit, nil
}

// isToolName reports whether s is 1 to 64 letters, digits, "_" and "-".
func isToolName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return s != "" && len(s) <= 64 && strings.Trim(s, letters) == ""
}

// checkSpec refuses what no provider takes, and returns the compiled schema.
func checkSpec(s *ToolSpec) (*schema.Schema, error) {
	if !isToolName(s.Name) {
		return nil, errors.New("name must be 1 to 64 letters, digits, _ and -")
	}
	c, err := schema.Compile(s.Schema)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if s.Subject.Arg != "" && !c.HasProperty(s.Subject.Arg) {
		return nil, fmt.Errorf("subject %q is not an argument", s.Subject.Arg)
	}
	return c, nil
}
