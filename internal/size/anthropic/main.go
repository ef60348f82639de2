// A minimal agent on providers/anthropic.
package main

import (
	"context"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/size/minimal"
	"github.com/aycoder/aycoder/providers/anthropic"
)

func main() {
	minimal.Main(context.Background(), func(url string) (aycoder.ModelClient, error) {
		return anthropic.New("m", anthropic.WithBaseURL(url))
	})
}
