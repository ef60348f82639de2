package code

import (
	"bytes"
	"path"
	"strings"
)

// form is how a language writes comments.
type form struct {
	name  string
	line  []string    // what begins a comment up to the end of the line
	block [][2]string // what begins and ends a longer one
	docs  bool        // Python's: a string on its own lines
}

// forms returns the languages, by the names that cloc 1.96 has for them, with the endings and the names of their files.
func forms() map[string]form {
	slashes, c := []string{"//"}, [][2]string{{"/*", "*/"}}
	hash, markup := []string{"#"}, [][2]string{{"<!--", "-->"}}
	out := map[string]form{}
	add := func(f form, names ...string) {
		for _, n := range names {
			out[n] = f
		}
	}
	add(form{"Go", slashes, c, false}, ".go")
	add(form{"TypeScript", slashes, c, false}, ".ts", ".tsx", ".mts", ".cts")
	add(form{"JavaScript", slashes, c, false}, ".js", ".mjs", ".cjs")
	add(form{"JSX", slashes, c, false}, ".jsx")
	add(form{"Rust", slashes, c, false}, ".rs")
	add(form{"Java", slashes, c, false}, ".java")
	add(form{"Kotlin", slashes, c, false}, ".kt", ".kts")
	add(form{"Gradle", slashes, c, false}, ".gradle", ".gradle.kts")
	add(form{"CUDA", slashes, c, false}, ".cu", ".cuh")
	add(form{"Swift", slashes, c, false}, ".swift")
	add(form{"C", slashes, c, false}, ".c")
	add(form{"C++", slashes, c, false}, ".cc", ".cpp", ".cxx", ".c++")
	add(form{"C/C++ Header", slashes, c, false}, ".h", ".hh", ".hpp", ".hxx")
	add(form{"C#", slashes, c, false}, ".cs")
	add(form{"Dart", slashes, c, false}, ".dart")
	add(form{"Scala", slashes, c, false}, ".scala")
	add(form{"PHP", []string{"//", "#"}, c, false}, ".php")
	add(form{"Protocol Buffers", slashes, c, false}, ".proto")
	add(form{"SCSS", slashes, c, false}, ".scss")
	add(form{"CSS", nil, c, false}, ".css")
	add(form{"SQL", []string{"--"}, c, false}, ".sql")
	add(form{"Python", hash, nil, true}, ".py", ".pyi")
	add(form{"Ruby", hash, [][2]string{{"=begin", "=end"}}, false}, ".rb", ".rake", ".gemspec", ".ru", "rakefile", "gemfile")
	add(form{"Perl", hash, nil, false}, ".pl", ".pm")
	add(form{"Bourne Shell", hash, nil, false}, ".sh")
	add(form{"Bourne Again Shell", hash, nil, false}, ".bash")
	add(form{"Fish Shell", hash, nil, false}, ".fish")
	add(form{"zsh", hash, nil, false}, ".zsh")
	add(form{"PowerShell", hash, [][2]string{{"<#", "#>"}}, false}, ".ps1", ".psm1")
	add(form{"Lua", []string{"--"}, [][2]string{{"--[[", "]]"}}, false}, ".lua")
	add(form{"Nix", hash, c, false}, ".nix")
	add(form{"YAML", hash, nil, false}, ".yml", ".yaml", ".clang-format", ".clang-tidy", ".sublime-syntax")
	add(form{"TOML", hash, nil, false}, ".toml")
	add(form{"make", hash, nil, false}, "makefile", "gnumakefile", ".mk", ".am")
	add(form{"CMake", hash, nil, false}, "cmakelists.txt", ".cmake", ".cmake.in")
	add(form{"Dockerfile", hash, nil, false}, "dockerfile", ".dockerfile")
	add(form{"Properties", []string{"#", "!"}, nil, false}, ".properties")
	add(form{"HTML", nil, markup, false}, ".html", ".htm")
	add(form{"XML", nil, markup, false}, ".xml", ".plist")
	add(form{"Maven", nil, markup, false}, "pom.xml")
	add(form{"SVG", nil, markup, false}, ".svg")
	add(form{"Markdown", nil, markup, false}, ".md", ".markdown")
	add(form{"Vuejs Component", slashes, append(c, markup...), false}, ".vue")
	add(form{"m4", []string{"dnl "}, nil, false}, ".m4", ".ac")
	add(form{"yacc", slashes, c, false}, ".y")
	add(form{"lex", slashes, c, false}, ".l")
	add(form{"JSON", nil, nil, false}, ".json")
	add(form{"Text", nil, nil, false}, ".txt")
	return out
}

