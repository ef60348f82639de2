// A minimal agent on providers/google.
package main

import (
	"context"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/size/minimal"
	"github.com/aycoder/aycoder/providers/google"
)

func main() {
	minimal.Main(context.Background(), func(url string) (aycoder.ModelClient, error) {
		return google.New("m", google.WithBaseURL(url))
	})
}
