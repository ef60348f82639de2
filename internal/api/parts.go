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

// CheckParts refuses nil parts, also in the outputs of tools.
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

// ValidUTF8 replaces invalid UTF-8 by the replacement character. Valid input, which is nearly
// all, is returned without copying, so the result must not be modified.
func ValidUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}

// Room estimates the number of bytes of a message with these parts on the wire: a buffer of
// that size seldom grows and wastes little memory.
func Room(parts []aycoder.Part) int {
	const around = 100 // overhead of a part or a message
	n := around
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			n += around + escapedLen(len(p.Text))
		case *aycoder.Thinking:
			n += around + escapedLen(len(p.Text)) + len(p.Signature)
		case *aycoder.ToolUse:
			n += around + escapedLen(len(p.Args))
		case *aycoder.Opaque:
			n += around + len(p.Raw)
		case *aycoder.Media:
			n += around + len(p.URL) + base64.StdEncoding.EncodedLen(len(p.Data))
		case *aycoder.ToolOutput:
			n += Room(p.Parts)
		}
	}
	return n
}

// escapedLen estimates the length in JSON of a text of n bytes: each line end takes two.
func escapedLen(n int) int { return n + n/16 }

// NotShown returns a text that names media which the model is not shown, so that one odd
// file does not make the whole conversation unsendable.
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

// IsData reports whether a URL is a "data:" URL.
func IsData(address string) bool {
	return len(address) >= len(dataScheme) && strings.EqualFold(address[:len(dataScheme)], dataScheme)
}

const dataScheme = "data:"

// Inline returns m with the data in its URL, or m if that does not contain data:
// "data:[<mediatype>][;base64],<data>" (RFC 2397).
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

// Unnamed reports whether m has the output of a tool without its name. Its wire form then
// depends on the message with the call.
func Unnamed(m *aycoder.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p aycoder.Part) bool {
		out, ok := p.(*aycoder.ToolOutput)
		return ok && out != nil && out.Name == ""
	})
}

// CallName returns the name of the tool of a call, or "" if the call is in none of the
// messages.
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
