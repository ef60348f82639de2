//go:build !linux

package aycoder

import "os"

// finalName reports false: the path of an open file is not to be had here.
func (w *Workspace) finalName(*os.File) (string, bool) { return "", false }
