// A minimal agent on providers/ollama.
package main

import (
	"context"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/size/minimal"
	"github.com/aycoder/aycoder/providers/ollama"
)

func main() {
	minimal.Main(context.Background(), func(url string) (aycoder.ModelClient, error) {
		return ollama.New("m", ollama.WithBaseURL(url))
	})
}
