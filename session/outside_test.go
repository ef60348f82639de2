package session_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/ondisk"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

const outsideEnv = "AYCODER_SESSION_OUTSIDE"

func outsideResult(id string) *aycoder.ToolResult { return aycoder.TextResult("result of " + id) }

// outsideAgent is an agent with tools that are declared or have functions. It calls them in three messages.
func outsideAgent(t testing.TB, declared bool) *aycoder.Loop {
	var tools []aycoder.Tool
	for name, effect := range map[string]aycoder.Effect{"ask": aycoder.EffectReadOnly, "deploy": aycoder.EffectWrite} {
		tool, err := aycoder.NewTool(name, "A tool.", func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
			return outsideResult(inv.ID), nil
		}, aycoder.WithEffect(effect))
		if declared {
			tool, err = aycoder.DeclareTool[struct{}](name, "A tool.", aycoder.WithEffect(effect))
		}
		require.NoError(t, err)
		tools = append(tools, tool)
	}
	step := script.Func(func(req *aycoder.Request) script.Step {
		turn := 0
		for _, m := range req.Messages {
			if m.Role == aycoder.RoleAssistant {
				turn++
			}
		}
		if turn == 3 {
			return script.Say("done")
		}
		var steps []script.Step
		for i, name := range []string{"ask", "deploy", "ask", "deploy"} {
			steps = append(steps, script.Block(&aycoder.ToolUse{ID: fmt.Sprintf("t%dc%d", turn, i), Name: name, Args: []byte(`{}`)}))
		}
		return script.Reply(steps...)
	})
	l, err := aycoder.New(script.New(step).With(script.WithLoop(true)), aycoder.WithTools(tools...), aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(t, err)
	return l
}

func openOutside(t testing.TB, dir string) *session.Session {
	store, err := journal.Dir(filepath.Join(dir, "sessions"))
	require.NoError(t, err)
	s, err := session.Continue(t.Context(), store, dir, outsideAgent(t, true), session.WithDir(dir))
	require.NoError(t, err)
	return s
}

// outsideStep continues the session once, and answers some of its calls before and while it works.
func outsideStep(t testing.TB, s *session.Session, rnd *rand.Rand, opts ...aycoder.RunOption) {
	in := aycoder.Input{Prompt: "go"}
	if p := s.Pending(); p != nil {
		in = aycoder.Input{}
		for _, i := range rnd.Perm(len(p.Calls)) {
			if rnd.IntN(2) == 0 {
				in.Results = append(in.Results, p.Calls[i].Result(outsideResult(p.Calls[i].CallID)))
			}
		}
	}
	for ev, err := range s.Run(t.Context(), in, opts...) {
		require.NoError(t, err)
		if c, ok := ev.(*aycoder.CallRequested); ok && rnd.IntN(3) == 0 {
			handle := c.Detach()
			go func() { _ = handle.Answer(outsideResult(handle.Request.CallID)) }()
		}
	}
}

func outsideDone(s *session.Session) bool {
	m := s.View().Messages(s.Head())
	return s.Pending() == nil && len(m) > 0 && m[len(m)-1].Text() == "done"
}

// TestOutsideProcess is the process that kills itself between two facts for TestOutsideCallsKilled.
func TestOutsideProcess(t *testing.T) {
	dir, rest, _ := strings.Cut(os.Getenv(outsideEnv), "|")
	if dir == "" {
		return
	}
	kill, err := strconv.Atoi(rest)
	require.NoError(t, err)
	s := openOutside(t, dir)
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	record := func(context.Context, *aycoder.FactRecord) error {
		if kill--; kill < 0 {
			_ = self.Kill()
			select {}
		}
		return nil
	}
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	for !outsideDone(s) {
		outsideStep(t, s, rnd, aycoder.WithFacts(record))
	}
	require.NoError(t, s.Close())
}

