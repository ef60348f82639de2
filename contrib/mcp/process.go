package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/proc"
)

const maxMessage = 16 << 20 // bytes

// A process is a server that is a program.
type process struct {
	*proc.Peer
	leave time.Duration
}

// start starts a program. It belongs to the connection, and not to the call that needs it first.
func start(s config.Server, o options) (*process, error) {
	p, err := proc.StartPeer(append([]string{s.Command}, s.Args...), o.dir, s.Env)
	return &process{p, o.leave}, err
}

func (p *process) stop() { p.Stop(p.leave) }

// messages is what a program writes, without the lines that cannot be messages. Many write some, such as that they have
// started; they are told like those on the standard error.
type messages struct {
	*proc.Peer
	in     *bufio.Reader
	rest   []byte
	inside bool // a line is not yet at its end
	skip   bool // it is left out
	noise  int  // bytes that were left out since the last message
}

func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := m.in.ReadSlice('\n') // or a part of it
		if len(line) == 0 {
			return 0, err
		}
		begins := !m.inside
		m.inside = line[len(line)-1] != '\n'
		if begins {
			m.skip = noise(line, !m.inside)
		}
		if !m.skip {
			m.rest, m.noise = line, 0
		} else if m.noise += len(line); m.noise > maxMessage {
			return 0, fmt.Errorf("it has written more than %d bytes that are not messages", maxMessage)
		} else {
			_, _ = m.Stderr.Write(line)
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// begin is how a message begins, or several: with a member that messages have.
var begin = regexp.MustCompile(`^[ \t]*(\[\s*)?\{\s*"(jsonrpc|id|method|params|result|error)"`)

// noise reports whether a line, of which the rest may be missing, is for nobody: neither "[INFO] started" nor an object of
// a logger is a message. Some servers also answer notifications, with an id of null or without one. That it could
// not read something may be about a request, though, which nobody will answer.
func noise(line []byte, whole bool) bool {
	if !whole {
		return !begin.Match(line)
	}
	var m struct{ ID, Method, Error any }
	ok := json.Unmarshal(line, &m) == nil
	fault, _ := m.Error.(map[string]any)
	return !bytes.HasPrefix(bytes.TrimLeft(line, " \t["), []byte("{")) || !bytes.Contains(line, []byte(`"jsonrpc"`)) ||
		ok && m.ID == nil && m.Method == nil && fault["code"] != float64(jsonrpc.CodeParseError)
}

// Close implements [io.Closer].
func (m *messages) Close() error { return m.Out.Close() }

// A pipe is the transport to a program or a stream. It notes when nothing more can be read or written.
type pipe struct {
	mcp.IOTransport
	broken *atomic.Bool
}

// Connect implements [mcp.Transport].
func (p *pipe) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := p.IOTransport.Connect(ctx)
	return &pipeConn{c, p.broken}, err
}

type pipeConn struct {
	mcp.Connection
	broken *atomic.Bool
}

func (c *pipeConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err != nil {
		c.broken.Store(true)
	}
	return m, err
}

func (c *pipeConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if err != nil {
		c.broken.Store(true)
	}
	return err
}
