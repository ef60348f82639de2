package aycoder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/schema"
)

// Tool is a tool that the model may call. Its methods must be safe for concurrent use, and Spec
// must always return the same value.
//
// Call runs one call. The arguments in inv match the schema. If Call returns an error or panics,
// the model reads the error as the output, so its text should say what to do instead. Only an
// error marked by [Fatal] ends the run. The text of a result should be short: the model gets at
// most [Limits].ToolOutput bytes of it. Invalid UTF-8 in the text is replaced.
//
// When ctx is cancelled, Call must return within 100 ms. It returns context.Cause(ctx), or an
// error that wraps this cause and says what is already done; a partial result without an error
// would look complete. A call that does not return within [Limits].Grace is abandoned, and its
// result is discarded. Nothing that Call starts may outlive it, except with [Invocation.Cleanup].
//
// A tool may also implement the optional interfaces [Planner] and [Previewer].
type Tool interface {
	Spec() ToolSpec
	Call(ctx context.Context, inv *Invocation) (*ToolResult, error)
}

// Previewer is an optional interface of a [Tool]. Preview describes a call to the person who must
// approve it. Preview changes nothing, and returns plain text, or a unified diff for a change to
// files. If the tool is also a [Planner], Preview can return inv.Plan.Preview().
type Previewer interface {
	Preview(ctx context.Context, inv *Invocation) (string, error)
}

// Planner is an optional interface of a [Tool] that changes files. Plan returns the change that a
// call would make, without making it. The loop calls Plan before it asks for approval, so that
// the user sees the plan and may reduce it. Call then gets the approved plan in [Invocation.Plan]
// and carries it out with Workspace.Apply of package workspace. So exactly the approved change is
// made, and edits that others make to the files meanwhile are merged. The result of Call should
// include [edit.Plan.OmittedText] for the model. If the tool is also a [Previewer], Preview gets
// the plan in [Invocation.Plan] too.
//
// If Plan returns an error, the call cannot work: nobody is asked, Call is not called, and the
// model reads the error. Once earlier calls of the same message have finished, the loop may call
// Plan again, since these calls may have changed the files. Plan must be safe for concurrent use
// and return soon after ctx is cancelled.
type Planner interface {
	Plan(ctx context.Context, inv *Invocation) (edit.Plan, error)
}

// safePlan calls Plan and turns a panic into an error.
func safePlan(ctx context.Context, p Planner, inv *Invocation) (plan edit.Plan, err error) {
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
	// Schema is the JSON Schema of the arguments, which form a JSON object.
	Schema json.RawMessage
	// Effect says whether calls change anything, and thus when they may start. Default:
	// EffectUnknown, which is treated like EffectWrite.
	Effect Effect
	// Destructive says that a call may destroy something that cannot be restored. OpenWorld says
	// that a call reaches beyond the workspace. Both are hints, as in the Model Context Protocol.
	Destructive, OpenWorld bool
	// Result is the JSON Schema of the results of a declared tool, which then are the text of a JSON
	// object, or nil if there is none: see [DeclareTool]. The model does not read it.
	Result json.RawMessage
	// Subject names the argument that rules match and displays show. The zero value names none.
	Subject Subject
	// Definition identifies what the tool says of itself, for a tool that somebody else defines and may
	// change, such as a server: a digest of its name, description and schema. It is "" for others. The
	// model does not read it. The rules that package policy suggests cover only calls of this definition.
	Definition string

	// declared is a func(*run) outsider, or nil. The field has no such type, since a program without
	// declared tools would link more.
	declared any
}

// Outside reports whether the tool has no function: see [DeclareTool].
func (s *ToolSpec) Outside() bool { return s.declared != nil }

// Subject names the argument that tells what a call acts on, such as a path or a command. Rules
// match this argument, as package policy describes, and displays show it.
type Subject struct {
	// Arg is the name of the argument, a string at the top level of the arguments.
	Arg string
	// Kind says what the argument contains.
	Kind SubjectKind
	// File is the file that a call writes, for a tool that writes no other and whose argument is not a
	// path. It is slash-separated and below the workspace. A star in it stands for the argument, which
	// then must have no slash. If the file instructs agents or runs code, a rule that names the tool
	// also names the file: see Named of [Grounds].
	File string
}

// SubjectKind says what the argument in a [Subject] contains, which determines how rules match it.
type SubjectKind int

// The kinds of a [Subject].
const (
	// SubjectText means that the argument is text of any kind.
	SubjectText SubjectKind = iota
	// SubjectPath means that the argument is a slash-separated path.
	SubjectPath
	// SubjectCommand means that the argument is a shell command.
	SubjectCommand
	// SubjectURL means that the argument is an http or https URL.
	SubjectURL
	// SubjectPatch means that the argument is a patch in the format of the apply_patch tool.
	SubjectPatch
)

