package wiretest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// Each dialect has enough answers of each kind, and no two in the project are the same.
func TestAnswersOfAllDialects(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("..", "..", "providers", "*", "testdata", "answers", "*"))
	require.NoError(t, err)
	total, seen := 0, map[string]string{}
	for _, dir := range dirs {
		kinds := map[string]int{}
		for _, c := range ReadAnswers(t, dir) {
			total++
			if other := seen[c.Bytes()]; other != "" {
				t.Errorf("%s has the same bytes as %s", c.Place, other)
			}
			seen[c.Bytes()] = c.Place
			want := strings.Join(c.Want, "\n")
			for kind, has := range map[string]bool{
				"failed status": c.Status >= 400,
				"cut":           strings.Contains(want, "error StreamBrokenError"),
				"call":          strings.Contains("\n"+want, "\ncall "),
				"cut call":      strings.Contains("\n"+want, "\ncut "),
				"thinking":      strings.Contains("\n"+want, "\nthinking "),
				"failed stream": c.Status == 200 && strings.Contains("\n"+want, "\nerror "),
			} {
				if has {
					kinds[kind]++
				}
			}
		}
		name := filepath.Base(dir)
		t.Logf("%s: %v", name, kinds)
		for kind, least := range map[string]int{"failed status": 12, "cut": 4, "call": 6, "cut call": 1, "thinking": 2, "failed stream": 8} {
			assert.GreaterOrEqual(t, kinds[kind], least, "%s: %s", name, kind)
		}
	}
	assert.Len(t, dirs, 7)
	assert.GreaterOrEqual(t, total, 500)
}

const answerFile = `A comment.

[doc] https://example.com/doc

=== one
source: [doc] why
header: X-A: b
form: data
>>>
{"a":1}
[DONE]
: comment
<<<
text "hi"
stop end_turn
`

// A case without a source, without an expected value or with a key that means nothing is an
// error.
func TestReadAnswersErrors(t *testing.T) {
	for name, change := range map[string][2]string{
		"no source":         {"source: [doc] why\n", ""},
		"unknown source":    {"[doc] why", "[other] why"},
		"source of no word": {"[doc] why", "[doc]  "},
		"no address":        {"https://example.com/doc", "example.com/doc"},
		"no expected value": {"text \"hi\"\nstop end_turn\n", ""},
		"no body":           {">>>\n", ""},
		"unknown key":       {"header: X-A: b", "headers: X-A: b"},
		"no key":            {"header: X-A: b", "X-A"},
		"unknown form":      {"form: data", "form: date"},
		"unknown line ends": {"form: data", "line ends: LFCR"},
		"cut too much":      {"form: data", "missing: 100"},
		"damaged behind":    {"form: data", "damaged: 100"},
		"status":            {"form: data", "status: OK"},
		"header":            {"header: X-A: b", "header: X-A"},
		"frame":             {"form: data", "form: aws"},
	} {
		p := &answerParser{file: name, sources: map[string]string{}}
		assert.Error(t, p.parse(strings.Replace(answerFile, change[0], change[1], 1)), name)
	}
	p := &answerParser{file: "f", sources: map[string]string{}}
	require.NoError(t, p.parse(answerFile))
	require.Len(t, p.cases, 1)
	c := p.cases[0]
	assert.Equal(t, "data: {\"a\":1}\n\ndata: [DONE]\n\n: comment\n", string(c.Body))
	assert.Equal(t, []string{"https://example.com/doc"}, c.Sources)
	assert.Equal(t, [][2]string{{"X-A", "b"}}, c.Header)
	assert.Equal(t, "f:5", c.Place)
	assert.Equal(t, []string{`text "hi"`, "stop end_turn"}, c.Want)
}

// The example in the documentation is a case.
func TestDocumentedFormat(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "testing.md"))
	require.NoError(t, err)
	_, example, found := strings.Cut(string(data), "```\n[streaming]")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")
	p := &answerParser{sources: map[string]string{}}
	require.NoError(t, p.parse("[streaming]"+example))
	require.Len(t, p.cases, 1)
	x, err := parseWant(p.cases[0].Want)
	require.NoError(t, err)
	assert.Equal(t, []string{"call toolu_1 list_branches {}"}, x.parts)
}

