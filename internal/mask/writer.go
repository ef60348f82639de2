package mask

import (
	"bytes"
	"io"
	"strings"
)

// maxHeld is how many bytes of a line a [Writer] keeps back at most.
const maxHeld = 1 << 20

// Writer masks a text that comes in pieces. It writes whole lines, and those of what may be
// the block of a private key only when the block has ended, so that it does not matter
// where a secret is cut. Of a line of more than 1 MiB the beginning is written before its
// end has come. It is not safe for concurrent use. So a program's output can be masked
// while it runs.
type Writer struct {
	masker *Masker
	to     io.Writer
	held   []byte
	lines  int  // how many bytes of it are whole lines
	open   bool // what is held begins with the first line of a block
	inKey  bool // lines are left out until a block ends whose beginning was written
	err    error
}

// Writer returns a writer that masks what it writes to another one. It has to be
// closed, which writes what is kept back, and does not close the other one.
func (m *Masker) Writer(to io.Writer) *Writer { return &Writer{masker: m, to: to} }

// Write takes all of p. Its error is that of the writer below, the first one.
func (w *Writer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && w.err == nil {
		piece := p[:min(len(p), maxHeld)]
		p = p[len(piece):]
		from := len(w.held)
		w.held = append(w.held, piece...)
		w.pass(from)
	}
	if w.err != nil {
		return 0, w.err
	}
	return n, nil
}

// Close writes what was kept back.
func (w *Writer) Close() error {
	w.leaveOut(len(w.held))
	w.emit(len(w.held))
	return w.err
}

// pass writes what may be written. Only what is new is looked at, where that is enough. A
// line that is not complete may become one of a secret, so it waits.
func (w *Writer) pass(from int) {
	if i := bytes.LastIndexByte(w.held[from:], '\n'); i >= 0 {
		w.lines = from + i + 1
	}
	if w.inKey {
		w.leaveOut(w.lines)
		from = 0
	}
	switch {
	case w.lines == 0:
	case !w.open || !w.stillInKey(from):
		var end int
		end, w.open = settled(string(w.held[:w.lines]))
		w.emit(end)
	case w.lines > maxBlock:
		w.emit(w.lines)
		w.inKey, w.open = true, false
	}
	if len(w.held) > maxHeld {
		w.emit(w.cut())
	}
}

// drop forgets the first bytes of what is held.
func (w *Writer) drop(n int) {
	w.held = append(w.held[:0], w.held[n:]...)
	w.lines = max(0, w.lines-n)
}

// emit masks and writes the first bytes of what is held.
func (w *Writer) emit(n int) {
	text := string(w.held[:n])
	w.drop(n)
	if text != "" && w.err == nil {
		_, w.err = io.WriteString(w.to, w.masker.Mask(text))
	}
}

// leaveOut drops those of the first bytes that belong to a block whose beginning was
// written.
func (w *Writer) leaveOut(n int) {
	dropped := 0
	for line := range strings.Lines(string(w.held[:n])) {
		if !w.inKey {
			break
		}
		if ends := endsKey(line); ends || !lineInKey(line) {
			w.inKey = false
			if !ends {
				break
			}
		}
		dropped += len(line)
	}
	w.drop(dropped)
}

// stillInKey reports whether the lines that a position is in or before may all belong
// to the block that has begun before.
func (w *Writer) stillInKey(from int) bool {
	start := bytes.LastIndexByte(w.held[:min(from, w.lines)], '\n') + 1
	for line := range strings.Lines(string(w.held[start:w.lines])) {
		if !lineInKey(line) {
			return false
		}
	}
	return true
}

// cut returns where a long line may be cut: behind a byte that no token has, and not near
// to something secret. A token can then not be cut in two, of which neither half would be
// found.
func (w *Writer) cut() int {
	text := string(w.held)
	last := len(text) - maxAfter - w.masker.longest
	at := strings.LastIndexAny(text[:max(last, 0)], " \t,;\"'()<>{}") + 1
	if at <= 0 {
		at = max(last, 1)
	}
	spans := w.masker.index.find(text)
	for i := len(spans) - 1; i >= 0; i-- {
		if s := spans[i]; s.from-maxBefore < at && at < s.to {
			at = s.from - maxBefore
		}
	}
	if at <= 0 {
		return len(text)
	}
	return at
}

// settled returns how many bytes of whole lines may be looked at without those that follow,
// and whether the others begin with the first line of a block. A block whose beginning is
// not known, because it lies in front of what was held, is only told by its last line; so
// lines that may belong to one wait for it.
func settled(lines string) (end int, open bool) {
	end = len(lines)
	tail, short, long := true, 0, false
	for at := len(lines); at > 0 && len(lines)-at <= maxBlock; {
		start := strings.LastIndexByte(lines[:at-1], '\n') + 1
		line := lines[start:at]
		if beginsKey(line) {
			return start, true
		}
		if !lineInKey(line) {
			break
		}
		text := bare(strings.TrimSuffix(line, "\n"))
		switch {
		case !tail || !isBase64(text):
			tail = false
		case len(text) >= longLine:
			long, end = true, start
		case !long && short < 2:
			short++
		default:
			tail = false
		}
		at = start
	}
	return end, false
}

// beginsKey reports whether a block begins in a line and does not end in it.
func beginsKey(line string) bool {
	i := strings.LastIndex(line, keyWord)
	if i < 0 {
		return strings.Contains(line, "Private-Lines:") || strings.Contains(line, "BEGIN OpenVPN")
	}
	return strings.Contains(line[:i], "BEGIN ") && !strings.Contains(line[i:], "END ")
}

// endsKey reports whether a line is the last one of a block.
func endsKey(line string) bool {
	return strings.Contains(line, "----END") || strings.Contains(line, "---- END")
}

// lineInKey reports whether a line may be one of a block, also one in a string of
// source code, which has escapes.
func lineInKey(line string) bool {
	for line = strings.TrimSuffix(line, "\n"); ; {
		part, next := keyLine(line)
		if !inKey(bare(part)) {
			return false
		}
		if next >= len(line) {
			return true
		}
		line = line[next:]
	}
}

// Line masks one line of many of which the others are not there, so that a line of a
// private key cannot be told from another one of base64: both are hidden. It is for tools
// that show the lines that match, one by one.
func (m *Masker) Line(text string) string {
	v := bare(text)
	if !isBase64(v) {
		if v = blamed(strings.TrimSpace(text)); !looseKey(v) {
			v = ""
		}
	}
	if len(v) >= longLine && isBase64(v) && strings.Trim(v, hexBytes+"ABCDEF") != "" {
		return m.placeholder(v, span{0, len(v), looseKind, ""})
	}
	return m.Mask(text)
}
