package tools

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/regular"
)

const maxExcludes = 1 << 20 // bytes

// GitExcludes returns the ignore patterns that the user has set for all repositories, for use
// with [WithIgnored]. The patterns are in the file that core.excludesFile names in the user's or
// the system's git configuration. If core.excludesFile is not set, or git is not installed, they
// are in $XDG_CONFIG_HOME/git/ignore, or in ~/.config/git/ignore if that variable is unset.
// Without such a file, the result is "".
//
// Git is asked only if ~/.gitconfig, git/config in that directory, /etc/gitconfig or ../etc/gitconfig beside the directory of
// the program git may set it, or if $GIT_CONFIG_GLOBAL or $GIT_CONFIG_SYSTEM name other files.
//
// The files and the program git are those of this machine, also for a workspace elsewhere.
//
// The tools themselves never read this file, because it is outside of the workspace and a model
// decides what the tools read. Instead, the host reads the file once, by calling GitExcludes.
// GitExcludes ignores a core.excludesFile in the configuration of a repository.
func GitExcludes(ctx context.Context) (string, error) {
	home, homeErr := os.UserHomeDir()
	config := cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
	name := ""
	if maySet("GIT_CONFIG_GLOBAL", filepath.Join(home, ".gitconfig"), filepath.Join(config, "git", "config")) {
		name = gitConfig(ctx, "--global", "core.excludesFile")
	}
	if name == "" && maySet("GIT_CONFIG_SYSTEM", systemConfigs()...) {
		name = gitConfig(ctx, "--system", "core.excludesFile")
	}
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if name == "" {
		if homeErr != nil && !filepath.IsAbs(config) {
			return "", nil // no home directory
		}
		name = filepath.Join(config, "git", "ignore")
	}
	data, err := readOwn(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read git's excludes: %w", err)
	}
	return string(data), nil
}

// readOwn reads a file of the user.
func readOwn(name string) ([]byte, error) {
	f, err := regular.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxExcludes))
}

// maySet reports whether git has to be asked: if the variable names another file, or one of the files may set
// core.excludesFile. Mostly none does, and to start git takes longer than all else.
func maySet(variable string, files ...string) bool {
	if _, other := os.LookupEnv(variable); other {
		return true
	}
	return slices.ContainsFunc(files, func(name string) bool {
		data, err := readOwn(name)
		text := bytes.ToLower(data)
		return err == nil && (bytes.Contains(text, []byte("excludesfile")) || bytes.Contains(text, []byte("include")))
	})
}

// systemConfigs returns where the system's configuration may be. It belongs to the prefix with which git was built, such
// as /usr/local/etc, /opt/homebrew/etc or etc in the directory of Git for Windows, and only with /usr it is in /etc.
func systemConfigs() []string {
	all := []string{"/etc/gitconfig"}
	if git, err := exec.LookPath("git"); err == nil {
		all = append(all, filepath.Join(filepath.Dir(git), "..", "etc", "gitconfig"))
	}
	return all
}

// gitConfig returns a path from one of the configuration files, or "".
func gitConfig(ctx context.Context, scope, key string) string {
	cmd := exec.CommandContext(ctx, "git", "config", scope, "--includes", "--type=path",
		"--get", key)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil { // mostly an unset key
		return ""
	}
	return strings.TrimSuffix(string(out), "\n")
}
