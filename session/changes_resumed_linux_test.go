package session_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const interrupted = "The run was interrupted. What its calls had changed since the last message counts as the user's."

// asking returns an agent with the tools for files in a directory, and one whose result comes from outside.
func asking(t *testing.T, dir string, steps ...script.Step) (*snapshot.Files, *aycoder.Loop) {
	t.Helper()
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	files := snapshot.New(ws)
	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
	require.NoError(t, err)
	ask, err := aycoder.DeclareTool[struct{}]("ask", "Ask.", aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	l, err := aycoder.New(script.New(steps...), aycoder.WithTools(append(list, ask)...),
		aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(t, err)
	return files, l
}

func askStep() script.Step { return script.Call("ask", map[string]any{}) }

// again opens a session in another process, and gives the results that it waits for. If cut is set, the
// process before has crashed before it recorded what it waits for.
func again(t *testing.T, store *memory, s *session.Session, dir string, cut bool) aycoder.Result {
	t.Helper()
	records := store.sessions[s.ID()].records
	i := slices.IndexFunc(records, func(r []byte) bool { return strings.HasPrefix(string(r), `{"t":"ask"`) })
	require.Positive(t, i)
	if cut {
		records = records[:i]
	}
	records = slices.Clone(records)
	require.NoError(t, s.Close())
	store.sessions[s.ID()].records = records
	files, l := asking(t, dir, script.Say("done"))
	s, err := session.Open(t.Context(), store, s.ID(), l, session.WithFiles(files))
	require.NoError(t, err)
	defer s.Close()
	require.NotNil(t, s.Pending())
	var in aycoder.Input
	for _, c := range s.Pending().Calls {
		in.Results = append(in.Results, c.Result(aycoder.TextResult("yes")))
	}
	var res aycoder.Result
	for _, err := range s.Run(t.Context(), in, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, aycoder.EndDone, res.End)
	return res
}

// A run without a prompt that is resumed does not tell the changes of the run before it.
func TestChangesOfResumedRunAreItsOwn(t *testing.T) {
	for name, cut := range map[string]bool{"suspended": false, "crashed": true} {
		t.Run(name, func(t *testing.T) {
			dir, store := t.TempDir(), newMemory()
			files, l := asking(t, dir, writeFile("a", "x\n"), script.Fail(errors.New("bad")), askStep())
			s, err := session.New(t.Context(), store, l, session.WithFiles(files))
			require.NoError(t, err)
			for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				if err != nil {
					require.ErrorContains(t, err, "bad")
				}
			}
			var res aycoder.Result
			for _, err := range s.Run(t.Context(), aycoder.Input{}, aycoder.Into(&res)) {
				require.NoError(t, err)
			}
			require.Equal(t, aycoder.EndSuspended, res.End)
			require.Empty(t, lines(res.Changes))
			require.Empty(t, lines(again(t, store, s, dir, cut).Changes))
		})
	}
}

// A run that waited only for results from outside was not interrupted, unless its process ended before it
// had recorded what the calls had changed.
func TestChangesOfRunSuspendedOutside(t *testing.T) {
	for _, tt := range []struct {
		name    string
		steps   []script.Step
		cut     bool
		changes []string
		missing []string
	}{
		{"in the next message", []script.Step{writeFile("a", "x\n"), askStep()}, false, []string{"created a"}, nil},
		{"in the same message", []script.Step{script.Reply(writeFile("a", "x\n"), askStep())}, false, []string{"created a"}, nil},
		{"crashed", []script.Step{script.Reply(writeFile("a", "x\n"), askStep())}, true, nil, []string{interrupted}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, store := t.TempDir(), newMemory()
			files, l := asking(t, dir, tt.steps...)
			s, err := session.New(t.Context(), store, l, session.WithFiles(files))
			require.NoError(t, err)
			res := run(t, s, "go")
			require.Equal(t, aycoder.EndSuspended, res.End)
			require.Equal(t, []string{"created a"}, lines(res.Changes))
			res = again(t, store, s, dir, tt.cut)
			require.Equal(t, tt.changes, lines(res.Changes))
			require.Equal(t, tt.missing, res.Changes.Missing())
		})
	}
}

// A run that began elsewhere is resumed in a new session: what it had changed there is not known.
func TestChangesOfForeignRun(t *testing.T) {
	dir := t.TempDir()
	files, l := asking(t, dir, writeFile("a", "x\n"), askStep(), writeFile("b", "x\n"), script.Say("done"))
	var res aycoder.Result
	for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	s, err := session.New(t.Context(), newMemory(), l, session.WithFiles(files))
	require.NoError(t, err)
	defer s.Close()
	in := aycoder.Input{Pending: res.Pending, Results: []aycoder.CallResult{res.Pending.Calls[0].Result(aycoder.TextResult("yes"))}}
	for _, err := range s.Run(t.Context(), in, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, aycoder.EndDone, res.End)
	require.Equal(t, []string{"created b"}, lines(res.Changes))
	require.Equal(t, []string{"The run was resumed. What it changed before that is not known."}, res.Changes.Missing())
}

// The run that starts an agent in the background says that it still works, and a later run names the files
// that the agent has changed.
func TestChangesOfAgentInBackground(t *testing.T) {
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	files := snapshot.New(ws)
	g, err := background.New()
	require.NoError(t, err)
	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
	require.NoError(t, err)
	hold := make(chan bool)
	sub, err := tools.Subagent(tools.SubagentConfig{Background: g, Tools: list, Model: script.New(
		script.Func(func(*aycoder.Request) script.Step {
			<-hold
			return writeFile("b", "x\n")
		}), script.Say("done"))})
	require.NoError(t, err)
	wait := script.Func(func(*aycoder.Request) script.Step {
		close(hold)
		for jobs := range g.Changes(t.Context()) {
			if len(jobs) > 0 && !jobs[0].Lives() {
				break
			}
		}
		return writeFile("a", "x\n")
	})
	l, err := aycoder.New(script.New(script.Call("subagent", map[string]any{"task": "x", "background": true}),
		script.Say("one"), wait, script.Say("two"), script.Say("three"), script.Say("four")),
		aycoder.WithTools(append(list, sub)...), aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(t, err)
	s, err := session.New(t.Context(), newMemory(), l, session.WithFiles(files))
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.SetBackground(t.Context(), g, nil))

	res := run(t, s, "one")
	require.Empty(t, lines(res.Changes))
	require.Equal(t, []string{"An agent in the background still works."}, res.Changes.Missing())
	res = run(t, s, "two")
	require.Equal(t, []string{"created a"}, lines(res.Changes))
	require.Equal(t, []string{"Agents or commands of another run have changed files: b."}, res.Changes.Missing())
	res = run(t, s, "three")
	require.Empty(t, lines(res.Changes))
	require.Empty(t, res.Changes.Missing())
}
