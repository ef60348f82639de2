package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// editor returns a function that edits a text in the user's editor, in a file whose name has an ending, or nil if
// none is configured. A text that was changed is kept in its file if the editor fails.
func (a *app) editor(lend func(func() error) error) func(ending string, text []byte) ([]byte, error) {
	argv := strings.Fields(a.getenv("VISUAL"))
	if len(argv) == 0 {
		argv = strings.Fields(a.getenv("EDITOR"))
	}
	if len(argv) == 0 {
		return nil
	}
	return func(ending string, text []byte) ([]byte, error) {
		dir, err := os.MkdirTemp("", "aycoder-edit-")
		if err != nil {
			return nil, err
		}
		file, keep := filepath.Join(dir, "edit"+ending), false
		defer func() {
			if !keep {
				_ = os.RemoveAll(dir)
			}
		}()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
		cmd := exec.Command(argv[0], append(argv[1:], file)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
		if err := lend(cmd.Run); err != nil {
			err = fmt.Errorf("run %s: %w", argv[0], err)
			if now, _ := os.ReadFile(file); len(now) > 0 && !bytes.Equal(now, text) {
				keep, err = true, fmt.Errorf("the text is kept in %s: %w", file, err)
			}
			return nil, err
		}
		return os.ReadFile(file)
	}
}
