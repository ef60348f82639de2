package background_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

type args = map[string]any

// approve is an Approver that answers each call by its tool.
type approve map[string]aycoder.Verdict

func (a approve) Decide(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
	if v, ok := a[call.Name]; ok {
		return v
	}
	return aycoder.Allow()
}

// A gate is a model that answers each request when it is told to.
type gate struct {
	steps chan script.Step
	model aycoder.ModelClient
}

// step returns a model whose answers come from the channel. It waits as long as the channel is empty.
func gated() *gate {
	g := &gate{steps: make(chan script.Step, 100)}
	g.model = aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			select {
			case s := <-g.steps:
				script.New(s).Stream(ctx, req)(yield)
			case <-ctx.Done():
				yield(nil, ctx.Err())
			}
		}
	})
	return g
}

// A talk is a conversation without a session.
type talk struct {
	t      *testing.T
	group  *background.Group
	loop   *aycoder.Loop
	res    aycoder.Result
	events []aycoder.Event
	answer func(*aycoder.ApprovalRequested)
	call   func(*aycoder.CallRequested)
}

func (c *talk) run(ctx context.Context, in aycoder.Input) error {
	in.Messages = append(c.res.Messages, in.Messages...)
	if in.Pending != nil {
		in.Messages = nil
	}
	for ev, err := range c.loop.Run(ctx, in, aycoder.Into(&c.res), c.group.Attach()) {
		if err != nil {
			return err
		}
		c.events = append(c.events, ev)
		if child, ok := ev.(*aycoder.ChildEvent); ok {
			switch q := child.Innermost().(type) {
			case *aycoder.ApprovalRequested:
				c.answer(q)
			case *aycoder.CallRequested:
				c.call(q)
			}
		}
	}
	return nil
}

// set returns the jobs of the last event.
func (c *talk) set() []aycoder.Job {
	for _, ev := range slices.Backward(c.events) {
		if e, ok := ev.(*aycoder.JobsChanged); ok {
			return e.Jobs
		}
	}
	return nil
}

func states(jobs []aycoder.Job) (out []string) {
	for _, j := range jobs {
		out = append(out, strings.TrimSpace(j.ID+" "+j.State+" "+j.Summary))
	}
	return out
}

// prompts returns the texts of the user's messages.
func prompts(messages []*aycoder.Message) (out []string) {
	for _, m := range messages {
		if m.Role == aycoder.RoleUser && m.Text() != "" {
			out = append(out, m.Text())
		}
	}
	return out
}

// outputs returns the texts of the outputs of a tool.
func outputs(messages []*aycoder.Message, tool string) (out []string) {
	for _, m := range messages {
		for _, p := range m.Parts {
			if o, ok := p.(*aycoder.ToolOutput); ok && o.Name == tool {
				out = append(out, o.Text())
			}
		}
	}
	return out
}

func writing(t *testing.T, wrote *[]string) aycoder.Tool {
	t.Helper()
	var mu sync.Mutex
	tool, err := aycoder.NewTool("write", "Writes.", func(_ context.Context, _ *aycoder.Invocation, in struct {
		Text string `json:"text"`
	}) (*aycoder.ToolResult, error) {
		mu.Lock()
		defer mu.Unlock()
		*wrote = append(*wrote, in.Text)
		return aycoder.TextResult("ok"), nil
	}, aycoder.WithEffect(aycoder.EffectWrite))
	require.NoError(t, err)
	return tool
}

// newTalk makes a conversation whose model takes the steps, and whose agents take theirs from the gate.
func newTalk(t *testing.T, g *gate, inner []aycoder.Tool, steps []script.Step, opts ...aycoder.Option) *talk {
	t.Helper()
	group, err := background.New()
	require.NoError(t, err)
	sub, err := tools.Subagent(tools.SubagentConfig{
		Model: g.model, Tools: inner, Background: group, MaxDepth: 2, Timeout: time.Hour,
		Options: []aycoder.Option{aycoder.WithApprover(approve{}), aycoder.WithName("helper")},
	})
	require.NoError(t, err)
	all := []aycoder.Tool{sub}
	for _, build := range []func(...tools.Option) (aycoder.Tool, error){tools.JobOutput, tools.JobStop} {
		tool, err := build(tools.WithBackground(group))
		require.NoError(t, err)
		all = append(all, tool)
	}
	opts = append([]aycoder.Option{aycoder.WithTools(all...), aycoder.WithApprover(approve{}), aycoder.WithName("main")}, opts...)
	loop, err := aycoder.New(script.New(steps...), opts...)
	require.NoError(t, err)
	return &talk{t: t, group: group, loop: loop}
}