// The bytes of each form are what the documents say, by hand.
func TestShapes(t *testing.T) {
	for _, tt := range []struct{ head, body, want string }{
		{"form: raw", "a\n\nb\n", "a\n\nb\n"},
		{"missing: 1", "a\n", "a"},
		{"damaged: 0", "a\n", "`\n"},
		{"begins with: byte order mark", "a\n", "\xEF\xBB\xBFa\n"},
		{"form: event and data", "{\"type\":\"x\"}\nid: 1\n", "event: x\ndata: {\"type\":\"x\"}\n\nid: 1\n"},
		{"form: data\nline ends: CRLF", "{}\n", "data: {}\r\n\r\n"},
		{"form: data\nline ends: CR", "{}\n", "data: {}\r\r"},
		// The checksums are those of Python's binascii.crc32.
		{"form: aws", "?E no\n", "\x00\x00\x00\x4a\x00\x00\x00\x3a\xb1\x6d\x46\x33" +
			"\x0d:message-type\x07\x00\x05error\x0b:error-code\x07\x00\x01E\x0e:error-message\x07\x00\x02no" + "\x1a\x47\x0f\xd9"},
	} {
		p := &answerParser{sources: map[string]string{"s": "https://x"}}
		require.NoError(t, p.parse(fmt.Sprintf("[s] https://x\n=== c\nsource: [s] y\n%s\n>>>\n%s<<<\nstop x\n", tt.head, tt.body)))
		assert.Equal(t, tt.want, string(p.cases[0].Body), tt.head)
	}
}

// Whatever differs from the expected value is found.
func TestCheckAnswer(t *testing.T) {
	right := []string{`text "a"`, `thinking "b"`, `signature "s"`, `call 1 f {"x":1.0}`, `cut 2 g "{\"y\":"`,
		`opaque {"k":[1]}`, "stop tool_use", "usage input 1, output 2, reasoning 3, cache read 4, cache write 5", "id i", "model m"}
	cut := &aycoder.ToolUse{ID: "2", Name: "g", Args: []byte(`{"y":`)}
	answer := func() *Answer {
		return &Answer{Text: "a", Thinking: "b", Args: map[string]string{"1": `{"x": 1.0}`}, Cut: []*aycoder.ToolUse{cut},
			Parts: []aycoder.Part{&aycoder.Text{Text: "a"}, &aycoder.Thinking{Text: "b", Signature: "s"},
				&aycoder.ToolUse{ID: "1", Name: "f", Args: []byte(`{"x": 1.0}`)}, cut, &aycoder.Opaque{Raw: []byte(`{"k": [1]}`)}},
			Done: &aycoder.MessageDone{Stop: "tool_use", Usage: aycoder.Usage{Input: 1, Output: 2, Reasoning: 3, CacheRead: 4, CacheWrite: 5}, ID: "i", Model: "m"}}
	}
	check := func(want []string, a *Answer) []string { return checkAnswer(&WrittenAnswer{Want: want}, a, time.Now()) }
	require.Empty(t, check(right, answer()))
	for i := range right {
		without := append(append([]string{}, right[:i]...), right[i+1:]...)
		if right[i] != "id i" && right[i] != "model m" { // which are compared where they are said
			assert.NotEmpty(t, check(without, answer()), "without %s", right[i])
		}
		other := append([]string{}, right...)
		for _, digit := range []string{"1", "a", "b", "s", "2", "m", "i"} {
			if k := strings.LastIndex(other[i], digit); k > len(strings.SplitN(other[i], " ", 2)[0]) {
				other[i] = other[i][:k] + "7" + other[i][k+1:]
				break
			}
		}
		assert.NotEqual(t, right[i], other[i])
		assert.NotEmpty(t, check(other, answer()), "%s in the place of %s", other[i], right[i])
	}
	for name, change := range map[string]func(*Answer){
		"more":        func(a *Answer) { a.Parts = append(a.Parts, &aycoder.Text{Text: "x"}) },
		"deltas":      func(a *Answer) { a.Text = "ab" },
		"args":        func(a *Answer) { a.Args["1"] = `{}` },
		"not cut":     func(a *Answer) { a.Cut = nil },
		"extra":       func(a *Answer) { a.Parts[0].(*aycoder.Text).Extra = &aycoder.Opaque{Raw: []byte("{}")} },
		"error":       func(a *Answer) { a.Done, a.Err = nil, &aycoder.ModelError{} },
		"no end":      func(a *Answer) { a.Done = nil },
		"id again":    func(a *Answer) { cut := *cut; cut.ID = "1"; a.Parts[3], a.Cut[0] = &cut, &cut },
		"usage":       func(a *Answer) { a.Done.Usage = aycoder.Usage{} },
		"other model": func(a *Answer) { a.Done.Model = "n" },
	} {
		a := answer()
		change(a)
		assert.NotEmpty(t, check(right, a), name)
	}
	anyID := append(append([]string{}, right[:3]...), append([]string{`call * f {"x":1.0}`, `cut * g "{\"y\":"`}, right[5:]...)...)
	assert.Empty(t, check(anyID, answer()))
	assert.NotEmpty(t, check([]string{"stop x", "error y"}, answer()), "both")
	assert.NotEmpty(t, check([]string{"model m"}, answer()), "neither")
}

