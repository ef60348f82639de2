package tools

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/workspace"
)

const (
	maxLines = 2000     // per call
	maxRead  = 64 << 10 // bytes per call
	maxLine  = 2000     // bytes of a line
	maxKept  = 8 << 20  // bytes of the largest file whose content is remembered as shown
	maxTail  = 64 << 20 // bytes behind the shown lines in which lines are still counted
)

const readDescription = `Read a text file of the workspace. Each line is preceded by its number and
a tab, which are not part of the file. At most 2,000 lines and 64 KB are returned, and at most 2,000
bytes of a line; the last line says which lines were returned, and with which offset to continue. If
the path is a directory, it is listed instead.`

type readArgs struct {
	Path   string `json:"path" jsonschema_description:"File, relative to the workspace."`
	Offset int    `json:"offset,omitempty" jsonschema:"minimum=0" jsonschema_description:"First line to read, counted from 1. Default: 1."`
	Limit  int    `json:"limit,omitempty" jsonschema:"minimum=0,maximum=2000" jsonschema_description:"How many lines to read. Default: 2000."`
}

// ReadFile returns the tool read_file, which reads lines of a text file or lists a directory. A
// call returns at most 2,000 lines and 64 kB, and tells the model how to continue.
func ReadFile(ws FS, opts ...Option) (aycoder.Tool, error) {
	c, err := configure(ws, opts)
	if err != nil {
		return nil, err
	}
	read := func(ctx context.Context, inv *invocation, in readArgs) (*result, error) {
		return readFile(ctx, within(ctx, ws), inv, c, in)
	}
	return aycoder.NewTool("read_file", readDescription, guard(read),
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path"))
}

// readFile shows some lines of a file. The text that was shown is noted, because an edit is
// compared with it later. A line that is shortened does not count as read: a model that writes the
// whole file would delete the rest of the line.
func readFile(
	ctx context.Context, ws FS, inv *invocation, c *config, in readArgs,
) (*result, error) {
	switch {
	case in.Path == "":
		return nil, problemf("invalid_arguments",
			"path is empty; name a file, or a directory to list it")
	case in.Offset < 0 || in.Limit < 0:
		return nil, problemf("invalid_arguments", "offset and limit must not be negative")
	}
	f, err := ws.Open(in.Path)
	if kindOf(err) == workspace.KindIsDirectory {
		return listDirectory(ctx, ws, inv, c, listArgs{Path: in.Path})
	}
	if err != nil {
		return nil, missing(ctx, ws, in.Path, err)
	}
	defer f.Close()
	t, err := textOf(f, in.Path)
	if err != nil {
		return nil, err
	}
	first := max(in.Offset, 1)
	p := &page{first: first, last: first + maxLines - 1}
	if in.Limit > 0 {
		p.last = first + min(in.Limit, maxLines) - 1
	}
	stop := watch(inv, func() aycoder.Progress {
		return aycoder.Progress{Current: p.done.Load(), Total: t.size, Message: "bytes"}
	})
	err = p.read(ctx, t.reader)
	stop()
	if err != nil {
		return nil, err
	}
	r, err := p.result(in)
	if err != nil {
		return nil, err
	}
	if rel, err := ws.Rel(in.Path); err == nil && t.kept {
		seen := ws.Seen().For(ctx)
		if p.longer > 0 || obscured(r.Text()) {
			seen.AddPart(rel, string(t.whole))
		} else {
			seen.AddLines(rel, string(t.whole), p.first, p.shown, p.total)
		}
	}
	return r, nil
}

// text is the text of a file. If the file is not too large, its content is kept as it is
// on disk.
type text struct {
	reader io.Reader
	size   int64 // of the file when it was opened: it may grow meanwhile
	whole  []byte
	kept   bool
}

// textOf opens the text of a file. A small one is read whole, so that it can be noted as
// seen; a large one is read through.
func textOf(f fs.File, name string) (*text, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", showPath(name), err)
	}
	t := &text{size: info.Size(), kept: info.Size() <= maxKept}
	// A file that is being appended to would otherwise be read without end.
	t.reader = io.LimitReader(f, t.size)
	head := make([]byte, min(t.size, runes.Sniffed))
	if t.kept {
		// So one read is enough to look for NUL and to remember the content.
		head = make([]byte, t.size)
	}
	n, err := io.ReadFull(t.reader, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("read %s: %w", showPath(name), err)
	}
	head = head[:n]
	t.reader = io.MultiReader(bytes.NewReader(head), t.reader)
	if t.kept {
		t.whole = head
	}
	// Reading decodes UTF-16, whose NULs make it binary to everything else: an edit would have
	// to encode the text again.
	if wide, ok := runes.UTF16(head); ok && t.kept {
		t.reader = strings.NewReader(wide)
	} else if runes.Binary(head) {
		return nil, problemf("binary_file", "%s is a binary file of %d bytes; "+
			"look at it with bash (file, xxd, strings)", showPath(name), t.size)
	}
	return t, nil
}

// Reading keeps two promises. The lines that a model sees are numbered as in the file, so
// it can ask for others; and the text that it saw is remembered as it was, so that an edit
// of it can tell what the user has changed since.

// page collects the lines from first to last. It counts all lines, except those far
// behind.
type page struct {
	first, last int
	out         strings.Builder
	shown       int // the last line shown
	total       int
	tail        int64 // bytes read after what is shown
	unfinished  bool  // not all lines were counted

	line []byte // the beginning of the current line
	long int    // the length of the current line

	lf, crlf, longer int // lines of the page that end so, or were truncated
	odd              bool

	done atomic.Int64 // bytes
}

// read goes through the file line by line, also behind the lines that are shown, to count
// them.
func (p *page) read(ctx context.Context, r io.Reader) error {
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		chunk, err := br.ReadSlice('\n')
		n := int64(len(chunk))
		if now := p.done.Add(n); now>>16 != (now-n)>>16 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.take(chunk)
		if p.full() {
			if p.tail += int64(len(chunk)); p.tail > maxTail {
				p.total++ // the line that this chunk belongs to
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

// take adds a chunk to the line.
func (p *page) take(chunk []byte) {
	p.long += len(chunk)
	if p.wants() {
		room := maxLine + 2 - len(p.line) // with space for the line break
		p.line = append(p.line, chunk[:max(0, min(len(chunk), room))]...)
	}
}

// wants reports whether the current line belongs to the page.
func (p *page) wants() bool {
	n := p.total + 1
	return p.first <= n && n <= p.last && p.out.Len() < maxRead-maxLine-100
}

// full reports whether the page is complete.
func (p *page) full() bool { return p.total+1 >= p.first && !p.wants() }

// endLine ends a line, which may have come in several pieces.
func (p *page) endLine(ended bool) {
	if p.wants() {
		p.show(ended)
	}
	p.total++
	p.line, p.long = p.line[:0], 0
}

// show adds a line with its number, shortened if it is long.
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

// result adds what the model has to know beside the lines: how many there are, how to go
// on, and which line endings they have.
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
