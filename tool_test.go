package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

type fileArgs struct {
	Path  string `json:"path" jsonschema:"description=File to read"`
	Limit int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=2000"`
	Mode  string `json:"mode,omitempty" jsonschema:"enum=text,enum=hex"`
}

func echoPath(_ context.Context, _ *aycoder.Invocation, in fileArgs) (*aycoder.ToolResult, error) {
	return aycoder.TextResult(fmt.Sprintf("%s %d %s", in.Path, in.Limit, in.Mode)), nil
}

// toolOf makes a tool of any argument type, only for its schema.
func toolOf[In any](opts ...aycoder.ToolOption) (aycoder.Tool, error) {
	fn := func(context.Context, *aycoder.Invocation, In) (*aycoder.ToolResult, error) {
		return aycoder.TextResult(""), nil
	}
	return aycoder.NewTool("t", "", fn, opts...)
}

func schemaOf[In any](t *testing.T) string {
	t.Helper()
	tool, err := toolOf[In]()
	require.NoError(t, err)
	return string(tool.Spec().Schema)
}

func TestNewTool(t *testing.T) {
	tool, err := aycoder.NewTool("read_file", "Reads a file.", echoPath,
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithHints(true, true),
		aycoder.WithSubject(aycoder.SubjectPath, "path"))
	require.NoError(t, err)
	want := aycoder.ToolSpec{
		Name: "read_file", Description: "Reads a file.", Schema: tool.Spec().Schema,
		Effect: aycoder.EffectReadOnly, Destructive: true, OpenWorld: true,
		Subject: aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath},
	}
	assert.Equal(t, want, tool.Spec())
	args := json.RawMessage(`{"path":"a.go","limit":3,"mode":"hex"}`)
	r, err := tool.Call(t.Context(), aycoder.NewInvocation("call_1", "read_file", args, nil))
	require.NoError(t, err)
	assert.Equal(t, "a.go 3 hex", r.Text())
	assert.False(t, r.IsError)
}

