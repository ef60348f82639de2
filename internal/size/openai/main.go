// A minimal agent on providers/openai.
package main

import (
	"context"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/size/minimal"
	"github.com/aycoder/aycoder/providers/openai"
)

func main() {
	minimal.Main(context.Background(), func(url string) (aycoder.ModelClient, error) {
		return openai.New("m", openai.WithBaseURL(url))
	})
}
