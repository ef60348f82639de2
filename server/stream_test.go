package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// served makes a server whose sessions are in memory.
func served(t *testing.T, model aycoder.ModelClient, opts ...Option) *Server {
	store, dir := journal.Memory(), t.TempDir()
	s, err := New(Host{
		Store: func(string) journal.Store { return store },
		Open: func(ctx context.Context, _, id string, opts ...session.Option) (*harness.Runtime, error) {
			return harness.New(ctx, dir, harness.WithClient(model), harness.WithStore(store, id, opts...))
		},
	}, opts...)
	require.NoError(t, err)
	return s
}

// A body that its client reads as it comes.
type body struct {
	*httptest.ResponseRecorder
	mu   sync.Mutex
	text strings.Builder
	slow func()
}

func (b *body) Write(p []byte) (int, error) {
	if b.slow != nil {
		b.slow()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *body) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func localRequest(ctx context.Context, method, path, text string) *http.Request {
	var r io.Reader
	if text != "" {
		r = strings.NewReader(text)
	}
	req := httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, r)
	req.RemoteAddr = "127.0.0.1:1234"
	req.Header.Set("Content-Type", "application/json")
	return req
}

// A quiet stream has a comment every 15 seconds.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t, aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			return func(yield func(aycoder.ModelEvent, error) bool) {
				time.Sleep(50 * time.Second)
				_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "Late."}}, nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
			}
		}))
		w := &body{ResponseRecorder: httptest.NewRecorder()}
		s.ServeHTTP(w, localRequest(t.Context(), "POST", "/api/prompt", `{"prompt":"go"}`))
		require.Equal(t, 3, strings.Count(w.String(), ": still working\n\n"))
		require.Contains(t, w.String(), "Late.")
		require.NoError(t, s.Close())
	})
}

// talker is a model that writes much, with calls between, so that a run has many turns.
func talker(turns, bytes int) aycoder.ModelClient {
	n := 0
	return aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		n++
		turn := n
		return func(yield func(aycoder.ModelEvent, error) bool) {
			text := strings.Repeat(fmt.Sprintf("turn %d. ", turn), bytes/8)
			for rest := text; rest != ""; {
				cut := min(len(rest), 512)
				if !yield(&aycoder.TextDelta{Text: rest[:cut]}, nil) {
					return
				}
				rest = rest[cut:]
			}
			if !yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: text}}, nil) {
				return
			}
			stop := aycoder.StopEndTurn
			if turn < turns {
				stop = aycoder.StopToolUse
				if !yield(&aycoder.BlockDone{Part: &aycoder.ToolUse{ID: fmt.Sprint("c", turn), Name: "list_files", Args: []byte(`{}`)}}, nil) {
					return
				}
			}
			yield(&aycoder.MessageDone{Stop: stop}, nil)
		}
	})
}

// A client that reads nothing costs no memory beside the log of its run, and does not slow the run. When it reads, it gets
// everything, from the journal as far as the log has dropped it.
func TestClientReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t, talker(6, 300<<10))
		gate := make(chan struct{})
		w := &body{ResponseRecorder: httptest.NewRecorder(), slow: func() { <-gate }}
		over := make(chan struct{})
		go func() {
			s.ServeHTTP(w, localRequest(t.Context(), "POST", "/api/prompt", `{"prompt":"go"}`))
			close(over)
		}()
		synctest.Wait()
		var r *run
		for _, c := range s.table {
			r = c.last
		}
		require.False(t, r.working(), "the run is over, although its client has read nothing")
		r.log.mu.Lock()
		require.LessOrEqual(t, r.log.bytes, maxLog)
		require.Positive(t, r.log.dropped)
		r.log.mu.Unlock()
		close(gate)
		<-over
		got := w.String()
		var want strings.Builder
		for turn := 1; turn <= 6; turn++ {
			want.WriteString(strings.Repeat(fmt.Sprintf("turn %d. ", turn), 300<<10/8))
		}
		require.True(t, want.String() == textOfStream(t, got))
		require.Equal(t, 6, strings.Count(got, `"type":"turn_end"`))
		require.Equal(t, 5, strings.Count(got, `"type":"tool_end"`))
		require.Equal(t, 1, strings.Count(got, `"type":"run_end"`))
		require.NoError(t, s.Close())
	})
}

