package session_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// A talker is a model that calls a tool in each of its turns but the last one of a prompt. It notes the
// digest of each request.
type talker struct {
	turns    int // of a prompt
	answered int
	requests [][32]byte
	forget   bool // keeps no digests
}

func (m *talker) Stream(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		h := sha256.New()
		for _, msg := range req.Messages {
			data, err := json.Marshal(msg)
			if err != nil {
				panic(err)
			}
			h.Write(data)
		}
		if m.answered++; !m.forget {
			m.requests = append(m.requests, [32]byte(h.Sum(nil)))
		}
		stop := aycoder.StopEndTurn
		if m.answered%m.turns != 0 {
			stop = aycoder.StopToolUse
			if !yield(&aycoder.BlockDone{Part: &aycoder.ToolUse{Name: "look", Args: []byte("{}")}}, nil) {
				return
			}
		} else if !yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: fmt.Sprintf("We decided to use port %d.", m.answered)}}, nil) {
			return
		}
		yield(&aycoder.MessageDone{Stop: stop, Provider: "p", Model: "m", ID: fmt.Sprint(m.answered),
			Usage: aycoder.Usage{Output: 50}}, nil)
	}
}

// looker returns a tool whose outputs have about size bytes, and are the same for the same call.
func looker(t *testing.T, size int) aycoder.Tool {
	words := strings.Fields("the parser reads func return value if nil := map[string]int case other 4711 0x1f path/to/file.go")
	tool, err := aycoder.NewTool("look", "Looks.", func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		var b strings.Builder
		r := rand.New(rand.NewPCG(uint64(crc32.ChecksumIEEE([]byte(inv.ID))), 2))
		for b.Len() < size {
			b.WriteString(words[r.IntN(len(words))])
			b.WriteByte(" \n\t"[r.IntN(20)%3])
		}
		return aycoder.TextResult(b.String()), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	return tool
}

// longTalk is an agent with a compactor for a small window.
func longTalk(t *testing.T, m *talker, look aycoder.Tool, window int64) (*aycoder.Loop, *compaction.Compactor) {
	pinned := func(m *aycoder.Message) bool { return strings.HasSuffix(m.Text(), "1") }
	keep, err := compaction.New(m, compaction.WithWindow(window), compaction.WithPin(pinned))
	require.NoError(t, err)
	loop, err := aycoder.New(m, aycoder.WithTools(look, keep.Recall()), aycoder.WithContextMiddleware(keep.Middleware),
		aycoder.WithLimits(aycoder.Limits{Turns: m.turns + 1}), aycoder.WithStrictPrefix(true))
	require.NoError(t, err)
	return loop, keep
}

func say(t *testing.T, s *session.Session, n int) {
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: fmt.Sprintf("prompt %d", n)}) {
		require.NoError(t, err)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The memory of a process hardly grows with a conversation that is compacted and on disk: a turn that no
// request shows takes a small part of its bytes. AYCODER_TURNS sets the number of turns.
func TestMemoryOfLongSession(t *testing.T) {
	timed.Serial(t)
	const each, most = 50, 150
	turns := 2000
	if n, err := strconv.Atoi(os.Getenv("AYCODER_TURNS")); err == nil {
		turns = n
	}
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	m := &talker{turns: each, forget: true}
	loop, keep := longTalk(t, m, looker(t, 500), 8_000)
	s, err := session.New(t.Context(), store, loop, session.WithCompactor(keep), session.WithSync(session.SyncTurns))
	require.NoError(t, err)
	half := turns / 2 / each
	n := 0
	talk := func() int64 {
		for range half {
			n++
			say(t, s, n)
		}
		now := heap()
		t.Logf("%d turns: %d kB", n*each, now>>10)
		return now
	}
	before := talk()
	grown := int64(most)
	for try := 0; try < 3 && grown >= most; try++ { // other tests of this process have memory, too
		after := talk()
		grown = (after - before) / int64(half*each)
		t.Logf("%d bytes for each turn", grown)
		before = after
	}
	require.Less(t, grown, int64(most))
	require.NoError(t, s.Close())
	runtime.KeepAlive(s)
}

// The requests of a conversation do not depend on what is in memory: they are the same whether runs begin
// with the whole conversation or without what a summary has replaced, and if each prompt comes in a new
// process, also behind an Undo, a Redo, a Checkout or a Trim. Call ids, which the session makes here, show that
// a run knows all of those before.
func TestRequestsOfLongSession(t *testing.T) {
	timed.Serial(t)
	prompts := 16
	if n, err := strconv.Atoi(os.Getenv("AYCODER_TURNS")); err == nil {
		prompts = n / 9
	}
	type outcome struct {
		requests [][32]byte
		messages []*aycoder.Message
		short    int // histories with outlines
		again    int // prompts that came a second time, after an Undo
	}
	drive := func(t *testing.T, store journal.Store, reopen, whole bool) (out outcome) {
		m := &talker{turns: 9}
		look := looker(t, 2000)
		loop, keep := longTalk(t, m, look, 8_000)
		opts := []session.Option{session.WithSync(session.SyncTurns)}
		with := func() []session.Option {
			if whole {
				return opts
			}
			return append(opts[:1:1], session.WithCompactor(keep))
		}
		s, err := session.New(t.Context(), store, loop, with()...)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(3, 4))
		first := map[session.ID][32]byte{} // request at a node
		for range prompts {
			if reopen {
				require.NoError(t, s.Close())
				loop, keep = longTalk(t, m, look, 8_000)
				s, err = session.Open(t.Context(), store, s.ID(), loop, with()...)
				require.NoError(t, err)
				require.Empty(t, s.Damage())
			}
			switch r.IntN(8) {
			case 0:
				for range 1 + r.IntN(4) {
					_, _ = s.Undo(t.Context())
				}
			case 1:
				_, _ = s.Undo(t.Context())
				_, _ = s.Redo(t.Context())
			case 2:
				_, err := s.Checkout(t.Context(), session.ID(r.IntN(s.View().Len())))
				require.NoError(t, err)
			case 3:
				require.NoError(t, s.Trim(t.Context()))
			}
			var res aycoder.Result
			head, sent := s.Head(), len(m.requests)
			for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: fmt.Sprintf("prompt %d", head)}, aycoder.Into(&res)) {
				require.NoError(t, err)
			}
			if before, ok := first[head]; ok {
				require.Equal(t, before, m.requests[sent], "the first request at node %d", head)
				out.again++
			}
			first[head] = m.requests[sent]
			full := s.View().Messages(s.Head())
			require.Len(t, full, len(res.Messages))
			require.NoError(t, aycoder.CheckHistory(full))
			for i := range full {
				if a, err := json.Marshal(full[i]); err == nil && len(a) > 1000 {
					b, err := json.Marshal(res.Messages[i])
					require.NoError(t, err)
					if len(b) < 200 {
						out.short++
						break
					}
				}
			}
		}
		out.requests, out.messages = m.requests, s.View().Messages(s.Head())
		require.NoError(t, s.Close())
		return out
	}
	want := drive(t, newMemory(), false, true)
	for _, c := range []struct {
		name          string
		reopen, whole bool
	}{{"one process", false, false}, {"new processes", true, false}, {"whole", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			store, err := journal.Dir(t.TempDir())
			require.NoError(t, err)
			got := drive(t, store, c.reopen, c.whole)
			for i := range want.requests {
				require.Equal(t, want.requests[i], got.requests[i], "request %d", i)
			}
			require.Equal(t, want.requests, got.requests)
			require.Equal(t, encodedAll(t, want.messages), encodedAll(t, got.messages))
			t.Logf("%d requests, %d of %d runs began with outlines, %d prompts came again", len(got.requests), got.short, prompts, got.again)
			require.Positive(t, got.again)
			require.Equal(t, c.whole, got.short == 0)
		})
	}
	require.Zero(t, want.short)
}

