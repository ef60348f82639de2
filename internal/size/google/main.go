// A minimal agent on providers/google.
package main

import (
	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/size/minimal"
	"github.com/aycoder/aycoder/providers/google"
)

func main() {
	minimal.Main(func(url string) (aycoder.ModelClient, error) {
		return google.New("m", google.WithBaseURL(url))
	})
}
