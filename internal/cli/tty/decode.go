package tty

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxPaste is the number of bytes that are kept of one paste.
const MaxPaste = 4 << 20

const (
	esc        = 0x1b
	pasteOpen  = "\x1b[200~"
	pasteClose = "\x1b[201~"
	maxParams  = 64 // bytes of parameters that a key may have
)

// A Decoder turns the bytes of a terminal into keys. The keys of Decode do not depend on how the
// bytes were split into reads. Contents of a bracketed paste are never keys, sequences
// that are not keys are swallowed, and bytes that are not UTF-8 become U+FFFD. The zero
// value is ready to use.
//
// A decoder is in one of the states below. In inString and inParams it forgets what it has
// seen, so that its memory is bounded.
type Decoder struct {
	// Lines says that the terminal delivers lines: a line feed is the key Enter.
	Lines bool

	state   decoderState
	rest    []byte    // begins with something that is not complete
	line    []byte    // text with an end of a line, which waits: it is a paste if more comes at once
	last    time.Time // of the newest read
	burst   int       // the bytes that came at once, up to that read
	paste   []byte
	dropped int
}

type decoderState int

const (
	inKeys   decoderState = iota
	inPaste               // behind pasteOpen
	inString              // in an OSC, DCS or APC string, up to BEL or ST
	inParams              // in a control sequence that is too long to be a key
	inLines               // in a paste without brackets, which ends when nothing follows
	inAfter               // behind pasteClose: what comes at once waits, since it may be text with a pasteClose in it
)

// Read is Decode for all that one read has brought. Text of several lines that comes at once was not typed: it is a
// paste of a terminal without brackets, which goes on with the reads that follow, up to ESC or Ctrl-C. A line with its
// end alone is keys, once nothing has followed at once: a program may have written it. So is text of a few characters,
// which may have been typed while nobody could read.
func (d *Decoder) Read(p []byte, at time.Time) (keys []Key) {
	if at.Sub(d.last) > burstGap {
		keys, d.burst = d.flushLine(), 0
	}
	if d.state == inAfter && at.Sub(d.last) > afterDelay {
		keys = append(keys, d.Flush(d.last)...)
	}
	d.last, d.burst = at, d.burst+len(p)
	p = append(d.line, p...)
	d.line = nil
	text := !bytes.ContainsFunc(p, func(r rune) bool { return r < ' ' && !isEnd(r) && r != '\t' || r == 0x7f })
	switch end := bytes.IndexAny(p, "\x1b\x03"); {
	case d.state == inLines && end >= 0:
		d.keep(append(d.rest, p[:end]...))
		d.rest, p = nil, p[end:]
		keys = d.Flush(at)
	case d.state != inKeys || d.Lines || !text || bytes.HasPrefix(d.rest, []byte{esc}):
	case severalLines(p, d.burst):
		d.state = inLines
	case d.burst > 1 && len(p) < maxLine && bytes.ContainsFunc(p, isEnd):
		d.line = p
		return keys
	}
	if d.state == inLines {
		d.keep(append(d.rest, p...))
		d.rest = nil
		return keys
	}
	return append(keys, d.Decode(p, at)...)
}

// flushLine returns the keys of a line that nothing has followed.
func (d *Decoder) flushLine() []Key {
	p := d.line
	d.line = nil
	return d.Decode(p, d.last)
}

func isEnd(r rune) bool { return r == '\r' || r == '\n' }

// severalLines reports whether p, with which a burst of bytes ends, is several lines that nobody can have typed.
func severalLines(p []byte, burst int) bool {
	ends := bytes.Count(p, []byte("\r")) + bytes.Count(p, []byte("\n")) - bytes.Count(p, []byte("\r\n"))
	return (ends > 1 || burst >= manyBytes) && bytes.ContainsFunc(bytes.TrimRightFunc(p, isEnd), isEnd)
}

// Decode returns the keys that p completes.
func (d *Decoder) Decode(p []byte, at time.Time) []Key {
	return d.decode(p, at, len(p), false)
}

