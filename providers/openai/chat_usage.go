package openai

import (
	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// chatUsage is the usage as sent by services. The last one of an answer is used, since
// several are running totals.
type chatUsage struct {
	seen                          bool
	input, output, total          int64
	reasoning, cached, cacheWrite int64
	audio                         int64 // of the input
	anthropic                     bool  // the cache counts have Anthropic's names
}

// take reads the usage of a later chunk. One without tokens does not replace one with tokens:
// some services end a stream with zeros.
func (u *chatUsage) take(r *rawjson.Reader) {
	if next := readChatUsage(r); !u.seen || next.input+next.output > 0 {
		*u = next
	}
}

// readChatUsage reads the counts under all the names that services have for them. No
// service uses two names for different things.
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
		case "cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens":
			chatMost(r, &u.cached)
		case "cache_write_tokens":
			chatMost(r, &u.cacheWrite)
		case "cache_read_input_tokens":
			u.anthropic = true
			chatMost(r, &u.cached)
		case "cache_creation_input_tokens":
			u.anthropic = true
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

// inputDetails reads the parts of the input.
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

// chatMost reads a number that has several names, and keeps the largest.
func chatMost(r *rawjson.Reader, to *int64) {
	*to = max(*to, tokenCount(r))
}

// usage converts the token counts. The total reveals which counts a service excludes that
// others include: xAI excludes reasoning, Mistral audio, gateways to Anthropic's models
// cache reads and writes.
func (u *chatUsage) usage() aycoder.Usage {
	apart := u.apart()
	input, output := u.input+apart.audio, u.output+apart.reasoning
	cached, written := u.cached, u.cacheWrite
	// a real example: "prompt_tokens: 24, cached_tokens: 161, total_tokens: 26"
	if apart.cached == 0 {
		cached = min(cached, input)
		input -= cached
	}
	if apart.cacheWrite == 0 {
		if written > input { // tokens read from the cache are also counted as written
			written = 0
		}
		input -= written
	}
	return aycoder.Usage{Input: input, Output: output, Reasoning: min(u.reasoning, output),
		CacheRead: cached, CacheWrite: written}
}

// apart returns the counts that the total includes in addition to input and output. It
// first tries the counts that cannot be included in these. Without a usable total, cache
// counts larger than the input are separate if they have Anthropic's names, because that
// input always excludes them.
func (u *chatUsage) apart() (found chatUsage) {
	more := u.total - u.input - u.output
	if more <= 0 {
		if (u.total == 0 || u.anthropic) && u.cached+u.cacheWrite > u.input {
			found.cached, found.cacheWrite = u.cached, u.cacheWrite
		}
		return found
	}
	best := -1
	for set := range 1 << 4 {
		var s chatUsage
		take := func(bit int, from int64, to *int64) {
			if set&bit != 0 {
				*to = from
			}
		}
		take(1, u.reasoning, &s.reasoning)
		take(2, u.audio, &s.audio)
		take(4, u.cached, &s.cached)
		take(8, u.cacheWrite, &s.cacheWrite)
		if s.reasoning+s.audio+s.cached+s.cacheWrite != more {
			continue
		}
		fits := 0
		if u.reasoning-s.reasoning <= u.output {
			fits++
		}
		if u.cached-s.cached+u.cacheWrite-s.cacheWrite <= u.input {
			fits++
		}
		if fits > best {
			found, best = s, fits
		}
	}
	return found
}
