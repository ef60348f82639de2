package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
)

// versions are those of the protocol in which a server asks by a request, and by the result of one.
var versions = []string{"2025-11-25", newest}

// asker is a tool that does what a test wants with its caller.
func asker(t *testing.T, do func(context.Context, *Caller) (string, error)) aycoder.Tool {
	t.Helper()
	tool, err := aycoder.NewTool("asker", "Asks.", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		text, err := do(ctx, CallerOf(ctx))
		if err != nil {
			return nil, err
		}
		return aycoder.TextResult(text), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	return tool
}

var color = json.RawMessage(`{"type":"object","properties":{"color":{"type":"string","enum":["red","blue"]}},"required":["color"]}`)

// A tool asks the client's user and model in the middle of its work, which is done once.
func TestCaller(t *testing.T) {
	for _, version := range versions {
		var began atomic.Int32
		tool := asker(t, func(ctx context.Context, c *Caller) (string, error) {
			began.Add(1)
			c.Log(slog.LevelDebug, "not wanted")
			c.Log(slog.LevelWarn, "watch out")
			first, err := c.Ask(ctx, Question{Message: "Which one?", Schema: color})
			if err != nil {
				return "", err
			}
			second, err := c.Ask(ctx, Question{Message: "Sure?"})
			if err != nil {
				return "", err
			}
			res, err := c.Sample(ctx, &aycoder.Request{System: []*aycoder.Text{{Text: "be short"}}, MaxTokens: 7, Messages: []*aycoder.Message{
				{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "hello"}}},
			}})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %t %s %s", first.Content, second.Decline, res.Text(), res.Stop), nil
		})
		var mu sync.Mutex
		var logged, asked []string
		s := serve(t, newRuntime(t, t.TempDir(), harness.WithTools(tool)), version, &mcp.ClientOptions{
			LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) {
				mu.Lock()
				defer mu.Unlock()
				logged = append(logged, fmt.Sprint(req.Params.Level, " ", req.Params.Data))
			},
			ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked = append(asked, req.Params.Message)
				if len(asked) == 2 {
					return &mcp.ElicitResult{Action: "decline"}, nil
				}
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "blue"}}, nil
			},
			CreateMessageHandler: func(_ context.Context, req *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
				text := fmt.Sprint(req.Params.SystemPrompt, req.Params.MaxTokens, req.Params.Messages[0].Content.(*mcp.TextContent).Text)
				return &mcp.CreateMessageResult{Role: "assistant", Model: "m", StopReason: "maxTokens", Content: &mcp.TextContent{Text: text}}, nil
			},
		})
		if version < newest { // later, each request says what its client wants
			require.NoError(t, s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}))
		}
		got, failed := toolText(t, s, "asker", nil)
		require.False(t, failed, got)
		require.Equal(t, `{"color":"blue"} true be short7hello max_tokens`, got)
		require.Equal(t, []string{"Which one?", "Sure?"}, asked)
		require.EqualValues(t, 1, began.Load(), "the tool works once")
		if version < newest {
			timed.Until(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(logged) == 1 && logged[0] == "warning watch out" })
		}
	}
}

