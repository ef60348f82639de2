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

// An Answer holds the events that a client has yielded for one request.
type Answer struct {
	Parts    []aycoder.Part // including truncated calls
	Cut      []*aycoder.ToolUse
	Text     string // of the deltas
	Thinking string // of the deltas
	// Args holds the arguments in the deltas, by the id of their call.
	Args   map[string]string
	Done   *aycoder.MessageDone
	Err    error
	Events int
}

// Ask sends a request and collects the answer. It fails the test if an event comes after the end,
// which the contract of [aycoder.ModelClient] forbids.
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

// join joins the deltas. It does so at the end and not one by one, so that a client is found that
// changes an event after it has yielded the event.
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

// Message returns the complete parts of the answer as a message, without the calls that were cut
// off.
func (a *Answer) Message() *aycoder.Message {
	m := &aycoder.Message{Role: aycoder.RoleAssistant}
	for _, p := range a.Parts {
		if u, ok := p.(*aycoder.ToolUse); !ok || !slices.Contains(a.Cut, u) {
			m.Parts = append(m.Parts, p)
		}
	}
	return m
}

// A Suite checks a client on all recorded responses of one dialect.
type Suite struct {
	// Family is the name of the dialect, such as "openai-chat".
	Family string
	// Client returns a client that sends its requests through the transport.
	Client func(rt http.RoundTripper, i *Interaction) aycoder.ModelClient
	// Request returns the request to send. Default: a message of one word, since the transport
	// answers any request with the recorded response.
	Request func(i *Interaction) *aycoder.Request
	// Skip returns the reason why an interaction does not apply to this client, or "". The
	// reasons are logged with their number, so that no interaction is skipped unnoticed. Skip may
	// be nil.
	Skip func(r *Recording, i *Interaction) string
	// Stop returns the expected stop reason of the answer to i.
	Stop func(i *Interaction) aycoder.StopReason
	// Usage converts the usage as the service reports it into the expected usage.
	Usage func(raw json.RawMessage) aycoder.Usage
	// Error returns a description of the fault if err is not the right error for a recorded
	// failure, and "" otherwise. The suite itself checks that err is an [*aycoder.ModelError]
	// with the recorded status. Error may be nil.
	Error func(i *Interaction, err error) string
	// Call returns the expected form of a recorded call, or nil if the client must not yield the
	// call. Default: plain functions are expected as they were recorded, and no other calls.
	Call func(i *Interaction, c Call) *Call
	// More returns descriptions of faults that only this client can have. More may be nil.
	More func(i *Interaction, a *Answer) []string
	// Min is the minimum number of interactions. With fewer the test fails, because a filter that
	// drops everything would otherwise look like success.
	Min int
}

// Each calls f for each interaction of the dialect that applies to the client. It logs and
// returns the number of interactions.
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

// skip returns the reason why an interaction cannot be used, or "". Edited recordings may show
// behaviour that no service has.
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

// request returns the request to send for an interaction.
func (s *Suite) request(i *Interaction) *aycoder.Request {
	if s.Request != nil {
		return s.Request(i)
	}
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}}
}

// Decode checks that the client decodes every response as recorded. It reads each response three
// times, with reads of 7 bytes, of 1 byte, and of up to 1 MiB. With the race detector it only
// uses reads of 7 bytes, since all three take minutes.
func (s *Suite) Decode(t *testing.T) {
	failed, sizes := 0, []int{7, 1, 1 << 20}
	if timed.Reduced(t) {
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

// check returns descriptions of the faults of an answer.
func (s *Suite) check(i *Interaction, a *Answer) []string {
	if i.Expected.Error != nil {
		return s.checkError(i, a)
	}
	// The recording itself breaks off, which only the right error tells from a short answer.
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
	// The deltas are compared with the blocks, and the blocks with the recording, so that a
	// display and the history show the same answer.
	text, refusal := visible(a.Parts)
	w.same("text", text, e.Text)
	w.same("refusal", refusal, e.Refusal)
	w.same("text of deltas", a.Text, m.Text())
	w.same("reasoning", thinking(a.Parts), e.Reasoning)
	w.same("reasoning of deltas", a.Thinking, thinking(a.Parts))
	// Some services send neither an id nor the name of the model.
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

// checkError returns the faults of an answer to which the service replied with an error. The type
// of the error decides whether an agent retries, so it must be exactly the expected one.
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

// visible returns the text of the parts without refusals, and the text of the refusals. Clients
// mark a refusal in Extra, because it must go back to the service as a refusal.
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

// thinking returns the text of all thinking parts.
func thinking(parts []aycoder.Part) string {
	var b strings.Builder
	for _, p := range parts {
		if th, ok := p.(*aycoder.Thinking); ok {
			b.WriteString(th.Text)
		}
	}
	return b.String()
}

// wrong is a list of faults, in words.
type wrong []string

// same adds a fault if two values differ. It shortens long values, since an answer may have
// megabytes.
func (w *wrong) same(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		*w = append(*w, fmt.Sprintf("%s is %.500q, want %.500q", what, fmt.Sprint(got),
			fmt.Sprint(want)))
	}
}

// wanted returns the calls that the client must yield for an interaction.
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

// calls compares all calls of an answer. Ids must be unique even if the service sends none:
// outputs are assigned to calls by their ids.
func (w *wrong) calls(want []*Call, a *Answer) {
	got := (&aycoder.Message{Parts: a.Parts}).Calls()
	// With different numbers, comparing the calls one by one would only repeat the same fault.
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

// call compares one call. The arguments are compared as values, except for those that were cut
// off, which have no value. The deltas must show the same text as the final call.
func (w *wrong) call(want *Call, got *aycoder.ToolUse, a *Answer) {
	w.same("name of a call", got.Name, want.Name)
	if want.ID != "" {
		w.same("id of a call", got.ID, want.ID)
	}
	cut := slices.Contains(a.Cut, got)
	// A client must keep the text of an incomplete call as it is, and not repair it.
	if want.Valid != nil && !*want.Valid {
		w.same("cut off", cut, true)
		w.same("raw arguments", string(got.Args), want.Raw)
		return
	}
	w.same("cut off", cut, false)
	// Services write a call without arguments in several ways, but a tool always gets an object.
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

// Cut cuts each complete response off at random places, and checks that the client returns a
// typed error. The function complete returns the number of bytes after which a body is complete;
// cuts after that are not tried, because the client may rightly take the answer for complete.
func (s *Suite) Cut(t *testing.T, complete func(i *Interaction, body string) int) {
	rnd := rand.New(rand.NewPCG(1, 2))
	// The places are random but the same in each run, so that a failure can be repeated.
	per := 20
	if testing.Short() || timed.Reduced(t) {
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