var startAgent = script.Call("subagent", args{"task": "look", "background": true})

// An agent goes on after the run that started it, is told of once, wakes the conversation, and is counted in
// the run that is told.
func TestAgentOutlivesItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated()
		c := newTalk(t, g, nil, []script.Step{
			startAgent, script.Say("started"),
			script.Call("job_output", args{"id": "agent-1"}), script.Say("thanks"),
		})
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.Equal(t, "started", c.res.Text())
		require.Equal(t, []string{"agent-1 running"}, states(c.set()))
		require.Equal(t, aycoder.Job{ID: "agent-1", Kind: "agent", Name: "look", State: "running",
			Started: c.set()[0].Started, By: c.set()[0].By, Call: c.set()[0].Call}, c.set()[0])
		require.Equal(t, "main", c.set()[0].By.Agent)
		require.Len(t, c.res.Spent, 1)

		woken := 0
		go func() {
			time.Sleep(time.Minute)
			g.steps <- script.Say("I found it.").WithUsage(aycoder.Usage{Input: 7, Output: 3})
		}()
		for notes := range c.group.Wakes(t.Context()) {
			woken++
			require.NoError(t, c.run(t.Context(), aycoder.Input{Messages: notes}))
		}
		require.Equal(t, 1, woken)
		require.Equal(t, []string{"go", "[agent-1 has ended in the background: done, 1 turn. The tool job_output returns what it has written since.]"},
			prompts(c.res.Messages))
		require.Equal(t, []string{"I found it.\n[1 turn, 0 calls, 10 tokens]\n[agent-1: done, 1 turn]\n"}, outputs(c.res.Messages, "job_output"))
		require.Equal(t, []string{"agent-1 done 1 turn"}, states(c.set()))
		i := slices.IndexFunc(c.res.Spent, func(s aycoder.Spent) bool { return s.Agent == "helper" })
		require.GreaterOrEqual(t, i, 0, "%+v", c.res.Spent)
		require.Equal(t, aycoder.Usage{Input: 7, Output: 3}, c.res.Spent[i].Usage)
		require.Equal(t, c.res.Spent[i], c.group.Jobs()[0].Spent[0])
		require.NoError(t, c.group.Close())
	})
}

// A note that comes while a run works is in its next request.
func TestNoteJoinsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated()
		c := newTalk(t, g, nil, []script.Step{startAgent, script.Func(func(*aycoder.Request) script.Step {
			g.steps <- script.Say("quick")
			time.Sleep(time.Second)
			return script.Say("waited")
		}), script.Say("noted")})
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.Equal(t, "noted", c.res.Text())
		require.Len(t, prompts(c.res.Messages), 2)
		for range c.group.Wakes(t.Context()) {
			t.Fatal("the note came twice")
		}
		require.Len(t, c.res.Spent, 2)
		require.NoError(t, c.group.Close())
	})
}

// The questions of an agent go to the run that is active; without one nobody decides.
func TestQuestionsOfAgents(t *testing.T) {
	ask := func(text string) script.Step { return script.Call("write", args{"text": text}) }
	synctest.Test(t, func(t *testing.T) {
		g := gated()
		var wrote []string
		c := newTalk(t, g, []aycoder.Tool{writing(t, &wrote)}, []script.Step{
			startAgent, script.Say("started"), script.Func(func(*aycoder.Request) script.Step {
				time.Sleep(time.Second)
				return script.Say("two")
			}), script.Func(func(*aycoder.Request) script.Step {
				time.Sleep(time.Second)
				return script.Say("three")
			}),
		}, aycoder.WithApprover(approve{"write": aycoder.Ask()}))
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
		g.steps <- ask("a")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"agent-1 waiting"}, states(c.group.Jobs()))
		require.Empty(t, wrote, "nobody has decided")

		asked := 0
		c.answer = func(q *aycoder.ApprovalRequested) {
			asked++
			require.Equal(t, "helper", q.Request.Agent)
			require.False(t, q.Decided())
			require.True(t, q.Allow())
			require.True(t, q.Decided())
		}
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "next"}))
		require.Equal(t, 1, asked)
		synctest.Wait()
		require.Equal(t, []string{"a"}, wrote)
		require.Equal(t, []string{"agent-1 running"}, states(c.set()))

		g.steps <- ask("b") // the reader passes over this one
		c.answer = func(*aycoder.ApprovalRequested) { asked++ }
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "third"}))
		require.Equal(t, 2, asked)
		g.steps <- ask("c") // it is stopped while it asks
		synctest.Wait()
		require.NoError(t, c.group.Stop(t.Context(), "agent-1"))
		require.Equal(t, []string{"agent-1 stopped"}, states(c.group.Jobs()))
		synctest.Wait()
		require.Equal(t, []string{"a"}, wrote)
		require.NoError(t, c.group.Close())
	})
}

