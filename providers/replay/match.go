package replay

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Which interaction answers a request. Requests are compared by their meaning, after the
// secrets were taken out: the spelling of JSON, the order of members, and fields that the
// host names do not count. If none is the same, the error has the differences from the
// nearest one; in strict order only the next one is a candidate.

// take returns a copy of the recorded interaction for a request. If there is none, it
// returns nil, or an error if the mode forbids recording. Secrets must already be removed
// from the request, as they are from the recorded ones.
func (t *Tape) take(req *interaction) (*interaction, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, t.failed(fs.ErrClosed)
	}
	t.requests++
	f := t.find(req)
	switch missing := t.cfg.mode == RecordMissing; {
	// In strict order a request that was recorded for later is an error: a program that
	// asks in another order is another program.
	case f.same != nil && (missing || t.cfg.lenient || f.same == f.next):
		f.same.used = true
		if missing {
			t.log = append(t.log, f.same)
		}
		return new(*f.same), nil
	case f.again != nil && t.cfg.reuse:
		return new(*f.again), nil
	case missing:
		return nil, nil
	}
	return nil, t.mismatch(req, f)
}

// found has the candidates for a request.
type found struct {
	next  *interaction // the first unused interaction of the same kind
	same  *interaction // the first unused one with an equal request
	again *interaction // the last used one with an equal request
}

// find looks for the candidates in one pass. Equal keys are found first, as they are cheap to
// compare. Only if none is usable, trees are compared with the recordings from which secrets
// were removed, because such a recording equals many requests.
func (t *Tape) find(req *interaction) (f found) {
	key := t.keyOf(req)
loop:
	for _, it := range t.recorded {
		switch {
		case (it.http == nil) != (req.http == nil):
		case it.used && t.keyOf(it) == key:
			f.again = it
		case it.used:
		default:
			if f.next == nil {
				f.next = it
			}
			if t.keyOf(it) == key {
				f.same = it
				break loop
			}
		}
	}
	if f.same == nil || t.ordered() && f.same != f.next {
		// In strict order the next one may fit, although a later one is equal.
		f.same = cmp.Or(t.fitting(req), f.same)
	}
	return f
}

// ordered reports whether only the next interaction may match.
func (t *Tape) ordered() bool { return t.cfg.mode == Replay && !t.cfg.lenient }

// fitting returns the first unused interaction that is equal except for removed secrets:
// a secret may have become known after the request was sent, or may have changed since.
func (t *Tape) fitting(req *interaction) *interaction {
	var mine any
	for _, it := range t.recorded {
		if it.used || (it.http == nil) != (req.http == nil) {
			continue
		}
		if it.masked() {
			if mine == nil {
				mine = t.tree(req)
			}
			if fits(t.tree(it), mine) {
				return it
			}
		}
		if t.ordered() {
			break // this is the next one
		}
	}
	return nil
}

// hint says where else a request was recorded.
func (f found) hint() string {
	switch {
	case f.same != nil:
		return fmt.Sprintf("it is interaction %d: the order is another", f.same.number)
	case f.again != nil:
		return fmt.Sprintf("it is interaction %d, which was used already", f.again.number)
	}
	return ""
}

// maxCandidates is the number of interactions that are compared with a request that does
// not match any. A comparison walks two whole conversations, so a long tape would make each
// mismatch slow.
const maxCandidates = 32

// mismatch describes how a request differs from the expected one.
func (t *Tape) mismatch(req *interaction, f found) *MismatchError {
	e := &MismatchError{File: t.path, Number: t.requests, Request: req.label(), Hint: f.hint()}
	var candidates []*interaction
	for _, it := range t.recorded {
		if (it.http == nil) == (req.http == nil) && !it.used && len(candidates) < maxCandidates {
			candidates = append(candidates, it)
		}
		if !t.cfg.lenient && len(candidates) == 1 {
			break // this is the next one
		}
	}
	mine, best := t.tree(req), math.MaxInt
	for _, it := range candidates {
		d := &differ{}
		d.compare("", t.tree(it), mine, 0)
		if d.total < best {
			best = d.total
			e.Nearest, e.Changes, e.More = it.number, d.changes, d.total-len(d.changes)
		}
	}
	return e
}

// label describes a request in a few words.
func (it *interaction) label() string {
	if it.model != nil {
		return strings.TrimSpace("model " + cmp.Or(it.model.Asked, it.model.Model))
	}
	path := it.http.URL
	if u, err := url.Parse(path); err == nil {
		path = u.Path
	}
	return it.http.Method + " " + path
}

