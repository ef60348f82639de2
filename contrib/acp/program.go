package acp

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/tools"
)

const (
	maxStderr = 4 << 10
	// writeFor is how long a program may leave its input unread.
	writeFor = 10 * time.Second
)

// passed are the variables that a program gets without being named.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TMPDIR"}

// environ returns the environment of the program of an agent.
func (c *AgentConfig) environ() (env []string) {
	all := map[string]string{}
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			all[name] = value
		}
	}
	maps.Copy(all, c.Env)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// A program is an agent at work. Nothing that it has started is left when it has ended.
type program struct {
	in     *patient // what it reads
	out    *os.File // what it writes
	kill   context.CancelFunc
	ended  chan struct{}
	stderr proc.Tail
	failed error // why it could not be run; to be read after ended
}

func startProgram(c AgentConfig, dir string) (*program, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{in: &patient{in}, out: out, stderr: proc.Tail{Max: maxStderr}, kill: cancel, ended: make(chan struct{})}
	handOver := func() { stdin.Close(); stdout.Close() }
	go func() {
		defer close(p.ended)
		defer handOver()
		_, p.failed = proc.Run(ctx, &proc.Command{
			Argv: append([]string{c.Command}, c.Args...), Dir: dir, Env: c.environ(), Output: &p.stderr,
			Start: func(cmd *exec.Cmd) error {
				defer handOver()
				cmd.Stdin, cmd.Stdout = stdin, stdout
				return cmd.Start()
			},
		})
	}()
	return p, nil
}

// stop ends the program: it sees the end of its input, and is killed if it does not end soon.
func (p *program) stop(patience time.Duration) {
	p.in.Close()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
	}
	p.kill()
	<-p.ended
	p.out.Close()
}

// explain adds to an error of the connection what the program has written before it ended.
func (p *program) explain(ctx context.Context, err error) error {
	late := time.NewTimer(time.Second) // its end may come a little after that of its output
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		return err
	case <-ctx.Done():
		return err
	}
	if p.failed != nil && !errors.Is(p.failed, context.Canceled) {
		return fmt.Errorf("start the program: %w", p.failed)
	}
	if text := p.stderr.Text(); text != "" {
		return fmt.Errorf("the program has ended: %w; it has written last:\n%s", err, tools.EscapeInvisible(text))
	}
	return fmt.Errorf("the program has ended: %w", err)
}

// patient writes to a pipe that may be full for ever.
type patient struct{ *os.File }

func (w *patient) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeFor)); err != nil {
		return 0, err
	}
	return w.File.Write(b)
}

// paced reads the lines of an agent, and lets only some of its notifications wait: the SDK ends a connection on which
// 1,024 of them do.
type paced struct {
	lines *bufio.Scanner
	rest  []byte
	slots chan struct{} // one for each notification that waits
}

const (
	maxWaiting = 256
	maxLine    = 10 << 20 // bytes, as in the SDK
)

func newPaced(r io.Reader) *paced {
	p := &paced{lines: bufio.NewScanner(r), slots: make(chan struct{}, maxWaiting)}
	p.lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	return p
}

func (p *paced) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		if !p.lines.Scan() {
			return 0, cmp.Or(p.lines.Err(), io.EOF)
		}
		line := p.lines.Bytes()
		var m struct { // as the SDK decodes it
			JSONRPC string            `json:"jsonrpc"`
			ID      *json.RawMessage  `json:"id"`
			Method  string            `json:"method"`
			Error   *sdk.RequestError `json:"error"`
		}
		if json.Unmarshal(line, &m) == nil && m.ID == nil && m.Method == sdk.ClientMethodSessionUpdate {
			p.slots <- struct{}{}
		}
		p.rest = append(line, '\n')
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// handled is called when a notification was handled.
func (p *paced) handled() {
	select {
	case <-p.slots:
	default: // it was not a notification
	}
}
