package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/tools"
)

// A teller tells the client the events of a run. Its methods are called on the goroutine of the loop.
type teller struct {
	s    *conversation
	told map[sdk.ToolCallId]bool // the calls that the client knows
	past bool                    // what it tells has happened before
}

func (t *teller) text(text string) { t.s.tell(sdk.UpdateAgentMessageText(text)) }

// event tells an event. below is the id of the call that a nested run is inside of, with a slash, or "".
func (t *teller) event(ctx context.Context, ev aycoder.Event, below string) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		if below == "" {
			t.text(ev.Text)
		}
	case *aycoder.ThinkingDelta:
		if below == "" && ev.Text != "" {
			t.s.tell(sdk.UpdateAgentThoughtText(ev.Text))
		}
	case *aycoder.Notice:
		t.text("\n[" + ev.Source + "] " + ev.Text + "\n")
	case *aycoder.Retrying:
		if ev.Discarded && below == "" {
			t.text("\n[The answer broke off, and begins again.]\n")
		}
	case *aycoder.ToolStarted:
		t.started(below, ev)
	case *aycoder.ToolProgress:
		t.progress(sdk.ToolCallId(below+ev.CallID), ev.Message)
	case *aycoder.ApprovalRequested:
		t.ask(ctx, below, ev)
	case *aycoder.ToolFinished:
		t.finished(below, ev)
	case *aycoder.ChildEvent:
		t.event(ctx, ev.Event, below+ev.CallID+"/")
	case *aycoder.TurnFinished:
		if below == "" {
			t.usage(ev)
		}
	}
}

// usage tells how full the context is, and what the conversation has cost.
func (t *teller) usage(ev *aycoder.TurnFinished) {
	size, _ := t.s.rt.Window()
	if size == 0 {
		return
	}
	u := ev.Usage
	update := &sdk.SessionUsageUpdate{Used: int(u.Input + u.CacheRead + u.CacheWrite + u.Output), Size: int(size)}
	if _, cost := t.s.rt.Session.View().Usage(); cost > 0 {
		update.Cost = &sdk.Cost{Amount: cost, Currency: "USD"}
	}
	t.s.tell(sdk.SessionUpdate{UsageUpdate: update})
}

// begin tells that there is a call, unless the client knows it.
func (t *teller) begin(below string, call *aycoder.ToolUse, subject string, args json.RawMessage) sdk.ToolCallId {
	id := sdk.ToolCallId(below + call.ID)
	if t.told[id] {
		return id
	}
	if t.told == nil {
		t.told = map[sdk.ToolCallId]bool{}
	}
	t.told[id] = true
	u := sdk.StartToolCall(id, title(call.Name, subject), sdk.WithStartKind(kindOf(call.Name)), sdk.WithStartStatus(sdk.ToolCallStatusPending))
	if json.Valid(args) {
		u.ToolCall.RawInput = args
	}
	if name := t.s.fileOf(call.Name, subject); name != "" {
		u.ToolCall.Locations = []sdk.ToolCallLocation{{Path: name}}
	}
	t.s.tell(u)
	return id
}

func title(name, subject string) string {
	first, _, more := strings.Cut(strings.TrimSpace(subject), "\n")
	if more {
		first += " …"
	}
	switch {
	case first == "":
		return name
	case name == "bash":
		return "`" + first + "`"
	}
	return name + " " + first
}

// kindOf returns the kind of a tool, which is a picture to the user.
func kindOf(name string) sdk.ToolKind {
	switch name {
	case "read_file", "read_skill":
		return sdk.ToolKindRead
	case "list_files", "glob", "code_search", "recall":
		return sdk.ToolKindSearch
	case "edit_file", "multi_edit", "write_file", "apply_patch":
		return sdk.ToolKindEdit
	case "bash", "job_output", "job_stop":
		return sdk.ToolKindExecute
	case "fetch":
		return sdk.ToolKindFetch
	case "todo", "subagent":
		return sdk.ToolKindThink
	}
	return sdk.ToolKindOther
}

// fileOf returns the absolute path of the file that a call is about, or "".
func (s *conversation) fileOf(tool, subject string) string {
	for _, t := range s.rt.Tools {
		if spec := t.Spec(); spec.Name == tool && spec.Subject.Kind == aycoder.SubjectPath && subject != "" {
			return s.abs(subject)
		}
	}
	return ""
}

func (s *conversation) abs(name string) string {
	rel, err := s.rt.Files.Rel(name)
	if err != nil {
		return ""
	}
	return absolute(s.rt.Files, s.dir, rel)
}

func (t *teller) started(below string, ev *aycoder.ToolStarted) {
	id := t.begin(below, ev.Call, ev.Subject, ev.Args)
	t.s.tell(sdk.UpdateToolCall(id, sdk.WithUpdateStatus(sdk.ToolCallStatusInProgress)))
}

