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
// none is configured. If the editor fails, a text that was changed is kept in its file, and so is what it has left beside it.
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
		if err := lend(func() error { return a.runEditor(cmd) }); err != nil {
			err = fmt.Errorf("run %s: %w", argv[0], err)
			now, _ := os.ReadFile(file)
			if swap, _ := os.ReadDir(dir); len(swap) > 1 || len(now) > 0 && !bytes.Equal(now, text) {
				keep, err = true, fmt.Errorf("the text is kept in %s: %w", file, err)
			}
			return nil, err
		}
		return os.ReadFile(file)
	}
}

// editAgain opens a text of a question in the user's editor, or what came of that before, if it could not be used.
func (c *chat) editAgain(ending string, text []byte) ([]byte, error) {
	open := text
	if bytes.Equal(c.opened, text) {
		open = c.edited
	}
	now, err := c.edit(ending, open)
	if err == nil {
		c.opened, c.edited = text, now
	}
	return now, err
}

// runEditor runs an editor. A signal that ends the program ends the editor, too, and takes effect when that is gone.
func (a *app) runEditor(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan error)
	go func() { gone <- cmd.Wait() }()
	var last os.Signal
	for {
		select {
		case err := <-gone:
			if last != nil {
				select {
				case a.signals <- last:
				default: // others have come meanwhile
				}
			}
			return err
		case sig := <-a.signals:
			if sig != os.Interrupt { // which the editor has got
				last = sig
				_ = cmd.Process.Signal(sig)
			}
		}
	}
}
