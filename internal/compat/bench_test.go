//go:build unix

package compat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	sdkanthropic "github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	sdkopenai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers/openai"
)

// A script returns its answers in turn, size bytes a read, and starts over at the end.
type script struct {
	answers []string
	size    int
	next    int
}

// RoundTrip implements [http.RoundTripper].
func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	answer := s.answers[s.next%len(s.answers)]
	s.next++
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Request: r,
		Body:    io.NopCloser(wiretest.Sized(strings.NewReader(answer), s.size))}, nil
}

// A contest is a stream that every contestant decodes.
type contest struct {
	name   string
	stream string
	answer string // the answer to the result of the call
	ours   func(t testing.TB, rt http.RoundTripper) aycoder.ModelClient
	sdk    func(t testing.TB, rt *http.Client) (text string)
	// marks identify the data of deltas, and fields precede the string in them. The last
	// ones are those of text.
	marks, fields []string
}

func contests() []*contest {
	chat, answers := flavour{"", "gpt-4o", nil}, flavour{"", "gpt-5", []openai.Option{openai.WithResponses(true)}}
	return []*contest{
		{"anthropic", anthropicStream(), anthropicAnswer,
			func(t testing.TB, rt http.RoundTripper) aycoder.ModelClient { return anthropicOver(t, rt, "m") }, decodeAnthropic,
			[]string{`"input_json_delta"`, `"thinking_delta"`, `"text_delta"`}, []string{`"partial_json":`, `"thinking":`,
				`"text":`}},
		{"openai-chat", chatStream(), chatAnswer,
			func(t testing.TB, rt http.RoundTripper) aycoder.ModelClient { return openaiClient(t, rt, chat) }, decodeChat,
			[]string{`"arguments":`, `"reasoning_content":`, `"content":`}, []string{`"arguments":`, `"reasoning_content":`,
				`"content":`}},
		{"openai-responses", responsesStream(), responsesAnswer,
			func(t testing.TB, rt http.RoundTripper) aycoder.ModelClient {
				return openaiClient(t, rt,
					answers)
			}, decodeResponses,
			[]string{`"response.function_call_arguments.delta"`, `"response.reasoning_summary_text.delta"`,
				`"response.output_text.delta"`},
			[]string{`"delta":`, `"delta":`, `"delta":`}},
		{"google", googleStream(), googleAnswer,
			func(t testing.TB, rt http.RoundTripper) aycoder.ModelClient {
				return googleClient(t, rt, "gemini-2.5-flash", false)
			}, decodeGoogle,
			[]string{`"thought": true`, `"text": `}, []string{`"text": `, `"text": `}},
	}
}

// floor is the least code that joins the texts: it scans lines for a mark of the event and
// takes the string after a field.
func (c *contest) floor(r io.Reader) string {
	texts := make([]strings.Builder, len(c.marks))
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), 1<<20)
	for s.Scan() {
		data, ok := bytes.CutPrefix(s.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		for i, mark := range c.marks {
			if !bytes.Contains(data, []byte(mark)) {
				continue
			}
			if _, rest, ok := bytes.Cut(data, []byte(c.fields[i])); ok {
				unquote(&texts[i], rest)
			}
			break
		}
	}
	return texts[len(texts)-1].String()
}

// unquote appends the string at the start of data.
func unquote(text *strings.Builder, data []byte) {
	end := 1
	escaped := false
	for ; end < len(data) && data[end] != '"'; end++ {
		if data[end] == '\\' {
			escaped = true
			end++
		}
	}
	if !escaped {
		text.Write(data[1:end])
		return
	}
	var s string
	if json.Unmarshal(data[:end+1], &s) == nil {
		text.WriteString(s)
	}
}

// run is our contestant: a loop with a tool, and the deltas of its events.
func run(t testing.TB, loop *aycoder.Loop) string {
	var b strings.Builder
	for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := ev.(*aycoder.TextDelta); ok {
			b.WriteString(d.Text)
		}
	}
	return b.String()
}

type lookup struct {
	Query string `json:"query"`
}

func (c *contest) loop(t testing.TB, size int, answers ...string) *aycoder.Loop {
	t.Helper()
	tool, err := aycoder.NewTool("lookup", "Looks up.", func(context.Context, *aycoder.Invocation,
		lookup) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("found"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	loop, err := aycoder.New(c.ours(t, &script{answers: answers, size: size}), aycoder.WithTools(tool))
	require.NoError(t, err)
	return loop
}

func decodeAnthropic(t testing.TB, hc *http.Client) string {
	c := sdkanthropic.NewClient(anthropicoption.WithAPIKey("key"), anthropicoption.WithHTTPClient(hc))
	s := c.Messages.NewStreaming(t.Context(), sdkanthropic.MessageNewParams{Model: "m", MaxTokens: 9,
		Messages: []sdkanthropic.MessageParam{sdkanthropic.NewUserMessage(sdkanthropic.NewTextBlock("go"))}})
	var m sdkanthropic.Message
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			t.Fatal(err)
		}
	}
	require.NoError(t, s.Err())
	return m.Content[1].Text
}

