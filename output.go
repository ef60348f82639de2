package aycoder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/runes"
)

// finished makes the event and the output of a call that ran, and says whether the
// call ends the run. An error whose methods panic is itself a panic of the tool.
func (l *Loop) finished(ctx context.Context, a *RunTool, o outcome) (fin *ToolFinished, fatal bool) {
	defer func() {
		if p := recover(); p != nil {
			base := &ToolError{Tool: a.Call.Name, CallID: a.Call.ID}
			err := &ToolPanicError{ToolError: base, Value: p}
			fin, fatal = l.finished(ctx, a, outcome{err: err, elapsed: o.elapsed})
		}
	}()
	shown := &ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: a.Args}
	fin = &ToolFinished{Call: a.Call, Subject: l.subject(shown), Elapsed: o.elapsed}
	fin.Output = &ToolOutput{ID: a.Call.ID, Name: a.Call.Name}
	if o.err != nil {
		fin.Err, fin.Summary = typed(ctx, a.Call, o), "error"
		fin.Output.IsError = true
		fin.Output.Parts = []Part{&Text{Text: l.bound(modelText(fin.Err, o.err))}}
		if c, ok := errors.AsType[changed](o.err); ok {
			fin.Changes = c.Changes()
		}
	} else if o.res != nil {
		fin.Changes = o.res.Changes
		fin.Summary = runes.Shorten(cleanText(o.res.Summary), 200)
		fin.Usage = o.res.Usage
		fin.Output.IsError, fin.Output.Untrusted = o.res.IsError, o.res.Untrusted
		fin.Output.Parts = l.boundParts(o.res.Parts)
	}
	if a.Edited {
		note := "note: whoever approved this call changed its arguments to "
		note += runes.Shorten(cleanText(string(a.Args)), maxQuoted) + "\n"
		fin.Output.Parts = append([]Part{&Text{Text: note}}, fin.Output.Parts...)
	}
	if len(fin.Output.Parts) == 0 {
		fin.Output.Parts = []Part{&Text{Text: "(no output)"}}
	}
	return fin, isFatal(o.err)
}

// maxQuoted bounds what the model is told of its own words.
const maxQuoted = 4 << 10

// typed gives an error of a tool its type.
func typed(ctx context.Context, call *ToolUse, o outcome) error {
	if _, ok := errors.AsType[*ToolError](o.err); ok {
		return o.err
	}
	base := &ToolError{Tool: call.Name, CallID: call.ID, Err: o.err}
	switch {
	case ctx.Err() != nil && errors.Is(o.err, ctx.Err()):
		return &ToolCancelledError{ToolError: base}
	case errors.Is(o.err, context.DeadlineExceeded):
		return &ToolTimeoutError{ToolError: base, Elapsed: o.elapsed}
	}
	return base
}

// modelText is what the model reads of an error: the tool's own words.
func modelText(err, cause error) string {
	switch e := err.(type) {
	case *ToolCancelledError:
		return outStopped
	case *ToolTimeoutError:
		return fmt.Sprintf("timed out after %s", e.Elapsed)
	case *ToolPanicError:
		return fmt.Sprintf("the tool broke down: panic: %v", e.Value)
	}
	return cause.Error()
}

// boundParts bounds what one call gives to the model.
func (l *Loop) boundParts(parts []Part) []Part {
	var out []Part
	room := l.maxOutput
	for _, p := range parts {
		switch p := p.(type) {
		case *Text:
			if p == nil || p.Text == "" {
				continue
			}
			t := headTail(cleanText(p.Text), max(room, 1024))
			room -= len(t)
			out = append(out, &Text{Text: t})
		case *Media:
			if p != nil {
				out = append(out, boundMedia(cleanMedia(p)))
			}
		default:
			out = append(out, &Text{Text: fmt.Sprintf("[a part of kind %T is left out]", p)})
		}
		if len(out) == maxOutputParts {
			return append(out, &Text{Text: "[further parts are left out]"})
		}
	}
	return out
}

const (
	maxOutputParts = 64
	maxMedia       = 16 << 20
)

func boundMedia(m *Media) Part {
	if len(m.Data) > maxMedia {
		return &Text{Text: fmt.Sprintf("[%s of %d bytes is left out: too large]", m.Type, len(m.Data))}
	}
	return m
}

func (l *Loop) bound(s string) string { return headTail(cleanText(s), l.maxOutput) }

// headTail keeps the first and the last part of s, cut between runes, and says what
// is missing.
func headTail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head, tail := n*2/3, n/3
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	from := len(s) - tail
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return fmt.Sprintf("%s\n[%d bytes are left out here]\n%s", s[:head], from-head, s[from:])
}

var noNUL = strings.NewReplacer("\x00", "\uFFFD")

// cleanText makes s valid UTF-8 without NUL: what JSON, terminals and databases can
// all hold.
func cleanText(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = noNUL.Replace(s)
	}
	return s
}