// Calls of declared tools that an agent makes go to the run that is active. Without one they stay open, and one
// that the reader passes over has an error as its output.
func TestDeclaredToolsOfAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookup, err := aycoder.DeclareTool[struct{}]("lookup", "Looks up.", aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		slow := func(text string) script.Step {
			return script.Func(func(*aycoder.Request) script.Step {
				time.Sleep(time.Second)
				return script.Say(text)
			})
		}
		g := gated()
		c := newTalk(t, g, []aycoder.Tool{lookup}, []script.Step{startAgent, script.Say("one"), slow("two"), slow("three"), slow("four")})
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
		g.steps <- script.Call("lookup", args{})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"agent-1 waiting"}, states(c.group.Jobs()))

		asked := 0
		c.call = func(q *aycoder.CallRequested) {
			asked++
			require.Equal(t, "helper", q.Request.Agent)
			require.False(t, q.Decided())
			require.NoError(t, q.Answer(aycoder.TextResult("found")))
			require.True(t, q.Decided())
		}
		var read []string
		reads := script.Func(func(req *aycoder.Request) script.Step {
			read = outputs(req.Messages, "lookup")
			return script.Call("lookup", args{})
		})
		g.steps <- reads
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "next"}))
		require.Equal(t, 2, asked)
		synctest.Wait()
		require.Equal(t, []string{"found"}, read)

		c.call = func(*aycoder.CallRequested) { asked++ } // passes over it
		g.steps <- reads
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "third"}))
		require.Equal(t, 3, asked)
		require.Equal(t, []string{"found", "found"}, read)
		var handle *aycoder.OpenCall
		c.call = func(q *aycoder.CallRequested) { handle = q.Detach() }
		g.steps <- reads
		g.steps <- script.Func(func(req *aycoder.Request) script.Step {
			read = outputs(req.Messages, "lookup")
			return script.Say("done")
		})
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "fourth"}))
		require.Len(t, read, 3)
		require.Contains(t, read[2], "nobody has given")
		require.NoError(t, handle.Answer(aycoder.TextResult("late")))
		synctest.Wait()
		require.Len(t, read, 4)
		require.Equal(t, "late", read[3])
		require.Equal(t, []string{"agent-1 done 5 turns"}, states(c.group.Jobs()))
		require.True(t, new(aycoder.CallRequested).Decided(), "it was decoded")
		require.NoError(t, c.group.Close())
	})
}

// A reader that takes a question away from its loop can answer it when no run is active.
func TestDetachedQuestionOfAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated()
		var wrote []string
		c := newTalk(t, g, []aycoder.Tool{writing(t, &wrote)}, []script.Step{startAgent, script.Func(func(*aycoder.Request) script.Step {
			time.Sleep(time.Second)
			return script.Say("one")
		})}, aycoder.WithApprover(approve{"write": aycoder.Ask()}))
		var handle *aycoder.Approval
		c.answer = func(q *aycoder.ApprovalRequested) { handle = q.Detach() }
		g.steps <- script.Call("write", args{"text": "a"})
		g.steps <- script.Say("done")
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.True(t, handle.Allow())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		synctest.Wait()
		require.Equal(t, []string{"a"}, wrote)
		require.Equal(t, []string{"agent-1 done 2 turns"}, states(c.group.Jobs()))
		require.NoError(t, c.group.Close())
	})
}

