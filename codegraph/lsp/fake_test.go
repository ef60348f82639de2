package lsp_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
)

// modeVariable makes the test binary a language server of the kind that it names.
const modeVariable = "AYCODER_FAKE_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		(&fakeServer{mode: mode, in: bufio.NewReader(os.Stdin), texts: map[string]string{}}).serve()
		os.Exit(0)
	}
	code := m.Run()
	if left := leftOver(); left != "" && code == 0 {
		fmt.Println("left behind:", left)
		code = 1
	}
	os.Exit(code)
}

// leftOver returns the goroutines of the package that have outlived the tests, and the processes.
func leftOver() string {
	stacks := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(g, "codegraph/lsp.(*") {
			return g
		}
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())) // not everywhere
	return string(children)
}

// A fakeServer is a language server for files in which a line "error: TEXT" is an error and "def NAME" defines a
// name. It misbehaves as its mode says.
type fakeServer struct {
	mode  string
	in    *bufio.Reader
	texts map[string]string // by URI
}

type fakeMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		TextDocument struct {
			URI     string `json:"uri"`
			Version int    `json:"version"`
			Text    string `json:"text"`
		} `json:"textDocument"`
		ContentChanges []struct {
			Text string `json:"text"`
		} `json:"contentChanges"`
		Position struct{ Line, Character int } `json:"position"`
		NewName  string                        `json:"newName"`
		RootURI  string                        `json:"rootUri"`
		Query    string                        `json:"query"`
		Changes  []struct {
			URI  string `json:"uri"`
			Type int    `json:"type"`
		} `json:"changes"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (f *fakeServer) serve() {
	fmt.Fprintln(os.Stderr, "fake server in mode", f.mode)
	for {
		m, ok := f.next()
		if !ok {
			return
		}
		f.handle(m)
	}
}

func (f *fakeServer) next() (*fakeMessage, bool) {
	size := 0
	for {
		line, err := f.in.ReadString('\n')
		if err != nil {
			return nil, false
		}
		if line == "\r\n" {
			break
		}
		size, _ = strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "Content-Length:")))
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(f.in, body); err != nil {
		return nil, false
	}
	m := new(fakeMessage)
	return m, json.Unmarshal(body, m) == nil
}

func send(m map[string]any) {
	m["jsonrpc"] = "2.0"
	body, _ := json.Marshal(m)
	fmt.Printf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

func (f *fakeServer) handle(m *fakeMessage) {
	switch m.Method {
	case "initialize":
		f.initialize(m)
	case "textDocument/didOpen":
		f.texts[m.Params.TextDocument.URI] = m.Params.TextDocument.Text
		f.opened(m)
	case "textDocument/didChange":
		last, now := f.texts[m.Params.TextDocument.URI], m.Params.ContentChanges[0].Text
		f.texts[m.Params.TextDocument.URI] = now
		if f.mode != "changes" || strings.Contains(last+now, "error: ") {
			f.opened(m)
		}
	case "textDocument/didClose":
		delete(f.texts, m.Params.TextDocument.URI)
		if f.mode == "changes" {
			publish(m.Params.TextDocument.URI, 0, []any{})
		}
	case "workspace/didChangeWatchedFiles":
		for _, c := range m.Params.Changes {
			f.remember(fmt.Sprintf("%d %s", c.Type, filepath.Base(c.URI)))
		}
	case "textDocument/diagnostic":
		send(map[string]any{"id": m.ID, "result": map[string]any{"kind": "full",
			"items": errorsOf(f.texts[m.Params.TextDocument.URI])}})
	case "textDocument/definition":
		if f.word(m) != "never" { // which is not answered
			send(map[string]any{"id": m.ID, "result": f.find("def " + f.word(m))})
		}
	case "textDocument/references":
		if strings.HasPrefix(strings.Split(f.texts[m.Params.TextDocument.URI], "\n")[m.Params.Position.Line], "#") { // as gopls does in comments
			send(map[string]any{"id": m.ID, "error": map[string]any{"code": 0, "message": "no identifier found"}})
			return
		}
		send(map[string]any{"id": m.ID, "result": f.find(f.word(m))})
	case "textDocument/rename":
		f.rename(m)
	case "workspace/symbol":
		var all []any
		for _, at := range f.find("def " + m.Params.Query) {
			all = append(all, map[string]any{"name": m.Params.Query, "location": at})
		}
		send(map[string]any{"id": m.ID, "result": all})
	case "shutdown":
		send(map[string]any{"id": m.ID, "result": nil})
	case "exit":
		f.remember("exit")
		os.Exit(0)
	case "":
		f.remember("answer " + string(m.Result) + string(m.Error))
	}
}

// remember writes a line that the test can read, into the directory of the workspace.
func (f *fakeServer) remember(line string) {
	w, err := os.OpenFile(cmp.Or(os.Getenv("AYCODER_FAKE_LOG"), "seen.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(w, line)
		w.Close()
	}
}

func (f *fakeServer) initialize(m *fakeMessage) {
	f.remember("start " + f.mode)
	switch f.mode {
	case "silent":
		return
	case "dies at start":
		os.Exit(3)
	case "children":
		child := exec.Command("sleep", "1000")
		child.SysProcAttr = nil
		if child.Start() == nil {
			f.remember("child " + strconv.Itoa(child.Process.Pid))
		}
	case "wrong ids":
		for _, id := range []string{`"x"`, `999`, `null`, `-1`} {
			send(map[string]any{"id": json.RawMessage(id), "result": map[string]any{}})
		}
	}
	capabilities := map[string]any{"textDocumentSync": map[string]any{"openClose": true, "change": 1, "save": true}}
	if f.mode == "pull" {
		capabilities["diagnosticProvider"] = map[string]any{}
	}
	if f.mode == "utf-8" {
		capabilities["positionEncoding"] = "utf-8"
	}
	send(map[string]any{"id": m.ID, "result": map[string]any{"capabilities": capabilities}})
	if f.mode == "asks" {
		for i, method := range []string{"workspace/configuration", "client/registerCapability", "workspace/applyEdit",
			"window/workDoneProgress/create", "workspace/workspaceFolders", "no/such"} {
			params := map[string]any{"items": []any{map[string]any{"section": "fake.sub"}, map[string]any{"section": "other.x"}},
				"edit": map[string]any{"changes": map[string]any{m.Params.RootURI + "/a.fake": []any{map[string]any{"newText": "hacked"}}}}}
			send(map[string]any{"id": i + 1, "method": method, "params": params})
		}
	}
	if f.mode == "deaf" {
		select {}
	}
}

// opened reports the errors of a text.
func (f *fakeServer) opened(m *fakeMessage) {
	uri, version := m.Params.TextDocument.URI, m.Params.TextDocument.Version
	switch f.mode {
	case "mute":
		return
	case "unloaded": // as gopls is for a file of a new package
		switch {
		case version >= 5:
		case m.Method == "textDocument/didOpen":
			publish(uri, version, []any{})
			return
		case strings.Contains(f.texts[uri], "late"):
			f.remember("waits")
			return
		}
		for uri, text := range f.texts {
			publish(uri, version, errorsOf(text))
		}
		return
	case "hangs":
		select {}
	case "dies":
		os.Exit(1)
	case "floods":
		for i := 0; ; i++ {
			publish(fmt.Sprintf("%s%d", uri, i%100_000), 0, []any{problem(1, strings.Repeat("flood ", 1000))})
		}
	case "giant":
		fmt.Printf("Content-Length: 99999999999\r\n\r\n{")
		for {
			fmt.Print(strings.Repeat(" ", 1<<16))
		}
	case "garbage":
		fmt.Print(strings.Repeat("not a header\r\n", 10_000))
		return
	case "endless header":
		for {
			fmt.Print("Content-Length: 5; ")
		}
	case "asleep": // until it is told of the sixth version
		if version < 6 {
			f.remember("waits")
			return
		}
		for uri, text := range f.texts {
			publish(uri, 0, errorsOf(text))
		}
		return
	case "slow":
		if version == 2 { // never said; the next version has it, too
			f.remember("waits")
			return
		}
	}
	if f.mode == "unversioned" || f.mode == "changes" {
		version = 0
	}
	if f.mode != "pull" {
		publish(uri, version, errorsOf(f.texts[uri]))
	}
	if f.mode == "others" { // an error in a file that is not open
		var all []any
		if strings.Contains(f.texts[uri], "breaks") {
			all = append(all, problem(3, "broken by another file"))
		}
		publish(filepath.Dir(uri)+"/other.fake", 0, append(all, problem(1, "old")))
	}
}

// units returns the length of a text in the units of the server's positions.
func (f *fakeServer) units(s string) int {
	if f.mode == "utf-8" {
		return len(s)
	}
	return len(utf16.Encode([]rune(s)))
}

// all returns the texts of all files by URI: those that are open, and those on the disk.
func (f *fakeServer) all() map[string]string {
	all := map[string]string{}
	names, _ := filepath.Glob("*.fake")
	dir, _ := os.Getwd()
	for _, name := range names {
		data, _ := os.ReadFile(name)
		all[(&url.URL{Scheme: "file", Path: filepath.ToSlash(dir) + "/" + name}).String()] = string(data)
	}
	maps.Copy(all, f.texts)
	return all
}

// word returns the word at a position.
func (f *fakeServer) word(m *fakeMessage) string {
	line := strings.Split(f.texts[m.Params.TextDocument.URI], "\n")[m.Params.Position.Line]
	for at, r := range line {
		if f.units(line[:at]) == m.Params.Position.Character {
			end := strings.IndexFunc(line[at:], func(r rune) bool { return !unicode.IsLetter(r) })
			if end < 0 || !unicode.IsLetter(r) {
				end = len(line) - at
			}
			return line[at : at+end]
		}
	}
	return "?"
}

// find returns where the last word of what stands.
func (f *fakeServer) find(what string) []any {
	out := []any{}
	name := what[strings.LastIndexByte(what, ' ')+1:]
	for uri, text := range f.all() {
		for n, line := range strings.Split(text, "\n") {
			for at := range line {
				if strings.HasPrefix(line[at:], what) {
					start := f.units(line[:at+len(what)-len(name)])
					out = append(out, map[string]any{"uri": uri, "range": map[string]any{
						"start": map[string]any{"line": n, "character": start},
						"end":   map[string]any{"line": n, "character": start + f.units(name)}}})
				}
			}
		}
	}
	if f.mode == "outside" {
		out = append(out, map[string]any{"uri": "file:///usr/lib/100%25%20std.fake", "range": map[string]any{
			"start": map[string]any{"line": 4, "character": 7}, "end": map[string]any{"line": 4, "character": 9}}})
	}
	return out
}

func (f *fakeServer) rename(m *fakeMessage) {
	if m.Params.NewName == "bad name" {
		send(map[string]any{"id": m.ID, "error": map[string]any{"code": -32602, "message": "not a name"}})
		return
	}
	changes := map[string][]any{}
	for _, found := range f.find(f.word(m)) {
		at := found.(map[string]any)
		uri := at["uri"].(string)
		changes[uri] = append(changes[uri], map[string]any{"range": at["range"], "newText": m.Params.NewName})
	}
	if f.mode == "operations" {
		send(map[string]any{"id": m.ID, "result": map[string]any{"documentChanges": []any{map[string]any{"kind": "delete", "uri": "x"}}}})
		return
	}
	if f.mode == "wrong place" {
		for _, list := range changes {
			list[0] = map[string]any{"newText": m.Params.NewName, "range": map[string]any{
				"start": map[string]any{"line": 0, "character": 0}, "end": map[string]any{"line": 0, "character": 1}}}
		}
	}
	send(map[string]any{"id": m.ID, "result": map[string]any{"changes": changes}})
}

func publish(uri string, version int, problems []any) {
	params := map[string]any{"uri": uri, "diagnostics": problems}
	if version > 0 {
		params["version"] = version
	}
	send(map[string]any{"method": "textDocument/publishDiagnostics", "params": params})
}

func problem(line int, text string) any {
	at := map[string]any{"line": line - 1, "character": 0}
	return map[string]any{"range": map[string]any{"start": at, "end": at}, "severity": 1, "message": text, "code": "E1"}
}

func errorsOf(text string) []any {
	out := []any{map[string]any{"severity": 2, "message": "a warning"}}
	for i, line := range strings.Split(text, "\n") {
		if _, what, ok := strings.Cut(line, "error: "); ok {
			out = append(out, problem(i+1, what))
		}
	}
	return out
}
