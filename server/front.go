package server

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

// Front ends that exist speak other forms: see agui.go and uistream.go. They differ from the API in three ways. The
// client names the conversation, which is a session here. It sends the whole conversation each time, of which only its
// newest message counts, since the session has the rest. And a run that has to ask ends there: its answer comes with
// another request. Only the stream ends then, and the run waits; the other request goes on with it.

// A question is one that a run waits for: an approval, or the result of a call.
type question struct {
	ticket string
	outer  string // the call of the run in which it came up
	ask    *aycoder.ApprovalRequest
	call   *aycoder.CallRequest
}

// waits returns what a run waits for, if nothing else goes on in it: each call that has begun asks something.
func (r *run) waits() (out []question) {
	r.mu.Lock()
	for _, a := range r.asks {
		if !a.Decided() {
			q := *a.Request
			q.Plan = nil // holds whole files, which may have secrets
			out = append(out, question{outer: a.outer, ask: &q})
		}
	}
	for _, o := range r.calls {
		if !o.Decided() {
			out = append(out, question{outer: o.Request.CallID, call: o.Request})
		}
	}
	r.mu.Unlock()
	at := r.log.at()
	for _, m := range at.calls {
		id, begun := strings.CutPrefix(m, "s")
		if begun && !slices.Contains(at.calls, "f"+id) &&
			!slices.ContainsFunc(out, func(q question) bool { return mark("s", q.outer) == m }) {
			return nil
		}
	}
	slices.SortFunc(out, func(a, b question) int { return strings.Compare(a.key(), b.key()) })
	return out
}

func (q *question) key() string {
	if q.ask != nil {
		return q.ask.Key + " " + q.ask.Run
	}
	return q.call.Key
}

// A ticket is the id of a question in a form. It says all that the answer needs, so that the server keeps nothing between
// the requests: which call of which run it is about, what was shown, and what the client has seen of the run.
type ticket struct {
	run    string // the id of the session, a dot, and that of the run
	outer  string
	call   string
	digest string
	at     cursor
}

func (t ticket) String() string {
	data, _ := json.Marshal([]string{t.run, t.outer, t.call, t.digest, t.at.String()}) // texts always encode
	return base64.RawURLEncoding.EncodeToString(data)
}

func parseTicket(text string) (t ticket, err error) {
	bad := invalid("the id is not that of a question")
	data, err := base64.RawURLEncoding.DecodeString(text)
	var f []string
	if err != nil || json.Unmarshal(data, &f) != nil || len(f) != 5 {
		return t, bad
	}
	t = ticket{run: f[0], outer: f[1], call: f[2], digest: f[3]}
	if t.at, err = parseCursor(f[4]); err != nil {
		return t, bad
	}
	return t, nil
}

// asks sends what the run waits for, if nothing else goes on in it, and reports whether it has.
func (d *sender) asks(r *run) bool {
	questions := r.waits()
	if len(questions) == 0 {
		return false
	}
	d.ask(r.id, questions)
	return true
}

func (d *sender) ask(run string, questions []question) {
	for i := range questions {
		q := &questions[i]
		t := ticket{run: run, outer: q.outer, at: d.at}
		if q.ask != nil {
			t.call, t.digest = q.ask.CallID, q.ask.Digest
		} else {
			t.call, t.digest = q.call.CallID, q.call.Digest
		}
		q.ticket = t.String()
	}
	d.lines(d.form.asks(questions))
	d.over = true
}

// suspended sends the questions with which a run has ended, given the end as JSON, and reports whether there are any.
func (d *sender) suspended(end []byte) bool {
	var x struct {
		Pending struct {
			Requests []aycoder.ApprovalRequest `json:"requests"`
			Calls    []aycoder.CallRequest     `json:"calls"`
		} `json:"pending"`
	}
	if json.Unmarshal(end, &x) != nil {
		return false
	}
	var questions []question
	for i := range x.Pending.Requests {
		q := &x.Pending.Requests[i]
		questions = append(questions, question{outer: q.CallID, ask: q})
	}
	for i := range x.Pending.Calls {
		q := &x.Pending.Calls[i]
		questions = append(questions, question{outer: q.CallID, call: q})
	}
	if len(questions) > 0 {
		d.ask(d.run, questions)
	}
	return len(questions) > 0
}

