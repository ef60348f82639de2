package harness

import (
	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/picture"
)

// Image returns an image of a prompt or of a tool's result, of the type that its data have: PNG, JPEG, GIF or WebP. The
// error says why models refuse it: they refuse each later turn too, once it is in a conversation. The image must be whole
// and have at most 8,000 pixels in a direction. Services also bound the bytes of an image, each differently.
func Image(name string, data []byte) (*aycoder.Media, error) {
	kind, err := picture.Type(data)
	if err != nil {
		return nil, err
	}
	return &aycoder.Media{Type: kind, Name: name, Data: data}, nil
}
