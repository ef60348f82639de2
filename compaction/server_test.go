package compaction_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tokens"
)

// serving is a client whose service writes summaries.
type serving struct{ *script.Model }

func (serving) CompactFrom(_ string, tokens int64) (string, json.RawMessage) {
	return "compact_from", fmt.Append(nil, tokens)
}

func (serving) CompactedBy(p *aycoder.Opaque) (string, bool) {
	var block struct{ Summary string }
	return block.Summary, p.Provider == "serving" && json.Unmarshal(p.Raw, &block) == nil && block.Summary != ""
}

func summarised(text string) script.Step {
	raw, _ := json.Marshal(map[string]string{"summary": text})
	return script.Block(&aycoder.Opaque{Provider: "serving", Raw: raw})
}

// The service summarises the conversation while it answers the second prompt. The third request begins
// with its summary.
func ExampleWithServer() {
	model := serving{script.New(
		script.Say("The parser is in parse.go."),
		script.Reply(summarised("The user works on parse.go."), script.Say("It has no tests.")),
		script.Say("I add one."),
	)}
	keep, err := compaction.New(model, compaction.WithWindow(100_000), compaction.WithServer(true))
	if err != nil {
		log.Fatal(err)
	}
	loop, err := aycoder.New(model, aycoder.WithContextMiddleware(keep.Middleware))
	if err != nil {
		log.Fatal(err)
	}
	var res aycoder.Result
	for _, prompt := range []string{"Where is the parser?", "Is it tested?", "Do that."} {
		in := aycoder.Input{Messages: res.Messages, Prompt: prompt}
		for ev, err := range loop.Run(context.Background(), in, aycoder.Into(&res)) {
			if err != nil {
				log.Fatal(err)
			}
			if c, ok := ev.(*aycoder.Compacted); ok {
				fmt.Printf("%d messages replaced: %s\n", c.Replaced, c.Summary)
			}
		}
	}
	last := model.Requests()[2]
	fmt.Println("compact from", string(last.Extra["compact_from"]))
	for _, m := range last.Messages[2:] {
		fmt.Println(m.Role, m.Text())
	}
	// Output:
	// 2 messages replaced: The user works on parse.go.
	// compact from 61250
	// user Where is the parser?
	// assistant It has no tests.
	// user Do that.
}

// elsewhere is a client of another provider.
type elsewhere struct{ *script.Model }

func (elsewhere) ModelName() (provider, model string) { return "elsewhere", "m" }

// Another client in the middle of a run gets what the summary replaces, and the first one the summary.
func TestServerOfSetup(t *testing.T) {
	again := func() script.Step { return script.Call("look", map[string]any{}) }
	first := serving{script.New(script.Reply(summarised("SUMMARY"), again()), again(), script.Say("Done."), script.Say("Well."))}
	other := elsewhere{script.New(script.Reply(script.Say("OTHER"), again()), again())}
	keep, err := compaction.New(first, compaction.WithWindow(100_000), compaction.WithServer(true))
	require.NoError(t, err)
	turn := 0
	loop, err := aycoder.New(first, aycoder.WithTools(outputs(t, 200)), aycoder.WithContextMiddleware(keep.Middleware),
		aycoder.WithStrictPrefix(true), aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			if now.Client = first; turn == 2 || turn == 3 {
				now.Client = other
			}
			turn++
			return now, nil
		}))
	require.NoError(t, err)
	old := []*aycoder.Message{aycoder.User("FIRST"), aycoder.Assistant("OLD"), aycoder.User("more")}
	c := &chat{t: t, agent: loop, messages: old}
	require.NoError(t, c.ask("go on"))
	require.Len(t, c.events, 1)
	require.Equal(t, 3, c.events[0].Replaced, "all before the answer, apart from the first request")
	for i, req := range slices.Concat(first.Requests(), other.Requests()) {
		begins := text(req.Messages[:1])
		switch all := text(req.Messages); i {
		case 0, 3, 4:
			require.Contains(t, all, "OLD")
			require.Equal(t, i == 0, req.Extra["compact_from"] != nil)
			require.Equal(t, "FIRST", req.Messages[0].Text())
		case 1, 2:
			require.NotContains(t, all, "OLD")
			require.Contains(t, all, "FIRST")
			require.IsType(t, &aycoder.Opaque{}, req.Messages[0].Parts[0], begins)
			require.Equal(t, i == 2, strings.Contains(all, "OTHER"))
		}
	}

	// Another client may get everything, so nothing may be missing from memory.
	needed, err := keep.Needed(len(c.messages), func(i int) (*aycoder.Message, error) { return c.messages[i], nil })
	require.NoError(t, err)
	for i := range c.messages {
		require.True(t, needed(i), i)
	}

	// Between two runs, the Compactor goes on from the summary of the service.
	c.messages = append(c.messages, aycoder.User("a log: "+strings.Repeat("some words ", 9000)), aycoder.Assistant("I see. "+strings.Repeat("It is long. ", 900)),
		aycoder.User("and?"), aycoder.Assistant("Nothing."))
	messages, done, err := keep.Compact(t.Context(), c.messages, "")
	require.NoError(t, err)
	require.Less(t, done.After, done.Before)
	c.messages = messages
	require.NoError(t, c.ask("on"))
	last := first.Requests()[3]
	require.Contains(t, text(last.Messages), "FIRST")
	require.NotContains(t, text(last.Messages), "OLD")
}

