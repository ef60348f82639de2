package mask

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Values are judged by their characters, since there is no list of secrets to compare them
// with. Three questions matter: whether the value stands for one, as in documentation;
// whether it is made of words, as names are; and whether its characters seem to be drawn by
// chance. The bounds are compromises, which the tests show on values of both kinds.

const maxValue = 2048 // bytes of a value that is looked at

// stand are parts of values that stand for one. They are compared in lower case.
var stand = []string{
	"example", "your", "changeme", "change-me", "change_me", "placeholder", "redacted", "replace", "insert",
	"dummy", "sample", "xxxx", "****", "....", "…", "•", "${", "$(", "{{", "}}", "%s", "%v", "%d", "%q", "<", ">",
	"[secret:", "todo", "fixme", "deadbeef", "lorem", "notreal", "not-a-real", "not_a_real", "fake",
}

// common lists values that are never secret, in lower case.
var common = []string{
	"password", "passwd", "pass", "pwd", "secret", "token", "admin", "root", "user", "username", "test", "testing",
	"tester", "guest", "default", "none", "null", "nil", "true", "false", "undefined", "foo", "bar", "baz", "foobar",
	"qux", "abc", "abcd", "xyz", "xxx", "yyy", "zzz", "***", "postgres", "mysql", "mypassword", "mypass", "mysecret",
	"string", "hunter2", "letmein", "qwerty", "p4ssw0rd", "passw0rd", "pa55word", "p@ssw0rd", "p@ssword", "pa$$word",
	"s3cr3t", "s3cret", "correct horse battery staple", "key", "value", "required", "optional", "auto", "host",
}

// admits are parts of values that say that they are none.
var admits = []string{
	"example", "placeholder", "redacted", "xxxx", "....", "your-", "your_", "-your", "_your", "0123456789", "1234567890",
}

// example reports whether a value stands for one. Documentation and tests are full of
// these, and a model has to read them.
func example(v string) bool {
	low := strings.ToLower(v)
	return containsAny(low, stand) || slices.Contains(common, low) || madeUp(v)
}

// madeUp reports whether nobody drew the characters of a value: it has few different
// ones, many of one in a row, counts up, or says itself that it is an example.
func madeUp(v string) bool {
	if len(v) < 8 {
		return false
	}
	steps, row, longest := 0, 1, 1
	for i := 1; i < len(v); i++ {
		switch int(v[i]) - int(v[i-1]) {
		case 0:
			row++
			longest = max(longest, row)
			steps++
			continue
		case 1, -1:
			steps++
		}
		row = 1
	}
	if longest >= max(6, len(v)/8) || steps*2 > len(v) || distinct(v) < min(5, len(v)/2) {
		return true
	}
	return containsAny(strings.ToLower(v), admits)
}

// containsAny reports whether a text has one of the parts.
func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// distinct counts the different bytes.
func distinct(v string) int {
	var seen [256]bool
	n := 0
	for i := range len(v) {
		if !seen[v[i]] {
			seen[v[i]] = true
			n++
		}
	}
	return n
}

// classes counts the kinds of characters: lower case, upper case, digits, others. Keys mix
// them, words mostly do not.
//
//go:noinline
func classes(v string) int {
	var seen [4]int
	for i := range len(v) {
		seen[classOf(v[i])] = 1
	}
	return seen[0] + seen[1] + seen[2] + seen[3]
}

//go:noinline
func classOf(b byte) int {
	switch {
	case 'a' <= b && b <= 'z':
		return 0
	case 'A' <= b && b <= 'Z':
		return 1
	case '0' <= b && b <= '9':
		return 2
	}
	return 3
}

func hasDigit(v string) bool { return strings.ContainsAny(v, "0123456789") }

func hasLetter(v string) bool { return strings.ContainsAny(v, letters) }

// mixed reports whether a value is more than words that are put together: a digit, or
// capital letters where no word begins.
func mixed(v string) bool { return hasDigit(v) || turns(v)*5 >= len(v) }

// turns counts the places where the class changes, except from a capital letter to a
// small one, as in a word.
func turns(v string) int {
	n := 0
	for i := 1; i < len(v); i++ {
		a, b := classOf(v[i-1]), classOf(v[i])
		if a != b && (a != 1 || b != 0) {
			n++
		}
	}
	return n
}

// entropy is in bits a character, of the characters that a value has. Words have about 3
// bits, drawn keys of 20 characters above 4.
func entropy(v string) float64 {
	var count [256]int
	for i := range len(v) {
		count[v[i]]++
	}
	h := 0.0
	for _, c := range count {
		if c > 0 {
			p := float64(c) / float64(len(v))
			h -= p * math.Log2(p)
		}
	}
	return h
}

// random reports whether a value seems to be drawn by chance, as keys are. It is the base
// of all checks without a form, so the tests hold it to names and to keys.
func random(v string) bool {
	return len(v) >= 16 && len(v) <= maxValue && hasDigit(v) && hasLetter(v) && !example(v) && !wordy(v) &&
		entropy(v) >= 3 && turns(v)*6 >= len(v) && !strings.ContainsAny(v, ",|;()[]{}")
}

// wordy reports whether a value is made of words, perhaps with a number at their end,
// as names are: my-secret, sha256, oauth2_token, responseToken.
func wordy(v string) bool {
	start := 0
	for i := 0; i <= len(v); i++ {
		if i < len(v) && classOf(v[i]) != 3 {
			continue
		}
		if i < len(v) && strings.IndexByte("-_./ :", v[i]) < 0 {
			return false
		}
		if !isWord(v[start:i]) {
			return false
		}
		start = i + 1
	}
	return true
}

// isWord reports whether s is letters, in the case of words, and few digits behind them,
// or a number.
func isWord(s string) bool {
	name := strings.TrimRight(s, "0123456789")
	if name == "" {
		return len(s) <= 4
	}
	most := 3 // digits
	if len(name) >= 10 {
		most = 4
	}
	return len(s)-len(name) <= most && !hasDigit(name) && turns(name)*4 <= len(name)
}

// constant reports whether v may be the name of one: NL80211_KEY_IDX, C.KEY_1, or a
// number such as 0xc0506617.
func constant(v string) bool {
	_, err := strconv.ParseUint(v, 0, 64)
	return err == nil || strings.ToUpper(v) == v && strings.Contains(v, "_")
}

// uuid reports whether v is one. They are the names of things more often than keys.
func uuid(v string) bool {
	v = strings.TrimPrefix(v, "urn:uuid:")
	return len(v) == 36 && v[8] == '-' && v[13] == '-' && v[18] == '-' && v[23] == '-'
}