func TestCheckError(t *testing.T) {
	base := &aycoder.ModelError{Status: 429, Kind: "k", RequestID: "r", Err: os.ErrClosed}
	limited := &aycoder.RateLimitError{ModelError: base, RetryAfter: time.Second, ResetAt: time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)}
	right := []string{"error RateLimitError", "status 429", `kind "k"`, `request "r"`, `message "file already closed"`,
		"retry-after 1s", "reset-at 2031-01-02T03:04:05Z", `deltas "x"`}
	check := func(want []string, a *Answer) []string { return checkAnswer(&WrittenAnswer{Want: want}, a, time.Now()) }
	a := &Answer{Text: "x", Err: limited}
	require.Empty(t, check(right, a))
	for i, line := range []string{"error OverloadedError", "status 500", `kind "l"`, `request ""`, `message ""`, "retry-after 2s",
		"reset-at 2031-01-02T03:04:06Z", `deltas ""`} {
		other := append([]string{}, right...)
		other[i] = line
		assert.NotEmpty(t, check(other, a), line)
	}
	for _, i := range []int{1, 5, 6, 7} {
		assert.NotEmpty(t, check(append(append([]string{}, right[:i]...), right[i+1:]...), a), "without %s", right[i])
	}
	assert.NotEmpty(t, check(right, &Answer{Text: "x", Err: limited, Done: &aycoder.MessageDone{}}), "an end as well")
	assert.NotEmpty(t, check(right, &Answer{Text: "x"}), "no error")
	large := &aycoder.ContextTooLargeError{ModelError: base, Actual: 5, Max: 4}
	assert.Empty(t, check([]string{"error ContextTooLargeError", "status 429", "tokens 5 of 4"}, &Answer{Err: large}))
	assert.NotEmpty(t, check([]string{"error ContextTooLargeError", "status 429", "tokens 5 of 3"}, &Answer{Err: large}))
	soon := &aycoder.RateLimitError{ModelError: base, ResetAt: time.Now().Add(6 * time.Minute)}
	before := time.Now().Add(-time.Second)
	assert.Empty(t, checkAnswer(&WrittenAnswer{Want: []string{"error RateLimitError", "status 429", "reset-at 6m0s"}}, &Answer{Err: soon}, before))
	assert.NotEmpty(t, checkAnswer(&WrittenAnswer{Want: []string{"error RateLimitError", "status 429", "reset-at 5m0s"}}, &Answer{Err: soon}, before))
}