// keyOf returns a key that is equal for equal requests.
func (t *Tape) keyOf(it *interaction) string {
	if it.key == "" {
		data, err := json.Marshal(t.tree(it))
		if err != nil { // the trees contain only JSON values
			return ""
		}
		sum := sha256.Sum256(data)
		it.key = string(sum[:])
	}
	return it.key
}

// tree returns the compared contents of a request: the fields of its body, and other
// properties under names that begin with @.
func (t *Tape) tree(it *interaction) any {
	tree := t.bodyTree(it.request())
	if h := it.http; h != nil {
		tree["@method"] = h.Method
		if u, err := url.Parse(h.URL); err == nil {
			tree["@path"] = u.Path
			tree["@query"] = queryTree(u.Query())
		}
		if !t.cfg.lenient {
			header := map[string]any{}
			for name, value := range h.Header {
				header[name] = value
			}
			tree["@header"] = header
		}
	}
	for _, path := range t.cfg.ignore {
		prune(tree, path)
	}
	return tree
}

// bodyTree returns a body as values, in which the order of members and the spelling of
// numbers do not matter.
func (t *Tape) bodyTree(body []byte) map[string]any {
	if t.cfg.normalize != nil && len(body) > 0 {
		body = t.cfg.normalize(slices.Clone(body))
	}
	if len(body) == 0 {
		return map[string]any{}
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	// As floats, numbers above 2^53 would be equal to their neighbors.
	dec.UseNumber()
	var v any
	switch {
	case !utf8.Valid(body):
		v = base64.StdEncoding.EncodeToString(body)
	case !json.Valid(body) || dec.Decode(&v) != nil:
		v = string(body)
	}
	v = canonical(v)
	if o, ok := v.(map[string]any); ok {
		return o
	}
	return map[string]any{"@body": v}
}

// canonical gives equal numbers the same form: 1, 1.0 and 1e0. It modifies the tree.
func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = canonical(x)
		}
	case []any:
		for i, x := range v {
			v[i] = canonical(x)
		}
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
		}
	}
	return v
}

// queryTree returns a query as values. A parameter that is given once is not a list. So the
// path of an ignored parameter needs no index.
func queryTree(q url.Values) map[string]any {
	out := map[string]any{}
	for name, values := range q {
		if len(values) == 1 {
			out[name] = values[0]
			continue
		}
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		out[name] = list
	}
	return out
}

// prune removes the value at path from a tree; elements of lists become null.
func prune(v any, path []string) {
	seg, rest := path[0], path[1:]
	if seg == "**" {
		if len(rest) == 0 {
			seg, rest = "*", nil
		} else {
			prune(v, rest)
			children(v, func(child any) { prune(child, path) })
			return
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			switch {
			case seg != "*" && seg != k:
			case len(rest) == 0:
				delete(v, k)
			default:
				prune(child, rest)
			}
		}
	case []any:
		for i, child := range v {
			switch {
			case seg != "*" && seg != strconv.Itoa(i):
			case len(rest) == 0:
				v[i] = nil
			default:
				prune(child, rest)
			}
		}
	}
}

// children calls f for what is directly in a value. Calling it for a text or a number does
// nothing.
func children(v any, f func(any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, child := range v {
			f(child)
		}
	case []any:
		for _, child := range v {
			f(child)
		}
	}
}

// splitPath splits a path into its keys: `a.b[0]["c.d"]`.
func splitPath(path string) (segs []string, err error) {
	for rest, more := path, true; more; {
		var seg string
		if seg, rest, err = cutKey(rest); err != nil {
			return nil, fmt.Errorf("path %q: %w", path, err)
		}
		segs = append(segs, seg)
		if rest, more = strings.CutPrefix(rest, "."); !more {
			more = rest != "" // followed by a bracket
		}
	}
	return segs, nil
}

// cutKey splits off the first key of a path: `["key"]`, `[0]` or `key`.
func cutKey(path string) (key, rest string, err error) {
	switch {
	case strings.HasPrefix(path, `["`):
		quoted, err := strconv.QuotedPrefix(path[1:])
		rest, ok := strings.CutPrefix(path[1+len(quoted):], "]")
		if err != nil || !ok {
			return "", "", errors.New("a quote has no end")
		}
		key, err = strconv.Unquote(quoted)
		return key, rest, err
	case strings.HasPrefix(path, "["):
		var ok bool
		if key, rest, ok = strings.Cut(path[1:], "]"); !ok {
			return "", "", errors.New("a bracket has no end")
		}
	default:
		n := strings.IndexAny(path, ".[")
		if n < 0 {
			n = len(path)
		}
		key, rest = path[:n], path[n:]
	}
	if key == "" {
		return "", "", errors.New("a key is empty")
	}
	return key, rest, nil
}