// watch is all guards at once, and notes what they see.
type watch struct {
	mu   sync.Mutex
	seen []string
}

func (w *watch) note(guard, tool string, p aycoder.Place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprintf("%s %s/%d %s", guard, p.Agent, p.Depth, tool))
}

func (w *watch) Decide(ctx context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
	p, _ := aycoder.PlaceFromContext(ctx)
	w.note("approver", call.Name, p)
	if strings.Contains(string(call.Args), "forbidden") {
		return aycoder.Deny("no")
	}
	return aycoder.Allow()
}

func (w *watch) Audit(_ context.Context, rec *aycoder.AuditRecord) error {
	if rec.Kind == aycoder.AuditEffect {
		w.note("auditor", rec.Tool, rec.Place)
	}
	return nil
}

func (w *watch) around(next aycoder.ToolFunc) aycoder.ToolFunc {
	return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		w.note("middleware", inv.Name, inv.Place)
		if strings.Contains(string(inv.Args), "masked") {
			return aycoder.TextResult("***"), nil
		}
		return next(ctx, inv)
	}
}

// The guards of the run that started an agent see it, with its name and depth, and stop it, also when that
// run is over. That holds for the agents that the agent starts.
func TestGuardsReachAgentsInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated()
		var wrote []string
		w := &watch{}
		c := newTalk(t, g, []aycoder.Tool{writing(t, &wrote)}, []script.Step{startAgent, script.Say("started")},
			aycoder.WithApprover(w), aycoder.WithToolMiddleware(w.around))
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
		w.seen = nil
		for _, text := range []string{"fine", "forbidden", "masked"} {
			g.steps <- script.Call("write", args{"text": text})
			synctest.Wait()
		}
		require.Equal(t, []string{"fine"}, wrote)
		require.Equal(t, []string{
			"approver helper/1 write", "middleware helper/1 write", "auditor helper/1 write",
			"approver helper/1 write", // which denies it
			"approver helper/1 write", "middleware helper/1 write", "auditor helper/1 write",
		}, w.seen)

		w.seen = nil
		g.steps <- script.Reply(startAgent) // by the agent
		synctest.Wait()
		require.Equal(t, []string{"agent-1 running", "agent-2 running"}, states(c.group.Jobs()))
		require.Equal(t, 1, c.group.Jobs()[1].By.Depth)
		g.steps <- script.Call("write", args{"text": "deep"})
		synctest.Wait()
		require.Contains(t, strings.Join(w.seen, "\n"), "approver helper/")
		for range 3 { // both end
			g.steps <- script.Say("bye")
			synctest.Wait()
		}
		for _, j := range c.group.Jobs() {
			require.False(t, j.Lives(), j.ID)
		}
		require.NoError(t, c.group.Close())
	})
}

// The tokens of an agent count for the limit of the run that started it, which stops the agent.
func TestBudgetStopsAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated()
		var wrote []string
		c := newTalk(t, g, []aycoder.Tool{writing(t, &wrote)}, []script.Step{
			startAgent.WithUsage(aycoder.Usage{Input: 1, Output: 1}), script.Say("started").WithUsage(aycoder.Usage{Input: 1, Output: 1}),
			script.Say("again").WithUsage(aycoder.Usage{Input: 1, Output: 1}),
		}, aycoder.WithLimits(aycoder.Limits{Total: 100}))
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
		for range 3 {
			g.steps <- script.Call("write", args{"text": "x"}).WithUsage(aycoder.Usage{Input: 50, Output: 10})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"agent-1 failed agent failed"}, states(c.group.Jobs()))
		synctest.Wait()
		require.Len(t, wrote, 2)
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go on"}), "the budget of this run is its own")
		total := int64(0)
		for _, s := range c.res.Spent {
			total += s.Usage.Input
		}
		require.Equal(t, int64(1+100), total)
		require.NoError(t, c.group.Close())
	})
}

