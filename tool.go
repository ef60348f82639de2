package aycoder

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/aycoder/aycoder/internal/schema"
)

// Tool is a tool that the model may call. Its methods are safe for concurrent use, and
// Spec always returns the same value.
//
// Call runs one call. The arguments in inv match the schema. If it returns an error or panics,
// the model reads that as the output, so the text should say what to do instead. Only an error
// marked by [Fatal] ends the run. The text of a result is valid UTF-8, since anything else is
// replaced, and short: the model gets no more than [Limits].ToolOutput of it.
//
// When ctx is cancelled, Call must return within 100 ms, with context.Cause(ctx) or an
// error that wraps it and says what is done already. A partial result without an error
// would look complete. A call that does not return within [Limits].Grace is abandoned
// and its result is discarded. Nothing that Call started goes on after it has returned.
//
// A tool may have more abilities, which are optional interfaces: [Planner] and [Previewer].
type Tool interface {
	Spec() ToolSpec
	Call(ctx context.Context, inv *Invocation) (*ToolResult, error)
}

// Previewer is an optional ability of a [Tool]: Preview shows what a call would do, for
// the person who is asked to approve it, and changes nothing. It returns plain text, or
// a unified diff for a change to files. A tool that is a [Planner] too gets its plan in
// inv.Plan, and can return [EditPlan.Preview].
type Previewer interface {
	Preview(ctx context.Context, inv *Invocation) (string, error)
}

// Planner is an optional ability of a [Tool] that changes files. Plan returns the change that a
// call would make, without making it. The loop calls Plan before it asks for approval. Whoever
// decides sees the plan and may reduce it. Call then gets the approved plan in [Invocation.Plan]
// and carries it out with Workspace.Apply of package workspace. So exactly the approved change is
// made, and edits that others make to the files meanwhile are merged. The result should include
// [EditPlan.OmittedText] for the model. If the tool is a [Previewer] too, Preview gets the plan
// in [Invocation.Plan] and can return [EditPlan.Preview].
//
// An error means that the call cannot work: nobody is asked, Call is not called, and the model
// reads the error. Plan is safe for concurrent use. It may be called again for the same call
// after earlier calls of the same message have finished: if these touched the same files, or if
// Plan failed while they were open. It must return soon after ctx is cancelled.
type Planner interface {
	Plan(ctx context.Context, inv *Invocation) (EditPlan, error)
}

// safePlan calls Plan and turns a panic into an error.
func safePlan(ctx context.Context, p Planner, inv *Invocation) (plan EditPlan, err error) {
	defer func() {
		if v := recover(); v != nil {
			base := &ToolError{Tool: inv.Name, CallID: inv.ID}
			err = &ToolPanicError{ToolError: base, Value: v, Stack: debug.Stack()}
		}
	}()
	if plan, err = p.Plan(ctx, inv); err != nil {
		_ = err.Error() // an Error method that panics must do so here
	}
	return plan, err
}

// ToolSpec describes a [Tool] to the model and to approvers.
type ToolSpec struct {
	// Name consists of 1 to 64 letters, digits, "_" and "-".
	Name string
	// Description tells the model what the tool does and when to use it.
	Description string
	// Schema is the JSON Schema of the arguments, which are an object.
	Schema json.RawMessage
	// Effect decides when a call may start. Default: EffectUnknown, which is treated
	// like EffectWrite.
	Effect Effect
	// Destructive says that a call may destroy something that cannot be restored, OpenWorld that
	// it reaches beyond the workspace. Both are hints, as in the Model Context Protocol.
	Destructive, OpenWorld bool
	// Subject names the argument that rules match and displays show. The zero value
	// means that the tool has none.
	Subject Subject
}

// Subject names the argument that tells what a call acts on, such as a path or a
// command. Rules match it, as package policy describes, and displays show it.
type Subject struct {
	// Arg is the name of a top-level string argument.
	Arg string
	// Kind says what the argument is.
	Kind SubjectKind
}

