package session_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// latest is a [session.Compactor] whose requests show only the last prompt.
type latest struct{}

func (latest) Needed(n int, _ func(int) (*aycoder.Message, error)) (func(int) bool, error) {
	return func(int) bool { return false }, nil
}

func (latest) middleware(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		for original.IsOutline(in.Messages[0]) {
			in.Messages = in.Messages[1:]
		}
		return next.Build(ctx, in)
	})
}

// A copied model gets copies of messages, so that it keeps none of the session.
type copied struct{ aycoder.ModelClient }

func (c copied) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	mine := *req
	mine.Messages = nil
	for _, m := range req.Messages {
		mine.Messages = append(mine.Messages, &aycoder.Message{Role: m.Role, Parts: slices.Clone(m.Parts)})
	}
	return c.ModelClient.Stream(ctx, &mine)
}

// latestOnly is an agent with tools for files that needs no old messages.
func latestOnly(t *testing.T, files *snapshot.Files, steps ...script.Step) *aycoder.Loop {
	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
	require.NoError(t, err)
	l, err := aycoder.New(copied{script.New(steps...)}, aycoder.WithTools(list...), aycoder.WithContextMiddleware(latest{}.middleware),
		aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(t, err)
	return l
}

// The files of nodes stay known, and their contents in the store, also if no request needs the messages.
func TestFilesOfReleasedNodes(t *testing.T) {
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	dir := t.TempDir()
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	files := snapshot.New(ws)
	steps := []script.Step{writeFile("a.txt", "one\n"), script.Say("wrote"), writeFile("a.txt", "two\n"), script.Say("wrote")}
	for range 3 {
		steps = append(steps, script.Say("ok"))
	}
	s, err := session.New(t.Context(), store, latestOnly(t, files, steps...), session.WithFiles(files), session.WithCompactor(latest{}))
	require.NoError(t, err)
	run(t, s, "first")
	first := s.Head()
	run(t, s, "second")
	want := s.View().Files(first)
	for i := range 3 {
		runtime.GC()
		run(t, s, fmt.Sprint("later ", i))
	}
	require.Equal(t, want, s.View().Files(first))
	require.NoError(t, s.Trim(t.Context()))
	_, err = s.Checkout(t.Context(), first)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "one\n", string(got))
	require.NoError(t, s.Close())
	require.NoError(t, store.Delete(t.Context(), s.ID()))
	require.True(t, s.View().Node(4).Lost, "no node was released")
}

// needs is a [session.Compactor] that needs some messages.
type needs struct{ need func(i int) bool }

func (n *needs) Needed(int, func(int) (*aycoder.Message, error)) (func(int) bool, error) {
	return n.need, nil
}

// A caller makes a call with the same id in each run.
func caller(t *testing.T) aycoder.Agent {
	model := clientFunc(func(req *aycoder.Request, yield func(aycoder.ModelEvent, error) bool) {
		last := req.Messages[len(req.Messages)-1]
		if len(part.Outputs(last)) > 0 {
			_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "done"}}, nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
			return
		}
		use := &aycoder.ToolUse{ID: "same", Name: "look", Args: []byte("{}")}
		_ = yield(&aycoder.BlockDone{Part: use}, nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopToolUse}, nil)
	})
	shorter := func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
		return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			prompt := 0
			for i, m := range in.Messages {
				if m.Role == aycoder.RoleUser && strings.HasPrefix(m.Text(), "prompt") {
					prompt = i
				}
			}
			in.Messages = in.Messages[prompt:]
			return next.Build(ctx, in)
		})
	}
	l, err := aycoder.New(model, aycoder.WithTools(looker(t, 10)), aycoder.WithContextMiddleware(shorter))
	require.NoError(t, err)
	return l
}

type clientFunc func(*aycoder.Request, func(aycoder.ModelEvent, error) bool)

func (f clientFunc) Stream(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) { f(req, yield) }
}

// A history stays valid, and no id is given twice, if messages are needed again after they were released.
func TestReleasedMessagesAreNeededAgain(t *testing.T) {
	for name, again := range map[string]func(i int) bool{
		"none":           func(int) bool { return false },
		"the first":      func(i int) bool { return i == 0 },
		"the first four": func(i int) bool { return i < 4 },
		"calls":          func(i int) bool { return i%4 == 1 },
		"outputs":        func(i int) bool { return i%4 == 2 },
		"all":            func(int) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			store, err := journal.Dir(t.TempDir())
			require.NoError(t, err)
			n := &needs{func(int) bool { return false }}
			s, err := session.New(t.Context(), store, caller(t), session.WithCompactor(n))
			require.NoError(t, err)
			for i := range 5 {
				if i == 4 {
					n.need = again
				}
				say(t, s, i)
				runtime.GC()
			}
			calls := map[string]bool{}
			for _, m := range s.View().Messages(s.Head()) {
				for _, use := range m.Calls() {
					require.False(t, calls[use.ID], use.ID)
					calls[use.ID] = true
				}
			}
			require.Len(t, calls, 5)
			require.NoError(t, s.Close())
			require.NoError(t, store.Delete(t.Context(), s.ID()))
			require.True(t, s.View().Node(2).Lost, "no node was released")
		})
	}
}

// Messages that are gone from the store say so, and a model may get them.
func TestReleasedMessagesAreGone(t *testing.T) {
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, caller(t), session.WithCompactor(&needs{func(int) bool { return false }}))
	require.NoError(t, err)
	for i := range 4 {
		say(t, s, i)
		runtime.GC()
	}
	require.NoError(t, s.Close())
	require.NoError(t, store.Delete(t.Context(), s.ID()))
	v := s.View()
	for i := session.ID(1); i < 5; i++ {
		require.True(t, v.Node(i).Lost, "no node was released")
		m := v.Node(i).Message()
		require.Contains(t, m.Text(), "this message was lost")
		require.False(t, original.IsOutline(m))
	}
	require.False(t, slices.ContainsFunc(v.Messages(v.Head("")), original.IsOutline))
}

// A run that continues at a call whose message was released adds an output, as it does at any other call.
func TestRunAtReleasedCall(t *testing.T) {
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, caller(t), session.WithCompactor(&needs{func(int) bool { return false }}))
	require.NoError(t, err)
	for i := range 4 {
		say(t, s, i)
		runtime.GC()
	}
	_, err = s.Checkout(t.Context(), 2)
	require.NoError(t, err)
	say(t, s, 5)
	messages := s.View().Messages(s.Head())
	require.NoError(t, aycoder.CheckHistory(messages))
	require.Equal(t, messages[1].Calls()[0].ID, part.Outputs(messages[2])[0].ID)
	require.NoError(t, s.Close())
}
