package session_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/session"
)

// parrot is an agent that answers each prompt with "re: " and the prompt. It drives a State itself,
// as a host with its own engine does.
type parrot struct{ runs *int }

func (p parrot) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(yield func(aycoder.Event, error) bool) {
		var rc aycoder.RunConfig
		for _, o := range opts {
			if err := o(&rc); err != nil {
				yield(nil, err)
				return
			}
		}
		*p.runs++
		start := &aycoder.StartInput{Messages: append(slices.Clip(in.Messages), aycoder.User(in.Prompt))}
		state, _ := aycoder.Start(*start)
		rec := &aycoder.FactRecord{Run: fmt.Sprint("run", *p.runs), State: state, Start: start}
		facts := []aycoder.Fact{nil, &aycoder.BlockDone{Part: &aycoder.Text{Text: "re: " + in.Prompt}},
			&aycoder.MessageDone{Stop: aycoder.StopEndTurn}}
		for i, f := range facts {
			if f != nil {
				var err error
				if state, _, err = state.Apply(f); err != nil {
					yield(nil, err)
					return
				}
				rec = &aycoder.FactRecord{Run: rec.Run, Seq: int64(i), Fact: f, State: state}
			}
			if err := rc.Facts(ctx, rec); err != nil {
				yield(nil, err)
				return
			}
		}
		*rc.Into = aycoder.Result{Messages: state.Messages(), End: state.End(), Turns: 1}
		yield(&aycoder.RunFinished{Result: rc.Into}, nil)
	}
}

// plain is what the tree should be, in the simplest form.
type plain struct {
	parent []int
	text   []string
	labels map[int]string
	heads  map[string]int
	undone map[string][]int
	title  string
}

func (p *plain) add(branch, text string) {
	p.parent = append(p.parent, p.heads[branch])
	p.text = append(p.text, text)
	p.heads[branch] = len(p.text) - 1
	delete(p.undone, branch)
}

func (p *plain) path(n int) []string {
	var out []string
	for ; n != 0; n = p.parent[n] {
		out = append(out, p.text[n])
	}
	slices.Reverse(out)
	return out
}

// undo returns where an undo leads, or -1.
func (p *plain) undo(branch string) int {
	for n := p.heads[branch]; n != 0; n = p.parent[n] {
		if !strings.HasPrefix(p.text[n], "re: ") {
			return p.parent[n]
		}
	}
	return -1
}

func texts(messages []*aycoder.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Text())
	}
	return out
}

func (p *plain) compare(t require.TestingT, v *session.View) {
	require.Equal(t, len(p.text), v.Len())
	require.Equal(t, p.title, v.Title())
	children := map[int][]session.ID{}
	for n := 1; n < len(p.text); n++ {
		children[p.parent[n]] = append(children[p.parent[n]], session.ID(n))
	}
	for n := range p.text {
		id := session.ID(n)
		require.Equal(t, session.ID(p.parent[n]), v.Node(id).Parent)
		require.Equal(t, p.labels[n], v.Label(id))
		var got []session.ID
		for _, c := range v.Children(id) {
			got = append(got, c.ID)
		}
		require.Equal(t, children[n], got)
		require.Equal(t, p.path(n), texts(v.Messages(id)))
	}
	for name, head := range p.heads {
		require.Equal(t, session.ID(head), v.Head(name), "branch %q", name)
	}
	require.Equal(t, slices.Sorted(maps.Keys(p.heads)), v.Branches())
}

