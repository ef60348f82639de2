package vocab

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Text is a file of a corpus, or a piece of one.
type Text struct {
	Name string
	// Kind is the language or format, such as "go" or "ja".
	Kind string
	Data string
	// Hash depends on the data alone. Its lowest bit says whether the text is for fitting.
	Hash uint64
}

// Spoken reports whether a kind of texts is a natural language.
func Spoken(kind string) bool { return slices.Contains(spoken, kind) }

const (
	minText = 400
	maxText = 32 << 10
)

// kinds maps the end of a file's name to the kind.
var kinds = map[string]string{
	".go": "go", ".py": "python", ".js": "javascript", ".mjs": "javascript", ".ts": "typescript", ".tsx": "typescript",
	".java": "java", ".cs": "csharp", ".rb": "ruby", ".php": "php", ".kt": "kotlin", ".rs": "rust", ".c": "c", ".h": "c",
	".sh": "shell", ".css": "css", ".html": "html", ".xml": "xml", ".json": "json", ".yml": "yaml", ".yaml": "yaml",
	".md": "markdown", ".sql": "sql", ".proto": "proto", ".s": "assembly", ".csv": "csv", ".svg": "svg", ".log": "log",
	".pl": "perl", ".rst": "rst", ".vue": "vue", ".toml": "toml", ".txt": "text",
}

// spoken are the languages whose manual pages and translations count as prose.
var spoken = []string{
	"de", "fr", "es", "it", "pt_BR", "nl", "sv", "pl", "cs", "tr", "vi", "ru", "uk", "el", "he", "ar", "hi", "ja", "ko", "zh_CN", "zh_TW",
}

// Read returns at most limit texts of each kind from the files under the roots, always the same
// ones while the files stay the same.
func Read(roots []string, limit int) ([]Text, error) {
	byKind := map[string][]Text{}
	seen := map[uint64]bool{}
	add := func(name, kind, data string) {
		if len(data) > maxText {
			data = data[:maxText]
			for !utf8.ValidString(data[len(data)-3:]) && len(data) > maxText-8 {
				data = data[:len(data)-1]
			}
		}
		sum := sha256.Sum256([]byte(data))
		hash := binary.BigEndian.Uint64(sum[:])
		if len(data) < minText || kind == "" || seen[hash] || strings.Contains(data, "\x00") {
			return
		}
		seen[hash] = true
		byKind[kind] = append(byKind[kind], Text{name, kind, data, hash})
	}
	for _, root := range roots {
		files := map[string][]string{}
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			kind := kindOf(name)
			files[kind] = append(files[kind], name)
			return nil
		})
		if err != nil {
			return nil, err
		}
		for kind, names := range files {
			if kind == "" {
				continue
			}
			slices.SortFunc(names, func(a, b string) int { return cmp.Compare(hashOf(a), hashOf(b)) })
			for _, name := range names[:min(len(names), 2*limit)] {
				if data, err := readText(name); err == nil {
					for i, piece := range pieces(name, data) {
						add(name+"#"+string(rune('0'+i)), kind, piece)
					}
				}
			}
		}
	}
	for _, t := range slices.Concat(byKind["go"], byKind["html"])[:min(limit, len(byKind["go"]))] {
		packed := pack(t.Data)
		add(t.Name, "base64", base64.StdEncoding.EncodeToString(packed))
		add(t.Name, "hexdump", hex.Dump(packed))
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	for kind, args := range commands {
		args = strings.Fields(strings.ReplaceAll(strings.Join(args, " "), "GOROOT", strings.TrimSpace(string(goroot))))
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			continue // the command needs a program or a directory that is not there
		}
		for len(out) > 0 {
			n := min(len(out), 2000+int(hashOf(string(out[:min(64, len(out))]))%14000))
			add(args[0], kind, string(out[:n]))
			out = out[n:]
		}
	}
	var out []Text
	for _, kind := range slices.Sorted(func(yield func(string) bool) {
		for k := range byKind {
			if !yield(k) {
				return
			}
		}
	}) {
		texts := byKind[kind]
		slices.SortFunc(texts, func(a, b Text) int { return cmp.Compare(a.Hash, b.Hash) })
		out = append(out, texts[:min(len(texts), limit)]...)
	}
	return out, nil
}

// commands are programs whose output is like the output of tools.
var commands = map[string][]string{
	"diff":    {"git", "log", "-p", "-n", "60"},
	"stat":    {"git", "log", "--stat", "-n", "600"},
	"listing": {"ls", "-lR", "/usr/lib"},
	"tests":   {"go", "test", "-v", "-run", "Encod|Merge|Read", "strings", "bytes", "encoding/json", "text/template"},
	"grep":    {"grep", "-rn", "nil,", "GOROOT/src/net", "GOROOT/src/cmd/go"},
}

func hashOf(s string) uint64 {
	sum := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(sum[:])
}

func kindOf(name string) string {
	dir := filepath.ToSlash(filepath.Dir(name))
	if strings.HasSuffix(name, ".min.js") || strings.HasSuffix(name, ".min.css") {
		return "minified"
	}
	if lang, ok := between(dir, "/locale/", "/LC_MESSAGES"); ok && strings.HasSuffix(name, ".mo") && slices.Contains(spoken, lang) {
		return lang
	}
	if _, section, ok := strings.Cut(dir, "/man/"); ok && strings.HasSuffix(name, ".gz") {
		if lang, _, ok := strings.Cut(section, "/"); ok && slices.Contains(spoken, lang) {
			return lang
		}
		return "manual"
	}
	return kinds[filepath.Ext(name)]
}

func between(s, before, after string) (string, bool) {
	_, s, ok := strings.Cut(s, before)
	s, _, ok2 := strings.Cut(s, after)
	return s, ok && ok2
}

func readText(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	switch filepath.Ext(name) {
	case ".gz":
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return "", err
		}
		if data, err = io.ReadAll(r); err != nil {
			return "", err
		}
	case ".mo":
		data = translations(data)
	}
	return string(data), nil
}

// pieces cuts translations, which come in few and long files, into several texts.
func pieces(name, data string) []string {
	if filepath.Ext(name) != ".mo" {
		return []string{data}
	}
	var out []string
	for len(data) > 6000 && len(out) < 4 {
		n := 3000 + int(hashOf(data[:100])%3000)
		n += strings.IndexByte(data[n:]+"\n", '\n')
		out = append(out, data[:n])
		data = data[n:]
	}
	return out
}

// translations returns the translated strings of a message catalogue in the format of gettext.
func translations(mo []byte) []byte {
	if len(mo) < 28 || binary.LittleEndian.Uint32(mo) != 0x950412de {
		return nil
	}
	n, table := int(binary.LittleEndian.Uint32(mo[8:])), int(binary.LittleEndian.Uint32(mo[16:]))
	var out []byte
	for i := 1; i < n && table+8*i+8 <= len(mo); i++ {
		length := int(binary.LittleEndian.Uint32(mo[table+8*i:]))
		at := int(binary.LittleEndian.Uint32(mo[table+8*i+4:]))
		if at+length > len(mo) {
			break
		}
		out = append(append(out, bytes.ReplaceAll(mo[at:at+length], []byte{0}, []byte{'\n'})...), '\n')
	}
	return out
}

func pack(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.Bytes()
}
