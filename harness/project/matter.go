package project

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tools"
	"go.yaml.in/yaml/v3"
)

// Front matter is YAML between two lines "---" at the beginning of a Markdown file. Much of it in public repositories
// is not valid YAML, as in "description: Use when reviewing: …", and is then read line by line as "key: text".

const (
	maxMatter = 16 << 10 // bytes
	maxKeys   = 200
	maxItems  = 500 // of a list
)

// A matter is the front matter of a file.
type matter []value

// A value is what one key has.
type value struct {
	key  string
	line int
	// text is a scalar as it is, and a list as it may have been meant: argument-hint: [file] is one for YAML.
	text string
	list []string // nil if the value is not a list
}

func (m matter) get(key string) value {
	i := slices.IndexFunc(m, func(v value) bool { return v.key == key })
	if i < 0 {
		return value{}
	}
	return m[i]
}

func (m matter) text(key string) string { return strings.TrimSpace(m.get(key).text) }

// true reports whether a key has the value true.
func (m matter) true(key string) bool { return strings.EqualFold(m.text(key), "true") }

// A document is a Markdown file.
type document struct {
	file   string
	matter matter
	body   string
	line   int // of the body
}

// plain returns a text with line breaks of one byte, without a byte order mark, and in valid UTF-8, in which invisible
// characters are written out: people who read the file should see what the model reads.
func plain(text string) string {
	return tools.EscapeInvisible(runes.Clean(strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")))
}

// parse reads a file. Keys are those that its kind knows, and others those that say nothing about its use.
func parse(file, text string, keys []string, warn *warnings) document {
	d := document{file: file, body: text, line: 1}
	front, body, ok := splitMatter(text)
	switch {
	case !ok && strings.HasPrefix(text, "---\n"):
		warn.add(file, 1, "the front matter has no end, a line with only ---, so the file is read without")
		return d
	case !ok:
		return d
	}
	d.body, d.line = body, 1+strings.Count(text[:len(text)-len(body)], "\n")
	if len(front) > maxMatter {
		warn.add(file, 1, "the front matter is larger than %d KiB, and is left out", maxMatter>>10)
		return d
	}
	var err error
	if d.matter, err = readYAML(front); err != nil {
		line, why := positionOf(err)
		warn.add(file, line+1, "the front matter is not valid YAML (%s), so it is read line by line", why)
		d.matter = readLines(front, keys)
	}
	d.check(keys, warn)
	return d
}

// splitMatter returns the lines between the marks, without the last line break, and what comes after them.
func splitMatter(text string) (front, body string, ok bool) {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", "", false
	}
	at := 0
	for line := range strings.Lines(rest) {
		if strings.TrimRight(line, " \t\n") == "---" {
			return strings.TrimSuffix(rest[:at], "\n"), rest[at+len(line):], true
		}
		at += len(line)
	}
	return "", "", false
}

// silent are the keys that describe a file to people.
var silent = []string{
	"author", "category", "color", "compatibility", "keywords", "license", "metadata", "tags", "title", "version",
}

// check reports what nobody will use.
func (d *document) check(keys []string, warn *warnings) {
	seen := map[string]bool{}
	for _, v := range d.matter {
		switch {
		case seen[v.key]:
			warn.add(d.file, v.line, "%s is there twice, and the first one counts", runes.Path(v.key))
		case !slices.Contains(keys, v.key) && !slices.Contains(silent, v.key):
			warn.add(d.file, v.line, "%s has no effect here", runes.Path(v.key))
		}
		seen[v.key] = true
	}
}

var errNoMapping = errors.New("yaml: line 1: it has no keys")

// readYAML reads front matter. Line numbers are those of the file.
func readYAML(front string) (m matter, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, fmt.Errorf("yaml: %v", p)
		}
	}()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(front), &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, errNoMapping
	}
	for pair := range slices.Chunk(root.Content[:min(len(root.Content), 2*maxKeys)], 2) {
		m = append(m, valueOf(pair[0], pair[1]))
	}
	return m, nil
}

// valueOf returns a key with its value. Of an alias it takes only a scalar, so that no text grows.
func valueOf(key, n *yaml.Node) value {
	v := value{key: key.Value, line: key.Line + 1}
	switch n.Kind {
	case yaml.SequenceNode:
		v.list = []string{}
		for _, item := range n.Content[:min(len(n.Content), maxItems)] {
			if text, ok := scalar(item); ok {
				v.list = append(v.list, text)
			}
		}
		v.text = "[" + strings.Join(v.list, ", ") + "]"
	case yaml.ScalarNode:
		v.text, _ = scalar(n)
	default:
		v.list = []string{} // a table or an alias: it names no tool, which is not the same as all of them
	}
	return v
}

func scalar(n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", false
	}
	return n.Value, true
}

var (
	yamlLine  = late.Regexp(`^(?:yaml: )?(?:line (\d+): )?(.*)`)
	plainLine = late.Regexp(`^([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*)|$)`)
)

// positionOf returns the line in an error of the YAML parser, at least 1, and the rest of its first line.
func positionOf(err error) (line int, why string) {
	m := yamlLine().FindStringSubmatch(err.Error())
	line, _ = strconv.Atoi(m[1])
	return max(line, 1), runes.Shorten(m[2], 200)
}

// readLines reads lines of the form "key: text". Every other line, and one with a key that this kind of file does not
// have, continues the text before: descriptions often go on with lines such as "user: …".
func readLines(front string, keys []string) (m matter) {
	n := 0
	for line := range strings.Lines(front) {
		n++
		line = strings.TrimRight(line, " \t\n")
		found := plainLine().FindStringSubmatch(line)
		if found != nil && (slices.Contains(keys, found[1]) || slices.Contains(silent, found[1]) || len(m) == 0) {
			if len(m) == maxKeys {
				return m
			}
			m = append(m, value{key: found[1], line: n + 1, text: found[2]})
			continue
		}
		if len(m) > 0 {
			m[len(m)-1].extend(line)
		}
	}
	for i, v := range m {
		m[i].text = unquote(strings.TrimSpace(v.text))
		if inner, ok := strings.CutPrefix(strings.TrimSuffix(m[i].text, "]"), "["); ok && v.list == nil {
			for _, item := range fields(inner) {
				m[i].list = append(m[i].list, unquote(item))
			}
		}
	}
	return m
}

// extend adds a line.
func (v *value) extend(line string) {
	item, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
	if ok && (v.text == "" || v.list != nil) && len(v.list) < maxItems {
		v.list = append(v.list, unquote(strings.TrimSpace(item)))
		return
	}
	v.text += "\n" + line
}

// unquote removes a pair of quotes around a text, and the sign of a block.
func unquote(text string) string {
	for _, sign := range []string{"|\n", ">\n", "|-\n", ">-\n"} {
		if rest, ok := strings.CutPrefix(text, sign); ok {
			return strings.TrimSpace(rest)
		}
	}
	if n := len(text); n > 1 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return text
}
