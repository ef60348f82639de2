package policy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxLine  = 16 << 10 // bytes of a line of the audit log, with its end
	maxCalls = 32       // of those around a call, in a line
)

// AuditLog is an [aycoder.Auditor] that writes each record as one line of JSON. A line is at most
// 16 KiB long and is written by a single call of Write. Texts that look like secrets are masked.
// An AuditLog is safe for concurrent use.
type AuditLog struct {
	mask func(string) string

	mu   sync.Mutex
	w    io.Writer
	torn bool // the last line is not whole
}

// LogOption configures an [AuditLog].
type LogOption func(*AuditLog)

// WithMask sets the function that masks secrets in the log: in the subjects of calls (see
// [aycoder.Subject]), in reasons and in rules. The function must be safe for concurrent use. If
// nil, the default remains. Default: a function that masks passwords in URLs, keys of well-known
// forms, and the values of variables, options and headers whose names suggest a secret.
func WithMask(mask func(string) string) LogOption {
	return func(l *AuditLog) {
		if mask != nil {
			l.mask = mask
		}
	}
}

// NewAuditLog returns a log that writes to w, such as a pipe or a file that is opened for
// appending. The log never closes w.
func NewAuditLog(w io.Writer, opts ...LogOption) *AuditLog {
	m := mask.New()
	l := &AuditLog{w: w, mask: func(s string) string { return m.Mask(maskSecrets(s)) }}
	for _, opt := range opts {
		if opt != nil {
			opt(l)
		}
	}
	return l
}

// Audit implements [aycoder.Auditor]. If a call of Write fails after writing a part of a record,
// the next record still begins on a new line.
func (l *AuditLog) Audit(_ context.Context, rec *aycoder.AuditRecord) error {
	if l.w == nil {
		return errors.New("write audit log: there is no writer")
	}
	line, err := l.line(*rec)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := l.w.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	l.torn = err != nil && (n > 0 || l.torn)
	return err
}

// line encodes a record, and truncates texts that are too long.
func (l *AuditLog) line(rec aycoder.AuditRecord) ([]byte, error) {
	texts := []*string{
		&rec.Subject, &rec.Reason, &rec.Rule, &rec.Key, &rec.CallID, &rec.Tool, &rec.Event, &rec.Run, &rec.Class,
		&rec.Agent,
	}
	rec.Calls = slices.Clone(rec.Calls[max(0, len(rec.Calls)-maxCalls):])
	for i := range rec.Calls {
		texts = append(texts, &rec.Calls[i])
	}
	for _, s := range texts[:3] {
		*s = l.mask(*s)
	}
	for most := maxLine; ; most /= 2 {
		for _, s := range texts {
			*s = runes.Shorten(*s, most)
		}
		line, err := json.Marshal(&rec)
		if err != nil || len(line) < maxLine-1 {
			return append(line, '\n'), err
		}
	}
}

const masked = "[masked]"

// A secret is a pattern of secrets with its replacement. A text is searched only if it contains
// one of the hints, since most texts contain none.
type secret struct {
	hints []string
	form  func() *regexp.Regexp
	with  string
}

const secretName = `(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|` +
	`credentials?|authorization|cookie)`

var nameHints = []string{"pass", "pwd", "secret", "token", "key", "credential",
	"authorization", "cookie"}

// secrets are coarse on purpose: in a log, masking one word too many does no harm.
var secrets = []secret{
	{[]string{"://"}, late.Regexp(`(://[^/\s:@'"]*:)[^/\s@'"]+@`), "${1}" + masked + "@"},
	{[]string{"bearer", "basic"}, late.Regexp(`(?i)\b((?:bearer|basic)\s+)[a-z0-9._~+/=-]{8,}`), "${1}" + masked},
	{nameHints, late.Regexp(`(?i)(` + secretName + `[a-z0-9_.-]*["']?\s*[=:]\s*)` +
		`(?:"[^"]*"?|'[^']*'?|[^\s"';|&]+)`), "${1}" + masked},
	{nameHints, late.Regexp(`(?i)(-[a-z0-9-]*` + secretName + `\s+)` +
		`(?:"[^"]*"?|'[^']*'?|[^\s"';|&-][^\s"';|&]*)`), "${1}" + masked},
	{[]string{"-u"}, late.Regexp(`((?:\s|^)(?:-u|--user)[\s=]+[^\s:'"]+:)\S+`), "${1}" + masked},
	{
		[]string{"sk-", "k_", "gh", "pat", "xox", "akia", "asia", "aiza", "ya29", "npm_", "hf_", "eyj"},
		late.Regexp(`\b(?:sk-|pk_|rk_|sk_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|` +
			`ya29\.|npm_|hf_|eyJ)[A-Za-z0-9_.-]{8,}`),
		masked,
	},
}

func maskSecrets(s string) string {
	low := strings.ToLower(s)
	for _, x := range secrets {
		if slices.ContainsFunc(x.hints, func(h string) bool { return strings.Contains(low, h) }) {
			s = x.form().ReplaceAllString(s, x.with)
		}
	}
	return s
}
