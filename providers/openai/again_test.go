package openai

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// An event of the form of an earlier one is not parsed. So a stream means the same if each event has
// another unknown field, by which it differs in form.
func TestSameFormMeansTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		plain, other := "", ""
		for i, chunk := range randomChunks(rng) {
			plain += "data: " + chunk + "\n\n"
			other += fmt.Sprintf(`data: {"nonce":"%d",%s`+"\n\n", i, chunk[1:])
		}
		a, b := chatAsk(t, plain+"data: [DONE]\n\n", nil), chatAsk(t, other+"data: [DONE]\n\n", nil)
		require.Equal(t, chatShow(b), chatShow(a), plain)
		require.Equal(t, b.Text, a.Text, plain)
		require.Equal(t, b.Done, a.Done, plain)

		events := randomEvents(rng)
		plain, other = respEvents(events...), ""
		for i := range events {
			events[i] = fmt.Sprintf(`{"nonce":"%d",%s`, i, events[i][1:])
		}
		other = respEvents(events...)
		a, b = respAsk(t, plain), respAsk(t, other)
		require.Equal(t, respShown(b), respShown(a), plain)
		require.Equal(t, b.Text, a.Text, plain)
	}
}

func quotedText(rng *rand.Rand) []byte {
	words := []string{"a", "", " b", "\n", `"`, "é", "<think>", "\\", "{", "}", `{"x":`, `1}`}
	return rawjson.AppendString(nil, words[rng.IntN(len(words))]+words[rng.IntN(len(words))])
}

// randomChunks returns chunks of chat completions, most of them in a row of the same kind.
func randomChunks(rng *rand.Rand) (all []string) {
	kind, index, call := 0, 0, 0
	for range 4 + rng.IntN(30) {
		if rng.IntN(4) == 0 {
			kind, call = rng.IntN(10), rng.IntN(3)
		}
		text := string(quotedText(rng))
		delta, tail := "", ""
		switch kind {
		case 0, 1, 2:
			delta = `"content":` + text
		case 3:
			delta = `"reasoning_content":` + text
		case 4:
			delta = `"content":` + text + `,"reasoning":` + text
		case 5:
			delta = fmt.Sprintf(`"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":%s}}]`, call, call, text)
		case 6, 7:
			delta = fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, call, text)
		case 8:
			index = rng.IntN(2)
			delta = `"role":"assistant","content":` + text
		case 9:
			delta = `"reasoning":"r","content":` + text + `,"content":""`
		}
		if rng.IntN(3) == 0 {
			tail = fmt.Sprintf(`,"obfuscation":"%s"`, strings.Repeat("x", rng.IntN(5)))
		}
		if rng.IntN(8) == 0 {
			tail += fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":1}`, rng.IntN(9))
		}
		all = append(all, fmt.Sprintf(`{"id":"r","model":"m","choices":[{"index":%d,"delta":{%s},"finish_reason":null}]%s}`, index, delta, tail))
	}
	return append(all, `{"id":"r","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
}

// randomEvents returns events of the Responses API.
func randomEvents(rng *rand.Rand) (all []string) {
	all = append(all, respBegin)
	kinds := []string{"output_text", "reasoning_summary_text", "function_call_arguments", "refusal", "reasoning_text"}
	kind, index := 0, 0
	for n := range 4 + rng.IntN(30) {
		if rng.IntN(4) == 0 {
			kind, index = rng.IntN(len(kinds)), rng.IntN(3)
		}
		if rng.IntN(8) == 0 {
			all = append(all, respAdd(index, []string{`{"type":"message"}`, `{"type":"function_call","name":"f","call_id":"c"}`}[rng.IntN(2)]))
		}
		noise := ""
		if rng.IntN(3) == 0 {
			noise = fmt.Sprintf(`,"obfuscation":"%s"`, strings.Repeat("x", rng.IntN(5)))
		}
		all = append(all, fmt.Sprintf(`{"type":"response.%s.delta","sequence_number":%d,"item_id":"i%d","output_index":%d,"content_index":0,"delta":%s%s}`,
			kinds[kind], n, index, index, quotedText(rng), noise))
	}
	return append(all, respEnd)
}

// The test above sees the form at work.
func TestFormsAreMatched(t *testing.T) {
	var chat chatAgain
	chat.piece = rawjson.Place{From: 14, To: 17}
	chunk := `{"choices":[{"delta":{"tool_calls":[{"arguments":"a"}]}}]}`
	chat.choices = 1
	at := strings.Index(chunk, `[{"arg`)
	chat.learn(chunk, &chatChoice{said: true, calls: chunk[at : len(chunk)-5], callsAt: at})
	text, ok := chat.form.Match(strings.Replace(chunk, `"a"`, `"bc"`, 1))
	require.True(t, ok)
	require.Equal(t, "bc", text)

	d := &respDecoder{}
	event := `{"type":"response.output_text.delta","sequence_number":1,"delta":"a","output_index":0,"obfuscation":"x"}`
	e, err := d.read(event)
	require.NoError(t, err)
	d.again.learn(event, &e, respMessage, respPlain)
	text, ok = d.again.form.Match(strings.NewReplacer(`:1,`, `:10,`, `"a"`, `"bc"`, `"x"`, `""`).Replace(event))
	require.True(t, ok)
	require.Equal(t, "bc", text)
}
