package mask

import (
	"strconv"
	"strings"
)

// Private keys are blocks of lines, which tools number, quote, indent, join and cut. A
// check sees the words of the first or the last line and follows the block from there, as
// long as the lines may belong to one after everything that tools add is taken off. A block
// without its other end counts, too: head, tail and grep leave such parts.

const (
	keyWord  = "PRIVATE KEY"
	maxBlock = 64 << 10 // bytes of a block's lines that are looked at before its end
)

// privateKey marks the block of a private key (RFC 7468, RFC 4880, OpenSSH, SSH2) of whose
// first or last line the words are at a position. A block that is cut off at one end is
// marked, too: that is what is left when a part of a file is read. The words are the same
// in the first and in the last line, so what stands before them tells which line it is.
func (f *finder) privateKey(at int) {
	line := f.s[f.start(at):at]
	if i := strings.LastIndex(line, "BEGIN "); i >= 0 && dashes(line[:i]) && !strings.Contains(line[i:], "END ") {
		f.keyBegins(at-len(line)+i, at)
		return
	}
	if i := strings.LastIndex(line, "END "); i >= 0 && dashes(line[:i]) {
		f.keyEnds(at - len(line) + i)
	}
}

// dashes reports whether a text ends with those of a first or last line.
func dashes(s string) bool { return strings.HasSuffix(strings.TrimRight(s, " "), "----") }

// keyBegins marks from the first line on, of which BEGIN is given. It marks the dashes too,
// so that nothing of the block remains that looks like one.
func (f *finder) keyBegins(begin, at int) {
	head := len(f.s[:begin]) - len(strings.TrimRight(f.s[:begin], " -"))
	from := max(begin-head, f.near(begin))
	i := strings.Index(f.rest(at), "----")
	if i < 0 {
		return
	}
	at += i + len("----")
	at += len(f.s[at:]) - len(strings.TrimLeft(f.s[at:], "-"))
	if end := f.keyOnLine(at); end > at {
		f.mark(from, end, "private-key")
		return
	}
	end, key := f.keyBody(at, frame{f.s[f.start(from):from], strings.TrimSpace(f.rest(at)), f.around})
	if end > at {
		f.markAs(span{from, end, "private-key", key})
	}
}

// keyOnLine returns where a block ends that is all on the line of its first words, with
// spaces, tags or nothing in the place of its line breaks, or 0 if it is none. Half of it
// must be base64 of some length: what is written about blocks is not. Keys come in one line
// from environment variables, logs and web pages.
func (f *finder) keyOnLine(at int) int {
	line := f.rest(at)
	if next := strings.Index(line, "BEGIN "); next >= 0 {
		line = line[:next]
	}
	end := strings.Index(line, "----END ")
	if end < 0 {
		end = strings.Index(line, "---- END ")
	}
	inner, stop := line, 0
	if end >= 0 {
		inner = line[:end]
	}
	base64 := 0
	for i := 0; i < len(inner); i++ {
		n := 0
		for i+n < len(inner) && base64Set.has(inner[i+n]) {
			n++
		}
		if v := inner[i : i+n]; n >= 32 && classes(strings.Trim(v, "+/=")) >= 3 {
			base64, stop = base64+n, i+n
		}
		i += n
	}
	switch {
	// Prose about keys has a few words of base64 in it at most.
	case base64 < longLine || base64*2 < len(inner):
		return 0
	case end >= 0:
		return at + endLine(line, end+len("----"))
	}
	return at + stop
}

// A frame is what stands before and behind the first or the last line of a block: git blame and
// scripts that write a key put as much around each of its lines. It is none if the lines around are
// not known.
type frame struct {
	before, after string
	known         bool
}

// text returns what is in the frame of a line, or what there is without what bare knows.
func (a frame) text(line string) string {
	text, n := bare(line), len(a.before)
	if !a.known || inKey(text) || n > len(line) || n > 0 && line[n-1] != a.before[n-1] {
		return text
	}
	if in, ok := strings.CutSuffix(strings.TrimRight(line[n:], " \t\r"), a.after); ok {
		return in
	}
	return text
}

// keyBody returns where a block ends whose first line ended at a position, and the lines
// that count for its placeholder: without what a tool puts before them. The same key has to
// have the same placeholder, however a tool shows it.
func (f *finder) keyBody(at int, around frame) (end int, key string) {
	var body strings.Builder
	end = at
	for at < len(f.s) {
		line, next := keyLine(f.s[at:])
		text := around.text(line)
		switch {
		case strings.HasPrefix(text, "---") || strings.Contains(line, "----END") || strings.Contains(line, "---- END"):
			if i := strings.Index(line, "END "); i >= 0 && body.Len() > 0 {
				return at + endLine(line, i), body.String()
			}
			return 0, ""
		case !inKey(text):
			return cutOff(end, body.String())
		}
		if isBase64(text) {
			body.WriteString(text)
			end = at + len(strings.TrimRight(line, " \t\r\"',;\\$"))
		}
		at += next
	}
	return cutOff(end, body.String())
}

// cutOff is for a block without its last line: it needs a long one to be believed.
func cutOff(end int, key string) (int, string) {
	if len(key) < 40 {
		return 0, ""
	}
	return end, key
}

// endLine returns where the last line of a block ends, in which END is at i.
func endLine(line string, i int) int {
	j := strings.Index(line[i:], "----")
	if j < 0 {
		return len(line)
	}
	i += j
	return i + len(line[i:]) - len(strings.TrimLeft(line[i:], "-"))
}

