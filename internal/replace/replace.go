// Package replace replaces files as a whole.
package replace

import (
	"os"
	"path/filepath"
)

// File writes a file under another name in its directory, flushes it to the disk, and gives it its name. So at
// each moment there is the old file or the new one, whatever happens to the process. Pattern is that of
// [os.CreateTemp] for the other name. The file is created with mode 0600, which write may change. After an
// error, the other file is removed.
func File(name, pattern string, write func(*os.File) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), pattern)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // again, perhaps
			_ = os.Remove(f.Name())
		}
	}()
	if err = write(f); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
