package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
)

// A tunnel is the stream to a server of the Model Context Protocol that is inside the host: a message that is written to
// it is a request of the host, whose answer is a line that is read from it.
type tunnel struct {
	*io.PipeReader
	f      *claudeFace
	name   string
	in     *io.PipeWriter
	ctx    context.Context // until it is closed
	cancel context.CancelFunc

	mu   sync.Mutex // held while work is added and while the tunnel is closed
	work sync.WaitGroup
}

func newTunnel(f *claudeFace, name string) *tunnel {
	t := &tunnel{f: f, name: name}
	t.PipeReader, t.in = io.Pipe()
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Write puts a message to the host, and its answer into the stream. If the host does not answer, that is the answer.
func (t *tunnel) Write(message []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return 0, io.ErrClosedPipe
	}
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return 0, err
	}
	wait := t.f.post(map[string]any{"subtype": "mcp_message", "server_name": t.name, "message": json.RawMessage(message)}) // in order
	t.work.Go(func() {
		data, err := wait(t.ctx)
		var answer struct {
			Response json.RawMessage `json:"mcp_response"`
		}
		if err == nil {
			err = json.Unmarshal(data, &answer)
		}
		switch {
		case m.ID == nil: // nobody waits for an answer
			return
		case err == nil:
			err = t.receive(answer.Response)
		}
		if err != nil {
			answer.Response, _ = json.Marshal(map[string]any{
				"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32603, "message": "the host has not answered: " + err.Error()},
			})
			_ = t.receive(answer.Response) // closed, if it fails
		}
	})
	return len(message), nil
}

// receive puts a message into the stream.
func (t *tunnel) receive(message json.RawMessage) error {
	var line bytes.Buffer
	if err := json.Compact(&line, message); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err := t.in.Write(line.Bytes())
	return err
}

// Close implements [io.Closer].
func (t *tunnel) Close() error {
	t.mu.Lock()
	t.cancel()
	t.mu.Unlock()
	_ = t.PipeReader.Close()
	_ = t.in.Close()
	t.work.Wait()
	return nil
}
