//go:build unix

package local

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pipe that nobody writes to is an error, and is not waited for.
func TestOpenPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	_, err := Open(name)
	require.ErrorContains(t, err, "m.gguf")
}

// Processes that a tool has started end with it.
func TestToolLeavesNothing(t *testing.T) {
	for script, want := range map[string]error{"sleep 1000 & echo $!": exec.ErrWaitDelay, "sleep 1000 & echo $!; wait": context.DeadlineExceeded} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		out, err := runTool(ctx, "sh", "-c", script)
		cancel()
		require.ErrorIs(t, err, want)
		pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, time.Minute, 10*time.Millisecond)
	}
}

// The limits of a file hold for all files of a model.
func TestOpenManyParts(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		text := binary.LittleEndian.AppendUint64([]byte("GGUF\x03\x00\x00\x00"), 0)
		text = binary.LittleEndian.AppendUint64(text, 1) // keys
		text = binary.LittleEndian.AppendUint64(text, 1)
		text = binary.LittleEndian.AppendUint32(append(text, 'k'), typeString)
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", i+1)))
		require.NoError(t, err)
		_, err = f.Write(binary.LittleEndian.AppendUint64(text, maxHeader/2-1000))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(maxHeader/2)) // a hole
		require.NoError(t, f.Close())
	}
	_, err := Open(filepath.Join(dir, "m-00001-of-00003.gguf"))
	require.ErrorContains(t, err, "m-00003-of-00003.gguf: its metadata takes more than")
}
