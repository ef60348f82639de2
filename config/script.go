package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/regular"
)

const (
	maxFile    = 1 << 20  // bytes of a configuration
	maxScript  = 16 << 20 // bytes of a script
	maxWords   = 512      // of a command that are looked up
	maxDirs    = 16       // that a command names
	maxNames   = 1 << 13  // in one of them, if its files are run
	maxSources = 256      // of them that are run
	maxShown   = 8 << 10  // bytes of a question that the user can still read
	maxLines   = 100      // of a question
	maxAsked   = 100      // questions about a project
)

// An allowance bounds the work for questions about a project, since it is done before the user trusts anything.
type allowance struct {
	lookups int   // of names
	bytes   int64 // of scripts
}

func newAllowance() *allowance { return &allowance{lookups: 1 << 13, bytes: 64 << 20} }

var (
	errWords = errors.New("the command is too long to say which scripts it names")
	errMuch  = errors.New("the project names too many scripts, or scripts that are too large")
)

// A finder looks for the files of a project that a command names.
type finder struct {
	root *os.Root
	may  *allowance
	dirs []string
	out  []string
}

// scripts returns the files of a project that a command names. Which words of a command are names is not certain,
// and neither is where it runs them. So each word and each end of a word after a slash counts that is the name of
// a file in the project, or in a directory that the command names (for "cd hooks && ./run.sh"). That covers names
// that begin with a variable, with .. or at the root of the machine. A name that leads out of the project by a
// symbolic link is an error.
func scripts(root *os.Root, command string, may *allowance) ([]string, error) {
	words, here := candidates(command)
	if len(words) > maxWords {
		return nil, errWords
	}
	found, sources := unnamed(command, words)
	words = append(words, found...)
	f := &finder{root: root, may: may, dirs: []string{"."}}
	for i := 0; i < len(f.dirs); i++ { // a directory can name others
		for _, w := range words {
			if err := f.look(path.Join(f.dirs[i], w)); err != nil {
				return nil, err
			}
		}
		if len(f.dirs) > maxDirs {
			return nil, errWords
		}
	}
	for i, dir := range f.dirs {
		if i == 0 && !here {
			continue
		}
		if err := f.sources(dir, sources); err != nil {
			return nil, err
		}
	}
	slices.Sort(f.out)
	return f.out, nil
}

// unnamed returns the names of files that programs among the words find by themselves, and patterns of those that they
// run when they are given a directory.
func unnamed(command string, words []string) (names, sources []string) {
	for _, w := range words {
		switch {
		case w == "make", w == "gmake":
			names = append(names, "GNUmakefile", "makefile", "Makefile")
		case w == "npm", w == "pnpm", w == "yarn":
			names = append(names, "package.json")
		case w == "node", w == "nodejs", w == "bun", w == "deno", w == "tsx", w == "ts-node":
			sources = append(sources, "package.json", "index.*")
			if names = append(names, extended(words)...); w == "bun" || w == "deno" { // which run scripts of these, as npm does
				names = append(names, "package.json", "deno.json", "deno.jsonc")
			}
		case w == "just":
			names = append(names, "justfile", "Justfile", ".justfile")
		case w == "rake":
			names = append(names, "Rakefile")
		case w == "task":
			names = append(names, "Taskfile.yml", "Taskfile.yaml")
		case w == "go" && goRun().MatchString(command):
			sources = append(sources, "*.go", "*.[sSchm]", "*.cc", "*.cpp", "*.cxx", "*.hh", "*.hpp", "*.syso")
		case strings.HasPrefix(w, "python") && !strings.Contains(w, "/"):
			sources = append(sources, "__main__.py")
			for _, m := range module().FindAllStringSubmatch(command, maxDirs) {
				names = append(names, modules(m[1])...)
			}
		}
	}
	return names, sources
}

// extended returns the files that node and the like may take for words: ./check is check.js.
func extended(words []string) (files []string) {
	for _, w := range words {
		for _, ext := range []string{".js", ".cjs", ".mjs", ".ts", ".tsx", ".jsx", ".node"} {
			files = append(files, w+ext)
		}
	}
	return files
}

// goRun matches go run, and not the flag of go test.
var goRun = late.Regexp(`\bgo(\s+-C[\s=]*\S+)?\s+run\b`)

// module matches the option of python that names a module.
var module = late.Regexp(`\s-[A-Za-z]*m[\s'"]*([A-Za-z_][\w.]*)`)

// modules returns the files that python may run for a module.
func modules(name string) (files []string) {
	name = strings.ReplaceAll(name, ".", "/")
	for at, r := range name + "/" {
		if r == '/' {
			files = append(files, name[:at]+"/__init__.py")
		}
	}
	return append(files, name+".py", name+"/__main__.py")
}

// sources notes the files of a directory that match one of some patterns, without tests.
func (f *finder) sources(dir string, patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	d, err := f.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return unpathed(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames)
	if err != nil && err != io.EOF {
		return unpathed(err)
	}
	matches := 0
	for _, name := range names {
		match := func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }
		if !slices.ContainsFunc(patterns, match) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if matches++; matches > maxSources {
			return errMuch
		}
		if err := f.look(path.Join(dir, name)); err != nil {
			return err
		}
	}
	if len(names) == maxNames {
		return errMuch
	}
	return nil
}