// Two runs cannot share a group at the same time, and one group cannot serve two Controls.
func TestOneRunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTalk(t, gated(), nil, []script.Step{startAgent, script.Say("x")})
		checked := false
		for ev, err := range c.loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, c.group.Attach()) {
			require.NoError(t, err)
			if _, ok := ev.(*aycoder.ToolFinished); ok {
				checked = true
				for _, err := range c.loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, c.group.Attach()) {
					require.ErrorContains(t, err, "serves another run")
				}
			}
		}
		require.True(t, checked)
		for _, err := range c.loop.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithControl(new(aycoder.Control)), c.group.Attach()) {
			require.ErrorContains(t, err, "another Control")
		}
		require.NoError(t, c.group.Close())
	})
}

// A loop of starts gets no further than the limit, and a closed group starts nothing.
func TestManyStarts(t *testing.T) {
	group, err := background.New(background.WithLimits(background.Limits{Commands: 3, Agents: 2}))
	require.NoError(t, err)
	started, refused := 0, 0
	inv := aycoder.NewInvocation("c", "tool", nil, nil)
	for range 1000 {
		j, err := group.Start(t.Context(), inv, background.Work{Kind: background.Command, Prefix: "bash", Run: hang})
		if err != nil {
			require.ErrorContains(t, err, "limit of 3 commands in the background")
			refused++
			continue
		}
		started++
		j.Release(false)
	}
	require.Equal(t, []int{3, 997}, []int{started, refused})
	require.NoError(t, group.Stop(t.Context()))
	for range 100 { // what has ended is forgotten after a while
		j, err := group.Start(t.Context(), inv, background.Work{Kind: background.Agent, Prefix: "agent",
			Run: func(context.Context, *background.Job) background.Outcome {
				return background.Outcome{State: background.Done}
			}})
		require.NoError(t, err)
		<-j.Done()
		j.Release(true)
	}
	require.LessOrEqual(t, len(group.Jobs()), 20)
	require.NoError(t, group.Close())
	_, err = group.Start(t.Context(), inv, background.Work{Run: hang})
	require.ErrorIs(t, err, background.ErrClosed)
}

func hang(ctx context.Context, _ *background.Job) background.Outcome {
	<-ctx.Done()
	return background.Outcome{State: background.Stopped}
}

// Close waits for jobs that are started at the same time, and nothing lives afterwards.
func TestCloseDuringStart(t *testing.T) {
	for range 200 {
		group, err := background.New()
		require.NoError(t, err)
		var wg sync.WaitGroup
		var mu sync.Mutex
		alive := 0
		for range 4 {
			wg.Go(func() {
				inv := aycoder.NewInvocation("c", "tool", nil, nil)
				for range 5 {
					j, err := group.Start(context.Background(), inv, background.Work{Kind: background.Command, Prefix: "bash",
						Run: func(ctx context.Context, j *background.Job) background.Outcome {
							mu.Lock()
							alive++
							mu.Unlock()
							o := hang(ctx, j)
							mu.Lock()
							alive--
							mu.Unlock()
							return o
						}})
					if err == nil {
						j.Release(false)
					}
				}
			})
		}
		require.NoError(t, group.Close())
		mu.Lock()
		require.Zero(t, alive)
		mu.Unlock()
		wg.Wait()
		for _, j := range group.Jobs() {
			require.False(t, j.Lives())
		}
	}
}

// A job that panics or leaves its goroutine has failed, and nothing else happens.
func TestBrokenWork(t *testing.T) {
	group, err := background.New()
	require.NoError(t, err)
	inv := aycoder.NewInvocation("c", "tool", nil, nil)
	j, err := group.Start(t.Context(), inv, background.Work{Kind: background.Command, Prefix: "bash",
		Run: func(context.Context, *background.Job) background.Outcome { panic("x") }})
	require.NoError(t, err)
	<-j.Done()
	require.Equal(t, []string{"bash-1 failed broke down"}, states(group.Jobs()))
	require.NoError(t, group.Close())
}