// Effect says whether a tool changes anything, and thus when its calls may start.
type Effect int

// The effects.
const (
	// EffectUnknown is treated like EffectWrite, so that forgetting to set the effect is safe.
	EffectUnknown Effect = iota
	// EffectReadOnly means that the tool changes nothing. A call may start before the model has
	// finished its message, and in parallel with other such calls.
	EffectReadOnly
	// EffectWrite means that the tool may change something. Calls start after the model has
	// finished its message, in order, one at a time.
	EffectWrite
)

// Invocation is one call of a tool, with all that the tool needs to know about its run.
type Invocation struct {
	// ID is the id of the call. Name is the name of the tool.
	ID, Name string
	// Key identifies the call in its run, for example "t3/tool/toolu_01". It is the same in every
	// replay of the run, so it can serve as an idempotency key.
	Key string
	// Place tells the run that makes the call, and the runs around it.
	Place
	// Args is the JSON text of the arguments, an object that matches the schema. Values that the
	// model wrote as text ("3" for 3) are already converted.
	Args json.RawMessage
	// Plan is the approved change, which Call must make exactly. For a [Planner], Plan is set if
	// somebody was asked about the call and did not replace its arguments. It is also set if the
	// call may write a file that runs code by itself, such as a git hook: package workspace
	// writes such a file only with WithApproved. If Plan is nil, Call makes a plan itself. The
	// result of Call should include [edit.Plan.OmittedText].
	Plan *edit.Plan
	// ReadOnly says that nobody approved the call: it runs only because the [Approver] considers
	// it read-only. A tool that might write must then prevent writing if the system has a way to
	// do so, like the tool bash of package tools. A tool that wraps another one must pass
	// ReadOnly on, for example in a copy of the Invocation.
	ReadOnly bool
	// Whole is the number of bytes that the text of the result may have although the model gets only
	// its ends: see Head and Tail of [ToolResult]. It is 0 if nobody keeps the rest, see
	// [WithWholeOutputs]: then the tool should cut its output itself.
	Whole int

	progress func(Progress)
	emit     func(context.Context, Event) error
	alert    func(event, detail string)
	run      *run
	atEnd    func(func())
	prepared *preparedCall
	answer   any // a *ToolResult from outside, or nil; so programs without declared tools link less
}

// NewInvocation returns an invocation for calling a tool outside a run, in a test or in a custom
// loop. progress receives the progress reports of the tool and may be nil.
func NewInvocation(id, name string, args json.RawMessage, progress func(Progress)) *Invocation {
	return &Invocation{ID: id, Name: name, Key: id, Args: args, progress: progress}
}

// Shows reports whether the request that the model answered with this call has all of an earlier
// call: its arguments and its output, as the history of the run has them. If call is "", it reports
// whether the request has all of all calls. It returns true outside of a run. If the model has made the
// call before a run with a builder of the host was resumed, nobody knows, and Shows returns false.
func (inv *Invocation) Shows(call string) bool { return inv.run == nil || inv.run.shows(call) }

// Planned returns the change that the call is going to make, for middleware that looks at the files before: Plan,
// or what the tool plans now if it is a [Planner]. It returns false if nobody knows: for other tools, outside of a run,
// and if there is no plan. The files may still change before the call does its work.
func (inv *Invocation) Planned(ctx context.Context) (edit.Plan, bool) {
	if inv.Plan != nil {
		return *inv.Plan, true
	}
	if inv.prepared == nil || inv.prepared.tool == nil {
		return edit.Plan{}, false
	}
	p, ok := inv.prepared.tool.impl.(Planner)
	if !ok {
		return edit.Plan{}, false
	}
	plan, err := safePlan(ctx, p, inv)
	return plan, err == nil
}

// Progress reports the progress of the call to the reader of the events. It never blocks. Reports
// may be dropped if the reader is slow, and are ignored after the call has returned.
func (inv *Invocation) Progress(p Progress) {
	if inv.progress != nil {
		inv.progress(p)
	}
}

// WithProgress returns a copy of inv that sends its progress reports to report. It is for a tool
// that wraps another one; report may pass the reports on to inv.
func (inv *Invocation) WithProgress(report func(Progress)) *Invocation {
	c := *inv
	c.progress = report
	return &c
}

