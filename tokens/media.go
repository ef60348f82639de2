package tokens

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"

	"github.com/aycoder/aycoder"
)

const (
	// side is the assumed width and height of an image whose size is unknown.
	side = 2048
	// bytesPerToken is assumed for sounds and films: 32 tokens for a second of 16 kB.
	bytesPerToken = 500
	// bytesPerPage is assumed for documents whose pages cannot be counted.
	bytesPerPage = 50 << 10
)

// media adds an image or a document to m. Only the text of a document follows the model's scale.
func (r reader) media(m *measure, p *aycoder.Media) {
	kind, _, _ := strings.Cut(p.Type, ";")
	switch {
	case strings.HasPrefix(kind, "image/"):
		m.Images += r.image(dimensions(p.Data))
	case kind == "application/pdf":
		m.Images += r.pages(p.Data)
	case strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml"):
		m.Files += m.text(p.Name) + m.bytes(p.Data)
	default:
		m.Images += int64(len(p.Data)/bytesPerToken) + 1
	}
}

// image returns the tokens of an image with w by h pixels. The rules are those of the providers'
// documentation as of 2026. Where models of one provider differ, the dearer rule counts, and for
// an unknown provider the dearest.
func (r reader) image(w, h int) int64 {
	switch r.provider {
	case "anthropic", "bedrock":
		return areaTokens(w, h)
	case "openai":
		return max(tileTokens(w, h), patchTokens(w, h))
	case "google":
		return max(cropTokens(w, h), 1120)
	}
	return max(areaTokens(w, h), tileTokens(w, h), patchTokens(w, h), cropTokens(w, h), 1120)
}

// areaTokens is Anthropic's rule: a token for 750 pixels, after the image was shrunk to a long edge
// of 2576 pixels and to 4,784 tokens. Older models shrink it further.
func areaTokens(w, h int) int64 {
	shrink := min(1, 2576/float64(max(w, h)))
	return min(int64(math.Ceil(float64(w)*shrink*float64(h)*shrink/750)), 4784)
}

// tileTokens is the rule of GPT-4o: the image is shrunk to 2048 by 2048 pixels, then to a short edge
// of 768. Each tile of 512 by 512 costs 170 tokens, and the image 85.
func tileTokens(w, h int) int64 {
	shrink := min(1, 2048/float64(max(w, h)))
	shrink = min(shrink, 768/float64(min(w, h)))
	return 85 + 170*tiles(float64(w)*shrink, float64(h)*shrink, 512)
}

// patchTokens is the rule of GPT-4.1 mini and later: a token for 32 by 32 pixels, at most 1536, times
// 1.62.
func patchTokens(w, h int) int64 {
	return min(tiles(float64(w), float64(h), 32), 1536) * 162 / 100
}

// cropTokens is the rule of Gemini 2: 258 tokens for a small image, and for each tile of a larger one.
func cropTokens(w, h int) int64 {
	if max(w, h) <= 384 {
		return 258
	}
	edge := min(max(float64(min(w, h))/1.5, 256), 768)
	return 258 * min(tiles(float64(w), float64(h), edge), 64)
}

// tiles returns how many squares cover w by h pixels.
func tiles(w, h, edge float64) int64 {
	return int64(math.Ceil(w/edge) * math.Ceil(h/edge))
}

// pages returns the tokens of a PDF document, whose pages a provider reads as text and as images.
func (r reader) pages(data []byte) int64 {
	n := int64(0)
	for rest := data; ; {
		_, after, ok := bytes.Cut(rest, []byte("/Type"))
		if !ok {
			break
		}
		after = bytes.TrimLeft(after, " \r\n")
		if bytes.HasPrefix(after, []byte("/Page")) && !bytes.HasPrefix(after, []byte("/Pages")) {
			n++
		}
		rest = after
	}
	if n == 0 { // the list of pages is compressed
		n = int64(len(data)/bytesPerPage) + 1
	}
	if r.provider == "google" {
		return n * 560
	}
	return n * 3000
}

// dimensions returns the width and height in the header of a PNG, GIF, JPEG or WebP image. Any other counts as a large
// one. The decoders of package image would add 150 kB to each program.
func dimensions(data []byte) (w, h int) {
	be, le := binary.BigEndian, binary.LittleEndian
	switch n := len(data); {
	case n >= 24 && bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		w, h = int(be.Uint32(data[16:])), int(be.Uint32(data[20:]))
	case n >= 10 && bytes.HasPrefix(data, []byte("GIF8")):
		w, h = int(le.Uint16(data[6:])), int(le.Uint16(data[8:]))
	case n >= 2 && bytes.HasPrefix(data, []byte("\xff\xd8")):
		w, h = jpegDimensions(data[2:])
	case n >= 30 && bytes.HasPrefix(data, []byte("RIFF")):
		w, h = webpDimensions(data)
	}
	if w <= 0 || h <= 0 || w > 1<<20 || h > 1<<20 {
		return side, side
	}
	return w, h
}

// jpegDimensions reads the segments of a JPEG image up to the frame header, SOF0 to SOF15 except DHT, JPG and DAC
// (ITU T.81, table B.1). Bytes 0xFF before a marker fill.
func jpegDimensions(data []byte) (w, h int) {
	be := binary.BigEndian
	for len(data) >= 9 && data[0] == 0xFF {
		switch marker := data[1]; {
		case marker == 0xFF:
			data = data[1:]
		case marker == 0x01 || marker >= 0xD0 && marker <= 0xD7: // without a segment
			data = data[2:]
		case marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC:
			return int(be.Uint16(data[7:])), int(be.Uint16(data[5:]))
		default:
			data = data[min(2+int(be.Uint16(data[2:])), len(data)):]
		}
	}
	return 0, 0
}

func webpDimensions(data []byte) (w, h int) {
	le := binary.LittleEndian
	switch string(data[12:16]) {
	case "VP8 ":
		return int(le.Uint16(data[26:]) & 0x3FFF), int(le.Uint16(data[28:]) & 0x3FFF)
	case "VP8L":
		bits := le.Uint32(data[21:])
		return int(bits&0x3FFF) + 1, int(bits>>14&0x3FFF) + 1
	case "VP8X":
		return int(le.Uint32(data[24:])&0xFFFFFF) + 1, int(le.Uint32(data[26:])>>8) + 1
	}
	return 0, 0
}
