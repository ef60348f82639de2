package replay

import (
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
)

// clean removes the secrets from an interaction. It does nothing if no secret became
// known since the last call. It changes copies, because the previous values may be in
// use.
func (t *Tape) clean(it *interaction) error {
	known, full := t.secrets.count()
	if full {
		return &aycoder.LimitError{Limit: "secrets", Max: maxSecrets}
	}
	if it.clean == known+1 {
		return nil
	}
	if it.http != nil {
		it.http = t.cleanRequest(it.http)
	}
	if it.model != nil {
		m, err := t.cleanModel(it.model)
		if err != nil {
			return err
		}
		it.model = m
	}
	if it.head != nil {
		it.head = &headLine{it.head.Status, t.cleanHeader(it.head.Header)}
	}
	it.body, it.cuts = t.secrets.mask(it.body, it.cuts)
	if t.cfg.redact != nil && len(it.body) > 0 {
		before := it.body
		it.body = t.cfg.redact(slices.Clone(before))
		it.cuts = moveCuts(it.cuts, before, it.body)
	}
	events, err := t.cleanEvents(it.events)
	if err != nil {
		return err
	}
	it.events = events
	it.fail = it.fail.clean(t.cleanText)
	it.clean = known + 1
	return nil
}

// cleanText returns the recorded form of a short text.
func (t *Tape) cleanText(v string) string {
	v = t.secrets.text(strings.ToValidUTF8(v, "\uFFFD"))
	if t.cfg.redact != nil && v != "" {
		v = strings.ToValidUTF8(string(t.cfg.redact([]byte(v))), "\uFFFD")
	}
	return v
}

// cleanHeader takes the secrets out of the values of headers.
func (t *Tape) cleanHeader(h map[string]string) map[string]string {
	if h == nil {
		return nil
	}
	out := make(map[string]string, len(h))
	for name, value := range h {
		out[name] = t.cleanText(value)
	}
	return out
}

func (t *Tape) cleanRequest(h *httpLine) *httpLine {
	c := &httpLine{Method: h.Method, URL: t.cleanText(h.URL), Header: t.cleanHeader(h.Header)}
	c.setBody(t.cleanBody(h.body()))
	return c
}

// cleanBody returns the recorded form of a request body.
func (t *Tape) cleanBody(data []byte) []byte {
	data, _ = t.secrets.mask(data, nil)
	if t.cfg.redact != nil && len(data) > 0 {
		data = t.cfg.redact(slices.Clone(data))
	}
	return data
}

// moveCuts adapts the cuts of a body that the host has changed: those in unchanged parts
// stay, the others are dropped.
func moveCuts(cuts []int, before, after []byte) []int {
	head := 0
	for head < min(len(before), len(after)) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	var out []int
	for _, c := range cuts {
		switch {
		case c <= head:
			out = append(out, c)
		case c >= len(before)-tail:
			out = append(out, c+len(after)-len(before))
		}
	}
	return out
}