// Flush decides about bytes that could have been the begin of something longer, because
// nothing followed for a while: a lone ESC is the key [Esc]. A paste with brackets stays open.
func (d *Decoder) Flush(at time.Time) []Key {
	if d.state == inLines {
		return d.End(at)
	}
	if d.line != nil {
		return d.flushLine()
	}
	if d.state == inString || d.state == inParams {
		d.state, d.rest = inKeys, nil
	}
	if d.state == inAfter { // no end has come; what has begun a sequence waits as long as ever
		d.state = inKeys
		return d.decode(nil, d.last, len(d.rest), false)
	}
	return d.decode(nil, at, len(d.rest), true)
}

// End is Flush at the end of the input: a paste that was not closed is complete.
func (d *Decoder) End(at time.Time) []Key {
	if d.state == inAfter {
		keys := d.Flush(at)
		return append(keys, d.End(at)...)
	}
	if d.state != inPaste && d.state != inLines {
		return append(d.flushLine(), d.Flush(at)...)
	}
	d.keep(d.rest)
	d.rest = nil
	k := d.pasted()
	k.At = at
	return []Key{k}
}

// The times after which bytes that are not complete are decided about: a lone ESC is the
// key, a paste without brackets ends, and any other part of a sequence is dropped. The second is longer since only keys
// that nobody has pressed are lost, while on a slow line the rest would be typed.
const (
	escDelay   = 50 * time.Millisecond
	partDelay  = 500 * time.Millisecond
	afterDelay = 10 * time.Millisecond // nobody types that fast, nor does a key that is held down
)

// The reads of a burst come within burstGap of each other. That is less than it takes to start a program that writes a
// line, so two such lines are not one paste. A burst of manyBytes was not typed: a connection that has stalled for half a
// second delivers fewer.
const (
	burstGap  = time.Millisecond
	manyBytes = 8
	maxLine   = 4 << 10 // bytes that wait
)

// delay returns the time after which Flush is due, or 0 if it has nothing to decide.
func (d *Decoder) delay() time.Duration {
	switch {
	case d.line != nil:
		return burstGap
	case d.state == inPaste || (d.state == inKeys || d.state == inAfter) && len(d.rest) == 0:
		return 0
	case d.state == inAfter && len(d.rest) > 0:
		return afterDelay
	case d.state == inLines || len(d.rest) == 1 && d.rest[0] == esc:
		return escDelay
	}
	return partDelay
}

func (d *Decoder) decode(p []byte, at time.Time, read int, flush bool) []Key {
	buf := append(d.rest, p...)
	var keys []Key
	for len(buf) > 0 {
		before := d.state
		k, n, ok := d.step(buf, flush)
		if n == 0 && d.state == before {
			break
		}
		if ok {
			k.At, k.Read = at, read
			keys = append(keys, k)
		}
		buf = buf[n:]
	}
	d.rest = append([]byte(nil), buf...)
	return keys
}

// step decodes the first item of buf, which has n bytes. It needs more bytes if n is zero
// and the state the same.
func (d *Decoder) step(buf []byte, flush bool) (k Key, n int, ok bool) {
	switch d.state {
	case inPaste:
		return d.stepPaste(buf)
	case inString:
		return k, d.stepString(buf), false
	case inParams:
		return k, d.stepParams(buf), false
	case inAfter:
		return d.stepAfter(buf)
	}
	switch {
	case bytes.HasPrefix(buf, []byte(pasteOpen)):
		d.state = inPaste
		return k, len(pasteOpen), false
	case buf[0] == esc:
		k, n, ok = d.escaped(buf)
	case buf[0] == '\n' && d.Lines:
		return Key{Name: Enter}, 1, true
	default:
		k, n, ok = character(buf)
	}
	if n == 0 && flush && d.state == inKeys {
		return undecided(buf)
	}
	return k, n, ok
}

