//go:build unix

package mcp

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
)

// raw is a server whose results are texts, by the methods of the requests. It says something before it answers a call.
func raw(results map[string]string, says string) Option {
	all := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","serverInfo":{"name":"raw","version":"1"},"capabilities":{"tools":{},"prompts":{},"resources":{}}}`,
		"tools/list": `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`,
		"tools/call": `{"content":[]}`, "prompts/list": `{"prompts":[{"name":"p"}]}`, "prompts/get": `{"messages":[]}`,
		"resources/list": `{"resources":[]}`, "resources/templates/list": `{"resourceTemplates":[]}`, "resources/read": `{"contents":[]}`,
	}
	for method, result := range results {
		all[method] = result
	}
	return WithStream(func(string) io.ReadWriteCloser {
		ours, theirs := net.Pipe()
		go func() {
			for lines := bufio.NewScanner(theirs); lines.Scan(); {
				var m struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
				}
				if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil || m.Method == "" {
					continue
				}
				if m.Method == "tools/call" {
					fmt.Fprintln(theirs, says)
				}
				if result, ok := all[m.Method]; ok {
					fmt.Fprintf(theirs, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
				} else {
					fmt.Fprintf(theirs, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
				}
			}
		}()
		return ours
	})
}

// png is an image of one pixel.
var png = func() string {
	data, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
	if err != nil {
		panic(err)
	}
	return string(data)
}()

// Models refuse a conversation with an image that is not of the type that it is said to be, or not whole.
func TestImagesAreWhatTheyAre(t *testing.T) {
	res := result(&mcp.CallToolResult{Content: []mcp.Content{
		&mcp.ImageContent{MIMEType: "image/jpeg", Data: []byte(png)}, &mcp.ImageContent{Data: []byte(png)},
		&mcp.ImageContent{MIMEType: "image/png", Data: []byte("<html>no such image")},
		&mcp.ImageContent{MIMEType: "image/png", Data: []byte(png[:60])},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "a://b", MIMEType: "application/json; charset=utf-8", Blob: []byte(`{"a":1}`)}},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "a://c", MIMEType: "text/plain", Blob: []byte("\xff")}},
	}}, maxText)
	require.Equal(t, []aycoder.Part{
		&aycoder.Media{Type: "image/png", Data: []byte(png)}, &aycoder.Media{Type: "image/png", Data: []byte(png)},
		&aycoder.Text{Text: "[image/png, 19 bytes, is left out: it is text/html; charset=utf-8, and not PNG, JPEG, GIF or WebP]"},
		&aycoder.Text{Text: "[image/png, 60 bytes, is left out: it is cut off or damaged]"},
		&aycoder.Text{Text: "[resource a://b]\n{\"a\":1}"},
		&aycoder.Text{Text: "[text/plain a://c, 1 bytes, is left out]"},
	}, res.Parts)
}

// An answer that cannot be understood, such as one with a kind of content that is newer, loses neither the connection nor
// what the server has in memory.
func TestUnknownContent(t *testing.T) {
	for _, answer := range []string{`{"content":[{"type":"video"}]}`, `{"content":[{"type":"image","mimeType":"image/png","data":"!"}]}`, `"ok"`} {
		src := connect(t, config.Server{Timeout: time.Minute}, raw(map[string]string{"tools/call": answer}, ""))
		before := src.(*client).conn
		for range 2 {
			_, err := calls(t.Context(), src, "a", `{}`)
			require.ErrorContains(t, err, "server s: call a: the server has answered")
			require.NotErrorIs(t, err, ErrLost)
		}
		require.Same(t, before, src.(*client).conn)
	}
}

// The name of an image is a text of a server, too.
func TestNamesAreBounded(t *testing.T) {
	res := result(&mcp.CallToolResult{Content: []mcp.Content{&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
		URI: "a://\x1b[2J" + strings.Repeat("x", 1<<20), MIMEType: "image/png", Blob: []byte(png),
	}}}}, maxText)
	m, ok := res.Parts[0].(*aycoder.Media)
	require.True(t, ok)
	require.NotContains(t, m.Name, "\x1b")
	require.LessOrEqual(t, len(m.Name), maxURI+len("…"))
}

// A message that cannot be read is not an answer of the server.
func TestReplyToNobody(t *testing.T) {
	src := connect(t, config.Server{Timeout: time.Minute}, raw(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`))
	_, err := calls(t.Context(), src, "a", `{}`)
	require.ErrorIs(t, err, ErrLost)
}

// A server that has null in the place of an object gets nothing, or an error, and ends nobody's process.
func TestNulls(t *testing.T) {
	for _, tt := range []struct{ method, result, says string }{
		{method: "tools/list", result: `{"tools":[null,{"name":"a","inputSchema":{"type":"object"}}]}`},
		{method: "tools/call", result: `{"content":[null]}`},
		{method: "tools/call", result: `{"inputRequests":{"q":null}}`},
		{method: "tools/call", result: `{"inputRequests":{"q":{"method":"elicitation/create","params":null}}}`},
		{method: "tools/call", result: `{"inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[null]}}}}`},
		{method: "prompts/list", result: `{"prompts":[null]}`},
		{method: "prompts/list", result: `{"prompts":[{"name":"p","arguments":[null]}]}`},
		{method: "prompts/get", result: `{"messages":[null]}`},
		{method: "resources/list", result: `{"resources":[null]}`},
		{method: "resources/templates/list", result: `{"resourceTemplates":[null]}`},
		{method: "resources/read", result: `{"contents":[null]}`},
		{says: `{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}`},
		{says: `{"jsonrpc":"2.0","method":"notifications/progress","params":null}`},
		{says: `{"jsonrpc":"2.0","id":"x","method":"elicitation/create"}`},
		{says: `{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":null}`},
		{says: `{"jsonrpc":"2.0","id":"x","method":"sampling/createMessage","params":{"maxTokens":5,"messages":[null]}}`},
	} {
		t.Run(tt.method+tt.says, func(t *testing.T) {
			src := connect(t, config.Server{Timeout: time.Minute}, raw(map[string]string{tt.method: tt.result}, tt.says),
				WithElicitation(func(context.Context, Question) (Answer, error) { return Answer{Accept: true}, nil }),
				WithSampling(func(context.Context, string, *aycoder.Request) (*aycoder.Response, error) {
					return &aycoder.Response{Message: aycoder.Assistant("yes")}, nil
				}))
			for range 2 { // the first call may end before all of it is handled
				for name, args := range map[string]string{"a": `{}`, "list_resources": `{}`, "read_resource": `{"uri":"a:b"}`} {
					_, err := find(t, src, name).Call(t.Context(), invocation(args))
					require.True(t, err == nil || isError(err), "%T", err)
				}
			}
			for _, name := range src.(*client).Prompts() {
				_, err := src.(*client).Prompt(t.Context(), name, "")
				require.NoError(t, err)
			}
		})
	}
}
