package mask

import (
	"encoding/base64"
	"slices"
	"strings"
)

// Most secrets have no form of their issuer, but a name in front of them. The same few
// words of a name are found in all languages and formats, so one reader of names, operators
// and values serves them all, and no grammar is needed. Two mistakes have to be balanced: a
// secret that is shown, and code that is hidden although it only names one. So the name
// says how strong the suspicion is, and the value, with the way it is written, has to bear
// that out.

// maxName is the length above which a name is not one that a person gave.
const maxName = 64

// An assignment gives a value a name: in an environment file, JSON, YAML, TOML, INI, XML, a
// connection string, a query, a command line, source code, or netrc. How it is written
// tells how far the name can be trusted: in source code, the word behind password= is more
// often a variable than a password.
type assignment struct {
	name   string
	from   int // where the value is
	value  string
	quoted bool
	tight  bool // name=value, without space
	flag   bool // --name value, set name value
	netrc  bool // name value
	list   bool // one of several: user=x password=y, as data source names have
}

// assignment marks the value of a name that says it is secret. Name and value have to
// agree: a strong name needs little of its value, a weak one much.
func (f *finder) assignment(at int) {
	a, ok := f.assigned(at)
	if !ok {
		return
	}
	s := strengthOf(a.name)
	if a.secret(s) {
		f.mark(a.from, a.from+len(a.value), byPlace)
	}
}

// assigned reads an assignment of whose name a part is at a position. The trigger is only a
// part of the name, which may go on at both sides.
func (f *finder) assigned(at int) (a assignment, ok bool) {
	end := at
	for end < len(f.s) && end-at < maxName && dotted.has(f.s[end]) {
		end++
	}
	line := f.rest(end)
	op, width := operator(line)
	if line != "" && strings.IndexByte(`"'\\`, line[0]) >= 0 { // the name may be a value, too
		if at := valueAt(line); at > 0 {
			op, width = ':', at
		}
	}
	if op == 0 {
		return a, false
	}
	from := end
	// A name does not begin in front of a secret that was found before.
	for limit := f.start(at); from > limit && dotted.has(f.s[from-1]) && end-from < maxName; {
		from--
	}
	a.name = f.s[from:end]
	before := f.s[f.start(from):from]
	switch op {
	case ' ':
		a.flag = strings.HasPrefix(a.name, "--") || isSet(before)
		a.netrc = !a.flag && (isNetrc(a.name, before) || inSQL(a.name, line[width:]))
		if !a.flag && !a.netrc {
			return a, false
		}
	case '>':
		if !strings.HasSuffix(before, "<") {
			return a, false
		}
	case ',':
		if open := strings.TrimRight(before, " \"'"); !strings.HasSuffix(open, "define(") {
			return a, false // not that of a constant in PHP
		}
	case '(':
		if !inSQL(a.name, line[width:]) {
			return a, false
		}
	}
	a.tight = op == '=' && width == 1
	a.list = a.tight && inList(before, line)
	a.read(line[width:], end+width)
	return a, a.value != ""
}

// valueAt returns where the value begins in what stands behind a name that is itself a value, as in
// {"name": "x", "value": "y"} and <add key="x" value="y"/>, or 0.
func valueAt(s string) int {
	rest := strings.TrimLeft(s, ", \t\\\"'")
	const value = "value"
	if len(rest) <= len(value) || !strings.EqualFold(rest[:len(value)], value) {
		return 0
	}
	rest = rest[len(value):]
	if op, width := operator(rest); op == ':' || op == '=' {
		return len(s) - len(rest) + width
	}
	return 0
}

// isSet reports whether the words before a name set it to the word behind it: npm config
// set, aws configure set, CONFIG SET, ENV of a Dockerfile.
func isSet(before string) bool {
	if strings.HasSuffix(before, "ENV ") {
		return true
	}
	if i := strings.LastIndexByte(before, ' '); i >= 0 && strings.HasPrefix(before[i+1:], "//") {
		before = before[:i+1] // the name is one of an address
	}
	n := len(before) - len("set ")
	return n >= 0 && strings.EqualFold(before[n:], "set ") && (n == 0 || before[n-1] == ' ')
}

// isNetrc reports whether a name without an operator has a value behind it anyway: it
// is the only word before, or a login stands there.
func isNetrc(name, before string) bool {
	first := strings.Trim(before, " \t0123456789:+-") == ""
	if name == "password" {
		return first || strings.Contains(before, "login ") || strings.Contains(before, "machine ")
	}
	return name == "requirepass" || name == "masterauth" // of Redis
}

// inSQL reports whether a name and what is behind it, or in parentheses, is a password as
// SQL has it: PASSWORD 'x'. A password without quotes is not valid SQL.
func inSQL(name, value string) bool {
	return strings.EqualFold(name, "password") && strings.HasPrefix(value, "'")
}

