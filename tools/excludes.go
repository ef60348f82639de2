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
)

const maxExcludes = 1 << 20 // bytes

// GitExcludes returns the patterns of what the user has git ignore in all repositories:
// the file that core.excludesFile names in the user's or the system's configuration,
// else $XDG_CONFIG_HOME/git/ignore, where an unset variable is ~/.config. Where there
// is no file, or no git, it is "". It is for [WithIgnored].
//
// The file lies outside of any workspace, so that the tools, which a model tells what to
// read, do not look for it: the host does, once. What a repository sets
// core.excludesFile to is not regarded.
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
			return "", nil // there is no such place
		}
		name = filepath.Join(config, "git", "ignore")
	}
	f, err := os.Open(name)
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

// gitConfig returns a path of one of the configuration files, or "".
func gitConfig(ctx context.Context, scope, key string) string {
	cmd := exec.CommandContext(ctx, "git", "config", scope, "--includes", "--type=path", "--get", key)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil { // there is none, mostly
		return ""
	}
	return strings.TrimSuffix(string(out), "\n")
}
