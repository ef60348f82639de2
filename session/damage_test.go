package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// With any one record damaged, the rest of a session is there, in a finished session and in one
// whose last run was interrupted at any record. No write that began runs again, and the
// conversation can go on.
func TestEachRecordDamaged(t *testing.T) {
	timed.Serial(t)
	whole := newMemory()
	s, err := session.New(t.Context(), whole, agent(t,
		script.Reply(script.Say("let me look"), call("look", "a"), call("write", "b")), script.Say("done"),
		script.Reply(call("write", "c"), call("write", "d")), script.Say("finished")))
	require.NoError(t, err)
	run(t, s, "first")
	run(t, s, "second")
	records := whole.sessions[s.ID()].records
	cases := 0
	for end := len(records); end >= 2; end-- {
		for bad := range end {
			cases++
			if err := damagedAt(t, records[:end:end], bad); err != nil {
				t.Fatalf("record %d of %d: %v\n%s", bad+1, end, err, records[bad])
			}
		}
	}
	t.Logf("%d cases", cases)
}

func damagedAt(t *testing.T, records [][]byte, bad int) error {
	store := newMemory()
	store.sessions["x"] = &memoryJournal{
		records: records, objects: map[journal.Hash][]byte{}, damaged: map[int]bool{bad: true},
	}
	began := map[string]bool{}
	want := map[session.ID]string{} // what the readable nodes say
	for i, r := range records {
		var f struct {
			Fact, ID, T string
			N           session.ID
			M           *struct {
				Parts []json.RawMessage
			}
		}
		if err := json.Unmarshal(r, &f); err != nil {
			return err
		}
		if f.Fact == "tool_began" { // also if its record is the damaged one
			began[f.ID] = true
		}
		var text struct{ Type, Text string }
		if i != bad && f.T == "node" && json.Unmarshal(f.M.Parts[0], &text) == nil && text.Type == "text" {
			want[f.N] = text.Text
		}
	}
	ran := map[string]bool{}
	note := func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			if inv.Name == "write" {
				ran[inv.ID] = true
			}
			return next(ctx, inv)
		}
	}
	l, err := aycoder.New(script.New(script.Say("on")).With(script.WithLoop(true)), aycoder.WithApprover(verdict(aycoder.Allow())),
		aycoder.WithToolMiddleware(note),
		aycoder.WithTools(echo(t, "look", aycoder.EffectReadOnly), echo(t, "write", aycoder.EffectWrite)))
	if err != nil {
		return err
	}
	o, err := session.Open(t.Context(), store, "x", l)
	if err != nil {
		return err
	}
	if d := o.Damage(); len(d) == 0 || !strings.Contains(d[0].Error(), fmt.Sprintf("record %d ", bad+1)) {
		return fmt.Errorf("damage is reported as %v", d)
	}
	for id, text := range want {
		if n := o.View().Node(id); n == nil || n.Message() == nil || n.Message().Text() != text {
			return fmt.Errorf("node %d is lost", id)
		}
	}
	for range 2 {
		in := aycoder.Input{Prompt: "go on"}
		if o.Pending() != nil {
			in = aycoder.Input{}
		}
		for _, err := range o.Run(t.Context(), in) {
			if err != nil {
				return fmt.Errorf("run: %w", err)
			}
		}
	}
	for id := range ran {
		if began[id] {
			return fmt.Errorf("%s ran twice", id)
		}
	}
	if err := aycoder.CheckHistory(o.View().Messages(o.Head())); err != nil {
		return err
	}
	v, _, err := session.Read(t.Context(), store, "x")
	if err != nil {
		return err
	}
	if asJSON(t, v.Messages(v.Head(""))) != asJSON(t, o.View().Messages(o.Head())) {
		return fmt.Errorf("it is read again as %s instead of %s", asJSON(t, v.Messages(v.Head(""))), asJSON(t, o.View().Messages(o.Head())))
	}
	return nil
}