// keyLine returns the line that begins a text, and where the next one begins: after a line
// break, or one that is written as an escape in a string. Lines of blocks are short. A line
// that does not end within the bound is not one of a block.
func keyLine(s string) (line string, next int) {
	s = s[:min(len(s), maxAfter)]
	for i := range len(s) {
		switch {
		case s[i] == '\n':
			return s[:i], i + 1
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == 'n' || s[i+1] == 'r'):
			return s[:i], i + 2
		}
	}
	return s, len(s)
}

// bare takes off what tools and languages put around a line of a block: its number, the
// sign of a diff, a comment, quotes, a sign that puts strings together. Reading a key
// through a tool that numbers lines must not show it.
func bare(line string) string {
	s := strings.Trim(untagged(line), " \t\r")
	s = s[numbered(s):]
	s = strings.TrimPrefix(strings.TrimLeft(s, " \t+->|#*\"'`"), "// ")
	return strings.TrimRight(s, " \t\r\\\"'`,;+$") // cat -A ends lines with a dollar
}

// numbered returns how long the number is that a tool has put before a line, with the
// name of a file before it: "12:", "12\t", "12 | ", "dir/name-12-".
func numbered(s string) int {
	s = s[:min(len(s), maxBefore)]
	for i := 0; i < len(s); i++ {
		if !digits.has(s[i]) {
			if s[i] == ' ' || s[i] == '\t' {
				return 0 // there is no space in front of a number
			}
			continue
		}
		n := i
		for n < len(s) && digits.has(s[n]) {
			n++
		}
		if n < len(s) && n-i < 8 && strings.IndexByte("\t:- |", s[n]) >= 0 && (i == 0 || s[i-1] == ':' || s[i-1] == '-') {
			return n + 1
		}
		i = n - 1
	}
	return 0
}

// untagged returns a line without tags of HTML, and with its characters that were written
// as numbers.
func untagged(line string) string {
	if !strings.ContainsAny(line, "<&") {
		return line
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(line, '<')
		if i < 0 {
			break
		}
		n := strings.IndexByte(line[i:], '>')
		if n < 0 {
			break
		}
		b.WriteString(line[:i])
		if b.Len() > 0 && strings.HasPrefix(line[i:], "<td") {
			b.WriteByte('\t') // behind a number
		}
		line = line[i+n+1:]
	}
	b.WriteString(line)
	return entities.Replace(b.String())
}

// entities are those of the characters in base64, and of line breaks.
var entities = strings.NewReplacer("&#43;", "+", "&#x2B;", "+", "&#x2b;", "+", "&plus;", "+", "&#47;", "/",
	"&#x2F;", "/", "&#x2f;", "/", "&sol;", "/", "&#61;", "=", "&#x3D;", "=", "&#x3d;", "=", "&equals;", "=", "&#10;", "", "&#13;", "")

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}

// inKey reports whether a line may be one of a block: base64, a header, or nothing.
func inKey(text string) bool {
	if text == "" || isBase64(text) {
		return true
	}
	name, value, ok := strings.Cut(text, ":")
	return ok && len(name) < 20 && strings.IndexFunc(name, notName) < 0 && len(value) < 100 &&
		(value == "" || value[0] == ' ') && !strings.ContainsAny(value, "[({=")
}

// notName reports whether a character is not one of the name of a header.
func notName(r rune) bool { return r != '-' && !('a' <= r|0x20 && r|0x20 <= 'z') }

// isBase64 reports whether a text has only characters of base64, and some.
func isBase64(s string) bool {
	for i := range len(s) {
		if !base64Set.has(s[i]) {
			return false
		}
	}
	return s != ""
}

// keyEnds marks the lines before the last one of a block whose first one is not there. It
// goes upwards: the last lines of a block may be short, those above them are long.
func (f *finder) keyEnds(end int) {
	limit := max(f.near(end), end-maxBlock)
	from, long, short := -1, false, 0
	line := f.rest(end)
	at := strings.LastIndexByte(f.s[:end], '\n')
	around := frame{strings.TrimRight(f.s[at+1:end], "-"), strings.TrimSpace(line[endLine(line, 0):]), f.around}
	for at > limit {
		prev := strings.LastIndexByte(f.s[limit:at], '\n')
		start := limit + prev + 1
		switch text := around.text(f.s[start:at]); {
		case !isBase64(text):
			start = -1
		case len(text) >= longLine:
			long, from = true, start
		case !long && short < 2:
			short++
		default:
			start = -1
		}
		if start < 0 || prev < 0 {
			break
		}
		at = start - 1
	}
	if !long {
		return
	}
	f.mark(from, end+endLine(line, 0), "private-key")
}

// urlKey marks the block of a private key in a URL or a form, in which no character is left that ends it.
func (f *finder) urlKey(at int) {
	if end := f.run(at, tokenSet); end-at > 100 {
		f.mark(f.back(at, tokenSet, maxBefore), end, "private-key")
	}
}

// xmlKey marks the private half of a key of RSA in XML (XML-DSig in .NET), which begins with a prime.
func (f *finder) xmlKey(at int) {
	line := f.rest(at)
	from, to := strings.Index(line, "<P>"), strings.Index(line, "</D>")
	if from >= 0 && to-from >= longLine {
		f.mark(at+from, at+to, "private-key")
	}
}

// longLine is how long a line of a block must be, to be taken for one without the first
// line of the block.
const longLine = 40

// puttyKey marks the lines of a private key in a file of PuTTY, which says how many
// they are.
func (f *finder) puttyKey(at int) {
	head := f.rest(at)
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(head, "Private-Lines:")))
	if err != nil || n < 1 || n > 1000 {
		return
	}
	from := at + len(head) + 1
	end := from
	for next := from; n > 0 && next < len(f.s); n-- {
		line, width := keyLine(f.s[next:])
		if !isBase64(bare(line)) {
			break
		}
		end = next + len(line)
		next += width
	}
	if end > from {
		f.mark(from, end, "private-key")
	}
}
