package wiretest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
)

// An Answer is the outcome of a response.
type Answer struct {
	Parts    []aycoder.Part // including truncated calls
	Cut      []*aycoder.ToolUse
	Text     string // of the deltas
	Thinking string // of the deltas
	Args     map[string]string
	Done     *aycoder.MessageDone
	Err      error
	Events   int
}

// Ask collects the answer of a client. It fails the test if the client violates the
// contract of [aycoder.ModelClient].
func Ask(ctx context.Context, t testing.TB, m aycoder.ModelClient, req *aycoder.Request) *Answer {
	t.Helper()
	a := &Answer{Args: map[string]string{}}
	var deltas []aycoder.ModelEvent // compared at the end: they must not change
	for ev, err := range m.Stream(ctx, req) {
		if a.Done != nil || a.Err != nil {
			t.Errorf("%v, %v comes after the end", ev, err)
		}
		a.Events++
		switch ev := ev.(type) {
		case nil:
			a.Err = err
		case *aycoder.BlockDone:
			a.Parts = append(a.Parts, ev.Part)
		case *aycoder.BlockTruncated:
			a.Cut = append(a.Cut, ev.Call)
			a.Parts = append(a.Parts, ev.Call)
		case *aycoder.MessageDone:
			a.Done = ev
		default:
			deltas = append(deltas, ev)
		}
	}
	a.join(deltas)
	return a
}

func (a *Answer) join(deltas []aycoder.ModelEvent) {
	var text, thinking strings.Builder
	for _, ev := range deltas {
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			text.WriteString(ev.Text)
		case *aycoder.ThinkingDelta:
			thinking.WriteString(ev.Text)
		case *aycoder.ToolDelta:
			a.Args[ev.ID] += ev.Args
		}
	}
	a.Text, a.Thinking = text.String(), thinking.String()
}

// Message returns the complete parts as a message.
func (a *Answer) Message() *aycoder.Message {
	m := &aycoder.Message{Role: aycoder.RoleAssistant}
	for _, p := range a.Parts {
		if u, ok := p.(*aycoder.ToolUse); !ok || !slices.Contains(a.Cut, u) {
			m.Parts = append(m.Parts, p)
		}
	}
	return m
}

// A Suite checks a client on all recorded responses of its dialect.
type Suite struct {
	// Family is the dialect: "openai-chat".
	Family string
	// Client returns a client that uses the transport.
	Client func(rt http.RoundTripper, i *Interaction) aycoder.ModelClient
	// Request returns the request. Default: one word.
	Request func(i *Interaction) *aycoder.Request
	// Skip returns the reason why an interaction does not apply to this client, or "".
	Skip func(r *Recording, i *Interaction) string
	// Stop returns the expected stop reason of the answer to i.
	Stop func(i *Interaction) aycoder.StopReason
	// Usage converts the recorded usage.
	Usage func(raw json.RawMessage) aycoder.Usage
	// Error returns what is wrong with the error for a recorded failure, or "". The suite
	// itself checks that it is an [*aycoder.ModelError] with the recorded status. Error
	// may be nil.
	Error func(i *Interaction, err error) string
	// Call returns the expected form of a recorded call, or nil if the client must not
	// emit it. Default: plain functions as they were recorded, and no other calls.
	Call func(i *Interaction, c Call) *Call
	// More returns further faults. It may be nil.
	More func(i *Interaction, a *Answer) []string
	// Min is the minimum number of interactions.
	Min int
}

// Each calls f for the interactions of the dialect that apply, and logs their number.
func (s *Suite) Each(t *testing.T, f func(*Recording, *Interaction)) (n int) {
	t.Helper()
	skipped := map[string]int{}
	dir := corpus.Path(t, "wire", fmt.Sprintf("at least %d answers of %s", s.Min, s.Family))
	eachIn(t, dir, `"`+s.Family+`"`, func(r *Recording) {
		for _, i := range r.Interactions {
			if i.Family != s.Family || i.Kind != "inference" {
				continue
			}
			if why := s.skip(r, i); why != "" {
				skipped[why]++
				continue
			}
			n++
			f(r, i)
		}
	})
	t.Logf("%s: %d interactions, left out: %v", s.Family, n, skipped)
	if n < s.Min {
		t.Errorf("only %d interactions, want at least %d", n, s.Min)
	}
	return n
}

