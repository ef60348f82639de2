package providers_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/bedrock"
	"github.com/aycoder/aycoder/providers/google"
	"github.com/aycoder/aycoder/providers/ollama"
	"github.com/aycoder/aycoder/providers/openai"
)

// An idea has one name and one shape: an option that several providers have takes the same
// values in all of them, and each takes a value.
func TestOptionsAreAlike(t *testing.T) {
	shapes := map[string]map[string][]string{} // by name and parameters
	for _, dir := range []string{".", "anthropic", "bedrock", "google", "ollama", "openai"} {
		names, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "With") {
					continue
				}
				var params []string
				for _, p := range f.Type.Params.List {
					for range p.Names {
						params = append(params, types.ExprString(p.Type))
					}
				}
				shape := strings.ReplaceAll(strings.Join(params, ", "), "ctx context", "context")
				assert.NotEmpty(t, params, "%s.%s takes no value", dir, f.Name.Name)
				if shapes[f.Name.Name] == nil {
					shapes[f.Name.Name] = map[string][]string{}
				}
				shapes[f.Name.Name][shape] = append(shapes[f.Name.Name][shape], dir)
			}
		}
	}
	for name, s := range shapes {
		assert.Len(t, s, 1, "%s: %v", name, s)
	}
	for _, name := range []string{"WithAPIKey", "WithBaseURL", "WithHeader", "WithHTTPClient", "WithIdleTimeout", "WithMaxTokens"} {
		for _, dirs := range shapes[name] {
			assert.Len(t, dirs, 6, "%s is in %v", name, dirs)
		}
	}
}

// An option that is nil or invalid is an error of New, whatever the provider is.
func TestInvalidOptions(t *testing.T) {
	each(t, "anthropic", anthropic.New, nil, anthropic.WithTokenSource(nil), anthropic.WithBaseURL("x"))
	each(t, "bedrock", bedrock.New, nil, bedrock.WithTokenSource(nil), bedrock.WithBaseURL("x"))
	each(t, "google", google.New, nil, google.WithTokenSource(nil), google.WithBaseURL("x"))
	each(t, "ollama", ollama.New, nil, ollama.WithThinking("true"), ollama.WithThinking(""), ollama.WithBaseURL("x"))
	each(t, "openai", openai.New, nil, openai.WithTokenSource(nil), openai.WithThinking("a b"), openai.WithThinking(""), openai.WithThinkingField("content"))
}

func each[C any, O any](t *testing.T, name string, open func(string, ...O) (C, error), opts ...O) {
	t.Helper()
	for i, opt := range opts {
		_, err := open("m", opt)
		_, ok := errors.AsType[*aycoder.ConfigError](err)
		assert.True(t, ok, "%s: option %d: %v", name, i, err)
	}
}

// A service gets only one credential: a token source replaces a key.
func TestTokenReplacesKey(t *testing.T) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = nil
		for name, values := range r.Header {
			for _, v := range values {
				if strings.Contains(v, "the-key") || strings.Contains(v, "the-token") {
					got = append(got, name+": "+v)
				}
			}
		}
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer srv.Close()
	token := func(context.Context) (string, error) { return "the-token", nil }
	for name, open := range map[string]func() (aycoder.ModelClient, error){
		"anthropic": func() (aycoder.ModelClient, error) {
			return anthropic.New("m", anthropic.WithBaseURL(srv.URL), anthropic.WithAPIKey("the-key"), anthropic.WithTokenSource(token))
		},
		"bedrock": func() (aycoder.ModelClient, error) {
			return bedrock.New("m", bedrock.WithBaseURL(srv.URL), bedrock.WithAPIKey("the-key"), bedrock.WithTokenSource(token))
		},
		"google": func() (aycoder.ModelClient, error) {
			return google.New("m", google.WithBaseURL(srv.URL), google.WithAPIKey("the-key"), google.WithTokenSource(token))
		},
		"openai": func() (aycoder.ModelClient, error) {
			return openai.New("m", openai.WithBaseURL(srv.URL), openai.WithAPIKey("the-key"), openai.WithTokenSource(token))
		},
	} {
		m, err := open()
		require.NoError(t, err, name)
		_, err = aycoder.Complete(t.Context(), m, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hi")}})
		require.Error(t, err, name)
		assert.Equal(t, []string{"Authorization: Bearer the-token"}, got, name)
	}
}
