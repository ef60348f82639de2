//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
)

// Definitions that make a service refuse each request, from the reports of users of other clients.
func TestSchemasOfOldDrafts(t *testing.T) {
	c, err := newClient("s", config.Server{Command: "x"}, options{})
	require.NoError(t, err)
	for name, tt := range map[string]struct{ told, want string }{
		"as it should be": {`{"type":"object","properties":{"projects.any":{"type":"array","items":{"type":"string"}}},"required":["projects.any"]}`,
			`{"type":"object","properties":{"projects.any":{"type":"array","items":{"type":"string"}}},"required":["projects.any"]}`},
		"exclusive bounds of OpenAPI 3.0": {`{"type":"object","properties":{"n":{"type":"integer","minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}}}`,
			`{"type":"object","properties":{"n":{"type":"integer","exclusiveMinimum":0,"maximum":9}}}`},
		"an exclusive bound of nothing": {`{"type":"object","properties":{"n":{"exclusiveMinimum":true}}}`, `{"type":"object","properties":{"n":{}}}`},
		"tuples of draft 7": {`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}],"additionalItems":false},"b":{"items":[{}]}}}`,
			`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":false},"b":{"prefixItems":[{}]}}}`},
		"the draft that it says": {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"items":[{}],"additionalItems":false}}}`,
			`{"type":"object","properties":{"a":{"prefixItems":[{}],"items":false}}}`},
		"array schema missing items": {`{"type":"object","properties":{"a":{"type":"array"},"b":{"anyOf":[{"type":["array","null"]}]}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"anyOf":[{"type":["array","null"],"items":{}}]}}}`},
		"property keys should match a pattern": {`{"type":"object","properties":{"$top":{"type":"integer"},"StartTime<":{"type":"string"},"top":{}},"required":["top","StartTime<"]}`,
			`{"type":"object","properties":{"_top_81bf98e4":{"type":"integer"},"StartTime__2607c3c7":{"type":"string"},"top":{}},"required":["top","StartTime__2607c3c7"]}`},
		"conditions on renamed properties": {`{"type":"object","properties":{"$top":{"properties":{"$top":{}}},"b":{}},"required":["$top","$top"],"dependentRequired":{"$top":["b"],"b":["$top"]},"anyOf":[{"required":["$top"]},{"properties":{"$top":{"const":"$top"}}}],"dependencies":{"b":{"not":{"required":["$top"]}}}}`,
			`{"type":"object","properties":{"_top_81bf98e4":{"properties":{"$top":{}}},"b":{}},"required":["_top_81bf98e4","_top_81bf98e4"],"dependentRequired":{"_top_81bf98e4":["b"],"b":["_top_81bf98e4"]},"anyOf":[{"required":["_top_81bf98e4"]},{"properties":{"_top_81bf98e4":{"const":"$top"}}}],"dependencies":{"b":{"not":{"required":["_top_81bf98e4"]}}}}`},
		"names and values are not schemas": {`{"type":"object","properties":{"exclusiveMinimum":true,"minimum":{"enum":[{"type":"array"}],"default":{"items":[1]}},"a":{"const":{"type":"array"},"examples":[{"type":"array"}]}},"dependentRequired":{"items":["a"]},"dependencies":{"items":["a"]}}`,
			`{"type":"object","properties":{"exclusiveMinimum":true,"minimum":{"enum":[{"type":"array"}],"default":{"items":[1]}},"a":{"const":{"type":"array"},"examples":[{"type":"array"}]}},"dependentRequired":{"items":["a"]},"dependencies":{"items":["a"]}}`},
	} {
		tool, err := c.define(&mcp.Tool{Name: "a", InputSchema: json.RawMessage(tt.told)})
		require.NoError(t, err, name)
		require.JSONEq(t, tt.want, string(tool.spec.Schema), name)
	}
}

// A server gets arguments by the names that it has given them.
func TestNamesOfArguments(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "0"}, nil)
	s.AddTool(&mcp.Tool{Name: "a", InputSchema: json.RawMessage(`{"type":"object","properties":{"$top":{"type":"integer"},"x":{}},"required":["$top"]}`)},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(req.Params.Arguments)}}}, nil
		})
	src := connect(t, config.Server{}, WithStream(func(string) io.ReadWriteCloser {
		ours, theirs := net.Pipe()
		_, err := s.Connect(context.Background(), &mcp.IOTransport{Reader: theirs, Writer: theirs}, nil)
		require.NoError(t, err)
		return ours
	}))
	require.JSONEq(t, `{"$top":12345678901234567890,"x":"$top"}`, said(t, src, "a", `{"_top_81bf98e4":12345678901234567890,"x":"$top"}`))
}