// Nodes that no request needs are read from the records. They look as they do to another process, which has all
// of them, and so do exports, copies, and the conversation after an Undo.
func TestReleasedNodesAreReadAgain(t *testing.T) {
	timed.Serial(t)
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	m := &talker{turns: 9}
	loop, keep := longTalk(t, m, looker(t, 2000), 8_000)
	s, err := session.New(t.Context(), store, loop, session.WithCompactor(keep), session.WithSync(session.SyncTurns))
	require.NoError(t, err)
	var early *session.View
	for n := range 12 {
		say(t, s, n)
		runtime.GC()
		switch n {
		case 1:
			early = s.View()
		case 5:
			require.NoError(t, s.SetLabel(t.Context(), 7, "old"))
		case 6:
			_, err := s.Checkout(t.Context(), 30)
			require.NoError(t, err)
		case 9:
			_, err := s.Checkout(t.Context(), early.Head(""))
			require.NoError(t, err)
		}
	}
	same := func(v *session.View) {
		t.Helper()
		all, damage, err := session.Read(t.Context(), store, s.ID())
		require.NoError(t, err)
		require.Empty(t, damage)
		require.Equal(t, all.Len(), v.Len())
		require.Equal(t, exported(t, all), exported(t, v))
		for i := session.ID(0); int(i) < all.Len(); i += 7 {
			a, b := all.Node(i), v.Node(i)
			require.Equal(t, []any{a.ID, a.Parent, a.Run, a.Branch, a.At, a.Answer, a.Lost}, []any{b.ID, b.Parent, b.Run, b.Branch, b.At, b.Answer, b.Lost})
			require.Equal(t, ids(all.Path(i)), ids(v.Path(i)))
			require.Equal(t, ids(all.Children(i)), ids(v.Children(i)))
			require.Equal(t, all.Ancestor(i, all.Head("")).ID, v.Ancestor(i, v.Head("")).ID)
		}
		require.Equal(t, ids(all.Forks()), ids(v.Forks()))
		require.Equal(t, ids(all.Leaves()), ids(v.Leaves()))
		require.Len(t, v.Forks(), 2)
		usedThen, costThen := all.Usage()
		used, cost := v.Usage()
		require.Equal(t, usedThen, used)
		require.Equal(t, costThen, cost)
		require.Equal(t, encodedAll(t, all.Messages(all.Head(""))), encodedAll(t, v.Messages(v.Head(""))))
	}
	same(s.View())
	f, err := s.Fork(t.Context(), 40)
	require.NoError(t, err)
	require.Equal(t, encodedAll(t, s.View().Messages(40)), encodedAll(t, f.View().Messages(f.Head())))
	require.NoError(t, f.Close())
	require.NoError(t, store.Delete(t.Context(), f.ID()))
	require.NoError(t, s.Trim(t.Context()))
	same(s.View())
	undone := 0
	for ; err == nil; undone++ {
		_, err = s.Undo(t.Context())
	}
	require.Equal(t, 5, undone) // four prompts, and the error
	require.Zero(t, s.Head())
	require.NoError(t, s.Close())

	v := s.View()
	require.NoError(t, store.Delete(t.Context(), s.ID()))
	require.True(t, v.Node(12).Lost, "no node was released")
	require.Equal(t, "old", v.Label(7))
	require.False(t, v.Node(session.ID(v.Len()-1)).Lost)
	require.False(t, early.Node(12).Lost, "an earlier View had the node")
	gone := v.Messages(early.Head(""))
	require.NotEmpty(t, gone)
	require.NoError(t, aycoder.CheckHistory(gone))
}