// SubjectKind says what a [Subject] is, and thus how rules are matched against it.
type SubjectKind int

// The kinds of a [Subject].
const (
	// SubjectText is any text.
	SubjectText SubjectKind = iota
	// SubjectPath is a slash-separated path.
	SubjectPath
	// SubjectCommand is a shell command.
	SubjectCommand
	// SubjectURL is an http or https URL.
	SubjectURL
	// SubjectPatch is a patch for apply_patch.
	SubjectPatch
)

// Effect says whether a tool changes anything, and so when a call may start.
type Effect int

// The effects.
const (
	// EffectUnknown is treated like EffectWrite, so that a tool whose author forgot to set
	// the effect is safe.
	EffectUnknown Effect = iota
	// EffectReadOnly means that the tool changes nothing. A call may start while the
	// model is still talking, in parallel with others.
	EffectReadOnly
	// EffectWrite means that the tool may change something. Calls start after the model
	// has finished its message, in order, one at a time.
	EffectWrite
)

// Invocation is one call of a tool, with everything that the tool needs to know about the
// run around it.
type Invocation struct {
	// ID is the id of the call, Name the name of the tool.
	ID, Name string
	// Key identifies the call in this run and is the same in every replay, such as
	// "t3/tool/toolu_01". It serves as an idempotency key.
	Key string
	// Run is the id of the run.
	Run string
	// Depth is the number of runs that enclose this one: 0 for a run that a host
	// started. See [WithParent].
	Depth int
	// Args is the JSON text of the arguments, an object that matches the schema. If the
	// model wrote values as text ("3" for 3), they are converted.
	Args json.RawMessage
	// Plan is the approved change, if the tool is a [Planner] and somebody was asked. The call
	// must make exactly this change, and its result should include [EditPlan.OmittedText]. Plan
	// is also set if a rule allowed the call by naming a file that runs code (see package
	// workspace): such a file is only written with WithApproved of that package. Plan is nil if
	// nobody was asked; the tool then makes its own plan.
	Plan *EditPlan
	// ReadOnly says that nobody approved the call: it runs only because the [Approver]
	// considers it read-only. A tool whose calls might write must then prevent that if
	// the system has a way to, as bash of package tools does. A tool that wraps another
	// must pass the flag on; every copy of the Invocation does.
	ReadOnly bool

	progress func(Progress)
	emit     func(context.Context, Event) error
	alert    func(event, detail string)
	run      *run
	atEnd    func(func())
	prepared *preparedCall
}

// sameBytes reports whether two texts are the same memory.
func sameBytes(a, b json.RawMessage) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}

// NewInvocation returns an invocation for calling a tool outside a run: in a test or in
// a custom loop. The function gets the progress reports; it may be nil.
func NewInvocation(id, name string, args json.RawMessage, progress func(Progress)) *Invocation {
	return &Invocation{ID: id, Name: name, Key: id, Args: args, progress: progress}
}

// Progress reports the progress of the call. It never blocks. Reports may be dropped when the
// consumer is slow. A tool must not report after its call has returned; a run ignores that.
func (inv *Invocation) Progress(p Progress) {
	if inv.progress != nil {
		inv.progress(p)
	}
}

// WithProgress returns a copy of inv whose progress reports go to a function, for a
// tool that wraps another. The function may pass them on to inv.
func (inv *Invocation) WithProgress(report func(Progress)) *Invocation {
	c := *inv
	c.progress = report
	return &c
}

// Cleanup registers f to be called when the run is over, however it ends. It is for resources
// that a tool starts in one call and needs in the next, such as a process or a connection. The
// run waits for f as it waits for cancelled tools, so f must return soon; it runs in parallel
// with other such functions and with tools that are still stopping. A suspended run counts as
// over. If the run is over already, f is called at once.
//
// Cleanup returns false, and does nothing, if the call is not part of a longer run: in [Loop.Turn],
// and for an invocation made by [NewInvocation]. The host must then release the resources.
func (inv *Invocation) Cleanup(f func()) bool {
	if inv.atEnd == nil {
		return false
	}
	inv.atEnd(f)
	return true
}

