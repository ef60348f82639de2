package picture

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color/palette"
	gifs "image/gif"
	jpegs "image/jpeg"
	pngs "image/png"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tinyWebP is an image of one pixel.
const tinyWebP = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"

// images returns images of other encoders.
func images(t testing.TB, w, h int) map[string][]byte {
	t.Helper()
	plain := image.NewPaletted(image.Rect(0, 0, w, h), palette.Plan9)
	for i := range plain.Pix {
		plain.Pix[i] = byte(i * i)
	}
	var a, b, c, d bytes.Buffer
	require.NoError(t, pngs.Encode(&a, plain))
	require.NoError(t, jpegs.Encode(&b, plain, nil))
	require.NoError(t, gifs.Encode(&c, plain, nil))
	require.NoError(t, gifs.EncodeAll(&d, &gifs.GIF{Image: []*image.Paletted{plain, plain}, Delay: []int{1, 1}}))
	webp, err := base64.StdEncoding.DecodeString(tinyWebP)
	require.NoError(t, err)
	return map[string][]byte{"image/png": a.Bytes(), "image/jpeg": b.Bytes(), "image/gif": c.Bytes(), "image/gif of two": d.Bytes(), "image/webp": webp}
}

func TestType(t *testing.T) {
	for name, data := range images(t, 70, 50) {
		kind, err := Type(data)
		require.NoError(t, err, name)
		assert.True(t, strings.HasPrefix(name, kind), kind)
		_, err = Type(append(data, "more"...))
		require.NoError(t, err, name)
		last := len(data) - 1
		switch name {
		case "image/gif": // its last byte says that there is no other image
			last--
		case "image/gif of two":
			last /= 2
		}
		for n := range last {
			_, err := Type(data[:n])
			require.Error(t, err, "%s of %d in %d bytes", name, len(data), n)
		}
	}
	profile := append(slices.Clone(images(t, 1, 1)["image/png"][:33]), "\x00\x00\x00\x02iCCP12sum?"...) // the sum is wrong, as in an image of a reference server
	_, err := Type(append(profile, images(t, 1, 1)["image/png"][33:]...))
	require.NoError(t, err)
	whole := images(t, 1, 1)["image/png"]
	_, err = Type(append(whole[:33:33], whole[len(whole)-12:]...))
	require.ErrorIs(t, err, errWhole, "it has no pixels")
	damaged := images(t, 70, 50)["image/png"]
	damaged[len(damaged)/2]++
	_, err = Type(damaged)
	require.ErrorIs(t, err, errWhole)
	for _, text := range []string{"", "<svg/>", "BM", "\x89PNG\r\n\x1a\n", "\x89PNG\r\n\x1a\n<html>", "GIF89a", "\xff\xd8\xff\xe0 text \xff\xd9", "RIFF\x04\x00\x00\x00WEBP"} {
		_, err := Type([]byte(text))
		require.Error(t, err, "%q", text)
	}
}

func TestTooManyPixels(t *testing.T) {
	for name, data := range images(t, 2, MaxSide+1) {
		if name == "image/webp" {
			continue
		}
		_, err := Type(data)
		require.ErrorContains(t, err, "2 by 8001 pixels", name)
	}
	for name, data := range images(t, MaxSide, 1) {
		_, err := Type(data)
		require.NoError(t, err, name)
	}
}

func FuzzType(f *testing.F) {
	for _, data := range images(f, 3, 3) {
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = Type(data) })
}
