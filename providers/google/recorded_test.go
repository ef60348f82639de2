package google

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

const testKey = "AIza-SECRET-0123456789"

func newClient(t testing.TB, rt http.RoundTripper, opts ...Option) *Client {
	t.Helper()
	opts = append([]Option{WithAPIKey(testKey), WithHTTPClient(&http.Client{Transport: rt})}, opts...)
	c, err := New("gemini-test", opts...)
	require.NoError(t, err)
	return c
}

// suite checks all recorded interactions, without exceptions.
func suite(t testing.TB) *wiretest.Suite {
	return &wiretest.Suite{
		Family: "gemini",
		Min:    700,
		Client: func(rt http.RoundTripper, i *wiretest.Interaction) aycoder.ModelClient {
			if strings.Contains(i.Request.Path, "/publishers/") {
				return newClient(t, rt, WithVertex("p", "global"))
			}
			return newClient(t, rt)
		},
		Stop:  wantStop,
		Usage: wantUsage,
		Error: wantError,
		More:  more,
	}
}

// wantStop converts the words of the API.
func wantStop(i *wiretest.Interaction) aycoder.StopReason {
	plain := func(c *wiretest.Call) bool { return c.Kind == "" }
	switch word := i.Expected.Finish; word {
	case "STOP", "1":
		if slices.ContainsFunc(i.Expected.Calls, plain) {
			return aycoder.StopToolUse
		}
		return aycoder.StopEndTurn
	case "MAX_TOKENS", "2":
		return aycoder.StopMaxTokens
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY":
		return aycoder.StopRefusal
	default:
		return aycoder.StopReason(word)
	}
}

func wantUsage(raw json.RawMessage) aycoder.Usage {
	var u struct {
		Prompt     int64 `json:"promptTokenCount"`
		Cached     int64 `json:"cachedContentTokenCount"`
		Tools      int64 `json:"toolUsePromptTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		panic(err)
	}
	return aycoder.Usage{Input: u.Prompt + u.Tools - u.Cached, CacheRead: u.Cached,
		Output: u.Candidates + u.Thoughts, Reasoning: u.Thoughts}
}

// wantError checks the type of an error.
func wantError(i *wiretest.Interaction, err error) string {
	e := i.Expected.Error
	text := strings.ToLower(e.Message)
	var ok bool
	switch {
	case strings.Contains(text, "api key"), e.Type == "UNAUTHENTICATED", e.Type == "PERMISSION_DENIED":
		_, ok = errors.AsType[*aycoder.AuthError](err)
	case strings.Contains(text, "token count"):
		_, ok = errors.AsType[*aycoder.ContextTooLargeError](err)
	case e.Type == "INVALID_ARGUMENT", e.Type == "FAILED_PRECONDITION":
		_, ok = errors.AsType[*aycoder.BadRequestError](err)
	case e.Type == "NOT_FOUND":
		_, ok = errors.AsType[*aycoder.UnknownModelError](err)
	case e.Type == "RESOURCE_EXHAUSTED":
		_, ok = errors.AsType[*aycoder.RateLimitError](err)
	case e.Type == "UNAVAILABLE", e.Type == "INTERNAL":
		_, ok = errors.AsType[*aycoder.OverloadedError](err)
	default:
		_, ok = errors.AsType[*aycoder.ModelError](err)
	}
	base, _ := errors.AsType[*aycoder.ModelError](err)
	switch {
	case !ok:
		return "error is of the wrong type for " + e.Type
	case e.Type != "" && base.Kind != e.Type:
		return "kind is " + base.Kind
	case !strings.Contains(err.Error(), e.Message):
		return "error does not say what the service said"
	}
	return ""
}

// more checks the signatures and the opaque parts.
func more(i *wiretest.Interaction, a *wiretest.Answer) []string {
	var got, want, wrong []string
	for _, s := range signatures(a.Parts) {
		sum := sha256.Sum256([]byte(s.text))
		got = append(got, fmt.Sprint(s.on, " ", len(s.text), " ", hex.EncodeToString(sum[:])))
	}
	for _, s := range i.Expected.Signatures {
		want = append(want, fmt.Sprint(s.On, " ", s.Bytes, " ", s.SHA256))
	}
	if !slices.Equal(got, want) {
		wrong = append(wrong, fmt.Sprintf("signatures are %v, want %v", got, want))
	}
	blocks := 0
	for _, b := range i.Expected.Blocks {
		if b != "text" && b != "thought" && b != "functionCall" {
			blocks++
		}
	}
	for _, p := range a.Parts {
		if o, ok := p.(*aycoder.Opaque); ok && !strings.Contains(string(o.Raw), "Metadata") {
			blocks--
		}
	}
	if blocks != 0 {
		wrong = append(wrong, fmt.Sprintf("blocks are %v", i.Expected.Blocks))
	}
	return wrong
}

type signature struct{ on, text string }

// signatures are those of the parts, in order.
func signatures(parts []aycoder.Part) []signature {
	var list []signature
	add := func(on string, raw json.RawMessage) {
		var s map[string]json.RawMessage
		var text string
		if json.Unmarshal(raw, &s) == nil && json.Unmarshal(s[signatureField], &text) == nil && text != "" {
			for k := range s {
				if k != signatureField {
					on = k
				}
			}
			list = append(list, signature{on, text})
		}
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			if p.Extra != nil {
				add("text", p.Extra.Raw)
			}
		case *aycoder.ToolUse:
			if p.Extra != nil {
				add("functionCall", p.Extra.Raw)
			}
		case *aycoder.Thinking:
			if p.Signature != "" {
				list = append(list, signature{"thought", p.Signature})
			}
		case *aycoder.Opaque:
			add("", p.Raw)
		}
	}
	return list
}

// The sums of the decoded usages equal the totals of the service, except where these are
// inconsistent in the recording itself.
func TestRecorded(t *testing.T) {
	s := suite(t)
	n, differ := 0, 0
	s.More = func(i *wiretest.Interaction, a *wiretest.Answer) []string {
		var u struct {
			Total int64 `json:"totalTokenCount"`
		}
		if got := a.Done.Usage; json.Unmarshal(i.Expected.Usage, &u) == nil && u.Total > 0 {
			n++
			if got.Input+got.CacheRead+got.Output != u.Total {
				differ++
			}
		}
		return more(i, a)
	}
	s.Decode(t)
	t.Logf("%d totals at 3 read sizes, %d differ", n, differ)
	assert.LessOrEqual(t, differ, n/200)
}

// A response that is cut off before the candidate has finished ends in a typed error. A
// later cut cannot be detected, because the service does not mark its last event.
func TestRecordedCut(t *testing.T) { suite(t).Cut(t, endOfAnswer) }

// endOfAnswer returns the number of bytes after which an answer is complete.
func endOfAnswer(i *wiretest.Interaction, body string) int {
	if i.Response.Transport != "sse" {
		return len(strings.TrimRight(body, " \r\n"))
	}
	at := strings.Index(body, `"finishReason"`)
	if at < 0 {
		return len(body)
	}
	end := strings.IndexAny(body[at:], "\r\n")
	return at + end
}
