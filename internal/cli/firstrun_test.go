package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers"
)

// The vendors are in the order of the catalogue, and begin with a model that it knows and that can call tools.
func TestVendors(t *testing.T) {
	data, err := os.ReadFile("../../catalog/models.json")
	require.NoError(t, err)
	var file struct {
		Providers []struct {
			Provider string `json:"provider"`
		} `json:"providers"`
	}
	require.NoError(t, json.Unmarshal(data, &file))
	var order []string
	for _, p := range file.Providers {
		if p.Provider != "ollama" && p.Provider != "bedrock" && p.Provider != "vertex" { // whose keys are not one variable
			order = append(order, p.Provider)
		}
	}
	var vendors []string
	for _, v := range vendorTable() {
		vendors = append(vendors, v.provider)
		info, ok := catalog.Default().Lookup(v.provider, v.model)
		require.True(t, ok && info.Tools, v.model)
		for _, name := range v.keys {
			t.Setenv(name, "")
		}
	}
	require.Equal(t, order, vendors)
	for _, v := range vendorTable() {
		for _, name := range v.keys {
			_, err := providers.Open(v.provider + "/" + v.model)
			require.ErrorContains(t, err, v.keys[0])
			t.Setenv(name, "key-0123456789")
			_, err = providers.Open(v.provider + "/" + v.model)
			require.NoError(t, err, name)
			t.Setenv(name, "")
		}
	}
}

// newOllama is a server with models, each with what it can do. Old servers do not list that.
func newOllama(t *testing.T, old bool, models ...map[string]any) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tags", func(w http.ResponseWriter, _ *http.Request) {
		var list []any
		for _, m := range models {
			shown := map[string]any{"name": m["name"], "model": m["name"], "remote_model": m["remote_model"]}
			if !old {
				shown["capabilities"] = m["capabilities"]
			}
			list = append(list, shown)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"models": list})
	})
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Model, Name string }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		for _, m := range models {
			if m["name"] == asked.Model {
				_ = json.NewEncoder(w).Encode(map[string]any{"capabilities": m["capabilities"], "details": map[string]any{}})
			}
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestChooseModel(t *testing.T) {
	tiny := map[string]any{"name": "tiny:1b", "capabilities": []string{"completion"}}
	able := map[string]any{"name": "able:8b", "capabilities": []string{"completion", "tools"}}
	cloud := map[string]any{"name": "big:cloud", "capabilities": []string{"tools"}, "remote_model": "big"}
	tests := []struct {
		name   string
		env    map[string]string
		ollama *httptest.Server
		model  string
		why    string
	}{
		{"one key", map[string]string{"XAI_API_KEY": "k"}, nil, "xai/grok-4.7", ""},
		{"several keys", map[string]string{"OPENAI_API_KEY": "k", "GOOGLE_API_KEY": "k"}, nil, "openai/gpt-6.1-sol",
			"(OPENAI_API_KEY is set, and GOOGLE_API_KEY as well; change it with -model, such as -model google/gemini-3.8-flash.)"},
		{"a token", map[string]string{"ANTHROPIC_AUTH_TOKEN": "k"}, nil, defaultModel, ""},
		{"another address", map[string]string{baseURLEnv: "http://x"}, nil, defaultModel, ""},
		{"a key comes before Ollama", map[string]string{"XAI_API_KEY": "k"}, newOllama(t, false, able), "xai/grok-4.7", ""},
		{"Ollama", nil, newOllama(t, false, tiny, able), "ollama/able:8b", "this Ollama answers"},
		{"an old Ollama", nil, newOllama(t, true, tiny, able), "ollama/able:8b", "this Ollama answers"},
		{"nothing that calls tools", nil, newOllama(t, false, tiny), "", "ollama pull qwen3:8b"},
		{"a model elsewhere", nil, newOllama(t, false, cloud), "", "ollama pull qwen3:8b"},
		{"Ollama elsewhere", map[string]string{ollamaEnv: "192.0.2.1"}, nil, "", "is not this machine"},
		{"nothing", nil, nil, "", "no Ollama answers here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			address := tt.env[ollamaEnv]
			switch {
			case tt.ollama != nil:
				address = strings.TrimPrefix(tt.ollama.URL, "http://")
			case address == "":
				address = "127.0.0.1:9"
			}
			t.Setenv(ollamaEnv, address) // where the client looks for it
			a := &app{getenv: func(name string) string {
				if name == ollamaEnv {
					return address
				}
				return tt.env[name]
			}}
			st, err := a.settings(&options{print: true})
			require.NoError(t, err)
			require.Equal(t, tt.model, st.model)
			require.Contains(t, st.why, tt.why)
			if st.model == "" { // in a terminal, it is the demo
				st, err := a.settings(&options{})
				require.NoError(t, err)
				require.Equal(t, demoModel, st.model)
			}
		})
	}
}

// The provider of a model that is named without one is that which has it.
func TestModelWithoutProvider(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, key, want, why string }{
		{"gpt-5", "OPENAI_API_KEY", "openai/gpt-5", ""},
		{"gemini-2.5-pro", "", "google/gemini-2.5-pro", ""},
		{"claude-sonnet-4-5", keyEnv, "anthropic/claude-sonnet-4-5", ""},
		{"unheard-of", keyEnv, "anthropic/unheard-of", ""},
		{"unheard-of", "OPENAI_API_KEY", "", "anthropic/unheard-of needs ANTHROPIC_API_KEY, which is not set"},
	} {
		a := &app{getenv: func(name string) string {
			if name == tt.key {
				return "k"
			}
			return ""
		}}
		st := &settings{loaded: &config.Loaded{}}
		require.Equal(t, tt.want, a.named(tt.name, st), tt.name)
		require.Equal(t, tt.why, st.why)
	}
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"": true, "127.0.0.1": true, "127.0.0.1:11434": true, "localhost:1": true, "http://[::1]:11434/": true, ":8080": true, "0.0.0.0": true,
		"example.com": false, "10.0.0.1:11434": false, "https://ollama.com": false, "http://127.0.0.1.example.com": false, "%": false,
	} {
		require.Equal(t, want, isLoopback(host), host)
	}
}

// The first line says which of several vendors answers.
func TestFirstLine(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	s := newService(t, says("Hello.", "end_turn"))
	got := runProgram(t, append(s.env(), "OPENAI_API_KEY=sk-other-secret"), "", "-p", "hi")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `^Using anthropic/claude-sonnet-4-5 \(ANTHROPIC_API_KEY is set, and OPENAI_API_KEY as well; change it with -model`, got.err)
	require.NotContains(t, runProgram(t, append(s.env(), "OPENAI_API_KEY=x"), "", "-p", "-model", defaultModel, "hi").err, "Using")
}
