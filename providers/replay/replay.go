// Package replay records the traffic between a program and its model in a file, and plays
// it back. Tests of a host then run with real answers, without a network and without a
// key, and always with the same result.
//
// # A tape
//
// [Open] opens a file as a [Tape]. A tape can be used at two levels.
//
// As an [http.RoundTripper] it sees the HTTP traffic, so the test includes the code of
// the provider, such as its decoding:
//
//	tape := replay.ForTest(t, "testdata/weather.jsonl", replay.WithModeEnv("RECORD"))
//	client, err := anthropic.New("claude-sonnet-4-5", anthropic.WithAPIKey(key),
//		anthropic.WithHTTPClient(&http.Client{Transport: tape}))
//
// As a middleware, [Tape.Client], it sees requests and events of any
// [aycoder.ModelClient], whatever its provider and its transport:
//
//	client := tape.Client(inner)
//
// # Modes
//
// A tape has one of three modes: [Replay] (the default) serves the recorded answers and
// never uses the network; [Record] sends every request, and writes a new file; and
// [RecordMissing] sends only requests that are not in the file. A test can take the mode
// from an environment variable:
//
//	RECORD=record go test ./...
//
// [Tape.Close] ends a recording and replaces the old file by the new one. Until then, the
// finished interactions are in a second file beside the old one, whose name ends in
// ".part". After a crash, the second file can be examined, and opened with [WithTorn].
//
// # Matching
//
// An interaction is a request with its response. Each recorded interaction is used once,
// in the order of the recording. A request matches a recorded one if method, path, query,
// recorded headers and body are equal. Bodies of JSON are compared as JSON, regardless of
// white space and the order of keys. Any other request is a [MismatchError], which shows
// the differences:
//
//	replay testdata/weather.jsonl: request 2, POST /v1/messages, is not the one that was recorded as interaction 2:
//	  ~ messages[0].content[0].text: "How is Oslo?" → "How is Bergen?"
//	  + temperature: 0.5
//
// The error is marked as permanent, so that an agent's loop ends at once. [WithMatching],
// [WithIgnore] and [WithNormalize] support requests that differ each time.
//
// [Tape.Unused] lists the interactions that were not used. [ForTest] checks at the end of
// a test that there are none.
//
// # Recording
//
// Bodies are recorded while the program reads them, unchanged and with the boundaries of
// the pieces in which the network delivered them. If the program does not read a body to
// its end, only the part that arrived is recorded. In playback, a program that reads on
// gets an [IncompleteError]. If the program had canceled the request, playback waits for
// the cancellation and returns the error of the context. A lost connection is lost at the
// same byte, and a failed request fails again. A network error keeps its text, whether it
// was a timeout, and whether it was [io.EOF] or another well-known error. Errors of an
// [aycoder.ModelClient] keep their type and fields. Times in headers and errors are those
// of the recording.
//
// # Secrets
//
// Only headers on an allow list are recorded, and no header with a key is on that list.
// Values whose names mark them as secrets (authorization, apiKey, session_token, cookie,
// password …) are remembered, if they are in headers, query parameters or fields of
// request bodies; so are tokens that an OAuth service issues. They are removed from URLs,
// bodies and errors, also in the forms that they have in JSON, in URLs and in base64. In
// a recorded request, a removed secret matches any text, so a tape can be played back
// with another key.
//
// [WithSecrets] and [WithSecretHeaders] add secrets, such as the names of organizations,
// and [WithRedact] removes anything else that the host considers confidential. Before the
// new file replaces the old one, all of it is searched again, and a remaining secret is a
// [SecretError].
//
// Some values are not treated as secrets unless WithSecrets names them. Values of less
// than eight bytes (cookies: twelve) occur in too many words. In fields of bodies,
// numbers, words and sentences are not secrets either: `"max_tokens": 10000000`, `"auth":
// "required"`. Texts of the conversation itself are not secrets, because a tool must be
// called with the same arguments in playback. A secret that a model writes across several
// events of a stream is not found at the HTTP level; the middleware finds it, because it
// sees the whole text.
//
// # The file
//
// The file consists of JSON lines, so that people can read and compare it. The first line
// has the version. Each interaction has a line for its request, one for the head of the
// response, one for each piece of the body or each event, and one for its end.
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
	"github.com/aycoder/aycoder/internal/option"
)

// Mode selects whether a [Tape] records requests or plays back recorded responses.
type Mode int

