package textdiff

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/aycoder/aycoder/internal/diff3"
)

// Patch is the part of a unified diff that concerns one file.
type Patch struct {
	// OldName and NewName are the paths without the leading a/ and b/. One of them is
	// empty if there is no such file before or after.
	OldName, NewName string
	// Binary reports that the patch only says that the files differ.
	Binary bool

	hunks []patchHunk
}

// patchHunk is one hunk of a patch: old lines and the new ones that replace them. The texts
// keep their line ends, so that an unchanged hunk is found by comparing bytes.
type patchHunk struct {
	line          int // of the patch, from 1
	from, to      diff3.Span
	before, after []byte
}

// PatchError describes an invalid patch, or the place where a patch does not fit the text.
type PatchError struct {
	Line int // of the patch, from 1
	Err  error
}

// Error implements error.
func (e *PatchError) Error() string { return fmt.Sprintf("line %d of the patch: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *PatchError) Unwrap() error { return e.Err }

var (
	errBinary  = errors.New("it does not say what a binary file becomes")
	errPlace   = errors.New("hunk is not where its new line numbers say")
	errOrder   = errors.New("hunk begins before the end of the one above")
	errMissing = errors.New("file has no such line")
	errContext = errors.New("file has other lines there")
	errMiddle  = errors.New("line without a newline in the middle of the file")
)

// Apply applies a patch to a text. It is strict: the old lines must be exactly those of the
// patch, at the line numbers of the patch. Its errors are of type [*PatchError]. There is
// no fuzz as in patch(1): a hunk that fits in another place may be meant for that place or
// not, and nobody would learn that it was moved.
func (p *Patch) Apply(before []byte) ([]byte, error) {
	if p.Binary {
		return nil, &PatchError{1, errBinary}
	}
	a := applier{rest: before}
	for i := range p.hunks {
		if err := a.apply(&p.hunks[i]); err != nil {
			return nil, &PatchError{p.hunks[i].line, err}
		}
	}
	return append(a.out, a.rest...), nil
}

// applier is the state of Apply between two hunks. Both texts are gone through once, so the
// time is linear.
type applier struct {
	rest, out []byte
	at, to    int // lines before rest, lines of out
}

// apply copies the lines up to a hunk and replaces those of the hunk. The new line numbers
// must also be right, because a wrong one shows that a hunk is missing.
func (a *applier) apply(h *patchHunk) error {
	if h.from.Lo < a.at {
		return errOrder
	}
	if err := a.copy(h.from.Lo - a.at); err != nil {
		return err
	}
	if h.to.Lo != a.to {
		return errPlace
	}
	rest, ok := bytes.CutPrefix(a.rest, h.before)
	if !ok || !ended(h.before) && len(rest) > 0 {
		return errContext
	}
	// A line without a newline can only be the last of a text.
	if !ended(h.after) && len(rest) > 0 || len(h.after) > 0 && !ended(a.out) {
		return errMiddle
	}
	a.rest, a.out = rest, append(a.out, h.after...)
	a.at, a.to = h.from.Hi, a.to+h.to.Len()
	return nil
}

// ended reports whether a text ends at the end of a line.
func ended(text []byte) bool { return len(text) == 0 || text[len(text)-1] == '\n' }

// copy copies n unchanged lines. A hunk beyond the end of the text is an error, not an
// addition.
func (a *applier) copy(n int) error {
	size := 0
	for range n {
		line := a.rest[size:]
		if len(line) == 0 {
			return errMissing
		}
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			size += i + 1
		} else {
			size = len(a.rest)
		}
	}
	a.out, a.rest = append(a.out, a.rest[:size]...), a.rest[size:]
	a.at, a.to = a.at+n, a.to+n
	return nil
}