func decodeChat(t testing.TB, hc *http.Client) string {
	c := openaiSDK(hc)
	s := c.Chat.Completions.NewStreaming(t.Context(), sdkopenai.ChatCompletionNewParams{Model: "m",
		Messages: []sdkopenai.ChatCompletionMessageParamUnion{sdkopenai.UserMessage("go")}})
	var acc sdkopenai.ChatCompletionAccumulator
	for s.Next() {
		if !acc.AddChunk(s.Current()) {
			t.Fatal("chunk is not accumulated")
		}
	}
	require.NoError(t, s.Err())
	return acc.Choices[0].Message.Content
}

// decodeResponses joins the text itself, because the SDK's accumulator is only for its
// WebSocket connections.
func decodeResponses(t testing.TB, hc *http.Client) string {
	c := openaiSDK(hc)
	s := c.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{Model: "m",
		Input: responses.ResponseNewParamsInputUnion{OfString: sdkopenai.String("go")}})
	var text strings.Builder
	for s.Next() {
		if ev := s.Current(); ev.Type == "response.output_text.delta" {
			text.WriteString(ev.Delta)
		}
	}
	require.NoError(t, s.Err())
	return text.String()
}

// decodeGoogle joins the text itself, because the SDK has no accumulator.
func decodeGoogle(t testing.TB, hc *http.Client) string {
	c, err := genai.NewClient(t.Context(), &genai.ClientConfig{Backend: genai.BackendGeminiAPI, APIKey: "key",
		HTTPClient: hc})
	require.NoError(t, err)
	var text strings.Builder
	for resp, err := range c.Models.GenerateContentStream(t.Context(), "m", genai.Text("go"), nil) {
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range resp.Candidates[0].Content.Parts {
			if !p.Thought {
				text.WriteString(p.Text)
			}
		}
	}
	return text.String()
}

// measure runs f, which must return text, and reports CPU time and allocations for each
// delta, including those of the garbage collector and of all goroutines.
func measure(b *testing.B, text string, f func() string) {
	if got := f(); got != text {
		b.Fatalf("text is %.80q of %d bytes, want %.80q of %d", got, len(got), text, len(text))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := cpuTime()
	for b.Loop() {
		f()
	}
	cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	events := float64(b.N) * benchDeltas
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/events, "ns/event")
	b.ReportMetric(float64(cpu.Nanoseconds())/events, "cpu-ns/event")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/events, "allocs/event")
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // of the process itself
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkDecode decodes a stream of 10,000 deltas from bytes: by the floor, by us to
// the events of a run, and by the official SDK with its accumulator, where it has one.
func BenchmarkDecode(b *testing.B) {
	for _, c := range contests() {
		text := c.floor(strings.NewReader(c.stream))
		b.Run(c.name+"/floor", func(b *testing.B) {
			rt := &http.Client{Transport: &script{answers: []string{c.stream}, size: 64 << 10}}
			measure(b, text, func() string {
				resp, err := rt.Post("http://localhost", "application/json", strings.NewReader("{}"))
				if err != nil {
					b.Fatal(err)
				}
				defer resp.Body.Close()
				return c.floor(resp.Body)
			})
		})
		b.Run(c.name+"/ours", func(b *testing.B) {
			loop := c.loop(b, 64<<10, c.stream, c.answer)
			measure(b, text+"hi", func() string { return run(b, loop) })
		})
		b.Run(c.name+"/sdk", func(b *testing.B) {
			rt := &http.Client{Transport: &script{answers: []string{c.stream}, size: 64 << 10}}
			measure(b, text, func() string { return c.sdk(b, rt) })
		})
	}
}

// docs/benchmarks.md promises at most 1 allocation an event.
func TestDecodeAllocations(t *testing.T) {
	for _, c := range contests() {
		loop := c.loop(t, 64<<10, c.stream, c.answer)
		run(t, loop)
		n := testing.AllocsPerRun(3, func() { run(t, loop) }) / benchDeltas
		t.Logf("%s: %.2f allocations an event", c.name, n)
		require.LessOrEqual(t, n, 1.0, c.name)
	}
}

// BenchmarkLargeEvent reads one event of 5 and of 10 MB in pieces of 1 kB, which must take
// linear time.
func BenchmarkLargeEvent(b *testing.B) {
	for _, c := range contests() {
		for _, size := range []int{5 << 20, 10 << 20} {
			b.Run(fmt.Sprintf("%s/%dMB", c.name, size>>20), func(b *testing.B) {
				small := `"hi"`
				if !strings.Contains(c.answer, small) {
					b.Fatal("no text in the answer")
				}
				loop := c.loop(b, 1<<10, strings.ReplaceAll(c.answer, small, quote(strings.Repeat("large ", size/6))))
				b.SetBytes(int64(size))
				cpu := cpuTime()
				for b.Loop() {
					if n := len(run(b, loop)); n < size-6 {
						b.Fatalf("text of %d bytes", n)
					}
				}
				b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(b.N)/float64(size), "cpu-ns/byte")
			})
		}
	}
}
