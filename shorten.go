package aycoder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/runes"
)

// sizeOf returns the approximate size of messages, each shortened to a quarter of limit, in bytes.
func sizeOf(messages []*Message, limit int64) int64 {
	n := int64(0)
	for _, m := range messages {
		n += shortSize(m, limit)
	}
	return n
}

// shortSize returns the approximate size of a message that was shortened to a quarter of the limit.
func shortSize(m *Message, limit int64) int64 {
	n, room := messageSize(m), limit/4
	if room == 0 || n <= room {
		return n
	}
	for _, p := range m.Parts {
		switch p.(type) {
		case *Thinking, *Opaque: // are sent unchanged
			room += partSize(p)
		}
	}
	return min(n, room)
}

// messageSize returns the approximate size of a message that was not shortened.
func messageSize(m *Message) int64 { return overhead + partsSize(m.Parts) }

func partsSize(parts []Part) int64 {
	n := int64(0)
	for _, p := range parts {
		n += overhead
		switch p := p.(type) {
		case *ToolOutput:
			n += int64(len(p.ID)) + partsSize(p.Parts)
		case *Media:
			n += mediaSize(p)
		default:
			n += partSize(p)
		}
	}
	return n
}

// mediaSize is an estimate: the tokens of an image depend on its pixels, and a document
// has fewer tokens than bytes.
func mediaSize(m *Media) int64 {
	switch {
	case strings.HasPrefix(m.Type, "text/"):
		return int64(len(m.Data))
	case strings.HasPrefix(m.Type, "image/") || len(m.Data) == 0:
		return imageSize
	}
	return int64(len(m.Data) / 8)
}

// shortened returns a copy of m whose longest texts are shortened, so that its size is at most
// room, or as small as possible. It returns m itself if m fits or if room is 0. Thinking and
// opaque blocks are never changed, because the provider needs them exactly as they came.
func shortened(m *Message, room int64) *Message {
	if room <= 0 || messageSize(m) <= room {
		return m
	}
	const least = 128 // bytes of a text
	// Halving cuts the longest texts first, and takes few attempts.
	for each := int(room) - least; ; each /= 2 {
		each = max(each, least)
		s := &Message{Role: m.Role, Parts: shortParts(m.Parts, each)}
		if each == least || messageSize(s) <= room {
			return s
		}
	}
}

// shortParts shortens the parts that take more than each bytes, in a copy, as messages are shared.
func shortParts(parts []Part, each int) []Part {
	out := slices.Clone(parts)
	for i, p := range out {
		if partsSize(out[i:i+1]) > int64(each) {
			out[i] = shortPart(p, each)
		}
	}
	return out
}

// shortPart shortens a part to about each bytes. A note replaces media, which cannot be shortened.
func shortPart(p Part, each int) Part {
	switch p := p.(type) {
	case *Text:
		if len(p.Text) > each {
			return &Text{Text: runes.HeadTail(p.Text, each)}
		}
	case *ToolUse:
		if len(p.Args) > each {
			return &ToolUse{ID: p.ID, Name: p.Name, Args: jsontext.Shorten(p.Args, each), Extra: p.Extra}
		}
	case *ToolOutput:
		o := *p
		o.Parts = shortParts(p.Parts, each)
		return &o
	case *Media:
		return &Text{Text: fmt.Sprintf("[%s of %d bytes is left out]", p.Type, len(p.Data))}
	}
	return p
}
