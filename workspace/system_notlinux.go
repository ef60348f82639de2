//go:build !linux

package workspace

import "os"

// finalName reports false: the path of an open file is not to be had here.
func (w *Workspace) finalName(*os.File) (string, bool) { return "", false }

// writable asks whether the file may be written: an exchange does not ask.
func (t *target) writable() error {
	f, err := t.dir.OpenFile(t.name, os.O_WRONLY|openFlags, 0)
	if err == nil {
		err = f.Close()
	}
	return err
}
