package replay

import (
	"bytes"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// masked reports whether secrets were removed from a request.
func (it *interaction) masked() bool {
	if bytes.Contains(it.request(), []byte(placeholder)) {
		return true
	}
	if it.http == nil {
		return false
	}
	for _, v := range it.http.Header {
		if strings.Contains(v, placeholder) {
			return true
		}
	}
	return strings.Contains(it.http.URL, placeholder)
}

// fits reports whether two trees are equal, if a removed secret in the recorded one
// matches any text.
func fits(recorded, request any) bool {
	switch a := recorded.(type) {
	case map[string]any:
		b, ok := request.(map[string]any)
		return ok && maps.EqualFunc(a, b, fits)
	case []any:
		b, ok := request.([]any)
		return ok && slices.EqualFunc(a, b, fits)
	case string:
		b, ok := request.(string)
		return ok && fitsText(a, b)
	}
	return recorded == request
}

// fitsText compares a recorded text, in which secrets were replaced, with one that has
// them: each placeholder stands for any text.
func fitsText(recorded, request string) bool {
	first, rest, masked := strings.Cut(recorded, placeholder)
	if !masked {
		return recorded == request
	}
	request, ok := strings.CutPrefix(request, first)
	for ok {
		var piece string
		if piece, rest, masked = strings.Cut(rest, placeholder); !masked {
			return strings.HasSuffix(request, piece)
		}
		_, request, ok = strings.Cut(request, piece)
	}
	return false
}

// hide removes secrets from the requests of a file. The file may contain secrets that the
// tape which recorded it did not know. They must not appear in errors, and the requests
// must equal the new ones, from which the secrets are removed as well.
func (t *Tape) hide() {
	for _, it := range t.recorded {
		if h := it.http; h != nil {
			if u, err := url.Parse(h.URL); err == nil && u.RawQuery != "" {
				h.URL = t.secrets.learnURL(u)
			}
			t.secrets.learnBody(h.Header["Content-Type"], h.body())
		} else {
			t.secrets.learnBody("", it.model.Request)
		}
	}
	if n, _ := t.secrets.count(); n == 0 {
		return
	}
	for _, it := range t.recorded {
		if h := it.http; h != nil {
			h.URL = t.secrets.text(h.URL)
			data, _ := t.secrets.mask(h.body(), nil)
			h.setBody(data)
		} else {
			it.model.Request, _ = t.secrets.mask(it.model.Request, nil)
		}
	}
}
