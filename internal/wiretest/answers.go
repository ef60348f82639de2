package wiretest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/eventstream"
)

// A WrittenAnswer is an answer of a provider that was written by hand, with the meaning that the
// provider's documentation gives it. docs/testing.md describes the format of the files.
type WrittenAnswer struct {
	// Name is unique in a directory. Place is the place of the case, as "file:line".
	Name, Place string
	// Sources are the addresses of the documents that define the expected value.
	Sources []string
	// Client is the name of the client to test if a package has several. It is empty for the
	// usual client.
	Client string
	// Status and Header are those of the HTTP response.
	Status int
	Header [][2]string
	// Body is the body of the response before the transfer coding of HTTP. If Reset is set, the
	// server breaks the connection off after the body.
	Body  []byte
	Reset bool
	// Want is the expected value, with one fact in each line.
	Want []string
}

// Bytes returns the content by which answers are told apart: the body or, if the body is empty,
// everything else that the client can see.
func (a *WrittenAnswer) Bytes() string {
	if len(a.Body) > 0 {
		return string(a.Body)
	}
	return fmt.Sprint(a.Status, " ", a.Header, " ", a.Reset)
}

// The lines that open a case, its body and its expected value.
const (
	openCase = "=== "
	openBody = ">>>"
	openWant = "<<<"
)

// ReadAnswers reads all cases in the files of a directory. It fails the test if there are none.
func ReadAnswers(t testing.TB, dir string) []*WrittenAnswer {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers in %s: %v", dir, err)
	}
	var all []*WrittenAnswer
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		p := &answerParser{file: name, sources: map[string]string{}}
		if err := p.parse(string(data)); err != nil {
			t.Fatalf("%s:%d: %v", name, p.line, err)
		}
		all = append(all, p.cases...)
	}
	return all
}

// An answerParser reads a file of cases, line by line. It is strict: a case with a misspelt key
// or without a source would otherwise test less than it seems to.
type answerParser struct {
	file    string
	line    int
	sources map[string]string
	cases   []*WrittenAnswer

	// The following fields belong to the case that is being read.
	form, lineEnds, encoding string
	cut                      int // bytes that are missing at the end
	damage                   int // the byte that is damaged, or -1
	bom                      bool
	body                     strings.Builder
	state                    string
}

// parse reads the text of a file.
func (p *answerParser) parse(text string) error {
	for l := range strings.Lines(text) {
		p.line++
		l = strings.TrimSuffix(l, "\n")
		if err := p.take(l); err != nil {
			return err
		}
	}
	return p.finish()
}

// take reads one line. The state is the last line that opened a part of a case, and says what the
// line means. The body may contain lines that look like the start of a case.
func (p *answerParser) take(l string) error {
	name, opens := strings.CutPrefix(l, openCase)
	switch {
	case opens && p.state != openBody:
		if err := p.finish(); err != nil {
			return err
		}
		p.cases = append(p.cases, &WrittenAnswer{Name: name, Place: fmt.Sprint(p.file, ":", p.line),
			Status: 200})
		p.form, p.lineEnds, p.encoding, p.cut, p.damage, p.bom = "raw", "", "", 0, -1, false
		p.body.Reset()
		p.state = openCase
	case p.state == "":
		return p.source(l)
	case p.state == openCase && l == openBody, p.state == openBody && l == openWant:
		p.state = l
	case p.state == openCase:
		return p.head(l)
	case p.state == openBody:
		p.body.WriteString(l + "\n")
	case strings.TrimSpace(l) != "":
		c := p.cases[len(p.cases)-1]
		c.Want = append(c.Want, l)
	}
	return nil
}

// source reads a line before the first case: "[name] address", or a comment. Only https addresses
// count, so that readers can look up every expected value.
func (p *answerParser) source(l string) error {
	name, address, ok := strings.Cut(strings.TrimPrefix(l, "["), "] ")
	if !ok || !strings.HasPrefix(l, "[") {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("address of source %q is not one of https: %q", name, address)
	}
	p.sources[name] = address
	return nil
}

