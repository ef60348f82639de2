package aycoder

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/runes"
)

// FormatError reports stored data that another version of this package has written: its kind is
// unknown here, or its version is newer.
type FormatError struct {
	// Form is "fact" or "event", and Kind is the kind of fact or event, such as "tool_done".
	Form, Kind string
	// Version is the version of the data if it is not supported, or else 0.
	Version int
}

// Error implements error.
func (e *FormatError) Error() string {
	if e.Version != 0 {
		return fmt.Sprintf("decode %s: version %d is not supported", e.Form, e.Version)
	}
	return fmt.Sprintf("decode %s: unknown kind %q", e.Form, e.Kind)
}

// factVersion is the version of the JSON form of facts. A record without a version has version 1.
const factVersion = 1

// wireFact is the JSON form of a FactRecord. Each fact uses some of the fields.
type wireFact struct {
	Version int    `json:"v,omitempty"`
	Run     string `json:"run,omitempty"`
	Seq     int64  `json:"seq,omitempty"`
	Fact    string `json:"fact"`
	ID      string `json:"id,omitempty"` // of the call, or of the message of the model

	Part   *wirePart `json:"part,omitempty"`
	Output *wirePart `json:"output,omitempty"`
	Final  bool      `json:"final,omitempty"`

	Stop      StopReason `json:"stop,omitempty"`
	Model     string     `json:"model,omitempty"`
	Usage     Usage      `json:"usage,omitzero"`
	Cost      *float64   `json:"cost,omitempty"`
	Spent     []Spent    `json:"spent,omitempty"`
	Began     bool       `json:"began,omitempty"`
	Provider  string     `json:"provider,omitempty"`
	RequestID string     `json:"request_id,omitempty"`

	*ModelFailed

	Verdict  string        `json:"verdict,omitempty"`
	Reason   jsontext.Text `json:"reason,omitzero"`
	Args     jsontext.Text `json:"args,omitzero"`
	Plan     *edit.Plan    `json:"plan,omitempty"`
	ReadOnly bool          `json:"read_only,omitempty"`
	By       DecidedBy     `json:"by,omitempty"`
	Digest   string        `json:"digest,omitempty"`

	MaxTurns    int  `json:"max_turns,omitempty"`
	RepeatReads bool `json:"repeat_reads,omitempty"`

	Message   *Message      `json:"message,omitempty"`
	FollowUp  bool          `json:"follow_up,omitempty"`
	Outside   bool          `json:"outside,omitempty"`
	Request   *CallRequest  `json:"request,omitempty"`
	Compacted *Compacted    `json:"compacted,omitempty"`
	Setup     *SetupChanged `json:"setup,omitempty"`
}

// MarshalJSON encodes the record without its State. Text that is not valid UTF-8 is an error, as
// in [Message.MarshalJSON]; the facts of a run have none.
func (r FactRecord) MarshalJSON() ([]byte, error) {
	w := wireFact{Run: r.Run, Seq: r.Seq}
	err := w.put(r.Fact)
	if err == nil {
		err = runes.CheckUTF8(w.Run, w.ID, string(w.Stop), w.Model, w.Provider,
			w.RequestID, string(w.By), w.Digest)
	}
	if err != nil {
		return nil, fmt.Errorf("encode fact: %w", err)
	}
	return json.Marshal(w)
}

// put sets the fields of a fact.
func (w *wireFact) put(f Fact) (err error) {
	switch f := f.(type) {
	case nil:
		w.Fact = "start"
	case *BlockDone:
		w.Fact = "block"
		w.Part, err = encodeOne(f.Part)
	case *BlockTruncated:
		w.Fact = "cut"
		w.Part, err = encodeOne(f.Call)
	case *MessageDone:
		w.Fact, w.ID, w.Stop, w.Usage, w.Model = "message", f.ID, f.Stop, f.Usage, f.Model
		w.Cost = f.Cost
		w.Provider, w.RequestID = f.Provider, f.RequestID
	case *ModelFailed:
		w.Fact, w.ModelFailed, w.Began = "failed", f, f.Began
	case *Waited:
		w.Fact = "waited"
	case *Decided:
		v := &f.Decision.Verdict
		w.Fact, w.ID, w.Digest, w.By = "decided", f.Decision.CallID, f.Decision.Digest, f.Decision.By
		w.Verdict, w.Reason, w.Args = verdictNames[v.kind], jsontext.Text(v.reason), jsontext.Text(v.args)
		w.Plan, w.ReadOnly, w.Outside = v.plan, v.readOnly(), f.Outside
	case *ToolBegan:
		w.Fact, w.ID = "tool_began", f.ID
	case *CallRequested:
		w.Fact, w.Request, w.Args = "call_requested", new(f.Request), jsontext.Text(f.Request.Args)
		w.Request.Args = nil
	case *ToolDone:
		w.Fact, w.ID, w.Spent, w.Final = "tool_done", f.ID, f.Spent, f.Final
		if f.Output != nil || f.ID != "" || len(f.Spent) == 0 {
			w.Output, err = encodeOne(f.Output)
		}
	case *Steered:
		w.Fact, w.Message, w.FollowUp = "steered", f.Message, f.FollowUp
	case *Compacted:
		w.Fact, w.Compacted = "compacted", f
	case *SetupChanged:
		w.Fact, w.Setup = "setup", f
		err = runes.CheckUTF8(slices.AppendSeq(slices.Concat(f.Added, f.Removed, f.Changed, []string{f.Model}), maps.Keys(f.Tools))...)
	case *Cancelled:
		w.Fact, w.Began = "cancelled", f.Began
	case *Resumed:
		w.Fact, w.Model, w.MaxTurns, w.RepeatReads = "resumed", f.Model, f.MaxTurns, f.RepeatReads
	default:
		err = fmt.Errorf("no such fact: %T", f)
	}
	return err
}