// A question that a client cannot be asked, and a wrong answer of it, are errors.
func TestCallerErrors(t *testing.T) {
	require.Nil(t, CallerOf(t.Context()))
	for _, version := range versions {
		var failed error
		do := func(ctx context.Context, c *Caller) error {
			_, err := c.Ask(ctx, Question{Message: "?", Schema: color})
			return err
		}
		rt := newRuntime(t, t.TempDir(), harness.WithTools(asker(t, func(ctx context.Context, c *Caller) (string, error) {
			failed = do(ctx, c)
			return "", failed
		})))
		plain := serve(t, rt, version, nil)
		answer := &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "green"}}
		asks := serve(t, rt, version, &mcp.ClientOptions{
			Capabilities:       &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return answer, nil },
		})
		_, _ = toolText(t, plain, "asker", nil)
		require.ErrorIs(t, failed, ErrCannotAsk)
		if version < newest { // the SDK's client of later versions would not send it
			_, _ = toolText(t, asks, "asker", nil)
			require.ErrorContains(t, failed, "color")
		}
		do = func(ctx context.Context, c *Caller) error {
			_, err := c.Ask(ctx, Question{Message: "?", URL: "https://example.com"})
			return err
		}
		_, _ = toolText(t, asks, "asker", nil)
		require.ErrorIs(t, failed, ErrCannotAsk, "it shows no addresses")
		do = func(ctx context.Context, c *Caller) error { _, err := c.Sample(ctx, &aycoder.Request{}); return err }
		_, _ = toolText(t, asks, "asker", nil)
		require.ErrorIs(t, failed, ErrCannotAsk)
	}
}

// A client that does not come back, or comes back wrongly: the call ends, is not made again, and nothing of it is left.
func TestParkedCalls(t *testing.T) {
	var began atomic.Int32
	ended := make(chan error, 2*maxParked)
	rt := newRuntime(t, t.TempDir(), harness.WithTools(asker(t, func(ctx context.Context, c *Caller) (string, error) {
		began.Add(1)
		a, err := c.Ask(ctx, Question{Message: "?", Schema: color})
		ended <- err
		return string(a.Content), err
	})))
	s := serve(t, rt, newest, &mcp.ClientOptions{
		MultiRoundTrip:     &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return nil, nil },
	})
	call := func(name, state string, answer mcp.InputResponse) (*mcp.CallToolResult, error) {
		p := &mcp.CallToolParams{Name: name, Arguments: map[string]any{}, RequestState: state}
		if answer != nil {
			p.InputResponses = mcp.InputResponseMap{questionID: answer}
		}
		return s.CallTool(t.Context(), p)
	}
	parks := func() string {
		res, err := call("asker", "", nil)
		require.NoError(t, err)
		require.Len(t, res.InputRequests, 1)
		return res.RequestState
	}
	blue := &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "blue"}}
	word := parks()
	res, err := call("asker", word, blue)
	require.NoError(t, err)
	require.Equal(t, `{"color":"blue"}`, res.Content[0].(*mcp.TextContent).Text)
	require.NoError(t, <-ended)
	_, err = call("asker", word, blue)
	require.ErrorContains(t, err, "has ended", "an answer counts once")
	_, err = call("asker", "call-guessed", blue)
	require.ErrorContains(t, err, "has ended")
	_, err = call("list_files", parks(), blue)
	require.ErrorContains(t, err, "another tool")
	require.ErrorIs(t, <-ended, errUnanswered)
	_, err = call("asker", parks(), &mcp.CreateMessageResult{Role: "assistant", Content: &mcp.TextContent{Text: "I am no answer"}})
	require.NoError(t, err)
	require.ErrorContains(t, <-ended, "has not answered")
	_, err = call("asker", parks(), &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "green"}})
	require.NoError(t, err)
	require.ErrorContains(t, <-ended, "color")
	require.EqualValues(t, 4, began.Load())

	first := parks()
	for range maxParked + 3 { // what was taken has still its place
		parks()
	}
	require.ErrorIs(t, <-ended, errUnanswered, "the oldest call makes room")
	_, err = call("asker", first, blue)
	require.ErrorContains(t, err, "has ended")
	// The rest ends with the server, which the cleanup waits for.
}

// A question that nobody answers ends its call.
func TestParkedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &served{}
		x.parked.most = 1
		ctx, stop := context.WithCancelCause(t.Context())
		c := &calling{stop: stop, asks: make(chan *asking), done: make(chan outcome, 1), req: &mcp.CallToolRequest{}}
		failed := make(chan error, 1)
		go func() { _, err := c.park(ctx, &mcp.ElicitParams{}); failed <- err }()
		res, err := x.wait(t.Context(), c)
		require.NoError(t, err)
		time.Sleep(parkedFor - time.Second)
		require.NoError(t, ctx.Err())
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, <-failed, errUnanswered)
		_, err = x.resumed(t.Context(), &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{RequestState: res.RequestState}})
		require.ErrorContains(t, err, "has ended")
	})
}

