package generate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/providers/script"
)

type person struct {
	Name string   `json:"name"`
	Age  int      `json:"age" jsonschema:"minimum=0"`
	Nick string   `json:"nick,omitempty"`
	Tags []string `json:"tags,omitempty"`
}

// native is a scripted model that honours Request.Output, except for the model "old".
type native struct{ *script.Model }

func (native) FormatsOutput(model string) bool { return model != "old" }

// wrapped hides a client behind a middleware.
type wrapped struct{ aycoder.ModelClient }

func (w wrapped) Unwrap() aycoder.ModelClient { return w.ModelClient }

func ask(text string) *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User(text)}}
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

const (
	ada    = `{"name":"Ada","age":36}`
	noName = `{"age":36}`
)

func TestAnswers(t *testing.T) {
	call := func(args string) script.Step { return script.Call("person", args) }
	fence := "```"
	tests := []struct {
		name  string
		steps []script.Step
		tries int // with the last answer
	}{
		{"call", []script.Step{call(ada)}, 1},
		{"call after words", []script.Step{script.Reply(script.Think("hm"), script.Say("Here it is."), call(ada))}, 1},
		{"integer written otherwise", []script.Step{call(`{"name":"Ada","age":3.6e1}`)}, 1},
		{"null for what is left out", []script.Step{call(`{"name":"Ada","age":36,"nick":null,"tags":null}`)}, 1},
		{"second of two calls", []script.Step{script.Reply(call(noName), call(ada))}, 1},
		{"limit after the call", []script.Step{call(ada).WithStop(aycoder.StopMaxTokens)}, 1},
		{"unknown stop reason", []script.Step{call(ada).WithStop("odd")}, 1},
		{"text", []script.Step{script.Say(ada)}, 1},
		{"text with a byte order mark", []script.Step{script.Say("\uFEFF\n " + ada + "\n")}, 1},
		{"text at the limit", []script.Step{script.Say(ada + "\n\n\n").WithStop(aycoder.StopMaxTokens)}, 1},
		{"fence", []script.Step{script.Say("Sure!\n\n" + fence + "json\n" + ada + "\n" + fence + "\nBye {you}.")}, 1},
		{"fence of waves", []script.Step{script.Say("~~~\r\n" + ada + "\r\n~~~")}, 1},
		{"fence without end", []script.Step{script.Say(fence + "json\n" + ada)}, 1},
		{"fence in one line", []script.Step{script.Say(fence + "json " + ada + fence)}, 1},
		{"fences, draft first", []script.Step{script.Say(fence + "\n" + `{"name":"Bob","age":1}` + "\n" + fence + "\nNo:\n" + fence + "\n" + ada + "\n" + fence)}, 1},
		{"between words", []script.Step{script.Say(`The set {x} has {"one", so it is ` + ada + ` as in [1], {} or {y.`)}, 1},
		{"after a quote without end", []script.Step{script.Say("It is {\"open\nand " + ada)}, 1},
		{"last of many", []script.Step{script.Say("So " + strings.Repeat(`{"name":"Bob","age":1}, `, 40) + ada)}, 1},
		{"braces in strings", []script.Step{script.Say(`So: {"age":36,"tags":["}","\"{"],"name":"Ada"}, {sure}`)}, 1},
		{"inline thinking", []script.Step{script.Say(`<think>{"name":"Bob","age":1}?</think>` + ada)}, 1},
		{"text beside a wrong call", []script.Step{script.Reply(script.Say(ada), call(noName))}, 1},
		{"call repaired", []script.Step{call(noName), call(`{"name":"Ada","age":"36"}`), call(ada)}, 3},
		{"arguments that are no JSON", []script.Step{call(`{"name":"Ada",}`), call(ada)}, 2},
		{"other tool", []script.Step{script.Call("people", ada), call(ada)}, 2},
		{"text repaired", []script.Step{script.Say("I think it is Ada."), script.Say(noName), call(ada)}, 3},
		{"list of them", []script.Step{script.Say("[" + ada + "]"), script.Say("Here: [" + ada + "]"), call(ada)}, 3},
		{"empty answer", []script.Step{{}, call(ada)}, 2},
		{"thinking alone", []script.Step{script.Think("hm"), call(ada)}, 2},
		{"the same id again", []script.Step{call(noName).WithID("x"), call(noName).WithID("x"), call(ada).WithID("x")}, 3},
		{"two wrong calls", []script.Step{script.Reply(call(noName), script.Call("ls", nil)), call(ada)}, 2},
		{"pause", []script.Step{script.Say("Searching").WithStop(aycoder.StopPaused), call(ada)}, 2},
		{"empty pause", []script.Step{script.Step{}.WithStop(aycoder.StopPaused), call(ada)}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for i, s := range tt.steps {
				tt.steps[i] = s.WithUsage(aycoder.Usage{Input: 10, Output: 3})
			}
			plain, able := script.New(tt.steps...), script.New(tt.steps...)
			for _, m := range []aycoder.ModelClient{plain, wrapped{native{able}}} {
				var resp aycoder.Response
				got, err := generate.Value[person](t.Context(), m, ask("Who?"), generate.IntoResponse(&resp))
				require.NoError(t, err)
				assert.Equal(t, "Ada", got.Name)
				assert.Equal(t, 36, got.Age)
				assert.Equal(t, int64(10*tt.tries), resp.Usage.Input)
				assert.Equal(t, fmt.Sprintf("msg_%d", tt.tries), resp.ID)
			}
			requireRequests(t, plain.Requests(), tt.tries)
			requireRequests(t, able.Requests(), tt.tries)
			for _, r := range able.Requests() {
				require.NotNil(t, r.Output)
				for _, m := range r.Messages {
					require.Empty(t, m.Calls(), "no calls without tools")
				}
			}
		})
	}
}