func encodeOne(p Part) (*wirePart, error) {
	w, err := encodePart(p)
	return &w, err
}

// UnmarshalJSON decodes the output of [FactRecord.MarshalJSON]. State is then the zero State.
func (r *FactRecord) UnmarshalJSON(data []byte) error {
	var w wireFact
	err := json.Unmarshal(data, &w)
	if err != nil { // maybe because another version has other types
		var head struct {
			V    int
			Fact string
		}
		_ = json.Unmarshal(data, &head) // keeps what it can decode
		w = wireFact{Version: head.V, Fact: head.Fact}
	}
	if w.Version != 0 && w.Version != factVersion {
		return &FormatError{Form: "fact", Kind: w.Fact, Version: w.Version}
	}
	f, bad := w.fact()
	if _, unknown := bad.(*FormatError); unknown || err == nil && bad == nil {
		*r = FactRecord{Run: w.Run, Seq: w.Seq, Fact: f}
		return bad
	}
	if err == nil {
		err = bad
	}
	return fmt.Errorf("decode fact: %w", err)
}

var errFactField = errors.New("a field of the fact is missing")

// fact returns the fact whose fields are in w.
func (w *wireFact) fact() (Fact, error) {
	switch w.Fact {
	case "start":
		return nil, nil
	case "block":
		p, err := decodeOne[Part](w.Part)
		return &BlockDone{p}, err
	case "cut":
		p, err := decodeOne[*ToolUse](w.Part)
		return &BlockTruncated{p}, err
	case "message":
		return &MessageDone{ID: w.ID, Stop: w.Stop, Usage: w.Usage, Cost: w.Cost, Model: w.Model,
			Provider: w.Provider, RequestID: w.RequestID}, nil
	case "failed":
		if w.ModelFailed == nil {
			return nil, errFactField
		}
		w.ModelFailed.Began = w.Began
		return w.ModelFailed, nil
	case "waited":
		return &Waited{}, nil
	case "decided":
		v, err := (&verdictJSON{w.Verdict, string(w.Reason), raw(string(w.Args)), w.Plan, w.ReadOnly}).verdict()
		return &Decided{Decision{CallID: w.ID, Digest: w.Digest, Verdict: v, By: w.By}, w.Outside}, err
	case "tool_began":
		return &ToolBegan{w.ID}, nil
	case "call_requested":
		if w.Request == nil {
			return nil, errFactField
		}
		w.Request.Args = raw(string(w.Args))
		return &CallRequested{Request: *w.Request}, nil
	case "tool_done":
		if w.Output == nil && w.ID == "" && len(w.Spent) > 0 {
			return &ToolDone{Spent: w.Spent}, nil
		}
		out, err := decodeOne[*ToolOutput](w.Output)
		if len(w.Spent) == 0 && w.Usage != (Usage{}) { // from before there was Spent
			w.Spent = []Spent{{Answers: 1, Usage: w.Usage, Unpriced: 1}}
		}
		return &ToolDone{ID: w.ID, Output: out, Spent: w.Spent, Final: w.Final}, err
	case "steered":
		if w.Message == nil {
			return nil, errFactField
		}
		return &Steered{Message: w.Message, FollowUp: w.FollowUp}, nil
	case "compacted":
		if w.Compacted == nil {
			return nil, errFactField
		}
		return w.Compacted, nil
	case "setup":
		if w.Setup == nil {
			return nil, errFactField
		}
		return w.Setup, nil
	case "cancelled":
		return &Cancelled{w.Began}, nil
	case "resumed":
		return &Resumed{Model: w.Model, MaxTurns: w.MaxTurns, RepeatReads: w.RepeatReads}, nil
	}
	return nil, &FormatError{Form: "fact", Kind: w.Fact}
}

func decodeOne[T Part](w *wirePart) (part T, err error) {
	if w == nil {
		return part, errFactField
	}
	p, err := decodePart(w)
	part, ok := p.(T)
	if err == nil && !ok {
		err = fmt.Errorf("a part is a %T", p)
	}
	return part, err
}
