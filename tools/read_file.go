package tools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf16"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxWhole   = 1 << 20   // bytes of a file that is read without a range
	maxLines   = 2000      // a call
	maxRead    = 256 << 10 // bytes a call
	maxLine    = 2000      // bytes of a line
	sniffBytes = 8 << 10   // in which a NUL makes a file binary
	maxTail    = 64 << 20  // bytes after what is shown whose lines are counted
)

const readDescription = `Read a text file of the workspace. Each line comes with its number and
a tab in front, which are not part of the file. At most 2,000 lines and 256 KB are returned; the
last line says which lines they are and the offset to go on with. Files over 1 MB need an offset
or a limit. A folder is listed instead.`

type readArgs struct {
	Path   string `json:"path" jsonschema_description:"File, relative to the workspace."`
	Offset int    `json:"offset,omitempty" jsonschema:"minimum=0" jsonschema_description:"First line to read, counted from 1. Default: 1."`
	Limit  int    `json:"limit,omitempty" jsonschema:"minimum=0,maximum=2000" jsonschema_description:"How many lines to read. Default: 2000."`
}

// ReadFile returns read_file, which reads lines of a text file, or lists a folder.
func ReadFile(ws FS, opts ...Option) (aycoder.Tool, error) {
	if _, err := configure(ws, opts); err != nil {
		return nil, err
	}
	read := func(ctx context.Context, inv *invocation, in readArgs) (*result, error) {
		return readFile(ctx, ws, inv, in)
	}
	return aycoder.NewTool("read_file", readDescription, guard(read),
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path"))
}

func readFile(
	ctx context.Context, ws FS, inv *invocation, in readArgs,
) (*result, error) {
	if in.Offset < 0 || in.Limit < 0 {
		return nil, problemf("invalid_arguments", "offset and limit must not be negative")
	}
	f, err := ws.Open(in.Path)
	if kindOf(err) == "is_directory" {
		return listFolder(ctx, ws, inv, listArgs{Path: in.Path})
	}
	if err != nil {
		return nil, missing(ctx, ws, in.Path, err)
	}
	defer f.Close()
	r, size, err := textOf(f, in)
	if err != nil {
		return nil, err
	}
	first := max(in.Offset, 1)
	p := &page{first: first, last: first + maxLines - 1, inv: inv, size: size}
	if in.Limit > 0 {
		p.last = first + min(in.Limit, maxLines) - 1
	}
	if err := p.read(ctx, r); err != nil {
		return nil, err
	}
	return p.result(in)
}

// textOf returns a reader of the text of a file, which has the size at which it was
// opened, even if it grows meanwhile.
func textOf(f fs.File, in readArgs) (io.Reader, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", showPath(in.Path), err)
	}
	size := info.Size()
	head := make([]byte, sniffBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, 0, fmt.Errorf("read %s: %w", showPath(in.Path), err)
	}
	head = head[:n]
	all := io.MultiReader(bytes.NewReader(head), f)
	if size > maxWhole && in.Offset == 0 && in.Limit == 0 {
		return nil, 0, problemf("too_large", "%s has %d bytes; read a part of it with offset and "+
			"limit (offset 1, limit 200), or find the place with code_search", showPath(in.Path), size)
	}
	if order := byteOrder(head); order != nil && size <= maxWhole {
		data, err := io.ReadAll(io.LimitReader(all, maxWhole))
		return strings.NewReader(decodeUTF16(data[2:], order)), size, err
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return nil, 0, problemf("binary_file", "%s is a binary file of %d bytes; "+
			"look at it with bash (file, xxd, strings)",
			showPath(in.Path), size)
	}
	return io.LimitReader(all, size), size, nil
}

// byteOrder returns that of UTF-16 with a byte order mark, else nil.
func byteOrder(head []byte) binary.ByteOrder {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return binary.LittleEndian
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return binary.BigEndian
	default:
		return nil
	}
}

func decodeUTF16(data []byte, order binary.ByteOrder) string {
	units := make([]uint16, 0, len(data)/2)
	for ; len(data) >= 2; data = data[2:] {
		units = append(units, order.Uint16(data))
	}
	return string(utf16.Decode(units))
}

