package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
// The files and the program git are those of this machine, also for a workspace elsewhere.
//
// The tools themselves never read this file, because it is outside of the workspace and a model
// decides what the tools read. Instead, the host reads the file once, by calling GitExcludes.
// GitExcludes ignores a core.excludesFile in the configuration of a repository.
func GitExcludes(ctx context.Context) (string, error) {
	name := ""
	for _, scope := range []string{"--global", "--system"} {
		name = cmp.Or(name, gitConfig(ctx, scope, "core.excludesFile"))
	}
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if name == "" {
		home, err := os.UserHomeDir()
		config := cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config"))
		if err != nil && !filepath.IsAbs(config) {
			return "", nil // no home directory
		}
		name = filepath.Join(config, "git", "ignore")
	}
	f, err := regular.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read git's excludes: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxExcludes))
	if err != nil {
		return "", fmt.Errorf("read git's excludes: %w", err)
	}
	return string(data), nil
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
