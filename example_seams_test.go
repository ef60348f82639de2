package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// Messages survive JSON byte for byte, signatures and arguments included.
func ExampleMessage() {
	m := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
		&aycoder.Thinking{Text: "Look first.", Signature: "c2ln", Provider: "anthropic"},
		&aycoder.ToolUse{ID: "call_1", Name: "read_file", Args: json.RawMessage(`{"path": "a.go"}`)},
	}}
	data, err := json.Marshal(m)
	if err != nil {
		log.Fatal(err)
	}
	var back aycoder.Message
	if err := json.Unmarshal(data, &back); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data))
	fmt.Println(string(back.Calls()[0].Args))
	// Output:
	// {"role":"assistant","parts":[{"type":"thinking","text":"Look first.","signature":"c2ln","provider":"anthropic"},{"type":"tool_use","id":"call_1","name":"read_file","args":"{\"path\": \"a.go\"}"}]}
	// {"path": "a.go"}
}

func ExampleCheckHistory() {
	call := &aycoder.ToolUse{ID: "call_1", Name: "weather", Args: json.RawMessage(`{}`)}
	history := []*aycoder.Message{
		aycoder.User("How is Oslo?"),
		{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{call}},
	}
	fmt.Println(aycoder.CheckHistory(history))
	// Output: check history: call "call_1" has no output
}

// A custom driver does the actions and reports their outcomes as facts.
func ExampleStart() {
	spec := weatherTool().Spec()
	state, actions := aycoder.Start(aycoder.StartInput{
		Messages: []*aycoder.Message{aycoder.User("How is Oslo?")},
		Tools:    []*aycoder.ToolSpec{&spec},
	})
	// The facts a model's stream is made of are its events.
	call := &aycoder.ToolUse{ID: "c1", Name: "weather", Args: json.RawMessage(`{"city":"Oslo"}`)}
	facts := []aycoder.Fact{
		&aycoder.BlockDone{Part: call},
		&aycoder.MessageDone{Stop: aycoder.StopToolUse},
		&aycoder.Decided{Decision: aycoder.Decision{CallID: "c1", Verdict: aycoder.Allow()}},
		&aycoder.ToolBegan{ID: "c1"},
		&aycoder.ToolDone{ID: "c1", Output: &aycoder.ToolOutput{ID: "c1", Name: "weather"}},
		&aycoder.BlockDone{Part: &aycoder.Text{Text: "It is sunny."}},
		&aycoder.MessageDone{Stop: aycoder.StopEndTurn},
	}
	fmt.Println("to do:", actions[0].Key())
	for _, f := range facts {
		var err error
		if state, actions, err = state.Apply(f); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%T\n", f)
		for _, a := range actions {
			fmt.Println("to do:", a.Key())
		}
	}
	fmt.Println(state.End(), len(state.Messages()))
	// Output:
	// to do: t1/model
	// *aycoder.BlockDone
	// to do: t1/ask/c1
	// *aycoder.MessageDone
	// *aycoder.Decided
	// to do: t1/tool/c1
	// *aycoder.ToolBegan
	// *aycoder.ToolDone
	// to do: t2/model
	// *aycoder.BlockDone
	// *aycoder.MessageDone
	// done 4
}

// A state is a value: a fact that does not fit is refused, and the state stays as it
// was.
func ExampleState_Apply() {
	start, _ := aycoder.Start(aycoder.StartInput{Messages: []*aycoder.Message{aycoder.User("Hi.")}})
	_, _, err := start.Apply(&aycoder.ToolDone{ID: "c1"})
	fmt.Println(err)
	stopped, _, err := start.Apply(&aycoder.Cancelled{})
	fmt.Println(stopped.End(), start.Phase(), err)
	// Output:
	// apply *aycoder.ToolDone in phase "model": no such call: c1
	// cancelled model <nil>
}

// After a crash, a state knows the open actions, under the same keys as before.
func ExampleState_Outstanding() {
	state, _ := aycoder.Start(aycoder.StartInput{Messages: []*aycoder.Message{aycoder.User("Hi.")}})
	stored, err := json.Marshal(state)
	if err != nil {
		log.Fatal(err)
	}
	var back aycoder.State
	if err := json.Unmarshal(stored, &back); err != nil {
		log.Fatal(err)
	}
	for _, a := range back.Outstanding() {
		fmt.Println(a.Key())
	}
	// Output: t1/model
}

// All decisions about retries are made in one place, without side effects.
func ExampleRetryPolicy_Decide() {
	policy := aycoder.RetryPolicy{Attempts: 3, Budget: time.Minute}
	for _, err := range []error{
		script.RateLimited(20 * time.Second),
		script.RateLimited(time.Hour),
		script.TooLarge(210_000, 200_000),
		errors.New("anything else"),
	} {
		f := policy.Decide(aycoder.Failure{Err: err, Sent: 800_000})
		fmt.Println(f.Retry, f.After, f.Shrink, f.Limit)
	}
	// Output:
	// true 20s false 0
	// false 0s false 0
	// true 0s true 714285
	// false 0s false 0
}

// fallback asks a second model when the first one has no capacity.
type fallback struct {
	aycoder.ModelClient
	second aycoder.ModelClient
}

