package openai

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// The usage of a stream is the last one that has tokens, wherever it is.
func TestChatUsageRepeated(t *testing.T) {
	const some, zeros = `"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`, `"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
	chunk := func(rest string) string { return `{"id":"r","choices":[],` + rest + `}` }
	for name, chunks := range map[string][]string{
		"zeros behind":  {chunk(some), chunk(zeros)},
		"empty behind":  {chunk(some), chunk(`"usage":{}`)},
		"zeros before":  {chunk(zeros), chunk(some)},
		"running total": {`"index":0,"delta":{},"usage":{"prompt_tokens":10,"completion_tokens":1}`, `"index":0,"delta":{},` + some},
	} {
		a := chatAsk(t, chatChunks(append(chunks, `"index":0,"delta":{"content":"a"},"finish_reason":"stop"`)...), nil)
		require.NoError(t, a.Err)
		assert.Equal(t, aycoder.Usage{Input: 10, Output: 5}, a.Done.Usage, name)
	}
}

// The total of a service tells which counts its input and output include.
func TestUsageCountedApart(t *testing.T) {
	tests := []struct {
		name, chat, responses string
		want                  aycoder.Usage
	}{
		{"cache inside", `"prompt_tokens":100,"completion_tokens":10,"total_tokens":110,"prompt_tokens_details":{"cached_tokens":60}`,
			`"input_tokens":100,"output_tokens":10,"total_tokens":110,"input_tokens_details":{"cached_tokens":60}`,
			aycoder.Usage{Input: 40, Output: 10, CacheRead: 60}},
		{"cache beside", `"prompt_tokens":100,"completion_tokens":10,"total_tokens":170,"prompt_tokens_details":{"cached_tokens":60}`,
			`"input_tokens":100,"output_tokens":10,"total_tokens":170,"input_tokens_details":{"cached_tokens":60}`,
			aycoder.Usage{Input: 100, Output: 10, CacheRead: 60}},
		{"larger cache beside", `"prompt_tokens":4,"completion_tokens":10,"total_tokens":2014,"cache_read_input_tokens":2000`, "",
			aycoder.Usage{Input: 4, Output: 10, CacheRead: 2000}},
		{"read and written beside", `"prompt_tokens":4,"completion_tokens":10,"total_tokens":2514,"cache_read_input_tokens":2000,"cache_creation_input_tokens":500`,
			`"input_tokens":4,"output_tokens":10,"total_tokens":2514,"input_tokens_details":{"cached_tokens":2000,"cache_write_tokens":500}`,
			aycoder.Usage{Input: 4, Output: 10, CacheRead: 2000, CacheWrite: 500}},
		{"read inside, written beside", `"prompt_tokens":2004,"completion_tokens":10,"total_tokens":2514,"cache_read_input_tokens":2000,"cache_creation_input_tokens":500`, "",
			aycoder.Usage{Input: 4, Output: 10, CacheRead: 2000, CacheWrite: 500}},
		{"cache and reasoning beside", `"prompt_tokens":4,"completion_tokens":10,"total_tokens":2089,"prompt_tokens_details":{"cached_tokens":2000},"completion_tokens_details":{"reasoning_tokens":75}`, "",
			aycoder.Usage{Input: 4, Output: 85, Reasoning: 75, CacheRead: 2000}},
		{"as many cached as thought", `"prompt_tokens":4,"completion_tokens":100,"total_tokens":154,"prompt_tokens_details":{"cached_tokens":50},"completion_tokens_details":{"reasoning_tokens":50}`, "",
			aycoder.Usage{Input: 4, Output: 100, Reasoning: 50, CacheRead: 50}},
		{"a total without the cache, in Anthropic's words", `"prompt_tokens":4,"completion_tokens":10,"total_tokens":14,"cache_read_input_tokens":2000`, "",
			aycoder.Usage{Input: 4, Output: 10, CacheRead: 2000}},
		{"no total", `"prompt_tokens":4,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":2000}`, "",
			aycoder.Usage{Input: 4, Output: 10, CacheRead: 2000}},
		{"more cached than there was", `"prompt_tokens":24,"completion_tokens":2,"total_tokens":26,"prompt_tokens_details":{"cached_tokens":161}`, "",
			aycoder.Usage{Output: 2, CacheRead: 24}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := chatLoop(t, chatChunks(`"index":0,"delta":{"content":"a"},"finish_reason":"stop"`, `{"choices":[],"usage":{`+tt.chat+`}}`))
			require.NoError(t, a.Err)
			assert.Equal(t, tt.want, a.Done.Usage)
			if tt.responses == "" {
				return
			}
			body := respEvents(`{"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{` + tt.responses + `}}}`)
			a = wiretest.Ask(t.Context(), t, respClient(t, wiretest.Answering(t, wiretest.Stream, body)), respHello())
			require.NoError(t, a.Err)
			assert.Equal(t, tt.want, a.Done.Usage, "responses")
		})
	}
}
