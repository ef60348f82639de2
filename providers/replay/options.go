package replay

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/aycoder/aycoder"
)

// defaultMaxBytes is what a file and a recording may hold: that of a long run, whose
// requests repeat the conversation, is some tens of megabytes.
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
	secretValues  func() []string // a function shows no secret when it is printed
	redact        func([]byte) []byte
	normalize     func([]byte) []byte
}

func (c *config) howToRecord() string {
	if c.env != "" {
		return "record it with " + c.env + "=" + Record.String()
	}
	return "record it with WithMode(Record)"
}

// Option sets a property of a [Tape]. Options are applied in order; the last one wins
// where nothing else is said.
type Option func(*config) error

func wrong(option, format string, args ...any) error {
	return &aycoder.ConfigError{Option: option, Err: fmt.Errorf(format, args...)}
}

// WithMode sets what the tape does. Default: [Replay].
func WithMode(m Mode) Option {
	return func(c *config) error {
		if m < Replay || m > RecordMissing {
			return wrong("WithMode", "no such mode: %d", int(m))
		}
		c.mode = m
		return nil
	}
}

// WithModeEnv sets what the tape does to what the environment variable says: "replay",
// "record" or "record-missing". If it is empty, nothing changes. Default: none.
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

// WithTransport sets where requests go that are to be recorded. Default:
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

// Matching says when a request is one that was recorded.
type Matching int

// The ways to match.
const (
	// Strict wants the same requests in the order of the recording.
	Strict Matching = iota
	// Lenient takes the requests in any order, as those of tools or agents that work side
	// by side come, and does not compare headers.
	Lenient
)

// WithMatching sets when a request is one that was recorded. Default: [Strict].
func WithMatching(m Matching) Option {
	return func(c *config) error {
		if m != Strict && m != Lenient {
			return wrong("WithMatching", "no such matching: %d", int(m))
		}
		c.lenient = m == Lenient
		return nil
	}
}

// WithIgnore names fields of requests that are not compared, as a [Change] names them:
// "metadata.user_id", "messages[0].content". A * stands for any key or index, a ** for
// any number of them: "**.cache_control". What is not the body begins with an @:
// "@header.Accept", "@query.alt", "@path". Several add up. Default: none.
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

// WithNormalize sets a function that makes bodies of requests comparable, recorded
// and new ones, whose dates or made-up names differ. The file has the bodies as they
// were. For [Tape.Client] they are the requests as JSON. It is safe for concurrent use,
// and does not change its argument. Default: none.
func WithNormalize(f func(body []byte) []byte) Option {
	return func(c *config) error { c.normalize = f; return nil }
}

// WithReuse sets whether what was used is served again to the same request, where
// nothing unused matches: the last one that was used. Default: false.
func WithReuse(reuse bool) Option {
	return func(c *config) error { c.reuse = reuse; return nil }
}

// WithChunk sets in pieces of how many bytes bodies are played back; 0 is the pieces
// of the recording. Default: 0.
func WithChunk(bytes int) Option {
	return func(c *config) error {
		if bytes < 0 {
			return wrong("WithChunk", "%d is less than 0", bytes)
		}
		c.chunk = bytes
		return nil
	}
}

// WithHeaders adds headers to those that are recorded, of requests and responses. Those
// of requests are compared. A header that may hold a key is refused. Several add up.
// Default: none but those that the model APIs need.
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

// WithSecrets names values that must not get into the file. Several add up. Those of
// less than four bytes are refused. Default: none but what headers, URLs and fields of
// bodies give away.
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

// WithSecretHeaders names headers, of requests and responses, whose values are secrets
// like those of authorization headers, such as Openai-Organization. Several add up.
// Default: none but those whose names say so.
func WithSecretHeaders(names ...string) Option {
	return func(c *config) error {
		for _, n := range names {
			c.secretHeaders = append(c.secretHeaders, http.CanonicalHeaderKey(n))
		}
		return nil
	}
}

// WithRedact sets a function that takes out of a text what must not get into the file.
// It is given URLs, the values of headers, bodies of requests and responses, and texts
// of errors, and for [Tape.Client] requests and events as JSON, which must be JSON of
// the same shape afterwards. It is safe for concurrent use, does not change its
// argument, and changes nothing in what it gave back before. Default: none.
func WithRedact(f func([]byte) []byte) Option {
	return func(c *config) error { c.redact = f; return nil }
}

// WithMaxBytes bounds the size of the file that is read, and of what is recorded.
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

// WithTorn sets whether a file that has lost its end is accepted, in which a program
// that crashed was still recording. What is whole of it is played back, and [Tape.Torn]
// tells what is not. Default: false.
func WithTorn(accept bool) Option {
	return func(c *config) error { c.acceptTorn = accept; return nil }
}
