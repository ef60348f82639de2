// Package mask hides secrets in text, and makes visible what nobody sees.
//
// A [Masker] puts a placeholder in the place of each secret that it finds: the same
// secret has the same one all through a session, and it tells nothing about the secret
// to who does not have the session's key. Masked values can be restored where the secret is
// there anyway: [Masker.Restore] looks for it in the text that it belongs to and keeps nothing,
// so a masker never grows.
//
// A secret is found by what it is (keys with the form that their issuer gave them,
// blocks of private keys, tokens), by where it stands (the value of a name such as
// password, a header, an address), or because it is known (a value of the host's
// environment). Not found are secrets in base64 or other encodings that nobody named, words as
// passwords, and what two calls print one half each of. Masking is a net, and no fence: what
// must not be seen must not be readable.
package mask

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	prefix         = "[secret:"
	tagLength      = 10 // hexadecimal digits
	maxKind        = 24
	maxPlaceholder = len(prefix) + maxKind + 1 + tagLength + 1
)

// Masker hides secrets. It is safe for concurrent use. It keeps no values but those that it
// was given, so its size does not depend on what it has masked.
type Masker struct {
	key     []byte
	index   *index
	longest int // value that is known
}

// New returns a masker with a new random key, see [NewWithKey].
func New(values ...string) *Masker {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return NewWithKey(key, values...)
}

// NewWithKey returns a masker whose placeholders are those of all maskers of that key.
// It also hides the values that are given, and what they are in JSON, URLs and base64.
// Of a value of several lines each is hidden. Values of less than eight bytes are left
// out: they are parts of words.
func NewWithKey(key []byte, values ...string) *Masker {
	m := &Masker{key: bytes.Clone(key), index: newIndex()}
	known := map[string]bool{}
	for _, v := range values {
		for line := range strings.Lines(v) {
			m.learn(known, strings.TrimSpace(line))
		}
	}
	return m
}

// learn makes the index find a value, before all rules. A value that is a part of a
// placeholder would be found in every one of them.
func (m *Masker) learn(known map[string]bool, v string) {
	if len(v) < MinValue || strings.HasPrefix(v, "-----") || strings.Contains(prefix, v) {
		return
	}
	for _, form := range Forms(v) {
		if len(form) < MinValue || known[form] {
			continue
		}
		known[form] = true
		m.longest = max(m.longest, len(form))
		m.index.add(&trigger{literal: form, check: func(f *finder, at int) {
			f.mark(at, at+len(form), "known")
		}})
	}
}

// Mask returns text with placeholders for its secrets: "[secret:github-token:1a2b3c4d5e]".
// The result has no more secrets that Mask would find.
func (m *Masker) Mask(text string) string {
	return m.mask(text, m.index.find, func(string, string) {})
}

// maxRounds bounds how often a text is looked at again: what stood beside a secret may
// be one that nothing told apart before. A second round finds something once in a
// million texts.
const maxRounds = 100

// mask masks what a function finds, and tells of each placeholder and what it stands for.
func (m *Masker) mask(text string, find func(string) []span, tell func(placeholder, value string)) string {
	for range maxRounds {
		spans := find(text)
		if len(spans) == 0 {
			return text
		}
		var b strings.Builder
		b.Grow(len(text))
		at := 0
		for _, s := range spans {
			p := m.placeholder(text, s)
			tell(p, text[s.from:s.to])
			b.WriteString(text[at:s.from])
			b.WriteString(p)
			at = s.to
		}
		b.WriteString(text[at:])
		text = b.String()
	}
	return text
}

// The tag is a keyed hash, since a plain one could be tried out for short secrets.
func (m *Masker) placeholder(text string, s span) string {
	key := s.key
	if key == "" {
		key = text[s.from:s.to]
	}
	h := hmac.New(sha256.New, m.key)
	h.Write([]byte(key))
	return prefix + s.kind + ":" + hex.EncodeToString(h.Sum(nil)[:tagLength/2]) + "]"
}

// Secrets are those that are in a text, to be put back in others. They live as long as the
// text that they were read from.
type Secrets struct {
	values  map[string]string // by their placeholders
	literal map[string]bool   // what stands in the text as such and looks like one
}