// A frontRequest is what a client of a form sends.
type frontRequest struct {
	thread  string // how the client names the conversation: the id of a session, or another text
	key     string // of the newest message
	history []*aycoder.Message
	message []aycoder.Part // of the user, or nil
	tickets []ticket
	said    []said
}

// An attached is a run with what a client of a form has of it.
type attached struct {
	*run
	at    cursor
	known []string // calls that the client knows
	again bool     // the client gets the run again from its beginning
}

// thread returns the session of a conversation of a client. The caller must call release.
func (s *Server) thread(r *http.Request, name string, create bool) (*conversation, error) {
	ctx, who := r.Context(), principalOf(r)
	key := "\x00thread\x00" + name                   // which no header can have
	if id := s.derivedID(who, key); s.has(who, id) { // a look at the name would need room for another session
		return s.open(ctx, who, id, "")
	}
	c, err := s.open(ctx, who, name, "")
	if err == nil || problemOf(err).Status != http.StatusNotFound {
		return c, err
	}
	if create {
		return s.open(ctx, who, "", key)
	}
	return s.open(ctx, who, s.derivedID(who, key), "")
}

// front does what a client of a form asks for. The caller must release the session of the run.
func (s *Server) front(r *http.Request, q *frontRequest) (x attached, err error) {
	if q.thread == "" || len(q.thread) > maxKey || len(q.key) > maxKey {
		return x, invalid("the conversation and the message need ids of at most 256 bytes")
	}
	c, err := s.thread(r, q.thread, len(q.said) == 0)
	if err != nil {
		return x, err
	}
	if len(q.said) > 0 {
		x, err = c.answered(r, q)
	} else {
		x, err = c.asked(r, q)
	}
	if err != nil {
		s.release(c)
	}
	return x, err
}

// asked starts a run with the newest message of the user, or joins the one that the same message has started.
func (c *conversation) asked(r *http.Request, q *frontRequest) (x attached, err error) {
	if q.message == nil {
		return x, invalid("the newest message must be one of the user")
	}
	var in aycoder.Input
	for _, p := range q.message {
		if t, ok := p.(*aycoder.Text); ok {
			in.Prompt = strings.TrimPrefix(in.Prompt+"\n\n"+t.Text, "\n\n")
		} else {
			in.Parts = append(in.Parts, p)
		}
	}
	if strings.TrimSpace(in.Prompt) == "" && len(in.Parts) == 0 {
		return x, invalid("the message is empty")
	}
	body, _ := json.Marshal(q.message) // what was decoded encodes
	if c.rt.Session.Head() == 0 {
		in.Messages = q.history
	}
	x.run, x.again, err = c.prompt(r, in, q.key, string(body))
	return x, err
}

// answered tells a run what a client says to its questions. The same answers again join the run.
func (c *conversation) answered(r *http.Request, q *frontRequest) (x attached, err error) {
	all := []string{c.principal, "\x00answers"}
	for i, t := range q.tickets {
		if id, _, _ := splitRun(t.run); id != c.id || t.run != q.tickets[0].run {
			return x, notFound()
		}
		if i == 0 || x.at.before(t.at) {
			x.at = t.at
		}
		x.known = append(x.known, t.outer)
		text, _ := json.Marshal(q.said[i].answer)
		result, _ := json.Marshal(q.said[i].result)
		all = append(all, t.String(), string(text), string(result))
	}
	key := hashOf(all...)
	c.mu.Lock()
	known, ok := c.started.find(key)
	if ok {
		x = attached{again: true}
		x.run, err = c.joins(r, known.Run)
		c.mu.Unlock()
		return x, err
	}
	c.mu.Unlock()
	_, id, _ := splitRun(q.tickets[0].run)
	if x.run, err = c.s.tell(r, c, id, q.said...); err == nil && c.started.room(time.Now()) == 0 { // else the answer again is refused
		c.mu.Lock()
		c.started.put(startedRun{Key: key, Run: id})
		c.mu.Unlock()
	}
	return x, err
}

