package mask

import (
	"slices"
	"strings"
)

// Excerpt is Mask for a text that may be a part of another, or of the output of a command:
// it also hides what only the lines around would tell. A line that looks like one of a
// private key, whose first line is not there, is hidden, and so is what looks like the
// secret of an AWS access key within two lines of the key's id, a part of a JSON web key, a value
// whose name is the value before it, and a key within what git blame puts around. Mask does none of these, since it
// has to give the same for a text in pieces. It hides more than is secret, which does no
// harm in what a model reads, but would in an edit.
func (m *Masker) Excerpt(text string) string {
	return m.mask(text, m.index.findAround, func(string, string) {})
}

// findAround is find, with what the lines around tell.
func (x *index) findAround(s string) []span {
	f := x.look(s, true)
	f.looseLines()
	return f.spans
}

// awsAround is how many lines before and behind the id of a key its secret may be.
const awsAround = 2

// maxLoose is how many lines in a row a private key can have: those of RSA with 8192 bits
// have a hundred. More are other data.
const maxLoose = 128

// looseLines marks lines that may belong to a private key, and secrets near to the id of an
// AWS key. It goes through the text once, with the secrets that are known already at its
// side. Lines with such a secret or a placeholder are left out, so that what it adds is apart
// from all others.
func (f *finder) looseLines() {
	known := f.spans
	public := false // in a block that is not secret
	var ids []int   // lines with the id of a key
	var types []int // lines with the type of a JSON web key
	var secrets, keys, parts []looseLine
	last := "" // the line before
	n, at := 0, 0
	for line := range strings.Lines(f.s) {
		from := at
		at += len(line)
		n++
		line = strings.TrimRight(line, "\r\n")
		for len(known) > 0 && known[0].to <= from {
			known = known[1:]
		}
		in := 0
		for in < len(known) && known[in].from < from+len(line) {
			in++
		}
		inLine := known[:in]
		switch {
		// Certificates and public keys look the same line by line.
		case strings.Contains(line, "-----BEGIN "):
			public = !strings.Contains(line, keyWord)
		case strings.Contains(line, "-----END "):
			public = false
		}
		if strings.Contains(line, `"kty"`) {
			types = append(types, n)
		}
		before := last
		last = line
		isID := func(s span) bool { return s.kind == awsID }
		if slices.ContainsFunc(inLine, isID) || strings.Contains(line, prefix+awsID) {
			ids = append(ids, n)
		}
		if len(line) > maxAfter || len(inLine) > 0 || strings.Contains(line, prefix) {
			continue
		}
		if skip := content(line); skip < len(line) && strings.IndexByte("\"'\\,vV", line[skip]) >= 0 {
			if i, j := webKeyPart(line[skip:]); i < j {
				parts = append(parts, looseLine{n, from + skip + i, from + skip + j})
				continue
			}
			if a, ok := pairedValue(before, line[skip:]); ok {
				f.spans = append(f.spans, span{from: from + skip + a.from, to: from + skip + a.from + len(a.value), kind: byPlace})
				continue
			}
		}
		if len(line) < awsSecretSize {
			continue
		}
		if v := keyText(line); !public && v != "" {
			i := from + strings.LastIndex(line, v)
			keys = append(keys, looseLine{n, i, i + len(v)})
			continue
		}
		awsTokens(line, func(i, j int) { secrets = append(secrets, looseLine{n, from + i, from + j}) })
	}
	f.addKeys(keys)
	f.addNear(secrets, ids, awsAround, awsSecret)
	f.addNear(parts, types, webKeyLines, "private-key")
	slices.SortFunc(f.spans, func(a, b span) int { return a.from - b.from })
}

// addNear adds spans for those of the lines that have one of others within a distance.
func (f *finder) addNear(lines []looseLine, others []int, most int, kind string) {
	for _, s := range lines {
		for len(others) > 0 && others[0] < s.n-most {
			others = others[1:]
		}
		if len(others) > 0 && others[0] <= s.n+most {
			f.spans = append(f.spans, span{from: s.from, to: s.to, kind: kind})
		}
	}
}