// maxShown bounds what is shown of the output of a call, in bytes.
const maxShown = 64 << 10

func (t *teller) progress(id sdk.ToolCallId, message string) {
	if message == "" || !t.told[id] {
		return
	}
	t.s.tell(sdk.UpdateToolCall(id, sdk.WithUpdateContent([]sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(shorten(message)))})))
}

func (t *teller) finished(below string, ev *aycoder.ToolFinished) {
	id := t.begin(below, ev.Call, ev.Subject, ev.Call.Args)
	status := sdk.ToolCallStatusCompleted
	if ev.Output.IsError || ev.Err != nil {
		status = sdk.ToolCallStatusFailed
	}
	content, places := t.s.changes(ev.Changes)
	if len(content) == 0 || status == sdk.ToolCallStatusFailed {
		content = append(content, outputOf(ev.Output)...)
	}
	opts := []sdk.ToolCallUpdateOpt{sdk.WithUpdateStatus(status), sdk.WithUpdateContent(content)}
	if len(places) > 0 {
		opts = append(opts, sdk.WithUpdateLocations(places))
	}
	t.s.tell(sdk.UpdateToolCall(id, opts...))
	delete(t.told, id)
	if ev.Call.Name == "todo" && below == "" && !t.past {
		t.s.tellPlan()
	}
}

// changes shows what a call has done to files.
func (s *conversation) changes(res *edit.Result) (content []sdk.ToolCallContent, places []sdk.ToolCallLocation) {
	if res == nil {
		return nil, nil
	}
	for _, f := range res.Files {
		name := s.abs(f.Path)
		if !f.Written || f.Undo == nil || name == "" {
			continue
		}
		place := sdk.ToolCallLocation{Path: name}
		if utf8.ValidString(f.Content) && utf8.ValidString(f.Undo.Proposed) {
			d := sdk.ToolDiffContent(name, f.Content)
			if f.Undo.Kind != edit.Delete { // it was not created
				d.Diff.OldText = &f.Undo.Proposed
				place.Line = firstLine(f.Undo.Proposed, f.Content)
			}
			content = append(content, d)
		}
		places = append(places, place)
	}
	return content, places
}

// firstLine returns the number of the first line in which two texts differ, or nil.
func firstLine(a, b string) *int {
	n := 1
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			break
		}
		if a[i] == '\n' {
			n++
		}
	}
	return &n
}

func outputOf(o *aycoder.ToolOutput) (content []sdk.ToolCallContent) {
	for _, p := range o.Parts {
		if text, ok := p.(*aycoder.Text); ok {
			p = &aycoder.Text{Text: shorten(text.Text)}
		}
		if b := block(p); b != nil {
			content = append(content, sdk.ToolContent(*b))
		}
	}
	return content
}

func shorten(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "\n[more is not shown]"
}

// tellPlan tells the list of tasks.
func (s *conversation) tellPlan() {
	entries := []sdk.PlanEntry{}
	for _, item := range s.rt.Todos.Items() {
		e := sdk.PlanEntry{Content: item.Content, Priority: sdk.PlanEntryPriorityMedium, Status: sdk.PlanEntryStatusPending}
		switch item.Status {
		case tools.TodoInProgress:
			e.Status = sdk.PlanEntryStatusInProgress
		case tools.TodoCompleted:
			e.Status = sdk.PlanEntryStatusCompleted
		case tools.TodoCancelled:
			continue
		}
		entries = append(entries, e)
	}
	s.tell(sdk.UpdatePlan(entries...))
}

// The ids of the answers to a question. That of a rule is ruleAnswer and its number.
const (
	allowAnswer  = "allow"
	denyAnswer   = "deny"
	ruleAnswer   = "rule-"
	maxRuleShown = 4
)

// ask puts a question to the user of the client. Whatever is not clearly an answer denies the call.
func (t *teller) ask(ctx context.Context, below string, q *aycoder.ApprovalRequested) {
	r := &q.Request
	id := t.begin(below, &aycoder.ToolUse{ID: r.CallID, Name: r.Tool}, r.Subject, r.Args)
	call := sdk.ToolCallUpdate{ToolCallId: id, Title: new(title(r.Tool, r.Subject)), Kind: new(kindOf(r.Tool)),
		Status: new(sdk.ToolCallStatusPending), RawInput: r.Args}
	call.Content, call.Locations = t.s.proposal(r)
	options := []sdk.PermissionOption{{OptionId: allowAnswer, Kind: sdk.PermissionOptionKindAllowOnce, Name: "Allow"}}
	rules := r.Suggested[:min(len(r.Suggested), maxRuleShown)]
	for i, rule := range rules {
		options = append(options, sdk.PermissionOption{OptionId: sdk.PermissionOptionId(ruleAnswer + string(rune('1'+i))),
			Kind: sdk.PermissionOptionKindAllowAlways, Name: "Always allow in this session: " + rule})
	}
	options = append(options, sdk.PermissionOption{OptionId: denyAnswer, Kind: sdk.PermissionOptionKindRejectOnce, Name: "Reject"})
	resp, err := t.s.agent.conn.RequestPermission(ctx, sdk.RequestPermissionRequest{SessionId: t.s.id, ToolCall: call, Options: options})
	switch {
	case err != nil:
		q.Deny(cmp.Or(context.Cause(ctx), errors.New("the client does not ask: "+err.Error())).Error())
	case resp.Outcome.Selected == nil:
		q.Deny("the question was cancelled")
	default:
		answer(q, string(resp.Outcome.Selected.OptionId), rules)
	}
}

