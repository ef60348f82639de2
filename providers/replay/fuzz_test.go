package replay

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	goodHTTP = `{"http":{"method":"POST","url":"https://a.test/v1/x?alt=sse","header":{"Accept":"a"},"json":{"a":[1,"é"]}}}
{"response":{"status":200,"header":{"Content-Type":"text/event-stream"}}}
{"chunk":"data: <&>\n\n"}
{"base64":"/w=="}
{"end":"error","error":{"type":"other","text":"unexpected EOF","is":["unexpected_eof"]}}
`
	goodModel = `{"model":{"provider":"p","model":"m","info":{"provider":"p","model":"m","context":5},"request":{"messages":[]}}}
{"event":{"type":"text","text":"hi"}}
{"event":{"type":"block","part":{"type":"tool_use","id":"1","name":"f","args":"{ }"}}}
{"event":{"type":"retry","attempt":1,"after_ns":5,"error":{"type":"overloaded","no_base":true}}}
{"event":{"type":"done","stop":"end_turn","usage":{"input":1,"output":2},"model":"m"}}
{"end":"complete"}
`
	head = "{\"aycoder_replay\":1}\n"
	tail = "{\"eof\":true}\n"
)

func TestFormat(t *testing.T) {
	long := strings.Repeat(`{"type":"model","cause":`, 100) + `{"type":"other"}` + strings.Repeat("}", 100)
	tests := []struct {
		name, text string
		line       int // number of the wrong line, or 0
		torn       bool
		whole      int
	}{
		{"whole", head + goodHTTP + goodModel + tail, 0, false, 2},
		{"blank lines, no last newline", head + "\n" + goodHTTP + "\r\n \n" + strings.TrimSpace(tail), 0, false, 1},
		{"empty", "", 1, false, 0},
		{"something else", "hello\n" + tail, 1, false, 0},
		{"later version", `{"aycoder_replay":2}` + "\n" + tail, 1, false, 0},
		{"no end", head + goodHTTP, 6, true, 1},
		{"no end of an interaction", head + goodHTTP + goodModel[:strings.Index(goodModel, "\n")+1], 7, true, 1},
		{"half a line", head + goodHTTP + goodModel[:20], 7, true, 1},
		{"half a head", head[:10], 1, false, 0},
		{"after the end", head + tail + goodHTTP, 3, false, 0},
		{"damaged middle", head + goodHTTP + "{]\n" + goodModel + tail, 7, false, 1},
		{"unknown field", head + `{"htttp":{}}` + "\n" + tail, 2, false, 0},
		{"two values", head + `{"eof":true}{"eof":true}` + "\n", 2, false, 0},
		{"chunk before the head", head + strings.Replace(goodHTTP, `{"response"`, "{\"chunk\":\"x\"}\n{\"response\"", 1) + tail, 3, false, 0},
		{"event on the wire", head + strings.Replace(goodHTTP, `{"response"`, "{\"event\":{\"type\":\"text\"}}\n{\"response\"", 1) + tail, 3, false, 0},
		{"chunk of a model", head + strings.Replace(goodModel, `{"event"`, "{\"chunk\":\"x\"}\n{\"event\"", 1) + tail, 3, false, 0},
		{"no such status", head + strings.Replace(goodHTTP, `200`, "2", 1) + tail, 3, false, 0},
		{"no such event", head + strings.Replace(goodModel, `"text"`, `"txt"`, 1) + tail, 3, false, 0},
		{"no such part", head + strings.Replace(goodModel, `"tool_use"`, `5`, 1) + tail, 4, false, 0},
		{"cut that is not a call", head + `{"model":{"request":{}}}` + "\n" + `{"event":{"type":"cut","part":{"type":"text"}}}` + "\n", 3, false, 0},
		{"no such error", head + strings.Replace(goodModel, `"overloaded"`, `"overload"`, 1) + tail, 5, false, 0},
		{"no such end", head + strings.Replace(goodModel, `"complete"`, `"done"`, 1) + tail, 7, false, 0},
		{"errors too deep", head + strings.Replace(goodHTTP, `{"type":"other","text":"unexpected EOF","is":["unexpected_eof"]}`, long, 1) + tail, 6, false, 0},
		{"error without an error", head + strings.Replace(goodModel, `"complete"`, `"error"`, 1) + tail, 7, false, 0},
		{"complete without a response", head + strings.Split(goodHTTP, "\n")[0] + "\n{\"end\":\"complete\"}\n" + tail, 3, false, 0},
		{"no request", head + `{"model":{"provider":"p"}}` + "\n" + tail, 2, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tape")
			require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
			_, err := Open(path)
			if tt.line == 0 {
				require.NoError(t, err)
				return
			}
			e, ok := errors.AsType[*FormatError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, FormatError{path, tt.line, tt.torn, e.Err}, *e)
			tape, err := Open(path, WithTorn(true))
			require.Equal(t, tt.torn, err == nil)
			if tt.torn {
				require.Len(t, tape.Unused(), tt.whole)
				require.Equal(t, e, tape.Torn())
			}
		})
	}
}