func (f *fallback) Unwrap() aycoder.ModelClient { return f.ModelClient }

func (f *fallback) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range f.ModelClient.Stream(ctx, req) {
			if _, ok := errors.AsType[*aycoder.OverloadedError](err); ok {
				f.second.Stream(ctx, req)(yield)
				return
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// Middleware wraps clients, and Unwrap keeps their optional abilities visible.
func ExampleAs() {
	first := script.New(script.Fail(script.Overloaded())).With(script.WithName("script", "large"))
	client := &fallback{ModelClient: first, second: script.New(script.Say("Small, but here."))}
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Hi.")}}
	resp, err := aycoder.Complete(context.Background(), client, req)
	fmt.Println(resp.Text(), err)
	if namer, ok := aycoder.As[aycoder.ModelNamer](client); ok {
		fmt.Println(namer.ModelName())
	}
	// Output:
	// Small, but here. <nil>
	// script large
}

// A function can be a client.
func ExampleModelFunc() {
	echo := aycoder.ModelFunc(func(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			text := "You said: " + req.Messages[0].Text()
			_ = yield(&aycoder.TextDelta{Text: text}, nil) &&
				yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: text}}, nil) &&
				yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
		}
	})
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Hi.")}}
	resp, err := aycoder.Complete(context.Background(), echo, req)
	fmt.Println(resp.Text(), err)
	// Output: You said: Hi. <nil>
}

func ExampleWithToolMiddleware() {
	mask := func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			res, err := next(ctx, inv)
			if err != nil {
				return res, err
			}
			return aycoder.TextResult(inv.Key + " gave " + fmt.Sprint(len(res.Text())) + " bytes"), nil
		}
	}
	model := script.New(script.Call("weather", cityArgs{"Oslo"}), script.Say("ok"))
	agent := newAgent(model, aycoder.WithTools(weatherTool()), aycoder.WithToolMiddleware(mask))
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "How is Oslo?"}) {
		if err != nil {
			log.Fatal(err)
		}
		if fin, ok := ev.(*aycoder.ToolFinished); ok {
			fmt.Println(fin.Output.Text())
		}
	}
	// Output: t1/tool/call_1 gave 14 bytes
}

// A context builder chooses what the model sees.
func ExampleContextFunc() {
	recent := aycoder.ContextFunc(func(_ context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		req := *in.Base
		req.Messages = in.Messages[max(0, len(in.Messages)-3):]
		return &req, nil
	})
	model := script.New(script.Say("ok"))
	agent := newAgent(model, aycoder.WithContext(recent), aycoder.WithSystem("Be brief."))
	history := []*aycoder.Message{
		aycoder.User("1"), aycoder.Assistant("2"), aycoder.User("3"), aycoder.Assistant("4"),
	}
	for _, err := range agent.Run(context.Background(), aycoder.Input{Messages: history, Prompt: "5"}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	for _, m := range model.Requests()[0].Messages {
		fmt.Println(m.Text())
	}
	// Output:
	// 3
	// 4
	// 5
}

func ExampleInvocation_Progress() {
	count := func(_ context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		for i := range int64(2) {
			inv.Progress(aycoder.Progress{Current: i + 1, Total: 2, Message: "counting"})
		}
		return aycoder.TextResult("counted"), nil
	}
	tool, err := aycoder.NewTool("count", "Counts.", count)
	if err != nil {
		log.Fatal(err)
	}
	show := func(p aycoder.Progress) { fmt.Println(p.Message, p.Current, "of", p.Total) }
	res, err := tool.Call(context.Background(), aycoder.NewInvocation("c1", "count", json.RawMessage(`{}`), show))
	fmt.Println(res.Text(), err)
	// Output:
	// counting 1 of 2
	// counting 2 of 2
	// counted <nil>
}

// A tool appears when another one has loaded it: the loop asks for the setup before each turn.
func ExampleWithSetup() {
	var loaded []aycoder.Tool
	load := func(_ context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		loaded = append(loaded, weatherTool())
		return aycoder.TextResult("The skill is loaded."), nil
	}
	skill, err := aycoder.NewTool("load_skill", "Loads a skill.", load)
	if err != nil {
		log.Fatal(err)
	}
	model := script.New(script.Call("load_skill", map[string]any{}),
		script.Call("weather", map[string]string{"city": "Oslo"}), script.Say("It is sunny in Oslo."))
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
		return aycoder.Allow()
	})
	loop, err := aycoder.New(model, aycoder.WithApprover(allow),
		aycoder.WithSetup(func(context.Context, aycoder.Setup) (aycoder.Setup, error) {
			return aycoder.Setup{Client: model, Tools: append([]aycoder.Tool{skill}, loaded...)}, nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range loop.Run(context.Background(), aycoder.Input{Prompt: "How is Oslo?"}) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := ev.(type) {
		case *aycoder.SetupChanged:
			fmt.Println("added", ev.Added)
		case *aycoder.ToolFinished:
			fmt.Println(ev.Call.Name+":", ev.Output.Text())
		case *aycoder.RunFinished:
			fmt.Println(ev.Result.Text())
		}
	}
	// Output:
	// added [load_skill]
	// load_skill: The skill is loaded.
	// added [weather]
	// weather: Sunny in Oslo.
	// It is sunny in Oslo.
}