func (s *Suite) skip(r *Recording, i *Interaction) string {
	switch {
	case r.Origin == "suspect":
		return "marked as suspect"
	case i.Expected == nil:
		return "nothing is expected of it"
	case s.Skip != nil:
		return s.Skip(r, i)
	}
	return ""
}

func (s *Suite) request(i *Interaction) *aycoder.Request {
	if s.Request != nil {
		return s.Request(i)
	}
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}}
}

// Decode checks that every response is decoded as recorded, at three sizes of reads; with
// the race detector at one, since it takes minutes.
func (s *Suite) Decode(t *testing.T) {
	failed, sizes := 0, []int{7, 1, 1 << 20}
	if timed.Race {
		sizes = sizes[:1]
	}
	n := s.Each(t, func(r *Recording, i *Interaction) {
		body := i.Body()
		for _, size := range sizes {
			a := Ask(t.Context(), t, s.Client(i.Transport(body, size), i), s.request(i))
			if wrong := s.check(i, a); len(wrong) > 0 {
				failed++
				t.Errorf("%s/%d, %d bytes a read:\n\t%s", r.ID, i.Seq, size,
					strings.Join(wrong, "\n\t"))
				return
			}
		}
	})
	t.Logf("%s: %d decoded at %d read sizes, %d failed", s.Family, n, len(sizes), failed)
}

// check returns the faults of an answer.
func (s *Suite) check(i *Interaction, a *Answer) []string {
	if i.Expected.Error != nil {
		return s.checkError(i, a)
	}
	if !i.Expected.Complete {
		if _, ok := errors.AsType[*aycoder.StreamBrokenError](a.Err); !ok || a.Done != nil {
			return []string{fmt.Sprintf("broken off: done %v, error %v", a.Done, a.Err)}
		}
		return nil
	}
	if a.Err != nil || a.Done == nil {
		return []string{fmt.Sprintf("done %v, error %v", a.Done, a.Err)}
	}
	var w wrong
	e := i.Expected
	m := &aycoder.Message{Parts: a.Parts}
	text, refusal := visible(a.Parts)
	w.same("text", text, e.Text)
	w.same("refusal", refusal, e.Refusal)
	w.same("text of deltas", a.Text, m.Text())
	w.same("reasoning", thinking(a.Parts), e.Reasoning)
	w.same("reasoning of deltas", a.Thinking, thinking(a.Parts))
	if e.ID != "" {
		w.same("id", a.Done.ID, e.ID)
	}
	if e.Model != "" {
		w.same("model", a.Done.Model, e.Model)
	}
	w.same("stop", a.Done.Stop, s.Stop(i))
	if len(e.Usage) > 0 && string(e.Usage) != "null" {
		w.same("usage", a.Done.Usage, s.Usage(e.Usage))
	}
	w.calls(s.wanted(i), a)
	if s.More != nil {
		w = append(w, s.More(i, a)...)
	}
	return w
}

func (s *Suite) checkError(i *Interaction, a *Answer) []string {
	e := i.Expected.Error
	base, ok := errors.AsType[*aycoder.ModelError](a.Err)
	if !ok || a.Done != nil {
		return []string{fmt.Sprintf("want the error %q, got done %v, error %v", e.Message, a.Done,
			a.Err)}
	}
	var w wrong
	w.same("status", base.Status, e.Status)
	w.same("class of error", fmt.Sprintf("%T", a.Err), ErrorClass(i))
	if s.Error != nil {
		if text := s.Error(i, a.Err); text != "" {
			w = append(w, fmt.Sprintf("%s: %T: %v", text, a.Err, a.Err))
		}
	}
	return w
}