// A parsed file is written in a form that is parsed as the same, and no parsed file makes
// later code fail.
func FuzzFile(f *testing.F) {
	f.Add([]byte(head+goodHTTP+goodModel+tail), "sk-0123")
	f.Add([]byte(head+goodModel+goodHTTP), "end_turn")
	f.Add([]byte(head+`{"http":{"method":"GET","url":":"}}`+"\n"+`{"end":"left"}`+"\n"), "left")
	f.Fuzz(func(t *testing.T, data []byte, secret string) {
		its, _ := parse(data)
		tape := &Tape{secrets: newSecrets(nil, nil), recorded: its, path: "x"}
		again := appendHeader(nil)
		for i, it := range its {
			block, err := it.appendTo(nil)
			if err != nil {
				t.Fatalf("interaction %d: %v", i, err)
			}
			again = append(again, block...)
			_ = it.label()
			_, _ = tape.keyOf(it), it.fail.err()
			for range it.chunks() {
			}
		}
		its2, bad := parse(appendEOF(bytes.Clone(again)))
		if bad != nil || len(its2) != len(its) {
			t.Fatalf("%d interactions become %d, %v:\n%s", len(its), len(its2), bad, again)
		}
		tape.secrets.add("fuzz", minSecret, secret)
		for i, it := range its2 {
			if tape.keyOf(it) != its[i].key || !bytes.Equal(it.body, its[i].body) || len(it.events) != len(its[i].events) {
				t.Fatalf("interaction %d is another:\n%s", i, again)
			}
			block, err := tape.block(it, i)
			if err == nil && len(secret) >= minSecret && tape.secrets.known[secret] && bytes.Contains(block, []byte(secret)) {
				t.Fatalf("secret %q is in\n%s", secret, block)
			}
		}
		for i := range its {
			if its[0].http == nil == (its[i].http == nil) {
				_ = tape.mismatch(its[i], found{}).Error()
			}
		}
	})
}

// Two requests are equal if there are no differences between them.
func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":"x"}],"c":1.0}`), []byte(`{"a":[1,{"b":"y"}],"d":1e0}`), "a[0].b")
	f.Add([]byte(`[1,2,3]`), []byte(`no JSON`), "**.x")
	f.Add([]byte("\xff"), []byte(`{"@method":1}`), `["a\"b"].*`)
	f.Fuzz(func(t *testing.T, a, b []byte, path string) {
		var cfg config
		if err := WithIgnore(path)(&cfg); err != nil {
			cfg.ignore = nil
		}
		tape := &Tape{cfg: cfg}
		request := func(body []byte) *interaction {
			h := &httpLine{Method: "POST", URL: "/x"}
			h.setBody(body)
			return &interaction{http: h}
		}
		x, y := request(a), request(b)
		d := &differ{}
		d.compare("", tape.tree(x), tape.tree(y), 0)
		if same := tape.keyOf(x) == tape.keyOf(y); same != (d.total == 0) {
			t.Fatalf("same: %t, changes: %v", same, d.changes)
		}
		for _, c := range d.changes {
			if len(c.String()) > 2*maxPath+3*maxValue || c.Recorded == "" && c.Request == "" {
				t.Fatalf("change %q", c)
			}
		}
	})
}

// Masked data does not contain any form of the secret, and its pieces are in order.
func FuzzMask(f *testing.F) {
	f.Add([]byte("before sk-012345 after"), "sk-012345", 10, 20)
	f.Add([]byte(base64.StdEncoding.EncodeToString([]byte("a:sk-012345/b"))), "sk-012345", 3, 5)
	f.Fuzz(func(t *testing.T, data []byte, secret string, c1, c2 int) {
		s := newSecrets(nil, nil)
		s.add("fuzz", minSecret, secret, secret+"tail")
		c1 = min(max(c1, 0), len(data))
		cuts := []int{c1, min(max(c2, c1), len(data)), len(data)}
		out, moved := s.mask(data, cuts)
		if len(moved) != len(cuts) || moved[2] != len(out) || moved[0] < 0 || moved[0] > moved[1] || moved[1] > moved[2] {
			t.Fatalf("cuts %v of %d bytes become %v of %d", cuts, len(data), moved, len(out))
		}
		if !bytes.Contains(data, []byte(placeholder)) && len(s.spans(data)) == 0 && !bytes.Equal(out, data) {
			t.Fatalf("%q becomes %q", data, out)
		}
		if s.known[secret] && !strings.ContainsAny(secret, placeholder) && bytes.Contains(out, []byte(secret)) {
			t.Fatalf("secret %q is in %q", secret, out)
		}
		after := moveCuts(cuts, data, out)
		for i, c := range after {
			if c < 0 || c > len(out) || i > 0 && c < after[i-1] {
				t.Fatalf("cuts %v become %v of %d bytes", cuts, after, len(out))
			}
		}
	})
}

func FuzzError(f *testing.F) {
	f.Add([]byte(`{"type":"rate_limit","retry_after_ns":7,"reset_at":"2026-11-21T00:00:00Z","cause":{"type":"limit","limit":"x"}}`))
	f.Add([]byte(`{"type":"wraps","text":"a","cause":{"type":"auth"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in *failure
		if json.Unmarshal(data, &in) != nil || in.check(0) != nil {
			return
		}
		err := in.err()
		once := encodeError(err)
		if once.check(0) != nil && in.Type != failWraps {
			t.Fatalf("%s becomes %+v", data, once)
		}
		if got := once.err(); got.Error() != err.Error() {
			t.Fatalf("%q becomes %q", err, got)
		}
	})
}
