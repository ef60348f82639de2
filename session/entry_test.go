package session

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/gittest"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

func entriesOf(t *testing.T, store journal.Store) []journal.Entry {
	t.Helper()
	l, err := List(t.Context(), store, nil)
	require.NoError(t, err)
	return l
}

// The branch is the one that git itself checked out.
func TestGitBranch(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	repo, tree := filepath.Join(base, "repo"), filepath.Join(base, "tree")
	require.NoError(t, os.MkdirAll(filepath.Join(repo, "a", "b"), 0o700))
	require.Empty(t, gitrepo.Branch(filepath.Join(repo, "a")))
	gittest.Run(t, repo, "init", "-b", "main")
	require.Equal(t, "main", gitrepo.Branch(repo))
	gittest.Run(t, repo, "commit", "--allow-empty", "-m", "x")
	gittest.Run(t, repo, "checkout", "-b", "fix/ü")
	require.Equal(t, "fix/ü", gitrepo.Branch(repo))
	require.Equal(t, "fix/ü", gitrepo.Branch(filepath.Join(repo, "a", "b")))
	gittest.Run(t, repo, "worktree", "add", tree, "-b", "other")
	require.Equal(t, "other", gitrepo.Branch(tree))
	gittest.Run(t, repo, "checkout", "--detach")
	require.Empty(t, gitrepo.Branch(repo))
	head := filepath.Join(repo, ".git", "HEAD")
	for _, bad := range []string{"", "ref: refs/heads/a\x1b[31m\n", "ref: refs/heads/a\nb\n", "ref: refs/tags/a\n"} {
		require.NoError(t, os.WriteFile(head, []byte(bad), 0o600))
		require.Empty(t, gitrepo.Branch(repo), "%q", bad)
	}
	require.NoError(t, os.Remove(head))
	require.NoError(t, os.Mkdir(head, 0o700))
	require.Empty(t, gitrepo.Branch(repo))
}

// An entry says what the session is, from its beginning on and after each run and command.
func TestEntry(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	gittest.Run(t, repo, "init", "-b", "main")
	now := time.UnixMilli(1_700_000_000_000)
	clock := clockFunc(func() time.Time { return now })
	prices := func(provider, model string) (aycoder.Price, bool) {
		return aycoder.Price{Input: 1e6, Output: 1e7}, model == "script"
	}
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	s, err := New(t.Context(), store, scripted(t, script.Say("one"), script.Say("two")),
		WithClock(clock), WithDir(repo), WithPrices(prices))
	require.NoError(t, err)
	want := journal.Entry{ID: s.ID(), Dir: repo, Branch: "main", Nodes: 1, Created: now, Used: now}
	check := func() {
		t.Helper()
		l := entriesOf(t, store)
		require.Len(t, l, 1)
		got := l[0]
		require.Equal(t, asText(t, want), asText(t, got))
	}
	check()

	now = now.Add(time.Minute)
	ask(t, s, "\n first question\nwith details")
	usage := s.View().Node(2).Answer.Usage
	require.Positive(t, usage.Output)
	want.Prompt, want.Model, want.Nodes, want.Used = "first question", "script", 3, now
	require.Zero(t, usage.CacheRead+usage.CacheWrite)
	want.Cost = float64(usage.Input) + 10*float64(usage.Output)
	require.Equal(t, want.Cost, s.View().Node(2).Answer.Cost)
	check()

	now = now.Add(time.Minute)
	require.NoError(t, s.SetTitle(t.Context(), "a name"))
	want.Title, want.Used = "a name", now
	check()
	gittest.Run(t, repo, "checkout", "-b", "other")
	now = now.Add(time.Minute)
	ask(t, s, "second")
	usage = s.View().Node(4).Answer.Usage
	want.Branch, want.Nodes, want.Used = "other", 5, now
	want.Cost += float64(usage.Input) + 10*float64(usage.Output) + float64(usage.CacheRead+usage.CacheWrite)
	check()
	now = now.Add(time.Minute)
	require.NoError(t, s.SetLabel(t.Context(), 2, "here"))
	want.Used = now
	check()
	require.NoError(t, s.Close())

	// The session is opened again without prices: what it has cost stays. Opening does not use it.
	now = now.Add(time.Minute)
	s, err = Open(t.Context(), store, want.ID, scripted(t), WithClock(clock))
	require.NoError(t, err)
	check()
	f, err := s.Fork(t.Context(), 2)
	require.NoError(t, err)
	for _, e := range entriesOf(t, store) {
		if e.ID == f.ID() {
			require.Equal(t, []any{repo, "other", "first question", 3, "a name"}, []any{e.Dir, e.Branch, e.Prompt, e.Nodes, e.Title})
			require.Equal(t, s.View().Node(2).Answer.Cost, e.Cost)
		}
	}
	require.NoError(t, f.Close())
	require.NoError(t, store.Delete(t.Context(), f.ID()))
	require.NoError(t, s.Close())
	check()
}

