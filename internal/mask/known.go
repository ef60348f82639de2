package mask

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// MinValue is from how many bytes on a known value is hidden. Shorter ones are parts
// of words.
const MinValue = 8

// Forms returns how a value may be written: as it is, in JSON, in a URL, in base64. The
// longest are first, as others may be a part of them. A program may print a value in any of
// them, and none contains the value itself.
func Forms(v string) []string {
	inJSON, _ := json.Marshal(v) // a string is never an error
	escaped := string(rawjson.AppendEscaped(nil, v))
	forms := []string{
		v, url.QueryEscape(v), url.PathEscape(v), string(inJSON[1 : len(inJSON)-1]), escaped,
		strings.ReplaceAll(v, "/", `\/`), strings.ReplaceAll(escaped, "/", `\/`),
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for shift := range 3 {
			if f := inBase64(enc, v, shift); len(f) >= MinValue {
				forms = append(forms, f)
			}
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(forms)
}

// inBase64 returns the characters in base64 that only depend on v, which stands behind
// shift bytes of another text: three bytes are four characters of six bits. Which of the
// three places it has in the groups of three bytes is not known.
func inBase64(enc *base64.Encoding, v string, shift int) string {
	text := enc.EncodeToString([]byte("\x00\x00"[:shift] + v))
	return text[(shift*8+5)/6 : (shift+len(v))*8/6]
}

// envWords are parts of the names of variables that hold secrets.
var envWords = []string{"KEY", "TOKEN", "SECRET", "PASS", "PWD", "CRED", "AUTH", "PRIVATE", "DSN"}

// Environment returns the values of variables ("NAME=value") whose names say that they hold
// secrets, and the passwords in those that hold an address. A directory, a file, a number,
// a word or an example is none. A name alone is not enough: CI=true and KEY_FILE=/x are not
// secrets.
func Environment(environ []string) []string {
	var out []string
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if u, err := url.Parse(value); err == nil && u.User != nil {
			if p, ok := u.User.Password(); ok && plausiblePassword(u.User.Username(), p) {
				out = append(out, p)
			}
		}
		if len(value) >= MinValue && secretVariable(strings.ToUpper(name)) && secretValue(name, value) {
			out = append(out, value)
		}
	}
	return out
}

// secretVariable reports whether a name says that the value is secret. In the environment,
// a part of the name is enough.
func secretVariable(name string) bool {
	switch name {
	case "PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "GNOME_KEYRING_CONTROL":
		return false // they have one of those words, but hold a place
	}
	words := Words(name)
	if len(words) > 0 && slices.Contains(openWords, words[len(words)-1]) {
		return false
	}
	return slices.ContainsFunc(envWords, func(w string) bool { return strings.Contains(name, w) })
}

// secretValue reports whether the value of a variable may be secret. Words are, if the
// name says so and they are many. A value that looks made up is an example in a file, and
// may be in use in an environment.
func secretValue(name, v string) bool {
	// A number may be a port or a count, and hiding it would hide the same number
	// everywhere.
	plain := strings.IndexFunc(v, func(r rune) bool { return r < '0' || r > '9' }) < 0
	most, none := 24, example(v)
	if strengthOf(name) == surely {
		low := strings.ToLower(v)
		most, none = 12, containsAny(low, stand) || slices.Contains(common, low)
	}
	return !plain && !isPlace(v) && !none && !(wordy(v) && len(v) < most)
}