// A session whose calls are answered in processes that are killed between any two facts has the history
// that it has with tools that have functions.
func TestOutsideCallsKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process does not kill itself there")
	}
	timed.Serial(t)
	ondisk.Use(t)
	runs := 2
	if n, err := strconv.Atoi(os.Getenv("AYCODER_OUTSIDE")); err == nil {
		runs = n
	}
	want, err := session.New(t.Context(), newMemory(), outsideAgent(t, false))
	require.NoError(t, err)
	run(t, want, "go")
	expected := asJSON(t, want.View().Messages(want.Head()))
	kills, here := 0, 0
	for i := range runs {
		rnd := rand.New(rand.NewPCG(uint64(i), 3))
		dir := t.TempDir()
		for done := false; !done; {
			cmd := exec.Command(os.Args[0], "-test.run=^TestOutsideProcess$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d", outsideEnv, dir, rnd.IntN(20)))
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				require.NotContains(t, out.String(), "FAIL")
				kills++
			}
			s := openOutside(t, dir)
			require.NoError(t, aycoder.CheckHistory(s.View().Messages(s.Head())))
			if p := s.Pending(); p != nil {
				require.Equal(t, p.State.OpenCalls(), p.Calls)
				if rnd.IntN(3) == 0 { // this process answers, too
					here++
					outsideStep(t, s, rnd)
				}
			}
			if done = outsideDone(s); done {
				require.Equal(t, expected, asJSON(t, s.View().Messages(s.Head())))
			}
			require.NoError(t, s.Close())
		}
	}
	require.Positive(t, kills)
	t.Logf("%d runs, %d kills, continued here %d times", runs, kills, here)
}

// A suspended session tells of its open calls, refuses results that do not fit, and goes on with the others.
func TestOutsideCallsOfASession(t *testing.T) {
	s, err := session.New(t.Context(), newMemory(), outsideAgent(t, true))
	require.NoError(t, err)
	run(t, s, "go")
	require.Equal(t, session.PhaseSuspended, s.Phase())
	p := s.Pending()
	require.Len(t, p.Calls, 4)
	good := p.Calls[0].Result(outsideResult("t0c0"))
	for _, in := range []aycoder.Input{{Results: []aycoder.CallResult{good, good}}, {Results: []aycoder.CallResult{{CallID: "x"}}},
		{Prompt: "more", Results: []aycoder.CallResult{good}}} {
		var failed error
		for _, err := range s.Run(t.Context(), in) {
			failed = err
		}
		require.Error(t, failed)
		require.Same(t, p, s.Pending())
		require.Equal(t, session.PhaseSuspended, s.Phase())
	}
	live := 0
	for ev, err := range s.Run(t.Context(), aycoder.Input{Results: []aycoder.CallResult{good}}) {
		require.NoError(t, err)
		if _, ok := ev.(*aycoder.CallRequested); ok {
			live++
			require.Equal(t, session.PhaseQuestion, s.Phase())
		}
	}
	require.Equal(t, 3, live)
	require.Len(t, s.Pending().Calls, 3)
	run(t, s, "never mind") // settles the calls, and asks again
	out := s.View().Messages(s.Head())[2].Parts[1].(*aycoder.ToolOutput)
	require.Equal(t, "stopped: the run was cancelled before the result of this call came; its outcome is unknown", out.Text())
	require.NoError(t, s.Close())
}

// Whoever is asked for a result may begin at once, so that a loss of power must not lose that somebody was.
func TestRequestsSurviveALossOfPower(t *testing.T) {
	store := newMemory()
	s, err := session.New(t.Context(), store, outsideAgent(t, true), session.WithSync(session.SyncTurns))
	require.NoError(t, err)
	asked := 0
	for ev, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		c, ok := ev.(*aycoder.CallRequested)
		if !ok {
			continue
		}
		asked++
		left, err := session.Open(t.Context(), store.afterPowerLoss(), s.ID(), outsideAgent(t, true))
		require.NoError(t, err)
		require.NotNil(t, left.Pending())
		require.True(t, slices.ContainsFunc(left.Pending().Calls, func(open aycoder.CallRequest) bool {
			return open.CallID == c.Request.CallID && open.Digest == c.Request.Digest
		}), c.Request.CallID)
		require.NoError(t, left.Close())
		if c.Request.CallID[:2] == "t0" { // the run goes on to a second message
			require.NoError(t, c.Answer(outsideResult(c.Request.CallID)))
		}
	}
	require.Equal(t, 8, asked)
	require.NoError(t, s.Close())
}
