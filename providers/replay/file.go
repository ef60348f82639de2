package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/replace"
)

// version is the version of the file format.
const version = 1

var (
	errNotRecording = errors.New("not a recording")
	errNoEnd        = errors.New("the end is missing")
	errAfterEnd     = errors.New("something stands after the end")
	errOutOfPlace   = errors.New("line does not belong here")
	errNotUTF8      = errors.New("text is not valid UTF-8")
)

// An ending describes how an interaction ended.
type ending string

const (
	endComplete  ending = "complete"
	endError     ending = "error"     // with the recorded error
	endLeft      ending = "left"      // the program stopped reading
	endCancelled ending = "cancelled" // the program cancelled while it waited for more
	endOpen      ending = "open"      // the program was still reading when the tape was closed
)

// An interaction is a request and its response. It does not change once it is done,
// except for the fields that the tape's mutex guards.
type interaction struct {
	http  *httpLine // one of the two is set
	model *modelLine

	head   *headLine   // of the response; nil if there was none
	body   []byte      // of the response
	cuts   []int       // offsets at which its pieces end
	events []eventLine // of a model

	end  ending
	fail *failure // with endError

	number int  // in the file, from 1
	used   bool // it was served or recorded
	done   bool // it has ended
	clean  int  // the number of known secrets when they were removed, plus one
	key    string
}

// A line is a line of the file: one of its fields is set.
type line struct {
	Version  int        `json:"aycoder_replay,omitempty"`
	HTTP     *httpLine  `json:"http,omitempty"`
	Model    *modelLine `json:"model,omitempty"`
	Response *headLine  `json:"response,omitempty"`
	Chunk    *string    `json:"chunk,omitempty"`
	Base64   []byte     `json:"base64,omitempty"`
	Event    *eventLine `json:"event,omitempty"`
	End      ending     `json:"end,omitempty"`
	Error    *failure   `json:"error,omitempty"` // with End
	EOF      bool       `json:"eof,omitempty"`
}

// An httpLine is a request. Its body is in one of JSON, Text and Base64.
type httpLine struct {
	Method string            `json:"method"`
	URL    string            `json:"url"`
	Header map[string]string `json:"header,omitempty"`
	JSON   json.RawMessage   `json:"json,omitempty"`
	Text   string            `json:"text,omitempty"`
	Base64 []byte            `json:"base64,omitempty"`
}

// setBody stores the body in the most readable form.
func (h *httpLine) setBody(data []byte) {
	h.JSON, h.Text, h.Base64 = nil, "", nil
	switch {
	case len(data) == 0:
	case !utf8.Valid(data):
		h.Base64 = data
	case json.Valid(data):
		h.JSON = data
	default:
		h.Text = string(data)
	}
}

// body returns the body in whichever form it is kept: JSON and text are for people, base64
// is for bytes.
func (h *httpLine) body() []byte {
	switch {
	case h.JSON != nil:
		return h.JSON
	case h.Text != "":
		return []byte(h.Text)
	}
	return h.Base64
}

// A headLine is the head of a response.
type headLine struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
}

// A modelLine is a request to a model, and the properties of the client that a program
// may query.
type modelLine struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Asked    string `json:"asked,omitempty"` // the model in the request
	// Formats is the recorded result of FormatsOutput; see [aycoder.OutputFormatter].
	Formats bool `json:"formats_output,omitempty"`
	// WithTools is the recorded result of FormatsWithTools; see ToolFormatter of package generate.
	WithTools bool               `json:"formats_with_tools,omitempty"`
	Info      *aycoder.ModelInfo `json:"info,omitempty"`
	Request   json.RawMessage    `json:"request"`
}

// request returns the body of the request.
func (it *interaction) request() []byte {
	if it.model != nil {
		return it.model.Request
	}
	return it.http.body()
}

// A writer writes lines.
type writer struct {
	b   bytes.Buffer
	err error
}

// line writes one value, and a line end.
func (w *writer) line(l *line) {
	enc := json.NewEncoder(&w.b)
	enc.SetEscapeHTML(false) // the file is for people to read
	if err := enc.Encode(l); err != nil && w.err == nil {
		w.err = fmt.Errorf("encode: %w", err)
	}
}

func appendHeader(b []byte) []byte {
	return fmt.Appendf(b, "{\"aycoder_replay\":%d}\n", version)
}

func appendEOF(b []byte) []byte { return append(b, "{\"eof\":true}\n"...) }

// appendTo appends all lines of an interaction.
func (it *interaction) appendTo(b []byte) ([]byte, error) {
	w := &writer{}
	w.line(&line{HTTP: it.http, Model: it.model})
	if it.head != nil {
		w.line(&line{Response: it.head})
	}
	for chunk := range it.chunks() {
		if utf8.Valid(chunk) {
			w.line(&line{Chunk: new(string(chunk))})
			continue
		}
		w.line(&line{Base64: chunk})
	}
	for i := range it.events {
		w.line(&line{Event: &it.events[i]})
	}
	w.line(&line{End: it.end, Error: it.fail})
	return append(b, w.b.Bytes()...), w.err
}

