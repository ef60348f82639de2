package session_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// Agents on branches of one session work at the same time and send each other messages, which
// arrive once and in order, also when the session is opened again in between.
func TestMessagesBetweenAgents(t *testing.T) {
	const agents, rounds = 8, 20
	store := journal.Memory()
	s, err := session.New(t.Context(), store, parrot{new(int)})
	require.NoError(t, err)
	name := func(i int) string { return fmt.Sprint("agent", i) }
	agentOf := func(s *session.Session, i int) aycoder.Agent {
		send, err := s.BranchOf(name(i)).SendTool()
		require.NoError(t, err)
		to := name((i + 1) % agents)
		step := script.Func(func(req *aycoder.Request) script.Step {
			turn, sent := 0, false
			for _, m := range req.Messages {
				if m.Role == aycoder.RoleUser && strings.HasPrefix(m.Text(), "round ") {
					turn, sent = turn+1, false
				}
				for _, p := range m.Parts {
					_, output := p.(*aycoder.ToolOutput)
					sent = sent || output
				}
			}
			if sent {
				return script.Say("done")
			}
			return script.Block(&aycoder.ToolUse{ID: fmt.Sprint("c", len(req.Messages)), Name: "send_message",
				Args: fmt.Appendf(nil, `{"to":%q,"text":"number %d"}`, to, turn)})
		})
		l, err := aycoder.New(script.New(step).With(script.WithLoop(true)), aycoder.WithTools(send), aycoder.WithApprover(verdict(aycoder.Allow())))
		require.NoError(t, err)
		return l
	}
	for i := range agents {
		_, err := s.NewBranch(t.Context(), name(i), session.Root, parrot{new(int)})
		require.NoError(t, err)
	}
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range agents {
			b := s.BranchOf(name(i))
			require.NoError(t, b.SetAgent(agentOf(s, i)))
			wg.Go(func() { run(t, b, fmt.Sprint("round ", round+1)) })
		}
		wg.Wait()
		if round%5 == 4 {
			require.NoError(t, s.Close())
			s, err = session.Open(t.Context(), store, s.ID(), parrot{new(int)})
			require.NoError(t, err)
			require.Empty(t, s.Damage())
		}
	}
	for i := range agents {
		b := s.BranchOf(name(i))
		require.NoError(t, b.SetAgent(agent(t, script.Say("nothing"))))
		run(t, b, "anything left?")
		require.Empty(t, b.Queued())
		got := []string{}
		messages := s.View().Messages(b.Head())
		require.NoError(t, aycoder.CheckHistory(messages))
		for _, m := range messages {
			if m.Role == aycoder.RoleUser && strings.HasPrefix(m.Text(), "Message from") {
				_, text, _ := strings.Cut(m.Text(), "\n")
				got = append(got, text)
				require.Contains(t, m.Text(), fmt.Sprintf("%q", name((i+agents-1)%agents)))
			}
		}
		want := []string{}
		for n := range rounds {
			want = append(want, fmt.Sprint("number ", n+1))
		}
		require.Equal(t, want, got, name(i))
	}
}
