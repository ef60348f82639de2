//go:build !unix

package proc

import "os/exec"

// Alone does nothing: what a command has started goes on without its pipes.
func Alone(*exec.Cmd) {}
