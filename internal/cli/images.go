package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
)

// mostPasted is how many of the images that were pasted last are kept.
const mostPasted = 10

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
	c.pasted = append(c.pasted[max(len(c.pasted)-mostPasted+1, 0):], media)
	return fmt.Sprintf("[image %d]", c.pastes), nil
}

var imageNames = regexp.MustCompile(`(?i)(?:^|\s)@((?:\S+|\S[^\n@[]*?)\.(?:png|jpe?g|gif|webp))|\[image (\d+)\]`)

// images returns the images that a line names: those that were pasted into it, and files of the workspace behind an @.
// A name with blanks counts only if there is such a file.
func (c *chat) images(text string) (parts []aycoder.Part) {
	for _, m := range imageNames.FindAllStringSubmatch(text, -1) {
		if m[1] == "" {
			n, _ := strconv.Atoi(m[2])
			switch i := n - 1 - c.pastes + len(c.pasted); {
			case n < 1 || n > c.pastes: // nothing was pasted under that name
			case i < 0:
				c.prose(notice, fmt.Sprintf("! the model gets only the label %s: the program keeps the last %d images", m[0], mostPasted))
			default:
				parts = append(parts, c.pasted[i])
			}
			continue
		}
		blanks := strings.Contains(m[1], " ")
		if blanks && strings.Contains(m[1], "..") { // "x or ../a.png" is not a.png
			continue
		}
		f, err := c.session.Files.Open(m[1])
		if blanks && err != nil && !errors.Is(err, fs.ErrPermission) {
			continue
		}
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