// undecided decides about the begin of something that does not go on.
func undecided(buf []byte) (Key, int, bool) {
	switch {
	case buf[0] != esc:
		return Key{Rune: utf8.RuneError}, 1, true
	case bytes.HasPrefix(buf, []byte("\x1b\x1b[")), bytes.HasPrefix(buf, []byte("\x1b\x1bO")): // Alt and a key: nobody has pressed Esc
		k, n, ok := undecided(buf[1:])
		return k, n + 1, ok
	case len(buf) == 1 || buf[1] == esc:
		return Key{Name: Esc}, 1, true
	case len(buf) == 2 || buf[1] >= utf8.RuneSelf:
		r, _ := utf8.DecodeRune(buf[1:2])
		return Key{Rune: r, Alt: true}, 2, true
	}
	return Key{}, len(buf), false // a part of a sequence
}

// stepPaste keeps the text up to the end of a paste. The last bytes wait if they could be
// the begin of the end.
func (d *Decoder) stepPaste(buf []byte) (Key, int, bool) {
	if i := bytes.Index(buf, []byte(pasteClose)); i >= 0 {
		d.keep(buf[:i])
		return d.closed(), i + len(pasteClose), true
	}
	n := len(buf)
	for tail := min(len(pasteClose)-1, n); tail > 0; tail-- {
		if bytes.HasSuffix(buf, []byte(pasteClose[:tail])) {
			n -= tail
			break
		}
	}
	d.keep(buf[:n])
	return Key{}, n, false
}

// stepAfter takes what has come at once behind a paste for another one if it has an end: not all terminals remove ends
// from the text of a paste, which would go on with keys.
func (d *Decoder) stepAfter(buf []byte) (Key, int, bool) {
	if i := bytes.Index(buf, []byte(pasteClose)); i >= 0 {
		d.keep(bytes.TrimPrefix(buf[:i], []byte(pasteOpen)))
		return d.closed(), i + len(pasteClose), true
	}
	if len(buf) > MaxPaste {
		d.state = inKeys
	}
	return Key{}, 0, false
}

// closed is pasted for a paste that an end has closed.
func (d *Decoder) closed() Key {
	k := d.pasted()
	d.state = inAfter
	return k
}

func (d *Decoder) keep(p []byte) {
	room := min(len(p), MaxPaste-len(d.paste))
	d.paste = append(d.paste, p[:room]...)
	d.dropped += len(p) - room
}

func (d *Decoder) pasted() Key {
	text := d.paste
	if d.dropped > 0 {
		text = WholeRunes(text)
		d.dropped += len(d.paste) - len(text)
	}
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(string(text), "\ufffd"))
	k := Key{Name: Paste, Text: lines, Dropped: d.dropped}
	d.state, d.paste, d.dropped = inKeys, nil, 0
	return k
}

// WholeRunes removes a rune that was cut at the end.
func WholeRunes[T string | []byte](p T) T {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if tail := p[len(p)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(string(tail)) {
				return p[:len(p)-i]
			}
			break
		}
	}
	return p
}

// stepString skips the contents of a string. It ends with BEL or ESC; after the latter, a
// backslash belongs to it.
func (d *Decoder) stepString(buf []byte) int {
	i := bytes.IndexAny(buf, "\x07\x1b")
	switch {
	case i < 0:
		return len(buf)
	case buf[i] == 7:
		d.state = inKeys
		return i + 1
	case i+1 == len(buf):
		return i // 0 if only the ESC is left
	case buf[i+1] == '\\':
		i += 2
	}
	d.state = inKeys
	return i
}

func (d *Decoder) stepParams(buf []byte) int {
	for i, b := range buf {
		if b < 0x20 || b > 0x3f {
			d.state = inKeys
			if b >= 0x40 && b < 0x7f {
				i++ // the final byte
			}
			return i
		}
	}
	return len(buf)
}

// character decodes a key without an ESC. This and the functions below return no length if more
// bytes are needed.
func character(buf []byte) (Key, int, bool) {
	switch b := buf[0]; {
	case b == '\r':
		return Key{Name: Enter}, 1, true
	case b == '\t':
		return Key{Name: Tab}, 1, true
	case b == 0x7f:
		return Key{Name: Backspace}, 1, true
	case b == 0:
		return Key{Rune: ' ', Ctrl: true}, 1, true
	case b < 0x1b:
		return Key{Rune: rune(b) + 'a' - 1, Ctrl: true}, 1, true
	case b < ' ':
		return Key{Rune: rune(b) + '@', Ctrl: true}, 1, true // \ ] ^ _
	case !utf8.FullRune(buf):
		return Key{}, 0, false
	}
	r, n := utf8.DecodeRune(buf)
	if r >= 0x80 && r < 0xa0 {
		r = utf8.RuneError // a C1 control is not a key
	}
	return Key{Rune: r}, n, true
}

