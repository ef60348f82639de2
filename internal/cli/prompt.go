package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
)

const (
	maxStdin  = 4 << 20  // bytes that are appended to the prompt
	maxImage  = 32 << 20 // bytes of an image
	stdinWait = 3 * time.Second
)

// promptOf returns the prompt: the images, and the arguments followed by piped input.
func (a *app) promptOf(ctx context.Context, o *options) (in aycoder.Input, err error) {
	if in.Parts, err = loadImages(o.images); err != nil {
		return in, err
	}
	piped := ""
	if !isTerminal(a.stdin) {
		wait := time.Duration(0)
		if o.prompt != "" || o.last || o.resume != "" {
			wait = stdinWait
		}
		piped, err = readPiped(ctx, a.stdin, wait)
		if errors.Is(err, errSilent) {
			a.tell("nothing came from standard input for 3 seconds, so it is left alone (</dev/null saves the wait)")
			err = nil
		}
	}
	in.Prompt = strings.TrimSpace(o.prompt + "\n\n" + piped)
	return in, err
}

// loadImages reads images.
func loadImages(names []string) ([]aycoder.Part, error) {
	var parts []aycoder.Part
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("-i %s: %w", name, errors.Unwrap(err)) // without the name
		}
		image, err := readImage(name, f)
		if err != nil {
			return nil, fmt.Errorf("-i %s: %w", name, err)
		}
		parts = append(parts, image)
	}
	return parts, nil
}

// readImage reads an image to the end, and closes it.
func readImage(name string, r io.ReadCloser) (*aycoder.Media, error) {
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxImage+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxImage {
		return nil, fmt.Errorf("it is larger than %d MB", maxImage>>20)
	}
	return harness.Image(filepath.Base(name), data)
}

// errSilent is the error of readPiped for an input that brings nothing.
var errSilent = errors.New("nothing came from standard input")

// readPiped reads to the end, or until ctx is cancelled. If wait is not 0 and no byte has come after that time, it
// returns errSilent. In these cases the reading goroutine stays until the program ends, because a read from a pipe
// cannot be interrupted.
func readPiped(ctx context.Context, r io.Reader, wait time.Duration) (string, error) {
	type piped struct {
		data []byte
		err  error
	}
	began, got := make(chan struct{}), make(chan piped, 1)
	go func() {
		br := bufio.NewReader(r)
		_, _ = br.Peek(1)
		close(began)
		data, err := io.ReadAll(io.LimitReader(br, maxStdin+1))
		got <- piped{data, err}
	}()
	if wait > 0 {
		silent := time.NewTimer(wait)
		defer silent.Stop()
		select {
		case <-silent.C:
			return "", errSilent
		case <-began:
		case <-ctx.Done():
		}
	}
	select {
	case c := <-got:
		if len(c.data) > maxStdin {
			return "", fmt.Errorf("standard input is larger than %d MB; name a file instead", maxStdin>>20)
		}
		return string(c.data), c.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
