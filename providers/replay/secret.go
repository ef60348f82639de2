package replay

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder/internal/mask"
)

const (
	// placeholder replaces a secret. It does not need escaping in JSON.
	placeholder = "[redacted]"

	// minSecret is the minimum length of a secret. Shorter values occur within words.
	minSecret = 8
	// minOwnSecret is the minimum length of a value that the host names as a secret.
	minOwnSecret = 4
	// minCookie is the minimum length of a secret cookie. Shorter values may be words
	// like "accepted".
	minCookie = 12
	// maxSecrets is the number of secrets that are searched for. Signatures of requests
	// are all different.
	maxSecrets = 4096
)

// secrets are the values that must not be in the file. They are safe for concurrent use.
type secrets struct {
	headers []string

	mu    sync.RWMutex
	known map[string]bool
	forms [256][]form // by first byte, the longest first, since one form may contain another
}

// A form is a spelling of a secret, and the source of the secret.
type form struct{ text, source string }

// newSecrets begins with the values that the host names; the others are learned from
// requests.
func newSecrets(headers []string, values func() []string) *secrets {
	s := &secrets{headers: headers, known: map[string]bool{}}
	if values != nil {
		for _, v := range values() {
			s.add("WithSecrets", minOwnSecret, v)
		}
	}
	return s
}

func (s *secrets) secretHeader(name string) bool {
	return secretName(name) || slices.Contains(s.headers, http.CanonicalHeaderKey(name))
}

// learn learns the secrets in headers.
func (s *secrets) learn(h http.Header) {
	for name, values := range h {
		if !s.secretHeader(name) {
			continue
		}
		source := "header " + name
		for _, v := range values {
			switch http.CanonicalHeaderKey(name) {
			case "Cookie", "Set-Cookie":
				s.add(source, minCookie, cookies(v)...)
			default:
				s.add(source, minSecret, credentials(v)...)
			}
		}
	}
}

// learnURL learns the secrets in a URL, and returns the URL without them.
func (s *secrets) learnURL(u *url.URL) string {
	c := *u
	if u.User != nil {
		password, _ := u.User.Password()
		s.add("user in the URL", minSecret, password, u.User.Username())
	}
	c.User, c.Fragment, c.RawFragment = nil, "", ""
	c.RawQuery = s.learnQuery(u.RawQuery)
	return c.String()
}

// cookies returns the values in a Cookie header, or in a Set-Cookie header without its
// attributes.
func cookies(header string) []string {
	var out []string
	for c := range strings.SplitSeq(header, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(c), "=")
		switch strings.ToLower(name) {
		case "expires", "path", "domain", "max-age", "samesite":
			continue
		}
		out = append(out, strings.Trim(value, `"`))
	}
	return out
}

// credentials returns the secrets in a header: the value, the part behind the scheme, and
// the contents of that part. "Basic" has a user and a password in base64 (RFC 7617);
// other schemes have a list of parameters (RFC 9110, section 11.4).
func credentials(header string) []string {
	out := []string{header}
	scheme, rest, ok := strings.Cut(strings.TrimSpace(header), " ")
	if !ok {
		return out
	}
	rest = strings.TrimSpace(rest)
	out = append(out, rest)
	if strings.EqualFold(scheme, "basic") {
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil {
			_, password, _ := strings.Cut(string(plain), ":")
			out = append(out, string(plain), password)
		}
		return out
	}
	for param := range strings.SplitSeq(rest, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(param), "=")
		if !ok || !secretName(name) {
			continue
		}
		value = strings.Trim(value, `"`)
		// an AWS credential consists of a key id, a date, a region …
		id, _, _ := strings.Cut(value, "/")
		out = append(out, value, id)
	}
	return out
}

// add adds values of at least that many bytes.
func (s *secrets) add(source string, atLeast int, values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		v = strings.TrimSpace(v)
		if len(v) < atLeast || s.known[v] || strings.Contains(placeholder, v) || len(s.known) >= maxSecrets {
			continue
		}
		s.known[v] = true
		for _, text := range mask.Forms(v) {
			s.insert(form{text, source})
		}
	}
}

// insert inserts a form in order.
func (s *secrets) insert(f form) {
	group := &s.forms[f.text[0]]
	at, found := slices.BinarySearchFunc(*group, f, func(a, b form) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), strings.Compare(a.text, b.text))
	})
	if !found {
		*group = slices.Insert(*group, at, f)
	}
}

// count returns the number of known secrets, and whether the limit was reached.
func (s *secrets) count() (n int, full bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.known), len(s.known) >= maxSecrets
}

// A span is the place of a secret.
type span struct{ from, to int }

// match returns the length of the secret at the beginning of data, and its source.
func (s *secrets) match(data []byte) (int, string) {
	for _, f := range s.forms[data[0]] {
		if len(data) >= len(f.text) && string(data[:len(f.text)]) == f.text {
			return len(f.text), f.source
		}
	}
	return 0, ""
}

// find returns the source of a secret in data, or "".
func (s *secrets) find(data []byte) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := range data {
		if n, source := s.match(data[i:]); n > 0 {
			return source
		}
	}
	return ""
}

// spans returns where secrets are, the longest at each place.
func (s *secrets) spans(data []byte) (out []span) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := 0; i < len(data); i++ {
		if n, _ := s.match(data[i:]); n > 0 {
			out = append(out, span{i, i + n})
			i += n - 1
		}
	}
	return out
}

// mask returns data without secrets, and the offsets of its cuts, which are in order. A
// cut inside of a secret moves behind it. Without a secret, nothing is copied.
func (s *secrets) mask(data []byte, cuts []int) ([]byte, []int) {
	spans := s.spans(data)
	if len(spans) == 0 {
		return data, cuts
	}
	var out bytes.Buffer
	moved := make([]int, 0, len(cuts))
	at := 0
	for _, sp := range append(spans, span{len(data), len(data)}) {
		for len(moved) < len(cuts) && cuts[len(moved)] <= sp.from {
			moved = append(moved, out.Len()+cuts[len(moved)]-at)
		}
		out.Write(data[at:sp.from])
		if sp.from < sp.to {
			out.WriteString(placeholder)
		}
		for len(moved) < len(cuts) && cuts[len(moved)] <= sp.to {
			moved = append(moved, out.Len())
		}
		at = sp.to
	}
	return out.Bytes(), moved
}

// text is mask for a string.
func (s *secrets) text(v string) string {
	data, _ := s.mask([]byte(v), nil)
	return string(data)
}
