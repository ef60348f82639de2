package harness_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

// killedDir is the variable with the directory of the process that is killed, and killedIn says where it is.
const killedDir, killedIn = "AYCODER_TEST_COST", "AYCODER_TEST_COST_IN"

// priced opens a runtime in which each answer costs a quarter of a dollar, and all together may cost two. The tool wait
// calls a function.
func priced(t *testing.T, dir, id string, wait func(), steps ...script.Step) (*harness.Runtime, *script.Model) {
	t.Helper()
	return pricedWith(t, dir, id, func(*config.Settings) {}, wait, steps...)
}

// pricedWith is priced with more settings.
func pricedWith(t *testing.T, dir, id string, set func(*config.Settings), wait func(), steps ...script.Step) (*harness.Runtime, *script.Model) {
	t.Helper()
	tool, err := aycoder.NewTool("wait", "", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		wait()
		return aycoder.TextResult("waited"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	store, err := journal.Dir(filepath.Join(dir, "sessions"))
	require.NoError(t, err)
	info := aycoder.ModelInfo{Provider: "acme", Model: "m", Context: 100_000, Price: &aycoder.Price{Input: 250}}
	model := script.New(steps...).With(script.WithName("acme", "m"))
	rt := open(t, filepath.Join(dir, "work"), harness.WithClient(model), harness.WithStore(store, id), harness.WithTools(tool),
		harness.WithCatalog(catalog.Default().With(info)), harness.WithSettings(settings(t, func(s *config.Settings) {
			s.Agent.MaxCost, s.Agent.Retries = new(2.0), 0
			set(s)
		})))
	return rt, model
}

// quarter is a step that costs a quarter of a dollar: a thousand tokens, of which a million cost 250 dollars.
func quarter(s script.Step) script.Step { return s.WithUsage(aycoder.Usage{Input: 1000}) }

// TestCostChild is the process that TestCostOfAKilledRun kills, in the third call of its run, or in the answer before it.
func TestCostChild(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		t.Skip("is run by TestCostOfAKilledRun")
	}
	forever := make(chan struct{})
	calls := 0
	stop := func(where string) {
		if os.Getenv(killedIn) == where {
			fmt.Println("there")
			<-forever
		}
	}
	step := quarter(script.Call("wait", struct{}{}))
	rt, _ := priced(t, dir, "", func() {
		if calls++; calls == 3 {
			stop("call")
		}
	}, step, step, script.Func(func(*aycoder.Request) script.Step {
		stop("answer")
		return step
	}))
	fmt.Println("id", rt.Session.ID())
	run(t, rt, "go")
}

// The costs of a run count after its process was killed: the conversation does not get its money again.
func TestCostOfAKilledRun(t *testing.T) {
	for where, spent := range map[string]float64{"call": 0.75, "answer": 0.5} {
		t.Run(where, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "work"), 0o755))
			id := killed(t, dir, where)
			step := quarter(script.Call("wait", struct{}{}))
			rt, model := priced(t, dir, id, func() {}, step, step, step, step, step, step, step, step, step)
			require.InDelta(t, spent, rt.Budgets["conversation"].Status().Spent.Money, 1e-9)
			require.NotNil(t, rt.Session.Pending())
			var last error
			for _, err := range rt.Run(t.Context(), aycoder.Input{}) {
				last = err
			}
			require.ErrorContains(t, last, "agent.max_cost")
			got := rt.Budgets["conversation"].Status().Spent.Money
			require.InDelta(t, spent+0.25*float64(len(model.Requests())), got, 1e-9)
			require.LessOrEqual(t, got, 2.25, "one answer at most is beyond the limit")
			require.Greater(t, got, 1.5)
		})
	}
}

// killed starts the process, kills it there, and returns the id of its session.
func killed(t *testing.T, dir, where string) (id string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCostChild$")
	cmd.Env = append(os.Environ(), killedDir+"="+dir, killedIn+"="+where)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "id "); ok {
			id = rest
		}
		if lines.Text() == "there" {
			break
		}
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NotEmpty(t, id)
	return id
}

// A read that a crash has interrupted runs again only if the user has said so.
func TestReadsAreRepeatedIfAsked(t *testing.T) {
	for _, repeat := range []bool{false, true} {
		t.Run(fmt.Sprint(repeat), func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "work"), 0o755))
			id := killed(t, dir, "call")
			calls := 0
			rt, model := pricedWith(t, dir, id, func(s *config.Settings) { s.Session.RepeatReads = repeat }, func() { calls++ }, script.Say("Done."))
			require.NotNil(t, rt.Session.Pending())
			for _, err := range rt.Run(t.Context(), aycoder.Input{}) {
				require.NoError(t, err)
			}
			out := script.LastOutput(model.Requests()[0])
			if repeat {
				require.Equal(t, []any{1, "waited", false}, []any{calls, out.Text(), out.IsError})
			} else {
				require.Equal(t, []any{0, true}, []any{calls, out.IsError})
			}
		})
	}
}
