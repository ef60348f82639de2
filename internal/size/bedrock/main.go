// A minimal agent on providers/bedrock.
package main

import (
	"context"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/size/minimal"
	"github.com/aycoder/aycoder/providers/bedrock"
)

func main() {
	minimal.Main(context.Background(), func(url string) (aycoder.ModelClient, error) {
		return bedrock.New("m", bedrock.WithBaseURL(url))
	})
}
