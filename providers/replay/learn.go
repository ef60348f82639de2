package replay

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/rawjson"
)

const (
	// minPhrase is the length from which a text of letters alone counts as a secret in a
	// body. Shorter texts are words, such as "required".
	minPhrase = 20
	// maxBodyDepth is the depth to which a body is searched for secrets.
	maxBodyDepth = 48
)

// secretWords are words in a name that mark its value as a secret, also as two
// consecutive words: "pass_word".
var secretWords = []string{
	"authorization", "auth", "oauth", "cookie", "signature", "sig", "credential", "credentials",
	"bearer", "jwt", "assertion", "pwd", "passwd", "passphrase", "keys", "secrets", "passwords",
	"connectionstring",
}

// maxWord is the maximum length of a word that is secret because of its ending: "apikey".
// At the end of a longer run of letters, "key" says nothing about the value.
const maxWord = 24

// plainWords mark a name that only describes a secret if they are its last word: the
// number of tokens, the kind of key.
var plainWords = []string{
	"count", "limit", "budget", "usage", "expires", "expiry", "ttl", "type", "kind", "method",
	"mode", "scheme", "name", "url", "uri", "env",
}

// contentKeys are the fields of a body that hold the conversation. Texts in them are not
// treated as credentials, because without them a tool would be called with other
// arguments in playback.
var contentKeys = []string{
	"messages", "contents", "content", "parts", "input", "output", "message", "choices",
	"candidates",
}

// secretName reports whether the name of a header, a parameter or a field marks its value
// as a secret. Numbers of tokens are not secret.
func secretName(name string) bool {
	if strings.Contains(strings.ToLower(name), "ratelimit") {
		return false
	}
	words := mask.Words(name)
	if len(words) > 0 && slices.Contains(plainWords, words[len(words)-1]) {
		return false
	}
	before := ""
	for _, w := range words {
		switch before {
		case "cache", "page", "public": // their keys and tokens are for everybody
		default:
			if secretWord(w) || secretWord(before+w) {
				return true
			}
		}
		before = w
	}
	return false
}

// secretWord reports whether a word of a name says that the value is secret.
func secretWord(w string) bool {
	endings := []string{"key", "token", "secret", "password"}
	return slices.Contains(secretWords, w) || len(w) <= maxWord &&
		slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(w, end) })
}

// secretParam is secretName for query parameters. Azure Functions pass their key in one
// named "code", and so does OAuth its authorization code (RFC 6749, section 4.1.3).
func secretParam(name string) bool { return secretName(name) || strings.EqualFold(name, "code") }

// secretField is secretName for fields of bodies. Signatures there belong to the thinking
// of a model.
func (s *secrets) secretField(name string) bool {
	words := mask.Words(name)
	return s.secretHeader(name) && !slices.Contains(words, "signature") &&
		!slices.Contains(words, "sig")
}

// learnBody learns the secrets in a body: the fields of a document, and the parameters of
// a form, whose names mark them as secrets.
func (s *secrets) learnBody(contentType string, data []byte) {
	if strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		s.learnQuery(string(data))
		return
	}
	b := &bodyReader{rawjson.NewReader(string(data)), s}
	b.value("", 0)
}

// learnGrant learns the secrets in the response of a service that issues them (RFC 6749,
// section 5.1; RFC 7591, section 3.2.1). In other responses a token is text that a model
// wrote.
func (s *secrets) learnGrant(data []byte) {
	b := &bodyReader{rawjson.NewReader(string(data)), s}
	for b.Object(); b.Next(); {
		switch key := b.Key(); key {
		case "access_token", "refresh_token", "id_token", "client_secret":
			b.value(key, 0)
		}
	}
}

// learnQuery learns the secrets in parameters, and returns the other parameters.
func (s *secrets) learnQuery(query string) string {
	var kept []string
	for param := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(param, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if !secretParam(name) {
			kept = append(kept, param)
			continue
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		s.add("parameter "+name, minSecret, value)
	}
	return strings.Join(kept, "&")
}

// A bodyReader searches a document for secrets.
type bodyReader struct {
	*rawjson.Reader
	secrets *secrets
}

// value reads a value, which belongs to the secret with that name, if any.
func (b *bodyReader) value(name string, depth int) {
	switch k := b.Kind(); {
	case depth > maxBodyDepth:
		b.Skip()
	case k == '{':
		b.object(name, depth)
	case k == '[':
		for b.Array(); b.Next(); {
			b.value(name, depth+1)
		}
	case name != "":
		if v, ok := b.Str(); ok {
			b.learn(name, v)
		}
	default:
		b.Skip()
	}
}

// object reads an object, which may itself be a name and a value: {"name":
// "Authorization", "value": "…"}, "client_secret": {"value": "…"}.
func (b *bodyReader) object(name string, depth int) {
	var value string
	for b.Object(); b.Next(); {
		key := b.Key()
		switch text := b.Kind() == '"'; {
		case text && key == "value":
			value, _ = b.Str()
		case text && key == "name":
			if title, _ := b.Str(); b.secrets.secretField(title) {
				name = title
			}
		case slices.Contains(contentKeys, key):
			b.Skip()
		case b.secrets.secretField(key):
			b.value(key, depth+1)
		default:
			b.value("", depth+1)
		}
	}
	if name != "" {
		b.learn(name, value)
	}
}

// learn notes what a field holds, if it looks like a credential.
func (b *bodyReader) learn(name, v string) {
	if strings.Contains(v, "PRIVATE KEY-----") { // RFC 7468, section 10
		b.secrets.add("field "+name, minSecret, v)
		return
	}
	for _, c := range credentials(v) {
		if random(c) {
			b.secrets.add("field "+name, minSecret, c)
		}
	}
}

// random reports whether a text in a body may be a key, as opposed to a number, a word or
// a sentence.
func random(v string) bool {
	if _, err := strconv.ParseFloat(v, 64); err == nil || strings.ContainsFunc(v, unicode.IsSpace) {
		return false
	}
	return len(v) >= minPhrase || strings.ContainsFunc(v, func(r rune) bool {
		return !unicode.IsLetter(r) && !strings.ContainsRune("-_.", r)
	})
}
