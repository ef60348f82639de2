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
	// minPhrase is from where on letters alone are a secret in a body. Shorter ones are
	// words, such as "required".
	minPhrase = 20
	// maxBodyDepth is how deep in a body secrets are looked for.
	maxBodyDepth = 48
)

// secretWords are words of a name that say that its value is a secret, also where a
// name has two of them in a row: "pass_word". What ends like secretEndings is one, too:
// "apikey".
var (
	secretWords = []string{
		"authorization", "auth", "oauth", "cookie", "signature", "sig", "credential", "credentials", "bearer",
		"jwt", "assertion", "pwd", "passwd", "passphrase", "keys", "secrets", "passwords", "connectionstring",
	}
	secretEndings = []string{"key", "token", "secret", "password"}
)

// maxWord bounds a word with such an ending.
const maxWord = 24

// plainWords are the last word of a name that only tells about a secret: how many
// tokens, which kind of key. Keys and tokens that belong to one of openOwners are none.
var (
	plainWords = []string{
		"count", "limit", "budget", "usage", "expires", "expiry", "ttl", "type", "kind", "method", "mode", "scheme",
		"name", "url", "uri", "env",
	}
	openOwners = []string{"cache", "page", "public"}
)

// contentKeys are where a body holds the conversation. What is said there is content
// and not what the program shows to be let in: without it a tool would be called in
// another way than it was.
var contentKeys = []string{
	"messages", "contents", "content", "parts", "input", "output", "message", "choices", "candidates",
}

// secretName reports whether a header, a parameter or a field holds a secret, by its
// name. How many tokens a limit has is none.
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
		if !slices.Contains(openOwners, before) && (secretWord(w) || secretWord(before+w)) {
			return true
		}
		before = w
	}
	return false
}

func secretWord(w string) bool {
	return slices.Contains(secretWords, w) || len(w) <= maxWord &&
		slices.ContainsFunc(secretEndings, func(end string) bool { return strings.HasSuffix(w, end) })
}

// secretParam is secretName for parameters. The keys of Azure's functions are in one
// that is named code, and so is what OAuth gives a token for (RFC 6749, 4.1.3).
func secretParam(name string) bool { return secretName(name) || strings.EqualFold(name, "code") }

// secretField is secretName for fields of bodies. The signatures there are those of
// what a model thought.
func (s *secrets) secretField(name string) bool {
	words := mask.Words(name)
	return s.secretHeader(name) && !slices.Contains(words, "signature") && !slices.Contains(words, "sig")
}

// learnBody takes the secrets out of a body: the fields of a document and the
// parameters of a form whose names say so.
func (s *secrets) learnBody(contentType string, data []byte) {
	if strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		s.learnQuery(string(data))
		return
	}
	b := &bodyReader{rawjson.NewReader(string(data)), s}
	b.value("", 0)
}

// learnGrant takes the secrets out of the answer of a service that gives them out (RFC
// 6749, 5.1; RFC 7591, 3.2.1). In other answers tokens are what a model has written.
func (s *secrets) learnGrant(data []byte) {
	b := &bodyReader{rawjson.NewReader(string(data)), s}
	for b.Object(); b.Next(); {
		switch key := b.Key(); key {
		case "access_token", "refresh_token", "id_token", "client_secret":
			b.value(key, 0)
		}
	}
}

// learnQuery takes the secrets out of parameters, and returns those that hold none.
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

// A bodyReader looks for secrets in a document.
type bodyReader struct {
	*rawjson.Reader
	secrets *secrets
}

// value reads a value, which belongs to the secret of that name if there is one.
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

// object reads an object, which may be a name and its value as well:
// {"name": "Authorization", "value": "…"}, "client_secret": {"value": "…"}.
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

func (b *bodyReader) learn(name, v string) {
	if strings.Contains(v, "PRIVATE KEY-----") { // RFC 7468, 10
		b.secrets.add("field "+name, minSecret, v)
		return
	}
	for _, c := range credentials(v) {
		if random(c) {
			b.secrets.add("field "+name, minSecret, c)
		}
	}
}

// random reports whether a text of a body may be a key. Numbers, words and sentences
// are none.
func random(v string) bool {
	if _, err := strconv.ParseFloat(v, 64); err == nil || strings.ContainsFunc(v, unicode.IsSpace) {
		return false
	}
	return len(v) >= minPhrase || strings.ContainsFunc(v, func(r rune) bool {
		return !unicode.IsLetter(r) && !strings.ContainsRune("-_.", r)
	})
}
