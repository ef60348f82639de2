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

// Masker keeps secrets from the model, logs and recordings: keys of services, private
// keys, tokens, passwords that a name or an address identifies as such, and values that
// the host names. It replaces them by placeholders such as
// "[secret:github-token:1a2b3c4d5e]", which are the same for the same secret and reveal
// nothing about it without the key. It is safe for concurrent use, and does not retain
// the text it masks.
//
// Masking is a safety net, not a barrier: it does not find every secret, see
// [WithMasking].
type Masker struct{ mask *mask.Masker }

// NewMasker returns a masker. The key decides about the placeholders: a session that
// goes on in another process needs the same one, or what the model has read no longer
// stands for anything. If it is empty, a random one is taken. The secrets are hidden
// wherever they are, also in JSON, URLs and base64, if they have eight bytes or more;
// and so are the values of the host's environment whose names say that they are secret.
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

// Mask returns a text with its secrets replaced and its invisible characters written out;
// see [EscapeInvisible].
func (m *Masker) Mask(text string) string { return EscapeInvisible(m.mask.Excerpt(text)) }

// Writer returns a writer that masks text and forwards it to another writer. It forwards
// whole lines, and private keys once they are complete, so the chunks in which text
// arrives do not matter. Close forwards the rest, and does not close the other writer. It
// is not safe for concurrent use.
func (m *Masker) Writer(to io.Writer) io.WriteCloser { return m.mask.Writer(to) }

// EscapeInvisible returns a text in which invisible characters are written out, such as <U+202E>:
// control characters, including those that a terminal obeys, characters without width,
// characters that change the direction of a text, and tags. Those that writing systems
// need stay: joiners in emoji and in scripts that join, and direction marks beside
// letters that run from right to left.
func EscapeInvisible(text string) string { return mask.Visible(text) }

// Masking returns a middleware that masks the output of every tool: the texts of results,
// summaries, progress and errors. It is for other tools than those of [Coding], which
// mask their output themselves. It does not restore secrets in arguments, so a tool that
// changes files must come from [Coding], or be wrapped by [Masker.Wrap].
func Masking(m *Masker) aycoder.ToolMiddleware {
	return func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *invocation) (*result, error) {
			r, err := next(ctx, m.quiet(inv))
			return m.told(inv, r, false), m.err(err)
		}
	}
}

// WithMasker sets the masker that the tools of [Coding] share with other parts of the
// session. Default: a new one.
func WithMasker(m *Masker) Option {
	return func(c *config) error {
		if m == nil {
			return &aycoder.ConfigError{Option: "WithMasker", Err: errors.New("masker is nil; turn it off by WithMasking(false)")}
		}
		c.masker = m
		return nil
	}
}

// WithMasking enables or disables the masking of secrets by the tools of [Coding], which
// takes place before the model, events, logs and recordings get to see a text. Not masked
// are the plan of an approval ([aycoder.ApprovalRequest].Plan) and the changes of a
// result ([aycoder.ToolResult].Changes), which are the files themselves and for the host;
// secrets that are encoded or look like words; and half of a secret. Default: true.
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

func hidden(r *result) int { return strings.Count(r.Text(), "[secret:") }

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
