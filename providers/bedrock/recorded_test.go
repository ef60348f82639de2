package bedrock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/wiretest"
)

func suite(t *testing.T) *wiretest.Suite {
	return &wiretest.Suite{
		Family: "bedrock-converse",
		Client: func(rt http.RoundTripper, _ *wiretest.Interaction) aycoder.ModelClient { return newClient(t, rt) },
		Skip:   wiretest.CutInCall("toolUse"),
		Stop: func(i *wiretest.Interaction) aycoder.StopReason {
			if f := i.Expected.Finish; f != "guardrail_intervened" && f != "content_filtered" {
				return aycoder.StopReason(f)
			}
			return aycoder.StopRefusal
		},
		Usage: wantUsage,
		Error: wrongError,
		More:  wrongBlocks,
		Min:   200,
	}
}

// wantUsage converts the recorded counts: the input excludes cached tokens.
func wantUsage(raw json.RawMessage) aycoder.Usage {
	var u struct{ InputTokens, OutputTokens, CacheReadInputTokens, CacheWriteInputTokens int64 }
	if err := json.Unmarshal(raw, &u); err != nil {
		panic(err) // a damaged recording
	}
	return aycoder.Usage{Input: u.InputTokens, Output: u.OutputTokens, CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheWriteInputTokens}
}

func wrongError(i *wiretest.Interaction, err error) string {
	base, _ := errors.AsType[*aycoder.ModelError](err)
	if base.Err.Error() != i.Expected.Error.Message {
		return fmt.Sprintf("want %q", i.Expected.Error.Message)
	}
	ok := false
	switch i.Expected.Error.Status {
	case http.StatusForbidden, http.StatusUnauthorized:
		_, ok = errors.AsType[*aycoder.AuthError](err)
	case http.StatusNotFound:
		_, ok = errors.AsType[*aycoder.UnknownModelError](err)
	case http.StatusTooManyRequests:
		_, ok = errors.AsType[*aycoder.RateLimitError](err)
	case http.StatusBadRequest:
		_, ok = errors.AsType[*aycoder.BadRequestError](err)
	}
	if !ok {
		return "wrong type of error"
	}
	return ""
}

// wrongBlocks compares the kinds of blocks, the signatures and the tokens.
func wrongBlocks(i *wiretest.Interaction, a *wiretest.Answer) (wrong []string) {
	if got := kindsOf(a.Parts); !slices.Equal(got, i.Expected.Blocks) {
		wrong = append(wrong, fmt.Sprintf("blocks are %v, want %v", got, i.Expected.Blocks))
	}
	wrong = append(wrong, wiretest.WrongSignatures(i, "reasoningContent", a.Parts)...)
	var usage struct{ TotalTokens int64 }
	_ = json.Unmarshal(i.Expected.Usage, &usage) // else it is 0
	u := a.Done.Usage
	if sum := u.Input + u.Output + u.CacheRead + u.CacheWrite; sum != usage.TotalTokens {
		wrong = append(wrong, fmt.Sprintf("tokens are %d, want %d", sum, usage.TotalTokens))
	}
	return wrong
}

func kindsOf(parts []aycoder.Part) (kinds []string) {
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			kinds = append(kinds, "text")
		case *aycoder.Thinking:
			kinds = append(kinds, "reasoningContent")
		case *aycoder.ToolUse:
			kinds = append(kinds, "toolUse")
		case *aycoder.Opaque:
			kinds = append(kinds, rawjson.Split(p.Raw)[0].Key)
		}
	}
	return kinds
}

// Every recorded response is decoded as recorded.
func TestRecorded(t *testing.T) { suite(t).Decode(t) }

// A response that is cut off anywhere ends in a typed error.
func TestRecordedCut(t *testing.T) { suite(t).Cut(t, endOfMessage) }

// endOfMessage returns the number of bytes after which a body is complete; the usage
// behind them may be missing.
func endOfMessage(i *wiretest.Interaction, body string) int {
	if i.Response.Transport == "json" {
		return len(strings.TrimRight(body, " \r\n"))
	}
	counted := &counter{r: strings.NewReader(body)}
	next := eventstream.Events(wiretest.Sized(counted, 1))
	for {
		ev, err := next()
		if err != nil {
			break
		}
		if ev.Type == "messageStop" {
			return counted.n
		}
	}
	return len(body)
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// Conversations of several steps are replayed: each response is decoded, stored, and sent
// back with the results of its calls. Signed parts are sent back unchanged.
func TestRecordedSteps(t *testing.T) {
	var cases, steps, signatures, blocks int
	wiretest.EachWith(t, "bedrock-converse", func(rec *wiretest.Recording) {
		var all []*wiretest.Interaction
		for _, i := range rec.Interactions {
			if i.Family == "bedrock-converse" && i.Response.Status == http.StatusOK && i.Expected != nil && i.Expected.Complete {
				all = append(all, i)
			}
		}
		if len(all) == 0 || rec.Origin == "suspect" {
			return
		}
		cases++
		history := []*aycoder.Message{aycoder.User("begin")}
		var before []byte
		for _, i := range all {
			steps++
			c := newClient(t, i.Transport(i.Body(), 1<<20))
			a := wiretest.Ask(t.Context(), t, c, hello())
			require.NoError(t, a.Err, rec.ID)
			m := wiretest.Stored(t, a.Message())
			reply := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "go on"}}}
			for _, call := range m.Calls() {
				reply.Parts = append(reply.Parts, &aycoder.ToolOutput{ID: call.ID, Name: call.Name, Parts: []aycoder.Part{&aycoder.Text{Text: "ok"}}})
			}
			tool := &aycoder.ToolSpec{Name: "t"}
			history = append(history, m, reply)
			body, err := c.wire(&aycoder.Request{Messages: history, Tools: []*aycoder.ToolSpec{tool}, NoCache: true})
			require.NoError(t, err)
			require.True(t, json.Valid(body), "%s: %s", rec.ID, body)
			require.True(t, bytes.HasPrefix(body, bytes.TrimSuffix(before, []byte("]}]}"))), rec.ID)
			before = body
			for _, p := range m.Parts {
				switch p := p.(type) {
				case *aycoder.Thinking:
					if p.Signature != "" {
						signatures++
						assert.Contains(t, string(body), `"signature":"`+p.Signature+`"`, rec.ID)
					}
				case *aycoder.Opaque:
					blocks++
					assert.Contains(t, string(body), string(p.Raw), rec.ID)
					if i.Response.Transport == "json" {
						assert.Contains(t, i.Body(), string(p.Raw), "%s: as it came", rec.ID)
					}
				}
			}
		}
	})
	t.Logf("%d cases, %d steps, %d signatures, %d blocks of the service's own", cases, steps, signatures, blocks)
	assert.Greater(t, steps, 200)
	assert.GreaterOrEqual(t, signatures, 5)
	assert.GreaterOrEqual(t, blocks, 5)
}