// requireRequests checks that each request is valid and continues the previous one.
func requireRequests(t *testing.T, reqs []*aycoder.Request, n int) {
	t.Helper()
	require.Len(t, reqs, n)
	for i, r := range reqs {
		require.NoError(t, aycoder.CheckHistory(r.Messages))
		data, err := json.Marshal(r.Messages)
		require.NoError(t, err)
		require.True(t, utf8.Valid(data))
		require.NotContains(t, string(data), "\\u0000")
		for _, m := range r.Messages {
			_, thinking := m.Parts[len(m.Parts)-1].(*aycoder.Thinking)
			require.False(t, thinking, "a message that ends in thinking")
		}
		require.NotEqual(t, r.Output == nil, r.Tools == nil, "natively or by a tool")
		if i > 0 {
			before := reqs[i-1]
			require.Equal(t, before.Messages, r.Messages[:len(before.Messages)])
			require.Equal(t, before.Tools, r.Tools)
		}
	}
}

func TestFails(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	tests := []struct {
		name     string
		steps    []script.Step
		opts     []generate.Option
		problems []string
		attempts int
		raw      string
	}{
		{
			"wrong to the end",
			[]script.Step{script.Call("person", noName), script.Call("person", noName), script.Call("person", `{"name":1,"age":-1,"nik":""}`)}, nil,
			[]string{"/name: must be a string, got 1", "/age: must be at least 0, got -1", `/nik: unknown, did you mean "nick"?`},
			3, `{"name":1,"age":-1,"nik":""}`,
		},
		{
			"no repair",
			[]script.Step{script.Call("person", noName)}, []generate.Option{generate.WithRepairs(0)},
			[]string{"/name: required"}, 1, noName,
		},
		{
			"one repair",
			[]script.Step{script.Say("x"), script.Say("{")}, []generate.Option{generate.WithRepairs(1)},
			[]string{"document: not valid JSON: text ends, want a key at byte 1"}, 2, "{",
		},
		{
			"words",
			[]script.Step{script.Say(long)}, []generate.Option{generate.WithRepairs(0)},
			[]string{"document: there is none in the answer"}, 1, long[:4<<10] + "…",
		},
		{
			"no objects but empty ones",
			[]script.Step{script.Say("{} and {}")}, []generate.Option{generate.WithRepairs(0)},
			[]string{"document: not valid JSON: more text after the value at byte 3"}, 1, "{} and {}",
		},
		{
			"key twice",
			[]script.Step{script.Say(`{"name":"a","name":"b","age":1}`)}, []generate.Option{generate.WithRepairs(0)},
			[]string{`document: duplicate key "name" at byte 12`}, 1, `{"name":"a","name":"b","age":1}`,
		},
		{
			"other tool",
			[]script.Step{script.Call("ls", ada)}, []generate.Option{generate.WithRepairs(0)},
			[]string{`call of "ls": there is no such tool`}, 1, "",
		},
		{
			"cut call",
			[]script.Step{script.Cut("person", `{"name":"A`).WithUsage(aycoder.Usage{Output: 7})}, nil,
			[]string{"the answer was cut off: limit of 7 output tokens reached"}, 1, `{"name":"A`,
		},
		{
			"cut text with a draft in it",
			[]script.Step{script.Say("First " + ada + " but then").WithStop(aycoder.StopMaxTokens).WithUsage(aycoder.Usage{Output: 7})}, nil,
			[]string{"the answer was cut off: limit of 7 output tokens reached"}, 1, "First " + ada + " but then",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := script.New(tt.steps...)
			var resp aycoder.Response
			got, err := generate.Value[person](t.Context(), m, ask("Who?"), append(tt.opts, generate.IntoResponse(&resp))...)
			require.Zero(t, got)
			e, ok := errors.AsType[*generate.Error](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, "person", e.Name)
			assert.Equal(t, tt.problems, e.Problems)
			assert.Equal(t, tt.attempts, e.Attempts)
			assert.Equal(t, tt.raw, e.Raw)
			assert.Contains(t, err.Error(), "document person: "+tt.problems[0])
			assert.Less(t, len(err.Error()), 16<<10)
			assert.NotEmpty(t, resp.ID)
			requireRequests(t, m.Requests(), tt.attempts)
		})
	}
}

