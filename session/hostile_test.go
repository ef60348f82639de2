package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// varied returns the records of a session that has records of all kinds, with a run suspended.
func varied(t testing.TB) [][]byte {
	ctx, store := t.Context(), newMemory()
	s, err := session.New(ctx, store, agent(t,
		script.Reply(script.Say("let me look"), call("look", "a"), call("write", "b")), script.Say("done"),
		script.Say("again"), script.Say("three")))
	require.NoError(t, err)
	run(t, s, "first")
	run(t, s, "second")
	require.NoError(t, s.SetLabel(ctx, 2, "here"))
	require.NoError(t, s.SetTitle(ctx, "title"))
	_, err = s.Undo(ctx)
	require.NoError(t, err)
	_, err = s.Redo(ctx)
	require.NoError(t, err)
	_, err = s.Undo(ctx)
	require.NoError(t, err)
	b, err := s.NewBranch(ctx, "b", 3, agent(t, script.Say("on b")))
	require.NoError(t, err)
	run(t, b, "hello b")
	require.NoError(t, b.Steer(ctx, "steer"))
	require.NoError(t, b.FollowUp(ctx, "later"))
	require.NoError(t, s.Compact(ctx, func(_ context.Context, m []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
		return m, nil, nil
	}))
	l, err := aycoder.New(script.New(script.Reply(call("look", "c"), call("write", "d"))),
		aycoder.WithTools(echo(t, "look", aycoder.EffectReadOnly), echo(t, "write", aycoder.EffectWrite)),
		aycoder.WithApprover(verdict(aycoder.Suspend())))
	require.NoError(t, err)
	require.NoError(t, s.SetAgent(l))
	for range s.Run(ctx, aycoder.Input{Prompt: "suspend"}) { //nolint:revive
	}
	require.NotNil(t, s.Pending())
	return store.sessions[s.ID()].records
}

// survives opens a session of any records, and uses all that a host may call.
func survives(t testing.TB, records [][]byte) {
	ctx, store := t.Context(), newMemory()
	store.sessions["x"] = &memoryJournal{records: records, objects: map[journal.Hash][]byte{}}
	if _, _, err := session.Read(ctx, store, "x"); err != nil {
		return // no record says that this is a session
	}
	on := func() aycoder.Agent {
		l, err := aycoder.New(script.New(script.Say("on")).With(script.WithLoop(true)),
			aycoder.WithTools(echo(t, "look", aycoder.EffectReadOnly), echo(t, "write", aycoder.EffectWrite)),
			aycoder.WithApprover(verdict(aycoder.Allow())))
		require.NoError(t, err)
		return l
	}
	s, err := session.Open(ctx, store, "x", on())
	if err != nil {
		return
	}
	for _, name := range s.View().Branches() {
		b := s.BranchOf(name)
		if b == nil {
			continue
		}
		require.NoError(t, b.SetAgent(on()))
		var text strings.Builder
		_ = s.View().WriteMarkdown(&text, b.Head(), nil)
		_ = s.View().WriteJSON(&text)
		_ = s.View().WriteHTML(&text, b.Head(), nil)
		_ = s.View().Files(b.Head())
		b.Queued()
		for range 2 {
			for range b.Run(ctx, aycoder.Input{}) { //nolint:revive
			}
		}
		for _, err := range b.Run(ctx, aycoder.Input{Prompt: "go on"}) {
			require.NoError(t, err)
		}
		_, _ = b.Redo(ctx)
		for range b.Run(ctx, aycoder.Input{Prompt: "after redo"}) { //nolint:revive
		}
		_, _ = b.Undo(ctx)
		_, _ = b.Redo(ctx)
		if f, err := b.Fork(ctx, b.Head()); err == nil {
			_ = f.Close()
		}
	}
	require.NoError(t, s.SetTitle(ctx, "still works"))
	require.NoError(t, s.Trim(ctx))
	v := s.View()
	for id := range v.Len() {
		require.Equal(t, session.ID(id), v.Node(session.ID(id)).ID)
		v.Path(session.ID(id))
	}
	require.NoError(t, s.Close())
	again, _, err := session.Read(ctx, store, "x")
	require.NoError(t, err)
	require.Equal(t, v.Len(), again.Len())
}

