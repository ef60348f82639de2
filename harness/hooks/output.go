package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
)

const maxContext = 64 << 10 // bytes of what a hook tells the model

// answer is what a hook may write to its standard output.
type answer struct {
	Continue      *bool  `json:"continue"`
	StopReason    string `json:"stopReason"`
	SystemMessage string `json:"systemMessage"`
	Decision      string `json:"decision"`
	Reason        string `json:"reason"`
	Specific      struct {
		Permission       string          `json:"permissionDecision"`
		PermissionReason string          `json:"permissionDecisionReason"`
		UpdatedInput     json.RawMessage `json:"updatedInput"`
		UpdatedOutput    json.RawMessage `json:"updatedToolOutput"`
		Context          string          `json:"additionalContext"`
		Decision         struct {
			Behavior     string          `json:"behavior"`
			Message      string          `json:"message"`
			UpdatedInput json.RawMessage `json:"updatedInput"`
		} `json:"decision"`
	} `json:"hookSpecificOutput"`
}

// An opinion is what a hook said, without what would loosen.
type opinion struct {
	refuse, ask, suspend bool
	reason               string
	input, output        json.RawMessage // replaced, or nil
	context              string          // for the model
	message              string          // for the user
	stop                 bool            // the agent is to stop
}

// telling are the events whose plain standard output is for the model.
var telling = map[Event]bool{UserPromptSubmit: true, SessionStart: true}

// keys are those of an answer that decides, which must not be taken for plain text.
var keys = []string{`"hookSpecificOutput"`, `"decision"`, `"continue"`}

// opinion reads the result of a hook. The error says that it is not understood.
func (res *result) opinion(event Event) (o opinion, err error) {
	if res.Code == 2 {
		o.refuse, o.reason = true, res.Stderr
		return o, nil
	}
	text := strings.TrimSpace(res.Stdout)
	var a answer
	if !strings.HasPrefix(text, "{") {
		if slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(text, key) }) {
			return o, errors.New("there is text before its JSON")
		}
		if telling[event] {
			o.context = runes.HeadTail(text, maxContext)
		}
		return o, nil
	}
	err = json.Unmarshal([]byte(text), &a)
	if err == nil {
		err = checkKeys(json.RawMessage(text), "")
	}
	if err != nil {
		return o, fmt.Errorf("its output is not understood: %w", err)
	}
	return a.opinion()
}

const specific = "hookSpecificOutput"

// checkKeys returns an error for an object of an answer in which a key is there twice, since the last one would count: a
// script that quotes a call in its reason could be made to take its decision back. A decision that stands outside of the
// object for it is an error, too. Texts and objects that replace an input or an output are not looked at.
func checkKeys(object json.RawMessage, in string) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		folded := strings.ToLower(strings.ToUpper(key)) // as encoding/json takes names for equal
		var value json.RawMessage
		switch err := d.Decode(&value); {
		case err != nil:
			return err
		case seen[folded]:
			return fmt.Errorf("the key %.80s is there twice", key)
		case in == "" && (folded == "permissiondecision" || folded == "updatedinput"):
			return fmt.Errorf("the key %.80s belongs into %s", key, specific)
		case folded == "decision" || in == "" && folded == strings.ToLower(specific):
			if err := checkKeys(value, key); err != nil {
				return err
			}
		}
		seen[folded] = true
	}
	return nil
}

func (a *answer) opinion() (o opinion, err error) {
	s := &a.Specific
	o.context, o.message = runes.HeadTail(s.Context, maxContext), runes.HeadTail(a.SystemMessage, maxQuoted)
	if a.Continue != nil && !*a.Continue {
		o.refuse, o.stop, o.reason = true, true, a.StopReason
	}
	for _, d := range []struct{ word, reason string }{
		{s.Permission, s.PermissionReason}, {a.Decision, a.Reason}, {s.Decision.Behavior, s.Decision.Message},
	} {
		switch d.word {
		case "", "allow", "approve": // which is not an opinion
			continue
		case "deny", "block":
			o.refuse = true
		case "ask":
			o.ask = true
		case "defer":
			o.suspend = true
		default:
			return o, fmt.Errorf("there is no decision %.80q", d.word)
		}
		if o.reason == "" {
			o.reason = d.reason
		}
	}
	o.reason = runes.HeadTail(o.reason, maxQuoted)
	o.input, o.output = given(s.UpdatedInput), given(s.UpdatedOutput)
	if o.input == nil {
		o.input = given(s.Decision.UpdatedInput)
	}
	return o, nil
}

// given returns a value, or nil for null.
func given(v json.RawMessage) json.RawMessage {
	if v = bytes.TrimSpace(v); len(v) == 0 || string(v) == "null" {
		return nil
	}
	return v
}
