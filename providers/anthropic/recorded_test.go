package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// suite checks the recordings of one family.
func suite(t *testing.T, family string, least int, opts ...Option) *wiretest.Suite {
	return &wiretest.Suite{
		Family: family,
		Client: func(rt http.RoundTripper, _ *wiretest.Interaction) aycoder.ModelClient {
			return newClient(t, rt, opts...)
		},
		Stop: func(i *wiretest.Interaction) aycoder.StopReason {
			return aycoder.StopReason(strings.ReplaceAll(i.Expected.Finish, "pause_turn", "paused"))
		},
		Usage: wantUsage,
		Skip:  wiretest.CutInCall("tool_use"),
		Error: wrongError,
		More:  wrongBlocks,
		Min:   least,
	}
}

// wantUsage converts the recorded counts: the input excludes cached tokens, the output
// includes those for thinking. "The top-level input_tokens and output_tokens do not include compaction
// iteration usage … To calculate total tokens consumed and billed for a request, sum across all entries
// in the usage.iterations array."
func wantUsage(raw json.RawMessage) aycoder.Usage {
	type counts struct {
		Type       string `json:"type"`
		Input      int64  `json:"input_tokens"`
		Output     int64  `json:"output_tokens"`
		CacheRead  int64  `json:"cache_read_input_tokens"`
		CacheWrite int64  `json:"cache_creation_input_tokens"`
		Details    struct {
			Thinking int64 `json:"thinking_tokens"`
		} `json:"output_tokens_details"`
	}
	var u struct {
		counts
		Iterations []counts `json:"iterations"`
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		panic(err) // a damaged recording
	}
	all := []counts{u.counts}
	for _, c := range u.Iterations {
		if c.Type == "compaction" {
			all = append(all, c)
		}
	}
	var sum aycoder.Usage
	for _, c := range all {
		sum = sum.Add(aycoder.Usage{Input: c.Input, Output: c.Output, Reasoning: c.Details.Thinking,
			CacheRead: c.CacheRead, CacheWrite: c.CacheWrite})
	}
	return sum
}

// wrongError compares text, code and class of an error.
func wrongError(i *wiretest.Interaction, err error) string {
	base, _ := errors.AsType[*aycoder.ModelError](err)
	e := i.Expected.Error
	kind, _, _ := strings.Cut(i.Response.Headers["x-amzn-errortype"], ":")
	if e.Type != "" {
		kind = e.Type
	}
	if base.Kind != kind || base.Err.Error() != e.Message {
		return fmt.Sprintf("want %q, %q", kind, e.Message)
	}
	ok := false
	switch {
	case e.Type == "overloaded_error":
		_, ok = errors.AsType[*aycoder.OverloadedError](err)
	case e.Type == "authentication_error", e.Status == http.StatusForbidden:
		_, ok = errors.AsType[*aycoder.AuthError](err)
	case e.Type == "not_found_error", strings.Contains(e.Message, "model identifier is invalid"):
		_, ok = errors.AsType[*aycoder.UnknownModelError](err)
	case e.Status == http.StatusBadRequest:
		_, ok = errors.AsType[*aycoder.BadRequestError](err)
	}
	if !ok {
		return "wrong type of error"
	}
	return ""
}

// wrongBlocks compares the kinds of blocks and the signatures.
func wrongBlocks(i *wiretest.Interaction, a *wiretest.Answer) (wrong []string) {
	if got := typesOf(a.Parts); !slices.Equal(got, i.Expected.Blocks) {
		wrong = append(wrong, fmt.Sprintf("blocks are %v, want %v", got, i.Expected.Blocks))
	}
	wrong = append(wrong, wiretest.WrongSignatures(i, "thinking", a.Parts)...)
	return wrong
}

func typesOf(parts []aycoder.Part) (types []string) {
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			types = append(types, "text")
		case *aycoder.Thinking:
			types = append(types, "thinking")
		case *aycoder.ToolUse:
			types = append(types, "tool_use")
		case *aycoder.Opaque:
			var head struct{ Type string }
			_ = json.Unmarshal(p.Raw, &head) // else it is ""
			types = append(types, head.Type)
		}
	}
	return types
}

// Every recorded response is decoded as recorded, without exceptions.
func TestRecorded(t *testing.T) { suite(t, "anthropic-messages", 600).Decode(t) }

// A response that is cut off anywhere ends in a typed error.
func TestRecordedCut(t *testing.T) { suite(t, "anthropic-messages", 600).Cut(t, endOfMessage) }

// The recordings of Bedrock, with its frames.
func TestRecordedBedrock(t *testing.T) {
	suite(t, "bedrock-invoke", 60, WithBedrock("us-east-1")).Decode(t)
}

func TestRecordedBedrockCut(t *testing.T) {
	suite(t, "bedrock-invoke", 60, WithBedrock("us-east-1")).Cut(t, func(i *wiretest.Interaction, body string) int {
		if i.Response.Transport == "aws-eventstream" {
			return len(body)
		}
		return endOfMessage(i, body)
	})
}

// endOfMessage returns the length in bytes after which a body is complete.
func endOfMessage(_ *wiretest.Interaction, body string) int {
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		return len(strings.TrimRight(body, " \r\n"))
	}
	if i := strings.LastIndex(body, `"message_stop"`); i >= 0 {
		return i + strings.IndexAny(body[i:], "\r\n")
	}
	return len(body)
}
