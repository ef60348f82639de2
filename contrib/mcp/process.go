package mcp

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/proc"
)

const (
	maxMessage = 16 << 20 // bytes
	maxStderr  = 4 << 10
	// writeFor is how long a program may leave its input unread.
	writeFor = 10 * time.Second
)

// passed are the variables that a program gets without being named: those that the protocol's own clients pass, and
// those of language and temporary files.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TMPDIR"}

// environ returns the environment of a program. A variable that the configuration names has the value given there.
func environ(s config.Server) []string {
	all := map[string]string{}
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			all[name] = value
		}
	}
	maps.Copy(all, s.Env)
	var env []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// A process is a server that is a program. It implements [mcp.Transport].
type process struct {
	in     *os.File // what it reads
	out    *os.File // what it writes
	cancel context.CancelFunc
	leave  time.Duration
	ended  chan struct{} // it has ended, with all that it has started
	stderr proc.Tail
	failed error // why it could not be run; to be read after ended
}

// start starts a program. It belongs to the connection, and not to the call that needs it first.
func start(s config.Server, o options) (*process, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{in: in, out: out, stderr: proc.Tail{Max: maxStderr}, cancel: cancel, leave: o.leave, ended: make(chan struct{})}
	handOver := func() { stdin.Close(); stdout.Close() }
	go func() {
		defer close(p.ended)
		defer handOver()
		_, p.failed = proc.Run(ctx, &proc.Command{
			Argv: append([]string{s.Command}, s.Args...), Dir: o.dir, Env: environ(s), Output: &p.stderr,
			Start: func(cmd *exec.Cmd) error {
				defer handOver()
				cmd.Stdin, cmd.Stdout = stdin, stdout
				return cmd.Start()
			},
		})
	}()
	return p, nil
}

// Connect implements [mcp.Transport].
func (p *process) Connect(ctx context.Context) (mcp.Connection, error) {
	t := mcp.IOTransport{Reader: p.out, Writer: patient{p.in}, MaxLineLength: maxMessage}
	return t.Connect(ctx)
}

// stop ends the process: it sees the end of its input, and is killed if that does not help.
func (p *process) stop() {
	p.in.Close()
	late := time.NewTimer(p.leave)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
	}
	p.cancel()
	<-p.ended
	p.out.Close()
}

// patient writes to a pipe that may be full for ever.
type patient struct{ *os.File }

func (w patient) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeFor)); err != nil {
		return 0, err
	}
	return w.File.Write(b)
}
