package api

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func TestParseModels(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
		ok       bool
	}{
		{"openai", `{"object":"list","data":[{"id":"a","object":"model"},{"id":"b"}]}`, []string{"a", "b"}, true},
		{"google", `{"models":[{"name":"models/gemini-1","displayName":"x"}]}`, []string{"gemini-1"}, true},
		{"ollama", `{"models":[{"name":"llama3:latest","model":"llama3:latest"}]}`, []string{"llama3:latest"}, true},
		{"list alone", `[{"id":"a"}]`, []string{"a"}, true},
		{"both names", `{"data":[{"name":"A","id":"a"}]}`, []string{"a"}, true},
		{"nothing there", `{"data":[]}`, []string{}, true},
		{"no list", `{"error":"x"}`, nil, false},
		{"no JSON", `<html>`, nil, false},
		{"broken off", `{"data":[{"id":"a"`, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseModels(tt.in)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.ok, err == nil, "%v", err)
		})
	}
}

func TestUnknownModelNamesKnownOnes(t *testing.T) {
	tests := []struct {
		name   string
		status int
		list   string
		want   []string
	}{
		{"similar ones", 200, `{"data":[{"id":"other"},{"id":"m-10"},{"id":"m-2"}]}`, []string{"m-10", "m-2"}},
		{"none is similar", 200, `{"data":[{"id":"zebra"},{"id":"yak"}]}`, []string{"zebra", "yak"}},
		{"no list", 404, `no`, nil},
		{"too long a list", 200, `{"data":[` + strings.Repeat(" ", maxModelList) + `]}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.WriteHeader(tt.status)
					_, _ = io.WriteString(w, tt.list)
					return
				}
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"error":{"message":"model not found","code":"model_not_found"}}`)
			}))
			defer s.Close()
			x := failing(0, "", nil)
			x.Config.do, x.Config.BaseURL, x.URL, x.ModelsPath = s.Client().Do, s.URL, s.URL+"/chat", "/models"
			e, ok := errors.AsType[*aycoder.UnknownModelError](lastError(x.Stream(t.Context())))
			require.True(t, ok)
			assert.Equal(t, tt.want, e.Available)
		})
	}
}

func FuzzParseModels(f *testing.F) {
	f.Add(`{"data":[{"id":"a"}]}`)
	f.Fuzz(func(t *testing.T, in string) {
		names, err := parseModels(in)
		assert.Equal(t, err == nil, names != nil)
		assert.LessOrEqual(t, len(names), len(in))
	})
}