// Cleanup registers f to be called when the run is over, however it ends. A suspended run counts
// as over. Cleanup is for resources that a tool starts in one call and needs in the next, such as
// a process or a connection. f must return soon: the run waits for f at most [Limits].Grace. f
// runs in parallel with other such functions and with tools that are still stopping. If the run
// is already over, f is called at once.
//
// Cleanup does nothing and returns false if the call is not part of a run: in [Loop.Turn], and
// with an invocation made by [NewInvocation]. The host must then release the resources.
func (inv *Invocation) Cleanup(f func()) bool {
	if inv.atEnd == nil {
		return false
	}
	inv.atEnd(f)
	return true
}

// Alert reports a security event of the call to the audit log, see [WithAudit]. event is a stable
// word such as "masked_secret". detail describes the event to people in a few words, and must not
// contain a secret. Alert never blocks.
func (inv *Invocation) Alert(event, detail string) {
	if inv.alert != nil {
		inv.alert(event, detail)
	}
}

// Progress is a progress report of a call. The unit of Current and Total is up to the tool. Total
// is 0 if it is unknown.
type Progress struct {
	Current int64  `json:"current"`
	Total   int64  `json:"total,omitempty"`
	Message string `json:"message,omitempty"`
}

// ToolResult is the result of a call. The model reads Parts and IsError; the rest is for the loop and the host.
type ToolResult struct {
	// Parts are the content for the model: each is a [Text] or [Media].
	Parts []Part
	// Head and Tail are the numbers of bytes that the model gets of the beginning and of the end of the
	// longest text in Parts, within [Limits].ToolOutput. If both are 0, it gets all of that text. A tool
	// sets them if it returns more than the model should get, as [Invocation].Whole permits: so a
	// middleware that masks texts masks the whole.
	Head, Tail int
	// IsError tells the model that the call failed.
	IsError bool
	// Summary describes the result to people in a few words: "9 lines", "exit 1".
	Summary string
	// Untrusted says that somebody unknown may have written the content of Parts, as on a web
	// page. From then on, the [Approver] may ask the user about more calls.
	Untrusted bool
	// Usage counts the tokens of the tool's requests to models. The run's usage includes them.
	Usage Usage
	// Final ends the run with [EndDone] after this message of the model and its calls: the model is not
	// asked again. It has no effect if IsError is set, if another call of the message has failed, since
	// the model has to learn of that, or if a message of the user waits.
	Final bool
	// Changes is the result of Workspace.Apply of package workspace, if the call changed files.
	// The host finds it in [ToolFinished]; the model does not read it.
	Changes *edit.Result
}

// TextResult returns a result with one text for the model. Its Summary is empty; set that field
// to describe the result to people.
func TextResult(text string) *ToolResult {
	return &ToolResult{Parts: []Part{&Text{Text: text}}}
}

// ErrorResult returns a result whose text tells the model what went wrong. Use it if the tool did
// its work and the result is a failure, such as the output of a failing test: Err of
// [ToolFinished] is then nil. If the tool could not do its work, return an error instead.
func ErrorResult(text string) *ToolResult {
	return &ToolResult{Parts: []Part{&Text{Text: text}}, IsError: true}
}

// Text returns the text of the result: its [Text] parts, concatenated, without its [Media] parts.
func (r *ToolResult) Text() string { return (&Message{Parts: r.Parts}).Text() }

// ToolFunc runs a call under the same contract as Call of [Tool]. A [ToolMiddleware] takes a
// ToolFunc and returns one that wraps it.
type ToolFunc func(ctx context.Context, inv *Invocation) (*ToolResult, error)

// ToolMiddleware wraps the calls of all tools, for example to limit their time or to mask secrets.
type ToolMiddleware func(next ToolFunc) ToolFunc

// ToolOption sets a property of a tool in [NewTool]. Options are applied in order; of two options
// for the same property, the last one wins.
type ToolOption func(*ToolSpec) error

// WithEffect sets the tool's effect, which decides when calls may start. Default: EffectUnknown.
func WithEffect(e Effect) ToolOption {
	return func(s *ToolSpec) error {
		if e < EffectUnknown || e > EffectWrite {
			return fmt.Errorf("WithEffect: no such effect: %d", e)
		}
		s.Effect = e
		return nil
	}
}

// WithSubject names the argument that rules match and displays show: see [Subject]. Default: none.
func WithSubject(kind SubjectKind, arg string) ToolOption {
	return func(s *ToolSpec) error {
		s.Subject = Subject{Arg: arg, Kind: kind}
		return nil
	}
}

