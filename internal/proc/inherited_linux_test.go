package proc

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A program that was started with open descriptors, as by a shell with <(command), keeps them to itself.
func TestInheritedDescriptors(t *testing.T) {
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 200)
	require.NoError(t, err)
	defer unix.Close(fd)
	var out bytes.Buffer
	script := fmt.Sprintf("[ ! -e /proc/self/fd/%d ] || echo open", fd)
	_, err = Run(t.Context(), &Command{Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Output: &out})
	require.NoError(t, err)
	assert.Empty(t, out.String())
}
