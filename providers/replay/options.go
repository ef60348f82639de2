package replay

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/aycoder/aycoder"
)

// defaultMaxBytes limits a file and a recording. A recording of a long run, in which each
// request repeats the conversation, takes some tens of megabytes.
const defaultMaxBytes = 256 << 20

type config struct {
	mode       Mode
	env        string
	transport  http.RoundTripper
	maxBytes   int64
	chunk      int
	lenient    bool
	reuse      bool
	acceptTorn bool
	ignore     [][]string
	headers    []string

	secretHeaders []string
	secretValues  func() []string // a function, so that printing the options does not show secrets
	redact        func([]byte) []byte
	normalize     func([]byte) []byte
}

// howToRecord returns the advice in the error for a missing file.
func (c *config) howToRecord() string {
	if c.env != "" {
		return "record it with " + c.env + "=" + Record.String()
	}
	return "record it with WithMode(Record)"
}

// Option sets a property of a [Tape]. A repeated option overrides the earlier one, unless
// its comment says that repeated options add up.
type Option func(*config) error

func wrong(option, format string, args ...any) error {
	return &aycoder.ConfigError{Option: option, Err: fmt.Errorf(format, args...)}
}

// WithMode sets the mode of the tape. Default: [Replay].
func WithMode(m Mode) Option {
	return func(c *config) error {
		if m < Replay || m > RecordMissing {
			return wrong("WithMode", "no such mode: %d", int(m))
		}
		c.mode = m
		return nil
	}
}

// WithModeEnv takes the mode from the environment variable with the given name. The value
// must be "replay", "record" or "record-missing". If the variable is empty, the option
// has no effect. Default: no variable.
func WithModeEnv(name string) Option {
	return func(c *config) error {
		c.env = name
		value := os.Getenv(name)
		if value == "" {
			return nil
		}
		m, err := ParseMode(value)
		if err != nil {
			return &aycoder.ConfigError{Option: "WithModeEnv " + name, Err: err}
		}
		c.mode = m
		return nil
	}
}

// WithTransport sets the transport that sends the requests in the modes [Record] and
// [RecordMissing]. Default: [http.DefaultTransport].
func WithTransport(rt http.RoundTripper) Option {
	return func(c *config) error {
		if rt == nil {
			return &aycoder.ConfigError{Option: "WithTransport",
				Err: errors.New("transport is nil")}
		}
		c.transport = rt
		return nil
	}
}

// Matching selects how strictly a request is compared with the recorded requests.
type Matching int

// The values of Matching.
const (
	// Strict requires that the program sends the recorded requests in the recorded order.
	Strict Matching = iota
	// Lenient accepts the recorded requests in any order and ignores their headers.
	// Programs that run tools or agents in parallel need it.
	Lenient
)

// WithMatching sets how strictly a request is compared with the recorded requests.
// Default: [Strict].
func WithMatching(m Matching) Option {
	return func(c *config) error {
		if m != Strict && m != Lenient {
			return wrong("WithMatching", "no such matching: %d", int(m))
		}
		c.lenient = m == Lenient
		return nil
	}
}

// WithIgnore excludes parts of a request from the comparison. Each path has the form of
// [Change.Path], such as "metadata.user_id" or "messages[0].content". In a path, * stands
// for one key or index, and ** for any number of them: "**.cache_control". A path outside
// the body begins with an @: "@header.Accept", "@query.alt" or "@path". Repeated options
// add up. Default: nothing is excluded.
func WithIgnore(paths ...string) Option {
	return func(c *config) error {
		for _, p := range paths {
			segs, err := splitPath(p)
			if err != nil {
				return &aycoder.ConfigError{Option: "WithIgnore", Err: err}
			}
			c.ignore = append(c.ignore, segs)
		}
		return nil
	}
}

