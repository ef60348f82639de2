package acp

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/picture"
)

// content makes the input of a run of a prompt. Texts and links stay in their order; what is embedded comes before them.
func (s *conversation) content(blocks []sdk.ContentBlock) (text string, parts []aycoder.Part, err error) {
	var b strings.Builder
	named := false // the last block is a name
	mention := func(name string) {
		if last := b.String(); last != "" && !strings.ContainsAny(last[len(last)-1:], " \t\n([{<\"'`@") {
			b.WriteByte(' ') // not all clients write it
		}
		b.WriteString(name)
		named = true
	}
	for _, c := range blocks {
		after := named
		named = false
		switch {
		case c.Text != nil:
			if first, _ := utf8.DecodeRuneInString(c.Text.Text); after && (unicode.IsLetter(first) || unicode.IsDigit(first)) {
				b.WriteByte(' ')
			}
			b.WriteString(c.Text.Text)
		case c.ResourceLink != nil:
			mention(s.link(c.ResourceLink))
		case c.Image != nil:
			parts, err = appendMedia(parts, c.Image.MimeType, "", c.Image.Data)
		case c.Audio != nil:
			parts, err = appendMedia(parts, c.Audio.MimeType, "", c.Audio.Data)
		case c.Resource != nil && c.Resource.Resource.TextResourceContents != nil:
			r := c.Resource.Resource.TextResourceContents
			name, _ := s.name(r.Uri)
			parts = append(parts, &aycoder.Text{Text: fmt.Sprintf("The user has attached %s:\n\n%s\n", name, r.Text)})
			mention(name)
		case c.Resource != nil && c.Resource.Resource.BlobResourceContents != nil:
			r := c.Resource.Resource.BlobResourceContents
			name, _ := s.name(r.Uri)
			kind := "application/octet-stream"
			if r.MimeType != nil {
				kind = *r.MimeType
			}
			parts, err = appendMedia(parts, kind, name, r.Blob)
			mention(name)
		}
		if err != nil {
			return "", nil, err
		}
	}
	if b.Len() == 0 && len(parts) == 0 {
		return "", nil, invalid("the prompt is empty")
	}
	return b.String(), parts, nil
}

func appendMedia(parts []aycoder.Part, kind, name, data string) ([]aycoder.Part, error) {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, invalid("data in a prompt is not base64")
	}
	image, err := harness.Image(name, raw)
	switch {
	case err == nil:
		return append(parts, image), nil
	case picture.Known(kind):
		return nil, invalid("an image in a prompt: " + err.Error())
	}
	return append(parts, &aycoder.Media{Type: kind, Name: name, Data: raw}), nil // models are not shown other images
}

// link writes a link as the model knows files, and other addresses as they are.
func (s *conversation) link(l *sdk.ContentBlockResourceLink) string {
	name, local := s.name(l.Uri)
	if local || l.Name == "" || l.Name == name {
		return name
	}
	return l.Name + " (" + name + ")"
}

// name returns the name of a file below the directory, or the address.
func (s *conversation) name(uri string) (name string, local bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Path == "" {
		return uri, false
	}
	rel, err := filepath.Rel(s.dir, filepath.FromSlash(u.Path))
	if err != nil || !filepath.IsLocal(rel) {
		return u.Path, true
	}
	if u.Fragment != "" {
		return filepath.ToSlash(rel) + "#" + u.Fragment, true
	}
	return filepath.ToSlash(rel), true
}

// block makes a block of a part, or returns nil.
func block(p aycoder.Part) *sdk.ContentBlock {
	switch p := p.(type) {
	case *aycoder.Text:
		if p.Text != "" {
			return new(sdk.TextBlock(p.Text))
		}
	case *aycoder.Media:
		data := base64.StdEncoding.EncodeToString(p.Data)
		switch kind, _, _ := strings.Cut(p.Type, "/"); {
		case p.URL != "":
			return new(sdk.ResourceLinkBlock(cmp.Or(p.Name, p.URL), p.URL))
		case kind == "image":
			return new(sdk.ImageBlock(data, p.Type))
		case kind == "audio":
			return new(sdk.AudioBlock(data, p.Type))
		}
		return new(sdk.ResourceBlock(sdk.EmbeddedResourceResource{BlobResourceContents: &sdk.BlobResourceContents{
			Blob: data, MimeType: &p.Type, Uri: "file:///" + url.PathEscape(cmp.Or(p.Name, "document"))}}))
	}
	return nil
}
