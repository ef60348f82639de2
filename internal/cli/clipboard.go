package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

const clipboardTime = 3 * time.Second // for a program that reads or writes the clipboard

// A clipboard is what reaches the clipboard of a system: a program that writes what it reads there, and one that prints
// an image of it as PNG, or nil.
type clipboard struct{ write, image []string }

// powershellImage prints the image on the clipboard in base64, since PowerShell changes bytes that it prints.
const powershellImage = `Add-Type -AssemblyName System.Windows.Forms,System.Drawing; $i=[Windows.Forms.Clipboard]::GetImage(); if(!$i){exit 1}
$m=New-Object IO.MemoryStream; $i.Save($m,[Drawing.Imaging.ImageFormat]::Png); [Convert]::ToBase64String($m.ToArray())`

// clipboards are those that there may be, the best first.
func clipboards(system string, getenv func(string) string) (all []clipboard) {
	switch system {
	case "darwin":
		return []clipboard{{[]string{"pbcopy"}, []string{"pngpaste", "-"}}}
	case "windows":
		return []clipboard{{[]string{"clip"}, []string{"powershell", "-NoProfile", "-STA", "-Command", powershellImage}}}
	}
	if getenv("WAYLAND_DISPLAY") != "" {
		all = append(all, clipboard{[]string{"wl-copy"}, []string{"wl-paste", "--type", "image/png"}})
	}
	if getenv("DISPLAY") != "" {
		x := []string{"xclip", "-selection", "clipboard"}
		all = append(all, clipboard{x, append(x[:3:3], "-t", "image/png", "-o")}, clipboard{[]string{"xsel", "-bi"}, nil})
	}
	return all
}

// toClipboard runs the first program that there is, and returns its name, or "" if there is none.
func toClipboard(ctx context.Context, getenv func(string) string, text string) (string, error) {
	for _, c := range clipboards(runtime.GOOS, getenv) {
		if name := c.write[0]; installed(name) {
			_, err := clipboardRun(ctx, c.write, strings.NewReader(text))
			return name, err
		}
	}
	return "", nil
}

// imageOnClipboard returns the image on the clipboard.
func imageOnClipboard(ctx context.Context, getenv func(string) string) ([]byte, error) {
	var names []string
	for _, c := range clipboards(runtime.GOOS, getenv) {
		switch {
		case len(c.image) == 0:
			continue
		case !installed(c.image[0]):
			names = append(names, c.image[0])
			continue
		}
		data, err := clipboardRun(ctx, c.image, nil)
		if err == nil && c.image[0] == "powershell" {
			data, err = base64.StdEncoding.DecodeString(string(bytes.TrimSpace(data)))
		}
		if err == nil && len(data) == 0 {
			err = errors.New("there is no image on the clipboard")
		}
		return data, err
	}
	if len(names) == 0 {
		return nil, errors.New("no clipboard can be reached here; name a file instead, such as @picture.png")
	}
	return nil, fmt.Errorf("reading images from the clipboard needs %s", strings.Join(names, " or "))
}

func installed(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// clipboardRun runs a program, and returns what it prints, at most one byte more than an image may have.
func clipboardRun(ctx context.Context, argv []string, in io.Reader) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, clipboardTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.WaitDelay = in, time.Second
	out := &bounded{most: maxImage*4/3 + 8}
	if in == nil { // or else something may stay, to hand the text out
		cmd.Stdout = out
	}
	if err := cmd.Run(); err != nil && len(out.data) < out.most {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	return out.data, nil
}

// A bounded keeps the first bytes of what a program writes. A program that goes on writing ends.
type bounded struct {
	data []byte
	most int
}

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (n int, err error) {
	if n = min(len(p), b.most-len(b.data)); n < len(p) {
		err = io.ErrShortWrite
	}
	b.data = append(b.data, p[:n]...)
	return n, err
}