// WithNormalize sets a function that is applied to the bodies of recorded and new
// requests before they are compared. It can, for example, remove dates or generated
// names. The file keeps the original bodies. For [Tape.Client], a body is the whole
// request as JSON. The function must be safe for concurrent use and must not modify its
// argument. Default: no function.
func WithNormalize(f func(body []byte) []byte) Option {
	return func(c *config) error { c.normalize = f; return nil }
}

// WithReuse selects whether a recorded response may be served more than once. If it is
// true, and no unused interaction matches a request, the request gets the response of a
// used interaction. If several used interactions match, the last of them is served.
// Default: false.
func WithReuse(reuse bool) Option {
	return func(c *config) error { c.reuse = reuse; return nil }
}

// WithChunk sets the size, in bytes, of the pieces in which a response body is played
// back. 0 keeps the pieces that were recorded. Default: 0.
func WithChunk(bytes int) Option {
	return func(c *config) error {
		if bytes < 0 {
			return wrong("WithChunk", "%d is less than 0", bytes)
		}
		c.chunk = bytes
		return nil
	}
}

// WithHeaders adds names to the list of headers that are recorded. The list applies to
// requests and responses. Recorded headers of requests are also compared. A header that
// may contain a key cannot be added; its name is an error. Repeated options add up.
// Default: only the headers that the model APIs need.
func WithHeaders(names ...string) Option {
	return func(c *config) error {
		for _, n := range names {
			if secretName(n) {
				return wrong("WithHeaders", "%s may hold a secret", n)
			}
			c.headers = append(c.headers, http.CanonicalHeaderKey(n))
		}
		return nil
	}
}

// WithSecrets sets values that must not get into the file. A value of less than four
// bytes is an error. Repeated options add up. Default: no values; the tape then removes
// only the secrets that it recognizes in headers, URLs and fields of bodies, as the
// package comment describes.
func WithSecrets(values ...string) Option {
	return func(c *config) error {
		for _, v := range values {
			if len(v) < minOwnSecret {
				return wrong("WithSecrets", "a value has less than %d bytes", minOwnSecret)
			}
		}
		all := slices.Clone(values)
		if c.secretValues != nil {
			all = slices.Concat(c.secretValues(), values)
		}
		c.secretValues = func() []string { return all }
		return nil
	}
}

// WithSecretHeaders sets names of headers that have secret values, such as
// Openai-Organization. The names apply to requests and responses. Authorization headers
// and similar ones need not be named. Repeated options add up. Default: only the headers
// that the tape recognizes by their names.
func WithSecretHeaders(names ...string) Option {
	return func(c *config) error {
		for _, n := range names {
			c.secretHeaders = append(c.secretHeaders, http.CanonicalHeaderKey(n))
		}
		return nil
	}
}

// WithRedact sets a function that removes other confidential data from a text before the
// text is recorded or compared. The texts are URLs, values of headers, bodies of requests
// and responses, and error messages. For [Tape.Client], the texts are requests and events
// as JSON, names of providers and models, and error messages. The function must not
// change the structure of the JSON.
//
// The function must be safe for concurrent use and must not modify its argument. Applying
// the function twice must have the same effect as applying it once. Default: no function.
func WithRedact(f func([]byte) []byte) Option {
	return func(c *config) error { c.redact = f; return nil }
}

// WithMaxBytes limits the size, in bytes, of the file that is read and of the recording
// that is made. Default: 256 MiB.
func WithMaxBytes(n int64) Option {
	return func(c *config) error {
		if n < 1 {
			return wrong("WithMaxBytes", "%d is less than 1", n)
		}
		c.maxBytes = n
		return nil
	}
}

// WithTorn selects whether [Open] accepts a file whose end is missing. A crash during the
// recording leaves such a file. The tape then plays back the complete interactions, and
// [Tape.Torn] describes the damage. Default: false.
func WithTorn(accept bool) Option {
	return func(c *config) error { c.acceptTorn = accept; return nil }
}
