package proc

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"time"
)

const (
	// MaxStderr is how much of what a peer writes on its standard error is kept: the end.
	MaxStderr = 4 << 10
	// writeFor is how long a peer may leave its input unread.
	writeFor = 10 * time.Second
)

// A Peer is a program that speaks a protocol on its standard input and output. Nothing that it has started is left when
// it has ended.
type Peer struct {
	In     *Patient      // what it reads
	Out    *os.File      // what it writes
	Ended  chan struct{} // is closed when it has ended, with all that it has started
	Stderr Tail
	Failed error // why it could not be run; to be read after Ended
	cancel context.CancelFunc
}

// passed are the variables that a peer gets without being named: those that clients of the Model Context Protocol pass,
// and those of language and temporary files.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TMPDIR"}

// StartPeer starts a program in a directory, with the given variables besides those that every peer gets. It is not bound
// to a context: Stop ends it.
func StartPeer(argv []string, dir string, vars map[string]string) (*Peer, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Peer{In: &Patient{in}, Out: out, Stderr: Tail{Max: MaxStderr}, cancel: cancel, Ended: make(chan struct{})}
	handOver := func() { stdin.Close(); stdout.Close() }
	go func() {
		defer close(p.Ended)
		defer handOver()
		_, p.Failed = Run(ctx, &Command{
			Argv: argv, Dir: dir, Env: environ(vars), Output: &p.Stderr,
			Start: func(cmd *exec.Cmd) error {
				defer handOver()
				cmd.Stdin, cmd.Stdout = stdin, stdout
				return cmd.Start()
			},
		})
	}()
	return p, nil
}

// environ returns the environment of a peer. A variable that is given has that value.
func environ(vars map[string]string) (env []string) {
	all := map[string]string{}
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			all[name] = value
		}
	}
	maps.Copy(all, vars)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// Stop ends the program: it sees the end of its input, and is killed if it has not ended after that time.
func (p *Peer) Stop(patience time.Duration) {
	p.In.Close()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.Ended:
	case <-late.C:
	}
	p.Kill()
	<-p.Ended
	p.Out.Close()
}

// Kill kills the program, without waiting for its end.
func (p *Peer) Kill() { p.cancel() }

// Patient writes to a pipe that may be full for ever.
type Patient struct{ *os.File }

func (w *Patient) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeFor)); err != nil {
		return 0, err
	}
	return w.File.Write(b)
}