func TestTellsWhatIsWrong(t *testing.T) {
	said := func(m aycoder.ModelClient, of *script.Model) []aycoder.Part {
		_, err := generate.Value[person](t.Context(), m, ask("Who?"), generate.WithRepairs(1))
		require.True(t, is[*generate.Error](err))
		messages := of.Requests()[1].Messages
		return messages[len(messages)-1].Parts
	}
	const what = "This is not the document that was asked for:\n- /age: must be an integer, got \"x\"\n- /name: required\n"

	m := script.New(script.Reply(script.Call("person", `{"age":"x"}`), script.Call("ls", nil)), script.Step{})
	parts := said(m, m)
	require.Len(t, parts, 2)
	for i, want := range []string{
		what + "Call person with the whole document.",
		"This is not the document that was asked for:\n- call of \"ls\": there is no such tool\nCall person with the whole document.",
	} {
		out := parts[i].(*aycoder.ToolOutput)
		assert.Equal(t, want, out.Text())
		assert.True(t, out.IsError)
		assert.Equal(t, fmt.Sprintf("call_%d", i+1), out.ID)
	}

	m = script.New(script.Say(`{"age":"x"}`), script.Step{})
	parts = said(native{m}, m)
	require.Len(t, parts, 1)
	assert.Equal(t, what+"Answer again with the whole document as JSON and nothing else.", parts[0].(*aycoder.Text).Text)
}

// choosy refuses in its own words.
type choosy struct{ Word string }

var errWord = errors.New("word must not be \x00" + strings.Repeat("long", 1000))

func (c *choosy) UnmarshalJSON(data []byte) error {
	var in struct{ Word string }
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if c.Word = in.Word; c.Word == "no" {
		return errWord
	}
	return nil
}