// escaped decodes what begins with an ESC.
func (d *Decoder) escaped(buf []byte) (k Key, n int, ok bool) {
	if len(buf) == 1 {
		return Key{}, 0, false
	}
	switch b := buf[1]; {
	case b == '[':
		return d.control(buf)
	case b == 'O':
		return applicationKey(buf)
	case b == esc:
		return d.escEsc(buf)
	case len(buf) == 2 && strings.IndexByte("]P_", b) >= 0:
		return Key{}, 0, false
	case b == ']' && buf[2] >= '0' && buf[2] <= '9', b == 'P' && strings.IndexByte("01>|+$!", buf[2]) >= 0, b == '_' && buf[2] == 'G':
		d.state = inString // an answer of the terminal
		return Key{}, 2, false
	}
	return withAlt(character(buf[1:]))
}

// withAlt adds Alt, and the ESC that stands for it, to a key.
func withAlt(k Key, n int, ok bool) (Key, int, bool) {
	if n == 0 {
		return k, 0, false
	}
	k.Alt = true
	return k, n + 1, ok
}

// escEsc decodes two ESC: some terminals send Alt with a key as ESC and the sequence of
// the key, and everybody may press Esc twice.
func (d *Decoder) escEsc(buf []byte) (Key, int, bool) {
	switch {
	case len(buf) == 2:
		return Key{}, 0, false
	case buf[2] != '[' && buf[2] != 'O' || bytes.HasPrefix(buf[1:], []byte(pasteOpen)):
		return Key{Name: Esc}, 1, true
	case len(buf) < 1+len(pasteOpen) && strings.HasPrefix(pasteOpen, string(buf[1:])):
		return Key{}, 0, false
	}
	return withAlt(d.escaped(buf[1:]))
}

// applicationKey decodes ESC O and a letter (SS3).
func applicationKey(buf []byte) (Key, int, bool) {
	i := 2
	for i < len(buf) && i < 6 && (buf[i] >= '0' && buf[i] <= '9' || buf[i] == ';') {
		i++ // modifiers, as some terminals send them
	}
	switch {
	case i == len(buf):
		return Key{}, 0, false
	case buf[i] < 0x21 || buf[i] > 0x7e:
		return Key{}, i, false // not a sequence: the next byte is a key
	}
	k, ok := letterKey(buf[i])
	if c := buf[i]; c >= 'j' && c <= 'y' {
		k, ok = Key{Rune: rune(c) - 'j' + '*'}, true // the keypad
	}
	k = modified(k, lastNumber(string(buf[2:i])))
	return k, i + 1, ok
}

func lastNumber(params string) int {
	n, _ := strconv.Atoi(params[strings.LastIndexByte(params, ';')+1:])
	return n
}

// control decodes ESC [, parameters and a final byte (CSI).
func (d *Decoder) control(buf []byte) (Key, int, bool) {
	i := 2
	for i < len(buf) && buf[i] >= 0x20 && buf[i] <= 0x3f {
		i++
	}
	switch {
	case i-2 > maxParams:
		d.state = inParams
		return Key{}, i, false
	case i == len(buf):
		return Key{}, 0, false
	case buf[i] < 0x40 || buf[i] == 0x7f || buf[i] >= 0x80:
		return Key{}, i, false // interrupted: the next byte is a key
	}
	switch rest := buf[i+1:]; {
	case buf[i] == 'M' && i == 2: // a report of the mouse has three more bytes
		if len(rest) < 3 {
			return Key{}, 0, false
		}
		return Key{}, i + 4, false
	case buf[i] == '[': // a function key of the Linux console
		if len(rest) == 0 {
			return Key{}, 0, false
		}
		return Key{Name: "f" + string(rune(rest[0])-'A'+'1')}, i + 2, rest[0] >= 'A' && rest[0] <= 'E'
	}
	k, ok := controlKey(string(buf[2:i]), buf[i])
	return k, i + 1, ok
}

