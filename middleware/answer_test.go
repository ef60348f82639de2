package middleware

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func textAnswer(text string) []aycoder.ModelEvent {
	return []aycoder.ModelEvent{
		&aycoder.TextDelta{Text: text}, &aycoder.BlockDone{Part: &aycoder.Text{Text: text}},
		&aycoder.MessageDone{Stop: aycoder.StopEndTurn},
	}
}

func TestEncodeAnswer(t *testing.T) {
	done := &aycoder.MessageDone{Stop: aycoder.StopEndTurn}
	block := func(p aycoder.Part) []aycoder.ModelEvent {
		return []aycoder.ModelEvent{&aycoder.BlockDone{Part: p}, done}
	}
	tests := []struct {
		name   string
		events []aycoder.ModelEvent
		want   string
	}{
		{"whole", textAnswer("x"), ""},
		{"only the end", []aycoder.ModelEvent{done}, ""},
		{"an end without a reason", []aycoder.ModelEvent{&aycoder.MessageDone{}}, ""},
		{"nothing", nil, "not complete"},
		{"no end", textAnswer("x")[:2], "event 1: answer is not complete"},
		{"two ends", []aycoder.ModelEvent{done, done}, "event 0: answer is not complete"},
		{"text that is not UTF-8", textAnswer("\xff"), "UTF-8"},
		{"id that is not UTF-8", []aycoder.ModelEvent{&aycoder.MessageDone{ID: "\xff"}}, "UTF-8"},
		{"a retry", []aycoder.ModelEvent{&aycoder.Retrying{}, done}, "no such event: *aycoder.Retrying"},
		{"nil", []aycoder.ModelEvent{nil, done}, "no such event"},
		{"an opaque block", block(&aycoder.Opaque{Provider: "p", Raw: []byte(`{ "<":1}`)}), ""},
		{"an opaque block of nobody", block(&aycoder.Opaque{Raw: []byte(`{"<":1}`)}), "without a provider"},
		{"an output", block(&aycoder.ToolOutput{}), "parts do not fit"},
		{"a block without a part", []aycoder.ModelEvent{&aycoder.BlockDone{}, done}, "part is nil"},
		{"a cut without a call", []aycoder.ModelEvent{&aycoder.BlockTruncated{}, done}, "part is nil"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := encodeAnswer("k", tt.events)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			got, err := decodeAnswer("k", data)
			require.NoError(t, err)
			require.Equal(t, tt.events, got)
		})
	}
}

func TestDecodeAnswer(t *testing.T) {
	const done = `"done":{"stop":"end_turn"}`
	text := `{"type":"text","text":"x"}`
	tests := []struct{ name, body, want string }{
		{"least", `{"parts":{"role":"assistant","parts":[]},` + done + `}`, ""},
		{"no JSON", `{`, "decode answer"},
		{"null", `null`, "not complete"},
		{"no end", `{"parts":{"role":"assistant","parts":[]}}`, "not complete"},
		{"no parts", `{` + done + `}`, "not complete"},
		{"unknown event", `{"events":[{"type":"new"}],"parts":{"parts":[` + text + `]},` + done + `}`, "parts do not fit"},
		{"too few parts", `{"events":[{"type":"block"}],"parts":{"parts":[]},` + done + `}`, "parts do not fit"},
		{"too many parts", `{"events":[],"parts":{"parts":[` + text + `]},` + done + `}`, "parts do not fit"},
		{"part of a later version", `{"events":[{"type":"block"}],"parts":{"parts":[{"type":"new"}]},` + done + `}`,
			"without a provider"},
		{"cut text", `{"events":[{"type":"cut"}],"parts":{"parts":[` + text + `]},` + done + `}`, "parts do not fit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data := append(header("k", []byte(tt.body)), tt.body...)
			events, err := decodeAnswer("k", data)
			if tt.want == "" {
				require.NoError(t, err)
				require.Len(t, events, 1)
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, events)
		})
	}
	for _, data := range []string{"", "x", answerMagic, answerMagic + "\n", "\n{}"} {
		_, err := decodeAnswer("k", []byte(data))
		require.Error(t, err)
	}
}

func TestRecordingIsBounded(t *testing.T) {
	r := &recording{max: 1000}
	for range 100 {
		r.add(&aycoder.TextDelta{Text: "0123456789"})
	}
	require.True(t, r.over)
	require.Empty(t, r.events)
	require.Zero(t, r.text.Cap())
	r.add(&aycoder.Retrying{})
	require.False(t, r.over, "the next answer may be shorter")
	for range 100 {
		r.add(&aycoder.ToolDelta{ID: "a"})
		r.add(&aycoder.ToolDelta{ID: "b"})
	}
	require.True(t, r.over, "events without text count, too")
	for _, ev := range []aycoder.ModelEvent{
		&aycoder.BlockDone{Part: &aycoder.Media{Data: make([]byte, 2000)}},
		&aycoder.BlockTruncated{Call: &aycoder.ToolUse{Args: make([]byte, 2000)}},
	} {
		r = &recording{max: 1000}
		r.add(ev)
		require.True(t, r.over)
	}
	r = &recording{max: 1000}
	r.add(&aycoder.BlockTruncated{})
	require.Len(t, r.events, 1)
}