func TestNewToolSchema(t *testing.T) {
	type inner struct {
		Line int `json:"line"`
	}
	type embedded struct {
		ID string `json:"id"`
	}
	const object = `"additionalProperties":false,"type":"object"`
	tests := []struct {
		name string
		got  string
		want string
	}{
		{"nothing", schemaOf[struct{}](t), `{"properties":{},` + object + `}`},
		{"tags", schemaOf[fileArgs](t), `{"properties":{
			"path":{"type":"string","description":"File to read"},
			"limit":{"type":"integer","minimum":1,"maximum":2000},
			"mode":{"type":"string","enum":["text","hex"]}},` + object + `,"required":["path"]}`},
		{"pointer to a struct", schemaOf[*inner](t), `{"properties":{"line":{"type":"integer"}},` + object +
			`,"required":["line"]}`},
		{"nested, without references", schemaOf[struct {
			At  inner    `json:"at"`
			All []*inner `json:"all,omitzero"`
		}](t), `{"properties":{
			"at":{"properties":{"line":{"type":"integer"}},` + object + `,"required":["line"]},
			"all":{"type":"array","items":{"properties":{"line":{"type":"integer"}},` + object +
			`,"required":["line"]}}},` + object + `,"required":["at"]}`},
		{"embedded", schemaOf[struct {
			embedded
			N float64 `json:"n"`
		}](t), `{"properties":{"id":{"type":"string"},"n":{"type":"number"}},` + object + `,"required":["id","n"]}`},
		{"any value", schemaOf[struct {
			V json.RawMessage `json:"v"`
		}](t), `{"properties":{"v":{"description":"any JSON value"}},` + object + `,"required":["v"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.JSONEq(t, tt.want, tt.got) })
	}
}

type treeArgs struct {
	Name     string      `json:"name"`
	Children []*treeArgs `json:"children"`
}

func TestNewToolRefuses(t *testing.T) {
	named := func(name string) error {
		_, err := aycoder.NewTool(name, "", echoPath)
		return err
	}
	refused := func(_ aycoder.Tool, err error) error { return err }
	broken := errors.New("mine")
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"no name", named(""), `new tool "": name must be 1 to 64 letters, digits, _ and -`},
		{"space in the name", named("read file"), "name must be"},
		{"dot in the name", named("fs.read"), "name must be"},
		{"line break after the name", named("read\n"), "name must be"},
		{"other letters", named("läs"), "name must be"},
		{"long name", named(strings.Repeat("a", 65)), "name must be"},
		{"recursive", refused(toolOf[treeArgs]()), `new tool "t": schema of aycoder_test.treeArgs: recursive type: treeArgs.Children → treeArgs`},
		{"recursive inside", refused(toolOf[struct{ T map[string]treeArgs }]()), "T.Children → treeArgs"},
		{"int", refused(toolOf[int]()), "schema of int: not a struct"},
		{"any", refused(toolOf[any]()), "not a struct"},
		{"map", refused(toolOf[map[string]any]()), "not a struct"},
		{"func", refused(toolOf[struct{ F func() }]()), "F: func() has no JSON form"},
		{"no such effect", refused(toolOf[fileArgs](aycoder.WithEffect(9))), "WithEffect: no such effect: 9"},
		{"negative effect", refused(toolOf[fileArgs](aycoder.WithEffect(-1))), "no such effect: -1"},
		{"subject that is no argument", refused(toolOf[fileArgs](aycoder.WithSubject(aycoder.SubjectPath, "file"))),
			`subject "file" is not an argument`},
		{"option", refused(toolOf[fileArgs](func(*aycoder.ToolSpec) error { return broken })), "mine"},
		{"no function", refused(aycoder.NewTool[fileArgs]("t", "", nil)), "function is nil"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.ErrorContains(t, tt.err, tt.want) })
	}
	assert.NoError(t, named(strings.Repeat("a", 64)))
	assert.NoError(t, named("Read-File_2"))
	assert.ErrorIs(t, refused(toolOf[fileArgs](func(*aycoder.ToolSpec) error { return broken })), broken)
}

func TestToolArgumentsThatDoNotDecode(t *testing.T) {
	tool, err := aycoder.NewTool("read_file", "", echoPath)
	require.NoError(t, err)
	tests := []struct {
		name string
		args string
		want string
	}{
		{"wrong type", `{"path":5}`, "/path: must be a string"},
		{"not an integer", `{"path":"a","limit":1.5}`, "/limit: must be an integer"},
		{"too large", `{"path":"a","limit":99999999999999999999}`, "/limit: must be an integer that fits 64 bits"},
		{"not an object", `[1]`, "arguments: must be an object"},
		{"cut off", `{"path":`, "arguments: not valid JSON"},
		{"nothing", ``, "arguments: not valid JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inv := aycoder.NewInvocation("call_1", "read_file", json.RawMessage(tt.args), nil)
			r, err := tool.Call(t.Context(), inv)
			assert.Nil(t, r)
			e, ok := errors.AsType[*aycoder.ToolArgsError](err)
			require.True(t, ok, "got %v", err)
			assert.Equal(t, []string{"read_file", "call_1"}, []string{e.Tool, e.CallID})
			require.NotEmpty(t, e.Problems)
			assert.Contains(t, e.Problems[0], tt.want)
			assert.NotContains(t, e.Problems[0], "Go ", "the model knows no Go types")
			assert.ErrorContains(t, err, "tool read_file: invalid arguments: ")
			_, ok = errors.AsType[*aycoder.ToolError](err)
			assert.True(t, ok, "unwraps to the base")
		})
	}
}

// A Go integer accepts every number that JSON Schema calls an integer.
func TestToolTakesIntegersInAnyForm(t *testing.T) {
	type args struct {
		Path  string            `json:"path"`
		Limit int               `json:"limit,omitempty"`
		Size  *uint64           `json:"size,omitempty"`
		Lines []int32           `json:"lines,omitempty"`
		Rate  float64           `json:"rate,omitempty"`
		Any   json.RawMessage   `json:"any,omitempty"`
		Env   map[string]int64  `json:"env,omitempty"`
		At    []struct{ N int } `json:"at,omitempty"`
	}
	tests := []struct{ name, args, want string }{
		{"plain", `{"path":"a","limit":3}`, `{"path":"a","limit":3}`},
		{"1.0", `{"path":"1.0","limit":1.0}`, `{"path":"1.0","limit":1}`},
		{"exponents", ` {"limit" : -12.50e1 , "size":1E3,"path":"a"} `, `{"path":"a","limit":-125,"size":1000}`},
		{"zeros", `{"path":"a","limit":-0.0,"size":-0}`, `{"path":"a","size":0}`},
		{"inside", `{"path":"a","lines":[1.0,2,3e0],"env":{"x":4.0},"at":[{"N":5.0}]}`, `{"path":"a","lines":[1,2,3],"env":{"x":4},"at":[{"N":5}]}`},
		{"others stay", `{"path":"a","rate":1e2,"any":{"n":1.0}}`, `{"path":"a","rate":100,"any":{"n":1.0}}`},
		{"largest", `{"path":"a","limit":9.99999999999999999e17,"size":18446744073709551615}`, `{"path":"a","limit":999999999999999999,"size":18446744073709551615}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got args
			tool, err := aycoder.NewTool("t", "", func(_ context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
				got = in
				return aycoder.TextResult(""), nil
			})
			require.NoError(t, err)
			_, err = tool.Call(t.Context(), aycoder.NewInvocation("c", "t", json.RawMessage(tt.args), nil))
			require.NoError(t, err)
			data, err := json.Marshal(got)
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(data))
		})
	}
}

func TestProgress(t *testing.T) {
	var got []aycoder.Progress
	inv := aycoder.NewInvocation("call_1", "t", nil, func(p aycoder.Progress) { got = append(got, p) })
	inv.Progress(aycoder.Progress{Current: 1, Total: 2})
	assert.Equal(t, []aycoder.Progress{{Current: 1, Total: 2}}, got)
	aycoder.NewInvocation("call_1", "t", nil, nil).Progress(aycoder.Progress{})
	assert.Equal(t, "call_1", inv.Key)
}

