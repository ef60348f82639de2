package anthropic

import (
	"encoding/json"
	"strings"
)

// kinds are the deltas that come by the thousand, each with the name of its text.
var kinds = []struct{ kind, head string }{
	{"text_delta", `text_delta","text":"`},
	{"input_json_delta", `input_json_delta","partial_json":"`},
	{"thinking_delta", `thinking_delta","thinking":"`},
	{"signature_delta", `signature_delta","signature":"`},
}

// scanDelta reads a delta of the shape in which the API sends it:
//
//	{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"} }
//
// It takes a tenth of the time of encoding/json. Anything else, in any small way, it
// leaves to that.
func scanDelta(s string) (d delta, ok bool) {
	s, ok = strings.CutPrefix(s, `{"type":"content_block_delta","index":`)
	if !ok {
		return d, false
	}
	n := 0
	for n < len(s) && n < 6 && s[n] >= '0' && s[n] <= '9' {
		d.index = d.index*10 + int(s[n]-'0')
		n++
	}
	if n == 0 || n > 1 && s[0] == '0' {
		return d, false
	}
	if s, ok = strings.CutPrefix(s[n:], `,"delta":{"type":"`); !ok {
		return d, false
	}
	for _, k := range kinds {
		if rest, found := strings.CutPrefix(s, k.head); found {
			d.kind = k.kind
			d.text, rest, ok = scanString(rest)
			return d, ok && scanEnd(rest)
		}
	}
	return d, false
}

// scanEnd reports whether s is two closing braces with white space around them.
func scanEnd(s string) bool {
	s, ok := strings.CutPrefix(strings.TrimLeft(s, " \t\r\n"), "}")
	return ok && strings.Trim(s, " \t\r\n") == "}"
}

// scanString reads a JSON string whose opening quote was read already. The text is
// valid UTF-8.
func scanString(s string) (text, rest string, ok bool) {
	escaped := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' && !escaped:
			return s[:i], s[i+1:], true
		case c == '"':
			text, ok = unquote(s[:i])
			return text, s[i+1:], ok
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			return "", "", false
		}
	}
	return "", "", false
}

// unquote resolves the escapes of a JSON string. Those by number are left to
// encoding/json.
func unquote(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' {
			b = append(b, c)
			continue
		}
		i++
		j := strings.IndexByte(`"\/bfnrt`, s[i])
		if j < 0 {
			var text string
			err := json.Unmarshal([]byte(`"`+s+`"`), &text)
			return text, err == nil
		}
		b = append(b, "\"\\/\b\f\n\r\t"[j])
	}
	return string(b), true
}
