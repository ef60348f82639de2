// Package cases reads the cases that the tests of several packages keep in testdata: an
// input that a person can read, the outcome that is right, and where that comes from.
//
// A file begins with lines that say what is in it. Then come the cases:
//
//	=== both sides add an import
//	source: git merge-file --diff3
//	-- base --
//	import os
//	-- ours (noeol) --
//	import os
//	import re
//
//	=== the next case
//
// A case has a name, a head of keys with values, of which source is required, and sections
// of text. The blank line before the next case belongs to neither. Words in parentheses
// say how a section is written: with escaped it has the escapes of a Go string, so that
// blanks at line ends, control characters and bytes that are not UTF-8 can be seen; with
// noeol its last line has no line break; with crlf its lines end in CRLF.
package cases

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Case is one case of a file.
type Case struct {
	Name     string
	Where    string // file and line, for messages
	Head     []Key
	Sections []Section
}

// Key is a line of the head. Keys may repeat, and keep their order.
type Key struct{ Name, Value string }

// Section is a text of a case. Its name may have several words.
type Section struct{ Name, Text string }

// Value returns the value of a key, or "".
func (c *Case) Value(key string) string {
	for _, k := range c.Head {
		if k.Name == key {
			return k.Value
		}
	}
	return ""
}

// Text returns the text of a section, and whether there is one of that name.
func (c *Case) Text(name string) (string, bool) {
	for _, s := range c.Sections {
		if s.Name == name {
			return s.Text, true
		}
	}
	return "", false
}

// Set changes the text of a section, or appends one. It is for tests that write outcomes
// anew.
func (c *Case) Set(name, text string) {
	for i := range c.Sections {
		if c.Sections[i].Name == name {
			c.Sections[i].Text = text
			return
		}
	}
	c.Sections = append(c.Sections, Section{name, text})
}

// bytes are what makes a case another one: all but its name and its source. Cases that only
// differ in those test nothing new.
func (c *Case) bytes() string {
	var b strings.Builder
	for _, k := range c.Head {
		if k.Name != "source" {
			fmt.Fprintf(&b, "%q: %q\n", k.Name, k.Value)
		}
	}
	for _, s := range c.Sections {
		fmt.Fprintf(&b, "%q %q\n", s.Name, s.Text)
	}
	return b.String()
}

// Read returns the cases of the files that match a pattern. It fails the test if there
// are none, or one has no source, or two are the same but for their names.
func Read(t testing.TB, pattern string) []Case {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no cases in %s: %v", pattern, err)
	}
	var all []Case
	for _, name := range names {
		_, list, err := ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	var seen once
	for i := range all {
		c := &all[i]
		seen.check(t, c.Where, c.Value("source"), c.bytes())
	}
	return all
}

// once finds what is there twice. A case that was copied and forgotten would count twice.
type once struct{ at map[string]string }

func (o *once) check(t testing.TB, where, source, bytes string) {
	t.Helper()
	if o.at == nil {
		o.at = map[string]string{}
	}
	if strings.TrimSpace(source) == "" {
		t.Errorf("%s: the case does not say where its outcome comes from", where)
	}
	if first, twice := o.at[bytes]; twice {
		t.Errorf("%s: the case is the same as %s", where, first)
	}
	o.at[bytes] = where
}

// ReadTable returns the rows of a file that has a row a line, with a tab between its
// columns. Lines that begin with # are comments. The last column is the input, as [Unquote]
// returns it; the one before says where the rest comes from. It fails the test if a row has
// another number of columns or no source, or two rows have the same input.
func ReadTable(t testing.TB, name string, columns int) [][]string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	var seen once
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		row := strings.Split(line, "\t")
		where := fmt.Sprintf("%s:%d", name, n)
		if len(row) != columns {
			t.Fatalf("%s: the row has %d columns, want %d", where, len(row), columns)
		}
		row[columns-1] = Unquote(row[columns-1])
		seen.check(t, where, row[columns-2], row[columns-1])
		rows = append(rows, row)
	}
	return rows
}

var hidden = regexp.MustCompile(`‹U\+[0-9A-F]{4,6}›|[⏎⇥]`)

// Unquote returns the text that a cell of a table stands for: ⏎ is a line break, ⇥ a tab,
// and ‹U+200B› the character of that number, which nobody would see.
func Unquote(cell string) string {
	return hidden.ReplaceAllStringFunc(cell, func(s string) string {
		switch s {
		case "⏎":
			return "\n"
		case "⇥":
			return "\t"
		}
		n, _ := strconv.ParseInt(s[len("‹U+"):len(s)-len("›")], 16, 32)
		return string(rune(n))
	})
}

