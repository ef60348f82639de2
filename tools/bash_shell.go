package tools

import (
	"errors"
	"path"
	"slices"
	"sync"

	"github.com/aycoder/aycoder"
)

// Shell is what the calls of bash, bash_output and bash_kill have in common: the folder
// in which commands run, and the commands in the background. One serves one
// conversation; [Coding] makes one for its tools if none is given. The zero value is
// ready to use. Its methods are safe for concurrent use.
type Shell struct {
	mu     sync.Mutex
	at     string      // the folder, relative to the workspace's; "" is that itself
	shown  []shownCall // the latest that somebody was asked about
	jobs   []*job      // those that run, and the latest that ended
	number int         // of the last one
	closed bool
}

// shownCall is where a call would have run when that was shown.
type shownCall struct{ key, dir string }

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
// to the workspace's; "." is that itself.
func (s *Shell) Dir() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return path.Clean(s.at)
}

func (s *Shell) setDir(rel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = rel
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

// maxShown bounds how many calls are remembered that were shown and did not run.
const maxShown = 256

func callKey(inv *aycoder.Invocation) string { return inv.Run + "\x00" + inv.Key + "\x00" + inv.ID }

// show remembers where a call will run.
func (s *Shell) show(inv *aycoder.Invocation, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(callKey(inv))
	if len(s.shown) == maxShown {
		s.shown = slices.Delete(s.shown, 0, 1)
	}
	s.shown = append(s.shown, shownCall{callKey(inv), dir})
}

// seen returns where a call runs by what was shown of it, once.
func (s *Shell) seen(inv *aycoder.Invocation) (dir string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forget(callKey(inv))
}

// forget drops what was shown of a call, and returns it. The mutex is held.
func (s *Shell) forget(key string) (dir string, ok bool) {
	i := slices.IndexFunc(s.shown, func(c shownCall) bool { return c.key == key })
	if i < 0 {
		return "", false
	}
	dir = s.shown[i].dir
	s.shown = slices.Delete(s.shown, i, i+1)
	return dir, true
}