func TestAsksTheType(t *testing.T) {
	m := script.New(script.Say(`{"Word":"no"}`), script.Say(`{"Word":"yes"}`), script.Say(`{"Word":"no"}`))
	got, err := generate.Value[choosy](t.Context(), m, ask("Say it."))
	require.NoError(t, err)
	require.Equal(t, "yes", got.Word)
	told := script.LastText(m.Requests()[1])
	require.Contains(t, told, "- word must not be \uFFFDlong")
	require.Less(t, len(told), 2<<10)
	_, err = generate.Value[choosy](t.Context(), m, ask("Say it."), generate.WithRepairs(0))
	require.ErrorIs(t, err, errWord)
}

func TestRoomOfTheType(t *testing.T) {
	m := script.New(script.Say(`{"value":300}`), script.Say(`{"value":3}`))
	var resp aycoder.Response
	got, err := generate.Value[uint8](t.Context(), m, ask("How many?"), generate.IntoResponse(&resp))
	require.NoError(t, err)
	require.Equal(t, uint8(3), got)
	require.Contains(t, script.LastText(m.Requests()[1]), "- /value: takes no number 300\n")
}

// generates returns the value that Generate makes of a text, and the schema of its
// request.
func generates[T any](t *testing.T, text string) (T, string, error) {
	t.Helper()
	m := script.New(script.Say(text))
	got, err := generate.Value[T](t.Context(), native{m}, ask("?"), generate.WithRepairs(0))
	if len(m.Requests()) == 0 {
		return got, "", err
	}
	return got, string(m.Requests()[0].Output.Schema), err
}

func requireGenerates[T any](t *testing.T, text string, want T, schema string) {
	t.Helper()
	got, asked, err := generates[T](t, text)
	require.NoError(t, err, text)
	require.Equal(t, want, got)
	require.JSONEq(t, schema, asked)
}

func TestTypes(t *testing.T) {
	box := func(s string) string {
		return `{"properties":{"value":` + s + `},"additionalProperties":false,"type":"object","required":["value"]}`
	}
	type point struct {
		X int `json:"x"`
	}
	onePoint := `{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":false,"required":["x"]}`
	requireGenerates(t, `{"x":1}`, point{1}, onePoint)
	requireGenerates(t, `{"x":1}`, &point{1}, onePoint)
	requireGenerates(t, `{"a":1,"b":2}`, map[string]int{"a": 1, "b": 2}, `{"additionalProperties":{"type":"integer"},"type":"object"}`)
	points := box(`{"items":` + onePoint + `,"type":"array"}`)
	requireGenerates(t, `{"value":[{"x":1},{"x":2}]}`, []point{{1}, {2}}, points)
	requireGenerates(t, `[{"x":1},{"x":2}]`, []point{{1}, {2}}, points)
	requireGenerates(t, "```json\n[{\"x\":1}]\n```", []point{{1}}, points)
	requireGenerates(t, `{"value":"Oslo"}`, "Oslo", box(`{"type":"string"}`))
	requireGenerates(t, `"Oslo"`, "Oslo", box(`{"type":"string"}`))
	requireGenerates(t, `{"value":1.0}`, 1, box(`{"type":"integer"}`))
	requireGenerates(t, `0.5`, 0.5, box(`{"type":"number"}`))
	requireGenerates(t, `{"value":true}`, true, box(`{"type":"boolean"}`))
	requireGenerates(t, `{"value":{"a":[1]}}`, any(map[string]any{"a": []any{1.0}}), box(`{"description":"any JSON value"}`))
	requireGenerates(t, `{"value": [1]}`, json.RawMessage(`[1]`), box(`{"description":"any JSON value"}`))
	requireGenerates(t, `{"value":"2026-01-02T03:04:05Z"}`, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), box(`{"type":"string","format":"date-time"}`))
	requireGenerates(t, `{"value":"127.0.0.1"}`, netip.MustParseAddr("127.0.0.1"), box(`{"type":"string"}`))
	requireGenerates(t, `{"value":7}`, *big.NewInt(7), box(`{"description":"any JSON value"}`))

	_, _, err := generates[[]string](t, `So says ["a"].`)
	require.ErrorContains(t, err, "document answer: document: must be an object, got an array")
	for _, text := range []string{`The answer is [1] of {"x":1}`, `1 2`, `{"value":[1],"more":1}`, `[1`, ``} {
		_, _, err := generates[[]int](t, text)
		require.True(t, is[*generate.Error](err), "%q: %v", text, err)
	}
}