var number = regexp.MustCompile(`:-?[0-9]+`)

// Records that somebody else wrote lead to damage that is reported, and never to a panic.
func TestHostileRecords(t *testing.T) {
	timed.Serial(t)
	good := varied(t)
	header := string(good[0])
	for _, lines := range [][]string{
		{header, `{"t":"head","n":-1}`},
		{header, `{"t":"undo","n":-7}`, `{"t":"undo","n":0}`},
		{header, `{"t":"label","n":-2,"name":"x"}`},
		{header, `{"t":"node","n":1,"m":{"role":"user","parts":[{"type":"text","text":"x"}]}}`, `{"t":"undo","n":0}`, header},
		{header, `{"t":"node","n":1,"context":[null]}`},
		{header, `{"t":"node","n":1,"context":[{"role":"assistant","parts":[{"type":"tool_use","id":"a","name":"write","args":{}}]}]}`},
		{header, `{"t":"node","n":1,"m":null}`, `{"t":"node","n":2,"m":{"role":"user","parts":[null]}}`},
		{header, `{"t":"node","n":1,"m":{"role":"assistant","parts":[]}}`},
		{header, `{"t":"ask","r":3,"requests":[{}]}`, `{"t":"run","r":9223372036854775807,"start":{}}`},
		{header, `{"t":"run","r":1,"n":-5,"start":{"tools":{"":-1}}}`, `{"t":"say","say":{"message":{"role":"assistant","parts":[]}}}`},
		{header, `{"t":"node","n":1,"at":9223372036854775807,"m":{"role":"user","parts":[{"type":"text","text":"x"}]}}`},
		{`{"t":"session","at":9223372036854775807,"session":{"version":1,"id":"x"}}`},
		{header, `{"t":"node","n":1,"files":{"../x":{"kind":"file","hash":"../../x"}},"shown":[{"path":"/etc/passwd","contents":["../x"]}]}`},
	} {
		t.Run(lines[len(lines)-1][:min(40, len(lines[len(lines)-1]))], func(t *testing.T) {
			var records [][]byte
			for _, l := range lines {
				records = append(records, []byte(l))
			}
			survives(t, records)
		})
	}
	const cases = 250
	seed := rand.Uint64()
	t.Logf("%d cases, seed %d", cases, seed)
	for n := range cases {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		var records [][]byte
		records = append(records, good...)
		for range 1 + r.IntN(3) {
			i := r.IntN(len(records))
			switch r.IntN(5) {
			case 0: // comes twice
				records = append(records[:i:i], append([][]byte{records[r.IntN(len(records))]}, records[i:]...)...)
			case 1: // is missing
				records = append(records[:i:i], records[i+1:]...)
			case 2:
				j := r.IntN(len(records))
				records[i], records[j] = records[j], records[i]
			case 3:
				values := []string{":-1", ":0", ":3", ":70", ":9223372036854775807", ":null", ":[]", `:""`, ":{}"}
				records[i] = number.ReplaceAllFunc(records[i], func(old []byte) []byte {
					if r.IntN(2) == 0 {
						return old
					}
					return []byte(values[r.IntN(len(values))])
				})
			case 4: // a key is gone, or has no value
				var m map[string]json.RawMessage
				if json.Unmarshal(records[i], &m) == nil {
					kind := m["t"]
					for k := range m {
						if k != "t" && r.IntN(3) == 0 {
							m[k] = json.RawMessage("null")
						}
					}
					data, _ := json.Marshal(m)
					if kind != nil { // the kind comes first
						delete(m, "t")
						data, _ = json.Marshal(m)
						data = fmt.Appendf(nil, `{"t":%s,%s`, kind, data[1:])
					}
					records[i] = data
				}
			}
			if len(records) == 0 {
				break
			}
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					for _, line := range records {
						t.Logf("%s", line)
					}
					t.Errorf("case %d: %v", n, p)

				}
			}()
			survives(t, records)
		}()
		if t.Failed() {
			t.Fatalf("case %d", n)
		}
	}
}