func controlKey(params string, final byte) (Key, bool) {
	if strings.Trim(params, "0123456789;:") != "" {
		return Key{}, false // an answer, or a report of the mouse
	}
	nums := strings.Split(params, ";")
	number := func(i int) int {
		if i >= len(nums) {
			return 0
		}
		text, _, _ := strings.Cut(nums[i], ":")
		n, _ := strconv.Atoi(text)
		return n
	}
	event := ""
	if len(nums) > 1 {
		_, event, _ = strings.Cut(nums[1], ":")
	}
	mod := number(1)
	var k Key
	var ok bool
	switch {
	case event == "3": // a key was released
	case final == '~' && number(0) == 27:
		k, ok = runeKey(number(2))
	case final == '~':
		k, ok = numberKey(number(0))
	case final == 'u':
		k, ok = runeKey(number(0))
	case final == 'Z':
		k, ok = Key{Name: Tab, Shift: true}, true
	case len(nums) <= 2 && number(0) <= 1:
		k, ok = letterKey(final)
	}
	return modified(k, mod), ok && max(mod-1, 0)&^locks < 8 // beyond it are modifiers such as Super
}

const locks = 64 | 128 // Caps Lock and Num Lock

// modified adds the modifiers: one more than the sum of 1 for Shift, 2 for Alt, 4 for Ctrl.
func modified(k Key, mod int) Key {
	if mod < 2 {
		return k
	}
	bits := mod - 1
	k.Alt = k.Alt || bits&2 != 0
	k.Ctrl = k.Ctrl || bits&4 != 0
	if bits&1 != 0 {
		if k.Name != "" {
			k.Shift = true
		} else if k.Rune >= 'a' && k.Rune <= 'z' && !k.Ctrl {
			k.Rune += 'A' - 'a'
		}
	}
	return k
}

func letterKey(c byte) (Key, bool) {
	const letters = "ABCDHFPQRSM"
	names := [...]string{Up, Down, Right, Left, Home, End, "f1", "f2", "f3", "f4", Enter}
	if i := strings.IndexByte(letters, c); i >= 0 {
		return Key{Name: names[i]}, true
	}
	return Key{}, false
}

func numberKey(n int) (Key, bool) {
	names := [...]string{
		1: Home, 2: Insert, 3: Delete, 4: End, 5: PageUp, 6: PageDown, 7: Home, 8: End,
		11: "f1", 12: "f2", 13: "f3", 14: "f4", 15: "f5", 17: "f6", 18: "f7", 19: "f8",
		20: "f9", 21: "f10", 23: "f11", 24: "f12",
	}
	if n < 0 || n >= len(names) || names[n] == "" {
		return Key{}, false
	}
	return Key{Name: names[n]}, true
}

// runeKey returns the key with a code of Unicode. Codes of the private area are keys that
// have no name here.
func runeKey(n int) (Key, bool) {
	switch n {
	case 13:
		return Key{Name: Enter}, true
	case 9:
		return Key{Name: Tab}, true
	case 27:
		return Key{Name: Esc}, true
	case 8, 127:
		return Key{Name: Backspace}, true
	}
	r := rune(n)
	ok := n >= ' ' && n <= utf8.MaxRune && utf8.ValidRune(r) && (r < 0x80 || r >= 0xa0) && (r < 0xe000 || r > 0xf8ff)
	return Key{Rune: r}, ok
}

// controlSequence returns the length of the control sequence (CSI) at the begin of s, or 1 if there is none.
func controlSequence(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 1
	}
	n := 2
	for n < len(s) && s[n] >= 0x20 && s[n] <= 0x3f {
		n++
	}
	if n == len(s) || s[n] < 0x40 || s[n] >= 0x7f {
		return 1
	}
	return n + 1
}