// Alert reports a security event of the call to the audit log. The event is a stable
// word such as "masked_secret"; the detail says in a few words for people what was
// refused, masked or is missing, and must not contain a secret. Alert never blocks.
func (inv *Invocation) Alert(event, detail string) {
	if inv.alert != nil {
		inv.alert(event, detail)
	}
}

// Progress is a progress report of a call. The tool chooses the unit of Current and
// Total; Total is 0 if it is unknown.
type Progress struct {
	Current int64  `json:"current"`
	Total   int64  `json:"total,omitempty"`
	Message string `json:"message,omitempty"`
}

// ToolResult is the result of a call: what the model reads, and what the host learns beside it.
type ToolResult struct {
	// Parts are for the model: [Text] and [Media].
	Parts []Part
	// IsError tells the model that the call failed.
	IsError bool
	// Summary is a few words for people: "9 lines", "exit 1".
	Summary string
	// Untrusted says that strangers may have written the content of the parts, as on a
	// web page. From then on, a policy may ask about more calls.
	Untrusted bool
	// Usage counts the tokens of models that the call used itself; the loop adds it to
	// the usage of the run.
	Usage Usage
	// Changes is the result of Workspace.Apply of package workspace for the files that the call
	// was to change. It is for the host, see [ToolFinished]; the model reads only Parts.
	Changes *ApplyResult
}

// TextResult returns a result with one text for the model. It has no Summary; set that
// field to tell people more.
func TextResult(text string) *ToolResult {
	return &ToolResult{Parts: []Part{&Text{Text: text}}}
}

// ErrorResult returns a result whose text tells the model what went wrong. It is for a
// failure that is the result, such as the output of a test that fails: Err of
// [ToolFinished] is nil. For a call that could not be done, return an error.
func ErrorResult(text string) *ToolResult {
	return &ToolResult{Parts: []Part{&Text{Text: text}}, IsError: true}
}

// Text returns the text of the result: its [Text] parts, concatenated. Media in the result
// do not count.
func (r *ToolResult) Text() string { return (&Message{Parts: r.Parts}).Text() }

// ToolFunc runs a call. It keeps the contract of [Tool], and is what a [ToolMiddleware]
// wraps and returns.
type ToolFunc func(ctx context.Context, inv *Invocation) (*ToolResult, error)

// ToolMiddleware wraps every call of every tool, for example to measure, to limit the
// time or to mask secrets.
type ToolMiddleware func(next ToolFunc) ToolFunc

// ToolOption sets a property of a tool that [NewTool] makes. Options are applied in order
// and the last one wins.
type ToolOption func(*ToolSpec) error

// WithEffect sets the effect of the tool, which decides when its calls may start. Default:
// EffectUnknown.
func WithEffect(e Effect) ToolOption {
	return func(s *ToolSpec) error {
		if e < EffectUnknown || e > EffectWrite {
			return fmt.Errorf("WithEffect: no such effect: %d", e)
		}
		s.Effect = e
		return nil
	}
}

// WithSubject sets the argument that rules match and displays show, see [Subject]. Default: none.
func WithSubject(kind SubjectKind, arg string) ToolOption {
	return func(s *ToolSpec) error {
		s.Subject = Subject{Arg: arg, Kind: kind}
		return nil
	}
}

// WithHints sets the hints Destructive and OpenWorld, see [ToolSpec]. WithHints(false,
// true) fits a tool that reads web pages. Default: both false.
func WithHints(destructive, openWorld bool) ToolOption {
	return func(s *ToolSpec) error {
		s.Destructive, s.OpenWorld = destructive, openWorld
		return nil
	}
}