// A field that is new must be made part of the key, or be known not to matter.
func TestKeyKnowsAllFields(t *testing.T) {
	names := func(typ reflect.Type) (names []string) {
		for f := range typ.Fields() {
			names = append(names, f.Name)
		}
		return names
	}
	require.Equal(t, []string{"Model", "System", "Tools", "ToolChoice", "Messages", "Tail", "MaxTokens", "Temperature",
		"Stop", "Thinking", "NoCache", "Output",
		"MaxResponse", // bounds the answer wherever it comes from, and changes none
		"Extra"}, names(reflect.TypeFor[aycoder.Request]()))
	require.Equal(t, []string{"Mode", "Name"}, names(reflect.TypeFor[aycoder.ToolChoice]()))
	require.Equal(t, []string{"Name", "Schema"}, names(reflect.TypeFor[aycoder.OutputFormat]()))
	require.Equal(t, []string{"Name", "Description", "Schema", "Effect", "Destructive", "OpenWorld", "Result", "Subject",
		"Definition", // which no model reads
		"declared"},
		names(reflect.TypeFor[aycoder.ToolSpec]()))
}

func FuzzDecodeAnswer(f *testing.F) {
	seed, err := encodeAnswer("", textAnswer("Hi"))
	require.NoError(f, err)
	_, body, _ := bytes.Cut(seed, []byte("\n"))
	f.Add(body)
	f.Add([]byte(`{"events":[{"type":"tool","id":"c","name":"n","text":"{"},{"type":"cut"}],` +
		`"parts":{"role":"assistant","parts":[{"type":"tool_use","id":"c","args":"{"}]},"done":{}}`))
	f.Add([]byte(`{"events":[{"type":"block"}],"parts":{"parts":[{"type":"new","x":1}]},"done":{"stop":"x"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decodeAnswer("", body); err == nil {
			t.Fatal("an answer without a header")
		}
		events, err := decodeAnswer("", append(header("", body), body...))
		if err != nil {
			require.Nil(t, events)
			return
		}
		for i, ev := range events {
			_, done := ev.(*aycoder.MessageDone)
			require.Equal(t, i == len(events)-1, done)
		}
		data, err := encodeAnswer("", events)
		require.NoError(t, err)
		again, err := decodeAnswer("", data)
		require.NoError(t, err)
		require.Equal(t, events, again)
	})
}

// A recorded answer is equal to the original, wherever the original was truncated.
func FuzzRecording(f *testing.F) {
	f.Add("one two three", "think", byte(3))
	f.Add("\u2603\u2603", "", byte(1))
	f.Fuzz(func(t *testing.T, text, thinking string, cut byte) {
		text, thinking = strings.ToValidUTF8(text, "?"), strings.ToValidUTF8(thinking, "?")
		r := &recording{max: 1 << 20}
		for piece := range strings.SplitSeq(thinking, " ") {
			r.add(&aycoder.ThinkingDelta{Text: piece})
		}
		for i, c := range text {
			if i%(int(cut)+1) == 0 {
				r.add(&aycoder.TextDelta{Text: string(c)})
			} else {
				r.add(&aycoder.ToolDelta{ID: string(c), Args: string(c)})
			}
		}
		call := &aycoder.ToolUse{ID: "c", Args: json.RawMessage(text)}
		r.add(&aycoder.BlockTruncated{Call: call})
		r.add(&aycoder.BlockDone{Part: &aycoder.Text{Text: text}})
		r.add(&aycoder.MessageDone{Stop: aycoder.StopReason(thinking)})
		require.False(t, r.over)
		data, err := encodeAnswer("k", r.events)
		require.NoError(t, err)
		events, err := decodeAnswer("k", data)
		require.NoError(t, err)
		if len(text) == 0 {
			call.Args = nil // empty arguments are none
		}
		require.Equal(t, r.events, events)
		require.Equal(t, strings.ReplaceAll(thinking, " ", "")+text, said(events))
	})
}

func said(events []aycoder.ModelEvent) string {
	var b strings.Builder
	for _, ev := range events {
		text, _ := deltaText(ev)
		b.WriteString(text)
	}
	return b.String()
}
