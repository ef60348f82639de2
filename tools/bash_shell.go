package tools

import (
	"context"
	"errors"
	"path"
	"sync"

	"github.com/aycoder/aycoder"
)

// Shell is what the calls of bash, bash_output and bash_kill have in common: the folder
// in which commands run, and the commands in the background. One serves one
// conversation; [Coding] makes one for its tools if none is given. The zero value is
// ready to use. Its methods are safe for concurrent use.
type Shell struct {
	mu     sync.Mutex
	at     string            // the folder, relative to the workspace's; "" is that itself
	inner  map[string]string // the same for each run inside of another
	jobs   []*job            // those that run, and the latest that ended
	number int               // of the last one
	closed bool
}

// WithShell has the tools share s, so that a host can ask for the folder, and end what
// runs in the background. Default: a new one.
func WithShell(s *Shell) Option {
	return func(c *config) error {
		if s == nil {
			return errors.New("WithShell: is nil")
		}
		c.shell = s
		return nil
	}
}

// Dir returns the folder in which the next command runs, slash-separated and relative
// to the workspace's; "." is that itself. The runs of subagents have folders of their
// own, which [Shell.DirOf] tells.
func (s *Shell) Dir() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return path.Clean(s.at)
}

// DirOf returns the same for the run that ctx is of, when an Approver is asked about a
// call of it, see [aycoder.RunOf]; for policy.WithDir.
func (s *Shell) DirOf(ctx context.Context) string { return s.dirIn(aycoder.RunOf(ctx)) }

func (s *Shell) dir(inv *aycoder.Invocation) string { return s.dirIn(inv.Run, inv.Depth) }

// dirIn returns the folder for the calls of a run. One inside of another begins in the
// workspace's and does not move the others, beside which it works.
func (s *Shell) dirIn(run string, depth int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if depth == 0 {
		return path.Clean(s.at)
	}
	return path.Clean(s.inner[run])
}

func (s *Shell) setDir(inv *aycoder.Invocation, rel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if inv.Depth == 0 {
		s.at = rel
		return
	}
	if _, known := s.inner[inv.Run]; known || inv.AtRunEnd(func() { s.forget(inv.Run) }) {
		if s.inner == nil {
			s.inner = map[string]string{}
		}
		s.inner[inv.Run] = rel
	}
}

func (s *Shell) forget(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inner, run)
}

// Close ends the commands in the background and waits for that. None is started after.
// Those that were started in a run end with it; Close is for a host that calls the
// tools outside of runs.
func (s *Shell) Close() error {
	s.mu.Lock()
	s.closed = true
	jobs := s.jobs
	s.jobs = nil
	s.mu.Unlock()
	for _, j := range jobs {
		j.cancel(errStopped)
	}
	for _, j := range jobs {
		<-j.done
	}
	return nil
}
