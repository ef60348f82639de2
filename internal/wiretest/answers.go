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

// A WrittenAnswer is one answer of a provider that was written by hand for the project,
// with what it means by the provider's documentation. docs/testing.md describes the files
// that hold them.
type WrittenAnswer struct {
	// Name is unique in a directory. Place is where the case stands, as "file:line".
	Name, Place string
	// Sources are the addresses of the documents that the expected value comes from.
	Sources []string
	// Client chooses among the clients of a package; it is empty for the usual one.
	Client string
	Status int
	Header [][2]string
	// Body is what comes over the connection before the transfer coding of HTTP. Reset
	// says that the connection is then closed without an end.
	Body  []byte
	Reset bool
	// Want is the expected value, a fact a line.
	Want []string
}

// Bytes tells answers apart: the body, or if there is none, everything else that the client
// gets to see of the answer.
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

// ReadAnswers reads all cases in the files of a directory.
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

type answerParser struct {
	file    string
	line    int
	sources map[string]string
	cases   []*WrittenAnswer

	// of the case that is being read
	form, lineEnds, encoding string
	cut                      int // bytes that are missing at the end
	damage                   int // the byte that is damaged, or -1
	bom                      bool
	body                     strings.Builder
	state                    string
}

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

// source reads a line before the first case: "[name] address", or a comment.
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

// finish makes the body of the case that was read.
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

// shape makes the bytes of a body out of the lines in the file.
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

// appendData appends a server-sent event for a line that is its data, and any other line
// as it is. The name of an event is the "type" of its data.
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

// appendFrame appends a message of an AWS event stream: "name {payload}" is an event,
// "!name {payload}" an exception, and "?code text" an error that has no payload.
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