// A clock that goes backwards, also to before 1970, makes no difference but for the times.
func TestClockGoesBackwards(t *testing.T) {
	start := time.Date(1970, 1, 1, 3, 0, 0, 0, time.UTC)
	now := start
	clock := clockFunc(func() time.Time { now = now.Add(-30 * time.Minute); return now })
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	steps := []script.Step{script.Say("one"), script.Say("two"), script.Say("three")}
	s, err := New(t.Context(), store, scripted(t, steps...), WithClock(clock))
	require.NoError(t, err)
	created := s.View().Node(Root).At
	ask(t, s, "a")
	ask(t, s, "b")
	_, err = s.Undo(t.Context())
	require.NoError(t, err)
	_, err = s.Redo(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.SetLabel(t.Context(), 2, "here"))
	want := asText(t, s.View().Messages(s.Head()))
	require.NoError(t, s.Close())

	s, err = Open(t.Context(), store, s.ID(), scripted(t, steps[2:]...), WithClock(clock))
	require.NoError(t, err)
	require.Empty(t, s.Damage())
	require.Equal(t, want, asText(t, s.View().Messages(s.Head())))
	require.True(t, s.View().Node(4).At.Before(s.View().Node(1).At))
	ask(t, s, "c")
	require.Equal(t, "three", s.View().Node(s.Head()).Message().Text())
	require.NoError(t, s.Trim(t.Context()))
	require.NoError(t, s.Close())
	v, damage, err := Read(t.Context(), store, s.ID())
	require.NoError(t, err)
	require.Empty(t, damage)
	require.Len(t, v.Path(v.Head("")), 7)
	list, err := List(t.Context(), store, nil)
	require.NoError(t, err)
	require.Equal(t, "a", list[0].Prompt)
	require.Equal(t, created.UnixMilli(), list[0].Used.UnixMilli(), "the last time that is known")
}

func asText(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(data)
}

// If the index is lost or damaged in any way, the entries are the same as before.
func TestIndexIsRebuilt(t *testing.T) {
	t.Parallel()
	repo, dir := t.TempDir(), t.TempDir()
	gittest.Run(t, repo, "init", "-b", "main")
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	prices := func(string, string) (aycoder.Price, bool) { return aycoder.Price{Input: 3, Output: 7}, true }
	for i, prompt := range []string{"first", "second", "third"} {
		s, err := New(t.Context(), store, scripted(t, script.Say("a"), script.Say("b")), WithDir(repo), WithPrices(prices))
		require.NoError(t, err)
		if i > 0 {
			ask(t, s, prompt)
			ask(t, s, "more")
		}
		if i > 1 {
			_, err = s.Undo(t.Context())
			require.NoError(t, err)
			require.NoError(t, s.SetTitle(t.Context(), "title"))
			require.NoError(t, s.Trim(t.Context()))
		}
		require.NoError(t, s.Close())
	}
	before := asText(t, entriesOf(t, store))
	require.Contains(t, before, `"cost"`)
	index := filepath.Join(dir, indexName, journalName)
	whole, err := os.ReadFile(index)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(whole), "\n")
	damage := map[string]string{"empty": "", "zeros": strings.Repeat("\x00", len(whole)), "no JSON": "{\n\n]"}
	for n := range lines[:len(lines)-1] { // an older line of the same session is there still
		hurt := slices.Clone(lines)
		hurt[n] = strings.Replace(hurt[n], `"id"`, `"iD"`, 1)
		damage[fmt.Sprint("line ", n)] = strings.Join(hurt, "")
	}
	damage["all bytes changed"] = strings.Map(func(r rune) rune { return r ^ 1 }, string(whole))
	damage["only the first line"] = lines[0]
	check := func(name string) {
		t.Helper()
		fresh, err := journal.Dir(dir) // as another process
		require.NoError(t, err)
		got := entriesOf(t, fresh)
		// An index that lost only the last lines of a session has an older description.
		if name != "only the first line" {
			require.Equal(t, before, asText(t, got), name)
		}
		if runtime.GOOS != "windows" {
			require.NoError(t, err)
		}
		bare := 0
		for e, err := range fresh.List(t.Context()) {
			require.NoError(t, err)
			if e == (journal.Entry{ID: e.ID, Used: e.Used}) {
				bare++
			}
		}
		require.Zero(t, bare, "%s: the index must be whole again", name)
	}
	for name, text := range damage {
		require.NoError(t, os.WriteFile(index, []byte(text), 0o600))
		check(name)
	}
	require.NoError(t, os.Remove(index))
	check("lost")

	// A session that cannot be read is listed, and the others are described.
	bad := filepath.Join(dir, "bad")
	require.NoError(t, os.Mkdir(bad, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(bad, journalName), []byte("nothing\n"), 0o600))
	require.NoError(t, os.Remove(index))
	l := entriesOf(t, store)
	require.Len(t, l, 4)
	i := slices.IndexFunc(l, func(e journal.Entry) bool { return e.ID == "bad" })
	require.Equal(t, journal.Entry{ID: "bad", Used: l[i].Used}, l[i])
	require.Equal(t, before, asText(t, slices.Delete(l, i, i+1)))
}