// languageOf returns the language of a file by its name, or "".
func (r *languages) languageOf(name string) string {
	base := strings.ToLower(path.Base(name))
	f, ok := r.forms[base]
	for !ok { // .gradle.kts before .kts
		i := strings.IndexByte(base, '.')
		if i < 0 {
			break
		}
		f, ok = r.forms[base[i:]]
		base = base[i+1:]
	}
	return f.name
}

// ofScript returns the language of a script by its first line, or "".
func ofScript(data []byte) string {
	line, _, _ := bytes.Cut(data[:min(len(data), 200)], []byte("\n"))
	words := strings.Fields(strings.TrimPrefix(string(line), "#!"))
	if !bytes.HasPrefix(line, []byte("#!")) || len(words) == 0 {
		return ""
	}
	name := path.Base(words[0])
	if name == "env" && len(words) > 1 {
		name = path.Base(words[len(words)-1])
	}
	switch strings.TrimRight(name, "0123456789.") {
	case "sh", "dash", "ash":
		return "Bourne Shell"
	case "bash":
		return "Bourne Again Shell"
	case "zsh":
		return "zsh"
	case "python":
		return "Python"
	case "perl":
		return "Perl"
	case "ruby":
		return "Ruby"
	case "node":
		return "JavaScript"
	}
	return ""
}

// languages knows the forms of languages.
type languages struct {
	forms  map[string]form
	byName map[string]form
}

func newLanguages() *languages {
	l := &languages{forms(), map[string]form{}}
	for _, f := range l.forms {
		l.byName[f.name] = f
	}
	return l
}

// LanguageOf returns the language of a file by its name, as cloc 1.96 calls it, or "" if it is not known.
func LanguageOf(name string) string { return newLanguages().languageOf(name) }

// CountLines counts the lines of a file by the language of its name: a line with code and a comment is code, and a blank
// line is blank also in the middle of a comment. Like cloc, it looks for comments without
// regard to strings, but for a mark of a comment in quotes on the same line. Of an unknown language, no line is counted.
func CountLines(name string, data []byte) (code, comment, blank int) {
	l := newLanguages()
	return l.count(l.languageOf(name), data)
}

func (l *languages) count(language string, data []byte) (code, comment, blank int) {
	f, ok := l.byName[language]
	if !ok {
		return 0, 0, 0
	}
	end := "" // of the comment that the line begins in
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte("\n"))
		s := strings.TrimSpace(string(line))
		if s == "" {
			blank++
			continue
		}
		had := false
		if had, end = f.code(s, end); had {
			code++
		} else {
			comment++
		}
	}
	return code, comment, blank
}

// code reports whether a line has code. end is the end of the comment that the line begins in, or "", and then that of the one
// it leaves open.
func (f *form) code(s, end string) (has bool, open string) {
	var next places
	for {
		if end != "" {
			_, rest, ok := strings.Cut(s, end)
			if !ok {
				return has, end
			}
			s, end = strings.TrimSpace(rest), ""
		}
		at, mark, close := f.mark(s, has, &next)
		if at < 0 {
			return has || s != "", ""
		}
		has = has || strings.TrimSpace(s[:at]) != ""
		if close == "" { // up to the end of the line
			return has, ""
		}
		s, end = s[at+len(mark):], close
	}
}

