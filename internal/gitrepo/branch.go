package gitrepo

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/aycoder/aycoder/internal/regular"
)

// Branch returns the branch of git that is checked out in a directory, or "" if there is none.
// It reads the file HEAD. Running git would run what the repository configures.
func Branch(dir string) string {
	for {
		dotGit := filepath.Join(dir, ".git")
		if info, err := os.Stat(dotGit); err == nil {
			if !info.IsDir() { // a worktree or a submodule
				target, ok := strings.CutPrefix(shortFile(dotGit), "gitdir: ")
				if dotGit = filepath.FromSlash(target); !ok {
					return ""
				}
				if !filepath.IsAbs(dotGit) {
					dotGit = filepath.Join(dir, dotGit)
				}
			}
			branch, ok := strings.CutPrefix(shortFile(filepath.Join(dotGit, "HEAD")), "ref: refs/heads/")
			if !ok || strings.ContainsFunc(branch, unicode.IsControl) {
				return ""
			}
			return branch
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// Worktree returns the directory in which git keeps the index of a linked worktree or of a submodule, or "" if the directory is
// none. One that its repository does not know is none: its .git could lead to anybody's repository.
func Worktree(dir string) string {
	dotGit := filepath.Join(dir, ".git")
	target, ok := strings.CutPrefix(shortFile(dotGit), "gitdir: ")
	if !ok {
		return ""
	}
	if target = filepath.FromSlash(target); !filepath.IsAbs(target) {
		target = filepath.Join(dir, target)
	}
	back := filepath.FromSlash(shortFile(filepath.Join(target, "gitdir")))
	if back == "" { // a submodule, whose configuration leads back
		config, _ := regular.Read(filepath.Join(target, "config"), 1<<20)
		for line := range strings.Lines(string(config)) {
			if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "worktree" {
				value = strings.TrimSpace(value)
				if text, err := strconv.Unquote(value); err == nil {
					value = text
				}
				back = filepath.Join(filepath.FromSlash(value), ".git")
			}
		}
	}
	if back != "" && !filepath.IsAbs(back) {
		back = filepath.Join(target, back)
	}
	own, err1 := os.Lstat(dotGit)
	known, err2 := os.Lstat(back)
	if err1 != nil || err2 != nil || !os.SameFile(own, known) {
		return ""
	}
	return target
}

// shortFile returns a short regular file without its line feed, or "".
func shortFile(name string) string {
	const enough = 4 << 10
	data, _ := regular.Read(name, enough)
	return strings.TrimRight(strings.ToValidUTF8(string(data), "\uFFFD"), "\r\n")
}
