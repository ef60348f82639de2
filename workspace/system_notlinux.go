//go:build !linux

package workspace

import "os"

// finalName returns false: these systems do not tell the path of an open file.
func (r *root) finalName(*os.File) (string, bool) { return "", false }

// writable checks the write permission of the file, since an exchange needs only that of the
// directory.
func (t *target) writable() error {
	f, err := t.dir.OpenFile(t.name, os.O_WRONLY|openFlags, 0)
	if err == nil {
		err = f.Close()
	}
	return err
}
