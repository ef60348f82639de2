package server

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/picture"
)

// Front ends that exist speak other forms: see agui.go and uistream.go. They differ from the API in three ways. The
// client names the conversation, which is a session here. It sends the whole conversation each time, of which only its
// newest message counts, since the session has the rest. And a run that has to ask ends there: its answer comes with
// another request. Only the stream ends then, and the run waits; the other request goes on with it.

// waits returns what a run waits for, if nothing else goes on in it: each call that has begun asks something.
func (r *run) waits() []*question {
	out := r.questions()
	at := r.log.at()
	for _, m := range at.calls {
		id, begun := strings.CutPrefix(m, "s")
		if begun && !slices.Contains(at.calls, "f"+id) &&
			!slices.ContainsFunc(out, func(q *question) bool { return mark("s", q.outer) == m }) {
			return nil
		}
	}
	slices.SortFunc(out, func(a, b *question) int { return strings.Compare(a.key, b.key) })
	return out
}

// A ticket is the id of a question in a form. It says all that the answer needs, so that the server keeps nothing between
// the requests: which call of which run it is about, what was shown, and what the client has seen of the run.
type ticket struct {
	Run    string `json:"r"` // the id of the session, a dot, and that of the run
	Outer  string `json:"o"`
	Call   string `json:"c"`
	Digest string `json:"d"`
	At     cursor `json:"a"`
}

// A frontRequest is what a client of a form sends.
type frontRequest struct {
	thread  string // how the client names the conversation: the id of a session, or another text
	key     string // of the newest message
	history []*aycoder.Message
	message []aycoder.Part // of the user, or nil
	said    []said
}

// says adds what a client says to the question with a ticket.
func (q *frontRequest) says(id string, a *answer, result *aycoder.ToolResult) error {
	var t ticket
	if transparent(id, &t) != nil || t.Run == "" {
		return invalid("the id is not that of a question")
	}
	q.said = append(q.said, said{t, a, result})
	return nil
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
	key := "\x00thread\x00" + name // which no header can have
	id := s.derivedID(who, key)
	s.mu.Lock()
	known := s.table[convKey{who, id}] != nil
	s.mu.Unlock()
	if !known { // else a look at the name would need room for another session
		c, err := s.open(ctx, who, name, "")
		if err == nil || problemOf(err).Status != http.StatusNotFound {
			return c, err
		}
		if create {
			return s.open(ctx, who, "", key)
		}
	}
	return s.open(ctx, who, id, "")
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
	x.run, x.again, err = c.prompt(in, q.key, string(body))
	return x, err
}

// answered tells a run what a client says to its questions. Clients repeat what they have said before, so that is
// left out. A client that says nothing else joins the run.
func (c *conversation) answered(r *http.Request, q *frontRequest) (x attached, err error) {
	id := q.said[0].Run
	var more []said
	values := map[string]any{}
	for _, a := range q.said {
		if session, _, _ := splitRun(a.Run); session != c.id || a.Run != id {
			return x, notFound()
		}
		text, _ := json.Marshal([]any{a.answer, a.result}) // what was decoded encodes
		name := startedValue + hashOf(c.principal, "\x00answer", opaque(a.ticket), string(text))
		if c.rt.Session.Value(name) != nil {
			continue
		}
		values[name] = startedRun{Run: id}
		more = append(more, a)
		x.known = append(x.known, a.Outer)
	}
	_, id, _ = splitRun(id)
	if len(more) == 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		x.again = true
		x.run, err = c.find(id)
		return x, err
	}
	x.at = slices.MinFunc(more, func(a, b said) int { // the client has seen the run up to the first question
		return cmp.Or(cmp.Compare(a.At.turn, b.At.turn), cmp.Compare(len(a.At.calls), len(b.At.calls)))
	}).At
	if x.run, err = c.tell(r, id, more); err == nil {
		err = c.keep(values)
	}
	return x, err
}

// tells streams a run in a form.
func (s *Server) tells(w http.ResponseWriter, r *http.Request, x attached, f form) error {
	names(w, x.run)
	d := newSender(w, x.at, x.run, &f)
	d.now.turn, d.known = x.at.turn, x.known
	d.tell(step{what: stepBegin})
	return s.send(r, d)
}

// A foreignMessage is a message in the form of OpenAI or of AG-UI.
type foreignMessage struct {
	ID      string          `json:"id"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a text, or parts
}

// A foreignPart is a part of one, or of a message in the form of the AI SDK.
type foreignPart struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	URL   string `json:"url"` // of a file of the AI SDK
	Image struct {
		URL string `json:"url"`
	} `json:"image_url"` // of OpenAI
	Source struct {
		Type     string `json:"type"`
		Value    string `json:"value"`
		MimeType string `json:"mimeType"`
	} `json:"source"` // of an image of AG-UI
}

func (p *foreignPart) part() (aycoder.Part, error) {
	switch p.Type {
	case "text":
		return &aycoder.Text{Text: p.Text}, nil
	case "image_url":
		return imageIn(p.Image.URL)
	case "file":
		return imageIn(p.URL)
	case "image":
		return imageOf(p.Source.MimeType, p.Source.Value, p.Source.Type == "data")
	}
	return nil, invalid("parts of the type " + p.Type + " are not supported")
}

func (m *foreignMessage) parts() (out []aycoder.Part, err error) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return []aycoder.Part{&aycoder.Text{Text: text}}, nil
	}
	var parts []foreignPart
	if json.Unmarshal(m.Content, &parts) != nil {
		return nil, invalid("the content of a message is a text or a list of parts")
	}
	for _, p := range parts {
		part, err := p.part()
		if err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return out, nil
}

// noTools refuses tools of a client.
func noTools(tools json.RawMessage) error {
	if len(tools) > 0 && string(tools) != "null" && string(tools) != "[]" {
		return invalid("tools of the client are not supported: the agent has its own")
	}
	return nil
}

// A messageList splits a conversation of a client into what was before and the newest message of the user. Instructions
// come before the message that follows them.
type messageList struct {
	all    []*aycoder.Message
	before []aycoder.Part
}

// take adds a message. The texts of the agent alone count, so the rest of its messages may be anything.
func (l *messageList) take(m *foreignMessage) error {
	parts, err := m.parts()
	if err != nil && m.Role != "assistant" {
		return err
	}
	return l.add(m.Role, parts)
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

// imageIn decodes the data URL of an image.
func imageIn(url string) (aycoder.Part, error) {
	head, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	return imageOf(head, data, ok && strings.HasPrefix(url, "data:"))
}

func imageOf(kind, data string, ok bool) (aycoder.Part, error) {
	raw, err := base64.StdEncoding.DecodeString(data)
	if !ok || err != nil || !strings.HasPrefix(kind, "image/") {
		return nil, invalid("an image must be a data URL: the server fetches nothing")
	}
	return shown(kind, raw)
}

// shown returns an image. Other types than those that all models take are for some models, and the others are told of one.
func shown(kind string, data []byte) (*aycoder.Media, error) {
	image, err := harness.Image("", data)
	switch {
	case err == nil:
		return image, nil
	case len(data) == 0 || !strings.HasPrefix(kind, "image/") || picture.Known(kind):
		return nil, invalid("an image: " + err.Error())
	}
	return &aycoder.Media{Type: kind, Data: data}, nil
}
