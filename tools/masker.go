package tools

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/mask"
)

// Masker hides secrets from the model, logs and recordings: API keys, private keys, tokens,
// passwords in URLs or after a name such as "password", and values that the host lists. It
// replaces each secret by a placeholder such as "[secret:github-token:1a2b3c4d5e]". The same
// secret always gets the same placeholder. Without the key of [NewMasker], a placeholder reveals
// nothing about the secret. A Masker is safe for concurrent use, and does not retain the text
// that it masks.
//
// Masking is a safety net, not a barrier, because it does not find every secret: see
// [WithMasking].
type Masker struct{ mask *mask.Masker }

// NewMasker returns a masker. Placeholders are derived from the key. If a session continues in
// another process, pass the same key, so that the placeholders which the model has read stay
// valid. If key is empty, NewMasker uses a random key.
//
// The masker hides the given secrets, and the values of variables in the environment of this
// process whose names suggest a secret. It finds them wherever they are, including in JSON, URLs
// and base64. Values of less than eight bytes are not hidden.
func NewMasker(key []byte, secrets ...string) *Masker {
	values := append(mask.Environment(append(os.Environ(), startEnvironment()...)), secrets...)
	if len(key) == 0 {
		return &Masker{mask.New(values...)}
	}
	return &Masker{mask.NewWithKey(key, values...)}
}

// startEnvironment returns the environment with which this process was started, where the
// system reveals it: commands can read it there, whatever the host has unset since.
func startEnvironment() []string {
	data, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return nil
	}
	return strings.Split(string(data), "\x00")
}

// Mask returns text with secrets replaced by placeholders and invisible characters written out
// (see [EscapeInvisible]).
func (m *Masker) Mask(text string) string { return EscapeInvisible(m.mask.Excerpt(text)) }

// Writer returns a writer that masks text and forwards it to another writer. It forwards only
// whole lines and complete private keys, so that a secret is found even if it arrives in several
// chunks. Close forwards the remaining text, but does not close the other writer. The returned
// writer is not safe for concurrent use.
func (m *Masker) Writer(to io.Writer) io.WriteCloser { return m.mask.Writer(to) }

// EscapeInvisible returns text with invisible characters written out, such as <U+202E>. These are
// control characters (including those that terminals obey), characters without width, characters
// that change the direction of a text, and tag characters. Characters that writing systems need
// stay unchanged: joiners in emoji and in scripts that join letters, and direction marks next to
// letters that are written from right to left.
func EscapeInvisible(text string) string { return mask.Visible(text) }

// Masking returns a middleware that masks the output of every tool: the texts of results,
// summaries, progress and errors. The tools of [Coding] do not need it, because they mask their
// output themselves. A model that edits a file repeats the placeholders that it has read. The
// middleware does not replace them by the secrets again, so a tool that changes files must come
// from [Coding] or be wrapped by [Masker.Wrap].
func Masking(m *Masker) aycoder.ToolMiddleware {
	return func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *invocation) (*result, error) {
			r, err := next(ctx, m.quiet(inv))
			return m.told(inv, r, false), m.err(err)
		}
	}
}

// WithMasker sets the masker that the tools of [Coding] use, so that they can share it with other
// parts of the session. Default: a new masker.
func WithMasker(m *Masker) Option {
	return func(c *config) error {
		if m == nil {
			return &aycoder.ConfigError{Option: "WithMasker",
				Err: errors.New("masker is nil; turn it off by WithMasking(false)")}
		}
		c.masker = m
		return nil
	}
}

// WithMasking sets whether the tools of [Coding] mask secrets before a text reaches the model,
// events, logs or recordings. The plan in an approval request ([aycoder.ApprovalRequest].Plan)
// and the changes in a result ([aycoder.ToolResult].Changes) are never masked: they are for the
// host and contain the files as they are. Masking also misses secrets that are encoded, secrets
// that look like words, and parts of a secret. Default: true.
func WithMasking(on bool) Option {
	return func(c *config) error {
		c.unmasked = !on
		return nil
	}
}

// quiet returns an invocation whose progress is masked. Each report is a single line, so
// a line of a private key cannot be told from other base64.
func (m *Masker) quiet(inv *invocation) *invocation {
	return inv.WithProgress(func(p aycoder.Progress) {
		p.Message = EscapeInvisible(m.mask.Line(mask.StripEscapes(p.Message)))
		inv.Progress(p)
	})
}

// told masks a result, and informs the audit log if it had secrets.
func (m *Masker) told(inv *invocation, r *result, output bool) *result {
	out := m.result(r, output)
	if r == nil {
		return out
	}
	if n := hidden(out) - hidden(r); n > 0 {
		inv.Alert("masked_secret", plural(n, "secret")+" in the result")
	}
	return out
}

// hidden counts placeholders in a result. The tool itself may print text that contains
// placeholders, so told reports only the difference.
func hidden(r *result) (n int) {
	for _, p := range r.Parts {
		if t, ok := p.(*aycoder.Text); ok && t != nil { // the loop leaves out parts that are nil
			n += strings.Count(t.Text, "[secret:")
		}
	}
	return n
}

// result returns a masked result. Output says that the text is meant for a terminal.
func (m *Masker) result(r *result, output bool) *result {
	if r == nil {
		return nil
	}
	out := *r
	out.Summary = m.Mask(r.Summary)
	out.Parts = make([]aycoder.Part, len(r.Parts))
	for i, p := range r.Parts {
		out.Parts[i] = m.part(p, output)
	}
	return &out
}

// text masks the text of a part. Escape sequences in output are removed first, so that
// none hides a secret. In the content of a file they stay, since an edit has to match
// them. Written-out characters must not make a text much longer than the tool made it.
func (m *Masker) text(s string, output bool) string {
	if output {
		return mask.VisibleWithin(m.mask.Excerpt(mask.StripEscapes(s)), maxGrowth)
	}
	return mask.VisibleWithin(m.mask.Excerpt(s), maxGrowth+len(s)/8)
}

const maxGrowth = 256 // bytes

// obscured reports whether a text has so many invisible characters that not all of them are
// written out, so that a model which writes the text back would lose some.
func obscured(s string) bool { return len(EscapeInvisible(s)) > len(s)+maxGrowth+len(s)/8 }

// part masks what a model would read of a part. An image is not looked into.
func (m *Masker) part(p aycoder.Part, output bool) aycoder.Part {
	switch p := p.(type) {
	case *aycoder.Text:
		if p != nil {
			return &aycoder.Text{Text: m.text(p.Text, output), Extra: p.Extra}
		}
	case *aycoder.Media:
		if p != nil {
			c := *p
			c.Name, c.URL = m.Mask(p.Name), m.mask.Mask(p.URL)
			return &c
		}
	}
	return p
}

// err returns an error whose text is masked.
func (m *Masker) err(err error) error {
	if err == nil {
		return nil
	}
	text := m.Mask(err.Error())
	if text == err.Error() {
		return err
	}
	return &maskedError{text, err}
}

// maskedError is an error with another text and the same types.
type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.err }