type tree struct{ Children []tree }

func refusesType[T any](t *testing.T, want string) {
	t.Helper()
	_, _, err := generates[T](t, "")
	require.True(t, is[*aycoder.ConfigError](err), "%v", err)
	require.EqualError(t, err, "generate: type "+want)
}

func TestRefusesTypes(t *testing.T) {
	type fields struct {
		A int `jsonschema:"minimun=1"`
	}
	refusesType[tree](t, "generate_test.tree: recursive type: tree.Children → tree")
	refusesType[fields](t, `generate_test.fields: fields.A: jsonschema tag: unknown key "minimun", did you mean "minimum"?`)
	refusesType[func()](t, "func(): value: func() has no JSON form")
	refusesType[[]chan int](t, "[]chan int: value: chan int has no JSON form")
	refusesType[map[bool]int](t, "map[bool]int: value: no JSON form for keys of type bool")
	refusesType[error](t, "error: error: JSON does not say what is in the interface error")
}

func TestWays(t *testing.T) {
	call := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
		&aycoder.ToolUse{ID: "a", Name: "x", Args: json.RawMessage(`{}`)},
	}}
	output := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
		&aycoder.ToolOutput{ID: "a", Name: "x", Parts: []aycoder.Part{&aycoder.Text{Text: "1"}}},
	}}
	tests := []struct {
		name   string
		model  func(*script.Model) aycoder.ModelClient
		req    *aycoder.Request
		opts   []generate.Option
		native string // the name of the document, or
		tool   string
	}{
		{"plain client", func(m *script.Model) aycoder.ModelClient { return m }, ask("Who?"), nil, "", "person"},
		{"able client", func(m *script.Model) aycoder.ModelClient { return native{m} }, ask("Who?"), nil, "person", ""},
		{"behind a middleware", func(m *script.Model) aycoder.ModelClient { return wrapped{native{m}} }, ask("Who?"), nil, "person", ""},
		{"model that is not able", func(m *script.Model) aycoder.ModelClient { return native{m} }, &aycoder.Request{Model: "old", Messages: ask("Who?").Messages}, nil, "", "person"},
		{"calls in the history", func(m *script.Model) aycoder.ModelClient { return native{m} }, &aycoder.Request{Messages: append(ask("Who?").Messages, call, output)}, nil, "", "person"},
		{"name for a tool", func(m *script.Model) aycoder.ModelClient { return m }, ask("Who?"), []generate.Option{generate.WithName("who")}, "", "who"},
		{"name", func(m *script.Model) aycoder.ModelClient { return native{m} }, ask("Who?"), []generate.Option{generate.WithName("who")}, "who", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := script.New(script.Say(noName), script.Say(ada))
			before := *tt.req
			messages := slices.Clone(tt.req.Messages)
			_, err := generate.Value[person](t.Context(), tt.model(m), tt.req, tt.opts...)
			require.NoError(t, err)
			require.Equal(t, before, *tt.req, "the request is the caller's")
			require.Equal(t, messages, tt.req.Messages)
			requireRequests(t, m.Requests(), 2)
			for _, r := range m.Requests() {
				if tt.native != "" {
					require.Equal(t, tt.native, r.Output.Name)
					require.Zero(t, r.ToolChoice)
					continue
				}
				require.Equal(t, tt.tool, r.Tools[0].Name)
				require.Equal(t, aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: tt.tool}, r.ToolChoice)
			}
		})
	}
}

// The spare capacity of the caller's messages is not written to.
func TestLeavesTheMessages(t *testing.T) {
	req := ask("Who?")
	req.Messages = append(make([]*aycoder.Message, 0, 8), req.Messages...)
	_, err := generate.Value[person](t.Context(), script.New(script.Say("x"), script.Say(ada)), req)
	require.NoError(t, err)
	require.Nil(t, req.Messages[:2][1])
}