// textOfStream returns the texts of the model in a stream.
func textOfStream(t *testing.T, stream string) string {
	var text strings.Builder
	for line := range strings.SplitSeq(stream, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.HasPrefix(data, `{"type":"text_delta"`) {
			ev, err := aycoder.DecodeEvent([]byte(data))
			require.NoError(t, err)
			text.WriteString(ev.(*aycoder.TextDelta).Text)
		}
	}
	return text.String()
}

// A turn that is larger than a log keeps what the journal cannot give back, in fewer events.
func TestLargeTurn(t *testing.T) {
	l := newLog(position{})
	ends := make([]int, 8_000) // of the texts
	var all strings.Builder
	for i := range ends {
		text := fmt.Sprintf("%d ", i)
		all.WriteString(text)
		ends[i] = all.Len()
		ev := &aycoder.TextDelta{Text: text}
		l.add(ev, encode(ev))
		p := &aycoder.ToolProgress{CallID: "c"}
		l.add(p, encode(p))
	}
	want := all.String()
	require.LessOrEqual(t, len(l.entries), 4_000)
	end := &aycoder.ToolFinished{Call: &aycoder.ToolUse{ID: "c", Name: "x"}, Output: &aycoder.ToolOutput{ID: "c"}}
	l.add(end, encode(end))
	l.close()
	// Readers that stopped anywhere get the rest of the text once, from a place inside of what was joined, too.
	for _, from := range []int{0, 1, 7, 4321, 7_999} {
		at := cursor{log: l.name, seq: int64(2*from + 1)}
		seen := want[:ends[from]]
		at.position = position{}.after(&aycoder.TextDelta{Text: seen})
		got, finished := seen, 0
		for {
			p := l.read(at)
			require.False(t, p.behind)
			for _, e := range p.entries {
				ev, err := aycoder.DecodeEvent(e.data)
				require.NoError(t, err)
				switch ev := ev.(type) {
				case *aycoder.TextDelta:
					got += ev.Text
				case *aycoder.ToolFinished:
					finished++
				}
				at.seq, at.position = e.seq, e.pos
			}
			if p.closed {
				break
			}
		}
		require.True(t, want == got)
		require.Equal(t, 1, finished)
	}
}

func TestCursor(t *testing.T) {
	p := position{turn: 3}.after(&aycoder.TextDelta{Text: "abc"}).after(&aycoder.ThinkingDelta{Text: "d"})
	p = p.after(&aycoder.ToolStarted{Call: &aycoder.ToolUse{ID: "c1"}}).after(&aycoder.SetupChanged{})
	c := cursor{log: "abc", seq: 7, position: p}
	got, err := parseCursor(c.String())
	require.NoError(t, err)
	require.Equal(t, c, got)
	largest := cursor{log: "l", seq: math.MaxInt64, position: position{turn: math.MaxInt, text: math.MaxInt, think: math.MaxInt, other: math.MaxInt, hash: [2]uint32{math.MaxUint32, 1}}}
	got, err = parseCursor(largest.String())
	require.NoError(t, err)
	require.Equal(t, largest, got)
	bad := []string{"x", "l.1.0.0", strings.Repeat("x", maxCursor+1)}
	for _, text := range []string{`7`, `{"n":-1}`, `{"t":-1}`, `{"x":-1}`, `{"k":-1}`, `{"o":-1}`, `{"n":9223372036854775808}`, `{"h":[4294967296,0]}`, `{"c":"s123456"}`, fmt.Sprintf(`{"x":%d}`, uint64(math.MaxInt)+1)} {
		bad = append(bad, base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	for _, bad := range bad {
		_, err := parseCursor(bad)
		require.Error(t, err, bad)
	}
}
