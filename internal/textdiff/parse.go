package textdiff

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/diff3"
)

var (
	errHeader  = errors.New("header of a file expected")
	errNames   = errors.New("file name does not begin with a/ or b/")
	errNoFile  = errors.New("no file before and none after")
	errCopy    = errors.New("copies are not supported")
	errHead    = errors.New("head of a hunk expected, such as @@ -1,2 +1,3 @@")
	errBody    = errors.New("line of a hunk begins with none of ' ', '-', '+' and '\\'")
	errShort   = errors.New("hunk is shorter than its head says")
	errLong    = errors.New("hunk is longer than its head says")
	errNewline = errors.New("line follows one without a newline")
)

// Parse reads a unified diff of any number of files, with or without git's extended
// headers. It is strict: any other text is an error. Its errors are of type [*PatchError].
// Strictness is the point: git apply and patch skip text that they do not understand, so a
// patch with a mistake in it would be applied in part.
func Parse(patch []byte) ([]*Patch, error) {
	p := parser{rest: patch}
	var out []*Patch
	for p.next(); p.line != nil; {
		f, err := p.file()
		if err != nil {
			return nil, &PatchError{p.n, err}
		}
		out = append(out, f)
	}
	return out, nil
}

// parser is at a line of a patch; the line is nil at the end. The number of the line is
// kept for errors.
type parser struct {
	rest, line []byte
	n          int
}

// next goes to the next line.
func (p *parser) next() {
	p.n++
	if len(p.rest) == 0 {
		p.line = nil
		return
	}
	end := len(p.rest)
	if i := bytes.IndexByte(p.rest, '\n'); i >= 0 {
		end = i + 1
	}
	p.line, p.rest = p.rest[:end], p.rest[end:]
}

func (p *parser) has(prefix string) bool { return bytes.HasPrefix(p.line, []byte(prefix)) }

// after returns the text after a prefix of the line, without the newline.
func (p *parser) after(prefix string) (string, bool) {
	text, ok := bytes.CutPrefix(p.line, []byte(prefix))
	return strings.TrimSuffix(string(text), "\n"), ok
}