// before reports whether somebody with another cursor has seen more of the same run.
func (c cursor) before(o cursor) bool {
	switch {
	case c.log == o.log && c.log != "-":
		return c.seq < o.seq
	case c.turn != o.turn:
		return c.turn < o.turn
	}
	return len(c.calls) < len(o.calls)
}

// tells streams a run in a form.
func (s *Server) tells(w http.ResponseWriter, r *http.Request, x attached, form encoding) {
	h := w.Header()
	h.Set("Aycoder-Run", x.id)
	h.Set("Aycoder-Session", x.c.id)
	d := newSender(w, x.at, form)
	d.run = x.id
	if x.log == nil {
		_, id, _ := splitRun(x.id)
		_ = s.past(r.Context(), d, x.c, id) // the client is gone
		return
	}
	_ = s.follow(r.Context(), d, x.run)
}

// A messageList splits a conversation of a client into what was before and the newest message of the user. Instructions
// come before the message that follows them.
type messageList struct {
	all    []*aycoder.Message
	before []aycoder.Part
}

func (l *messageList) add(role string, parts []aycoder.Part) error {
	switch role {
	case "system", "developer":
		l.before = append(l.before, parts...)
		return nil
	case "user":
		parts, l.before = append(l.before, parts...), nil
	case "assistant":
	default:
		return invalid("messages of the role " + role + " are not supported")
	}
	as := aycoder.Role(role)
	if n := len(l.all); n > 0 && l.all[n-1].Role == as {
		l.all[n-1].Parts = append(l.all[n-1].Parts, parts...)
	} else if len(parts) > 0 && (n > 0 || as == aycoder.RoleUser) { // nothing comes before the first message of the user
		l.all = append(l.all, &aycoder.Message{Role: as, Parts: parts})
	}
	return nil
}

// done returns the messages before the newest one of the user, and its parts. The messages of the agent behind it
// are the answer, of which the client has a part.
func (l *messageList) done() (history []*aycoder.Message, message []aycoder.Part) {
	for n := len(l.all) - 1; n >= 0; n-- {
		if m := l.all[n]; m.Role == aycoder.RoleUser {
			return l.all[:n], append(l.before, m.Parts...)
		}
	}
	return nil, nil
}

// A frontText numbers the pieces of the text of a turn. The numbers are the same whenever the run is told.
type frontText struct {
	turn   int // turns that are over
	blocks int // pieces of the turn
	kind   string
}

// begin begins a piece.
func (f *frontText) begin(kind string) {
	f.kind = kind
	f.blocks++
}

func (f *frontText) next(turn int) { *f = frontText{turn: turn} }

// discarded is what people read behind a text that does not count.
const discarded = "\n\n[The connection to the model broke off. It answers again.]\n\n"

// object encodes a value. Anything that is not JSON becomes a text.
func object(pairs ...any) []byte {
	v := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		if raw, ok := pairs[i+1].(json.RawMessage); ok && !json.Valid(raw) {
			pairs[i+1] = string(raw)
		}
		v[pairs[i].(string)] = pairs[i+1]
	}
	data, _ := json.Marshal(v)
	return data
}

// mediaOf decodes the data URL of an image.
func mediaOf(url string) (*aycoder.Media, error) {
	head, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	return imageOf(head, data, ok && strings.HasPrefix(url, "data:"))
}

func imageOf(kind, data string, ok bool) (*aycoder.Media, error) {
	raw, err := base64.StdEncoding.DecodeString(data)
	if !ok || err != nil || len(raw) == 0 || !strings.HasPrefix(kind, "image/") {
		return nil, invalid("an image must be a data URL: the server fetches nothing")
	}
	return &aycoder.Media{Type: kind, Data: raw}, nil
}