func ids(nodes []*session.Node) []session.ID {
	var out []session.ID
	for _, n := range nodes {
		out = append(out, n.ID)
	}
	return out
}

func exported(t *testing.T, v *session.View) string {
	var b strings.Builder
	require.NoError(t, v.WriteJSON(&b))
	require.NoError(t, v.WriteMarkdown(&b, v.Head(""), nil))
	return b.String()
}

func encodedAll(t *testing.T, messages []*aycoder.Message) []string {
	var out []string
	for _, m := range messages {
		data, err := json.Marshal(m)
		require.NoError(t, err)
		out = append(out, string(data))
	}
	return out
}

// A crash at any moment of a compaction leaves the requests as they would have been. Each beginning of the
// journal is opened again, and the run in it goes on.
func TestCompactionIsDurable(t *testing.T) {
	dir := t.TempDir()
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	m := &talker{turns: 12}
	look := looker(t, 2000)
	loop, keep := longTalk(t, m, look, 8_000)
	s, err := session.New(t.Context(), store, loop, session.WithCompactor(keep), session.WithSync(session.SyncTurns))
	require.NoError(t, err)
	for n := range 4 {
		say(t, s, n)
	}
	require.NoError(t, s.Close())
	data, err := os.ReadFile(filepath.Join(dir, s.ID(), "journal.jsonl"))
	require.NoError(t, err)
	lines := slices.Collect(bytes.Lines(data))
	every := 1
	if os.Getenv("AYCODER_TURNS") == "" && timed.Reduced(t) {
		every = 4
	}
	compactions, cuts, resumed := 0, 0, 0
	near := func(i int) bool { // a compaction
		return slices.ContainsFunc(lines[max(0, i-1):min(len(lines), i+3)], func(line []byte) bool {
			return bytes.Contains(line, []byte(`"fact":"compacted"`))
		})
	}
	answered, prompts, begun := 0, 0, ""
	for i, line := range lines {
		switch text := string(line); {
		case strings.Contains(text, `"fact":"block"`):
			begun = "message" // the next try numbers its calls from there on
		case strings.Contains(text, `"fact":"message"`):
			answered++
			begun = ""
		case strings.Contains(text, `"fact":"compacted"`):
			compactions++
		case strings.Contains(text, `{"type":"text","text":"prompt `):
			prompts++
		case strings.Contains(text, `"fact":"tool_began"`):
			begun = "call"
		case strings.Contains(text, `"fact":"tool_done"`):
			begun = ""
		}
		if begun == "call" || prompts == 0 || i%every > 0 || !near(i) && i%80 != 0 {
			continue
		}
		cuts++
		killed := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(killed, s.ID(), "objects"), 0o700))
		rest := lines[min(i+1, len(lines)-1)] // half of it is written
		require.NoError(t, os.WriteFile(filepath.Join(killed, s.ID(), "journal.jsonl"),
			append(bytes.Join(lines[:i+1], nil), rest[:len(rest)/2]...), 0o600))
		store, err := journal.Dir(killed)
		require.NoError(t, err)
		again := &talker{turns: m.turns, answered: answered, requests: slices.Clone(m.requests[:answered])}
		loop, keep := longTalk(t, again, look, 8_000)
		o, err := session.Open(t.Context(), store, s.ID(), loop, session.WithCompactor(keep))
		require.NoError(t, err)
		in := aycoder.Input{}
		if o.Pending() == nil {
			in.Prompt = fmt.Sprintf("prompt %d", prompts)
		} else {
			resumed++
			if resumed%2 == 0 { // what Trim records of the run has outlines
				require.NoError(t, o.Trim(t.Context()))
				require.NoError(t, o.Close())
				o, err = session.Open(t.Context(), store, s.ID(), loop, session.WithCompactor(keep))
				require.NoError(t, err)
			}
		}
		for _, err := range o.Run(t.Context(), in) {
			require.NoError(t, err, "after record %d", i+1)
		}
		require.NoError(t, o.Close())
		n := len(again.requests)
		if answered == len(m.requests) { // the session was at its end
			continue
		}
		require.Equal(t, m.requests[answered], again.requests[answered], "after record %d", i+1)
		if begun == "" {
			require.Equal(t, m.requests[:n], again.requests, "after record %d", i+1)
		}
	}
	t.Logf("%d compactions, %d beginnings of %d records, %d runs went on", compactions, cuts, len(lines), resumed)
	require.Positive(t, resumed)
	require.Greater(t, compactions, 2)
}

