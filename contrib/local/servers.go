package local

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Server is a program on this machine that serves models.
type Server struct {
	// Kind is "llama.cpp", "lmstudio" or "ollama".
	Kind string
	// URL is where it is, such as "http://127.0.0.1:8080". Its API for chats is at URL + "/v1".
	URL string
	// Models are the names of its models: those of LM Studio and Ollama need not be loaded.
	Models []string
}

// A probe says where a kind of server is by default, and how it is known.
type probe struct {
	kind, base, path string
	models           func(data []byte) ([]string, bool)
}

// probes are the default addresses of llama-server, LM Studio and Ollama.
func probes() []probe {
	return []probe{
		{"llama.cpp", "http://127.0.0.1:8080", "/v1/models", func(data []byte) ([]string, bool) {
			names, owner := listed(data)
			return names, owner == "llamacpp"
		}},
		{"lmstudio", "http://127.0.0.1:1234", "/api/v0/models", func(data []byte) ([]string, bool) {
			names, _ := listed(data)
			return names, names != nil
		}},
		{"ollama", "http://127.0.0.1:11434", "/api/tags", func(data []byte) ([]string, bool) {
			var list struct{ Models []struct{ Name string } }
			names := []string{}
			if json.Unmarshal(data, &list) != nil || list.Models == nil {
				return nil, false
			}
			for _, m := range list.Models {
				names = append(names, m.Name)
			}
			return names, true
		}},
	}
}

// listed reads a list of models as OpenAI writes it, and who owns the first. Without a list, the names are nil.
func listed(data []byte) (names []string, owner string) {
	var list struct {
		Data []struct {
			ID    string
			Owner string `json:"owned_by"`
		}
	}
	if json.Unmarshal(data, &list) != nil || list.Data == nil {
		return nil, ""
	}
	names = []string{}
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	if len(list.Data) > 0 {
		owner = list.Data[0].Owner
	}
	return names, owner
}

// probeTime is for how long a server may be silent.
const probeTime = time.Second

// FindServers finds llama-server, LM Studio and Ollama at their default addresses of this machine. It asks all at the same time,
// and takes a second at most. No other machine is asked, through no proxy, and no redirect is followed.
func FindServers(ctx context.Context) []Server { return findServers(ctx, probes()) }

func findServers(ctx context.Context, list []probe) []Server {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	found := make([]*Server, len(list))
	var wg sync.WaitGroup
	for i, p := range list {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+p.path, nil)
			if err != nil {
				return
			}
			resp, err := client.Do(req)
			if err != nil {
				return
			}
			defer resp.Body.Close()
			data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			if err != nil || resp.StatusCode != http.StatusOK {
				return
			}
			if models, ok := p.models(data); ok {
				found[i] = &Server{Kind: p.kind, URL: p.base, Models: models}
			}
		})
	}
	wg.Wait()
	var servers []Server
	for _, s := range slices.DeleteFunc(found, func(s *Server) bool { return s == nil }) {
		servers = append(servers, *s)
	}
	return servers
}