// cleanDelta is cleanText for a delta; one that is clean stays itself.
func cleanDelta(ev ModelEvent) Event {
	switch ev := ev.(type) {
	case *TextDelta:
		if t := cleanText(ev.Text); t != ev.Text {
			return &TextDelta{t}
		}
		return ev
	case *ThinkingDelta:
		if t := cleanText(ev.Text); t != ev.Text {
			return &ThinkingDelta{t}
		}
		return ev
	case *ToolDelta:
		d := ToolDelta{cleanText(ev.ID), cleanText(ev.Name), cleanText(ev.Args)}
		if d != *ev {
			return &d
		}
		return ev
	}
	return nil
}

// cleanPart makes what comes from a model fit for the history, where it can be
// stored. Thinking that has to be changed loses its signature, which would no longer
// be true. It reports false for an opaque block that is no JSON: nobody can use it.
func cleanPart(p Part) (Part, bool) {
	switch p := p.(type) {
	case *Text:
		if p == nil {
			return p, true
		}
		if t := (Text{Text: cleanText(p.Text), Extra: cleanExtra(p.Extra)}); t != *p {
			return &t, true
		}
	case *Thinking:
		if p != nil {
			return cleanThinking(p), true
		}
	case *ToolUse:
		return cleanCall(p), true
	case *Media:
		if p != nil {
			return cleanMedia(p), true
		}
	case *Opaque:
		if p != nil {
			o := cleanExtra(p)
			return o, o != nil
		}
	case *ToolOutput:
		if p != nil {
			o := *p
			o.ID, o.Name, o.Parts = cleanText(p.ID), cleanText(p.Name), cleanParts(p.Parts)
			return &o, true
		}
	}
	return p, true
}

// cleanMessage returns m, or a message of which all text is valid UTF-8.
func cleanMessage(m *Message) *Message {
	if !slices.ContainsFunc(m.Parts, isGarbled) {
		return m
	}
	return &Message{Role: m.Role, Parts: cleanParts(m.Parts)}
}

// isGarbled reports whether a part has text that is not valid UTF-8.
func isGarbled(p Part) bool {
	var err error
	switch p := p.(type) {
	case *Text:
		err = cmp.Or(checkUTF8(p.Text), checkExtra(p.Extra))
	case *Thinking:
		err = checkUTF8(p.Text, p.Signature, p.Provider)
	case *ToolUse:
		err = cmp.Or(checkUTF8(p.ID, p.Name), checkExtra(p.Extra))
		if !utf8.Valid(p.Args) {
			err = errNotUTF8
		}
	case *ToolOutput:
		return checkUTF8(p.ID, p.Name) != nil || slices.ContainsFunc(p.Parts, isGarbled)
	case *Media:
		err = checkUTF8(p.Type, p.Name, p.URL)
	case *Opaque:
		err = checkExtra(p)
	}
	return err != nil
}

func cleanParts(parts []Part) []Part {
	var out []Part
	for _, p := range parts {
		if c, ok := cleanPart(p); ok {
			out = append(out, c)
		}
	}
	return out
}

func cleanThinking(p *Thinking) *Thinking {
	t := &Thinking{Text: cleanText(p.Text), Signature: cleanText(p.Signature), Provider: cleanText(p.Provider)}
	if *t != *p {
		t.Signature = ""
	}
	return t
}

func cleanMedia(p *Media) *Media {
	m := *p
	m.Type, m.Name, m.URL = cleanText(p.Type), cleanText(p.Name), cleanText(p.URL)
	return &m
}

// cleanExtra returns o, or nil if it is no JSON text.
func cleanExtra(o *Opaque) *Opaque {
	if o == nil || !utf8.Valid(o.Raw) || !json.Valid(o.Raw) || cleanText(o.Provider) != o.Provider {
		return nil
	}
	return o
}

// cleanCall returns a copy: the pointer tells the calls of one try from those of
// the next, even if a client yields the same one twice.
func cleanCall(c *ToolUse) *ToolUse {
	if c == nil {
		return nil
	}
	args := c.Args
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if !utf8.Valid(args) || bytes.IndexByte(args, 0) >= 0 {
		args = json.RawMessage(cleanText(string(args)))
	}
	return &ToolUse{ID: cleanText(c.ID), Name: cleanText(c.Name), Args: args, Extra: cleanExtra(c.Extra)}
}

func partSize(p Part) int64 {
	switch p := p.(type) {
	case *Text:
		return int64(len(p.Text)) + extraSize(p.Extra)
	case *Thinking:
		return int64(len(p.Text) + len(p.Signature))
	case *ToolUse:
		return int64(len(p.Name)+len(p.ID)+len(p.Args)) + extraSize(p.Extra)
	case *Media:
		return int64(len(p.Type) + len(p.Name) + len(p.URL) + len(p.Data))
	case *Opaque:
		return extraSize(p)
	}
	return 0
}

func extraSize(o *Opaque) int64 {
	if o == nil {
		return 0
	}
	return int64(len(o.Provider) + len(o.Raw))
}
