package harness_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/providers/script"
)

// twoModels returns a file with two models and other keys.
func twoModels(keys string) string {
	return "approval.mode = \"full-auto\"\n" + keys + "[models.one]\nprovider = \"acme\"\nmodel = \"first\"\n" +
		"[models.two]\nprovider = \"acme\"\nmodel = \"second\"\n"
}

func complete(t *testing.T, m aycoder.ModelClient) string {
	t.Helper()
	got, err := aycoder.Complete(t.Context(), m, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}})
	require.NoError(t, err)
	return got.Message.Text()
}

// A run that is at work asks another model from the next turn on, and agents that start then have it, too.
func TestModelsChange(t *testing.T) {
	change := script.Call("change", struct{}{})
	first := script.New(change, script.Say("not reached")).With(script.WithName("acme", "first"))
	second := script.New(script.Call("subagent", map[string]string{"task": "x"}), script.Say("a"), change, script.Say("ok")).
		With(script.WithName("acme", "second"))
	quick := script.New(script.Say("a title"))
	var save func(string) error
	tool := changing(t, []func(){
		func() { require.NoError(t, save(twoModels("roles.main = \"two\"\nroles.summary = \"one\"\n"))) },
		func() { require.NoError(t, save(twoModels("roles.main = \"two\"\nroles.small = \"acme/quick\"\n"))) },
	})
	var specs []harness.ModelSpec
	rt, save := reloadingModels(t, twoModels("roles.main = \"one\"\n"), harness.WithTools(tool),
		harness.WithOpener(opener(&specs, map[string]*script.Model{"first": first, "second": second, "quick": quick})))
	require.Equal(t, "first", modelName(t, rt.Small))
	var changed, notices []string
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.SetupChanged:
			changed = append(changed, ev.Model)
		case *aycoder.Notice:
			notices = append(notices, ev.Text)
		}
	}
	require.Equal(t, []string{"acme/second"}, changed)
	require.Equal(t, []string{
		"the configuration has changed:\nroles.main: \"one\" → \"two\"\nroles.summary: none → \"one\" (takes effect when started again)",
		"the configuration has changed:\nroles.small: none → \"acme/quick\"\nroles.summary: \"one\" → none (takes effect when started again)",
	}, notices)
	require.Len(t, first.Requests(), 1)
	require.Len(t, second.Requests(), 4)
	require.NotContains(t, toolNames(second.Requests()[1]), "subagent", "that is the request of the agent")
	require.Equal(t, "second", specs[1].Model)
	require.Equal(t, "second", modelName(t, rt.Client))
	require.Equal(t, "a title", complete(t, rt.Small))
}

// modelName returns the name of the model that a client asks.
func modelName(t *testing.T, m aycoder.ModelClient) string {
	t.Helper()
	n, ok := aycoder.As[aycoder.ModelNamer](m)
	require.True(t, ok)
	_, model := n.ModelName()
	return model
}

// A model that cannot be opened leaves the one before in place, and the user reads why. Reload tries again.
func TestModelThatCannotBeOpened(t *testing.T) {
	first, second := script.New(script.Say("1"), script.Say("2")), script.New(script.Say("3"))
	var specs []harness.ModelSpec
	known := map[string]*script.Model{"first": first}
	rt, save := reloadingModels(t, twoModels("roles.main = \"one\"\n"), harness.WithOpener(opener(&specs, known)))
	require.NoError(t, save(twoModels("roles.main = \"two\"\n")))
	require.Equal(t, []string{
		"config: roles.main: the model stays as it was: models.two: provider acme: this program does not have it",
		"config: the configuration has changed:\nroles.main: \"one\" → \"two\" (could not be opened)",
	}, run(t, rt, "one"))
	require.Empty(t, run(t, rt, "two"), "it is told once")
	require.Len(t, first.Requests(), 2)
	known["second"] = second
	require.NoError(t, rt.Reload(t.Context()))
	require.Empty(t, run(t, rt, "three"))
	require.Len(t, second.Requests(), 1)
}

// Models that the host has given do not change, and those that only a trusted file of the project limits are not
// exchanged until the user decides about its change.
func TestModelsThatStay(t *testing.T) {
	var specs []harness.ModelSpec
	first, second := script.New(script.Say("1"), script.Say("2")), script.New(script.Say("3"))
	opening := harness.WithOpener(opener(&specs, map[string]*script.Model{"first": first, "second": second}))
	rt, save := reloading(t, twoModels("roles.main = \"one\"\n"), opening)
	require.NoError(t, save(twoModels("roles.main = \"two\"\n")))
	require.Len(t, run(t, rt, "one"), 1)
	require.Empty(t, specs)

	dir := project(t, map[string]string{config.ProjectFile: "[models.one]\nrequests_per_minute = 1\n"})
	name := filepath.Join(t.TempDir(), "config.toml")
	put(t, filepath.Dir(name), "config.toml", twoModels("roles.main = \"one\"\n"))
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	src, err := config.NewReloader(config.WithUserFile(name), config.WithProject(dir), config.WithTrust(trust))
	require.NoError(t, err)
	decide := func() {
		for _, q := range src.Current().Questions {
			require.NoError(t, trust.Decide(t.Context(), q, true))
		}
		require.NoError(t, src.Reload().Err)
	}
	decide()
	rt = open(t, dir, opening, harness.WithReloader(src))
	require.Equal(t, 1, src.Current().Config.Models["one"].RequestsPerMinute)
	require.Len(t, specs, 1)
	put(t, dir, config.ProjectFile, "[models.one]\nrequests_per_minute = 600\n")
	require.NoError(t, rt.Reload(t.Context()))
	require.Len(t, specs, 1)
	require.Contains(t, strings.Join(run(t, rt, "one"), "\n"), "models.one.requests_per_minute: 1 → none (takes effect when you have decided about the file of the project)")
	decide()
	require.NoError(t, rt.Reload(t.Context()))
	require.Len(t, specs, 2)
}

