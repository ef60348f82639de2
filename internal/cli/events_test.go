package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// A schemaCheck checks values against a JSON Schema with the rules that docs/events.schema.json uses. It knows
// nothing of this program's own schemas.
type schemaCheck struct {
	root map[string]any
}

func newSchemaCheck(t *testing.T) *schemaCheck {
	t.Helper()
	data, err := os.ReadFile("../../docs/events.schema.json")
	require.NoError(t, err)
	c := &schemaCheck{}
	require.NoError(t, json.Unmarshal(data, &c.root))
	return c
}

// wrong returns what does not fit, or "".
func (c *schemaCheck) wrong(at string, schema, v any) string {
	for rule, want := range schema.(map[string]any) {
		if text := c.breaks(at, rule, want, schema.(map[string]any), v); text != "" {
			return text
		}
	}
	return ""
}

func (c *schemaCheck) breaks(at, rule string, want any, schema map[string]any, v any) string {
	fields, isObject := v.(map[string]any)
	switch rule {
	case "$schema", "$defs", "title", "properties":
	case "$ref":
		inner := any(c.root)
		if name, ok := strings.CutPrefix(want.(string), "#/$defs/"); ok {
			inner = c.root["$defs"].(map[string]any)[name]
		}
		return c.wrong(at, inner, v)
	case "anyOf":
		var all []string
		for _, s := range want.([]any) {
			text := c.wrong(at, s, v)
			if text == "" {
				return ""
			}
			all = append(all, text)
		}
		return strings.Join(all, "; ")
	case "const":
		if v != want {
			return fmt.Sprintf("%s: %v is not %v", at, v, want)
		}
	case "type":
		if !fitsType(want.(string), v) {
			return fmt.Sprintf("%s: %v is not of the type %v", at, v, want)
		}
	case "required":
		for _, name := range want.([]any) {
			if _, ok := fields[name.(string)]; isObject && !ok {
				return fmt.Sprintf("%s: %v is missing", at, name)
			}
		}
	case "additionalProperties":
		properties, _ := schema["properties"].(map[string]any)
		for name, value := range fields {
			inner, known := properties[name]
			switch {
			case !known && want == false:
				return fmt.Sprintf("%s: %s is not known", at, name)
			case !known && want == true:
				continue
			case !known:
				inner = want
			}
			if text := c.wrong(at+"/"+name, inner, value); text != "" {
				return text
			}
		}
	case "items":
		list, _ := v.([]any)
		for i, value := range list {
			if text := c.wrong(fmt.Sprint(at, "/", i), want, value); text != "" {
				return text
			}
		}
	default:
		return "the schema has the rule " + rule
	}
	return ""
}

func fitsType(kind string, v any) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer" && v == math.Trunc(v)
	case []any:
		return kind == "array"
	}
	return kind == "object"
}

// line checks a line of the program.
func (c *schemaCheck) line(t *testing.T, line string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &v), line)
	def := c.root["$defs"].(map[string]any)[v["type"].(string)]
	require.NotNil(t, def, line)
	require.Empty(t, c.wrong("", def, v), line)
	require.Empty(t, c.wrong("", c.root, v), line)
	return v
}

func TestSchemaCheckFindsFaults(t *testing.T) {
	t.Parallel()
	c := newSchemaCheck(t)
	for line, want := range map[string]string{
		`{"type":"text_delta","text":"a"}`:                                             "",
		`{"type":"text_delta"}`:                                                        "text is missing",
		`{"type":"text_delta","text":1}`:                                               "is not of the type string",
		`{"type":"text_delta","text":"a","more":1}`:                                    "more is not known",
		`{"type":"child","id":"1","event":{"type":"text_delta"}}`:                      "text is missing",
		`{"type":"setup_changed","tools":{"a":"b"},"max_turns":1,"max_calls":1}`:       "/tools/a: b is not of the type integer",
		`{"type":"setup_changed","tools":{"a":1.5},"max_turns":1,"max_calls":1}`:       "/tools/a: 1.5 is not of the type integer",
		`{"type":"run_end","reason":"x","turns":1,"usage":{},"text":"","messages":[]}`: "input is missing",
	} {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		got := c.wrong("", c.root["$defs"].(map[string]any)[v["type"].(string)], v)
		require.Equal(t, want == "", got == "", got)
		require.Contains(t, got, want)
	}
}

// randomStep returns a step of a model: texts of all kinds, calls that work, fail, are denied or need an approval,
// answers that are cut off, and errors.
func randomStep(r *rand.Rand) script.Step {
	pick := func(steps ...script.Step) script.Step { return steps[r.IntN(len(steps))] }
	texts := []string{"Hello.", "ü 日本\u202e\x1b[31m", "\"\\\n\t", strings.Repeat("long ", 300), "<&>\u2028"}
	say := script.Say(texts[r.IntN(len(texts))])
	call := pick(
		script.Call("list_files", map[string]string{}), script.Call("read_file", map[string]string{"path": "a.txt"}),
		script.Call("read_file", map[string]string{"path": "none"}), script.Call("read_file", map[string]int{"path": 7}),
		script.Call("write_file", map[string]string{"path": fmt.Sprintf("f%d", r.IntN(9)), "content": texts[r.IntN(4)]}),
		script.Call("edit_file", map[string]string{"path": "a.txt", "old_string": "one", "new_string": "two"}),
		script.Call("todo", map[string]any{}), script.Call("no_tool", nil), script.Call("code_search", map[string]string{"pattern": "o"}),
	)
	switch r.IntN(20) {
	case 0:
		return say.WithStop(aycoder.StopMaxTokens)
	case 1:
		return script.Cut("write_file", `{"path":"x`)
	case 2:
		return script.Fail(&aycoder.BadRequestError{ModelError: &aycoder.ModelError{Provider: "script", Err: os.ErrInvalid}})
	case 3:
		return script.Break(r.IntN(3), script.Overloaded(), say)
	case 4:
		return script.Call("bash", map[string]string{"command": "touch x"}) // needs an approval
	case 5:
		return script.Say("refused").WithStop(aycoder.StopRefusal)
	}
	step := pick(say, call, call, script.Reply(say, call), script.Reply(script.Think("hm"), call, say), script.Reply(call, say))
	return step.WithUsage(aycoder.Usage{Input: int64(r.IntN(1000)), Output: int64(r.IntN(100)), CacheRead: int64(r.IntN(2))})
}

