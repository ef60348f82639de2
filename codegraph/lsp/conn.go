package lsp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

const (
	maxMessage = 16 << 20 // bytes of a message of a server
	maxHeader  = 4 << 10  // bytes of its header
	maxUnasked = 64 << 20 // bytes that a server may send while it is asked and told nothing
	maxQueued  = 32 << 20 // bytes that may wait for a server that does not read
)

var (
	errMessage = errors.New("a message is malformed or too large")
	errFlood   = errors.New("it sends without end")
	errStuck   = errors.New("it does not read")
)

// A message is any message of JSON-RPC 2.0: a request has a method and an id, a notification only a method,
// and a response only an id.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *ResponseError  `json:"error,omitempty"`
}

// ResponseError is the answer of a language server that refuses a request. Message is its own text, as it was sent.
type ResponseError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error. It has the message in one line, shortened.
func (e *ResponseError) Error() string {
	return fmt.Sprintf("%s (code %d)", lineOf(e.Message, maxErrorText), e.Code)
}

// A conn is a connection with a language server. One goroutine reads and one writes, so that a server that
// does neither blocks no caller. The server cannot make it hold more than the limits above: what is not an
// answer to a request is handled at once, by a function that keeps little.
type conn struct {
	handle func(method string, params json.RawMessage) (result any, err *ResponseError)
	done   chan struct{} // closed when the connection has failed
	wake   chan struct{} // something is in queue

	mu      sync.Mutex
	err     error // why the connection has failed
	last    int64 // id of a request
	waiting map[string]chan *message
	queue   [][]byte
	queued  int // bytes in queue
	unasked int // bytes read since the last message to the server
}

func newConn(handle func(string, json.RawMessage) (any, *ResponseError)) *conn {
	return &conn{handle: handle, done: make(chan struct{}), wake: make(chan struct{}, 1),
		waiting: map[string]chan *message{}}
}

// fail ends the connection. Only the first error counts.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err, c.queue = err, nil
		close(c.done)
	}
}

// failure returns why the connection has failed.
func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// call sends a request, and decodes the result into result unless that is nil.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	c.mu.Lock()
	c.last++
	id := strconv.FormatInt(c.last, 10)
	answer := make(chan *message, 1)
	c.waiting[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.send(&message{ID: json.RawMessage(id), Method: method}, params); err != nil {
		return err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return m.Error
		}
		if result == nil || len(m.Result) == 0 {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-c.done:
		return c.failure()
	case <-ctx.Done():
		_ = c.notify("$/cancelRequest", map[string]json.RawMessage{"id": json.RawMessage(id)})
		return context.Cause(ctx)
	}
}

// notify sends a notification.
func (c *conn) notify(method string, params any) error {
	return c.send(&message{Method: method}, params)
}

// send queues a message. It never blocks.
func (c *conn) send(m *message, params any) error {
	var err error
	if m.Version = "2.0"; params != nil {
		if m.Params, err = json.Marshal(params); err != nil {
			return err
		}
	}
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	frame := append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(body)), body...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Method != "" { // an answer to the server does not entitle it to send more
		c.unasked = 0
	}
	switch {
	case c.err != nil:
		return c.err
	case c.queued+len(frame) > maxQueued:
		c.err, c.queue = errStuck, nil
		close(c.done)
		return errStuck
	}
	c.queue, c.queued = append(c.queue, frame), c.queued+len(frame)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// write writes what is queued, until the connection fails or w returns an error.
func (c *conn) write(w io.Writer) error {
	for {
		select {
		case <-c.done:
			return c.failure()
		case <-c.wake:
		}
		c.mu.Lock()
		frames := c.queue
		c.queue = nil
		c.mu.Unlock()
		for _, f := range frames {
			if _, err := w.Write(f); err != nil {
				return err
			}
			c.mu.Lock()
			c.queued -= len(f)
			c.mu.Unlock()
		}
	}
}

// read handles what the server sends, until something is wrong with it.
func (c *conn) read(r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		body, err := readFrame(in)
		if err == nil {
			err = c.receive(body)
		}
		if err != nil {
			return err
		}
	}
}

func (c *conn) receive(body []byte) error {
	c.mu.Lock()
	c.unasked += len(body) + 32
	flood := c.unasked > maxUnasked
	c.mu.Unlock()
	var m message
	switch err := json.Unmarshal(body, &m); {
	case flood:
		return errFlood
	case err != nil:
		return errMessage
	case m.Method == "":
		c.answer(&m)
		return nil
	}
	result, refusal := c.handle(m.Method, m.Params)
	if len(m.ID) == 0 || c.failure() != nil {
		return nil
	}
	reply := &message{ID: m.ID, Error: refusal}
	if refusal == nil {
		var err error
		if reply.Result, err = json.Marshal(result); err != nil {
			return err
		}
	}
	return c.send(reply, nil)
}

// answer passes a response to the call that waits for it. A response that nobody waits for is dropped.
func (c *conn) answer(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.waiting[string(bytes.TrimSpace(m.ID))]; ok {
		select {
		case answer <- m:
		default: // the id was used twice
		}
	}
}

// readFrame reads the body of the next message, in the "base protocol" of the specification: a header of
// lines that end with \r\n, an empty line, and as many bytes as Content-Length says.
func readFrame(in *bufio.Reader) ([]byte, error) {
	size, header := -1, 0
	for {
		line, err := in.ReadSlice('\n')
		if header += len(line); err == bufio.ErrBufferFull || header > maxHeader {
			return nil, errMessage
		}
		if err != nil {
			return nil, err
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, errMessage
		}
		if strings.EqualFold(name, "Content-Length") {
			if size, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return nil, errMessage
			}
		}
	}
	if size < 0 || size > maxMessage {
		return nil, errMessage
	}
	// The buffer grows with what arrives: the header of a server that lies costs no memory.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, in, int64(size)); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}
