package paint

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// A hunk is a part of a unified diff.
type hunk struct {
	// The numbers of the first lines are from 1. If there are no lines, it is that of the line before.
	oldStart, oldLines, newStart, newLines int

	section string
	lines   []patchLine
}

// A patchLine is a line of a hunk, with its line end, which the last line of a file may not have.
type patchLine struct {
	sign byte // ' ', '-' or '+'
	text string
}

// A patchFile is the part of a unified diff about one file.
type patchFile struct {
	name  string
	notes []string // what its header says besides the name
	text  []string // lines that are not of a diff
	hunks []hunk

	plus, minus int // lines
}

// A patchParser reads a unified diff. How many lines a hunk has is in its header, so a line that
// looks like a header is none there.
type patchParser struct {
	files    []patchFile
	old, now int // lines that are left of the hunk
	named    bool
	title    int // of the last file that has one
}

func parsePatch(unified string) []patchFile {
	p := patchParser{files: make([]patchFile, 1)}
	for line := range strings.Lines(unified) {
		if !p.inHunk(line) {
			p.outside(line)
		}
	}
	if first := p.files[0]; first.name == "" && len(first.notes)+len(first.text)+len(first.hunks) == 0 {
		return p.files[1:]
	}
	return p.files
}

func (p *patchParser) file() *patchFile { return &p.files[len(p.files)-1] }

func (p *patchParser) inHunk(line string) bool {
	f := p.file()
	if len(f.hunks) == 0 {
		return false
	}
	h := &f.hunks[len(f.hunks)-1]
	if strings.HasPrefix(line, `\ `) && len(h.lines) > 0 {
		last := &h.lines[len(h.lines)-1]
		last.text = strings.TrimSuffix(last.text, "\n")
		return true
	}
	if p.old <= 0 && p.now <= 0 {
		return false
	}
	sign, text := line[0], line[1:]
	switch sign {
	case '-':
		p.old, p.titled().minus = p.old-1, p.titled().minus+1
	case '+':
		p.now, p.titled().plus = p.now-1, p.titled().plus+1
	case '\n': // a tool has removed the blank at the end of the line
		sign, text = ' ', line
		fallthrough
	case ' ':
		p.old, p.now = p.old-1, p.now-1
	default:
		p.old, p.now = 0, 0
		return false
	}
	h.lines = append(h.lines, patchLine{sign, text})
	return true
}

// outside reads a line that is not in a hunk.
func (p *patchParser) outside(line string) {
	bare := strings.TrimRight(line, "\r\n")
	if strings.HasPrefix(line, "diff --git ") {
		p.begin()
		p.file().name = unquoteName(bare[strings.LastIndex(bare, " ")+1:])
	} else if name, ok := strings.CutPrefix(bare, "--- "); ok {
		if f := p.file(); p.named || len(f.hunks) > 0 {
			p.begin()
		}
		p.named = true
		p.rename(name)
	} else if name, ok := strings.CutPrefix(bare, "+++ "); ok {
		p.rename(name)
	} else if !p.hunk(bare) && !p.note(bare) {
		m := leftOut.FindStringSubmatch(bare)
		if m != nil {
			p.cut(m[1], m[2])
		}
		if m != nil || len(p.file().hunks) > 0 {
			p.begin()
		}
		p.file().text = append(p.file().text, bare)
	}
}

// leftOut is a line about what a preview leaves out, with the numbers of lines, or of bytes only.
var leftOut = regexp.MustCompile(`^\[.* left out(?: here|.*: \+(\d+) -(\d+).*)\]$`)

// titled returns the file whose title counts what comes: hunks behind a line that is not of the diff have none.
func (p *patchParser) titled() *patchFile {
	if p.file().name != "" {
		p.title = len(p.files) - 1
	}
	return &p.files[p.title]
}

// cut counts lines that are left out. A number of bytes does not tell how many these are.
func (p *patchParser) cut(plus, minus string) {
	f := p.titled()
	if plus == "" {
		f.notes = append(f.notes, "not all of it")
		return
	}
	more, _ := strconv.Atoi(plus)
	less, _ := strconv.Atoi(minus)
	f.plus, f.minus = f.plus+more, f.minus+less
}

// begin begins another file.
func (p *patchParser) begin() {
	p.titled()
	p.files, p.named = append(p.files, patchFile{}), false
}

func (p *patchParser) rename(name string) {
	name, _, _ = strings.Cut(name, "\t")
	if name = unquoteName(name); name != "/dev/null" {
		p.file().name = name
	}
}

// unquoteName removes the prefix of a name, and the quotes that git puts around a strange one.
func unquoteName(name string) string {
	if s, err := strconv.Unquote(name); err == nil {
		name = s
	}
	if len(name) > 2 && (name[:2] == "a/" || name[:2] == "b/") {
		return name[2:]
	}
	return name
}

var hunkHeader = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)`)

// hunk reads a line such as "@@ -1,7 +1,8 @@ func main() {". A missing length means 1.
func (p *patchParser) hunk(line string) bool {
	m := hunkHeader.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	number := func(i int) int { n, _ := strconv.Atoi(cmp.Or(m[i], "1")); return n }
	f := p.file()
	p.old, p.now = number(2), number(4)
	f.hunks = append(f.hunks, hunk{number(1), p.old, number(3), p.now, m[5], nil})
	return true
}

// note reads a line of git's header, and reports whether it is one.
func (p *patchParser) note(line string) bool {
	f := p.file()
	for _, n := range []struct{ prefix, note string }{
		{"rename from ", "renamed from "}, {"rename to ", ""}, {"copy from ", "copied from "}, {"copy to ", ""},
		{"old mode ", "mode "}, {"new mode ", "now "}, {"new file mode ", "new file"}, {"deleted file mode ", "deleted"},
		{"Binary files ", "binary"}, {"GIT binary patch", "binary"}, {"index ", ""}, {"similarity index ", ""}, {"dissimilarity index ", ""},
	} {
		value, ok := strings.CutPrefix(line, n.prefix)
		if !ok {
			continue
		}
		switch {
		case strings.HasSuffix(n.prefix, "to "):
			f.name = unquoteName(value)
		case strings.HasSuffix(n.note, " "):
			f.notes = append(f.notes, n.note+unquoteName(value))
		case n.note != "":
			f.notes = append(f.notes, n.note)
		}
		return true
	}
	return false
}
