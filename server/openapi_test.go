package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/schema"
	"github.com/aycoder/aycoder/providers/script"
)

type document struct {
	Paths map[string]map[string]struct {
		Security   *[]any
		Parameters []struct{ Name, In string }
		Body       struct {
			Content map[string]struct{ Schema map[string]any }
		} `json:"requestBody"`
		Responses map[string]struct {
			Content map[string]struct{ Schema json.RawMessage }
		}
	}
	Components struct{ Schemas map[string]json.RawMessage }
}

func described(t *testing.T) (d document) {
	require.NoError(t, json.Unmarshal(openAPI, &d))
	return d
}

// The document and the server have the same operations, with the same parameters, and the same need of a token.
func TestOpenAPIHasTheOperations(t *testing.T) {
	s := served(t, script.New())
	d := described(t)
	var want, got []string
	for _, x := range s.operations() {
		want = append(want, fmt.Sprint(x.method, " ", x.path, " ", x.open))
	}
	for path, ops := range d.Paths {
		for method, op := range ops {
			got = append(got, fmt.Sprint(strings.ToUpper(method), " ", path, " ", op.Security != nil))
			names := strings.Count(path, "{")
			for _, p := range op.Parameters {
				if p.In == "path" {
					require.Contains(t, path, "{"+p.Name+"}")
					names--
				}
			}
			require.Zero(t, names, path)
			require.Contains(t, op.Responses, "default")
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
	require.NoError(t, s.Close())
}

// The bodies that the document describes are those that the operations decode.
func TestOpenAPIHasTheBodies(t *testing.T) {
	d := described(t)
	for name, body := range map[string]any{"Prompt": promptRequest{}, "Answer": answer{}, "Result": callResult{}, "Message": message{}, "Checkout": checkout{}, "ToolCall": toolCall{}} {
		var sc struct {
			Properties map[string]any
			Required   []string
		}
		require.NoError(t, json.Unmarshal(d.Components.Schemas[name], &sc))
		var keys, required []string
		for f := range reflect.TypeOf(body).Fields() {
			key, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			keys = append(keys, key)
			if opts == "" {
				required = append(required, key)
			}
		}
		require.ElementsMatch(t, keys, slices.Collect(maps.Keys(sc.Properties)), name)
		require.ElementsMatch(t, required, sc.Required, name)
	}
}

// The operations answer as the document says.
func TestOpenAPIHasTheAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := described(t)
		s := served(t, script.New(script.Reply(script.Say("Look."), script.Call("list_files", `{}`)), script.Say("Done.")))
		session, run := "", ""
		ask := func(method, path, text string) {
			t.Helper()
			at := strings.NewReplacer("{session}", session, "{run}", run, "{tool}", "list_files", "{call}", "c1").Replace(path)
			w := httptest.NewRecorder()
			r := localRequest(context.Background(), method, at, text)
			r.Header.Set("Accept", "application/json")
			s.ServeHTTP(w, r)
			synctest.Wait()
			if h := w.Header().Get("Aycoder-Session"); h != "" {
				session, run = h, w.Header().Get("Aycoder-Run")
			}
			path, _, _ = strings.Cut(path, "?")
			op, ok := d.Paths[path][strings.ToLower(method)]
			require.True(t, ok, path)
			res, ok := op.Responses[fmt.Sprint(w.Code)]
			if !ok {
				res = op.Responses["default"]
				require.GreaterOrEqual(t, w.Code, 400)
			}
			media := w.Header().Get("Content-Type")
			if w.Code == 204 {
				require.Empty(t, res.Content)
				return
			}
			require.Contains(t, res.Content, media, path)
			if media == "text/event-stream" {
				return
			}
			sc, err := schema.Compile(withComponents(res.Content[media].Schema, d))
			require.NoError(t, err)
			require.Empty(t, sc.Validate(w.Body.Bytes()), "%s %s: %s", method, path, w.Body)
		}
		ask("POST", "/api/prompt", `{"prompt":"go"}`)
		ask("POST", "/api/prompt", `{"prompt":""}`)
		for path, ops := range d.Paths {
			if ops["get"].Responses != nil {
				ask("GET", path, "")
			}
		}
		ask("POST", "/api/sessions/{session}/checkout", `{"node":1}`)
		ask("POST", "/api/sessions/{session}/checkout", `{"node":99}`)
		ask("POST", "/api/tools/{tool}", `{"args":{}}`)
		ask("POST", "/api/runs/{run}/approvals/{call}", `{"decision":"allow","digest":"x"}`)
		ask("POST", "/api/runs/{run}/results/{call}", `{"text":"allow","digest":"x"}`)
		ask("POST", "/api/runs/{run}/steer", `{"text":"x"}`)
		ask("POST", "/v1/chat/completions", `{"messages":[]}`)
		ask("POST", "/api/runs/{run}/cancel", "")
		require.NoError(t, s.Close())
		ask("GET", "/ready", "")
	})
}

func withComponents(sc json.RawMessage, d document) []byte {
	return []byte(strings.TrimSuffix(string(sc), "}") + `,"components":` + componentsOf(d) + "}")
}

func componentsOf(d document) string {
	data, _ := json.Marshal(map[string]any{"schemas": d.Components.Schemas})
	return string(data)
}
