// Package picture recognizes the images that models take.
//
// A service refuses a request with an image that is not whole or too large, and each later one of the conversation, since
// the image is in its history. So an image is checked where it enters. The structure of a file is followed from its begin
// to its end, which finds what was cut off or damaged and takes no memory. Its pixels are not decoded.
package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"slices"
)

// MaxSide is the largest width and height in pixels that Anthropic and Amazon Bedrock take.
const MaxSide = 8000

// Known reports whether a media type is one that [Type] can find, as services and clients write it. Of other types, such as
// HEIC, some models take images that are not checked here.
func Known(kind string) bool {
	return slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/jpg"}, kind)
}

var errWhole = errors.New("it is cut off or damaged")

// Type returns the media type of an image, as its data say. The error is why models would refuse it.
func Type(data []byte) (string, error) {
	kind := http.DetectContentType(data)
	follow := map[string]func(*file) bool{"image/png": png, "image/jpeg": jpeg, "image/gif": gif, "image/webp": webp}[kind]
	if follow == nil {
		return "", fmt.Errorf("it is %s, and not PNG, JPEG, GIF or WebP", kind)
	}
	f := &file{rest: data}
	switch {
	case !follow(f) || f.short || f.width <= 0 || f.height <= 0:
		return "", errWhole
	case max(f.width, f.height) > MaxSide:
		return "", fmt.Errorf("it has %d by %d pixels, more than %d in a direction", f.width, f.height, MaxSide)
	}
	return kind, nil
}

// A file is what is left to follow of an image.
type file struct {
	rest          []byte
	short         bool // it ended too early
	width, height int
}

// take returns the next bytes, or as many zeros if there are not as many.
func (f *file) take(n int) []byte {
	if n > len(f.rest) {
		f.short, f.rest = true, nil
		return make([]byte, min(n, 32))
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

// png follows the chunks of a PNG file to the last one. Those without which there is no image begin with a capital letter,
// and their checksums must be right; readers do without the others.
func png(f *file) bool {
	f.take(8)
	for pixels := false; !f.short; {
		size := int(binary.BigEndian.Uint32(f.take(4)) & math.MaxInt32)
		if size > len(f.rest) {
			return false
		}
		chunk := f.take(4 + size)
		sum := binary.BigEndian.Uint32(f.take(4))
		if f.short || chunk[0] <= 'Z' && sum != crc32.ChecksumIEEE(chunk) {
			return false
		}
		switch string(chunk[:4]) {
		case "IHDR":
			if size < 8 {
				return false
			}
			f.width, f.height = int(binary.BigEndian.Uint32(chunk[4:])), int(binary.BigEndian.Uint32(chunk[8:]))
		case "IDAT":
			pixels = true
		case "IEND":
			return pixels
		}
	}
	return false
}

// jpeg follows the segments of a JPEG file, and the pixels between them, to the end of the image.
func jpeg(f *file) bool {
	f.take(2)
	for pixels := false; !f.short; {
		n := bytes.IndexByte(f.rest, 0xff)
		if n < 0 || n > 0 && !pixels {
			return false
		}
		f.take(n)
		marker := byte(0xff)
		for marker == 0xff && !f.short {
			marker = f.take(1)[0]
		}
		switch {
		case marker == 0xd9:
			return pixels
		case marker < 2 || 0xd0 <= marker && marker <= 0xd7: // it is between pixels
			continue
		}
		segment := f.take(max(int(binary.BigEndian.Uint16(f.take(2)))-2, 0))
		switch marker {
		case 0xda:
			pixels = true
		case 0xc4, 0xc8, 0xcc: // they are not of the others up to 0xcf
		default:
			if 0xc0 <= marker && marker <= 0xcf && len(segment) >= 5 {
				f.height, f.width = int(binary.BigEndian.Uint16(segment[1:])), int(binary.BigEndian.Uint16(segment[3:]))
			}
		}
	}
	return false
}

// gif follows the blocks of a GIF file to the end of its first image, the only one that models see.
func gif(f *file) bool {
	head := f.take(13)
	f.width, f.height = int(binary.LittleEndian.Uint16(head[6:])), int(binary.LittleEndian.Uint16(head[8:]))
	table := func(flags byte) {
		if flags&0x80 != 0 {
			f.take(3 << (flags&7 + 1))
		}
	}
	table(head[10])
	for !f.short {
		image := false
		switch f.take(1)[0] {
		case 0x21:
			f.take(1)
		case 0x2c:
			table(f.take(9)[8])
			f.take(1)
			image = true
		default:
			return false
		}
		for n := 1; n != 0 && !f.short; {
			n = int(f.take(1)[0])
			f.take(n)
		}
		if image {
			return true
		}
	}
	return false
}

// webp follows the chunks of a WebP file.
func webp(f *file) bool {
	size := int(binary.LittleEndian.Uint32(f.take(12)[4:]) & math.MaxInt32)
	if size < 4 || size-4 > len(f.rest) {
		return false
	}
	f.rest = f.rest[:size-4]
	pixels := false
	for len(f.rest) >= 8 {
		head := f.take(8)
		size := int(binary.LittleEndian.Uint32(head[4:]) & math.MaxInt32)
		if size > len(f.rest) {
			return false
		}
		chunk := make([]byte, 10) // or its begin
		copy(chunk, f.take(size))
		var w, h int
		switch string(head[:4]) {
		case "VP8X":
			w, h = int(binary.LittleEndian.Uint32(chunk[4:])&0xffffff)+1, int(binary.LittleEndian.Uint32(chunk[7:])&0xffffff)+1
		case "VP8L":
			bits := binary.LittleEndian.Uint32(chunk[1:])
			w, h, pixels = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1, true
		case "VP8 ":
			w, h, pixels = int(binary.LittleEndian.Uint16(chunk[6:])&0x3fff), int(binary.LittleEndian.Uint16(chunk[8:])&0x3fff), true
		case "ANMF":
			pixels = true
		}
		f.width, f.height = max(f.width, w), max(f.height, h)
		f.take(min(size&1, len(f.rest)))
	}
	return pixels
}