// A run of which a record is damaged is interrupted twice, at any records. Each process goes on where the one before it was:
// no write begins twice, and each answer of the model has its place.
func TestDamageBetweenCrashes(t *testing.T) {
	timed.Serial(t)
	whole := newMemory()
	s, err := session.New(t.Context(), whole, fourTurns(t, "a"))
	require.NoError(t, err)
	run(t, s, "go")
	records := whole.sessions[s.ID()].records
	const cases = 300
	seed := rand.Uint64()
	t.Logf("%d cases, seed %d", cases, seed)
	for n := range cases {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		end := 4 + r.IntN(len(records)-4)
		j := &memoryJournal{records: records[:end:end], objects: map[journal.Hash][]byte{}, damaged: map[int]bool{r.IntN(end): true}}
		store := &memory{sessions: map[string]*memoryJournal{"x": j}}
		for _, by := range []string{"b", "c"} {
			if by == "c" {
				end += r.IntN(len(j.records) - end + 1)
				j.records = j.records[:end:end]
			}
			o, err := session.Open(t.Context(), store, "x", fourTurns(t, by))
			require.NoError(t, err)
			in := aycoder.Input{Prompt: "on"}
			if o.Pending() != nil {
				in = aycoder.Input{}
			}
			for _, err := range o.Run(t.Context(), in) {
				require.NoError(t, err, "case %d, process %s", n, by)
			}
			var last aycoder.Role
			for _, node := range o.View().Path(o.Head()) {
				m := node.Message()
				if m == nil {
					last = ""
					continue
				}
				require.False(t, m.Role == last && m.Role == aycoder.RoleAssistant, "case %d, process %s: node %d follows another answer",
					n, by, node.ID)
				last = m.Role
			}
		}
		times := map[string]int{}
		for _, r := range j.records {
			var f struct{ Fact, ID string }
			require.NoError(t, json.Unmarshal(r, &f))
			if f.Fact == "tool_began" && strings.Contains(f.ID, "write") {
				times[f.ID]++
				require.Equal(t, 1, times[f.ID], "case %d: %s", n, f.ID)
			}
		}
	}
}

// fourTurns is an agent whose model makes calls in each of four turns. Their ids say which process they are of.
func fourTurns(t testing.TB, by string) *aycoder.Loop {
	step := script.Func(func(req *aycoder.Request) script.Step {
		turns := 0
		for _, m := range req.Messages {
			if m.Role == aycoder.RoleAssistant {
				turns++
			}
		}
		if turns >= 4 {
			return script.Say("done")
		}
		call := func(name string) script.Step {
			return script.Block(&aycoder.ToolUse{ID: fmt.Sprint(by, turns, name), Name: name, Args: json.RawMessage(`{"text":"x"}`)})
		}
		return script.Reply(script.Say("next"), call("look"), call("write"))
	})
	return agent(t, step, step, step, step, step)
}

// A copy of a session of which any one record is damaged can go on, as the session itself can.
func TestCopyOfDamaged(t *testing.T) {
	whole := newMemory()
	s, err := session.New(t.Context(), whole, fourTurns(t, "a"))
	require.NoError(t, err)
	run(t, s, "go")
	records := whole.sessions[s.ID()].records
	for bad := 1; bad < len(records); bad++ {
		j := &memoryJournal{records: slices.Clone(records), objects: map[journal.Hash][]byte{}, damaged: map[int]bool{bad: true}}
		store := &memory{sessions: map[string]*memoryJournal{"x": j}}
		o, err := session.Open(t.Context(), store, "x", agent(t, script.Say("one"), script.Say("two")))
		require.NoError(t, err)
		if o.Pending() != nil {
			_, err = o.Undo(t.Context())
			require.NoError(t, err)
		}
		forked, err := o.Fork(t.Context(), o.Head())
		require.NoError(t, err)
		var doc bytes.Buffer
		require.NoError(t, o.View().WriteJSON(&doc))
		imported, err := session.Import(t.Context(), newMemory(), agent(t, script.Say("one")), &doc)
		require.NoError(t, err)
		for _, c := range []*session.Session{forked, imported} {
			for _, err := range c.Run(t.Context(), aycoder.Input{Prompt: "on"}) {
				require.NoError(t, err, "record %d: %s", bad, records[bad])
			}
		}
	}
}

// That is so on a path at which no branch is when it is copied, or opened again.
func TestCopyOfDamagedBranch(t *testing.T) {
	whole := newMemory()
	s, err := session.New(t.Context(), whole, fourTurns(t, "a"))
	require.NoError(t, err)
	run(t, s, "go")
	leaf := s.Head()
	_, err = s.Checkout(t.Context(), session.Root)
	require.NoError(t, err)
	records := whole.sessions[s.ID()].records
	at := slices.IndexFunc(records, func(r []byte) bool { return bytes.Contains(r, []byte(`"type":"tool_use"`)) })
	for by, bad := range map[string]int{"checkout": at, "branch": at} {
		j := &memoryJournal{records: records[:len(records):len(records)], objects: map[journal.Hash][]byte{}, damaged: map[int]bool{bad: true}}
		store := &memory{sessions: map[string]*memoryJournal{"x": j}}
		o, err := session.Open(t.Context(), store, "x", agent(t))
		require.NoError(t, err)
		var doc bytes.Buffer
		require.NoError(t, o.View().WriteJSON(&doc))
		st := newMemory()
		i, err := session.Import(t.Context(), st, agent(t, script.Say("e")), &doc)
		require.NoError(t, err)
		require.NoError(t, i.Close())
		i, err = session.Open(t.Context(), st, i.ID(), agent(t, script.Say("e")))
		require.NoError(t, err)
		if by == "branch" {
			b, err := i.NewBranch(t.Context(), by, leaf, agent(t, script.Say("e")))
			require.NoError(t, err)
			run(t, b, "on")
			continue
		}
		_, err = i.Checkout(t.Context(), leaf)
		require.NoError(t, err)
		run(t, i, "on")
	}
}