func TestRefusesRequests(t *testing.T) {
	m := script.New(script.Say(ada))
	with := func(change func(*aycoder.Request)) *aycoder.Request {
		r := ask("Who?")
		change(r)
		return r
	}
	tests := []struct {
		name string
		m    aycoder.ModelClient
		req  *aycoder.Request
		opt  generate.Option
		want string
	}{
		{"no client", nil, ask("?"), nil, "generate: model: is nil"},
		{"no request", m, nil, nil, "generate: Request: is nil"},
		{"no messages", m, &aycoder.Request{}, nil, "generate: Request.Messages: is empty"},
		{"tools", m, with(func(r *aycoder.Request) { r.Tools = []*aycoder.ToolSpec{{Name: "x"}} }), nil, "Request.Tools: must be empty"},
		{"tool choice", m, with(func(r *aycoder.Request) { r.ToolChoice.Mode = aycoder.ToolAny }), nil, "Request.ToolChoice: must be empty"},
		{"output", m, with(func(r *aycoder.Request) { r.Output = &aycoder.OutputFormat{} }), nil, "Request.Output: must be nil"},
		{"option", m, ask("?"), generate.WithRepairs(-1), "WithRepairs: is negative"},
		{"name", m, ask("?"), generate.WithName("a b"), "WithName: name must be"},
		{"all at once", nil, ask("?"), generate.WithName(""), "generate: model: is nil\nWithName: name must be"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var resp aycoder.Response
			opts := []generate.Option{generate.IntoResponse(&resp), generate.IntoResponse(nil), generate.IntoResponse(&resp)}
			if tt.opt != nil {
				opts = append(opts, tt.opt)
			}
			_, err := generate.Value[person](t.Context(), tt.m, tt.req, opts...)
			require.True(t, is[*aycoder.ConfigError](err), "%v", err)
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, resp.Text())
		})
	}
	_, err := generate.Value[person](t.Context(), m, ask("?"), nil)
	require.ErrorContains(t, err, "option: is nil")
	_, err = generate.Value[person](t.Context(), m, &aycoder.Request{Messages: []*aycoder.Message{nil}})
	require.True(t, is[*aycoder.ContextError](err), "%v", err)
	require.Empty(t, m.Requests())
}

func TestRefusal(t *testing.T) {
	m := script.New(script.Reply(script.Say("I won't."), script.Call("person", ada)).WithStop(aycoder.StopRefusal))
	got, err := generate.Value[person](t.Context(), m, ask("Who?"))
	require.Zero(t, got)
	require.True(t, is[*aycoder.RefusalError](err))
	require.EqualError(t, err, "script script: refused to answer: I won't.")

	quiet := events(&aycoder.MessageDone{Stop: aycoder.StopRefusal, Model: "m"})
	_, err = generate.Value[person](t.Context(), quiet, ask("Who?"))
	require.EqualError(t, err, "model m: refused to answer")
}

func TestTokenLimit(t *testing.T) {
	req := ask("Who?")
	req.MaxTokens = 100
	_, err := generate.Value[person](t.Context(), script.New(script.Cut("person", `{`)), req)
	limit, ok := errors.AsType[*aycoder.LimitError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, int64(100), limit.Max)
	require.EqualError(t, err, "document person: the answer was cut off: limit of 100 output tokens reached")
}

// The cost is that of all requests, as the usage is, and unknown if that of one is.
func TestCostOfAllRequests(t *testing.T) {
	for _, tt := range []struct {
		costs []*float64
		want  *float64
	}{
		{[]*float64{new(0.25), new(0.5)}, new(0.75)}, {[]*float64{nil, new(0.5)}, nil}, {[]*float64{new(0.5), nil}, nil},
		{[]*float64{nil, nil}, nil}, {[]*float64{new(0.0), new(0.0)}, new(0.0)},
	} {
		n := 0
		m := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			text := []string{"?", ada}[n]
			done := &aycoder.MessageDone{Stop: aycoder.StopEndTurn, Usage: aycoder.Usage{Input: 1}, Cost: tt.costs[n]}
			n++
			return func(yield func(aycoder.ModelEvent, error) bool) {
				_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: text}}, nil) && yield(done, nil)
			}
		})
		var resp aycoder.Response
		_, err := generate.Value[person](t.Context(), m, ask("Who?"), generate.IntoResponse(&resp))
		require.NoError(t, err)
		require.Equal(t, int64(2), resp.Usage.Input)
		require.Equal(t, tt.want, resp.Cost)
	}
}

