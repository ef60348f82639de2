// Package replay records what goes between a program and its model into a file, and
// plays it back: tests of a host then run with real answers, without a network and
// without a key, and always the same way.
//
// # A tape
//
// [Open] opens a file as a [Tape]. A tape sits at one of two places.
//
// As an [http.RoundTripper] it sees what goes over the wire, so that the provider's
// own code is tested with it, decoding and all:
//
//	tape := replay.ForTest(t, "testdata/weather.jsonl", replay.WithModeEnv("RECORD"))
//	client, err := anthropic.New("claude-sonnet-4-5", anthropic.WithAPIKey(key),
//		anthropic.WithHTTPClient(&http.Client{Transport: tape}))
//
// As a middleware, [Tape.Client], it sees requests and events of any
// [aycoder.ModelClient], whatever provider it is of and however it talks to it:
//
//	client := tape.Client(inner)
//
// # Modes
//
// The [Mode] says what a tape does: [Replay] (the default) serves what the file has
// and never uses the network; [Record] asks, and writes the file anew; and
// [RecordMissing] asks for what the file does not have. A test names an environment
// variable for it:
//
//	RECORD=record go test ./...
//
// [Tape.Close] ends a recording: only then the file takes the place of the one before.
// Until then, what is finished is in a file beside it, whose name ends in ".part".
// After a crash that one can be looked at, and opened with [WithTorn].
//
// # Which answer a request gets
//
// Each interaction is used once, and in the order in which it was recorded. A request
// is the same as the recorded one if method, path, query, the headers that are
// recorded and the body are; bodies of JSON are compared as JSON, so that neither
// white space nor the order of keys counts. Anything else is a [MismatchError], which
// shows what is different:
//
//	replay testdata/weather.jsonl: request 2, POST /v1/messages, is not the one that was recorded as interaction 2:
//	  ~ messages[0].content[0].text: "How is Oslo?" → "How is Bergen?"
//	  + temperature: 0.5
//
// It says that no retry helps, so that an agent's loop ends at once. [WithMatching],
// [WithIgnore] and [WithNormalize] are for requests that are never twice the same.
//
// [Tape.Unused] tells what was recorded and not asked for. [ForTest] checks that there
// is none at the end of a test.
//
// # What is recorded
//
// Bodies are recorded as they came, with the places where the network cut them, while
// the program reads them. One that the program did not read to its end is recorded as
// far as it came. Played back, it ends with an [IncompleteError] where a program reads
// on, and with the error of the context where the program had cancelled: there it
// waits for the cancel, as the program did. A connection that was lost is lost at the
// same byte again, a request that failed fails again; what remains of an error of the
// network is its text, whether it was a timeout, and whether it was an [io.EOF] or
// another well-known one. Errors of a [aycoder.ModelClient] keep their type and fields.
// Times in headers and errors are those of the recording.
//
// # Secrets
//
// Headers are recorded by an allow list, on which no header with a key is. The values
// of headers, of query parameters, and of fields in the bodies of requests whose names
// say so (authorization, apiKey, session_token, cookie, password …) are known as secrets
// from then on, and so are the tokens that a service of OAuth gives out. They are taken
// out of URLs, bodies and errors, also in the form they have in JSON, in URLs and in
// base64. Where one was taken out of a recorded request, any text matches: a tape is
// played back with another key.
//
// [WithSecrets] and [WithSecretHeaders] name more of them, such as the names of
// organisations, and [WithRedact] is for all that the host knows better. Before the
// file takes its place, all of it is searched again, and a [SecretError] says if there
// is one left.
//
// Some things are no secrets here unless WithSecrets names them. Values that are shorter
// than eight bytes (cookies: twelve) are parts of too many words. Of fields in bodies,
// numbers, words and sentences are none either: `"max_tokens": 10000000`,
// `"auth": "required"`. And what the conversation itself says is content: a tool is
// called with a password as it was before. A secret that a model spells out over several
// events of a stream is not found on the wire; the middleware finds it, as it sees the
// whole text.
//
// # The file
//
// The file has JSON lines, for people and their diffs: a line that says the version,
// and for each interaction one for its request, one for the head of the response, one
// for each piece of the body or each event, and one for its end.
package replay

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/aycoder/aycoder"
)