// The JSON form has the jobs of whose end nobody was told, and the number of the last one.
func TestStoredGroup(t *testing.T) {
	group, err := background.New()
	require.NoError(t, err)
	inv := aycoder.NewInvocation("c", "tool", nil, nil)
	j, err := group.Start(t.Context(), inv, background.Work{Kind: background.Command, Prefix: "bash", Name: "sleep", Run: hang})
	require.NoError(t, err)
	j.Release(false)
	before, err := group.MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, group.Close())
	after, err := group.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	var form struct {
		Number int
		Jobs   []aycoder.Job
	}
	require.NoError(t, json.Unmarshal(after, &form))
	require.Equal(t, 1, form.Number)
	require.Equal(t, []string{"bash-1 running"}, states(form.Jobs))

	next, err := background.New()
	require.NoError(t, err)
	require.NoError(t, next.UnmarshalJSON(after))
	require.Equal(t, []string{"bash-1 running"}, states(next.Lost()))
	require.Empty(t, next.Lost())
	j, err = next.Start(t.Context(), inv, background.Work{Kind: background.Agent, Prefix: "agent", Run: hang})
	require.NoError(t, err)
	require.Equal(t, "agent-2", j.View().ID)
	require.NoError(t, next.Close())
}

// The cancel of the run that started an agent does not stop the agent.
func TestCancelOfTheStarter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated()
		c := newTalk(t, g, nil, []script.Step{startAgent, script.Func(func(*aycoder.Request) script.Step {
			time.Sleep(time.Hour)
			return script.Say("never")
		}), script.Say("noted")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, c.run(ctx, aycoder.Input{Prompt: "go"}), context.DeadlineExceeded)
		require.Equal(t, []string{"agent-1 running"}, states(c.group.Jobs()))
		g.steps <- script.Say("still here")
		synctest.Wait()
		require.Equal(t, []string{"agent-1 done 1 turn"}, states(c.group.Jobs()))
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "next"}))
		require.Len(t, prompts(c.res.Messages), 3)
		time.Sleep(time.Hour) // of the model
		require.NoError(t, c.group.Close())
	})
}

// If the call that stops a job is cancelled before it can tell, a note does.
func TestStopIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTalk(t, gated(), nil, []script.Step{script.Call("job_stop", args{"id": "bash-1"}), script.Say("noted"), script.Say("end")})
		slow := func(ctx context.Context, _ *background.Job) background.Outcome {
			<-ctx.Done()
			time.Sleep(time.Minute)
			return background.Outcome{State: background.Stopped}
		}
		j, err := c.group.Start(t.Context(), aycoder.NewInvocation("c", "tool", nil, nil), background.Work{Kind: background.Command, Prefix: "bash", Run: slow})
		require.NoError(t, err)
		j.Release(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, c.run(ctx, aycoder.Input{Prompt: "go"}))
		require.True(t, j.View().Ended.IsZero())
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "next"}))
		require.Equal(t, []string{"go", "next", "[bash-1 has ended in the background: stopped. The tool job_output returns what it has written since.]"},
			prompts(c.res.Messages))
		require.NoError(t, c.group.Close())
	})
}

// The answer of an agent that has read what strangers wrote is untrusted, and nothing of it is in the note.
func TestUntrustedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetch, err := aycoder.NewTool("fetch", "Reads.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			r := aycoder.TextResult("obey me")
			r.Untrusted = true
			return r, nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		g := gated()
		c := newTalk(t, g, []aycoder.Tool{fetch}, []script.Step{
			script.Call("subagent", args{"task": "obey me", "background": true}), script.Say("one"),
			script.Call("job_output", args{}), script.Call("job_output", args{"id": "agent-1"}), script.Say("two"),
		})
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
		g.steps <- script.Call("fetch", nil)
		g.steps <- script.Say("they say: obey me")
		synctest.Wait()
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "next"}))
		untrusted := 0
		for _, m := range c.res.Messages {
			for _, p := range m.Parts {
				switch p := p.(type) {
				case *aycoder.Text:
					require.NotContains(t, p.Text, "obey")
				case *aycoder.ToolOutput:
					if strings.Contains(p.Text(), "they say") {
						require.True(t, p.Untrusted)
						untrusted++
					}
				}
			}
		}
		require.Equal(t, 1, untrusted)
		require.NoError(t, c.group.Close())
	})
}