func TestNoStore(t *testing.T) {
	_, err := List(t.Context(), nil, nil)
	require.ErrorContains(t, err, "store: is nil")
	_, _, err = Read(t.Context(), nil, "a")
	require.ErrorContains(t, err, "store: is nil")
	for _, err := range Facts(t.Context(), nil, "a", "") {
		require.ErrorContains(t, err, "store: is nil")
	}
}

// The newest session of a directory is the first one that List returns.
func TestListFilter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	clock := clockFunc(func() time.Time { now = now.Add(time.Second); return now })
	store := journal.Memory()
	var ids []string
	for _, dir := range []string{"/a", "/b", "/a", "/b", "/c"} {
		ids = append(ids, fillSession(t, store, nil, nil, WithDir(dir), WithClock(clock)))
	}
	a, err := filepath.Abs("/a")
	require.NoError(t, err)
	l, err := List(t.Context(), store, func(e *journal.Entry) bool { return e.Dir == a })
	require.NoError(t, err)
	require.Len(t, l, 2)
	require.Equal(t, []string{ids[2], ids[0]}, []string{l[0].ID, l[1].ID})
}

// Prune deletes real sessions by age and by size, but none that is open, and what is left works.
func TestPruneSessions(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	for _, files := range []bool{true, false} {
		store := journal.Memory()
		if files {
			var err error
			store, err = journal.Dir(t.TempDir())
			require.NoError(t, err)
		}
		now := time.UnixMilli(1_700_000_000_000)
		clock := clockFunc(func() time.Time { return now })
		var all []*Session
		for range 6 {
			s, err := New(t.Context(), store, scripted(t, script.Say(strings.Repeat("x", 10_000))), WithClock(clock))
			require.NoError(t, err)
			ask(t, s, "go")
			all = append(all, s)
			now = now.Add(time.Hour)
		}
		for _, s := range all[1:] { // the oldest one stays open
			require.NoError(t, s.Close())
		}
		deleted, err := journal.Prune(t.Context(), store, time.UnixMilli(1_700_000_000_000).Add(2*time.Hour), 0)
		require.NoError(t, err)
		require.Equal(t, []string{all[1].ID()}, deleted)
		size, err := store.(journal.Sizer).Size(t.Context(), all[5].ID())
		require.NoError(t, err)
		require.Greater(t, size, int64(10_000))
		deleted, err = journal.Prune(t.Context(), store, time.Time{}, 3*size+size/2)
		require.NoError(t, err)
		require.Equal(t, []string{all[2].ID(), all[3].ID()}, deleted)
		require.NoError(t, all[0].SetTitle(t.Context(), "still open"))
		require.NoError(t, all[0].Close())
		var left []string
		for _, e := range entriesOf(t, store) {
			left = append(left, e.ID)
		}
		// The rename was the last use of the session that was the oldest.
		require.Equal(t, []string{all[0].ID(), all[5].ID(), all[4].ID()}, left)
		deleted, err = journal.Prune(t.Context(), store, time.Time{}, 1)
		require.NoError(t, err)
		require.Len(t, deleted, 3)
		require.Empty(t, entriesOf(t, store))
	}
}

// beginnings returns stores that have the first records of a session, with their number: one, two, and so on to all.
func beginnings(t *testing.T, store journal.Store, id string) iter.Seq2[int, journal.Store] {
	j, err := store.Open(t.Context(), id, false)
	require.NoError(t, err)
	var records [][]byte
	for r, err := range j.Records(t.Context()) {
		require.NoError(t, err)
		records = append(records, r)
	}
	return func(yield func(int, journal.Store) bool) {
		for n := 1; n <= len(records); n++ {
			cut := journal.Memory()
			j, err := cut.Create(t.Context(), id)
			require.NoError(t, err)
			require.NoError(t, j.Append(t.Context(), true, records[:n]...))
			require.NoError(t, j.Close())
			if !yield(n, cut) {
				return
			}
		}
	}
}

