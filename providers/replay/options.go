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

// howToRecord is what an error tells the reader to do.
func (c *config) howToRecord() string {
	if c.env != "" {
		return "record it with " + c.env + "=" + Record.String()
	}
	return "record it with WithMode(Record)"
}

// Option sets a property of a [Tape]. Options are applied in order; the last one wins
// unless its comment says otherwise.
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

// WithModeEnv sets the mode from an environment variable: "replay", "record" or
// "record-missing". An empty variable has no effect. Default: none.
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

// WithTransport sets the transport for requests that are recorded. Default:
// [http.DefaultTransport].
func WithTransport(rt http.RoundTripper) Option {
	return func(c *config) error {
		if rt == nil {
			return &aycoder.ConfigError{Option: "WithTransport", Err: errors.New("transport is nil")}
		}
		c.transport = rt
		return nil
	}
}

// Matching decides which requests match the recorded ones.
type Matching int

// The values of Matching.
const (
	// Strict requires the same requests in the order of the recording.
	Strict Matching = iota
	// Lenient accepts the requests in any order, as parallel tools or agents make them,
	// and does not compare headers.
	Lenient
)

// WithMatching decides which requests match the recorded ones. Default: [Strict].
func WithMatching(m Matching) Option {
	return func(c *config) error {
		if m != Strict && m != Lenient {
			return wrong("WithMatching", "no such matching: %d", int(m))
		}
		c.lenient = m == Lenient
		return nil
	}
}

// WithIgnore excludes fields of requests from the comparison. They are named as in a
// [Change]: "metadata.user_id", "messages[0].content". A * stands for any key or index, a
// ** for any number of them: "**.cache_control". Properties outside of the body begin
// with an @: "@header.Accept", "@query.alt", "@path". Repeated options add up. Default:
// none.
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

// WithNormalize sets a function that is applied to request bodies before they are
// compared, recorded and new ones, for example to remove dates or generated names. The
// file keeps the original bodies. For [Tape.Client] the bodies are the requests as JSON.
// The function must be safe for concurrent use and must not modify its argument. Default:
// none.
func WithNormalize(f func(body []byte) []byte) Option {
	return func(c *config) error { c.normalize = f; return nil }
}

// WithReuse allows an interaction to be served again if an equal request finds no unused
// one; it is then the last one that was served. Default: false.
func WithReuse(reuse bool) Option {
	return func(c *config) error { c.reuse = reuse; return nil }
}

// WithChunk sets the size in bytes of the pieces in which bodies are played back; 0 keeps
// the recorded pieces. Default: 0.
func WithChunk(bytes int) Option {
	return func(c *config) error {
		if bytes < 0 {
			return wrong("WithChunk", "%d is less than 0", bytes)
		}
		c.chunk = bytes
		return nil
	}
}

// WithHeaders adds headers of requests and responses to the recorded ones. Headers of
// requests are also compared. A header that may contain a key is refused. Repeated
// options add up. Default: only the headers that the model APIs need.
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

// WithSecrets sets values that must not get into the file. Values of less than four bytes
// are refused. Repeated options add up. Default: only the secrets that are recognized in
// headers, URLs and fields of bodies.
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

// WithSecretHeaders names headers of requests and responses whose values are secrets, in
// addition to authorization headers and the like: for example Openai-Organization.
// Repeated options add up. Default: only the headers that are recognized by their names.
func WithSecretHeaders(names ...string) Option {
	return func(c *config) error {
		for _, n := range names {
			c.secretHeaders = append(c.secretHeaders, http.CanonicalHeaderKey(n))
		}
		return nil
	}
}

// WithRedact sets a function that removes other confidential data from a text. It gets
// URLs, values of headers, bodies of requests and responses, and texts of errors, and for
// [Tape.Client] requests and events as JSON, whose shape it must keep. The function must
// be safe for concurrent use, must not modify its argument, and must be idempotent.
// Default: none.
func WithRedact(f func([]byte) []byte) Option {
	return func(c *config) error { c.redact = f; return nil }
}

// WithMaxBytes limits the size in bytes of the file that is read, and of the recording.
// Default: 256 MiB.
func WithMaxBytes(n int64) Option {
	return func(c *config) error {
		if n < 1 {
			return wrong("WithMaxBytes", "%d is less than 1", n)
		}
		c.maxBytes = n
		return nil
	}
}

// WithTorn accepts a file without its end, which a program leaves behind if it crashes
// during a recording. The complete interactions are played back, and [Tape.Torn]
// describes the rest. Default: false.
func WithTorn(accept bool) Option {
	return func(c *config) error { c.acceptTorn = accept; return nil }
}