// WithHints sets the hints Destructive and OpenWorld of [ToolSpec]. For example, a tool that
// reads web pages has WithHints(false, true). Default: both false.
func WithHints(destructive, openWorld bool) ToolOption {
	return func(s *ToolSpec) error {
		s.Destructive, s.OpenWorld = destructive, openWorld
		return nil
	}
}

// NewTool makes a tool from a function. In is a struct whose fields are the arguments, and NewTool
// derives the schema from it. The json tag names a field. A field without omitempty or omitzero is
// required. Keys that are not fields are not allowed. The jsonschema tags add the rest:
//
//	type args struct {
//		Path  string `json:"path" jsonschema:"description=File to read"`
//		Limit int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=2000"`
//		Mode  string `json:"mode,omitempty" jsonschema:"enum=text,enum=hex"`
//	}
//
// If a value in a tag contains a comma, write \\, for it in the source. A default= tag only
// informs the model: if the model leaves the argument out, fn gets the zero value. A 0 from the
// model must match the schema. So with minimum=1, a Limit of 0 means that it was left out.
//
// The tool's Call method checks the arguments against the schema before it calls fn, even outside a
// run. It also accepts forms that some models write: integers as 1.0 or 1e3, and numbers, booleans,
// lists and objects as text ("3", "[1]") where the schema does not allow text. NewTool returns an
// error if In is not a struct or contains itself, or if the name or an option is invalid.
func NewTool[In any](
	name, description string, fn func(context.Context, *Invocation, In) (*ToolResult, error),
	opts ...ToolOption,
) (Tool, error) {
	return newTool(name, description, reflect.TypeFor[In](), fn == nil, func(t *tool) ToolFunc {
		return func(ctx context.Context, inv *Invocation) (*ToolResult, error) {
			var in In
			if err := t.decode(inv, &in); err != nil {
				return nil, err
			}
			return fn(ctx, inv, in)
		}
	}, opts)
}

// newTool is the part of NewTool that is the same for all types.
func newTool(name, description string, in reflect.Type, isNil bool, call func(*tool) ToolFunc, opts []ToolOption) (Tool, error) {
	spec := ToolSpec{Name: name, Description: description}
	err := spec.describe(in, opts)
	var compiled *schema.Schema
	if err == nil {
		compiled, err = checkSpec(&spec, in)
	}
	if err == nil && isNil {
		err = errors.New("function is nil")
	}
	if err != nil {
		return nil, fmt.Errorf("new tool %q: %w", name, err)
	}
	spec.Schema = schema.Interned(in, spec.Schema)
	t := &funcTool{tool{spec: spec, schema: compiled}}
	t.impl, t.call = t, call(&t.tool)
	return t, nil
}

// describe sets the schema of a type of arguments, and what the options say.
func (s *ToolSpec) describe(in reflect.Type, opts []ToolOption) (err error) {
	if s.Schema, err = schema.Reflect(in); err != nil {
		return err
	}
	return applyAll(s, opts)
}

// decode reads the arguments of a call.
func (t *tool) decode(inv *Invocation, in any) error {
	if err := schema.Decode(t.schema, inv.Args, in); err != nil {
		base := &ToolError{Tool: t.spec.Name, CallID: inv.ID}
		return &ToolArgsError{ToolError: base, Problems: []string{schema.Problem(err)}}
	}
	return nil
}

// applyAll sets what the options say.
func applyAll(s *ToolSpec, opts []ToolOption) error {
	for _, opt := range opts {
		if opt == nil {
			return isNilError("option")
		}
		if err := opt(s); err != nil {
			return err
		}
	}
	return nil
}

type funcTool struct{ tool }

// Spec returns a copy, since the tools of a type share the bytes of its schema.
func (t *funcTool) Spec() ToolSpec {
	spec := t.spec
	spec.Schema = bytes.Clone(spec.Schema)
	return spec
}

// Call checks the arguments against the tool's schema, unless the loop has already done so.
func (t *funcTool) Call(ctx context.Context, inv *Invocation) (*ToolResult, error) {
	if inv == nil {
		return nil, isNilError("Invocation")
	}
	if p := inv.prepared; p != nil && bytes.Equal(p.use.Args, inv.Args) &&
		bytes.Equal(p.tool.spec.Schema, t.spec.Schema) {
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

// CheckArgs checks the arguments of a call against the schema, as the loop does. It is for callers
// that run tools without the loop. It returns the arguments as the tool gets them: values that the
// model wrote as text are converted where the schema does not allow text, and integers such as 2.0
// are in plain digits. The error is a [*ToolArgsError], or a [*ConfigError] if the spec is invalid.
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

// checkSpec refuses a spec that no provider accepts, and returns the compiled schema. If of is
// not nil, the schema is that of this type.
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
