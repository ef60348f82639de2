package acp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/tools"
)

// A program is an agent at work.
type program struct{ *proc.Peer }

func startProgram(c AgentConfig, dir string) (*program, error) {
	p, err := proc.StartPeer(append([]string{c.Command}, c.Args...), dir, c.Env)
	return &program{p}, err
}

// explain adds to an error of the connection what the program has written before it ended.
func (p *program) explain(ctx context.Context, err error) error {
	late := time.NewTimer(time.Second) // its end may come a little after that of its output
	defer late.Stop()
	select {
	case <-p.Ended:
	case <-late.C:
		return err
	case <-ctx.Done():
		return err
	}
	if p.Failed != nil && !errors.Is(p.Failed, context.Canceled) {
		return fmt.Errorf("start the program: %w", p.Failed)
	}
	if text := p.Stderr.Text(); text != "" {
		return fmt.Errorf("the program has ended: %w; it has written last:\n%s", err, tools.EscapeInvisible(text))
	}
	return fmt.Errorf("the program has ended: %w", err)
}
