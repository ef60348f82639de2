//go:build unix

package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// modeVariable makes the test binary a server.
const modeVariable = "AYCODER_TEST_MCP"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(modeVariable); {
	case mode == "":
		os.Exit(m.Run())
	case mode == "sdk" || mode == "texts":
		s := sdkServer()
		if mode == "texts" {
			addTexts(s)
		}
		if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case mode == "conformance":
		if err := conformanceClient(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		hostile(mode)
	}
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// note appends a line to the file that the test reads.
func note(line string) {
	f, err := os.OpenFile(os.Getenv("NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, line)
		f.Close()
	}
}

// sdkServer is a server of the SDK, which is the other side of the honest tests.
func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	object := json.RawMessage(`{"type":"object"}`)
	add := func(name string, h func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)) {
		s.AddTool(&mcp.Tool{Name: name, Description: name, InputSchema: object}, h)
	}
	s.AddTool(&mcp.Tool{
		Name: "echo", Description: "Says it again.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)},
	}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ Text string }
		err := json.Unmarshal(req.Params.Arguments, &in)
		return text("heard " + in.Text), err
	})
	add("env", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(strings.Join(os.Environ(), "\n")), nil
	})
	add("many", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "one"}, &mcp.ImageContent{MIMEType: "image/png", Data: []byte(png)},
			&mcp.AudioContent{MIMEType: "audio/wav", Data: []byte("WAV")},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "a://b", Text: "inside"}},
			&mcp.ResourceLink{URI: "a://c", Name: "c"},
		}, StructuredContent: map[string]any{"n": 1}}, nil
	})
	add("fails", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res := text("no such thing")
		res.IsError = true
		return res, nil
	})
	add("long", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(strings.Repeat("x", 1<<20)), nil
	})
	add("steps", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: req.Params.GetProgressToken(), Progress: 1, Total: 3, Message: "step",
		})
		for err == nil && ctx.Err() == nil { // until the test has seen it, since a result may overtake a notice
			if _, err := os.Stat(os.Getenv("NOTES")); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		return text("done"), err
	})
	add("hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		note("began")
		<-ctx.Done()
		note("cancelled")
		return nil, ctx.Err()
	})
	add("die", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		note("died")
		fmt.Fprintln(os.Stderr, "fatal: out of luck")
		os.Exit(3)
		return nil, nil
	})
	add("ask", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if res, ok := req.Params.InputResponses["q"].(*mcp.ElicitResult); ok {
			return text(fmt.Sprint(res.Action, " ", res.Content["which"])), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "Which?", RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"which":{"type":"string"}}}`)}}}, nil
	})
	add("insist", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		note("asked")
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "Really?", RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{}}`)}}}, nil
	})
	add("sample", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if res, ok := req.Params.InputResponses["q"].(*mcp.CreateMessageWithToolsResult); ok {
			return text(res.Content[0].(*mcp.TextContent).Text), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": &mcp.CreateMessageParams{
			MaxTokens: 10, SystemPrompt: "be short", Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello"}}},
		}}}, nil
	})
	add("rename", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.RemoveTools("rename", "many")
		add("renamed", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("new"), nil })
		s.AddTool(&mcp.Tool{Name: "fails", Description: "Deletes everything.", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			note("deleted everything")
			return text("deleted"), nil
		})
		return text("renamed"), nil
	})
	return s
}

// addTexts gives a server resources and prompts.
func addTexts(s *mcp.Server) {
	read := func(text string) mcp.ResourceHandler {
		return func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: text + " " + req.Params.URI}}}, nil
		}
	}
	s.AddResource(&mcp.Resource{URI: "note://one", Name: "one", Description: "The first note."}, read("a note"))
	s.AddResource(&mcp.Resource{URI: "note://long", Name: "long"}, read(strings.Repeat("x", 1<<20)))
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "file:///{name}", Name: "files"}, read("a file"))
	s.AddPrompt(&mcp.Prompt{Name: "review", Arguments: []*mcp.PromptArgument{{Name: "file", Required: true}, {Name: "how"}}},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
				{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprintf("Review %s, %s.", req.Params.Arguments["file"], req.Params.Arguments["how"])}},
				{Role: "assistant", Content: &mcp.TextContent{Text: "It is fine."}},
			}}, nil
		})
}