// A View reads messages from the store, also after the records were rewritten and when the session is closed.
// If they are gone, the history stays valid and says so; a run does not go on with less than there was.
func TestMessagesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	m := &talker{turns: 4}
	loop, _ := longTalk(t, m, looker(t, 500), 200_000)
	s, err := session.New(t.Context(), store, loop)
	require.NoError(t, err)
	for n := range 3 {
		say(t, s, n)
	}
	want := encodedAll(t, s.View().Messages(s.Head()))
	require.Len(t, want, 24)
	views := []*session.View{}
	for range 3 {
		v, damage, err := session.Read(t.Context(), store, s.ID())
		require.NoError(t, err)
		require.Empty(t, damage)
		views = append(views, v)
	}
	require.Equal(t, want, encodedAll(t, views[0].Messages(s.Head())))
	require.NoError(t, s.Trim(t.Context()))
	runtime.GC()
	require.Equal(t, want, encodedAll(t, views[0].Messages(s.Head())))
	require.Equal(t, want, encodedAll(t, views[1].Messages(s.Head())))
	require.Equal(t, want, encodedAll(t, s.View().Messages(s.Head())))
	require.NoError(t, s.Close())
	require.Equal(t, want, encodedAll(t, s.View().Messages(s.Head())))

	s, err = session.Open(t.Context(), store, s.ID(), loop)
	require.NoError(t, err)
	path := filepath.Join(dir, s.ID(), "journal.jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(data, []byte("prompt 1"), []byte("prompt 7"), 1), 0o600))
	runtime.GC()
	lost := encodedAll(t, s.View().Messages(s.Head()))
	require.Len(t, lost, len(want))
	for i := range want {
		if i == 8 {
			require.Contains(t, lost[i], "this message was lost")
			continue
		}
		require.Equal(t, want[i], lost[i])
	}
	asked := len(m.requests)
	for _, err = range s.Run(t.Context(), aycoder.Input{Prompt: "go on"}) {
	}
	_, ok := errors.AsType[*journal.OpError](err)
	require.True(t, ok, "%v", err)
	require.Len(t, m.requests, asked)
	_ = s.Close() // the journal was changed
	require.NoError(t, store.Delete(t.Context(), s.ID()))
	gone := views[2].Messages(s.Head())
	require.Len(t, gone, len(want))
	require.NoError(t, aycoder.CheckHistory(gone))
	require.Contains(t, gone[2].Parts[0].(*aycoder.ToolOutput).Text(), "this message was lost")
	require.Contains(t, views[2].Node(1).Message().Text(), "this message was lost")
}