// Mode says what a [Tape] does.
type Mode int

// The modes.
const (
	// Replay serves what was recorded, and nothing else.
	Replay Mode = iota
	// Record asks, and writes the file anew.
	Record
	// RecordMissing serves what was recorded, in any order, and asks for what was not.
	// The file then has the interactions in the order of this time, and behind them those
	// that were not used.
	RecordMissing
)

// String returns "replay", "record" or "record-missing".
func (m Mode) String() string {
	switch m {
	case Replay:
		return "replay"
	case Record:
		return "record"
	case RecordMissing:
		return "record-missing"
	}
	return fmt.Sprintf("mode %d", int(m))
}

// ParseMode returns the mode with that name; "" is [Replay].
func ParseMode(name string) (Mode, error) {
	if name == "" {
		return Replay, nil
	}
	for m := Replay; m <= RecordMissing; m++ {
		if m.String() == name {
			return m, nil
		}
	}
	return Replay, fmt.Errorf("mode %q is none of replay, record, record-missing", name)
}

// A Tape is a file that is recorded or played back. It is safe for concurrent use. It
// starts no goroutines.
type Tape struct {
	path    string
	cfg     config
	secrets *secrets
	torn    *FormatError

	mu       sync.Mutex
	recorded []*interaction // what the file had
	log      []*interaction // what was asked this time, in order
	requests int
	part     *partFile
	size     int64 // of what was recorded this time
	err      error // the first thing that spoiled the recording
	closed   bool
}

// Open opens the tape in the file at path. All options that are wrong are reported at
// once, as [aycoder.ConfigError]. Where the file is to be played back, it must be there
// and whole: if it is not there, the error is [fs.ErrNotExist], if it is damaged, a
// [FormatError], and if it is larger than [WithMaxBytes], an [aycoder.LimitError].
func Open(path string, opts ...Option) (*Tape, error) {
	cfg := config{maxBytes: defaultMaxBytes, transport: http.DefaultTransport}
	var errs []error
	for _, opt := range opts {
		errs = append(errs, opt(&cfg))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("open recording %s: %w", path, err)
	}
	t := &Tape{path: path, cfg: cfg, secrets: newSecrets(cfg.secretHeaders, cfg.secretValues)}
	var err error
	if cfg.mode == Record {
		t.part, err = openPart(path)
	} else {
		err = t.load()
	}
	if err != nil {
		return nil, fmt.Errorf("open recording %s: %w", path, err)
	}
	return t, nil
}

func (t *Tape) load() error {
	data, err := readFile(t.path, t.cfg.maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		if t.cfg.mode == RecordMissing {
			return nil
		}
		return fmt.Errorf("%w: %s", err, t.cfg.howToRecord())
	}
	if err != nil {
		return err
	}
	its, bad := parse(data)
	if bad != nil {
		bad.File = t.path
		if !bad.Torn || !t.cfg.acceptTorn {
			return bad
		}
		t.torn = bad
	}
	for i, it := range its {
		it.number = i + 1
	}
	t.recorded = its
	t.hide()
	return nil
}

// Mode returns what the tape does.
func (t *Tape) Mode() Mode { return t.cfg.mode }

// Torn returns what is wrong with the end of a file that was opened with [WithTorn],
// as a [FormatError], or nil.
func (t *Tape) Torn() error {
	if t.torn == nil {
		return nil
	}
	return t.torn
}

// Unused returns what was recorded and has not been asked for yet, one line each.
func (t *Tape) Unused() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, it := range t.recorded {
		if !it.used {
			out = append(out, fmt.Sprintf("interaction %d, %s", it.number, it.label()))
		}
	}
	return out
}