func TestModelErrors(t *testing.T) {
	limited := script.RateLimited(time.Second)
	m := script.New(script.Say("x").WithUsage(aycoder.Usage{Input: 5}), script.Reply(script.Say("half"), script.Fail(limited)))
	var resp aycoder.Response
	_, err := generate.Value[person](t.Context(), m, ask("Who?"), generate.IntoResponse(&resp))
	require.Same(t, limited, err)
	require.Len(t, m.Requests(), 2)
	require.Equal(t, "half", resp.Text())
	require.Equal(t, int64(5), resp.Usage.Input)

	_, err = generate.Value[person](t.Context(), events(done(&aycoder.Text{Text: ada})), ask("Who?"))
	require.True(t, is[*aycoder.StreamBrokenError](err), "%v", err)
}

func TestStopsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := script.New(script.Func(func(*aycoder.Request) script.Step { cancel(); return script.Step{} }), script.Say(ada))
	_, err := generate.Value[person](ctx, m, ask("Who?"))
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, m.Requests(), 1)
	_, err = generate.Value[person](ctx, m, ask("Who?"))
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, m.Requests(), 1)
}

func TestEndlessAnswers(t *testing.T) {
	pauses := script.New(script.Say("…").WithStop(aycoder.StopPaused)).With(script.WithLoop(true))
	_, err := generate.Value[person](t.Context(), pauses, ask("Who?"))
	require.EqualError(t, err, "limit of 16 pauses of one answer reached")

	endless := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		delta := &aycoder.TextDelta{Text: strings.Repeat("x", 1<<20)}
		return func(yield func(aycoder.ModelEvent, error) bool) {
			for yield(delta, nil) {
			}
		}
	})
	_, err = generate.Value[person](t.Context(), endless, ask("Who?"))
	require.True(t, is[*aycoder.ModelError](err))
	require.True(t, is[*aycoder.LimitError](err))
}

// A client that breaks its contract causes neither a panic nor a broken history.
func TestOddParts(t *testing.T) {
	call := func(name, args string) *aycoder.BlockDone {
		return done(&aycoder.ToolUse{Name: name, Args: json.RawMessage(args)})
	}
	odd := events(
		&aycoder.BlockDone{}, done((*aycoder.Text)(nil)), done(&aycoder.ToolOutput{ID: "x"}),
		done(&aycoder.Opaque{Raw: json.RawMessage("{")}), &aycoder.BlockTruncated{},
		call("person", ""), call("\xff\x00", "null"), done(&aycoder.Text{Text: "\xff\x00"}),
		&aycoder.MessageDone{Stop: aycoder.StopToolUse},
	)
	var requests []*aycoder.Request
	m := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		requests = append(requests, req)
		if len(requests) == 1 {
			return odd.Stream(ctx, req)
		}
		return script.New(script.Say(ada)).Stream(ctx, req)
	})
	_, err := generate.Value[person](t.Context(), m, ask("Who?"))
	require.NoError(t, err)
	requireRequests(t, requests, 2)
	require.Len(t, requests[1].Messages[1].Parts, 3)
}

// events is a client that yields just these events.
func events(list ...aycoder.ModelEvent) aycoder.ModelClient {
	return aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			for _, ev := range list {
				if !yield(ev, nil) {
					return
				}
			}
		}
	})
}

func done(p aycoder.Part) *aycoder.BlockDone { return &aycoder.BlockDone{Part: p} }

func BenchmarkValue(b *testing.B) {
	for b.Loop() {
		_, err := generate.Value[person](b.Context(), answers(ada), ask("?"))
		require.NoError(b, err)
	}
}