// sequences is how many random sequences of commands are tried.
func sequences(t *testing.T) int {
	if s := os.Getenv("AYCODER_SEQUENCES"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	if timed.Reduced(t) {
		return 400
	}
	return 2000
}

// The tree after random commands is that of a simple model, in the session that made it, in one
// that was opened from its records, and after Trim.
func TestRandomCommands(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("%d sequences, seed %d", sequences(t), seed)
	for n := range sequences(t) {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		if err := randomCommands(t, r); err != nil {
			t.Fatalf("sequence %d of seed %d: %v", n, seed, err)
		}
	}
}

type failed struct{ msg string }

func (f *failed) Errorf(format string, args ...any) { f.msg = fmt.Sprintf(format, args...) }
func (f *failed) FailNow()                          { panic(f) }

func randomCommands(t *testing.T, r *rand.Rand) (err error) {
	done := []string{}
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(*failed)
			if !ok {
				panic(p)
			}
			err = fmt.Errorf("%s: %s", strings.Join(done, ", "), f.msg)
		}
	}()
	check := &failed{}
	ctx := t.Context()
	store, agent := newMemory(), parrot{new(int)}
	s, err := session.New(ctx, store, agent)
	require.NoError(check, err)
	m := &plain{parent: []int{0}, text: []string{""}, labels: map[int]string{}, heads: map[string]int{"": 0}, undone: map[string][]int{}}
	branches := map[string]*session.Branch{"": s.Branch}
	for i := range 1 + r.IntN(14) {
		name := slices.Sorted(maps.Keys(branches))[r.IntN(len(branches))]
		b, node := branches[name], r.IntN(len(m.text)+1)
		switch k := r.IntN(12); k {
		case 0, 1, 2:
			prompt := fmt.Sprint("p", i)
			done = append(done, fmt.Sprintf("%q.run %s", name, prompt))
			for _, err := range b.Run(ctx, aycoder.Input{Prompt: prompt}) {
				require.NoError(check, err)
			}
			m.add(name, prompt)
			m.add(name, "re: "+prompt)
		case 3, 4:
			done = append(done, fmt.Sprintf("%q.checkout %d", name, node))
			_, err := b.Checkout(ctx, session.ID(node))
			if node == len(m.text) {
				require.Error(check, err)
				continue
			}
			require.NoError(check, err)
			m.heads[name] = node
			delete(m.undone, name)
		case 5, 6:
			done = append(done, fmt.Sprintf("%q.undo", name))
			_, err := b.Undo(ctx)
			to := m.undo(name)
			if to < 0 {
				_, ok := errors.AsType[*session.CommandError](err)
				require.True(check, ok)
				continue
			}
			require.NoError(check, err)
			m.undone[name] = append(m.undone[name], m.heads[name])
			m.heads[name] = to
		case 7:
			done = append(done, fmt.Sprintf("%q.redo", name))
			_, err := b.Redo(ctx)
			last := len(m.undone[name]) - 1
			if last < 0 {
				require.Error(check, err)
				continue
			}
			require.NoError(check, err)
			m.heads[name] = m.undone[name][last]
			m.undone[name] = m.undone[name][:last]
		case 8:
			label := []string{"", "a", "b"}[r.IntN(3)]
			done = append(done, fmt.Sprintf("label %d %q", node, label))
			err := s.SetLabel(ctx, session.ID(node), label)
			if node == len(m.text) {
				require.Error(check, err)
				continue
			}
			require.NoError(check, err)
			if m.labels[node] = label; label == "" {
				delete(m.labels, node)
			}
		case 9:
			name := []string{"x", "y", "z"}[r.IntN(3)]
			done = append(done, fmt.Sprintf("branch %q from %d", name, node))
			made, err := s.NewBranch(ctx, name, session.ID(node), agent)
			if node == len(m.text) || branches[name] != nil {
				require.Error(check, err)
				continue
			}
			require.NoError(check, err)
			branches[name], m.heads[name] = made, node
		case 10:
			done = append(done, "title")
			m.title = fmt.Sprint("title ", i)
			require.NoError(check, s.SetTitle(ctx, m.title))
		case 11:
			done = append(done, "reopen")
			if r.IntN(2) == 0 {
				done = append(done, "trim")
				require.NoError(check, s.Trim(ctx))
			}
			require.NoError(check, s.Close())
			s, err = session.Open(ctx, store, s.ID(), agent)
			require.NoError(check, err)
			require.Empty(check, s.Damage())
			for name := range branches {
				branches[name] = s.BranchOf(name)
				require.NoError(check, branches[name].SetAgent(agent))
			}
		}
	}
	m.compare(check, s.View())
	v, damage, err := session.Read(ctx, store, s.ID())
	require.NoError(check, err)
	require.Empty(check, damage)
	m.compare(check, v)
	return nil
}