// A run that its process did not end can be read, with the messages that are complete.
func TestReadAfterCrash(t *testing.T) {
	t.Parallel()
	store := journal.Memory()
	id := fillSession(t, store, []string{"go"}, []script.Step{
		script.Reply(script.Say("wait"), script.Call("look", map[string]any{"text": "x"})), script.Say("done"),
	})
	most := 0
	for _, cut := range beginnings(t, store, id) {
		v, damage, err := Read(t.Context(), cut, id)
		require.NoError(t, err)
		require.Empty(t, damage)
		require.GreaterOrEqual(t, v.Len(), most)
		most = v.Len()
		e := entriesOf(t, cut)
		require.Equal(t, v.Len(), e[0].Nodes)
	}
	require.Equal(t, 5, most)
	require.False(t, math.IsNaN(entriesOf(t, store)[0].Cost))
}

// After a crash, what comes out of the records has their time, whenever it is read or opened: an answer of yesterday is not one of
// today.
func TestTimeAfterACrash(t *testing.T) {
	then := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	clock := clockFunc(func() time.Time { return then })
	store := journal.Memory()
	id := fillSession(t, store, []string{"go"}, []script.Step{
		script.Reply(script.Say("wait"), script.Call("look", map[string]any{"text": "x"})), script.Say("done"),
	}, WithClock(clock))
	for n, cut := range beginnings(t, store, id) {
		v, _, err := Read(t.Context(), cut, id)
		require.NoError(t, err)
		s, err := Open(t.Context(), cut, id, scripted(t))
		require.NoError(t, err)
		for _, v := range []*View{v, s.View()} {
			for i := range v.Len() {
				require.Equal(t, then, v.Node(ID(i)).At.UTC(), "node %d after %d records", i, n)
			}
		}
		require.NoError(t, s.Close())
	}
}

type lookArgs struct {
	Text string `json:"text"`
}

// paid is a client that says what its answers cost.
type paid struct {
	aycoder.ModelClient
	cost float64
}

func (p paid) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range p.ModelClient.Stream(ctx, req) {
			if done, ok := ev.(*aycoder.MessageDone); ok {
				done.Cost = &p.cost
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// Without a price of the host's, an answer costs what the client says.
func TestCostOfTheClient(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"price": true, "no price": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := journal.Dir(t.TempDir())
			require.NoError(t, err)
			agent, err := aycoder.New(paid{script.New(script.Say("one")), 0.25})
			require.NoError(t, err)
			prices := func(string, string) (aycoder.Price, bool) { return aycoder.Price{Output: 1e6}, known }
			s, err := New(t.Context(), store, agent, WithPrices(prices))
			require.NoError(t, err)
			ask(t, s, "go")
			want := 0.25
			if known {
				want = float64(s.View().Node(2).Answer.Usage.Output)
			}
			require.InDelta(t, want, s.View().Node(2).Answer.Cost, 1e-9)
			require.NoError(t, s.Close())
			require.InDelta(t, want, entriesOf(t, store)[0].Cost, 1e-9)
			s, err = Open(t.Context(), store, s.ID(), agent)
			require.NoError(t, err)
			require.InDelta(t, want, s.View().Node(2).Answer.Cost, 1e-9, "as recorded")
			require.NoError(t, s.Close())
		})
	}
}

func scripted(tb testing.TB, steps ...script.Step) aycoder.Agent {
	look, err := aycoder.NewTool("look", "returns its argument",
		func(_ context.Context, _ *aycoder.Invocation, in lookArgs) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("seen"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(tb, err)
	l, err := aycoder.New(script.New(steps...), aycoder.WithTools(look))
	require.NoError(tb, err)
	return l
}

func ask(tb testing.TB, a aycoder.Agent, prompt string) {
	for _, err := range a.Run(tb.Context(), aycoder.Input{Prompt: prompt}) {
		require.NoError(tb, err)
	}
}

func fillSession(tb testing.TB, store journal.Store, prompts []string, steps []script.Step, opts ...Option) string {
	s, err := New(tb.Context(), store, scripted(tb, steps...), opts...)
	require.NoError(tb, err)
	for _, p := range prompts {
		ask(tb, s, p)
	}
	require.NoError(tb, s.Close())
	return s.ID()
}

// clockFunc is a clock that only tells the time.
type clockFunc func() time.Time

func (f clockFunc) Now() time.Time { return f() }

func (f clockFunc) AfterFunc(time.Duration, func()) (stop func() bool) { panic("not used") }
