package ollama_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers/ollama"
)

func clientOf(t testing.TB, rt http.RoundTripper, opts ...ollama.Option) *ollama.Client {
	t.Helper()
	c, err := ollama.New("qwen3:4b", append([]ollama.Option{ollama.WithBaseURL("http://ollama.test"),
		ollama.WithHTTPClient(&http.Client{Transport: rt})}, opts...)...)
	require.NoError(t, err)
	return c
}

func suite(t testing.TB) *wiretest.Suite {
	return &wiretest.Suite{
		Family: "ollama", Min: 36,
		Client: func(rt http.RoundTripper, _ *wiretest.Interaction) aycoder.ModelClient { return clientOf(t, rt) },
		Stop: func(i *wiretest.Interaction) aycoder.StopReason {
			switch {
			case i.Expected.Finish == "length":
				return aycoder.StopMaxTokens
			case len(i.Expected.Calls) > 0:
				return aycoder.StopToolUse
			}
			return aycoder.StopEndTurn
		},
		Usage: func(raw json.RawMessage) aycoder.Usage {
			var u struct {
				In  int64 `json:"prompt_eval_count"`
				Out int64 `json:"eval_count"`
			}
			require.NoError(t, json.Unmarshal(raw, &u))
			return aycoder.Usage{Input: u.In, Output: u.Out}
		},
		Error: func(_ *wiretest.Interaction, err error) string {
			if _, ok := errors.AsType[*aycoder.UnknownModelError](err); !ok {
				return "not the error for an unknown model"
			}
			return ""
		},
	}
}

func TestRecordedDecode(t *testing.T) { suite(t).Decode(t) }

func TestRecordedCut(t *testing.T) {
	// The final line end does not belong to the answer.
	suite(t).Cut(t, func(_ *wiretest.Interaction, body string) int { return len(strings.TrimRight(body, " \r\n")) })
}

// sentMessage has the compared fields of a message in a request.
type sentMessage struct {
	Role     string
	Content  string
	Thinking string
	Calls    []struct {
		Function struct {
			Name      string
			Arguments map[string]any
		}
	} `json:"tool_calls"`
	ToolName string `json:"tool_name"`
}

func sentMessages(t *testing.T, body []byte) []sentMessage {
	var req struct{ Messages []sentMessage }
	require.NoError(t, json.Unmarshal(body, &req))
	for i, m := range req.Messages {
		if len(m.Calls) == 0 {
			req.Messages[i].Calls = nil
		}
	}
	return req.Messages
}

// Conversations of several steps are replayed: each response is decoded, stored, and sent
// back with the results of its calls. The next request must contain it as the recorded
// client sent it.
func TestRecordedSteps(t *testing.T) {
	cases, compared := 0, 0
	wiretest.EachWith(t, `"ollama"`, func(rec *wiretest.Recording) {
		var steps []*wiretest.Interaction
		for _, i := range rec.Interactions {
			if i.Family == "ollama" && i.Kind == "inference" && i.Request.Path == "/api/chat" && i.Expected.Complete {
				steps = append(steps, i)
			}
		}
		if len(steps) < 2 {
			return
		}
		cases++
		compared += replay(t, rec.ID, steps)
	})
	t.Logf("%d conversations, %d answers that went back", cases, compared)
	assert.Positive(t, compared)
}

func replay(t *testing.T, id string, steps []*wiretest.Interaction) (compared int) {
	history := []*aycoder.Message{aycoder.User("begin")}
	var before []byte
	for k, i := range steps {
		rec := &recorder{next: i.Transport(i.Body(), 7)}
		a := wiretest.Ask(t.Context(), t, clientOf(t, rec), &aycoder.Request{Messages: history})
		require.NoError(t, a.Err, id)
		body := rec.body()
		require.True(t, strings.HasPrefix(string(body), strings.TrimSuffix(string(before), "]}")), id)
		before = body
		m := wiretest.Stored(t, a.Message())
		history = append(history, m)
		if k+1 == len(steps) {
			break
		}
		asked := sentMessages(t, steps[k+1].RequestBody())
		want := answerIn(asked, m)
		if want == nil { // the next request belongs to another conversation
			continue
		}
		compared++
		for _, call := range m.Calls() {
			history = append(history, &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
				&aycoder.ToolOutput{ID: call.ID, Name: call.Name, Parts: []aycoder.Part{&aycoder.Text{Text: "5"}}}}})
		}
		sent := sentMessages(t, encoded(t, &aycoder.Request{Messages: history}))
		got := answerIn(sent, m)
		require.NotNil(t, got, id)
		assert.Equal(t, want.Content, got.Content, id)
		assert.Equal(t, want.Calls, got.Calls, id)
		if want.Thinking != "" { // some clients leave it out
			assert.Equal(t, want.Thinking, got.Thinking, id)
		}
	}
	return compared
}

// answerIn finds an answer in a request.
func answerIn(messages []sentMessage, m *aycoder.Message) *sentMessage {
	for i, s := range messages {
		if s.Role != "assistant" || s.Content != m.Text() || len(s.Calls) != len(m.Calls()) {
			continue
		}
		return &messages[i]
	}
	return nil
}

// A recorded pull is read to its end.
func TestRecordedPull(t *testing.T) {
	pulls, lines := 0, 0
	wiretest.EachWith(t, `"ollama"`, func(rec *wiretest.Recording) {
		for _, i := range rec.Interactions {
			if i.Request.Path != "/api/pull" || i.Response.Status != http.StatusOK {
				continue
			}
			pulls++
			body := i.Body()
			last := ollama.PullProgress{}
			for p, err := range clientOf(t, i.Transport(body, 7)).Pull(t.Context(), "gemma3:1b") {
				require.NoError(t, err, rec.ID)
				assert.LessOrEqual(t, p.Completed, p.Total)
				last = p
				lines++
			}
			assert.Equal(t, ollama.PullProgress{Status: "success"}, last, rec.ID)
			cut := strings.LastIndex(strings.TrimSpace(body), "\n")
			var err error
			for _, err = range clientOf(t, i.Transport(body[:cut+3], 7)).Pull(t.Context(), "gemma3:1b") {
			}
			_, ok := errors.AsType[*aycoder.StreamBrokenError](err)
			assert.True(t, ok, "%s cut: %v", rec.ID, err)
		}
	})
	t.Logf("%d pulls, %d lines", pulls, lines)
	assert.Positive(t, pulls)
}
