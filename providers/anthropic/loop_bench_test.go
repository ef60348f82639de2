//go:build unix

package anthropic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers/anthropic"
)

// TestMain serves scripted answers when the benchmark below starts the test binary as its
// server.
func TestMain(m *testing.M) {
	if !wiretest.ServeSelf(newScript()) {
		os.Exit(m.Run())
	}
}

// newScript answers POST /<turns>/v1/messages with three calls for that many turns, and
// then with text. It checks that each body begins with the previous one.
func newScript() http.Handler {
	var mu sync.Mutex
	turn, last := 0, []byte(nil)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if req.URL.Path == "/reset" {
			turn, last = 0, nil
			return
		}
		if !bytes.HasPrefix(body, bytes.TrimSuffix(last, []byte("]}"))) {
			http.Error(w, "the body does not begin with the one before", http.StatusBadRequest)
			return
		}
		turn, last = turn+1, body
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(scriptedAnswer(turn, 100))
	})
}

func scriptedAnswer(turn, turns int) []byte {
	var b bytes.Buffer
	send := func(event string, format string, args ...any) {
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", event, fmt.Sprintf(format, args...))
	}
	block := func(i int, start string, deltas ...string) {
		send("content_block_start", `{"type":"content_block_start","index":%d,"content_block":%s}`, i, start)
		for _, d := range deltas {
			send("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":%s}`, i, d)
		}
		send("content_block_stop", `{"type":"content_block_stop","index":%d}`, i)
	}
	send("message_start", `{"type":"message_start","message":{"id":"msg_%d","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":10,"output_tokens":1}}}`, turn)
	var text []string
	for range 20 {
		text = append(text, `{"type":"text_delta","text":"some words "}`)
	}
	block(0, `{"type":"text","text":""}`, text...)
	stop := "end_turn"
	for i := 1; i <= 3 && turn <= turns; i++ {
		stop = "tool_use"
		var args []string
		for _, piece := range []string{`{"query":"`, strings.Repeat("words ", 16), `","limit":`, `7}`} {
			q, _ := json.Marshal(piece)
			args = append(args, fmt.Sprintf(`{"type":"input_json_delta","partial_json":%s}`, q))
		}
		block(i, fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d_%d","name":"lookup","input":{}}`, turn, i), args...)
	}
	send("message_delta", `{"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":20}}`, stop)
	send("message_stop", `{"type":"message_stop"}`)
	return b.Bytes()
}

type lookup struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

// BenchmarkHTTPLoop runs 100 turns of three calls over loopback against a server in a
// separate process, which checks that each body begins with the previous one. It reports
// the CPU time of this process for each step: one response, three tools, one request.
func BenchmarkHTTPLoop(b *testing.B) {
	base := "http://" + wiretest.StartSelf(b)
	result := strings.Repeat("the quick brown fox ", 51)
	tool, err := aycoder.NewTool("lookup", "Looks up.", func(context.Context, *aycoder.Invocation, lookup) (*aycoder.ToolResult, error) {
		return aycoder.TextResult(result), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(b, err)
	client, err := anthropic.New("m", anthropic.WithAPIKey("k"), anthropic.WithBaseURL(base))
	require.NoError(b, err)
	var cpu time.Duration
	for b.Loop() {
		resp, err := http.Post(base+"/reset", "", nil)
		require.NoError(b, err)
		resp.Body.Close()
		loop, err := aycoder.New(client, aycoder.WithTools(tool), aycoder.WithLimits(aycoder.Limits{Turns: 200}))
		require.NoError(b, err)
		before, tools := timed.CPU(), 0
		for ev, err := range loop.Run(b.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(b, err)
			if _, ok := ev.(*aycoder.ToolFinished); ok {
				tools++
			}
		}
		cpu += timed.CPU() - before
		require.Equal(b, 300, tools)
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N)/101, "cpu-µs/step")
}

// BenchmarkHTTPFloor sends bodies of the same sizes with net/http and discards the
// answers: the lower bound for any client.
func BenchmarkHTTPFloor(b *testing.B) {
	base := "http://" + wiretest.StartSelf(b)
	step := bytes.Repeat([]byte("x"), 4300)
	var cpu time.Duration
	for b.Loop() {
		resp, err := http.Post(base+"/reset", "", nil)
		require.NoError(b, err)
		resp.Body.Close()
		before := timed.CPU()
		var body []byte
		for range 101 {
			resp, err := http.Post(base+"/v1/messages", "application/json", bytes.NewReader(body))
			require.NoError(b, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(b, err)
			require.NoError(b, resp.Body.Close())
			body = append(body, step...)
		}
		cpu += timed.CPU() - before
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N)/101, "cpu-µs/step")
}