// content returns where a line begins, behind its number or the sign of a diff.
func content(line string) int {
	at := 0
	blanks := func(more string) {
		for at < len(line) && (line[at] == ' ' || line[at] == '\t' || strings.IndexByte(more, line[at]) >= 0) {
			at++
		}
	}
	blanks("+-")
	if !strings.HasPrefix(line[at:], `"`) { // a number in a quoted text is its own
		at += numbered(line[at:])
		blanks("")
	}
	return at
}

// webKeyLines is how many lines a JSON web key has at most, one for each part.
const webKeyLines = 16

// webKeyPart returns where a line that is all a private part of a JSON web key has its value.
func webKeyPart(line string) (from, to int) {
	name, value, ok := strings.Cut(strings.TrimLeft(line, " \t"), ":")
	v := strings.Trim(value, " \t\",")
	if !ok || len(v) < 20 || !slices.Contains(webKeyParts, strings.TrimRight(name, " ")) ||
		strings.TrimLeft(v, letters+"0123456789-_") != "" {
		return 0, 0
	}
	from = strings.LastIndex(line, v)
	return from, from + len(v)
}

// valueName returns the name that a line gives as a value, for the line behind it: name: DB_PASSWORD.
func valueName(line string) string {
	before, name, ok := strings.Cut(strings.TrimLeft(line, " \t-{"), ":")
	before = strings.ToLower(strings.Trim(before, "\"' "))
	name = strings.Trim(name, "\"', \t")
	if !ok || before != "name" && before != "key" || len(name) > maxName || strings.ContainsAny(name, " \t") {
		return ""
	}
	return name
}

// pairedValue returns the value of a line, if it is a secret by the name in the line before.
func pairedValue(before, line string) (a assignment, ok bool) {
	at := valueAt(line)
	if at == 0 {
		return a, false
	}
	a.name = valueName(before[content(before):])
	a.read(line[at:], at)
	return a, a.secret(strengthOf(a.name))
}

// A looseLine is what may be a secret in a line of which others tell.
type looseLine struct{ n, from, to int }

// addKeys adds spans for those of the lines that are not too many in a row.
func (f *finder) addKeys(keys []looseLine) {
	for len(keys) > 0 {
		row := 1
		for row < len(keys) && keys[row].n == keys[0].n+row {
			row++
		}
		for _, k := range keys[:row] {
			if row <= maxLoose && looseKey(f.s[k.from:k.to]) {
				f.spans = append(f.spans, span{from: k.from, to: k.to, kind: looseKind})
			}
		}
		keys = keys[row:]
	}
}

// looseKind is that of a line of which nobody knows whether it is of a private key, a
// certificate, or other base64.
const looseKind = "key-or-certificate"

// keyText returns what is in a line if it is as wide as a whole line of a private key, in
// the widths of PEM (RFC 7468, 2), OpenSSH, and older tools, or "". The sign of a diff is
// also one of base64, so it is taken off only from a line that is too wide with it.
func keyText(line string) string {
	whole := strings.TrimSpace(line)
	for _, v := range []string{whole, strings.TrimSpace(whole[numbered(whole):]), bare(line), blamed(whole)} {
		if (len(v) == 64 || len(v) == 70 || len(v) == 76) && isBase64(v) {
			return v
		}
	}
	return ""
}

// blamed returns the last word of a line of git blame or bat, if it is a long one that is behind the number of the line, or "".
func blamed(line string) string {
	i := strings.LastIndexByte(line, ' ')
	word := strings.TrimRight(line[i+1:], "$")
	if i < 0 || len(word) < longLine {
		return ""
	}
	before := strings.TrimRight(line[:i], " ")
	number := strings.TrimRight(strings.TrimRight(before, ")│"), " ")
	if number == before || number == "" || !digits.has(number[len(number)-1]) {
		return ""
	}
	return word
}

// looseKey reports whether such a text may be of a private key: letters of both cases and
// digits, drawn by chance. The bound of the entropy lies between that of code in 64 columns
// and that of keys.
func looseKey(v string) bool {
	return !strings.Contains(v, "=") && classes(strings.Trim(v, "+/")) >= 3 && random(v) && entropy(v) >= 4.5
}