// The user chooses another model while a run works: it is asked from the next turn on, and the configuration does not
// take it back.
func TestSetModel(t *testing.T) {
	first := script.New(script.Call("change", struct{}{}), script.Say("not reached")).With(script.WithName("acme", "first"))
	second := script.New(script.Say("ok"), script.Say("still me")).With(script.WithName("acme", "second"))
	var rt *harness.Runtime
	tool := changing(t, []func(){func() {
		require.ErrorContains(t, rt.SetModel(t.Context(), "acme/none"), "provider acme")
		require.NoError(t, rt.SetModel(t.Context(), "acme/second"))
	}})
	var specs []harness.ModelSpec
	rt, save := reloadingModels(t, twoModels("roles.main = \"one\"\n"), harness.WithTools(tool),
		harness.WithOpener(opener(&specs, map[string]*script.Model{"first": first, "second": second})))
	require.Empty(t, run(t, rt, "go"))
	require.Len(t, first.Requests(), 1)
	require.Len(t, second.Requests(), 1)
	require.Equal(t, "second", modelName(t, rt.Client))
	require.Equal(t, "second", modelName(t, rt.Small), "it follows the main model")
	require.NoError(t, save(twoModels("roles.main = \"acme/first\"\n")))
	run(t, rt, "again")
	require.Len(t, second.Requests(), 2)

	given := open(t, t.TempDir(), harness.WithClient(script.New()))
	require.Error(t, given.SetModel(t.Context(), "acme/second"))
}

// ExampleRuntime_SetModel asks another model from the next turn on, as the line "/model acme/large" of a terminal
// program does.
func ExampleRuntime_SetModel() {
	ctx := context.Background()
	follow, err := config.NewReloader(config.WithFlag("-model", "roles.main", "acme/small"))
	if err != nil {
		fmt.Println(err)
		return
	}
	rt, err := harness.New(ctx, ".", harness.WithReloader(follow), harness.WithOpener(
		func(_ context.Context, spec harness.ModelSpec) (aycoder.ModelClient, error) {
			return script.New(script.Say("I am " + spec.Model + ".")), nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	if err := rt.SetModel(ctx, "acme/large"); err != nil {
		fmt.Println(err)
		return
	}
	var res aycoder.Result
	for _, err := range rt.Run(ctx, aycoder.Input{Prompt: "Who are you?"}, aycoder.Into(&res)) {
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(res.Text())
	// Output: I am large.
}

// A model that cannot be opened is one error, whatever number of roles name it.
func TestModelOfSeveralRolesFailsOnce(t *testing.T) {
	opened := 0
	c := config.Settings{}
	c.Roles.Main, c.Roles.Small, c.Roles.Summary = "openai/gpt-5", "openai/gpt-5", "openai/gpt-5"
	_, err := harness.New(t.Context(), t.TempDir(), harness.WithSettings(c), harness.WithOpener(
		func(context.Context, harness.ModelSpec) (aycoder.ModelClient, error) {
			opened++
			return nil, errors.New("no key")
		}))
	require.Error(t, err)
	require.Positive(t, opened)
	require.Equal(t, 1, strings.Count(err.Error(), "no key"), err)
}

// answering is a client of a provider, whose answers take a million tokens in and one out.
type answering struct {
	provider string
	err      error
}

func (a answering) ModelName() (provider, model string) { return a.provider, "m" }

func (a answering) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if a.err != nil {
			yield(nil, a.err)
			return
		}
		_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "x"}}, nil) &&
			yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn, Usage: aycoder.Usage{Input: 1e6, Output: 1e6}, Provider: a.provider, Model: "m"}, nil)
	}
}

// The events and the result of a run have the costs that the conversation keeps, also of a client to which the model fell back.
func TestCostsInEvents(t *testing.T) {
	known, err := catalog.Parse(strings.NewReader(`{"providers": [
		{"provider": "first", "date": "2026-01-01", "sources": ["s"], "models": [{"model": "m", "context": 9000, "price": {"input": 1, "output": 2}}]},
		{"provider": "second", "date": "2026-01-01", "sources": ["s"], "models": [{"model": "m", "context": 9000, "price": {"input": 10, "output": 20}}]}]}`))
	require.NoError(t, err)
	down := &aycoder.OverloadedError{ModelError: &aycoder.ModelError{Status: 529}}
	for _, tt := range []struct {
		first answering
		want  float64
	}{{answering{"first", nil}, 3}, {answering{"first", down}, 30}} {
		rt, err := harness.New(t.Context(), t.TempDir(), harness.WithCatalog(known), harness.WithStore(journal.Memory(), ""),
			harness.WithClient(middleware.Fallback(answering{"second", nil})(tt.first)))
		require.NoError(t, err)
		var res aycoder.Result
		turns := 0
		for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "x"}, aycoder.Into(&res)) {
			require.NoError(t, err)
			if f, ok := ev.(*aycoder.TurnFinished); ok {
				turns++
				require.NotNil(t, f.Cost)
				require.InDelta(t, tt.want, *f.Cost, 1e-9)
			}
		}
		require.Equal(t, 1, turns)
		require.InDelta(t, tt.want, res.Spent[0].Cost, 1e-9)
		_, cost := rt.Session.View().Usage()
		require.InDelta(t, tt.want, cost, 1e-9)
		require.NoError(t, rt.Close())
	}
}
