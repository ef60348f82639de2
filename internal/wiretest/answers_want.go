package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

// A want is the expected value of a case.
type want struct {
	// parts are the lines of the message, in the canonical form of shownParts.
	parts     []string
	deltas    *string // text that came before an error
	anyDeltas bool    // the source leaves open how much of the text comes before an error
	stop      aycoder.StopReason
	usage     aycoder.Usage
	id, model string
	growing   bool // more may come behind what ends an answer

	err string // the class of the error
	// The pointers are nil if the case does not mention the field, which then is not compared.
	status                   int
	kind, message, requestID *string
	retryAfter               time.Duration
	resetAt                  string
	actual, limit            int64
}

// parseWant parses the expected value of a case. Each must have a stop reason or an error, but
// not both, since that is the most important fact about an answer.
func parseWant(lines []string) (x want, err error) {
	for _, l := range lines {
		key, val, _ := strings.Cut(l, " ")
		// JSON is compared in its canonical form, since a file may have spaces that a client
		// removes.
		if key == "signature" && strings.HasPrefix(val, "{") {
			x.parts = append(x.parts, key+" "+canonical(json.RawMessage(val)))
			continue
		}
		switch key {
		case "text", "thinking", "signature":
			s, err := unquoted(val)
			if err != nil {
				return x, fmt.Errorf("%s: %w", l, err)
			}
			x.parts = append(x.parts, key+" "+quoted(s))
		case "call":
			id, rest, _ := strings.Cut(val, " ")
			name, args, _ := strings.Cut(rest, " ")
			x.parts = append(x.parts, fmt.Sprintf("call %s %s %s", id, name,
				canonical(json.RawMessage(args))))
		case "cut":
			id, rest, _ := strings.Cut(val, " ")
			name, args, _ := strings.Cut(rest, " ")
			s, err := unquoted(args)
			if err != nil {
				return x, fmt.Errorf("%s: %w", l, err)
			}
			x.parts = append(x.parts, fmt.Sprintf("cut %s %s %s", id, name, quoted(s)))
		case "opaque", "with":
			x.parts = append(x.parts, key+" "+canonical(json.RawMessage(val)))
		default:
			if err := x.fact(key, val); err != nil {
				return x, fmt.Errorf("%s: %w", l, err)
			}
		}
	}
	if (x.err == "") == (x.stop == "") {
		return x, errors.New("expected value has neither or both of stop and error")
	}
	return x, nil
}

// text returns the expected text of the deltas: that of the text parts, unless the case says that
// more text came before an error.
func (x *want) text() string {
	if x.deltas != nil {
		return *x.deltas
	}
	var b strings.Builder
	for _, p := range x.parts {
		if val, ok := strings.CutPrefix(p, "text "); ok {
			s, _ := unquoted(val) // it was read before
			b.WriteString(s)
		}
	}
	return b.String()
}

// unquoted decodes a JSON string.
func unquoted(s string) (out string, err error) { return out, json.Unmarshal([]byte(s), &out) }

// fact parses a line of the expected value that is not a part of the message.
func (x *want) fact(key, val string) (err error) {
	text := func(to **string) error {
		s, err := unquoted(val)
		*to = &s
		return err
	}
	switch key {
	case "stop":
		x.stop = aycoder.StopReason(val)
	case "usage":
		return x.count(val)
	case "id":
		x.id = val
	case "model":
		x.model = val
	case "growing":
		x.growing = true
	case "deltas":
		if x.anyDeltas = val == "*"; x.anyDeltas {
			return nil
		}
		return text(&x.deltas)
	case "error":
		x.err = val
	case "status":
		x.status, err = strconv.Atoi(val)
	case "kind":
		return text(&x.kind)
	case "message":
		return text(&x.message)
	case "request":
		return text(&x.requestID)
	case "retry-after":
		x.retryAfter, err = time.ParseDuration(val)
	case "reset-at":
		x.resetAt = val
	case "tokens":
		_, err = fmt.Sscanf(val, "%d of %d", &x.actual, &x.limit)
	default:
		return errors.New("no such fact")
	}
	return err
}

// count parses a usage, such as "input 3, output 5, cache read 2".
func (x *want) count(val string) error {
	for part := range strings.SplitSeq(val, ", ") {
		i := strings.LastIndexByte(part, ' ')
		n, err := strconv.ParseInt(part[i+1:], 10, 64)
		if err != nil || i < 0 {
			return fmt.Errorf("not a count: %q", part)
		}
		to := map[string]*int64{
			"input": &x.usage.Input, "output": &x.usage.Output, "reasoning": &x.usage.Reasoning,
			"cache read": &x.usage.CacheRead, "cache write": &x.usage.CacheWrite,
		}[part[:i]]
		if to == nil {
			return fmt.Errorf("not a count: %q", part)
		}
		*to = n
	}
	return nil
}
