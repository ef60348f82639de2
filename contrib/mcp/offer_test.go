package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// counting tells of the requests to a server.
type counting struct {
	http.Handler
	tell func(method, lastEvent string)
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.tell(r.Method, r.Header.Get("Last-Event-ID"))
	c.Handler.ServeHTTP(w, r)
}

func TestOffers(t *testing.T) {
	updates := new(Updates)
	t.Cleanup(func() { require.Empty(t, updates.servers) }) // after those of the clients
	offers := ServeConfig{
		Updates: updates,
		Resources: []Resource{
			{URI: "note://one", Name: "one", Description: "The first note.", Type: "text/plain", Read: func(context.Context, string) (*aycoder.Media, error) {
				return &aycoder.Media{Type: "text/plain", Data: []byte("a note")}, nil
			}},
			{URI: "note://{name}/picture", Read: func(_ context.Context, uri string) (*aycoder.Media, error) {
				switch uri {
				case "note://none/picture":
					return nil, fs.ErrNotExist
				case "note://broken/picture":
					return nil, errors.New("broken")
				}
				return &aycoder.Media{Type: "image/png", Data: []byte(uri)}, nil
			}},
		},
		Prompts: []Prompt{{
			Name: "review", Description: "Reviews.", Arguments: []Argument{
				{Name: "file", Required: true, Complete: func(_ context.Context, typed string) (all []string) {
					for i := range 150 {
						all = append(all, fmt.Sprint(typed, i))
					}
					return all
				}},
				{Name: "how"},
			},
			Messages: func(_ context.Context, args map[string]string) ([]*aycoder.Message, error) {
				if args["how"] == "badly" {
					return nil, errors.New("not badly")
				}
				return []*aycoder.Message{
					{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "Review " + args["file"]}, &aycoder.Media{Type: "image/png", Data: []byte("PNG")}}},
					{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "Fine."}}},
				}, nil
			},
		}},
	}
	for _, version := range versions {
		changed := make(chan string, 100)
		s := serveWith(t, newRuntime(t, t.TempDir()), offers, version, &mcp.ClientOptions{
			ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
				select {
				case changed <- req.Params.URI:
				default:
				}
			},
		})
		list, err := s.ListResources(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, list.Resources, 1)
		require.Equal(t, "text/plain", list.Resources[0].MIMEType)
		templates, err := s.ListResourceTemplates(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, "note://{name}/picture", templates.ResourceTemplates[0].Name)
		read := func(uri string) (*mcp.ReadResourceResult, error) {
			return s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		}
		res, err := read("note://one")
		require.NoError(t, err)
		require.Equal(t, "a note", res.Contents[0].Text)
		res, err = read("note://a/picture")
		require.NoError(t, err)
		require.Equal(t, "note://a/picture", string(res.Contents[0].Blob))
		for uri, want := range map[string]string{"note://none/picture": "not found", "note://broken/picture": "broken", "file:///etc/passwd": "not found"} {
			_, err = read(uri)
			require.ErrorContains(t, err, want)
		}

		prompt := func(args map[string]string) (*mcp.GetPromptResult, error) {
			return s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "review", Arguments: args})
		}
		got, err := prompt(map[string]string{"file": "a.go"})
		require.NoError(t, err)
		require.Len(t, got.Messages, 3)
		require.Equal(t, "Review a.go", got.Messages[0].Content.(*mcp.TextContent).Text)
		require.Equal(t, "PNG", string(got.Messages[1].Content.(*mcp.ImageContent).Data))
		require.EqualValues(t, "assistant", got.Messages[2].Role)
		_, err = prompt(nil)
		require.ErrorContains(t, err, "the argument file is missing")
		_, err = prompt(map[string]string{"file": "a", "how": "badly"})
		require.ErrorContains(t, err, "not badly")
		complete := func(name string) mcp.CompletionResultDetails {
			res, err := s.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "review"},
				Argument: mcp.CompleteParamsArgument{Name: name, Value: "x"}})
			require.NoError(t, err)
			return res.Completion
		}
		details := complete("file")
		require.Len(t, details.Values, 100)
		require.Equal(t, "x0", details.Values[0])
		require.True(t, details.HasMore)
		require.Empty(t, complete("how").Values)

		require.NoError(t, s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "note://one"}))
		timed.Until(t, func() bool { // later versions of the protocol do not say when the subscription counts
			updates.Changed("note://two")
			updates.Changed("note://one")
			select {
			case uri := <-changed:
				require.Equal(t, "note://one", uri)
				return true
			default:
				return false
			}
		})
	}
	require.Len(t, updates.servers, 2, "until the clients have gone")
}

func TestWrongOffers(t *testing.T) {
	read := func(context.Context, string) (*aycoder.Media, error) { return nil, nil }
	rt := newRuntime(t, t.TempDir())
	for want, c := range map[string]ServeConfig{
		"Resources[0]: needs Read":            {Resources: []Resource{{URI: "a://b"}}},
		"Resources[0]: the URI has no scheme": {Resources: []Resource{{URI: "b", Read: read}}},
		"Resources[1]":                        {Resources: []Resource{{URI: "a://b", Read: read}, {URI: "a://{", Read: read}}},
		"Prompts[0]: needs Name and Messages": {Prompts: []Prompt{{Name: "x"}}},
	} {
		_, err := Handler(rt, c)
		bad, ok := errors.AsType[*aycoder.ConfigError](err)
		require.True(t, ok)
		require.ErrorContains(t, bad, want)
	}
}
