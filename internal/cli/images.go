package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/aycoder/aycoder"
)

// mostPasted is how many of the images that were pasted last are kept.
const mostPasted = 10

// A pastedImage is an image of the clipboard, and the text that stands for it in the line.
type pastedImage struct {
	label string
	media *aycoder.Media
}

// pasteImage takes the image on the clipboard.
func (c *chat) pasteImage() (string, error) {
	data, err := imageOnClipboard(context.Background(), c.app.getenv)
	if err != nil {
		return "", err
	}
	media, err := readImage("clipboard", io.NopCloser(bytes.NewReader(data)))
	if err != nil {
		return "", fmt.Errorf("the clipboard: %w", err)
	}
	c.pastes++
	label := fmt.Sprintf("[image %d]", c.pastes)
	c.pasted = append(c.pasted[max(len(c.pasted)-mostPasted+1, 0):], &pastedImage{label, media})
	return label, nil
}

var imageNames = regexp.MustCompile(`(?i)(?:^|\s)@(\S+\.(?:png|jpe?g|gif|webp))|\[image \d+\]`)

// images returns the images that a line names: those that were pasted into it, and files of the workspace behind an @.
func (c *chat) images(text string) (parts []aycoder.Part) {
	for _, m := range imageNames.FindAllStringSubmatch(text, -1) {
		if m[1] == "" {
			i := slices.IndexFunc(c.pasted, func(p *pastedImage) bool { return p.label == m[0] })
			if i >= 0 {
				parts = append(parts, c.pasted[i].media)
			}
			continue
		}
		f, err := c.session.Files.Open(m[1])
		if err == nil {
			var image *aycoder.Media
			if image, err = readImage(m[1], f); err == nil {
				parts = append(parts, image)
			}
		}
		if err != nil {
			c.prose(notice, cleanLine(fmt.Sprintf("! the model gets only the name of @%s: %v", m[1], err)))
		}
	}
	return parts
}
