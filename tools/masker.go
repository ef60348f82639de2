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

// Masker keeps secrets out of what a model, a log and a recording get to see: keys of
// services, private keys, tokens, passwords where a name or an address says that they
// are one, and values that the host names. In their place it puts placeholders such as
// "[secret:github-token:1a2b3c4d5e]", the same for the same secret; without the key they
// tell nothing about it. It is safe for concurrent use, and keeps nothing of what it has
// masked.
//
// Masking is a net and no fence: it does not find everything, see [WithMasking].
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
// system tells: commands can read it there, whatever the host has unset since.
func startEnvironment() []string {
	data, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return nil
	}
	return strings.Split(string(data), "\x00")
}

// Mask returns a text without secrets, and with what nobody sees written out; see
// [Visible].
func (m *Masker) Mask(text string) string { return Visible(m.mask.Excerpt(text)) }

// Writer returns a writer that masks what it passes on to another one, whatever pieces
// it comes in: whole lines, and private keys when they have ended. Closing it passes on
// the rest, and does not close the other one. It is not safe for concurrent use.
func (m *Masker) Writer(to io.Writer) io.WriteCloser { return m.mask.Writer(to) }

// Visible returns a text in which what nobody sees is written out, such as <U+202E>:
// control characters, also those that a terminal obeys, characters without width, those
// that turn the direction of a text, and tags. What writing needs stays: joiners in
// emoji and in scripts that join, direction marks beside letters from right to left.
func Visible(text string) string { return mask.Visible(text) }

// Masking returns a middleware that masks what every tool gives: the texts of results,
// summaries, progress and errors. Tools of [Coding] do so themselves; it is for those of
// others. It does not put secrets back in arguments, so a tool that changes files must
// come from [Coding], or have been made by [Masker.Wrap].
func Masking(m *Masker) aycoder.ToolMiddleware {
	return func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *invocation) (*result, error) {
			r, err := next(ctx, m.quiet(inv))
			return m.told(inv, r, false), m.err(err)
		}
	}
}

// WithMasker says which masker the tools of [Coding] have in common with others of the
// session. Default: one of their own.
func WithMasker(m *Masker) Option {
	return func(c *config) error {
		if m == nil {
			return errors.New("WithMasker: masker is nil; turn it off by WithMasking(false)")
		}
		c.masker = m
		return nil
	}
}

// WithMasking says whether the tools of [Coding] mask secrets, which they do before
// model, events, logs and recordings see them. What they do not mask: a plan that is
// asked about ([aycoder.ApprovalRequest].Plan) and what became of it
// ([aycoder.ToolResult].Changes), which are the files themselves and for the host; and
// secrets that were encoded, or are words, or of which a half is printed. Default: true.
func WithMasking(on bool) Option {
	return func(c *config) error {
		c.unmasked = !on
		return nil
	}
}

// quiet is an invocation whose progress is masked. Each report is one line of many, so
// a line of a private key is not told from other base64.
func (m *Masker) quiet(inv *invocation) *invocation {
	return inv.WithProgress(func(p aycoder.Progress) {
		p.Message = Visible(m.mask.Line(mask.StripEscapes(p.Message)))
		inv.Progress(p)
	})
}

// told is result, and tells the audit log if there were secrets.
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

// result is one without secrets. Output is what a terminal would get.
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

// text masks that of a part. Of output the escape sequences go before, so that none
// hides a secret that it is in; in what is told of a file they stay, as an edit has to
// match it. Written out, a text must not get much longer than the tool has made it.
func (m *Masker) text(s string, output bool) string {
	if output {
		return mask.VisibleWithin(m.mask.Excerpt(mask.StripEscapes(s)), maxGrowth)
	}
	return mask.VisibleWithin(m.mask.Excerpt(s), maxGrowth+len(s)/8)
}

const maxGrowth = 256 // bytes

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

// err is an error whose text has no secrets.
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

// maskedError is an error with another text, and of the same types.
type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.err }