// file reads the headers and hunks of one file. A file that was only created, deleted or
// renamed has no hunks.
func (p *parser) file() (*Patch, error) {
	f := &Patch{}
	git, err := p.gitHeader(f)
	switch {
	case err != nil:
		return nil, err
	case git && p.has("Binary files "):
		f.Binary = true
		p.next()
		return f, nil
	case !p.has("--- ") && git:
		return f, nil
	}
	if err := p.names(f); err != nil {
		return nil, err
	}
	for p.has("@@ ") {
		if err := p.hunk(f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// gitHeader reads git's extended header, if there is one. The names in its first line are
// ambiguous if they contain blanks, so those of the lines for a rename count more.
func (p *parser) gitHeader(f *Patch) (bool, error) {
	text, ok := p.after("diff --git ")
	if !ok {
		return false, nil
	}
	from, to := twoNames(text)
	created, deleted := false, false
	for p.next(); ; p.next() {
		switch key, value := p.extended(); key {
		case "":
			return true, f.setNames(from, to, created, deleted)
		case "copy from ":
			return true, errCopy
		case "rename from ":
			from = "a/" + value
		case "rename to ":
			to = "b/" + value
		case "new file mode ":
			created = true
		case "deleted file mode ":
			deleted = true
		}
	}
}

// extended reads a line of git's extended header. The key is empty if the line is not part
// of it.
func (p *parser) extended() (key, value string) {
	for _, key := range []string{
		"old mode ", "new mode ", "deleted file mode ", "new file mode ", "copy from ", "copy to ",
		"rename from ", "rename to ", "similarity index ", "dissimilarity index ", "index ",
	} {
		text, ok := p.after(key)
		if !ok {
			continue
		}
		if name, rest, err := unquote(text); err == nil && rest == "" {
			text = name
		}
		return key, text
	}
	return "", ""
}

// twoNames splits "a/x b/x" into names. Names may contain blanks; then both are equal after
// the prefix, or the lines of a rename give them. If nothing helps, both names are empty,
// which setNames refuses.
func twoNames(text string) (from, to string) {
	if strings.HasPrefix(text, `"`) {
		from, text, _ = unquote(text)
		to, _, _ = unquote(strings.TrimPrefix(text, " "))
		return from, to
	}
	// The second name may be quoted while the first one is not.
	if from, to, ok := strings.Cut(text, ` "`); ok {
		to, _, _ = unquote(`"` + to)
		return from, to
	}
	if strings.Count(text, " ") == 1 {
		from, to, _ = strings.Cut(text, " ")
		return from, to
	}
	if half := len(text) / 2; half > 2 && text[half] == ' ' && text[2:half] == text[half+3:] {
		return text[:half], text[half+1:]
	}
	return "", ""
}

// setNames sets the names from git's header, which repeats the name of a created or deleted
// file on both sides.
func (f *Patch) setNames(from, to string, created, deleted bool) (err error) {
	if f.OldName, err = bare(from, "a/"); err != nil {
		return err
	}
	if f.NewName, err = bare(to, "b/"); err != nil {
		return err
	}
	if created {
		f.OldName = ""
	}
	if deleted {
		f.NewName = ""
	}
	return f.check()
}

// check refuses a patch from nothing to nothing, which would name no file.
func (f *Patch) check() error {
	if f.OldName == "" && f.NewName == "" {
		return errNoFile
	}
	return nil
}

// bare removes the prefix of a name. The result for /dev/null is empty. Without the prefix
// it would not be known which directory a name is relative to.
func bare(name, prefix string) (string, error) {
	if name == devNull {
		return "", nil
	}
	name, ok := strings.CutPrefix(name, prefix)
	if !ok || name == "" {
		return "", errNames
	}
	return name, nil
}

// names reads the two lines that precede the hunks.
func (p *parser) names(f *Patch) (err error) {
	if f.OldName, err = p.name("--- ", "a/"); err != nil {
		return err
	}
	if f.NewName, err = p.name("+++ ", "b/"); err != nil {
		return err
	}
	if !p.has("@@ ") {
		return errHead
	}
	return f.check()
}

// name reads a line with a name, which a tab and a date may follow.
func (p *parser) name(key, prefix string) (string, error) {
	text, ok := p.after(key)
	if !ok {
		return "", errHeader
	}
	if !strings.HasPrefix(text, `"`) {
		text, _, _ = strings.Cut(text, "\t")
	}
	name, rest, err := unquote(text)
	if err != nil || rest != "" && rest[0] != '\t' {
		return "", errName
	}
	p.next()
	return bare(name, prefix)
}

// hunk reads a hunk. Its length is taken from its head, because a line in it may look like
// anything, even like another head.
func (p *parser) hunk(f *Patch) error {
	h := patchHunk{line: p.n}
	text, _ := p.after("@@ -")
	from, text, ok := strings.Cut(text, " +")
	to, _, ok2 := strings.Cut(text, " @@")
	if !ok || !ok2 || !parseRange(from, &h.from) || !parseRange(to, &h.to) {
		return errHead
	}
	before, after := part{left: h.from.Len()}, part{left: h.to.Len()}
	for p.next(); before.left+after.left > 0 || p.has(`\ `); p.next() {
		if err := p.bodyLine(&before, &after); err != nil {
			return err
		}
	}
	h.before, h.after = before.text, after.text
	f.hunks = append(f.hunks, h)
	return nil
}

// part is one side of a hunk that is being read.
type part struct {
	text []byte
	left int  // lines that remain
	last bool // the last line that was read belongs to this side
	over bool // the last line has no newline
}

// bodyLine reads a line of a hunk, or the mark that the line above it has no newline.
func (p *parser) bodyLine(before, after *part) error {
	if len(p.line) == 0 {
		return errShort
	}
	switch sign := p.line[0]; sign {
	case ' ', '-', '+':
		if p.line[len(p.line)-1] != '\n' {
			return errShort
		}
		if err := before.add(p.line[1:], sign != '+'); err != nil {
			return err
		}
		return after.add(p.line[1:], sign != '-')
	case '\\':
		if !before.last && !after.last {
			return errNewline
		}
		before.cut()
		after.cut()
		return nil
	}
	return errBody
}

// add appends a line, if it belongs to the part.
func (s *part) add(line []byte, belongs bool) error {
	s.last = belongs
	switch {
	case !belongs:
		return nil
	case s.left == 0:
		return errLong
	case s.over:
		return errNewline
	}
	s.text = append(s.text, line...)
	s.left--
	return nil
}

// cut removes the newline of the last line, if it belongs to the part.
func (s *part) cut() {
	if s.last {
		s.text = s.text[:len(s.text)-1]
		s.last, s.over = false, true
	}
}

// parseRange reads a range of lines, such as "3,2", "3" or "2,0".
func parseRange(text string, s *diff3.Span) bool {
	first, length, ok := strings.Cut(text, ",")
	if !ok {
		length = "1"
	}
	lo, err := strconv.ParseUint(first, 10, 30)
	n, err2 := strconv.ParseUint(length, 10, 30)
	if err != nil || err2 != nil || n > 0 && lo == 0 {
		return false
	}
	s.Lo = int(lo) - min(int(n), 1)
	s.Hi = s.Lo + int(n)
	return true
}