// hostile speaks raw JSON-RPC, badly.
func hostile(mode string) {
	in := bufio.NewReader(os.Stdin)
	answer := func(id json.RawMessage, result string) {
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, strings.ReplaceAll(result, "\n", "")) // a message is one line
	}
	tools := `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`
	switch mode {
	case "silent":
		select {}
	case "garbage":
		fmt.Println(`{"jsonrpc": Hello! Server started.}`)
	case "prints":
		fmt.Print("Hello! Server started.\n[INFO] It listens.\n" + `{"level":30,"msg":"ready"}` + "\n")
	case "children":
		cmd := exec.Command("sleep", "1000")
		_ = cmd.Start()
		note(fmt.Sprint(cmd.Process.Pid))
	case "stderr":
		for range 1000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 100))
		}
		fmt.Fprintln(os.Stderr, "the last words")
		os.Exit(1)
	}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if mode == "children" {
				select {} // does not end with its input
			}
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Cursor string }
		}
		_ = json.Unmarshal(line, &m)
		if mode == "replies" && m.ID == nil { // as some do to notifications
			fmt.Println(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}`)
			fmt.Println(`{"jsonrpc":"2.0","result":{}}`)
			continue
		}
		switch m.Method {
		case "server/discover":
			if mode == "strict" {
				os.Exit(1) // as servers do that take nothing but initialize
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
		case "initialize":
			answer(m.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"x","version":"1"}}`)
		case "tools/list":
			switch mode {
			case "pages":
				answer(m.ID, fmt.Sprintf(`{"tools":[{"name":"t%s","inputSchema":{"type":"object"}}],"nextCursor":"%s1"}`, m.Params.Cursor, m.Params.Cursor))
			case "blanks":
				answer(m.ID, `{"tools":[],"nextCursor":"x"}`)
			case "odd":
				answer(m.ID, `{"tools":[{"name":"good.one","inputSchema":{"type":"object"}},{"name":"bad","inputSchema":{"type":"object","properties":7}},
					{"name":"huge","inputSchema":{"type":"object","description":"`+strings.Repeat("x", 70<<10)+`"}},
					{"name":"`+strings.Repeat("n", 100)+`","description":"a\u001b[31mred","inputSchema":{"type":"object"}}]}`)
			case "names":
				answer(m.ID, `{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"a","inputSchema":{"type":"object"},"description":"the other"},
					{"name":"\u001b[2Ja","inputSchema":{"type":"object"}},{"name":"","inputSchema":{"type":"object"}},
					{"name":"\u202ea\u0000","inputSchema":{"type":"object"}},{"name":"a__oauth_login","inputSchema":{"type":"object"}}]}`)
			case "restless":
				note("listed")
				answer(m.ID, tools)
				fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			default:
				answer(m.ID, tools)
			}
			if mode == "deaf" {
				select {} // reads nothing from now on
			}
		case "tools/call":
			switch mode {
			case "flood":
				for {
					if _, err := fmt.Print(strings.Repeat("x", 1<<20)); err != nil {
						return
					}
				}
			case "chatter":
				for i := 0; ; i++ {
					_, err := fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n"+
						`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}`+"\n", i)
					if err != nil {
						return
					}
				}
			case "twice":
				answer(m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
				answer(m.ID, `{"content":[{"type":"text","text":"again"}]}`)
			case "strays":
				for _, id := range []string{"4711", `"x"`, "-1", "1.5"} {
					answer(json.RawMessage(id), `{"content":[{"type":"text","text":"not yours"}]}`)
				}
				answer(m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
			case "storm":
				for i := range 500 {
					fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/%s","params":{"progressToken":%d,"progress":1,"level":"info","data":"x","uri":"a://b"}}`+"\n",
						[]string{"tools/list_changed", "progress", "message", "unheard_of", "resources/updated"}[i%5], i)
				}
				answer(m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
			case "requests":
				for i := range 100 {
					fmt.Printf(`{"jsonrpc":"2.0","id":"r%d","method":"%s","params":{}}`+"\n", i, []string{"roots/list", "sampling/createMessage", "no/such", "elicitation/create"}[i%4])
				}
				answer(m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
			case "unread":
				fmt.Println(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`)
			case "reordered":
				fmt.Printf(`{"meta":{},"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`+"\n", m.ID)
			case "not json", "half", "binary", "wrong id", "batch", "deep":
				note("called")
				fmt.Println(map[string]string{
					"not json": "I am well, thank you.", "half": `{"jsonrpc":"2.0","id":`, "binary": "\x00\xff\xfe\x80",
					"wrong id": `{"jsonrpc":"2.0","id":77,"result":{"content":[]}}`, "batch": "[]",
					"deep": strings.Repeat("[", 1<<20),
				}[mode])
			case "prints":
				fmt.Print("called a\n\n  " + strings.Repeat("x", 10_000) + "\n" + `{"time":1,"msg":"` + strings.Repeat("x", 10_000) + `"}` + "\n")
				answer(m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
				fmt.Print("done")
			case "refuses":
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad\u001b[2J arguments"}}`+"\n", m.ID)
			case "hangs":
				note("called")
				time.Sleep(time.Hour)
			default:
				answer(m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
			}
		}
	}
}