// The modes.
const (
	// Replay serves recorded responses, and never sends a request.
	Replay Mode = iota
	// Record sends every request, and writes a new file when the tape is closed.
	Record
	// RecordMissing serves recorded responses, in any order, and sends the requests that
	// are not in the file. The new file has the interactions of this session in their
	// order, followed by the unused interactions of the old file.
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

// ParseMode returns the mode whose [Mode.String] is name. An empty name means [Replay].
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

// A Tape records the traffic with a model in a file, or plays the file back. It is safe
// for concurrent use. It does not start goroutines.
type Tape struct {
	path    string
	cfg     config
	secrets *secrets
	torn    *FormatError

	mu       sync.Mutex
	recorded []*interaction // the interactions in the file
	log      []*interaction // this session's interactions, in order
	requests int
	part     *partFile
	size     int64 // bytes that were recorded in this session
	err      error // the first error that made the recording unusable
	closed   bool
}

// Open opens a tape for the recording at path. If options are invalid, the error joins an
// [*aycoder.ConfigError] for each of them.
//
// In mode [Replay], the file must exist and be complete. If the file is missing, the
// error is [fs.ErrNotExist]. In mode [RecordMissing], the file may be missing. In both
// modes, the error is a [*FormatError] if the file is damaged, and an
// [*aycoder.LimitError] if the file is larger than [WithMaxBytes].
func Open(path string, opts ...Option) (*Tape, error) {
	cfg := config{maxBytes: defaultMaxBytes, transport: http.DefaultTransport}
	if err := option.Apply(&cfg, opts); err != nil {
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

// load reads the recording. A missing file is an error, except in mode [RecordMissing].
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

// Mode returns the mode of the tape.
func (t *Tape) Mode() Mode { return t.cfg.mode }

// Torn returns a [*FormatError] that describes the damaged end of a file, if the file was
// opened with [WithTorn]. For a complete file it returns nil.
func (t *Tape) Torn() error {
	if t.torn == nil {
		return nil
	}
	return t.torn
}

// Unused returns a description, in one line, of each recorded interaction that has not
// been used yet. An interaction is a request with its response.
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

// Close ends the tape. Later requests fail with [fs.ErrClosed]. If the tape is recording,
// Close writes the file. If a response is unfinished, the file has the part of the
// response that has arrived. If the recording cannot be written completely, the file
// keeps its previous content. The error is then, for example, a [*SecretError], an
// [*aycoder.LimitError], or an error of the file system. Further calls of Close have no
// effect.
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

// isFileError reports whether the recording itself is usable, and only an error of the
// file system prevented saving it.
func isFileError(err error) bool {
	_, path := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	return path || link
}

// write writes the whole file. It also removes secrets from interactions that were
// recorded before the secrets became known.
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

// block returns the lines of an interaction, without the secrets that are known by now.
// It searches the result once more, because a secret may appear in a form that is not
// removed.
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

// begin adds a new interaction to the tape, before the request is sent.
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
	if t.err == nil { // otherwise the recording will not be written
		t.log = append(t.log, it)
	}
	t.grow(it, requestBytes+len(it.request()))
	return nil
}

const (
	// requestBytes is the approximate size of a request without its body; pieceBytes is
	// that of a piece of a response.
	requestBytes = 512
	pieceBytes   = 16
)

// grow counts the bytes that are kept in memory, and reports whether the recording is
// still usable. A recording that is too large is given up, but the program goes on.
func (t *Tape) grow(it *interaction, n int) bool {
	if it.done || t.err != nil {
		return false
	}
	if t.size += int64(n); t.size > t.cfg.maxBytes {
		t.spoil(&aycoder.LimitError{Limit: "recording bytes", Max: t.cfg.maxBytes})
	}
	return t.err == nil
}

// spoil records why the recording is unusable, and frees its memory.
func (t *Tape) spoil(err error) {
	if t.err == nil {
		t.err = err
	}
	for _, it := range t.log {
		if it.number == 0 { // others may still be played back
			it.body, it.cuts, it.events = nil, nil, nil
		}
	}
}

// finish ends an interaction, and writes it to the part file. Later events are ignored.
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

// ended is finish for callers that do not hold the lock.
func (t *Tape) ended(it *interaction, end ending, fail *failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(it, end, fail)
}

// TB has the methods of [testing.TB] that [ForTest] needs.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// ForTest opens a tape for a test and closes it when the test ends. The test fails if the
// tape cannot be opened or written. In mode [Replay], the test also fails if a recorded
// interaction was not used.
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
