package ollama_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers/ollama"
)

// Every input, in any pieces, produces an error or one final MessageDone; a complete
// answer can be stored and sent again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(said("content", "a", "b")+done), 3)
	f.Add([]byte(said("thinking", "a")+calls(&aycoder.ToolUse{ID: "x", Name: "n"}, `{"a":[1,2]}`)+done), 1)
	f.Add([]byte(calls(&aycoder.ToolUse{Name: "n"}, `"{\"a\":"`)+done), 100)
	f.Add([]byte(`{"response":"a","done":true}`), 1)
	f.Add([]byte("{\"error\":\"x\"}\r\n\n"), 2)
	f.Add([]byte(`{"message":{"tool_calls":[{"function":{"name":"a","arguments":[]}},{}]}}`), 2)
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		size = max(1, size%64)
		rec := &recorder{next: says(http.StatusOK, string(body), size)}
		c := clientOf(t, rec)
		a := wiretest.Ask(t.Context(), t, c, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}})
		if (a.Done == nil) == (a.Err == nil) {
			t.Fatalf("done %v, error %v", a.Done, a.Err)
		}
		whole := answer(t, string(body))
		assert.Equal(t, whole.Parts, a.Parts)
		assert.Equal(t, whole.Done, a.Done)
		m := a.Message()
		for _, u := range m.Calls() {
			require.True(t, json.Valid(u.Args), "%s", u.Args)
		}
		sent := encoded(t, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello"), wiretest.Stored(t, m)}})
		require.True(t, json.Valid(sent), "%s", sent)
	})
}

// Every conversation produces a body of valid JSON that begins with the previous one, or
// an error.
func FuzzEncode(f *testing.F) {
	f.Add("text", "call_1", "read", []byte(`{"a":1}`), []byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`))
	f.Add("\xff\"\\", "", "\x00", []byte(`{"a`), []byte(`{"properties":{"a":true},"oneOf":[{"const":1},false]}`))
	f.Add(" ", "a", "b", []byte(`[1]`), []byte(`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a","allOf":[{"x":1}]}}}`))
	f.Fuzz(func(t *testing.T, text, id, name string, args, schema []byte) {
		messages := []*aycoder.Message{
			aycoder.User("begin"),
			{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Thinking{Text: text, Provider: "ollama"},
				&aycoder.Text{Text: text}, &aycoder.ToolUse{ID: id, Name: name, Args: args}}},
			{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: text}, &aycoder.Media{Type: name, Name: id, Data: args},
				&aycoder.ToolOutput{ID: id, Name: name, IsError: len(text)%2 == 0, Parts: []aycoder.Part{
					&aycoder.Text{Text: text}, &aycoder.Media{Type: "image/png", Name: name, Data: args}}}}},
		}
		rec := &recorder{next: says(http.StatusOK, done, 1<<20)}
		c := clientOf(t, rec)
		var before []byte
		for n := range messages {
			_, err := aycoder.Complete(t.Context(), c, &aycoder.Request{
				System: []*aycoder.Text{{Text: text}}, Messages: messages[:n+1], Stop: []string{text},
				Tools: []*aycoder.ToolSpec{{Name: name, Description: text, Schema: schema}},
			})
			if err != nil {
				require.True(t, is[*aycoder.BadRequestError](err), "%v", err)
				require.Zero(t, n)
				return
			}
			require.True(t, json.Valid(rec.body()), "%s", rec.body())
			require.True(t, bytes.HasPrefix(rec.body(), bytes.TrimSuffix(before, []byte("]}"))))
			before = rec.body()
		}
		require.LessOrEqual(t, len(before), 8<<20)
	})
}

// No answer about models causes a panic, and a pull ends in an error or with success.
func FuzzManage(f *testing.F) {
	f.Add([]byte(showBody))
	f.Add([]byte(`{"models":[{"name":"a","details":{"context_length":1},"capabilities":["tools",1]}],"version":"1"}`))
	f.Add([]byte("{\"status\":\"pulling\",\"total\":1}\n{\"status\":\"success\"}\n"))
	f.Add([]byte(`{"parameters":"num_ctx 1\nstop \"a b\"\n\n x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := clientOf(t, says(http.StatusOK, string(body), 7))
		_, _ = c.List(t.Context())
		_, _ = c.Loaded(t.Context())
		_, _ = c.Version(t.Context())
		if d, err := c.Show(t.Context(), "m"); err == nil {
			require.NotEmpty(t, d.Name)
		}
		last, failed := "", error(nil)
		for p, err := range c.Pull(t.Context(), "m") {
			require.NoError(t, failed, "something comes after an error")
			last, failed = p.Status, err
		}
		require.True(t, failed != nil || last == "success", "%q", last)
	})
}

// The lines are the same whatever the sizes of the reads. linesOf splits an answer as
// [ollama.Lines] must: if the first line begins an object without ending it, the whole
// answer is one document.
func linesOf(answer string) (lines []string) {
	rest, more := answer, true
	for more {
		var line string
		line, rest, more = strings.Cut(rest, "\n")
		switch line = string(bytes.TrimSpace([]byte(line))); {
		case line == "":
		case len(lines) == 0 && line[0] == '{' && !json.Valid([]byte(line)):
			return append(lines, string(bytes.TrimSpace([]byte(line+"\n"+rest))))
		default:
			lines = append(lines, line)
		}
	}
	return lines
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("{0\n}"), 0)
	f.Add([]byte("\n {\"a\":\n1\n}\r\n{}"), 3)
	f.Add([]byte("{\"a\":1}\r\n\r\n \n{\"b\":2}"), 1)
	f.Add([]byte("x\ny"), 2)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		const limit = 1000
		read := func(r io.Reader) (got []string, failed error) {
			next := ollama.Lines(r, limit)
			for {
				ev, err := next()
				if err == io.EOF {
					return got, nil
				}
				if err != nil {
					return got, err
				}
				require.NotEmpty(t, ev.Data)
				require.LessOrEqual(t, len(ev.Data), limit)
				got = append(got, ev.Data)
			}
		}
		got, err := read(wiretest.Sized(bytes.NewReader(data), max(1, size%100)))
		whole, wholeErr := read(bytes.NewReader(data))
		require.Equal(t, whole, got)
		require.Equal(t, wholeErr, err)
		if err == nil {
			require.Equal(t, linesOf(string(data)), got)
		}
	})
}