// randomRun lets a scripted model work, and returns the lines and the result.
func randomRun(t *testing.T, r *rand.Rand, dir string) (string, *aycoder.Result) {
	t.Helper()
	m := script.New(script.Func(func(*aycoder.Request) script.Step { return randomStep(r) })).With(script.WithLoop(true), script.WithChunk(1+r.IntN(40)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o600))
	rt, err := harness.New(t.Context(), dir, harness.WithClient(m), harness.WithQuestions(aycoder.SuspendAsks),
		harness.WithPolicyOptions(policy.WithMode(policy.AcceptEdits)),
		harness.WithLoopOptions(aycoder.WithLimits(aycoder.Limits{Turns: 1 + r.IntN(6)}), aycoder.WithRetry(aycoder.RetryPolicy{Attempts: -1})))
	require.NoError(t, err)
	defer rt.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer out.Close()
	none, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer none.Close()
	p := newPrinter(&app{stdout: out, stderr: none}, &options{output: formatEvents})
	var res aycoder.Result
	var failed error
	p.begin()
	for ev, err := range p.events(t.Context(), rt, aycoder.Input{Prompt: "go"}, &res) {
		if failed = err; err == nil {
			p.event(ev)
		}
	}
	p.finish(&res, failed, nil)
	require.NoError(t, p.broken)
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	return string(text), &res
}

// replay decodes lines, and returns the result that they tell: that of the last line, after a check that the lines
// before it tell the same.
func replay(t *testing.T, lines []string) *aycoder.Result {
	t.Helper()
	var used aycoder.Usage
	turns, ended := 0, map[string]bool{}
	for i, line := range lines {
		ev, err := aycoder.DecodeEvent([]byte(line))
		require.NoError(t, err, line)
		switch ev := ev.(type) {
		case *aycoder.TurnFinished:
			used, turns = used.Add(ev.Usage), ev.Turn
		case *aycoder.ToolFinished:
			ended[ev.Call.ID] = true
		case *aycoder.RunFinished:
			require.Equal(t, len(lines)-1, i, "a run_end is the last line")
			res := ev.Result
			if res.End == aycoder.EndDone || res.End == aycoder.EndTurns {
				require.Equal(t, used, res.Usage)
				require.Equal(t, turns, res.Turns)
			}
			for _, m := range res.Messages {
				for _, c := range m.Calls() {
					require.True(t, ended[c.ID] || res.Pending != nil, "the call %s has ended", c.ID)
				}
			}
			return res
		}
	}
	t.Fatal("there is no run_end")
	return nil
}

// The lines of random runs fit the schema, and tell the whole result.
func TestRandomRunsReplay(t *testing.T) {
	t.Parallel()
	runs := 1000
	if testing.Short() || timed.Reduced(t) {
		runs = 100
	}
	c := newSchemaCheck(t)
	kinds, ends := map[string]int{}, map[string]int{}
	dir := t.TempDir()
	for seed := range runs {
		text, res := randomRun(t, rand.New(rand.NewPCG(uint64(seed), 1)), dir)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		for _, line := range lines {
			require.Equal(t, clean(line), line)
			kinds[c.line(t, line)["type"].(string)]++
		}
		want, err := json.Marshal(&aycoder.RunFinished{Result: res})
		require.NoError(t, err)
		got, err := json.Marshal(&aycoder.RunFinished{Result: replay(t, lines)})
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s\n%s", want, got)
		ends[string(res.End)]++
	}
	t.Log(kinds, ends)
	for _, kind := range []string{"text_delta", "thinking_delta", "tool_delta", "tool_start", "tool_end", "turn_end", "run_end"} {
		require.Positive(t, kinds[kind], kind)
	}
	for _, end := range []aycoder.EndReason{aycoder.EndDone, aycoder.EndTurns, aycoder.EndFailed, aycoder.EndSuspended} {
		require.Positive(t, ends[string(end)], end)
	}
}

// The lines of the program itself fit the schema, too.
func TestLinesFitTheSchema(t *testing.T) {
	t.Parallel()
	c := newSchemaCheck(t)
	var kinds []string
	s := newService(t, calls("list_files", `{}`), calls("bash", `{"command":"touch x"}`), says("Done.", "end_turn"))
	for _, in := range []string{
		"{\"type\":\"prompt\",\"text\":\"go\"}\n", "dance\n",
	} {
		got := runProgram(t, s.env(), in, "-input", "events")
		for line := range strings.Lines(got.out) {
			kinds = append(kinds, c.line(t, line)["type"].(string))
		}
	}
	for _, kind := range []string{"run_start", "tool_start", "input_error", "run_end"} {
		require.True(t, slices.Contains(kinds, kind), kind)
	}
}
