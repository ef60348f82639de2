package wiretest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
)

// selfEnv is the environment variable that [StartSelf] sets in the process that it starts.
const selfEnv = "AYCODER_BENCH_SERVE"

// ServeSelf must be called first in TestMain. In a process that [StartSelf] has started, it
// serves h until the benchmark ends. In any other process, it returns false at once.
func ServeSelf(h http.Handler) bool {
	if os.Getenv(selfEnv) == "" {
		return false
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() { // ends with the benchmark
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_ = http.Serve(l, h)
	return true
}

// StartSelf starts the test binary again, as a server on the loopback interface, and returns its
// address. In a benchmark, the CPU time of a separate process does not count as that of the
// client.
func StartSelf(t testing.TB) (addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), selfEnv+"=1")
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	// The server ends when its standard input does, even if this process is killed. So no server
	// outlives a benchmark that crashed.
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	if _, err := fmt.Fscanln(stdout, &addr); err != nil {
		t.Fatal(err)
	}
	return addr
}
