// Package patch reads the patches that models write between "*** Begin Patch" and
// "*** End Patch": files that are added, deleted, updated and moved, with the lines
// around a change instead of line numbers.
package patch

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what a patch does to a file.
type Kind int

// The kinds.
const (
	Add Kind = iota + 1
	Delete
	Update
)

// File is what a patch does to one file.
type File struct {
	Kind Kind
	Path string
	// MoveTo is the new name of a file that is updated, or "".
	MoveTo string
	// Text is what is in a file that is added.
	Text string
	// Chunks are the changes of a file that is updated, from top to bottom.
	Chunks []Chunk
	// Line is that of the patch which names the file, counted from 1.
	Line int
}

// Chunk is a change of some lines. Old and New are the lines before and after, without
// line ends; those around a change are in both.
type Chunk struct {
	// Headers are lines above the change, each below the one before: "class A", "def f".
	Headers  []string
	Old, New []string
	// Numbered says that line numbers of a unified diff came with it, which are left out.
	Numbered bool
	// AtEnd says that the change is at the end of the file.
	AtEnd bool
	// Line is the first one of the patch, counted from 1.
	Line int
}

// Error says what is wrong with a patch.
type Error struct {
	Line   int // of the patch, counted from 1
	Reason string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("line %d of the patch: %s", e.Line, e.Reason) }

// The lines that say what follows.
const (
	begin  = "*** Begin Patch"
	end    = "*** End Patch"
	add    = "*** Add File: "
	del    = "*** Delete File: "
	update = "*** Update File: "
	move   = "*** Move to: "
	atEnd  = "*** End of File"
	marker = "*** "
)

// Parse reads a patch. Text that models put around one is ignored: the markers of a shell's
// here document, a fence of back quotes, blank lines. A patch that has line ends of Windows
// throughout is read as if it had none. The errors are of type [*Error].
func Parse(text string) ([]File, error) {
	p := &parser{lines: split(text)}
	if err := p.open(); err != nil {
		return nil, err
	}
	var files []File
	for {
		line, ok := p.peek()
		switch {
		case !ok:
			return nil, p.fail("it ends without " + end)
		case strings.TrimSpace(line) == end:
			p.at++
			if len(files) == 0 {
				return nil, p.fail("it changes no file")
			}
			return files, p.close()
		case strings.TrimSpace(line) == "":
			p.at++
			continue
		}
		f, err := p.file()
		if err != nil {
			return nil, err
		}
		files = append(files, *f)
	}
}

// Paths returns the names of the files that a patch is about, old and new ones. It returns
// false for a text that is not a patch. It is for rules and questions, which need the names
// before anything is applied.
func Paths(text string) ([]string, bool) {
	files, err := Parse(text)
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
		if f.MoveTo != "" {
			names = append(names, f.MoveTo)
		}
	}
	return names, err == nil
}

// Named returns the names in all lines that name a file. They are those of [Paths] if the text is a
// patch, since no line of a change begins like these lines. An agent shows and compares names with
// it, so that it does not link the parser.
func Named(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		for _, prefix := range [...]string{add, del, update, move} {
			if name, ok := strings.CutPrefix(line, prefix); ok && strings.TrimSpace(name) != "" {
				names = append(names, strings.TrimSpace(name))
			}
		}
	}
	return names
}

// split cuts a text into lines. Line ends of Windows in some of the lines are part of the
// text.
func split(text string) []string {
	text = strings.TrimSuffix(text, "\n")
	if n := strings.Count(text, "\n"); n > 0 && n == strings.Count(text, "\r\n") {
		text = strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\r")
	}
	return strings.Split(text, "\n")
}

// parser stands before a line. The format has no length of its parts, so each ends where a
// line begins the next one.
type parser struct {
	lines []string
	at    int
	until string // ends the here document, or the fence
}

// peek returns the next line.
func (p *parser) peek() (string, bool) {
	if p.at >= len(p.lines) {
		return "", false
	}
	return p.lines[p.at], true
}

// fail blames the line that was read last. Line 1 is blamed if none was read.
func (p *parser) fail(format string, args ...any) error {
	return &Error{max(p.at, 1), fmt.Sprintf(format, args...)}
}

// open reads what comes before the patch. A model that is used to shells writes
// "apply_patch <<'EOF'" in front of it, and one that writes Markdown a fence.
func (p *parser) open() error {
	for ; p.at < len(p.lines); p.at++ {
		line := strings.TrimSpace(p.lines[p.at])
		switch {
		case line == begin:
			p.at++
			return nil
		case line == "":
		case p.until == "" && strings.HasPrefix(line, "```"):
			p.until = "```"
		case (p.until == "" || p.until == "```") && strings.Contains(line, "<<"):
			_, word, _ := strings.Cut(line, "<<")
			p.until = strings.Trim(word, "- \t'\"")
		default:
			p.at++
			return p.fail("it does not begin with %s", begin)
		}
	}
	return p.fail("it has no line %s", begin)
}

// close reads what comes after the patch. Further text would be lost silently, so it is an
// error.
func (p *parser) close() error {
	for ; p.at < len(p.lines); p.at++ {
		line := strings.TrimSpace(p.lines[p.at])
		if line != "" && line != "```" && (p.until == "" || line != p.until) {
			p.at++
			return p.fail("there is text after %s", end)
		}
	}
	return nil
}

