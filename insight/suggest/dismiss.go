package suggest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/replace"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxDismissals = 1 << 20 // bytes
	maxReason     = 500     // bytes
)

// Load reads the reasons for which suggestions were dismissed, by their ids. A file that does not exist has none. Keep the file
// where the workspace cannot change it, such as in a directory of the user: else a repository could hide what is wrong with it.
func Load(file string) (map[string]string, error) {
	data, err := regular.Read(file, maxDismissals)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read dismissals: %w", err)
	}
	all := map[string]string{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("read dismissals: %s: %w", file, err)
	}
	return all, nil
}

// Dismiss adds a reason to the file, or removes that of an id if reason is "". It is for one program at a time.
func Dismiss(file, id, reason string) error {
	if id == "" || strings.Trim(id, "0123456789abcdef") != "" {
		return fmt.Errorf("dismiss: %q is not the id of a suggestion", id)
	}
	all, err := Load(file)
	if err != nil {
		return err
	}
	if reason = runes.Shorten(runes.Line(strings.TrimSpace(reason)), maxReason); reason == "" {
		delete(all, id)
	} else {
		all[id] = reason
	}
	data, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return fmt.Errorf("dismiss: %w", err)
	}
	if len(data) > maxDismissals {
		return errors.New("dismiss: there are too many dismissals")
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("dismiss: %w", err)
	}
	err = replace.File(file, ".dismissed-*", func(f *os.File) error {
		_, err := f.Write(append(data, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("dismiss: %w", err)
	}
	return nil
}