// head reads a line between the name of a case and its body.
func (p *answerParser) head(l string) (err error) {
	c := p.cases[len(p.cases)-1]
	key, val, ok := strings.Cut(l, ": ")
	if !ok {
		return fmt.Errorf("not a line of the form key: value: %q", l)
	}
	switch key {
	case "source":
		name, why, ok := strings.Cut(strings.TrimPrefix(val, "["), "] ")
		if !ok || p.sources[name] == "" || strings.TrimSpace(why) == "" {
			return fmt.Errorf("source is not of the form [name] what it says, with a known name: %q", val)
		}
		c.Sources = append(c.Sources, p.sources[name])
	// A note is a comment for the readers of the file.
	case "note":
	case "client":
		c.Client = val
	case "status":
		c.Status, err = strconv.Atoi(val)
	case "header":
		name, val, ok := strings.Cut(val, ": ")
		if !ok {
			return fmt.Errorf("not a header: %q", l)
		}
		c.Header = append(c.Header, [2]string{name, val})
	case "form":
		p.form = val
	case "line ends":
		p.lineEnds = val
	case "encoding":
		p.encoding = val
	case "missing": // bytes at the end
		p.cut, err = strconv.Atoi(val)
	case "damaged": // the byte at an offset
		p.damage, err = strconv.Atoi(val)
	case "begins with":
		p.bom = val == "byte order mark"
	case "ends with":
		c.Reset = val == "reset"
	default:
		return fmt.Errorf("no such key: %q", key)
	}
	return err
}

// finish makes the body of the case that has been read. Missing and damaged bytes are counted
// after the line ends have been converted, and before the body is compressed.
func (p *answerParser) finish() error {
	if p.state == "" {
		return nil
	}
	c := p.cases[len(p.cases)-1]
	switch {
	case p.state != openWant || len(c.Want) == 0:
		return fmt.Errorf("case %q has no expected value", c.Name)
	case len(c.Sources) == 0:
		return fmt.Errorf("case %q has no source", c.Name)
	}
	body, err := p.shape(p.body.String())
	if err != nil {
		return fmt.Errorf("case %q: %w", c.Name, err)
	}
	// A byte order mark may precede a stream of server-sent events (HTML, section 9.2.6).
	if p.bom {
		body = append([]byte("\xEF\xBB\xBF"), body...)
	}
	switch p.lineEnds {
	case "":
	case "CRLF":
		body = bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n"))
	case "CR":
		body = bytes.ReplaceAll(body, []byte("\n"), []byte("\r"))
	default:
		return fmt.Errorf("case %q: no such line ends: %q", c.Name, p.lineEnds)
	}
	if p.cut > len(body) || p.damage >= len(body) {
		return fmt.Errorf("case %q: the body has %d bytes only", c.Name, len(body))
	}
	body = body[:len(body)-p.cut]
	if p.damage >= 0 {
		// One flipped bit is enough to show whether the client verifies the checksums of a frame.
		body[p.damage] ^= 1
	}
	if p.encoding == "gzip" {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // a buffer takes everything
		_ = w.Close()
		body = b.Bytes()
		c.Header = append(c.Header, [2]string{"Content-Encoding", "gzip"})
	}
	c.Body = body
	return nil
}

// shape converts the lines of a body into bytes, as the key "form" of the case says. The files
// thereby show only the payload of the events, which is the subject of most cases.
func (p *answerParser) shape(text string) ([]byte, error) {
	if p.form == "raw" {
		return []byte(text), nil
	}
	var b []byte
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		var err error
		switch p.form {
		case "data":
			b = appendData(b, l, false)
		case "event and data":
			b = appendData(b, l, true)
		case "aws":
			b, err = appendFrame(b, l)
		case "aws chunks":
			if strings.HasPrefix(l, "{") {
				l = `chunk {"bytes":"` + base64.StdEncoding.EncodeToString([]byte(l)) + `","p":"abcdefg"}`
			}
			b, err = appendFrame(b, l)
		default:
			err = fmt.Errorf("no such form: %q", p.form)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendData appends a line as a server-sent event if the line is data, and unchanged if not. If
// named is set, the event gets a name, which is the "type" in its data.
func appendData(b []byte, l string, named bool) []byte {
	if l != "[DONE]" && !strings.HasPrefix(l, "{") {
		return append(append(b, l...), '\n')
	}
	var data struct{ Type string }
	if named && json.Unmarshal([]byte(l), &data) == nil {
		b = append(b, "event: "+data.Type+"\n"...)
	}
	return append(append(append(b, "data: "...), l...), "\n\n"...)
}

// appendFrame appends a message of an AWS event stream. The line "name {payload}" is an event,
// "!name {payload}" is an exception, and "?code text" is an error without a payload.
func appendFrame(b []byte, l string) ([]byte, error) {
	name, payload, ok := strings.Cut(l, " ")
	switch {
	case !ok:
		return nil, fmt.Errorf("not a line of the form name payload: %q", l)
	case name[0] == '!':
		return eventstream.AppendException(b, name[1:], payload), nil
	case name[0] == '?':
		return eventstream.Append(b, "", ":message-type", "error", ":error-code", name[1:],
			":error-message", payload), nil
	}
	return eventstream.AppendEvent(b, name, payload), nil
}