// chunks are the pieces of the body.
func (it *interaction) chunks() func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		at := 0
		for _, cut := range it.cuts {
			if cut > at && !yield(it.body[at:cut]) {
				return
			}
			at = cut
		}
	}
}

// readFile reads a file of at most maxBytes.
func readFile(path string, maxBytes int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && int64(len(data)) > maxBytes {
		err = &aycoder.LimitError{Limit: "recording bytes", Max: maxBytes}
	}
	return data, err
}

// A parser reads the lines of a file.
type parser struct {
	its  []*interaction
	cur  *interaction // the interaction that has not ended yet
	line int
	over bool
}

// parse returns the complete interactions, and the error that ended the parsing.
func parse(data []byte) ([]*interaction, *FormatError) {
	p := &parser{}
	for text := range bytes.Lines(data) {
		p.line++
		if err := p.take(text); err != nil {
			torn := p.line > 1 && !bytes.HasSuffix(text, []byte("\n"))
			return p.its, &FormatError{Line: p.line, Torn: torn, Err: err}
		}
	}
	switch {
	case p.over:
		return p.its, nil
	case p.line == 0:
		return nil, &FormatError{Line: 1, Err: errNotRecording}
	}
	return p.its, &FormatError{Line: p.line, Torn: true, Err: errNoEnd}
}

// take reads a line. A line that is not understood is an error: half a recording would play
// back as another conversation.
func (p *parser) take(text []byte) error {
	text = bytes.TrimSpace(text)
	if len(text) == 0 && p.line > 1 {
		return nil
	}
	var l line
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields() // unknown fields may have a meaning in a later version
	err := dec.Decode(&l)
	if err == nil && dec.InputOffset() != int64(len(text)) {
		err = errors.New("more than one value in a line")
	}
	switch {
	case p.line == 1 && (err != nil || l.Version == 0):
		return errNotRecording
	case err != nil:
		return err
	case p.line == 1 && l.Version != version:
		return fmt.Errorf("version %d is not known, only %d is", l.Version, version)
	case p.line == 1:
		return nil
	case p.over:
		return errAfterEnd
	}
	if p.cur == nil {
		return p.open(&l)
	}
	return p.add(&l)
}

// open handles a line outside of an interaction.
func (p *parser) open(l *line) error {
	switch {
	case l.EOF:
		p.over = true
	case l.HTTP != nil:
		p.cur = &interaction{http: l.HTTP, done: true}
	case l.Model != nil && len(l.Model.Request) > 0:
		p.cur = &interaction{model: l.Model, done: true}
	default:
		return errOutOfPlace
	}
	return nil
}

// add handles a line of an interaction.
func (p *parser) add(l *line) error {
	it := p.cur
	switch {
	case l.End != "":
		return p.end(l)
	case it.model != nil && l.Event != nil:
		it.events = append(it.events, *l.Event)
		_, err := l.Event.event()
		return err
	case it.http == nil:
		return errOutOfPlace
	case it.head == nil && l.Response != nil:
		it.head = l.Response
		if s := it.head.Status; s < 100 || s > 999 {
			return fmt.Errorf("status %d is none", s)
		}
		return nil
	case it.head != nil && l.Chunk != nil:
		it.body = append(it.body, *l.Chunk...)
	case it.head != nil && l.Base64 != nil:
		it.body = append(it.body, l.Base64...)
	default:
		return errOutOfPlace
	}
	it.cuts = append(it.cuts, len(it.body))
	return nil
}

// end completes an interaction.
func (p *parser) end(l *line) error {
	it := p.cur
	switch l.End {
	case endComplete:
		if it.http != nil && it.head == nil {
			return errors.New("no response, and no reason why")
		}
	case endLeft, endCancelled, endOpen:
	case endError:
		if err := l.Error.check(0); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no such end: %q", l.End)
	}
	it.end, it.fail = l.End, l.Error
	p.its, p.cur = append(p.its, it), nil
	return nil
}

// A partFile holds the finished interactions during a recording.
type partFile struct {
	f    *os.File
	name string
}

// openPart creates the part file beside the file at path. It must not exist yet: two
// simultaneous recordings would destroy each other, and the remains of a crash must not
// be deleted.
func openPart(path string) (*partFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	name := path + ".part"
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: another tape records it, or one was not closed; "+
			"WithTorn opens what it has, and removing it makes room", err)
	}
	if err != nil {
		return nil, err
	}
	p := &partFile{f, name}
	if err := p.append(appendHeader(nil)); err != nil {
		return nil, errors.Join(err, p.close(false))
	}
	return p, nil
}

func (p *partFile) append(data []byte) error {
	_, err := p.f.Write(data)
	return err
}

// close removes the file unless it is to be kept.
func (p *partFile) close(keep bool) error {
	err := p.f.Close()
	if keep {
		return err
	}
	return errors.Join(err, os.Remove(p.name))
}

// replaceFile writes data to the file at path atomically. An existing file keeps its
// mode.
func replaceFile(path string, data []byte) error {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return replace.File(path, filepath.Base(path)+".*.tmp", func(f *os.File) error {
		if _, err := f.Write(data); err != nil {
			return err
		}
		return os.Chmod(f.Name(), mode)
	})
}