// After an answer that has a summary, its usage says nothing about the estimate of the request. A
// command that comes together with the summary is obeyed.
func TestServerUsage(t *testing.T) {
	counter := tokens.New()
	m := serving{script.New(script.Reply(summarised("SUMMARY"), script.Call("look", map[string]any{})).WithUsage(aycoder.Usage{Input: 6000}),
		script.Reply(summarised("AGAIN"), script.Say("one")), script.Say("two"))}
	keep, err := compaction.New(m, compaction.WithWindow(100_000), compaction.WithServer(true), compaction.WithCounter(counter))
	require.NoError(t, err)
	loop, err := aycoder.New(m, aycoder.WithTools(outputs(t, 200)), aycoder.WithContextMiddleware(keep.Middleware))
	require.NoError(t, err)
	c := &chat{t: t, agent: loop}
	before, _ := counter.Scale(tokens.ModelOf(m, ""))
	require.NoError(t, c.ask(strings.Repeat("some words ", 4000)))
	require.Len(t, c.events, 1)
	after, _ := counter.Scale(tokens.ModelOf(m, ""))
	require.Equal(t, before, after)
	var reasons []string
	in := aycoder.Input{Messages: c.messages, Prompt: "go on", Parts: []aycoder.Part{compaction.Command("")}}
	for ev, err := range loop.Run(t.Context(), in) {
		require.NoError(t, err)
		if ev, ok := ev.(*aycoder.Compacting); ok {
			reasons = append(reasons, ev.Reason)
		}
	}
	require.Equal(t, []string{"command"}, reasons)
}

// A host may drop what a summary of the service replaces, so that the history begins with it. A later
// summary takes its place.
func TestServerBlockAtTheBegin(t *testing.T) {
	m := serving{script.New(script.Reply(summarised("SECOND"), script.Say("one")), script.Say("two"))}
	keep, err := compaction.New(m, compaction.WithWindow(100_000), compaction.WithServer(true))
	require.NoError(t, err)
	loop, err := aycoder.New(m, aycoder.WithContextMiddleware(keep.Middleware))
	require.NoError(t, err)
	begin := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
		&aycoder.Opaque{Provider: "serving", Raw: []byte(`{"summary":"FIRST"}`)}, &aycoder.Text{Text: "Welcome back."}}}
	c := &chat{t: t, agent: loop, messages: []*aycoder.Message{begin}}
	require.NoError(t, c.ask("begin"))
	require.NoError(t, c.ask("go on"))
	var got []string
	for i, req := range m.Requests() {
		got = append(got, "")
		for _, msg := range req.Messages {
			for _, p := range msg.Parts {
				if o, ok := p.(*aycoder.Opaque); ok {
					summary, _ := m.CompactedBy(o)
					got[i] += summary + " "
				}
			}
		}
	}
	require.Equal(t, []string{"FIRST ", "SECOND "}, got)
	require.Contains(t, text(m.Requests()[1].Messages), "Welcome back.")
}

// A run that began without what an earlier summary replaces gives it to another client, if the service has
// compacted meanwhile: its own summary means nothing to that one.
func TestServerOfSetupWithOutlines(t *testing.T) {
	again := func() script.Step { return script.Call("look", map[string]any{}) }
	first := serving{script.New(script.Reply(summarised("SUMMARY"), again()), script.Call("look", map[string]any{}))}
	other := elsewhere{script.New(script.Say("Done."))}
	small := worker(4_000, 5)
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	turn, tool := 0, outputs(t, 1000)
	process := func(m aycoder.ModelClient, window int64, opts ...aycoder.Option) (aycoder.Agent, session.Option) {
		keep, err := compaction.New(m, compaction.WithWindow(window), compaction.WithServer(true))
		require.NoError(t, err)
		loop, err := aycoder.New(m, append(opts, aycoder.WithTools(tool), aycoder.WithContextMiddleware(keep.Middleware))...)
		require.NoError(t, err)
		return loop, session.WithCompactor(keep)
	}
	agent, with := process(small, 4_000)
	s, err := session.New(t.Context(), store, agent, with)
	require.NoError(t, err)
	for n := range 4 {
		_, err := collect(s.Run(t.Context(), aycoder.Input{Prompt: fmt.Sprint("PROMPT ", n)}))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	agent, with = process(first, 100_000, aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
		if turn++; turn > 2 {
			now.Client = other
		}
		return now, nil
	}))
	s, err = session.Open(t.Context(), store, s.ID(), agent, with)
	require.NoError(t, err)
	_, err = collect(s.Run(t.Context(), aycoder.Input{Prompt: "go on"}))
	require.NoError(t, err)
	require.NotContains(t, text(first.Requests()[0].Messages), "\nPROMPT 1\n", "the summary of the first process is in force")
	sent := "\n" + text(other.Requests()[0].Messages)
	require.NotContains(t, sent, "[this message is left out]")
	for n := range 4 {
		require.Contains(t, sent, fmt.Sprintf("\nPROMPT %d\n", n))
	}
	require.NoError(t, s.Close())
}

func collect(run iter.Seq2[aycoder.Event, error]) (all []aycoder.Event, failed error) {
	for ev, err := range run {
		if err != nil {
			return all, err
		}
		all = append(all, ev)
	}
	return all, nil
}