// NewTool makes a tool from a function. In is a struct whose fields are the arguments, and the
// schema is derived from it. The json tag names a field, a field without omitempty or omitzero is
// required, other keys are not allowed, and jsonschema tags add the rest:
//
//	type args struct {
//		Path  string `json:"path" jsonschema:"description=File to read"`
//		Limit int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=2000"`
//		Mode  string `json:"mode,omitempty" jsonschema:"enum=text,enum=hex"`
//	}
//
// A comma in a value of a tag is written \\, in the source. A default= tag only informs the model
// and is not applied: for an argument that is left out, fn gets the zero value. An explicit 0 must
// match the schema, so with minimum=1 a 0 means that Limit was left out.
//
// The tool's Call method checks the arguments against the schema before it calls fn, even outside
// a run. Since some models write them so, integers may be written 1.0 or 1e3, and numbers,
// booleans, lists and objects as text ("3", "[1]") where the schema does not allow text. NewTool
// returns an error if In is not a struct or contains itself, or if the name or an option is not
// valid.
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
	compiled, err := checkSpec(&spec, reflect.TypeFor[In]())
	if err != nil {
		return nil, fmt.Errorf("new tool %q: %w", name, err)
	}
	if fn == nil {
		return nil, fmt.Errorf("new tool %q: function is nil", name)
	}
	call := func(ctx context.Context, inv *Invocation) (*ToolResult, error) {
		in, err := schema.Decode[In](compiled, inv.Args)
		if err != nil {
			base := &ToolError{Tool: name, CallID: inv.ID}
			return nil, &ToolArgsError{ToolError: base, Problems: []string{schema.Problem(err)}}
		}
		return fn(ctx, inv, in)
	}
	return &funcTool{tool{spec: spec, schema: compiled, call: call}}, nil
}

type funcTool struct{ tool }

func (t *funcTool) Spec() ToolSpec { return t.spec }

// Call checks the arguments, unless the loop has checked these very ones against this schema.
func (t *funcTool) Call(ctx context.Context, inv *Invocation) (*ToolResult, error) {
	if inv == nil {
		return nil, isNilError("Invocation")
	}
	if p := inv.prepared; p != nil && sameBytes(p.use.Args, inv.Args) && sameBytes(p.tool.spec.Schema, t.spec.Schema) {
		return t.call(ctx, inv)
	}
	p, err := t.prepare(&ToolUse{ID: inv.ID, Name: t.spec.Name, Args: inv.Args})
	if err != nil {
		return nil, err
	}
	fit := *inv
	fit.Args = p.use.Args
	return t.call(ctx, &fit)
}

// CheckArgs checks the arguments of a call against the schema as the loop does, for callers that
// run tools without it. It returns the arguments as a tool gets them: where the schema does not
// allow text, values that the model wrote as text are converted, and integers such as 2.0 are in
// plain digits. The error is a [*ToolArgsError], or a [*ConfigError] if the spec is wrong.
func (s *ToolSpec) CheckArgs(args json.RawMessage) (json.RawMessage, error) {
	c, err := checkSpec(s, nil)
	if err != nil {
		return nil, &ConfigError{Option: fmt.Sprintf("tool %q", s.Name), Err: err}
	}
	p, err := (&tool{spec: *s, schema: c}).prepare(&ToolUse{Name: s.Name, Args: args})
	if err != nil {
		return nil, err
	}
	return p.use.Args, nil
}

// checkSpec refuses a spec that no provider takes, and returns the compiled schema. The
// schema may be that of a type.
func checkSpec(s *ToolSpec, of reflect.Type) (*schema.Schema, error) {
	if err := schema.CheckName(s.Name); err != nil {
		return nil, err
	}
	c, err := schema.CompileOf(of, s.Schema)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if s.Subject.Arg != "" && !c.HasProperty(s.Subject.Arg) {
		return nil, fmt.Errorf("subject %q is not an argument", s.Subject.Arg)
	}
	return c, nil
}