// Secrets returns those that are in a text. A placeholder that the text itself contains, as
// the tests of this package do, is not replaced.
func (m *Masker) Secrets(within string) *Secrets {
	s := &Secrets{map[string]string{}, map[string]bool{}}
	note := func(p, v string) {
		// Ten hexadecimal digits are enough to tell the secrets of a session apart, not to
		// exclude this.
		if other, ok := s.values[p]; ok && other != v {
			v = p // two of one placeholder: nobody knows which is meant
		}
		s.values[p] = v
	}
	m.mask(within, m.index.find, note)
	m.mask(within, m.index.findAround, note)
	replace(within, func(p string) string {
		s.literal[p] = true
		return p
	})
	misspelt(within, func(p string) bool {
		s.literal[p] = true
		return true
	})
	return s
}

// Restore puts the secrets back in the place of their placeholders. One that stands in the
// text of the secrets as such is left alone. A model may copy a placeholder into another
// file, where nobody knows its value: there it stays, and Unresolved finds it.
func (s *Secrets) Restore(text string) string {
	return replace(text, func(p string) string {
		if v, ok := s.values[p]; ok && !s.literal[p] {
			return v
		}
		return p
	})
}

// Literal reports whether a placeholder stands in the text of the secrets as such.
func (s *Secrets) Literal(placeholder string) bool { return s.literal[placeholder] }

// Unresolved returns the placeholders in a text, each once, in their order.
func (m *Masker) Unresolved(text string) []string {
	var out []string
	seen := map[string]bool{}
	replace(text, func(p string) string {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
		return p
	})
	return out
}

// Misspelt returns the first place of a text that begins as a placeholder does and is
// none, as when a model did not copy all of it. Marks that are in the text of the secrets are
// left out, and if that has no secrets, there is nothing to misspell.
func (s *Secrets) Misspelt(text string) (found string, ok bool) {
	if len(s.values) == 0 {
		return "", false
	}
	misspelt(text, func(p string) bool {
		if !s.literal[p] {
			found, ok = p, true
		}
		return !ok
	})
	return found, ok
}

// misspelt tells of what begins as a placeholder does and is none, up to where it seems to
// end, until it is told to stop. It looks for the first bytes of a placeholder in letters
// of any case.
func misspelt(text string, tell func(string) bool) {
	for {
		i := strings.IndexByte(text, prefix[0])
		if i < 0 || len(text) < i+len(prefix) {
			return
		}
		text = text[i:]
		n := 1
		if strings.EqualFold(text[:len(prefix)], prefix) && placeholderAt(text) == 0 {
			n = min(len(text), maxPlaceholder)
			if end := strings.IndexAny(text[:n], "] \t\r\n\"'`"); end >= 0 {
				if n = end; text[end] == ']' {
					n++
				}
			}
			if !tell(text[:n]) {
				return
			}
		}
		text = text[n:]
	}
}

// replace puts what a function returns in the place of each placeholder.
func replace(text string, with func(string) string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, prefix)
		if i < 0 {
			break
		}
		n := placeholderAt(text[i:])
		b.WriteString(text[:i])
		if n == 0 {
			n = len(prefix)
			b.WriteString(prefix)
		} else {
			b.WriteString(with(text[i : i+n]))
		}
		text = text[i+n:]
	}
	if b.Len() == 0 {
		return text
	}
	b.WriteString(text)
	return b.String()
}

// placeholderAt returns the length of the placeholder that begins a text, or 0.
func placeholderAt(s string) int {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return 0
	}
	kind := 0
	for kind < len(rest) && kind <= maxKind && (isLower(rest[kind]) || rest[kind] == '-' || digits.has(rest[kind])) {
		kind++
	}
	n := kind + 1 + tagLength + 1
	if kind == 0 || kind > maxKind || len(rest) < n || rest[kind] != ':' || rest[n-1] != ']' {
		return 0
	}
	for _, c := range []byte(rest[kind+1 : n-1]) {
		if !digits.has(c) && (c < 'a' || c > 'f') {
			return 0
		}
	}
	return len(prefix) + n
}
