package openai

import (
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// takeDetails keeps reasoning details, which are sent back, and emits their text unless
// it is in another field.
func (d *chatDecoder) takeDetails(c *chatChoice) error {
	text, err := d.details.add(c.details)
	if err != nil {
		return err
	}
	if c.reasoningContent != "" || c.reasoning != "" {
		return nil
	}
	return d.answer.Thinking(text)
}

// takeParts reads a content that is a list of parts, or one part. Some services put
// structured output there as JSON rather than as a string.
func (d *chatDecoder) takeParts(raw string) error {
	if !hasParts(raw) {
		return d.text(strings.Clone(raw))
	}
	r := rawjson.NewReader(raw)
	if r.Kind() == '{' {
		return d.takePart(r)
	}
	for r.Array(); r.Next(); {
		if err := d.takePart(r); err != nil {
			return err
		}
	}
	return nil
}

// hasParts reports whether a content consists of parts: strings, and objects that have a
// known type, or a text and only fields that belong to a part.
func hasParts(raw string) bool {
	r := rawjson.NewReader(raw)
	switch r.Kind() {
	case '{':
		return isPart(r)
	case '[':
		for r.Array(); r.Next(); {
			if r.Kind() != '"' && !isPart(r) {
				return false
			}
		}
		return true
	}
	return r.Kind() == 't' || r.Kind() == 'f' // has no content
}

// isPart reports whether an object is a part. A document of structured output may have the
// same keys, but has others too.
func isPart(r *rawjson.Reader) bool {
	typed, texts, others := false, false, 0
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "type":
			s, _ := r.Str()
			typed = slices.Contains(chatPartTypes, s)
		case "text", "thinking":
			texts = true
		case "index", "id", "annotations", "cache_control", "signature", "closed":
		default:
			others++
		}
	}
	return typed || texts && others == 0
}

// chatPartTypes are the types of content parts.
var chatPartTypes = []string{"text", "output_text", "thinking", "reasoning", "refusal", "image_url",
	"image", "audio", "input_audio", "output_audio", "video_url", "file", "document_url",
	"reference", "tool_reference", "redacted_thinking"}

// takePart reads a part: thinking first, as it was thought before the text was written.
func (d *chatDecoder) takePart(r *rawjson.Reader) error {
	if s, ok := chatStr(r); ok {
		return d.text(s)
	}
	var text, thinking string
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "text":
			text, _ = r.Str()
		case "thinking":
			thinking = chatTexts(r)
		}
	}
	if err := d.answer.Thinking(thinking); err != nil {
		return err
	}
	return d.text(text)
}

// chatStr reads a string, and skips any other value.
func chatStr(r *rawjson.Reader) (string, bool) {
	if r.Kind() != '"' {
		return "", false
	}
	return r.Str()
}

// chatTexts reads a string, or the texts of a list of parts.
func chatTexts(r *rawjson.Reader) string {
	if s, ok := chatStr(r); ok {
		return s
	}
	var b strings.Builder
	for r.Array(); r.Next(); {
		for r.Object(); r.Next(); {
			if r.Key() == "text" {
				s, _ := r.Str()
				b.WriteString(s)
			}
		}
	}
	return b.String()
}

// text handles visible text, which may contain thinking and calls.
func (d *chatDecoder) text(s string) error {
	if s == "" {
		return nil
	}
	if err := d.calls.pause(); err != nil {
		return err
	}
	if d.think != nil {
		thinking, text := d.think.split(s)
		if err := d.answer.Thinking(thinking); err != nil {
			return err
		}
		s = text
	}
	return d.visible(s)
}

// visible passes on text that is not thinking. Calls that are written as XML are taken out
// of it.
func (d *chatDecoder) visible(s string) error {
	if d.xml != nil {
		return d.xml.write(s)
	}
	return d.answer.Text(s)
}
