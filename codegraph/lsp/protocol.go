package lsp

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/late"
)

// The parts of the Language Server Protocol 3.17 that are used.

type wirePosition struct {
	Line      int `json:"line"`      // zero-based
	Character int `json:"character"` // zero-based, in units of the encoding
}

type wireRange struct {
	Start wirePosition `json:"start"`
	End   wirePosition `json:"end"`
}

type wireLocation struct {
	URI   string    `json:"uri"`
	Range wireRange `json:"range"`
	// A LocationLink has these instead.
	TargetURI string    `json:"targetUri"`
	Selection wireRange `json:"targetSelectionRange"`
}

// locations decodes Location | Location[] | LocationLink[] | null.
type locations []wireLocation

func (l *locations) UnmarshalJSON(data []byte) error {
	var many []wireLocation
	if err := json.Unmarshal(data, &many); err != nil {
		many = make([]wireLocation, 1)
		if err := json.Unmarshal(data, &many[0]); err != nil {
			return err
		}
	}
	for i, at := range many {
		if at.TargetURI != "" {
			many[i] = wireLocation{URI: at.TargetURI, Range: at.Selection}
		}
	}
	*l = many
	return nil
}

type wireDiagnostic struct {
	Range    wireRange       `json:"range"`
	Severity int             `json:"severity"`
	Code     json.RawMessage `json:"code"` // integer or string
	Source   string          `json:"source"`
	Message  string          `json:"message"`
}

const severityError = 1

type publishParams struct {
	URI         string           `json:"uri"`
	Version     *int             `json:"version"`
	Diagnostics []wireDiagnostic `json:"diagnostics"`
}

// diagnosticReport is the answer to textDocument/diagnostic.
type diagnosticReport struct {
	Kind    string           `json:"kind"` // "full" or "unchanged"
	Items   []wireDiagnostic `json:"items"`
	Related map[string]struct {
		Kind  string           `json:"kind"`
		Items []wireDiagnostic `json:"items"`
	} `json:"relatedDocuments"`
}

type wireSymbol struct {
	Name     string       `json:"name"`
	Location wireLocation `json:"location"`
}

type wireEdit struct {
	Range   wireRange `json:"range"`
	NewText string    `json:"newText"`
}

type workspaceEdit struct {
	Changes         map[string][]wireEdit `json:"changes"`
	DocumentChanges []struct {
		Kind         string `json:"kind"` // of an operation on a file: create, rename or delete
		TextDocument struct {
			URI string `json:"uri"`
		} `json:"textDocument"`
		Edits []wireEdit `json:"edits"`
	} `json:"documentChanges"`
}

type serverCapabilities struct {
	PositionEncoding   string          `json:"positionEncoding"`
	TextDocumentSync   json.RawMessage `json:"textDocumentSync"` // number or object
	DiagnosticProvider json.RawMessage `json:"diagnosticProvider"`
}

// saves reports whether the server wants to be told when a file is saved.
func (c *serverCapabilities) saves() bool {
	var sync struct {
		Save json.RawMessage `json:"save"` // boolean or object
	}
	_ = json.Unmarshal(c.TextDocumentSync, &sync) // a number says nothing about saving
	return present(sync.Save)
}

// present reports whether a capability is there: neither absent nor null nor false.
func present(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "null" && string(raw) != "false"
}

const maxURI = 4 << 10 // bytes of a name of a file

// drive matches the path of a URI of Windows, where the colon may have been escaped.
var drive = late.Regexp(`^/[A-Za-z]:(/|$)`)

// uriOf returns the URI of an absolute path. It escapes spaces, percent signs and the like.
func uriOf(path string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") { // C:/dir
		slashed = "/" + slashed
	}
	return (&url.URL{Scheme: "file", Path: slashed}).String()
}

// pathOf returns the absolute path of a URI in the form of the system, or "" if it names no file.
// What some servers do not escape, "#" and "?", makes it ambiguous which file is meant.
func pathOf(uri string, windows bool) string {
	if len(uri) > maxURI || strings.ContainsAny(uri, "#?") {
		return ""
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || strings.ContainsRune(u.Path, 0) {
		return ""
	}
	p := u.Path
	if !windows && (u.Host == "" || u.Host == "localhost") {
		return p
	}
	if !windows { // a file of another machine
		return ""
	}
	if drive().MatchString(p) { // servers disagree about the letter: c%3A, C:
		p = strings.ToUpper(p[1:2]) + p[2:]
	} else if u.Host != "" {
		p = "//" + u.Host + p
	}
	return strings.ReplaceAll(p, "/", `\`)
}

// byteOf returns the offset in a line of a character of the protocol, counted in UTF-8 or in UTF-16. An
// offset behind the end of the line is its end, as the specification says.
func byteOf(line string, character int, utf8Units bool) int {
	if utf8Units {
		return max(0, min(character, len(line)))
	}
	for i, r := range line {
		if character <= 0 {
			return i
		}
		if character--; r > 0xFFFF {
			character--
		}
	}
	return len(line)
}

// characterOf is the inverse of byteOf.
func characterOf(line string, offset int, utf8Units bool) int {
	offset = min(offset, len(line))
	if utf8Units {
		return offset
	}
	n := utf8.RuneCountInString(line[:offset])
	for _, r := range line[:offset] {
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// textLines finds the lines of a text.
type textLines struct {
	text   string
	starts []int
}

func linesOf(text string) textLines {
	starts := []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return textLines{text, starts}
}

// line returns a zero-based line without its end, and its offset.
func (l textLines) line(n int) (line string, start int, ok bool) {
	if n < 0 || n >= len(l.starts) {
		return "", 0, false
	}
	start = l.starts[n]
	line, _, _ = strings.Cut(l.text[start:], "\n")
	return strings.TrimSuffix(line, "\r"), start, true
}
