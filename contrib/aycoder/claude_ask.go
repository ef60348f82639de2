package main

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/dialect"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/policy"
)

// A permission is the answer of the host to a question.
type permission struct {
	Behavior  string            `json:"behavior"`
	Input     json.RawMessage   `json:"updatedInput"`
	Updates   []json.RawMessage `json:"updatedPermissions"`
	Message   string            `json:"message"`
	Interrupt bool              `json:"interrupt"`
}

// approve puts a question to the host. Whatever is not a clear yes is a no.
func (t *claudeTeller) approve(ctx context.Context, q *aycoder.ApprovalRequested) {
	r := &q.Request
	t.call(&aycoder.ToolUse{ID: r.CallID, Name: r.Tool, Args: r.Args})
	if t.f.answered(r.Tool) {
		q.Allow()
		return
	}
	if t.asked == nil {
		t.asked = map[string]bool{}
	}
	t.asked[r.CallID] = true
	v, offers, suggestions := t.view(r.Tool, r.Args), offersOf(r), []any{}
	for _, o := range offers {
		suggestions = append(suggestions, o.update)
	}
	request := map[string]any{
		"subtype": "can_use_tool", "tool_name": v.Name, "input": v.Input, "tool_use_id": r.CallID, "title": r.Subject, "description": r.Preview,
		"decision_reason": strings.Join(r.Reasons, ", "), "permission_suggestions": suggestions,
	}
	if t.parent != "" {
		request["agent_id"] = t.parent
	}
	data, err := t.f.ask(ctx, request)
	var p permission
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err == nil {
		err = t.decide(q, v, offers, &p)
	}
	if err != nil {
		q.Deny("the host has not allowed it: " + err.Error())
	}
}

// An offer is what the host may answer to allow more than one call, and the rule that this is.
type offer struct {
	rule   string
	update any
}

func offersOf(r *aycoder.ApprovalRequest) (offers []offer) {
	for _, text := range r.Suggested {
		if rule, err := policy.ParseRule(policy.RuleAllow, text); err == nil {
			offers = append(offers, offer{text, map[string]any{
				"type": "addRules", "behavior": "allow", "destination": "session",
				"rules": []any{map[string]any{"toolName": dialect.Names(rule.Tool)[0], "ruleContent": rule.Pattern}},
			}})
		}
	}
	return offers
}

// decide answers a question as the host wants. An error is a no.
func (t *claudeTeller) decide(q *aycoder.ApprovalRequested, v dialect.View, offers []offer, p *permission) error {
	switch p.Behavior {
	case "allow":
	case "deny":
		q.Deny(cmp.Or(p.Message, "the host said no"))
		if p.Interrupt {
			t.f.interrupt(false)
		}
		return nil
	default:
		return unsupported("the answer %q", p.Behavior)
	}
	rule, err := t.f.updates(t.rt, offers, p.Updates)
	if err != nil {
		return err
	}
	same, err := json.Marshal(v.Input)
	switch {
	case err != nil:
		return err
	case len(p.Input) > 0 && jsontext.Canonical(p.Input) != jsontext.Canonical(same):
		args, err := dialect.Inward(t.rt.Files.Dir(), q.Request.Tool, v, p.Input)
		if err == nil && rule != "" {
			err = unsupported("another input together with a rule")
		}
		if err == nil {
			err = q.AllowWith(args)
		}
		return err
	case rule != "":
		return q.AllowFor(aycoder.Session, rule)
	}
	q.Allow()
	return nil
}

// updates carries out what the host wants besides, and returns the rule that it allows: one of those that it was offered, or the
// widest, which is the last one, of a host that gives back several.
func (f *claudeFace) updates(rt *harness.Runtime, offers []offer, updates []json.RawMessage) (rule string, err error) {
	changed, widest := "", -1
	for _, u := range updates {
		var mode struct{ Type, Mode, Destination string }
		if json.Unmarshal(u, &mode) == nil && mode.Type == "setMode" && mode.Destination == "session" {
			if _, err := f.modeOf(mode.Mode); err != nil {
				return "", err
			}
			changed = mode.Mode
			continue
		}
		i := slices.IndexFunc(offers, func(o offer) bool {
			data, err := json.Marshal(o.update)
			return err == nil && jsontext.Canonical(data) == jsontext.Canonical(u)
		})
		if i < 0 {
			return "", unsupported("a change of permissions that was not suggested")
		}
		widest = max(widest, i)
	}
	if widest >= 0 {
		rule = offers[widest].rule
	}
	if changed != "" {
		err = f.setMode(rt, changed)
	}
	return rule, err
}