// That is so in each version of the protocol: a client whose user is away does not keep others from writing.
func TestAskedFor(t *testing.T) {
	for _, version := range versions {
		synctest.Test(t, func(t *testing.T) {
			failed := make(chan error, 1)
			rt := newRuntime(t, t.TempDir(), harness.WithTools(asker(t, func(ctx context.Context, c *Caller) (string, error) {
				_, err := c.Ask(ctx, Question{Message: "?"})
				failed <- err
				return "", err
			})))
			s := serve(t, rt, version, &mcp.ClientOptions{
				ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					time.Sleep(2 * parkedFor)
					return &mcp.ElicitResult{Action: "accept"}, nil
				},
			})
			_, _ = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "asker", Arguments: map[string]any{}})
			require.ErrorIs(t, <-failed, errUnanswered)
		})
	}
}

// Nor does a client that answers each of many questions late.
func TestAskedForInAll(t *testing.T) {
	for _, version := range versions {
		synctest.Test(t, func(t *testing.T) {
			failed := make(chan error, 1)
			rt := newRuntime(t, t.TempDir(), harness.WithTools(asker(t, func(ctx context.Context, c *Caller) (string, error) {
				for n := 0; ; n++ {
					if _, err := c.Ask(ctx, Question{Message: "?"}); err != nil {
						failed <- err
						return "", fmt.Errorf("%d questions: %w", n, err)
					}
				}
			})))
			s := serve(t, rt, version, &mcp.ClientOptions{
				ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					time.Sleep(parkedFor * 2 / 5)
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
				},
			})
			begin := time.Now()
			_, _ = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "asker", Arguments: map[string]any{}})
			require.ErrorIs(t, <-failed, errUnanswered)
			require.GreaterOrEqual(t, time.Since(begin), parkedFor)
			require.LessOrEqual(t, time.Since(begin), parkedFor*6/5, "the third question is not answered in time")
		})
	}
}

// The end of a service ends a call that waits for its client, and what comes later is refused.
func TestServiceClose(t *testing.T) {
	for _, version := range versions {
		asked, failed := make(chan struct{}), make(chan error, 1)
		rt := newRuntime(t, t.TempDir(), harness.WithTools(asker(t, func(ctx context.Context, c *Caller) (string, error) {
			_, err := c.Ask(ctx, Question{Message: "?"})
			failed <- err
			return "", err
		})))
		var u Updates
		service, err := Handler(rt, ServeConfig{Updates: &u})
		require.NoError(t, err)
		s := httptest.NewServer(service)
		c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				close(asked)
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.URL, MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		called := make(chan struct{})
		go func() {
			defer close(called)
			_, _ = c.CallTool(ctx, &mcp.CallToolParams{Name: "asker", Arguments: map[string]any{}})
		}()
		<-asked
		require.NoError(t, service.Close())
		require.ErrorIs(t, <-failed, ErrClosed)
		cancel()
		<-called
		res, err := http.Post(s.URL, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.NoError(t, res.Body.Close())
		require.Empty(t, u.servers)
		require.NoError(t, service.Close())
		_ = c.Close() // it was closed
		s.Close()
	}
}

// Clients do not fill the memory of a service with sessions and subscriptions.
func TestServiceBounds(t *testing.T) {
	service, err := Handler(newRuntime(t, t.TempDir()), ServeConfig{Updates: new(Updates)})
	require.NoError(t, err)
	service.most = 3
	s := httptest.NewServer(service)
	defer s.Close()
	defer func() { require.NoError(t, service.Close()) }()
	connect := func() (*mcp.ClientSession, error) {
		return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: s.URL, MaxRetries: -1, DisableStandaloneSSE: true}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	}
	first, err := connect()
	require.NoError(t, err)
	require.NoError(t, first.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "file:///7"}))
	require.ErrorContains(t, first.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "file:///" + strings.Repeat("x", maxURI)}), "too long")
	for range service.most - 1 {
		c, err := connect()
		require.NoError(t, err)
		defer c.Close()
	}
	_, err = connect()
	require.ErrorContains(t, err, "Service Unavailable")
	require.NoError(t, first.Close())
	again, err := connect()
	require.NoError(t, err, "a session that ends makes room")
	defer again.Close()

	subscribe := (&ServeConfig{Updates: new(Updates)}).options().SubscribeHandler
	for i := range maxURIs {
		require.NoError(t, subscribe(t.Context(), &mcp.SubscribeRequest{Params: &mcp.SubscribeParams{URI: fmt.Sprint("file:///", i)}}))
	}
	require.NoError(t, subscribe(t.Context(), &mcp.SubscribeRequest{Params: &mcp.SubscribeParams{URI: "file:///7"}}))
	require.ErrorContains(t, subscribe(t.Context(), &mcp.SubscribeRequest{Params: &mcp.SubscribeParams{URI: "file:///more"}}), "too many")
}

