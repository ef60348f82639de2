//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// A floor is the least agent that does the work. It keeps the conversation as the text of its next request, finds
// the fields that it needs without parsing, starts a tool as soon as its arguments are an object, and
// handles no failure.
type floor struct {
	*wire
	setup
	head, history []byte
}

// A call is one of the answer that arrives.
type call struct {
	id, tool  []byte // with quotes
	raw, args []byte // arguments, escaped and not
	output    string
	begun     bool
}

func newFloor(w *wire, s setup) (agent, error) {
	f := &floor{wire: w, setup: s}
	f.head = fill(nil, w.head, []byte(quote(system)), []byte(schema))
	return f.run, nil
}

func (f *floor) run(ctx context.Context, prompt string) (string, error) {
	if len(f.history) > 0 {
		f.history = append(f.history, ',')
	}
	f.history = fill(f.history, f.user, []byte(quote(prompt)))
	for {
		text, raw, calls, err := f.ask(ctx)
		if err != nil {
			return "", err
		}
		f.record(raw, calls)
		if len(calls) == 0 {
			return string(text), nil
		}
	}
}

// ask sends the conversation, and runs the tools of the answer.
func (f *floor) ask(ctx context.Context) (text, raw []byte, calls []*call, err error) {
	const end = "]}"
	body := io.MultiReader(bytes.NewReader(f.head), bytes.NewReader(f.history), bytes.NewReader([]byte(end)))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+f.path, body)
	if err != nil {
		return nil, nil, nil, err
	}
	req.ContentLength = int64(len(f.head) + len(f.history) + len(end))
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, nil, fmt.Errorf("status %s", resp.Status)
	}
	var tools sync.WaitGroup
	defer tools.Wait()
	seen := seen{wire: f.wire}
	text, raw = make([]byte, 0, 512), make([]byte, 0, 512)
	for r := bufio.NewReader(resp.Body); ; {
		line, err := r.ReadSlice('\n')
		if err == io.EOF {
			return text, raw, calls, nil
		}
		if err != nil {
			return nil, nil, nil, err
		}
		if !bytes.HasPrefix(line, []byte("data: ")) {
			continue
		}
		switch kind, piece := seen.find(line); kind {
		case textEvent:
			raw = append(raw, piece...)
			from := len(text)
			text = unescape(text, piece)
			f.setup.text(string(text[from:]))
			continue
		case callEvent:
			c := &call{tool: quoted(value(line, f.tool))}
			if f.id != "" {
				c.id = quoted(value(line, f.id))
			}
			calls = append(calls, c)
			if f.args.in != f.call.in {
				continue
			}
			_, object, _ := bytes.Cut(line, []byte(f.args.before))
			c.args = append(c.args, object[:bytes.IndexByte(object, '}')+1]...)
		case argsEvent:
			c := calls[len(calls)-1]
			c.raw = append(c.raw, piece...)
			c.args = unescape(c.args, piece)
		default:
			continue
		}
		if c := calls[len(calls)-1]; !c.begun && len(c.args) > 0 && c.args[len(c.args)-1] == '}' {
			c.begun = true
			tools.Go(func() {
				var in lookupArgs
				if json.Unmarshal(c.args, &in) == nil {
					c.output = f.lookup(in)
				}
			})
		}
	}
}

// seen knows how the last events of each kind began, since the next ones mostly begin like them.
type seen struct {
	*wire
	like [2][]byte
}

const (
	textEvent = iota
	argsEvent
	callEvent
	otherEvent
)

// find returns the kind of an event, and its value if it has text or arguments in pieces.
func (s *seen) find(line []byte) (kind int, piece []byte) {
	for kind, p := range s.like {
		if len(p) > 0 && bytes.HasPrefix(line, p) {
			return kind, stringAt(line[len(p):])
		}
	}
	for _, k := range []struct {
		kind int
		mark
	}{{textEvent, s.text}, {callEvent, s.call}, {argsEvent, s.args}} {
		if !bytes.Contains(line, []byte(k.in)) {
			continue
		}
		if k.kind != callEvent {
			at := bytes.Index(line, []byte(k.before)) + len(k.before)
			s.like[k.kind] = append(s.like[k.kind][:0], line[:at]...)
			piece = stringAt(line[at:])
		}
		return k.kind, piece
	}
	return otherEvent, nil
}

// record adds an answer and the outputs of its calls to the conversation.
func (f *floor) record(raw []byte, calls []*call) {
	h := fill(f.history, f.said, quoted(raw))
	for i, c := range calls {
		h = append(h, either(i == 0, f.first, ",")...)
		args := c.args
		if f.escaped {
			args = quoted(c.raw)
		}
		h = fill(h, f.called, c.id, c.tool, args)
	}
	if len(calls) == 0 {
		f.history = append(h, f.end...)
		return
	}
	h = append(append(h, f.last...), f.end...)
	for i, c := range calls {
		h = append(h, either(i == 0, f.open, ",")...)
		h = fill(h, f.result, c.id, c.tool, []byte(quote(c.output)))
	}
	f.history = append(h, f.shut...)
}

// fill appends a text in which %1, %2 and %3 stand for values.
func fill(b []byte, form string, values ...[]byte) []byte {
	for i := 0; i < len(form); i++ {
		if form[i] == '%' {
			i++
			b = append(b, values[form[i]-'1']...)
			continue
		}
		b = append(b, form[i])
	}
	return b
}

// value returns the string that follows before in line, still escaped.
func value(line []byte, before string) []byte {
	_, rest, _ := bytes.Cut(line, []byte(before))
	return stringAt(rest)
}

// stringAt returns the string at the start of b, still escaped.
func stringAt(b []byte) []byte {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return b[1:i]
		}
	}
	return nil
}

func quoted(s []byte) []byte {
	return append(append(append(make([]byte, 0, len(s)+2), '"'), s...), '"')
}

// unescape appends a piece of a string.
func unescape(b, piece []byte) []byte {
	if bytes.IndexByte(piece, '\\') < 0 {
		return append(b, piece...)
	}
	var s string
	_ = json.Unmarshal(quoted(piece), &s) // a text that was not escaped rightly differs in the check
	return append(b, s...)
}
