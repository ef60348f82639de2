package openai

import (
	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// chatUsage is the usage as services send it. The last one of an answer counts: where
// there are several, they are totals so far.
type chatUsage struct {
	seen                          bool
	input, output, total          int64
	reasoning, cached, cacheWrite int64
	audio                         int64 // of the input
}

func readChatUsage(r *rawjson.Reader) chatUsage {
	u := chatUsage{seen: true}
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "prompt_tokens":
			u.input = tokenCount(r)
		case "completion_tokens":
			u.output = tokenCount(r)
		case "total_tokens":
			u.total = tokenCount(r)
		case "reasoning_tokens":
			chatMost(r, &u.reasoning)
		case "cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens", "cache_read_input_tokens":
			chatMost(r, &u.cached)
		case "cache_creation_input_tokens", "cache_write_tokens":
			chatMost(r, &u.cacheWrite)
		case "prompt_tokens_details":
			u.inputDetails(r)
		case "completion_tokens_details":
			for r.Object(); r.Next(); {
				if r.Key() == "reasoning_tokens" {
					chatMost(r, &u.reasoning)
				}
			}
		}
	}
	return u
}

func (u *chatUsage) inputDetails(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "cached_tokens":
			chatMost(r, &u.cached)
		case "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens":
			chatMost(r, &u.cacheWrite)
		case "audio_tokens":
			chatMost(r, &u.audio)
		}
	}
}

// chatMost reads a number that is there under several names.
func chatMost(r *rawjson.Reader, to *int64) {
	*to = max(*to, tokenCount(r))
}

// usage sorts the tokens. The total tells where a service counts apart what others
// count in: xAI its reasoning, Mistral sounds. What is cached is part of the input, and
// never more than it: "prompt_tokens: 24, cached_tokens: 161, total_tokens: 26" is real.
func (u chatUsage) usage() aycoder.Usage {
	input, output := u.input, u.output
	if more := u.total - input - output; more > 0 {
		switch more {
		case u.reasoning:
			output += more
		case u.audio:
			input += more
		}
	}
	cached := min(u.cached, input)
	written := u.cacheWrite
	if written > input-cached { // what was read is also said to be written
		written = 0
	}
	return aycoder.Usage{
		Input: input - cached - written, Output: output, Reasoning: min(u.reasoning, output),
		CacheRead: cached, CacheWrite: written,
	}
}