// Close ends the tape; later requests fail with [fs.ErrClosed]. A recording is written
// to its place, with answers that are still being read as far as they came. If it
// cannot be recorded whole, the error says why, and the file stays as it was before:
// a [SecretError], an [aycoder.LimitError], an error of the file system. Close may be
// called again, and does nothing then.
func (t *Tape) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	if t.part == nil {
		return nil
	}
	for _, it := range t.log {
		t.finish(it, endOpen, nil)
	}
	err := t.err
	if err == nil {
		err = t.write()
	}
	keep := err != nil && isFileError(err)
	if err2 := t.part.close(keep); err == nil {
		err = err2
	}
	if err != nil {
		return fmt.Errorf("write recording %s: %w", t.path, err)
	}
	return nil
}

// isFileError reports whether what was recorded is of use, and only has no place.
func isFileError(err error) bool {
	_, path := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	return path || link
}

// write writes the whole file. All that has become known as a secret by now is taken
// out of what came before it was.
func (t *Tape) write() error {
	all := slices.Clone(t.log)
	for _, it := range t.recorded {
		if !it.used {
			all = append(all, it)
		}
	}
	data := appendHeader(nil)
	for i, it := range all {
		block, err := t.block(it, i+1)
		if err != nil {
			return err
		}
		data = append(data, block...)
	}
	return replaceFile(t.path, appendEOF(data))
}

// block returns the lines of an interaction, from which it takes the secrets that are
// known by now.
func (t *Tape) block(it *interaction, number int) ([]byte, error) {
	var data []byte
	err := t.clean(it)
	if err == nil {
		data, err = it.appendTo(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("interaction %d, %s: %w", number, t.secrets.text(it.label()), err)
	}
	if source := t.secrets.find(data); source != "" {
		return nil, &SecretError{Interaction: number, Source: source}
	}
	return data, nil
}

// begin puts a new interaction on the tape, before the request is sent.
func (t *Tape) begin(it *interaction) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fs.ErrClosed
	}
	if t.part == nil {
		part, err := openPart(t.path)
		if err != nil {
			return err
		}
		t.part = part
	}
	if t.err == nil { // else nothing will be written
		t.log = append(t.log, it)
	}
	t.grow(it, requestBytes+len(it.request()))
	return nil
}

const (
	// requestBytes is what a request takes beside its body, pieceBytes what a piece of a
	// response does, about.
	requestBytes = 512
	pieceBytes   = 16
)

// grow counts what is kept in memory.
func (t *Tape) grow(it *interaction, n int) bool {
	if it.done || t.err != nil {
		return false
	}
	if t.size += int64(n); t.size > t.cfg.maxBytes {
		t.spoil(&aycoder.LimitError{Limit: "recording bytes", Max: t.cfg.maxBytes})
	}
	return t.err == nil
}

// spoil remembers why the recording cannot be kept, and frees its memory.
func (t *Tape) spoil(err error) {
	if t.err == nil {
		t.err = err
	}
	for _, it := range t.log {
		if it.number == 0 { // else it may be played back
			it.body, it.cuts, it.events = nil, nil, nil
		}
	}
}

// finish ends an interaction, and writes it beside the file. What comes later is of no
// interest.
func (t *Tape) finish(it *interaction, end ending, fail *failure) {
	if it.done {
		return
	}
	it.done, it.end, it.fail = true, end, fail
	if t.err != nil {
		return
	}
	t.secrets.learnGrant(it.body)
	data, err := t.block(it, slices.Index(t.log, it)+1)
	if err == nil {
		err = t.part.append(data)
	}
	if err != nil {
		t.spoil(err)
	}
}

// ended is finish for those who do not hold the lock.
func (t *Tape) ended(it *interaction, end ending, fail *failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(it, end, fail)
}

// TB is what [ForTest] needs of a [testing.TB].
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// ForTest opens a tape for a test, and closes it when the test ends. The test fails if
// the tape cannot be opened or written, or if not all of it was used in mode [Replay].
func ForTest(t TB, path string, opts ...Option) *Tape {
	t.Helper()
	tape, err := Open(path, opts...)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := tape.Close(); err != nil {
			t.Errorf("%v", err)
		}
		if tape.Mode() != Replay {
			return
		}
		for _, what := range tape.Unused() {
			t.Errorf("replay %s: %s was not asked for", filepath.ToSlash(path), what)
		}
	})
	return tape
}
