package generate_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/providers/script"
)

type city struct {
	Name   string `json:"name"`
	People int    `json:"people" jsonschema:"minimum=1,description=Inhabitants\\, without suburbs"`
}

func ExampleValue() {
	client := script.New(script.Call("city", `{"name":"Oslo","people":717710}`))
	got, err := generate.Value[city](context.Background(), client, &aycoder.Request{
		Messages: []*aycoder.Message{aycoder.User("What is the largest city of Norway?")},
	})
	fmt.Println(got.Name, got.People, err)
	// Output: Oslo 717710 <nil>
}

// The model learns what is wrong with its answer and is asked again.
func ExampleValue_repair() {
	client := script.New(
		script.Call("city", `{"name":"Oslo","people":"many"}`),
		script.Func(func(req *aycoder.Request) script.Step {
			fmt.Println(script.LastText(req))
			return script.Call("city", `{"name":"Oslo","people":717710}`)
		}),
	)
	var resp aycoder.Response
	got, err := generate.Value[city](context.Background(), client, &aycoder.Request{
		Messages: []*aycoder.Message{aycoder.User("What is the largest city of Norway?")},
	}, generate.IntoResponse(&resp))
	fmt.Println(got, err, resp.ID)
	// Output:
	// This is not the document that was asked for:
	// - /people: must be an integer, got "many"
	// Call city with the whole document.
	// {Oslo 717710} <nil> msg_2
}

// A list from a model that answers with text.
func ExampleValue_list() {
	client := script.New(script.Say("They are:\n```json\n[\"Oslo\", \"Bergen\"]\n```"))
	got, err := generate.Value[[]string](context.Background(), client, &aycoder.Request{
		Messages: []*aycoder.Message{aycoder.User("What are the two largest cities of Norway?")},
	})
	fmt.Printf("%q %v\n", got, err)
	// Output: ["Oslo" "Bergen"] <nil>
}

func ExampleError() {
	client := script.New(script.Call("city", `{"name":"Oslo"}`))
	_, err := generate.Value[city](context.Background(), client, &aycoder.Request{
		Messages: []*aycoder.Message{aycoder.User("What is the largest city of Norway?")},
	}, generate.WithRepairs(0))
	if e, ok := errors.AsType[*generate.Error](err); ok {
		fmt.Println(e.Problems, e.Raw)
	}
	// Output: [/people: required] {"name":"Oslo"}
}

// The agent looks at a file first. Its answer is repaired before the program gets it.
func ExampleRunAs() {
	type report struct {
		File string   `json:"file"`
		Bugs []string `json:"bugs" jsonschema:"minItems=1"`
	}
	type in struct {
		Path string `json:"path"`
	}
	read, err := aycoder.NewTool("read", "Reads a file.",
		func(context.Context, *aycoder.Invocation, in) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("func f() { f() }"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		log.Fatal(err)
	}
	agent, err := aycoder.New(script.New(
		script.Call("read", `{"path": "a.go"}`),
		script.Call("report", `{"file": "a.go", "bugs": []}`),
		script.Call("report", `{"file": "a.go", "bugs": ["f never ends"]}`),
	), aycoder.WithTools(read))
	if err != nil {
		log.Fatal(err)
	}
	var found report
	for ev, err := range generate.RunAs(context.Background(), agent, aycoder.Input{Prompt: "Review a.go."}, &found) {
		if err != nil {
			log.Fatal(err)
		}
		if e, ok := ev.(*aycoder.ToolFinished); ok {
			fmt.Println(e.Call.Name, "gave:", e.Output.Text())
		}
	}
	fmt.Printf("%+v\n", found)
	// Output:
	// read gave: func f() { f() }
	// report gave: tool report: invalid arguments: /bugs: must be at least 1 elements long, got 0
	// report gave: The answer is taken. If another call of this message has failed, answer again.
	// {File:a.go Bugs:[f never ends]}
}
