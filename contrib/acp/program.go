package acp

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	sdk "github.com/coder/acp-go-sdk"

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