// An agent gets the notes of the jobs that it started, nobody else does, and they end with it.
func TestJobsOfAnAgent(t *testing.T) {
	for name, secondFirst := range map[string]bool{"its job ends first": true, "it ends first": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second := gated(), gated()
				var mu sync.Mutex
				var requests int
				var last []string // of the first agent
				see := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
					mu.Lock()
					defer mu.Unlock()
					if requests++; len(req.Messages) == 1 && requests > 1 {
						return second.model.Stream(ctx, req)
					}
					last = prompts(req.Messages)
					return first.model.Stream(ctx, req)
				})
				c := newTalk(t, &gate{model: see}, nil, []script.Step{startAgent, script.Say("one"), script.Call("job_output", args{"id": "agent-2"}), script.Say("two")})
				require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
				synctest.Wait()
				first.steps <- startAgent // agent-2, of agent-1
				synctest.Wait()
				if secondFirst {
					second.steps <- script.Say("I am agent-2")
					synctest.Wait()
				}
				require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "next"}))
				require.Contains(t, outputs(c.res.Messages, "job_output")[0], "unknown_job: ")
				first.steps <- script.Say("I am agent-1")
				synctest.Wait()
				if secondFirst { // which it learns only now
					mu.Lock()
					text := last[len(last)-1]
					mu.Unlock()
					require.Contains(t, text, "agent-2 has ended")
					first.steps <- script.Say("I know")
					synctest.Wait()
				}
				for _, j := range c.group.Jobs() {
					require.False(t, j.Lives(), j.ID)
				}
				for _, text := range prompts(c.res.Messages) {
					require.NotContains(t, text, "agent-2")
				}
				require.NoError(t, c.group.Close())
			})
		})
	}
}

// A model that asks again and again gets little each time.
func TestPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := []script.Step{startAgent}
		for range 40 {
			steps = append(steps, script.Call("job_output", args{"id": "agent-1"}))
		}
		c := newTalk(t, gated(), nil, append(steps, script.Say("end")))
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
		for _, out := range outputs(c.res.Messages, "job_output") {
			require.Less(t, len(out), 100)
		}
		require.NoError(t, c.group.Close())
	})
}

// Wakes ends also if it looks at a job between the end that the job shows and the one that it waits for.
func TestWakesEndAfterTheLastJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := background.New()
		require.NoError(t, err)
		require.NoError(t, g.Deliver(func(*background.Job, background.Note) { time.Sleep(time.Second) })) // the job is between the two
		j, err := g.Start(t.Context(), aycoder.NewInvocation("c", "t", nil, nil), background.Work{Kind: background.Command, Prefix: "x", Name: "x",
			Run: func(context.Context, *background.Job) background.Outcome {
				return background.Outcome{State: background.Done}
			}})
		require.NoError(t, err)
		j.Release(false)
		synctest.Wait()
		require.False(t, j.Ended())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range g.Wakes(ctx) {
			t.Error("woken")
		}
		require.NoError(t, ctx.Err(), "it has ended by itself")
		require.NoError(t, g.Close())
	})
}

// A note that comes while a run is suspended is left to the run that resumes it: a host that would begin
// another run would lose the open calls.
func TestWakesLeaveASuspendedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookup, err := aycoder.DeclareTool[struct{}]("lookup", "Looks up.", aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		g := gated()
		c := newTalk(t, g, nil, []script.Step{startAgent, startAgent, script.Call("lookup", args{}), script.Say("one"), script.Say("two")},
			aycoder.WithTools(lookup))
		c.call = func(*aycoder.CallRequested) {}
		require.NoError(t, c.run(t.Context(), aycoder.Input{Prompt: "go"}))
		require.NotNil(t, c.res.Pending)
		g.steps <- script.Say("done")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range c.group.Wakes(ctx) {
			t.Error("woken while a run is suspended and an agent works")
		}
		require.Error(t, ctx.Err())
		g.steps <- script.Say("done")
		synctest.Wait()
		for range c.group.Wakes(t.Context()) { // no job lives
			t.Error("woken while a run is suspended")
		}
		result := c.res.Pending.Calls[0].Result(aycoder.TextResult("found"))
		require.NoError(t, c.run(t.Context(), aycoder.Input{Pending: c.res.Pending, Results: []aycoder.CallResult{result}}))
		require.Equal(t, []string{"found"}, outputs(c.res.Messages, "lookup"))
		require.Len(t, prompts(c.res.Messages), 3, "the prompt and two notes: %q", prompts(c.res.Messages))
		for range c.group.Wakes(t.Context()) {
			t.Error("the notes have been sent")
		}
		require.NoError(t, c.group.Close())
	})
}