// name reads a line that names a file. A line that ends behind the colon has an empty name,
// which is an error.
func (p *parser) name(prefix string) (string, bool) {
	line, ok := p.peek()
	if !ok {
		return "", false
	}
	name, ok := strings.CutPrefix(line+" ", prefix)
	if !ok {
		return "", false
	}
	p.at++
	return strings.TrimSpace(name), true
}

// file reads what is done to one file. Lines that say anything else are not skipped: they
// may be a change that was meant.
func (p *parser) file() (*File, error) {
	f := &File{Line: p.at + 1}
	var ok bool
	if f.Path, ok = p.name(add); ok {
		f.Kind = Add
	} else if f.Path, ok = p.name(del); ok {
		f.Kind = Delete
	} else if f.Path, ok = p.name(update); ok {
		f.Kind = Update
	} else {
		p.at++
		return nil, p.fail("want one of %q, %q, %q and %q", add, del, update, end)
	}
	if f.Path == "" {
		return nil, p.fail("it names no file")
	}
	switch f.Kind {
	case Add:
		return f, p.added(f)
	case Update:
		return f, p.updated(f)
	}
	return f, nil
}

// added reads the lines of a new file. Its last line always ends in a line break. Blank lines
// behind them are left out.
func (p *parser) added(f *File) error {
	var b strings.Builder
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		if strings.HasPrefix(line, marker) || strings.TrimSpace(line) == "" && p.skipBlank() {
			break
		}
		text, ok := strings.CutPrefix(line, "+")
		if !ok {
			p.at++
			return p.fail("a line of a new file begins with +")
		}
		b.WriteString(text + "\n")
	}
	f.Text = b.String()
	return nil
}

// skipBlank skips blank lines before a marker, and reports whether there are only such lines.
func (p *parser) skipBlank() bool {
	n := slices.IndexFunc(p.lines[p.at:], func(line string) bool { return strings.TrimSpace(line) != "" })
	if n < 0 || !strings.HasPrefix(p.lines[p.at+n], marker) {
		return false
	}
	p.at += n
	return true
}

// updated reads the changes of a file. A file may also be moved without a change.
func (p *parser) updated(f *File) error {
	var moved bool
	if f.MoveTo, moved = p.name(move); moved && f.MoveTo == "" {
		return p.fail("it names no file")
	}
	for {
		line, ok := p.peek()
		if !ok || strings.HasPrefix(line, marker) && strings.TrimSpace(line) != atEnd {
			break
		}
		c, err := p.chunk(len(f.Chunks) == 0)
		if err != nil {
			return err
		}
		f.Chunks = append(f.Chunks, *c)
	}
	if len(f.Chunks) == 0 && f.MoveTo == "" {
		return p.fail("it does not say what is changed in the file")
	}
	return nil
}

// chunk reads a change. The first one of a file may come without @@. Several lines with @@
// narrow the place down one after the other.
func (p *parser) chunk(first bool) (*Chunk, error) {
	c := &Chunk{Line: p.at + 1}
	for ; p.at < len(p.lines); p.at++ {
		rest, ok := strings.CutPrefix(p.lines[p.at], "@@")
		if !ok {
			break
		}
		h, numbered := header(rest)
		if h != "" {
			c.Headers = append(c.Headers, h)
		}
		c.Numbered = c.Numbered || numbered
		first = true
	}
	if !first {
		p.at++
		return nil, p.fail("a change begins with @@")
	}
	if err := p.body(c); err != nil {
		return nil, err
	}
	c.trim(p.lines[:p.at])
	if len(c.Old)+len(c.New) == 0 {
		p.at = min(p.at+1, len(p.lines))
		return nil, p.fail("a change has no lines")
	}
	return c, nil
}

// header takes the line numbers of a unified diff off: "-1,2 +1,3 @@ func f()". Models mix
// the two formats up, and the numbers are mostly wrong. They also close the line with @@.
func header(s string) (_ string, numbered bool) {
	s = strings.TrimSpace(s)
	nums, after, found := strings.Cut(s, "@@")
	if found && strings.HasPrefix(nums, "-") && strings.Trim(nums, "0123456789, +-") == "" {
		s, numbered = after, true
	}
	return strings.TrimSpace(strings.TrimSuffix(s, "@@")), numbered
}

// trim takes empty lines away that follow new lines, if the change has no other lines that stay:
// they are put between the parts of a patch, and say nothing about the file.
func (c *Chunk) trim(read []string) {
	n := 0
	for n < len(c.Old) && read[len(read)-1-n] == "" {
		n++
	}
	if n == len(c.Old) && n < len(c.New) {
		c.Old, c.New = nil, c.New[:len(c.New)-n]
	}
}

// body reads the lines of a change. An empty line stands for one with the space that models
// leave out.
func (p *parser) body(c *Chunk) error {
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		if strings.TrimSpace(line) == atEnd && strings.HasPrefix(line, marker) {
			p.at++
			c.AtEnd = true
			return nil
		}
		switch {
		case strings.HasPrefix(line, "@@"), strings.HasPrefix(line, marker):
			return nil
		// Editors strip blanks at line ends, and so do models.
		case line == "":
			c.Old, c.New = append(c.Old, ""), append(c.New, "")
		case line[0] == ' ':
			c.Old, c.New = append(c.Old, line[1:]), append(c.New, line[1:])
		case line[0] == '-':
			c.Old = append(c.Old, line[1:])
		case line[0] == '+':
			c.New = append(c.New, line[1:])
		case line[0] == '\\': // "\ No newline at end of file"
		default:
			p.at++
			return p.fail("a line of a change begins with a space, + or -, not %q", line[:min(len(line), 20)])
		}
	}
	return nil
}