// ReadFile returns what a file says about itself, and its cases.
func ReadFile(name string) (about string, all []Case, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", nil, err
	}
	about, rest, found := strings.Cut("\n"+string(data), "\n=== ")
	if !found {
		return "", nil, fmt.Errorf("%s: it has no case", name)
	}
	// The text begins with a line break that is not in the file.
	line := strings.Count(about, "\n") + 1
	// A blank line stands before each header, so one in a section does not end it.
	for text := range strings.SplitSeq(strings.TrimSuffix(rest, "\n"), "\n\n=== ") {
		c, err := parse(text + "\n")
		c.Where = fmt.Sprintf("%s:%d: %s", name, line, c.Name)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", c.Where, err)
		}
		all = append(all, c)
		line += strings.Count(text, "\n") + 2
	}
	return strings.TrimPrefix(about, "\n"), all, nil
}

var header = regexp.MustCompile(`^-- ([^()]+?)(?: \(([a-z, ]+)\))? --$`)

// parse reads a case, whose text begins with its name.
func parse(text string) (Case, error) {
	name, text, _ := strings.Cut(text, "\n")
	c := Case{Name: name}
	var how string
	end := func() error {
		if len(c.Sections) == 0 {
			return nil
		}
		s := &c.Sections[len(c.Sections)-1]
		var err error
		s.Text, err = read(s.Text, how)
		return err
	}
	for line := range strings.Lines(text) {
		m := header.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		switch {
		case m != nil:
			if err := end(); err != nil {
				return c, err
			}
			c.Sections, how = append(c.Sections, Section{Name: m[1]}), m[2]
		case len(c.Sections) > 0:
			c.Sections[len(c.Sections)-1].Text += line
		default:
			key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			if !ok {
				return c, fmt.Errorf("want a key and its value, not %q", line)
			}
			c.Head = append(c.Head, Key{key, value})
		}
	}
	return c, end()
}

// read turns what is written of a section into its text.
func read(text, how string) (string, error) {
	for flag := range strings.SplitSeq(how, ", ") {
		switch flag {
		case "":
		case "escaped":
			quoted := strings.NewReplacer(`"`, `\"`, "\n", `\n`).Replace(text)
			var err error
			if text, err = strconv.Unquote(`"` + quoted + `"`); err != nil {
				return "", fmt.Errorf("escapes of %q: %w", text, err)
			}
		case "crlf":
			text = strings.ReplaceAll(text, "\n", "\r\n")
		case "noeol":
			text = strings.TrimSuffix(text, "\n")
		default:
			return "", errors.New("unknown form " + flag)
		}
	}
	return text, nil
}

// Append appends a case as it is written in a file.
func (c *Case) Append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "=== %s\n", c.Name)
	for _, k := range c.Head {
		dst = fmt.Appendf(dst, "%s: %s\n", k.Name, k.Value)
	}
	for _, s := range c.Sections {
		text, how := write(s.Text)
		if how != "" {
			how = " (" + how + ")"
		}
		dst = fmt.Appendf(dst, "-- %s%s --\n%s", s.Name, how, text)
	}
	return dst
}

// WriteFile writes a file of cases.
func WriteFile(name, about string, all []Case) error {
	out := []byte(about)
	for i := range all {
		out = all[i].Append(append(out, '\n'))
	}
	return os.WriteFile(name, bytes.TrimPrefix(out, []byte("\n")), 0o644)
}

// write returns a text as it is written in a section. It uses the plainest form that Read
// turns back into the same text.
func write(text string) (written, how string) {
	var flags []string
	n := strings.Count(text, "\r\n")
	crlf := n > 0 && n == strings.Count(text, "\n") && n == strings.Count(text, "\r")
	if crlf {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	if !readable(text) {
		flags, text = append(flags, "escaped"), escape(text)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		flags, text = append(flags, "noeol"), text+"\n"
	}
	if crlf {
		flags = append(flags, "crlf")
	}
	return text, strings.Join(flags, ", ")
}

// readable reports whether a person sees all that is in a text. Otherwise the section is
// written with escapes. Blanks at the end of a line are what editors remove without a word.
func readable(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "=== ") || header.MatchString(line) || strings.TrimRight(line, " \t") != line {
			return false
		}
		for _, r := range line {
			if !visible(r) {
				return false
			}
		}
	}
	return utf8.ValidString(text)
}

// visible reports whether a person sees a character, or takes a tab for one.
func visible(r rune) bool { return r == '\t' || unicode.IsPrint(r) }

// escape makes everything visible, and keeps a line from being read as a header.
func escape(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, found := strings.CutSuffix(line, "\n")
		head := strings.TrimRight(body, " \t")
		marked := strings.HasPrefix(body, "=== ") || header.MatchString(body)
		for i := 0; i < len(body); {
			r, n := utf8.DecodeRuneInString(body[i:])
			switch {
			case r == utf8.RuneError && n == 1, i >= len(head) && r == ' ', i == 0 && marked:
				fmt.Fprintf(&b, `\x%02x`, body[i])
			case r == '\\', r == '\t' && i >= len(head), !visible(r):
				b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			default:
				b.WriteRune(r)
			}
			i += n
		}
		if found {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