func answer(q *aycoder.ApprovalRequested, id string, rules []string) {
	if id == allowAnswer {
		q.Allow()
		return
	}
	for i, rule := range rules {
		if id == ruleAnswer+string(rune('1'+i)) {
			if err := q.AllowFor(aycoder.Session, rule); err != nil && !errors.Is(err, aycoder.ErrDecided) {
				q.Deny("the rule was not accepted: " + err.Error())
			}
			return
		}
	}
	q.Deny("the user has rejected it")
}

// proposal shows what a call would do.
func (s *conversation) proposal(r *aycoder.ApprovalRequest) (content []sdk.ToolCallContent, places []sdk.ToolCallLocation) {
	say := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			content = append(content, sdk.ToolContent(sdk.TextBlock(shorten(text))))
		}
	}
	if r.Plan == nil {
		say(r.Preview)
		if name := s.fileOf(r.Tool, r.Subject); name != "" {
			places = append(places, sdk.ToolCallLocation{Path: name})
		}
	} else {
		for _, f := range r.Plan.Files() {
			name := s.abs(f.Path)
			if name == "" || !utf8.ValidString(f.Base) || !utf8.ValidString(f.Proposed) {
				say(r.Preview)
				continue
			}
			d := sdk.ToolDiffContent(name, f.Proposed)
			if f.Kind != edit.Create {
				d.Diff.OldText = &f.Base
			}
			content, places = append(content, d), append(places, sdk.ToolCallLocation{Path: name})
		}
	}
	if r.Tool == "bash" && r.Preview == "" {
		say("```sh\n" + r.Subject + "\n```")
	}
	if len(r.Reasons) > 0 {
		say("It " + strings.Join(r.Reasons, ", and ") + ".")
	}
	return content, places
}

// replay tells the whole conversation up to the present point.
func (s *conversation) replay() {
	v := s.rt.Session.View()
	t := &teller{s: s, past: true}
	calls := map[string]*aycoder.ToolUse{}
	for _, n := range v.Path(s.rt.Session.Head()) {
		m := n.Message()
		if m == nil {
			continue
		}
		for _, p := range m.Parts {
			t.part(m.Role, p, calls)
		}
	}
	if len(s.rt.Todos.Items()) > 0 {
		s.tellPlan()
	}
}

// part tells a part of a message of the past.
func (t *teller) part(role aycoder.Role, p aycoder.Part, calls map[string]*aycoder.ToolUse) {
	switch p := p.(type) {
	case *aycoder.ToolUse:
		calls[p.ID] = p
		t.begin("", p, t.s.subject(p), p.Args)
		return
	case *aycoder.ToolOutput:
		call := cmp.Or(calls[p.ID], &aycoder.ToolUse{ID: p.ID, Name: p.Name})
		t.finished("", &aycoder.ToolFinished{Call: call, Output: p, Subject: t.s.subject(call)})
		return
	case *aycoder.Thinking:
		if p.Text != "" {
			t.s.tell(sdk.UpdateAgentThoughtText(p.Text))
		}
		return
	}
	b := block(p)
	switch {
	case b == nil:
	case role == aycoder.RoleUser:
		t.s.tell(sdk.UpdateUserMessage(*b))
	default:
		t.s.tell(sdk.UpdateAgentMessage(*b))
	}
}

// subject returns what a call of the past was about.
func (s *conversation) subject(call *aycoder.ToolUse) string {
	i := slices.IndexFunc(s.rt.Tools, func(t aycoder.Tool) bool { return t.Spec().Name == call.Name })
	if i < 0 {
		return ""
	}
	var args map[string]json.RawMessage
	var subject string
	if json.Unmarshal(call.Args, &args) == nil {
		_ = json.Unmarshal(args[s.rt.Tools[i].Spec().Subject.Arg], &subject) // "" if it is not a text
	}
	return subject
}
