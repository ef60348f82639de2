package tokens

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	stdpng "image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func png(w, h int) []byte {
	var b bytes.Buffer
	if err := stdpng.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func TestDimensions(t *testing.T) {
	img := image.NewPaletted(image.Rect(0, 0, 300, 200), []color.Color{color.Black})
	var g, j bytes.Buffer
	require.NoError(t, gif.Encode(&g, img, nil))
	require.NoError(t, jpeg.Encode(&j, img, nil))
	webp := func(chunk string) []byte { return append([]byte("RIFF\x00\x00\x00\x00WEBP"), chunk...) }
	comment := append([]byte("\xff\xd8\xff\xfe\x00\x06note\xff"), j.Bytes()[2:]...)
	for _, tt := range []struct {
		name string
		data []byte
		w, h int
	}{
		{"png", png(300, 200), 300, 200},
		{"gif", g.Bytes(), 300, 200},
		{"jpeg", j.Bytes(), 300, 200},
		{"jpeg with a comment and a fill byte", comment, 300, 200},
		// The layouts of RFC 9649, sections 2.5 to 2.7.
		{"webp, lossy", webp("VP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a\x2c\x41\xc8\x00"), 300, 200},
		{"webp, lossless", webp("VP8L\x00\x00\x00\x00\x2f\x2b\xc1\x31\x00\x00\x00\x00\x00\x00"), 300, 200},
		{"webp, extended", webp("VP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x2b\x01\x00\xc7\x00\x00"), 300, 200},
		{"nothing", nil, side, side},
		{"text", []byte("hello"), side, side},
		{"no pixels", append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"), make([]byte, 8)...), side, side},
	} {
		w, h := dimensions(tt.data)
		require.Equal(t, []int{tt.w, tt.h}, []int{w, h}, tt.name)
		for n := range min(len(tt.data), 200) {
			w, h = dimensions(tt.data[:n]) // does not panic
			require.Positive(t, min(w, h))
		}
	}
}

// The examples of the providers' documentation.
func TestImageTokens(t *testing.T) {
	for _, tt := range []struct {
		rule func(w, h int) int64
		w, h int
		want int64
	}{
		{areaTokens, 200, 200, 54},
		{areaTokens, 1000, 1000, 1334},
		{areaTokens, 1092, 1092, 1590},
		{areaTokens, 10_000, 10_000, 4784},
		{tileTokens, 1024, 1024, 765},
		{tileTokens, 2048, 4096, 1105},
		{patchTokens, 1024, 1024, 1024 * 162 / 100},
		{patchTokens, 5000, 5000, 1536 * 162 / 100},
		{cropTokens, 384, 384, 258},
		{cropTokens, 960, 540, 6 * 258},
	} {
		require.Equal(t, tt.want, tt.rule(tt.w, tt.h), "%d × %d", tt.w, tt.h)
	}
	unknown := reader{}
	for _, provider := range []string{"anthropic", "bedrock", "openai", "google"} {
		for _, size := range [][2]int{{1, 1}, {300, 200}, {1 << 20, 1}, {4000, 3000}, {side, side}} {
			n := reader{provider: provider}.image(size[0], size[1])
			require.Positive(t, n)
			require.LessOrEqual(t, n, unknown.image(size[0], size[1]), "an unknown provider costs most")
		}
	}
}

func TestPages(t *testing.T) {
	pdf := func(pages int) []byte {
		return []byte("%PDF-1.7\n<</Type /Pages /Count 9>>" + strings.Repeat("<< /Type /Page /Parent 1 0 R>><</Type/Page>>", pages/2))
	}
	require.Equal(t, int64(4*3000), reader{provider: "anthropic"}.pages(pdf(4)))
	require.Equal(t, int64(4*560), reader{provider: "google"}.pages(pdf(4)))
	require.Equal(t, int64(3*3000), reader{}.pages(make([]byte, 2*bytesPerPage+1)), "the list of pages is compressed")
	for _, mediaType := range []string{"application/pdf", "audio/mpeg", "video/mp4", ""} {
		n := New().Estimate(gpt, &aycoder.Request{Messages: []*aycoder.Message{{
			Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Media{Type: mediaType, Data: make([]byte, 100_000)}},
		}}})
		require.Greater(t, n.Breakdown.Images, int64(100), fmt.Sprintf("%q", mediaType))
	}
}
