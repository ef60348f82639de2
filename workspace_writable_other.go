//go:build !linux

package aycoder

import "os"

// writable asks whether the file may be written: an exchange does not ask.
func (t *target) writable() error {
	f, err := t.dir.OpenFile(t.name, os.O_WRONLY|openFlags, 0)
	if err == nil {
		err = f.Close()
	}
	return err
}
