package aycoder

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// canonical returns arguments in one form, whatever encoding/json has made of their
// white space, their escapes and the order of their keys in a store.
func canonical(args json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return string(args)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return string(args)
	}
	return b.String()
}

// check holds the stored requests to what was shown, and to what would run.
func (p *Pending) check(l *Loop) error {
	seen := map[string]bool{}
	for i := range p.Requests {
		q := &p.Requests[i]
		at := p.State.find(q.CallID)
		if at < 0 || p.State.calls[at].status != callSuspended || seen[q.CallID] {
			return fmt.Errorf("the request about call %q is not one of its open questions", q.CallID)
		}
		seen[q.CallID] = true
		if q.digest() != q.Digest {
			return fmt.Errorf("the request about call %q is not the one that its digest was made of", q.CallID)
		}
		if !p.State.calls[at].shownAs(l, q) {
			return fmt.Errorf("the request about call %q shows another call", q.CallID)
		}
	}
	for i := range p.State.calls {
		c := &p.State.calls[i]
		if c.status != callSettled && l.claimed(p.resumeKey(&RunTool{Turn: p.State.turn + 1, Call: c.use})) {
			return errResumed
		}
	}
	return nil
}

var errResumed = errors.New("this run was resumed before, and its calls have run")

// shownAs reports whether a request shows the call.
func (c *call) shownAs(l *Loop, q *ApprovalRequest) bool {
	if q.Tool != c.use.Name {
		return false
	}
	use, subject := c.use, q.Subject
	if t := l.tool(c.use.Name); t != nil { // without its tool the call is not run
		if fit, err := t.fit(use); err == nil {
			use = fit
		}
		subject = shownSubject(use, &t.spec)
	}
	return canonical(q.Args) == canonical(use.Args) && q.Subject == subject
}

// maxResumed bounds what a loop remembers of the runs that it resumed.
const maxResumed = 1024

// resumeKey names a call of a run that was suspended. The questions are part of it, as
// a host may give ids of runs again.
func (p *Pending) resumeKey(a *RunTool) string {
	var key strings.Builder
	key.WriteString(p.Run + " " + (&RunTool{Turn: a.Turn, Call: a.Call}).Key())
	for i := range p.Requests {
		key.WriteString(" " + p.Requests[i].Digest + p.Requests[i].Created.UTC().Format("150405.000000000"))
	}
	sum := sha256.Sum256([]byte(key.String()))
	return string(sum[:])
}

func (r *run) resumeKey(a *RunTool) string {
	return (&Pending{Run: r.id, Requests: r.asked}).resumeKey(a)
}

// claim notes that a call of a resumed run begins. It reports false if it has before.
func (l *Loop) claim(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.resumed, key) {
		return false
	}
	if len(l.resumed) == maxResumed {
		l.resumed = slices.Delete(l.resumed, 0, 1)
	}
	l.resumed = append(l.resumed, key)
	return true
}

func (l *Loop) claimed(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.resumed, key)
}
