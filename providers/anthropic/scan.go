package anthropic

import (
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// heads are the beginnings of the frequent deltas.
var heads = []struct{ kind, field, head string }{
	{"text_delta", "text", `text_delta","text":"`},
	{"input_json_delta", "partial_json", `input_json_delta","partial_json":"`},
	{"thinking_delta", "thinking", `thinking_delta","thinking":"`},
	{"signature_delta", "signature", `signature_delta","signature":"`},
}

// scan parses a delta in the exact form in which the API sends it:
//
//	{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"} }
//
// It takes half the time of [event.read], to which it leaves every other form.
func (p *delta) scan(s string) (index int, ok bool) {
	if s, ok = strings.CutPrefix(s, `{"type":"content_block_delta","index":`); !ok {
		return 0, false
	}
	n := 0
	for n < len(s) && n < 6 && s[n] >= '0' && s[n] <= '9' {
		index = index*10 + int(s[n]-'0')
		n++
	}
	if n == 0 || n > 1 && s[0] == '0' {
		return 0, false
	}
	if s, ok = strings.CutPrefix(s[n:], `,"delta":{"type":"`); !ok {
		return 0, false
	}
	for i := range heads {
		h := &heads[i]
		if rest, found := strings.CutPrefix(s, h.head); found {
			text, rest, ok := rawjson.ScanString(rest)
			p.kind, p.field, p.text = h.kind, h.field, text
			return index, ok && scanEnd(rest)
		}
	}
	return 0, false
}

// scanEnd reports whether s consists of two closing braces and white space.
func scanEnd(s string) bool {
	braces := 0
	for _, c := range []byte(s) {
		switch c {
		case '}':
			braces++
		case ' ', '\t', '\r', '\n':
		default:
			return false
		}
	}
	return braces == 2
}
