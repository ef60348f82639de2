package resolve

import (
	"bytes"
	"strconv"
	"strings"
)

// TOMLSep is between the parts of a key of [TOML]: a part may contain dots.
const TOMLSep = "\x00"

// TOML returns the values of a TOML document as strings, by their whole keys. The tables of an array
// of tables are numbered from 0, and the values of an array are one after the other. It accepts what
// is not valid, and reads of it what it can.
// See https://toml.io/en/v1.0.0.
func TOML(data []byte) map[string][]string {
	p := tomlParser{data: data, out: map[string][]string{}, room: maxKeys + 8*len(data)}
	tables := map[string]int{}
	table := ""
	for p.space(); p.i < len(p.data); p.space() {
		if p.data[p.i] != '[' {
			p.pair(table, 0)
			continue
		}
		array := bytes.HasPrefix(p.data[p.i:], []byte("[["))
		for p.i < len(p.data) && p.data[p.i] == '[' {
			p.i++
		}
		if table = p.key(); array {
			tables[table]++
			table += TOMLSep + strconv.Itoa(tables[table]-1)
		}
		for p.i < len(p.data) && p.data[p.i] == ']' {
			p.i++
		}
	}
	return p.out
}

type tomlParser struct {
	data []byte
	i    int
	out  map[string][]string
	room int // bytes that keys may still take: the name of a table is in those of all its values
}

const maxKeys = 64 << 10 // bytes that the keys of a short document may take

// space skips white space, comments and commas.
func (p *tomlParser) space() {
	for ; p.i < len(p.data); p.i++ {
		switch c := p.data[p.i]; {
		case c == '#':
			if k := bytes.IndexByte(p.data[p.i:], '\n'); k >= 0 {
				p.i += k
			} else {
				p.i = len(p.data) - 1
			}
		case c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != ',':
			return
		}
	}
}

// key reads the parts of a key. A key that is longer than anything sensible is cut.
func (p *tomlParser) key() string {
	key := strings.Join(p.parts(), TOMLSep)
	return key[:min(len(key), 1000)]
}

func (p *tomlParser) parts() []string {
	var parts []string
	for p.i < len(p.data) {
		switch c := p.data[p.i]; c {
		case ' ', '\t', '.':
			p.i++
		case '"', '\'':
			parts = append(parts, p.text())
		default:
			k := bytes.IndexAny(p.data[p.i:], " \t\r\n.=[]{}\"'#,")
			if k < 0 {
				k = len(p.data) - p.i
			}
			if k == 0 {
				return parts
			}
			parts = append(parts, string(p.data[p.i:p.i+k]))
			p.i += k
		}
	}
	return parts
}

// pair reads a key and its value.
func (p *tomlParser) pair(table string, depth int) {
	start := p.i
	key := p.key()
	if table != "" {
		key = table + TOMLSep + key
	}
	if p.i == len(p.data) || p.data[p.i] != '=' {
		p.i = max(p.i, start+1)
		return
	}
	if p.room -= len(key); p.room < 0 {
		p.i = len(p.data)
		return
	}
	p.i++
	p.value(key, depth)
}

// value reads a value. Values that are deeper in each other than anything sensible are left out.
func (p *tomlParser) value(key string, depth int) {
	if p.space(); p.i == len(p.data) || depth > 20 {
		p.i = len(p.data)
		return
	}
	switch c := p.data[p.i]; c {
	case '"', '\'':
		p.out[key] = append(p.out[key], p.text())
	case '[', '{':
		p.i++
		for p.space(); p.i < len(p.data) && p.data[p.i] != c+2; p.space() { // ] and } are two behind [ and {
			if c == '[' {
				p.value(key, depth+1)
			} else {
				p.pair(key, depth+1)
			}
		}
		p.i = min(p.i+1, len(p.data))
	default:
		k := bytes.IndexAny(p.data[p.i:], ",]}\r\n#")
		if k < 0 {
			k = len(p.data) - p.i
		}
		p.out[key] = append(p.out[key], strings.TrimSpace(string(p.data[p.i:p.i+k])))
		p.i += max(k, 1)
	}
}

// text reads a string of any of the four kinds.
func (p *tomlParser) text() string {
	quote := p.data[p.i : p.i+1]
	if three := bytes.Repeat(quote, 3); bytes.HasPrefix(p.data[p.i:], three) {
		quote = three
	}
	p.i += len(quote)
	start := p.i
	for p.i < len(p.data) && !bytes.HasPrefix(p.data[p.i:], quote) && (len(quote) > 1 || p.data[p.i] != '\n') {
		if p.data[p.i] == '\\' && quote[0] == '"' {
			p.i++
		}
		p.i++
	}
	end := min(p.i, len(p.data))
	p.i = min(end+len(quote), len(p.data))
	text := string(p.data[start:end])
	if plain, err := strconv.Unquote(`"` + text + `"`); err == nil && quote[0] == '"' {
		return plain
	}
	return text
}
