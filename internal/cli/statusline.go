package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"time"
)

const statusTime = 2 * time.Second // for the command that prints the status line

// A state is what the command of the status line gets.
type state struct {
	Model   string       `json:"model"`
	Dir     string       `json:"dir"`
	Branch  string       `json:"branch,omitempty"` // of git
	Session string       `json:"session,omitempty"`
	Title   string       `json:"title,omitempty"`
	Mode    string       `json:"mode,omitempty"`
	Cost    float64      `json:"cost_usd"`
	Context stateContext `json:"context"`
}

// A stateContext says how full the window of the model is. Window and Percent are 0 if the size is not known.
type stateContext struct {
	Tokens  int64 `json:"tokens"`
	Window  int64 `json:"window"`
	Percent int64 `json:"percent"`
}

// state returns the state of the conversation, without the branch of git.
func (c *chat) state() state {
	v := c.talk().View()
	s := state{Model: c.session.model(), Dir: c.session.Files.Dir(), Session: c.session.id(), Title: v.Title(), Context: c.filled()}
	s.Mode = string(c.session.Policy.Mode())
	_, s.Cost = v.Usage()
	return s
}

// filled says how much of the window the last answer of the model and its request have taken.
func (c *chat) filled() (f stateContext) {
	path := c.talk().View().Path(c.talk().Head())
	for i := len(path) - 1; i >= 0 && f.Tokens == 0; i-- {
		if a := path[i].Answer; a != nil {
			f.Tokens = a.Usage.Input + a.Usage.CacheRead + a.Usage.CacheWrite + a.Usage.Output
		}
	}
	if f.Window, _ = c.session.Window(); f.Window > 0 {
		f.Percent = f.Tokens * 100 / f.Window
	}
	return f
}

// A statusLine runs the command of the user that prints the status line, one at a time.
type statusLine struct {
	lines chan string // what it has printed
	stop  func()      // ends the one that runs, and waits for that
}

// renewStatus starts the command of the status line again.
func (c *chat) renewStatus() {
	if c.terminal.Status == "" || !c.Fancy() {
		return
	}
	c.status.end()
	now := c.state()
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	lines, done := make(chan string, 1), make(chan struct{})
	c.status = statusLine{lines, func() { cancel(); <-done }}
	go func() {
		defer close(done)
		defer cancel()
		now.Branch, _ = git(ctx, now.Dir, "symbolic-ref", "--short", "-q", "HEAD")
		in, err := json.Marshal(now)
		if err != nil {
			return
		}
		out, err := firstLineOf(ctx, now.Dir, in, "sh", "-c", c.terminal.Status)
		if err != nil {
			out = "status: " + err.Error()
		}
		lines <- out
	}()
}

// end stops the command that runs.
func (s *statusLine) end() {
	if s.stop != nil {
		s.stop()
	}
}

// firstLineOf returns the first line that a program prints.
func firstLineOf(ctx context.Context, dir string, in []byte, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = dir, bytes.NewReader(in), 100*time.Millisecond
	alone(cmd)
	out := &bounded{most: 4 << 10}
	cmd.Stdout = out
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // something that it has started goes on
		_ = cmd.Cancel()
	}
	if errors.Is(err, exec.ErrWaitDelay) || len(out.data) == out.most {
		err = nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	line, _, _ := strings.Cut(string(out.data), "\n")
	return cleanLine(strings.TrimSpace(line)), err
}
