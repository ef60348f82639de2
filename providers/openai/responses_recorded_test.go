package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// respClient returns a client that uses rt.
func respClient(t testing.TB, rt http.RoundTripper, opts ...Option) *Client {
	t.Helper()
	c, err := New("gpt-test", append([]Option{WithResponses(true), WithAPIKey("sk-test-key"),
		WithHTTPClient(&http.Client{Transport: rt})}, opts...)...)
	require.NoError(t, err)
	return c
}

func respSuite(t testing.TB) *wiretest.Suite {
	return &wiretest.Suite{
		Family: "openai-responses",
		Client: func(rt http.RoundTripper, _ *wiretest.Interaction) aycoder.ModelClient { return respClient(t, rt) },
		Stop:   respWantStop,
		Usage:  respWantUsage,
		Error:  respWrongError,
		More:   respWrongParts,
		Min:    800,
	}
}

func TestResponsesRecorded(t *testing.T) { respSuite(t).Decode(t) }

// A response is complete with its last event; only [DONE] may follow.
func TestResponsesRecordedCut(t *testing.T) {
	respSuite(t).Cut(t, func(_ *wiretest.Interaction, body string) int {
		if strings.HasPrefix(strings.TrimSpace(body), "{") {
			return len(strings.TrimRight(body, " \r\n"))
		}
		last := 0
		for _, name := range []string{"completed", "incomplete", "failed"} {
			for _, form := range []string{`"type":"response.` + name + `"`, `"type": "response.` + name + `"`} {
				last = max(last, strings.LastIndex(body, form))
			}
		}
		return last + strings.Index(body[last:], "\n\n")
	})
}

// respWantStop derives the stop reason from the status and the contents of the answer.
func respWantStop(i *wiretest.Interaction) aycoder.StopReason {
	plain := slices.ContainsFunc(i.Expected.Calls, func(c *wiretest.Call) bool { return c.Kind == "" })
	switch f := i.Expected.Finish; {
	case f == "incomplete/max_output_tokens", f == "incomplete":
		return aycoder.StopMaxTokens
	case f == "incomplete/content_filter", i.Expected.Refusal != "":
		return aycoder.StopRefusal
	case f != "completed" && f != "complete":
		return aycoder.StopReason(f)
	case plain:
		return aycoder.StopToolUse
	}
	return aycoder.StopEndTurn
}

func respWantUsage(raw json.RawMessage) aycoder.Usage {
	var u struct {
		In    int64 `json:"input_tokens"`
		Out   int64 `json:"output_tokens"`
		InDet struct {
			Cached int64 `json:"cached_tokens"`
			Write  int64 `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutDet struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		panic(err) // a damaged recording
	}
	return aycoder.Usage{Input: u.In - u.InDet.Cached - u.InDet.Write, Output: u.Out, Reasoning: u.OutDet.Reasoning,
		CacheRead: u.InDet.Cached, CacheWrite: u.InDet.Write}
}

// respWrongError checks the class of an error.
func respWrongError(i *wiretest.Interaction, err error) string {
	code := strings.Trim(string(i.Expected.Error.Code), `"`)
	_, isAuth := errors.AsType[*aycoder.AuthError](err)
	_, isModel := errors.AsType[*aycoder.UnknownModelError](err)
	_, isRate := errors.AsType[*aycoder.RateLimitError](err)
	_, isLarge := errors.AsType[*aycoder.ContextTooLargeError](err)
	// the request alone exceeds the limit
	alone := strings.Contains(i.Expected.Error.Message, "Request too large")
	switch {
	case i.Expected.Error.Status == http.StatusUnauthorized && !isAuth:
		return "want an AuthError"
	case code == "model_not_found" && !isModel:
		return "want an UnknownModelError"
	case code == "rate_limit_exceeded" && !alone && !isRate, alone && !isLarge:
		return "want a RateLimitError, or a ContextTooLargeError if it never fits"
	}
	return ""
}

// respWrongParts checks that every item of the answer is present and in order, and that
// all data that must be sent back is kept.
func respWrongParts(i *wiretest.Interaction, a *wiretest.Answer) (wrong []string) {
	var got []string
	for _, p := range a.Parts {
		kind := ""
		switch p := p.(type) {
		case *aycoder.Text:
			kind = "message"
		case *aycoder.Thinking:
			if kind = "reasoning"; p.Signature == "" {
				continue // a part of the next item
			}
		case *aycoder.ToolUse:
			kind = "function_call"
		case *aycoder.Opaque:
			kind, _ = respHead(string(p.Raw))
		}
		got = append(got, kind)
	}
	want := slices.Clone(i.Expected.Blocks)
	if i.Expected.Text+i.Expected.Refusal == "" { // empty messages do not become parts
		want = slices.DeleteFunc(want, func(s string) bool { return s == "message" })
	}
	if !slices.Equal(got, want) {
		wrong = append(wrong, fmt.Sprintf("items are %v, want %v", got, want))
	}
	for _, s := range i.Expected.Signatures {
		if !slices.ContainsFunc(a.Parts, func(p aycoder.Part) bool { return respSigned(p, s) }) {
			wrong = append(wrong, fmt.Sprintf("encrypted content of %d bytes is lost", s.Bytes))
		}
	}
	return wrong
}