// places are where the marks of a form are next in a line, counted from its end, so that no part of a long line is searched
// twice. 0 is unknown, and -1 nowhere.
type places [4]int

// find returns where a mark is in the rest of a line, or -1.
func (p *places) find(n int, s, mark string) int {
	if p[n] == 0 || p[n] > len(s) {
		if i := strings.Index(s, mark); i >= 0 {
			p[n] = len(s) - i
		} else {
			p[n] = -1
		}
	}
	if p[n] < 0 {
		return -1
	}
	return len(s) - p[n]
}

// mark returns where the first comment of a line begins, or -1, and how it ends: "" is the end of the line.
func (f *form) mark(s string, has bool, next *places) (at int, mark, close string) {
	type found struct {
		at          int
		mark, close string
	}
	var all [len(next)]found
	marks := all[:0]
	add := func(m, c string) {
		marks = append(marks, found{next.find(len(marks), s, m), m, c})
	}
	for _, m := range f.line {
		if m != "#" && m != "!" && m != "dnl " {
			add(m, "")
		} else if !has && strings.HasPrefix(s, m) && !strings.HasPrefix(s, "#!") { // within a line, it may be anything
			return 0, m, ""
		}
	}
	for _, b := range f.block {
		add(b[0], b[1])
	}
	if f.docs && !has && (strings.HasPrefix(s, `"""`) || strings.HasPrefix(s, `'''`)) {
		return 0, s[:3], s[:3]
	}
	for {
		var first *found
		for i := range marks { // at the same place, the longer one goes first: Lua has -- and --[[
			if m := &marks[i]; m.at >= 0 && (first == nil || m.at < first.at || m.at == first.at && len(m.mark) > len(first.mark)) {
				first = m
			}
		}
		if first == nil {
			return -1, "", ""
		}
		if !quoted(s, first.at) {
			return first.at, first.mark, first.close
		}
		first.at = -1
	}
}

// quoted reports whether a place in a line is behind an odd number of quotes of a kind.
func quoted(s string, at int) bool {
	for _, q := range []string{`"`, "'", "`"} {
		if strings.Count(s[:at], q)%2 == 1 {
			return true
		}
	}
	return false
}

// isGenerated reports whether nobody writes a file by hand, by its name or its beginning.
func isGenerated(name string, head []byte) bool {
	base := strings.ToLower(path.Base(name))
	for _, end := range []string{".pb.go", ".pb.cc", ".pb.h", "_pb2.py", ".min.js", ".min.css", ".map", "_generated.go", ".gen.go", ".g.dart", ".lock", ".snap"} {
		if strings.HasSuffix(base, end) {
			return true
		}
	}
	switch base {
	case "go.sum", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "go.work.sum":
		return true
	}
	head = head[:min(len(head), 1000)]
	return bytes.Contains(head, []byte("DO NOT EDIT")) && bytes.Contains(bytes.ToLower(head), []byte("generated")) || bytes.Contains(head, []byte("@generated"))
}

// IsTest reports whether a file is a test or belongs to one, by its name or its directories.
func IsTest(name string) bool {
	base := strings.ToLower(path.Base(name))
	stem, _, _ := strings.Cut(base, ".")
	if strings.HasPrefix(stem, "test_") || strings.HasSuffix(stem, "_test") || strings.Contains(base, ".test.") || strings.Contains(base, ".spec.") ||
		strings.HasSuffix(strings.TrimSuffix(path.Base(name), path.Ext(name)), "Test") || stem == "conftest" {
		return true
	}
	for dir := range strings.SplitSeq(strings.ToLower(path.Dir(name)), "/") {
		switch dir {
		case "test", "tests", "__tests__", "testdata", "spec", "fixtures", "testutil":
			return true
		}
	}
	return false
}
