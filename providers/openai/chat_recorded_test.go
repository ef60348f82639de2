package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

func chatSuite(t testing.TB) *wiretest.Suite {
	return &wiretest.Suite{
		Family: "openai-chat",
		Min:    2700,
		Client: func(rt http.RoundTripper, _ *wiretest.Interaction) aycoder.ModelClient {
			return newChat(t, rt)
		},
		Stop:  chatRecordedStop,
		Usage: chatRecordedUsage,
		Error: chatRecordedError,
		Call:  chatRecordedCall,
		More:  chatRecordedMore,
	}
}

// chatRecordedCall returns the expected form of a recorded call.
func chatRecordedCall(i *wiretest.Interaction, c wiretest.Call) *wiretest.Call {
	if c.Kind == "custom" { // its argument is a plain string
		input, _ := json.Marshal(map[string]string{"input": c.Raw})
		c.Args = input
	}
	if i.Expected.Finish == "length" && c.Raw == "" { // the arguments were not sent
		c.Valid = new(false)
	}
	return &c
}

func newChat(t testing.TB, rt http.RoundTripper, opts ...Option) *Client {
	t.Helper()
	opts = append([]Option{WithAPIKey("sk-test"), WithHTTPClient(&http.Client{Transport: rt})}, opts...)
	c, err := New("gpt-test", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func chatRecordedStop(i *wiretest.Interaction) aycoder.StopReason {
	e := i.Expected
	finish := e.Finish
	if finish == "" { // the recordings know only one name
		finish = chatFinishDetails(i.Body())
	}
	switch finish {
	case "length", "max_tokens":
		return aycoder.StopMaxTokens
	case "content_filter":
		return aycoder.StopRefusal
	}
	switch {
	case e.Refusal != "":
		return aycoder.StopRefusal
	case len(e.Calls) > 0:
		return aycoder.StopToolUse
	}
	return aycoder.StopEndTurn
}

// chatFinishDetails returns the finish reason of a whole answer in the form of vision
// models.
func chatFinishDetails(body string) string {
	var answer struct {
		Choices []struct {
			Details struct{ Type string } `json:"finish_details"`
		}
	}
	if json.Unmarshal([]byte(body), &answer) != nil || len(answer.Choices) == 0 {
		return ""
	}
	return answer.Choices[0].Details.Type
}

// chatRecordedUsage converts the usage independently of the code under test.
func chatRecordedUsage(raw json.RawMessage) aycoder.Usage {
	var u struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Total      int64 `json:"total_tokens"`
		Reasoning  int64 `json:"reasoning_tokens"`
		Hit        int64 `json:"prompt_cache_hit_tokens"`
		Cached     int64 `json:"cached_tokens"`
		NumCached  int64 `json:"num_cached_tokens"`
		CacheRead  int64 `json:"cache_read_input_tokens"`
		Creation   int64 `json:"cache_creation_input_tokens"`
		In         struct {
			Cached int64 `json:"cached_tokens"`
			Write  int64 `json:"cache_write_tokens"`
			Audio  int64 `json:"audio_tokens"`
		} `json:"prompt_tokens_details"`
		Out struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		panic(err)
	}
	reasoning := max(u.Reasoning, u.Out.Reasoning)
	switch u.Total {
	case u.Prompt + u.Completion: // both counts include everything
	case u.Prompt + u.Completion + reasoning:
		u.Completion += reasoning
	case u.Prompt + u.Completion + u.In.Audio:
		u.Prompt += u.In.Audio
	}
	cached := min(max(u.Hit, u.Cached, u.NumCached, u.CacheRead, u.In.Cached), u.Prompt)
	write := max(u.Creation, u.In.Write)
	if cached+write > u.Prompt { // tokens read from the cache are also counted as written
		write = 0
	}
	return aycoder.Usage{Input: u.Prompt - cached - write, Output: u.Completion,
		Reasoning: min(reasoning, u.Completion), CacheRead: cached, CacheWrite: write}
}

func chatRecordedError(i *wiretest.Interaction, err error) string {
	e := i.Expected.Error
	is := func(ok bool, what string) string {
		if ok {
			return ""
		}
		return "is not a " + what
	}
	switch {
	case strings.Contains(e.Message, "context length"):
		_, ok := errors.AsType[*aycoder.ContextTooLargeError](err)
		return is(ok, "ContextTooLargeError")
	case e.Status == 401 || e.Status == 403 || e.Type == "insufficient_quota":
		_, ok := errors.AsType[*aycoder.AuthError](err)
		return is(ok, "AuthError")
	case e.Status == 429:
		_, ok := errors.AsType[*aycoder.RateLimitError](err)
		return is(ok, "RateLimitError")
	}
	return ""
}

func TestChatRecorded(t *testing.T) { chatSuite(t).Decode(t) }

// A stream is complete after its first finish_reason, and a JSON document after its last
// byte.
func chatComplete(i *wiretest.Interaction, body string) int {
	if s := strings.TrimSpace(body); strings.HasPrefix(s, "{") {
		return len(strings.TrimRight(body, " \t\r\n"))
	}
	at := 0
	for _, line := range strings.SplitAfter(body, "\n") {
		end := at + len(strings.TrimRight(line, "\r\n"))
		at += len(line)
		var chunk struct {
			Choices []struct {
				Finish string `json:"finish_reason"`
			}
		}
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if !ok {
			continue
		}
		if strings.TrimSpace(data) == "[DONE]" {
			return end
		}
		if json.Unmarshal([]byte(data), &chunk) == nil {
			for _, c := range chunk.Choices {
				if c.Finish != "" {
					return end
				}
			}
		}
	}
	return at
}

func TestChatCut(t *testing.T) { chatSuite(t).Cut(t, chatComplete) }

// chatRecordedMore checks the totals, if those of the service are consistent.
func chatRecordedMore(i *wiretest.Interaction, a *wiretest.Answer) []string {
	var u struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Total      int64 `json:"total_tokens"`
	}
	_ = json.Unmarshal(i.Expected.Usage, &u)
	got := a.Done.Usage
	if all := got.Input + got.CacheRead + got.CacheWrite + got.Output; u.Total != 0 && all != u.Total {
		return []string{fmt.Sprintf("usage is %d in total, want %d", all, u.Total)}
	}
	return nil
}
