//go:build !linux && !darwin

package cli

// freeBytes returns how much of the disk of a directory the user may still write.
func freeBytes(string) (int64, bool) { return 0, false }
