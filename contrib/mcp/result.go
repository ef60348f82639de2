package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxText   = 256 << 10 // bytes of all texts of a result, unless more are wanted
	maxImages = 8
	maxImage  = 3_750_000 // bytes, of Amazon Bedrock; Anthropic takes a little more
)

// A resulter makes the result of a call.
type resulter struct {
	parts  []aycoder.Part
	left   int // bytes of text
	images int
	cut    bool
}

// result returns what the model gets of an answer. All of it is a stranger's text.
func result(res *mcp.CallToolResult, max int) *aycoder.ToolResult {
	r := &resulter{left: max}
	for _, c := range res.Content {
		r.content(c)
	}
	r.structured(res.StructuredContent)
	if r.cut {
		r.parts = append(r.parts, &aycoder.Text{Text: fmt.Sprintf("\n[the result was cut after %d bytes]", max)})
	}
	if len(r.parts) == 0 {
		r.text("[the result is empty]")
	}
	return &aycoder.ToolResult{Parts: r.parts, IsError: res.IsError, Untrusted: true}
}

func (r *resulter) text(text string) {
	text = runes.Clean(text)
	if len(text) > r.left {
		text, r.cut = runes.Cut(text, r.left), true
	}
	if r.left -= len(text); text != "" {
		r.parts = append(r.parts, &aycoder.Text{Text: text})
	}
}

func (r *resulter) content(c mcp.Content) {
	switch c := c.(type) {
	case *mcp.TextContent:
		r.text(c.Text)
	case *mcp.ImageContent:
		r.media(c.MIMEType, "", c.Data)
	case *mcp.AudioContent:
		r.media(c.MIMEType, "", c.Data)
	case *mcp.EmbeddedResource:
		r.resource(c.Resource)
	case *mcp.ResourceLink:
		r.text(fmt.Sprintf("[resource %s: %s %s]", c.URI, c.Name, c.Description))
	default:
		r.text(fmt.Sprintf("[content that is not understood: %T]", c))
	}
}

func (r *resulter) resource(c *mcp.ResourceContents) {
	switch {
	case c == nil:
	case c.Blob != nil && isText(c.MIMEType, c.Blob):
		r.text("[resource " + c.URI + "]\n" + string(c.Blob))
	case c.Blob != nil:
		r.media(c.MIMEType, c.URI, c.Blob)
	default:
		r.text("[resource " + c.URI + "]\n" + c.Text)
	}
}

func (r *resulter) media(kind, name string, data []byte) {
	image, err := harness.Image(clean(name, maxURI), data)
	switch {
	case err == nil && len(data) > maxImage:
		err = fmt.Errorf("it has more than %d bytes", maxImage)
	case err == nil && r.images == maxImages:
		err = fmt.Errorf("there are more than %d images", maxImages)
	case err == nil:
		r.images++
		r.parts = append(r.parts, image)
		return
	}
	why := ""
	if strings.HasPrefix(kind, "image/") {
		why = ": " + err.Error()
	}
	r.text(fmt.Sprintf("[%s, %d bytes, is left out%s]", strings.TrimSpace(kind+" "+name), len(data), why))
}

// structured adds a structured result, unless a text has it already, as servers should see to.
func (r *resulter) structured(value any) {
	if value == nil {
		return
	}
	data, err := json.Marshal(value)
	if err != nil {
		return // it was decoded from JSON
	}
	for _, p := range r.parts {
		if t, ok := p.(*aycoder.Text); ok && sameJSON(t.Text, data) {
			return
		}
	}
	r.text(string(data))
}

func sameJSON(text string, data []byte) bool {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return false
	}
	again, err := json.Marshal(v)
	return err == nil && bytes.Equal(again, data)
}