// A call that takes longer than the connection may is not lost.
func TestPoll(t *testing.T) {
	polls := make(chan struct{})
	rt := newRuntime(t, t.TempDir(), harness.WithTools(asker(t, func(ctx context.Context, _ *Caller) (string, error) {
		select {
		case <-polls:
			return "late", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})))
	handler, err := Handler(rt, ServeConfig{Poll: 10 * time.Millisecond})
	require.NoError(t, err)
	var once sync.Once
	s := httptest.NewServer(&counting{handler, func(method, last string) {
		if method == "GET" && last != "" {
			once.Do(func() { close(polls) })
		}
	}})
	defer s.Close()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: s.URL}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	defer c.Close()
	got, failed := toolText(t, c, "asker", nil)
	require.False(t, failed)
	require.Equal(t, "late", got)
}

// Two peers of this package, of which the server asks in the middle of a call, by the newest version of the protocol.
func TestCallerBetweenPeers(t *testing.T) {
	var began atomic.Int32
	rt := newRuntime(t, t.TempDir(), harness.WithTools(asker(t, func(ctx context.Context, c *Caller) (string, error) {
		began.Add(1)
		a, err := c.Ask(ctx, Question{Message: "Which one?", Schema: color})
		if err != nil {
			return "", err
		}
		res, err := c.Sample(ctx, &aycoder.Request{Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "hello"}}}}})
		if err != nil {
			return "", err
		}
		return string(a.Content) + res.Text(), nil
	})))
	handler, err := Handler(rt, ServeConfig{Tools: []string{"asker"}})
	require.NoError(t, err)
	s := httptest.NewServer(handler)
	defer s.Close()
	src, err := Connector(WithElicitation(func(_ context.Context, q Question) (Answer, error) {
		if q.Message != "Which one?" {
			return Answer{}, errors.New(q.Message)
		}
		return Answer{Accept: true, Content: json.RawMessage(`{"color":"red"}`)}, nil
	}), WithSampling(func(context.Context, string, *aycoder.Request) (*aycoder.Response, error) {
		return &aycoder.Response{Message: &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "hi"}}}}, nil
	}))(t.Context(), "s", config.Server{URL: s.URL})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close()) }()
	require.Equal(t, newest, src.(*client).conn.session.InitializeResult().ProtocolVersion)
	list, err := src.Tools(t.Context())
	require.NoError(t, err)
	res, err := list[0].Call(t.Context(), aycoder.NewInvocation("1", "", json.RawMessage(`{}`), nil))
	require.NoError(t, err)
	require.Equal(t, `{"color":"red"}hi`, res.Text())
	require.EqualValues(t, 1, began.Load())
}