// inList reports whether a pair of name and value is one of several that say where a
// database is. A call with named arguments looks the same but for its bracket.
func inList(before, after string) bool {
	for _, s := range []string{strings.ToLower(before), strings.ToLower(after[:min(len(after), maxBefore)])} {
		for _, name := range []string{"host=", "server=", "user=", "uid=", "user id=", "username=", "dbname=", "database=", "sslmode="} {
			if strings.Contains(s, name) {
				return !strings.Contains(after, ")") || strings.ContainsAny(before, ";?\"'`")
			}
		}
	}
	return false
}

// operator returns what stands between a name and its value, and how wide it is with the
// space around it: '=' also for :=, => and the like, ':', '>' of XML, ' ' if there is only
// space, or 0. The closing quote of a name and a bracket behind it are skipped, as in
// config["password"] = "x".
func operator(s string) (op byte, width int) {
	n := len(s)
	rest := strings.TrimPrefix(strings.TrimPrefix(s, `\`), "`")
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, `"`), "'")
	rest = strings.TrimPrefix(rest, "]")
	quoted := len(rest) < n
	after := strings.TrimLeft(rest, " \t")
	spaced := len(after) < len(rest)
	switch two := after[:min(2, len(after))]; {
	case after == "":
		return 0, 0
	case two == ":=" || two == "=>" || two == "?=" || two == "+=": // assign
		op, after = '=', after[2:]
	case two == "==" || two == "::" || two == "=~": // compare, or name something
		return 0, 0
	case after[0] == '=' || after[0] == ':':
		op, after = after[0], after[1:]
	case after[0] == '>' && !spaced && !quoted:
		op, after = '>', after[1:]
	case quoted && after[0] == ',', !quoted && !spaced && after[0] == '(':
		op, after = after[0], after[1:]
	case spaced && !quoted:
		return ' ', n - len(after)
	default:
		return 0, 0
	}
	return op, n - len(strings.TrimLeft(after, " \t"))
}

// read reads the value that begins a text. A value without quotes ends where most languages
// end a word; in name=value a comma may be part of it.
func (a *assignment) read(s string, at int) {
	s = s[:min(len(s), maxValue+1)]
	for _, prefix := range []string{"b", "r", "f", "@", "$", "N"} { // of strings in Python, C#, SQL
		if strings.HasPrefix(s, prefix+`"`) || strings.HasPrefix(s, prefix+"'") {
			s, at = s[1:], at+1
			break
		}
	}
	for _, quote := range []string{`\"`, `\'`, `"`, "'", "`"} {
		if !strings.HasPrefix(s, quote) {
			continue
		}
		s, a.from, a.quoted = s[len(quote):], at+len(quote), true
		a.value = s[:closing(s, quote)]
		return
	}
	a.from = at
	stop := " \t\r\"'`,;<>[]{}()|&\\"
	if a.tight {
		stop = " \t\r\"'`;<>[]{}|&\\"
	}
	end := strings.IndexAny(s, stop)
	if end < 0 {
		end = len(s)
	}
	if end < len(s) && strings.IndexByte("([{", s[end]) >= 0 {
		return // a call, an index, a literal
	}
	a.value = strings.TrimRight(s[:end], ",.)")
}

// closing returns where a string ends: at its quote, or at the end of the line. A backslash
// protects the quote behind it, except between back quotes.
func closing(s, quote string) int {
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], quote) {
			return i
		}
		if s[i] == '\\' && quote[0] != '\\' && quote != "`" {
			i++
		}
	}
	return len(s)
}

// secret reports whether the value is one. The rules get stricter from strong names to weak
// ones, since a false mark hides code that a model has to read.
func (a *assignment) secret(s strength) bool {
	v := a.value
	switch {
	case s == nothing || len(v) > maxValue || len(v) < 6 || wordy(v) && !uuid(v) || example(v) || a.sameWords():
		return false
	// These are code, prose, or the result "PASS" of a test.
	case strings.ContainsAny(v, " \t()[]{}`") || isPlace(v) || a.name == "PASS" && !a.tight:
		return false
	case !a.quoted && !a.flag && constant(v):
		return false
	// A token or a key may be anything, so the value has to look drawn.
	case s == maybe:
		return random(v) && !uuid(v) && (a.quoted || a.flag || !isPath(v))
	case uuid(v):
		return true
	case a.quoted || a.tight && strings.ToUpper(a.name) == a.name || a.flag || a.netrc || a.list && !strings.ContainsAny(v, ",()"):
		return classes(v) >= 2 || len(v) >= 16
	}
	return !isPath(v) && hasDigit(v) && classes(v) >= 2 && turns(v)*4 >= len(v)
}

