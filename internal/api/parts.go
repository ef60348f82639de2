package api

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
)

// CheckParts returns an error if one of the parts is nil, or if a part of a tool's output
// is nil.
func CheckParts(parts []aycoder.Part) error {
	for i, p := range parts {
		if v := reflect.ValueOf(p); !v.IsValid() || v.IsNil() {
			return fmt.Errorf("part %d is nil", i)
		}
		if out, ok := p.(*aycoder.ToolOutput); ok {
			if err := CheckParts(out.Parts); err != nil {
				return fmt.Errorf("part %d: %w", i, err)
			}
		}
	}
	return nil
}

// ValidUTF8 replaces each run of invalid UTF-8 by the replacement character. It returns
// valid input, which is nearly all, without copying, so the result must not be modified.
func ValidUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}

// Room estimates the encoded size, in bytes, of a message with these parts. A buffer of
// that size seldom grows and wastes little memory.
func Room(parts []aycoder.Part) int {
	const around = 64 // overhead of a part or a message
	n := around
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			n += around + escapedLen(len(p.Text)) + extraLen(p.Extra)
		case *aycoder.Thinking:
			n += around + escapedLen(len(p.Text)) + len(p.Signature)
		case *aycoder.ToolUse:
			n += around + len(p.ID) + len(p.Name) + escapedLen(len(p.Args)) + extraLen(p.Extra)
		case *aycoder.Opaque:
			n += around + len(p.Raw)
		case *aycoder.Media:
			n += around + len(p.URL) + base64.StdEncoding.EncodedLen(len(p.Data))
		case *aycoder.ToolOutput:
			n += len(p.ID) + len(p.Name) + Room(p.Parts)
		}
	}
	return n
}

// HeadRoom estimates the encoded size, in bytes, of a request without its messages.
func HeadRoom(req *aycoder.Request) int {
	const settings, around = 256, 64
	n := settings
	for _, t := range req.System {
		if t != nil {
			n += around + escapedLen(len(t.Text))
		}
	}
	for _, t := range req.Tools {
		if t != nil {
			n += around + len(t.Name) + escapedLen(len(t.Description)) + len(t.Schema)
		}
	}
	return n
}

// extraLen returns the length of the data that a service wants back with a part.
func extraLen(o *aycoder.Opaque) int {
	if o == nil {
		return 0
	}
	return len(o.Raw)
}

// escapedLen estimates the length, in JSON, of a text of n bytes: an escaped line end
// takes two.
func escapedLen(n int) int { return n + n/16 }

// NotShown returns a text that replaces media which a client cannot send to the model.
// With the text in place of the media, one unsupported file does not prevent the whole
// conversation from being sent.
func NotShown(m *aycoder.Media) string {
	note := fmt.Sprintf("[%d bytes of %s, which this model is not shown", len(m.Data), m.Type)
	name := m.Name + m.URL
	if IsData(m.URL) {
		name = m.Name
	}
	if name != "" {
		note += ": " + name
	}
	return note + "]"
}

// IsData reports whether address is a "data:" URL. The case of the scheme does not
// matter.
func IsData(address string) bool {
	return len(address) >= len(dataScheme) &&
		strings.EqualFold(address[:len(dataScheme)], dataScheme)
}

const dataScheme = "data:"

// Inline decodes media whose URL is a "data:" URL and returns a copy that holds the data.
// It returns m itself if the URL is of another kind or cannot be decoded. The form of the
// URL is "data:[<mediatype>][;base64],<data>" (RFC 2397).
func Inline(m *aycoder.Media) *aycoder.Media {
	if !IsData(m.URL) {
		return m
	}
	head, text, ok := strings.Cut(m.URL[len(dataScheme):], ",")
	if strings.Contains(text, "%") {
		plain, err := url.PathUnescape(text)
		if ok = ok && err == nil; ok {
			text = plain
		}
	}
	typ, encoded := strings.CutSuffix(head, ";base64")
	data := []byte(text)
	if encoded && ok {
		var err error
		data, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
		ok = err == nil
	}
	if !ok || len(data) == 0 {
		return m
	}
	return &aycoder.Media{Type: cmp.Or(m.Type, typ, "text/plain"), Name: m.Name, Data: data}
}

// Unnamed reports whether m contains an output of a tool, but not the tool's name. The
// client then has to look up the name in the message with the call; see [CallName].
func Unnamed(m *aycoder.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p aycoder.Part) bool {
		out, ok := p.(*aycoder.ToolOutput)
		return ok && out != nil && out.Name == ""
	})
}

// CallName returns the name of the tool that the call with this id calls. It returns ""
// if none of the messages contains the call.
func CallName(messages []*aycoder.Message, id string) string {
	for _, m := range messages {
		if m == nil {
			continue
		}
		for _, c := range m.Calls() {
			if c != nil && c.ID == id {
				return c.Name
			}
		}
	}
	return ""
}
