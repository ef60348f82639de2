package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
)

// Shell is the state of the tool bash: the directory in which the next command runs, and, without
// [WithBackground], the background commands, which the tools job_output and job_stop share. Each conversation needs a separate Shell.
// If the options do not include [WithShell], [Coding] creates a Shell for its tools. The zero
// value is ready to use, and the methods are safe for concurrent use.
type Shell struct {
	mu    sync.Mutex
	at    string            // the directory, relative to that of the workspace; "" is the workspace
	inner map[string]string // the same for each nested run, by its id
	own   *background.Group // of tools without WithBackground; nil before the first
}

// WithShell sets the [Shell] that the tools share. A host that has the Shell can query the
// directory and end background commands. Default: a new Shell.
func WithShell(s *Shell) Option {
	return func(c *config) error {
		if s == nil {
			return &aycoder.ConfigError{Option: "WithShell", Err: errors.New("is nil")}
		}
		c.shell = s
		return nil
	}
}

// Dir returns the directory in which the next command runs. The path is slash-separated and
// relative to the workspace; "." is the workspace itself. The runs of subagents have separate
// directories: see [Shell.DirOf].
func (s *Shell) Dir() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return path.Clean(s.at)
}

// DirOf returns the directory in which the next command of a run starts. DirOf finds the run in
// ctx: see [aycoder.PlaceFromContext]. An [aycoder.Approver] that calls DirOf must therefore pass
// the ctx that its method Decide received. If ctx has no run, DirOf returns the same as Dir. The
// option WithDir of package policy takes DirOf as its argument.
func (s *Shell) DirOf(ctx context.Context) string {
	p, _ := aycoder.PlaceFromContext(ctx)
	return s.dirIn(p)
}

func (s *Shell) dir(inv *aycoder.Invocation) string { return s.dirIn(inv.Place) }

// dirIn returns the directory for the calls of a run. A nested run begins in the directory of the
// workspace. It does not change the directory of the runs that enclose it, since they work at the
// same time.
func (s *Shell) dirIn(p aycoder.Place) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Depth == 0 {
		return path.Clean(s.at)
	}
	return path.Clean(s.inner[p.Run])
}

// setDir remembers where a command has ended. That of a nested run is forgotten with the
// run.
func (s *Shell) setDir(inv *aycoder.Invocation, rel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if inv.Depth == 0 {
		s.at = rel
		return
	}
	if _, known := s.inner[inv.Run]; known || inv.Cleanup(func() { s.forget(inv.Run) }) {
		if s.inner == nil {
			s.inner = map[string]string{}
		}
		s.inner[inv.Run] = rel
	}
}

// MarshalJSON returns the directory of [Shell.Dir] as a JSON string.
func (s *Shell) MarshalJSON() ([]byte, error) { return json.Marshal(s.Dir()) }

// UnmarshalJSON sets the directory, which must be relative and in the workspace. Whether it still
// exists shows when the next command runs.
func (s *Shell) UnmarshalJSON(data []byte) error {
	var dir string
	if err := json.Unmarshal(data, &dir); err != nil {
		return err
	}
	if dir = path.Clean(dir); !fs.ValidPath(dir) {
		return fmt.Errorf("the directory %.200q is not in the workspace", dir)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = dir
	return nil
}

// forget drops the directory of a run that is over.
func (s *Shell) forget(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inner, run)
}

// group returns the group of tools without [WithBackground].
func (s *Shell) group() *background.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		s.own, _ = background.New(background.EndWithRun()) // these options are valid
	}
	return s.own
}

// Close kills the background commands of tools without [WithBackground], and waits until they have ended.
// Afterwards these tools can start no command in the background. Background commands that were started in a
// run end with that run, so Close is needed only by hosts that call the tools outside of runs.
func (s *Shell) Close() error { return s.group().Close() }
