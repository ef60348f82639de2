package acp

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	sdk "github.com/coder/acp-go-sdk"
	"golang.org/x/sync/semaphore"
)

// A link is the connection to an agent. All that the agent sends is handled on one goroutine, in its order, and is not
// read faster than it is handled. So an agent can make neither the memory nor the number of goroutines grow, which the
// connection of the SDK does not prevent: it starts a goroutine for each request.
type link struct {
	p        *program
	notified func(method string, params json.RawMessage)
	// requested takes a request, and may keep it. It is answered by reply, exactly once.
	requested func(r *incoming)

	life context.Context // until the agent is left
	open *semaphore.Weighted
	work sync.WaitGroup // replies
	one  sync.Mutex     // held by a write

	mu    sync.Mutex
	last  int
	asked map[int]chan<- *message
	ended chan struct{} // is closed when nothing more can come
	err   error         // why; to be read after ended
}

// incoming is a request of the agent.
type incoming struct {
	method string
	params json.RawMessage
	id     json.RawMessage
	weight int64
}

// message is a request, a notification or a response.
type message struct {
	JSONRPC string            `json:"jsonrpc"`
	ID      json.RawMessage   `json:"id,omitempty"`
	Method  string            `json:"method,omitempty"`
	Params  json.RawMessage   `json:"params,omitempty"`
	Result  json.RawMessage   `json:"result,omitempty"`
	Error   *sdk.RequestError `json:"error,omitempty"`
}

const (
	maxMessage = 10 << 20 // bytes, as in the SDK
	// maxOpen bounds the requests that are not answered, in bytes. Each counts as minRequest at least, so that there are
	// at most 64. The agent is not read while there are more.
	maxOpen    = 32 << 20
	minRequest = maxOpen / 64
)

func newLink(life context.Context, p *program) *link {
	return &link{p: p, life: life, open: semaphore.NewWeighted(maxOpen), asked: map[int]chan<- *message{}, ended: make(chan struct{})}
}

// read handles what the agent sends until it has ended, or was left.
func (l *link) read() {
	lines := bufio.NewScanner(l.p.Out)
	lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
	for lines.Scan() && l.take(lines.Bytes()) == nil {
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("it has sent a message of more than %d bytes", maxMessage)
	}
	l.fail(cmp.Or(err, io.EOF))
}

// take handles a message. Other lines, which some agents print, are left out.
func (l *link) take(line []byte) error {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return nil
	}
	switch {
	case m.Method != "" && m.ID != nil:
		r := &incoming{m.Method, m.Params, m.ID, int64(max(len(line), minRequest))}
		if err := l.open.Acquire(l.life, r.weight); err != nil {
			return err
		}
		l.requested(r)
	case m.Method != "":
		l.notified(m.Method, m.Params)
	default:
		var id int
		if json.Unmarshal(m.ID, &id) == nil {
			l.answered(id, &m)
		}
	}
	return nil
}

// answered passes on a response. A second one for a request is nobody's.
func (l *link) answered(id int, m *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to := l.asked[id]; to != nil {
		delete(l.asked, id)
		to <- m
	}
}

// fail ends the connection.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.ended)
	}
}

// call makes a request, and decodes the result.
func (l *link) call(ctx context.Context, method string, params, result any) error {
	answer := make(chan *message, 1)
	l.mu.Lock()
	l.last++
	id := l.last
	l.asked[id] = answer
	l.mu.Unlock()
	raw, err := json.Marshal(id)
	if err == nil {
		err = l.send(&message{ID: raw, Method: method}, params)
	}
	if err != nil {
		return err
	}
	var m *message
	select {
	case m = <-answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.ended:
		select {
		case m = <-answer: // it has come before the end
		default:
			return l.err
		}
	}
	if m.Error != nil {
		return m.Error
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("read the answer to %s: %w", method, err)
	}
	return nil
}

// reply answers a request, without waiting until the agent reads it.
func (l *link) reply(r *incoming, result any, err error) {
	l.work.Go(func() {
		defer l.open.Release(r.weight)
		m := &message{ID: r.id}
		if err != nil {
			var ok bool
			if m.Error, ok = errors.AsType[*sdk.RequestError](err); !ok {
				m.Error = &sdk.RequestError{Code: codeInternal, Message: err.Error()}
			}
		} else if m.Result, err = json.Marshal(result); err != nil {
			m.Error = &sdk.RequestError{Code: codeInternal, Message: err.Error()}
		}
		_ = l.send(m, nil) // the connection ends with the error
	})
}

// send writes a message. An agent that does not read is killed: nobody knows how much of the message it has got.
func (l *link) send(m *message, params any) (err error) {
	m.JSONRPC = "2.0"
	if params != nil {
		if m.Params, err = json.Marshal(params); err != nil {
			return err
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	l.one.Lock()
	defer l.one.Unlock()
	select {
	case <-l.ended:
		return l.err
	default:
	}
	if _, err = l.p.In.Write(append(data, '\n')); err != nil {
		err = fmt.Errorf("it does not read its input: %w", err)
		l.fail(err)
		l.p.Kill()
	}
	return err
}