func TestFatal(t *testing.T) {
	assert.NoError(t, aycoder.Fatal(nil))
	cause := errors.New("disk full")
	err := aycoder.Fatal(fmt.Errorf("write: %w", cause))
	assert.EqualError(t, err, "write: disk full")
	assert.ErrorIs(t, err, cause)
}

func TestResults(t *testing.T) {
	assert.Equal(t, "a", aycoder.TextResult("a").Text())
	assert.False(t, aycoder.TextResult("a").IsError)
	assert.Equal(t, "b", aycoder.ErrorResult("b").Text())
	assert.True(t, aycoder.ErrorResult("b").IsError)
	both := &aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Text{Text: "a"}, &aycoder.Media{}, &aycoder.Text{Text: "b"}}}
	assert.Equal(t, "ab", both.Text())
}

func ExampleNewTool() {
	type args struct {
		City string `json:"city" jsonschema:"description=Name of the city"`
		Unit string `json:"unit,omitempty" jsonschema:"enum=C,enum=F"`
	}
	weather := func(_ context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
		if in.City == "" {
			return aycoder.ErrorResult("Name a city."), nil
		}
		return aycoder.TextResult("Sunny in " + in.City + "."), nil
	}
	tool, err := aycoder.NewTool("weather", "Tells the weather in a city.", weather,
		aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(tool.Spec().Schema))

	inv := aycoder.NewInvocation("call_1", "weather", json.RawMessage(`{"city":"Oslo"}`), nil)
	result, err := tool.Call(context.Background(), inv)
	fmt.Println(result.Text(), err)
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"Name of the city"},"unit":{"type":"string","enum":["C","F"]}},"additionalProperties":false,"required":["city"]}
	// Sunny in Oslo. <nil>
}

// replacing is a tool around another that gives it other arguments, or has another schema.
type replacing struct {
	aycoder.Tool
	spec aycoder.ToolSpec
	args string
}

func (r *replacing) Spec() aycoder.ToolSpec { return r.spec }

func (r *replacing) Call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	other := *inv
	if r.args != "" {
		other.Args = json.RawMessage(r.args)
	}
	return r.Tool.Call(ctx, &other)
}

// The loop checks the arguments of a call, and the tool does not check them again. Other
// arguments, and another schema, it does check.
func TestReplacedArgumentsAreChecked(t *testing.T) {
	tool := pathTool(t)
	open := tool.Spec()
	open.Schema = json.RawMessage(`{"type":"object","properties":{"path":{}}}`)
	for name, tt := range map[string]struct {
		tool       replacing
		call, want string
	}{
		"same":         {replacing{tool, tool.Spec(), ""}, `{"path":"a"}`, "edited a"},
		"other":        {replacing{tool, tool.Spec(), `{"path":"b"}`}, `{"path":"a"}`, "edited b"},
		"wrong":        {replacing{tool, tool.Spec(), `{"pth":"b"}`}, `{"path":"a"}`, "invalid arguments: /pth: unknown"},
		"other schema": {replacing{tool, open, ""}, `{"pth":"a"}`, "invalid arguments: /pth: unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, &fake{turns: [][]any{calls(use("1", "edit", tt.call)), say("ok")}},
				aycoder.WithTools(&tt.tool), aycoder.WithApprover(byTool{"edit": aycoder.Allow()}))
			var res aycoder.Result
			_, err := collect(l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.NoError(t, err)
			require.Contains(t, lastOutputs(&res)[0], tt.want)
		})
	}
}

// The tools of a type share the bytes of its schema, so what a host does to one must not show in
// the others.
func TestSchemasAreNotSharedWithTheHost(t *testing.T) {
	type in struct {
		Path string `json:"path"`
	}
	noop := func(context.Context, *aycoder.Invocation, in) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("ran"), nil
	}
	spoil := func(s *aycoder.ToolSpec) error {
		s.Schema = append(s.Schema[:1], `"type":"object","properties":{"other":{"type":"string"}}}`...)
		return nil
	}
	first, err := aycoder.NewTool("first", "d", noop)
	require.NoError(t, err)
	want := `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`
	require.JSONEq(t, want, string(first.Spec().Schema))

	clear(first.Spec().Schema)
	spoiled, err := aycoder.NewTool("spoiled", "d", noop, spoil)
	require.NoError(t, err)
	require.Contains(t, string(spoiled.Spec().Schema), "other")
	third, err := aycoder.NewTool("third", "d", noop)
	require.NoError(t, err)
	for _, tool := range []aycoder.Tool{first, third} {
		require.JSONEq(t, want, string(tool.Spec().Schema))
		_, err = tool.Call(t.Context(), aycoder.NewInvocation("c", "n", json.RawMessage(`{"other":"x"}`), nil))
		require.Error(t, err, "the schema of the type")
	}
}
