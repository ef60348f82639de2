package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxFile   = 1 << 20  // bytes of a configuration
	maxScript = 16 << 20 // bytes of a script
	maxWords  = 256      // of a command that are looked up
)

// scripts returns the files of a project that a command names. Which words of a command are names is not
// certain, so each word that is the name of a file counts, as it is, below the directories that the command names
// (for "cd hooks && ./run.sh"), and as a path from the root of the machine. A name that leads out of the project
// by a symbolic link is an error.
func scripts(root *os.Root, dir, command string) ([]string, error) {
	words := candidates(dir, command)
	if len(words) > maxWords {
		return nil, errors.New("the command is too long to say which scripts it names")
	}
	dirs := []string{"."}
	for _, w := range words {
		if info, err := root.Stat(filepath.FromSlash(w)); err == nil && info.IsDir() && w != "." {
			dirs = append(dirs, w)
		}
	}
	var found []string
	for _, d := range dirs {
		for _, w := range words {
			name := path.Join(d, w)
			ok, err := isScript(root, name)
			if err != nil {
				return nil, err
			}
			if ok && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// isScript reports whether a name is that of a file in the project.
func isScript(root *os.Root, name string) (bool, error) {
	local := filepath.FromSlash(name)
	if !filepath.IsLocal(local) {
		return false, nil
	}
	info, err := root.Stat(local)
	switch {
	case err == nil:
		return info.Mode().IsRegular(), nil
	case errors.Is(err, fs.ErrNotExist), !reached(root, local):
		return false, nil
	}
	return false, fmt.Errorf("%s leads out of the project", name)
}

// reached reports whether the name, or a directory on the way to it, is in the project, so that an error is that of
// a link.
func reached(root *os.Root, name string) bool {
	for n := name; n != "."; n = filepath.Dir(n) {
		if info, err := root.Lstat(n); err == nil {
			return info.Mode()&fs.ModeSymlink != 0
		}
	}
	return false
}

// candidates returns the words of a command that may be names, with slashes and relative to the project.
func candidates(dir, command string) []string {
	var out []string
	add := func(w string) {
		for _, p := range projectVariables {
			w = strings.TrimPrefix(w, p)
		}
		w = strings.TrimPrefix(filepath.ToSlash(w), strings.TrimSuffix(filepath.ToSlash(dir), "/")+"/")
		w = path.Clean(w)
		if w != "." && w != "/" && !slices.Contains(out, w) && len(out) <= maxWords {
			out = append(out, w)
		}
	}
	for _, quote := range []string{`"`, `'`} { // a name with blanks is in quotes
		for i, part := range strings.Split(command, quote) {
			if i%2 == 1 && part != "" {
				add(part)
			}
		}
	}
	plain := strings.NewReplacer(`"`, "", `'`, "", `\`, "").Replace(command)
	for _, text := range []string{command, plain} {
		for _, w := range strings.FieldsFunc(text, separates) {
			add(w)
		}
	}
	return out
}

// separates reports whether a character ends a word of a command.
func separates(r rune) bool { return strings.ContainsRune(" \t\r\n'\";|&<>()=,`", r) }

// projectVariables are the ways in which a command of a shell names the directory of the project.
var projectVariables = []string{
	"${CLAUDE_PROJECT_DIR}/", "$CLAUDE_PROJECT_DIR/", "${PWD}/", "$PWD/", "$(pwd)/",
}

// unpathed removes the path from an error, which the text around it names.
func unpathed(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