// sameWords reports whether a value only says its name again: all of it, or in source code,
// where a name may stand for the value, its last word. For example, password =
// user.password is code, and token: TOKEN is a type.
func (a *assignment) sameWords() bool {
	name, value := Words(a.name), Words(a.value)
	if slices.Equal(name, value) {
		return true
	}
	// In code, Token: authToken passes a variable on.
	code := !a.quoted && !a.tight && !a.flag && !a.netrc
	return code && len(value) > 0 && name[len(name)-1] == value[len(value)-1]
}

// isPath reports whether a value that is not in quotes may be a name of source code:
// words with dots between.
func isPath(v string) bool {
	if !strings.Contains(v, ".") {
		return false
	}
	for part := range strings.SplitSeq(v, ".") {
		if part == "" || turns(part)*4 > len(part) {
			return false
		}
	}
	return true
}

// isPlace reports whether a value says where the secret is: a file, an address, a
// variable.
func isPlace(v string) bool {
	for _, start := range []string{"$", "@", ".", "~/", "id_"} {
		if strings.HasPrefix(v, start) {
			return true
		}
	}
	return strings.Contains(v, "://") || strings.Contains(v, "/*") || strings.Count(v, `\`) > 2 ||
		strings.HasPrefix(v, "%") && strings.HasSuffix(v, "%") || strings.HasPrefix(v, "/") && !longPart(v)
}

// longPart reports whether a name between slashes is too long for a directory: base64 has
// slashes, too.
func longPart(v string) bool {
	for part := range strings.SplitSeq(v, "/") {
		if len(part) >= 16 && hasDigit(part) && !wordy(part) {
			return true
		}
	}
	return false
}

// authorization marks what a header of that name has after its scheme. The value is secret
// whatever it looks like, unless it is an example.
func (f *finder) authorization(at int) {
	if !f.edge(at) {
		return // of a longer name
	}
	from := at + len("authorization")
	line := f.rest(from)
	op, width := operator(line)
	if op != ':' && op != '=' {
		return
	}
	for _, quote := range []string{`\"`, `"`, "'", "`", "["} {
		if rest, ok := strings.CutPrefix(line[width:], quote); ok {
			width = len(line) - len(rest)
		}
	}
	f.credential(line[width:], from+width)
}

// bearer marks the token behind the word.
func (f *finder) bearer(at int) {
	if f.edge(at) {
		f.credential(f.rest(at), at)
	}
}

// schemes are those of RFC 9110, 11 that are in use, in lower case. Other schemes are followed
// by a list of parameters, whose names tell what is secret.
var schemes = []string{"bearer", "basic", "token", "bot", "apikey", "api-key", "negotiate", "key", "splunk", "geniekey"}

// credential marks what stands behind a scheme, or all there is.
func (f *finder) credential(s string, at int) {
	scheme, rest, ok := strings.Cut(s, " ")
	if !ok || !slices.Contains(schemes, strings.ToLower(scheme)) {
		scheme, rest = "", s
	}
	from := at + len(s) - len(strings.TrimLeft(rest, " "))
	end := f.run(from, tokenSet)
	if end < len(f.s) && strings.IndexByte("([{", f.s[end]) >= 0 {
		return
	}
	v := strings.TrimRight(f.s[from:end], ".")
	if secretCredential(strings.ToLower(scheme), v) {
		f.mark(from, from+len(v), byPlace)
	}
}

// Basic is the name and the password of a user in base64 (RFC 7617), so these are looked at
// instead.
func secretCredential(scheme, v string) bool {
	if len(v) < 8 || len(v) > maxValue || example(v) || strings.Contains(strings.TrimRight(v, "="), "=") {
		return false
	}
	if scheme == "basic" {
		plain, err := base64.StdEncoding.DecodeString(v)
		if err != nil {
			plain, err = base64.RawStdEncoding.DecodeString(v)
		}
		user, password, ok := strings.Cut(string(plain), ":")
		return err == nil && ok && (password == "" && random(user) || plausiblePassword(user, password))
	}
	return !wordy(v) && !isPath(v) && hasDigit(v) && (len(v) >= 16 || scheme != "" && classes(v) >= 2)
}

// cookies marks the values of a header of cookies that are drawn by chance.
func (f *finder) cookies(at int) {
	from := at + len("cookie")
	line := f.rest(from)
	op, width := operator(line)
	if op != ':' || width >= len(line) {
		return
	}
	at = from + width
	for c := range strings.SplitSeq(line[width:], ";") {
		name, value, ok := strings.Cut(c, "=")
		v := strings.Trim(value, "\"' \r")
		if end := strings.IndexAny(v, "\"'\\ "); end >= 0 {
			v = v[:end]
		}
		if ok && random(v) && !strings.ContainsAny(v, "[]") {
			start := at + len(name) + 1 + strings.Index(value, v)
			f.mark(start, start+len(v), byPlace)
		}
		at += len(c) + 1
	}
}
