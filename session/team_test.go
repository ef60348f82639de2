package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// Eight agents on eight branches edit the same files, beside a user, and the session is opened again
// in between. No line of anybody is lost, and an agent is told of an edit that was not made.
func TestAgentsEditTheSameFiles(t *testing.T) {
	const agents, files, each = 8, 5, 4
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	dir, store := t.TempDir(), session.Memory()
	file := func(n int) string { return filepath.Join(dir, fmt.Sprint("f", n)) }
	for n := range files {
		var text strings.Builder
		for a := range agents + 1 {
			fmt.Fprintf(&text, "start %d\n\n\n\nend %d\n\n\n\n", a, a)
		}
		require.NoError(t, os.WriteFile(file(n), []byte(text.String()), 0o644))
	}
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	held := session.NewFiles(ws)
	made := make([]map[string]bool, agents) // lines that the agent was told are in a file
	var lock sync.Mutex
	agentOf := func(a int) aycoder.Agent {
		list, err := tools.Coding(held, tools.WithExecMiddleware(held.Exec))
		require.NoError(t, err)
		step := script.Func(func(req *aycoder.Request) script.Step {
			n := len(req.Messages)
			calls := 0
			for _, m := range req.Messages {
				if calls += len(m.Calls()); m.Role == aycoder.RoleUser && strings.HasPrefix(m.Text(), "round") {
					calls = 0
				}
			}
			if calls == each {
				return script.Say("done")
			}
			end := fmt.Sprintf("end %d\n", a)
			return script.Block(&aycoder.ToolUse{ID: fmt.Sprintf("c%d", n), Name: "edit_file", Args: fmt.Appendf(nil,
				`{"path":"f%d","old_string":%q,"new_string":%q}`, (n+a)%files, end, fmt.Sprintf("line %d of %d\n%s", n, a, end))})
		})
		l, err := aycoder.New(script.New(step).With(script.WithLoop(true)), aycoder.WithTools(list...), aycoder.WithApprover(verdict(aycoder.Allow())))
		require.NoError(t, err)
		return l
	}
	s, err := session.New(t.Context(), store, parrot{new(int)}, session.WithFiles(held))
	require.NoError(t, err)
	for a := range agents {
		made[a] = map[string]bool{}
		_, err := s.NewBranch(t.Context(), fmt.Sprint(a), session.Root, agentOf(a))
		require.NoError(t, err)
	}
	users := 0
	for round := range rounds {
		var wg sync.WaitGroup
		for a := range agents {
			b := s.BranchOf(fmt.Sprint(a))
			require.NoError(t, b.SetAgent(agentOf(a)))
			wg.Go(func() {
				for ev, err := range b.Run(t.Context(), aycoder.Input{Prompt: fmt.Sprint("round ", round)}) {
					if err != nil {
						t.Error(err)
					}
					if fin, ok := ev.(*aycoder.ToolFinished); ok && !fin.Output.IsError {
						var n int
						_, err := fmt.Sscanf(fin.Call.ID, "c%d", &n)
						require.NoError(t, err)
						lock.Lock()
						made[a][fmt.Sprintf("f%d line %d of %d\n", (n+a)%files, n, a)] = true
						lock.Unlock()
					}
				}
			})
		}
		wg.Wait()
		for n := range files {
			text, err := os.ReadFile(file(n))
			require.NoError(t, err)
			users++
			changed := strings.Replace(string(text), "end 8\n", fmt.Sprintf("user %d\nend 8\n", users), 1)
			require.NoError(t, os.WriteFile(file(n), []byte(changed), 0o644))
		}
		if round%4 == 3 {
			require.NoError(t, s.Close())
			s, err = session.Open(t.Context(), store, s.ID(), parrot{new(int)}, session.WithFiles(held))
			require.NoError(t, err)
			require.Empty(t, s.Damage())
		}
	}
	texts, total := make([]string, files), 0
	for n := range files {
		data, err := os.ReadFile(file(n))
		require.NoError(t, err)
		texts[n] = string(data)
	}
	for a := range agents {
		for line := range made[a] {
			var n int
			rest := ""
			_, err := fmt.Sscanf(line, "f%d", &n)
			require.NoError(t, err)
			_, rest, _ = strings.Cut(line, " ")
			require.Equal(t, 1, strings.Count(texts[n], rest), "%q", line)
			total++
		}
		b := s.BranchOf(fmt.Sprint(a))
		require.NoError(t, aycoder.CheckHistory(s.View().Messages(b.Head())))
	}
	for i := range users {
		require.Equal(t, 1, strings.Count(strings.Join(texts, ""), fmt.Sprintf("user %d\n", i+1)))
	}
	t.Logf("%d edits, %d saves of the user", total, users)
	require.Greater(t, total, agents*rounds*each/2)
	require.NoError(t, s.Close())
}