// visible returns the text of the parts and, separately, text that is marked as a
// refusal.
func visible(parts []aycoder.Part) (text, refusal string) {
	for _, p := range parts {
		t, ok := p.(*aycoder.Text)
		switch {
		case ok && t.Extra != nil && strings.Contains(string(t.Extra.Raw), `"type":"refusal"`):
			refusal += t.Text
		case ok:
			text += t.Text
		}
	}
	return text, refusal
}

func thinking(parts []aycoder.Part) string {
	var b strings.Builder
	for _, p := range parts {
		if th, ok := p.(*aycoder.Thinking); ok {
			b.WriteString(th.Text)
		}
	}
	return b.String()
}

// wrong is a list of faults.
type wrong []string

func (w *wrong) same(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		*w = append(*w, fmt.Sprintf("%s is %.500q, want %.500q", what, fmt.Sprint(got),
			fmt.Sprint(want)))
	}
}

// wanted returns the calls that the client must emit.
func (s *Suite) wanted(i *Interaction) []*Call {
	var want []*Call
	for _, c := range i.Expected.Calls {
		if s.Call != nil {
			c = s.Call(i, *c)
		} else if c.Kind != "" {
			c = nil
		}
		if c != nil {
			want = append(want, c)
		}
	}
	return want
}

// calls compares the calls.
func (w *wrong) calls(want []*Call, a *Answer) {
	got := (&aycoder.Message{Parts: a.Parts}).Calls()
	if len(got) != len(want) {
		w.same("number of calls", len(got), len(want))
		return
	}
	seen := map[string]bool{}
	for n, c := range want {
		w.call(c, got[n], a)
		if got[n].ID == "" || seen[got[n].ID] {
			*w = append(*w, fmt.Sprintf("id %q of a call is empty or not unique", got[n].ID))
		}
		seen[got[n].ID] = true
	}
}

func (w *wrong) call(want *Call, got *aycoder.ToolUse, a *Answer) {
	w.same("name of a call", got.Name, want.Name)
	if want.ID != "" {
		w.same("id of a call", got.ID, want.ID)
	}
	cut := slices.Contains(a.Cut, got)
	if want.Valid != nil && !*want.Valid {
		w.same("cut off", cut, true)
		w.same("raw arguments", string(got.Args), want.Raw)
		return
	}
	w.same("cut off", cut, false)
	if string(want.Args) == "null" {
		want.Args = json.RawMessage(`{}`)
	}
	var g, x any
	if json.Unmarshal(got.Args, &g) != nil || json.Unmarshal(want.Args, &x) != nil ||
		!reflect.DeepEqual(g, x) {
		*w = append(*w, fmt.Sprintf("arguments are %s, want %s", got.Args, want.Args))
	}
	if d := a.Args[got.ID]; d != "" && d != string(got.Args) {
		*w = append(*w, fmt.Sprintf("arguments of deltas are %s, want %s", d, got.Args))
	}
}

// Cut checks that a response that is cut off anywhere ends in a typed error. Complete
// returns the number of bytes after which a body is complete.
func (s *Suite) Cut(t *testing.T, complete func(i *Interaction, body string) int) {
	rnd := rand.New(rand.NewPCG(1, 2))
	per := 20
	if testing.Short() || timed.Race {
		per = 3
	}
	cuts := 0
	n := s.Each(t, func(r *Recording, i *Interaction) {
		if i.Response.Status != http.StatusOK || i.Expected.Error != nil || !i.Expected.Complete {
			return
		}
		body := i.Body()
		end := complete(i, body)
		for range per {
			at := rnd.IntN(end)
			a := Ask(t.Context(), t, s.Client(i.Transport(body[:at], 1<<20), i), s.request(i))
			cuts++
			if _, typed := errors.AsType[*aycoder.ModelError](a.Err); !typed || a.Done != nil {
				t.Errorf("%s/%d cut at %d of %d: done %v, error %v", r.ID, i.Seq, at, end,
					a.Done, a.Err)
			}
		}
	})
	t.Logf("%s: %d responses, %d cuts", s.Family, n, cuts)
}
