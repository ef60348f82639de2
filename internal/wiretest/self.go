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

// selfEnv is set in the process that [StartSelf] starts.
const selfEnv = "AYCODER_BENCH_SERVE"

// ServeSelf returns false unless [StartSelf] has started this process. Then it serves h
// until the benchmark ends. TestMain calls it first.
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

// StartSelf starts the test binary once more, as a server on loopback whose CPU time does
// not count as the client's, and returns its address.
func StartSelf(t testing.TB) (addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), selfEnv+"=1")
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	if _, err := fmt.Fscanln(stdout, &addr); err != nil {
		t.Fatal(err)
	}
	return addr
}