// look notes whether a name is that of a file or a directory in the project.
func (f *finder) look(name string) error {
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) {
		return nil
	}
	if f.may.lookups--; f.may.lookups < 0 {
		return errMuch
	}
	info, err := f.root.Stat(local)
	switch {
	case errors.Is(err, fs.ErrNotExist), err != nil && !f.linked(local):
	case err != nil:
		return fmt.Errorf("%s leads out of the project", name)
	case info.IsDir():
		f.dirs = appendNew(f.dirs, name)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", name)
	case strings.ContainsAny(name, "\n\r\t") || legible(name) != nil:
		return fmt.Errorf("the name %q does not show as it is", name)
	default:
		f.out = appendNew(f.out, name)
	}
	return nil
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// linked reports whether the name, or the directory on the way to it that is there, is a link.
func (f *finder) linked(name string) bool {
	for n := name; n != "." && f.may.lookups > 0; n = filepath.Dir(n) {
		f.may.lookups--
		if info, err := f.root.Lstat(n); err == nil {
			return info.Mode()&fs.ModeSymlink != 0
		}
	}
	return false
}

// hash returns the hash of a script.
func (f *finder) hash(name string) (sum [sha256.Size]byte, err error) {
	in, err := regular.OpenIn(f.root, filepath.FromSlash(name))
	if err != nil {
		return sum, unpathed(err)
	}
	defer in.Close()
	most := min(maxScript, f.may.bytes)
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(in, most+1))
	f.may.bytes -= n
	switch {
	case err != nil:
		return sum, unpathed(err)
	case n > maxScript:
		return sum, fmt.Errorf("larger than %d bytes", maxScript)
	case n > most:
		return sum, errMuch
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// Separators of words, from those of a shell to those inside of a word: --config=a.js, PATH=a:b and ${VAR:-a.sh}.
var separators = []string{" \t\r\n;|&<>()`'\"", " \t\r\n;|&<>()`'\"=,", " \t\r\n;|&<>()`'\"=,:{}[]$@"}

// candidates returns the words of a command that may be names, with slashes, and whether the directory itself is one.
func candidates(command string) (found []string, here bool) {
	c := &words{}
	c.scan(command, 3)
	return c.found, c.here
}

// words are the words of a command, each once, and one more than the largest number at most.
type words struct {
	found []string
	here  bool
}

// scan adds the words of a text. A word of a shell may be a command again, as after sh -c.
func (c *words) scan(text string, depth int) {
	plain := strings.NewReplacer(`"`, "", `'`, "", `\`, "").Replace(text)
	for _, ends := range separators {
		for _, t := range []string{text, plain} {
			for _, w := range strings.FieldsFunc(t, func(r rune) bool { return strings.ContainsRune(ends, r) }) {
				c.add(w)
			}
		}
	}
	for _, w := range lex(text) {
		c.add(w)
		if depth > 0 && w != text {
			c.scan(w, depth-1)
		}
	}
}

// add adds a word, without what may be an option before it, and its ends.
func (c *words) add(w string) {
	w = filepath.ToSlash(w)
	c.here = c.here || w == "." || w == "./"
	c.end(strings.TrimLeft(w, "-+?"))
	for more := true; more && len(c.found) <= maxWords; {
		c.end(w)
		_, w, more = strings.Cut(w, "/")
	}
}

func (c *words) end(w string) {
	w = path.Clean(w)
	if w != "." && !strings.HasPrefix(w, "/") && len(c.found) <= maxWords && !slices.Contains(c.found, w) {
		c.found = append(c.found, w)
	}
}

// lex returns the words of a command as a shell would, without expansions.
func lex(s string) []string {
	var out []string
	var word strings.Builder
	var quote rune
	escaped := false
	for _, r := range s + "\n" {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && strings.ContainsRune(separators[0], r):
			out = append(out, word.String())
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	return slices.DeleteFunc(append(out, word.String()), func(w string) bool { return w == "" })
}

// gap matches a blank after which the user may no longer see what is before it: in a line, or of many lines.
var gap = late.Regexp(`\s{80}|(?:\n[ \t\r]*){20}`)

// readable returns an error for a question that the user could not judge: one that is too long, or has characters
// that do not show or change what is shown, such as those of a terminal or of the direction of writing.
func (q Question) readable() error {
	shown := strings.Join(append([]string{string(q.Kind), q.Command, q.Address, q.File}, q.Variables...), "\n")
	if len(shown) > maxShown || strings.Count(shown, "\n") > maxLines {
		return errors.New("it is too long for anybody to judge; put the command into a script")
	}
	if gap().MatchString(shown) {
		return errors.New("it has a long blank, which does not show, and could move the rest out of sight")
	}
	return legible(shown)
}

// legible returns an error for a text with characters that do not show.
func legible(shown string) error {
	for i, r := range shown {
		switch {
		case r == utf8.RuneError, !unicode.IsPrint(r) && !strings.ContainsRune("\n\t\r", r),
			r == '\r' && !strings.HasPrefix(shown[i:], "\r\n"):
			return fmt.Errorf("it has the character %U, which does not show", r)
		}
	}
	if mask.Visible(shown) != shown { // fillers and the like, which count as letters, marks and symbols
		return errors.New("it has a character that does not show")
	}
	return nil
}

// unpathed removes the path from an error, which the text around it names.
func unpathed(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
