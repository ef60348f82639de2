//go:build !unix

package plugin

import "os/exec"

// alone does nothing: what git has started ends when it loses its pipes.
func alone(*exec.Cmd) {}