// page collects the lines from first to last, and counts all, except those far after.
type page struct {
	first, last int
	out         strings.Builder
	shown       int // the last line shown
	total       int
	tail        int64 // bytes read after what is shown
	unfinished  bool  // there is more than was counted

	line []byte // the beginning of the line that is being read
	long int    // its length

	lf, crlf, longer int // lines of the page that end so, or were cut
	odd              bool

	inv        *invocation
	done, size int64
}

func (p *page) read(ctx context.Context, r io.Reader) error {
	br := bufio.NewReaderSize(r, 64<<10)
	for blocks := 0; ; {
		chunk, err := br.ReadSlice('\n')
		before := p.done >> 16
		p.done += int64(len(chunk))
		if now := p.done >> 16; now != before {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if blocks++; blocks%256 == 0 {
				p.inv.Progress(aycoder.Progress{Current: p.done, Total: p.size, Message: "bytes"})
			}
		}
		p.take(chunk)
		if p.full() {
			if p.tail += int64(len(chunk)); p.tail > maxTail {
				p.total++ // the line that this is of
				p.unfinished = true
				return nil
			}
		}
		switch {
		case err == nil:
			p.endLine(true)
		case errors.Is(err, io.EOF):
			if p.long > 0 {
				p.endLine(false)
			}
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("read: %w", err)
		}
	}
}

// take adds a piece to the line.
func (p *page) take(chunk []byte) {
	p.long += len(chunk)
	if p.wants() {
		room := maxLine + 2 - len(p.line) // for the line break
		p.line = append(p.line, chunk[:max(0, min(len(chunk), room))]...)
	}
}

// wants reports whether the line that is being read belongs to the page.
func (p *page) wants() bool {
	n := p.total + 1
	return p.first <= n && n <= p.last && p.out.Len() < maxRead-maxLine-100
}

// full reports whether nothing that is still to be read belongs to the page.
func (p *page) full() bool { return p.total+1 >= p.first && !p.wants() }

func (p *page) endLine(ended bool) {
	if p.wants() {
		p.show(ended)
	}
	p.total++
	p.line, p.long = p.line[:0], 0
}

func (p *page) show(ended bool) {
	line := p.line
	size := p.long
	if ended {
		size--
		p.lf++
		if size <= maxLine+1 {
			line = bytes.TrimSuffix(line, []byte("\n"))
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
				size--
				p.lf--
				p.crlf++
			}
		}
	}
	text := string(line)
	cut := ""
	if size > maxLine {
		text = runes.Cut(text, maxLine)
		cut = fmt.Sprintf("… [line truncated: %d bytes more]", size-len(text))
		p.longer++
	}
	clean := printable(text)
	p.odd = p.odd || clean != text
	p.shown = p.total + 1
	if p.shown == 1 {
		clean = strings.TrimPrefix(clean, "\uFEFF")
	}
	fmt.Fprintf(&p.out, "%6d\t%s%s\n", p.shown, clean, cut)
}

func (p *page) result(in readArgs) (*result, error) {
	if p.total == 0 {
		return textResult("[empty file]\n", "empty file"), nil
	}
	if p.shown == 0 {
		return nil, problemf("offset_out_of_range", "%s has %s; offset %d is past its end",
			showPath(in.Path), plural(p.total, "line"), in.Offset)
	}
	atLeast := ""
	if p.unfinished {
		atLeast = "at least "
	}
	fmt.Fprintf(&p.out, "[lines %d-%d of %s%d", p.first, p.shown, atLeast, p.total)
	if p.shown < p.total {
		fmt.Fprintf(&p.out, "; next offset %d", p.shown+1)
	}
	p.out.WriteString("]\n")
	switch {
	case p.crlf > 0 && p.lf > 0:
		p.out.WriteString("[line endings are mixed, CRLF and LF; edit_file keeps them]\n")
	case p.crlf > 0:
		p.out.WriteString("[line endings are CRLF; edit_file keeps them]\n")
	}
	if p.odd {
		p.out.WriteString("[bytes that are not valid UTF-8, or NUL, are shown as \uFFFD]\n")
	}
	return textResult(p.out.String(), plural(p.shown-p.first+1, "line")), nil
}
