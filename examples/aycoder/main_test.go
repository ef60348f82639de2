package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without a terminal, a model and arguments the program does the whole task of the demo.
func TestDemo(t *testing.T) {
	if os.Getenv("AYCODER_TEST_MAIN") != "" {
		os.Args = os.Args[:1]
		main()
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestDemo$")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"AYCODER_TEST_MAIN=1", "PATH=" + os.Getenv("PATH"), "SYSTEMROOT=" + os.Getenv("SYSTEMROOT"), "TMPDIR=" + t.TempDir()}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), errs.String())
	require.Contains(t, out.String(), "The check passes")
}
