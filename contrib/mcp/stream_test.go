//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
)

// A server at the other end of a stream works as any other. When the stream ends, another one is opened, and a call is not
// repeated; a stream that nobody reads hangs nobody.
func TestStream(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "inner", Version: "1"}, nil)
	var peers []net.Conn
	s.AddTool(&mcp.Tool{Name: "a", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "one"}}}, nil
	})
	deaf := false
	open := WithStream(func(name string) io.ReadWriteCloser {
		if name != "s" {
			return nil
		}
		ours, theirs := net.Pipe()
		peers = append(peers, theirs)
		if !deaf {
			_, err := s.Connect(context.Background(), &mcp.IOTransport{Reader: theirs, Writer: theirs}, nil)
			require.NoError(t, err)
		}
		return ours
	})
	src := connect(t, config.Server{Timeout: time.Minute}, open)
	require.Contains(t, said(t, src, "a", `{}`), "one")

	require.NoError(t, peers[len(peers)-1].Close())
	_, _ = calls(t.Context(), src, "a", `{}`) // it may see the end only now
	require.Contains(t, said(t, src, "a", `{}`), "one")

	deaf = true
	_, err := Connector(fast, open)(t.Context(), "s", config.Server{Timeout: 10 * time.Millisecond})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
