package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// editor returns a function that edits arguments in the user's editor, or nil if none is
// configured.
func (a *app) editor(s *screen) func([]byte) ([]byte, error) {
	argv := strings.Fields(a.getenv("VISUAL"))
	if len(argv) == 0 {
		argv = strings.Fields(a.getenv("EDITOR"))
	}
	if len(argv) == 0 {
		return nil
	}
	return func(text []byte) ([]byte, error) {
		dir, err := os.MkdirTemp("", "aycoder-edit-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "arguments.json")
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, text, "", "  "); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, pretty.Bytes(), 0o600); err != nil {
			return nil, err
		}
		cmd := exec.Command(argv[0], append(argv[1:], file)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
		if err := s.lend(cmd.Run); err != nil {
			return nil, fmt.Errorf("run %s: %w", argv[0], err)
		}
		return os.ReadFile(file)
	}
}
