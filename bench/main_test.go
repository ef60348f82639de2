//go:build unix

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/bench/internal/provider"
)

// The tables of the document match results.json.
func TestDocumentIsRendered(t *testing.T) {
	r, err := load("results.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := files("../docs", r)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join("../docs", name))
		if err != nil || string(got) != text {
			t.Errorf("docs/%s is not what results.json says: run go run -C bench . -render (%v)", name, err)
		}
		if strings.HasSuffix(name, ".svg") {
			wellFormed(t, name, text)
		}
	}
	for _, name := range contestants {
		if r.Missing[name] == "" && !strings.Contains(want["benchmarks.md"], "| "+name) {
			t.Errorf("%s is in no table", name)
		}
	}
}

func wellFormed(t *testing.T, name, text string) {
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, xs := range map[float64][]float64{0: nil, 3: {3}, 2: {9, 1, 2}, 2.5: {4, 1, 3, 2}} {
		if got := median(xs); got != want {
			t.Errorf("median(%v) = %v, want %v", xs, got, want)
		}
	}
}

// A ratio is the median of the ratios of the rounds, not the ratio of the medians.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	floor := &Entry{Name: "floor", Wire: "w", Size: 10, Values: map[string][]float64{"x": {1, 10, 100}}}
	e := &Entry{Name: "e", Wire: "w", Size: 25, Values: map[string][]float64{"x": {2, 40, 100}}}
	r := &Results{Entries: []*Entry{floor, e}}
	if v, ratio := r.value(e, "x"); v != 40 || ratio != 2 {
		t.Errorf("got %v and %v, want 40 and 2", v, ratio)
	}
	if _, ratio := r.value(e, "size"); ratio != 2.5 {
		t.Errorf("size: got %v, want 2.5", ratio)
	}
}

// The provider refuses a history that the script does not lead to.
func TestProviderRefuses(t *testing.T) {
	server := httptest.NewServer(&provider.Handler{})
	defer server.Close()
	const chat, messages = "/1-2-3/v1/chat/completions", "/1-2-3/v1/messages"
	tests := []struct {
		name, path, body string
		want             int
	}{
		{"first", chat, `{"stream":true,"messages":[{"role":"user","content":"x"}]}`, 200},
		{"first, Anthropic", messages, `{"stream":true,"messages":[{"role":"user","content":"x"}]}`, 200},
		{"results", chat, `{"stream":true,"messages":[{"role":"assistant"},{"role":"tool"},{"role":"tool"}]}`, 200},
		{"results, Anthropic", messages, `{"stream":true,"messages":[{"role":"assistant","content":[]},{"role":"user","content":[{"type":"tool_result"},{"type":"tool_result"}]}]}`, 200},
		{"a result is missing", chat, `{"stream":true,"messages":[{"role":"assistant"},{"role":"tool"}]}`, 400},
		{"too many answers", chat, `{"stream":true,"messages":[{"role":"assistant"},{"role":"assistant"},{"role":"tool"},{"role":"tool"},{"role":"tool"},{"role":"tool"}]}`, 400},
		{"no stream", chat, `{"messages":[]}`, 400},
		{"no JSON", chat, `{`, 400},
		{"no script", "/v1/messages", `{"stream":true}`, 400},
		{"another API", "/1-2-3/v1/responses", `{"stream":true}`, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := http.Post(server.URL+tt.path, "application/json", strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tt.want {
				t.Errorf("status %d, want %d: %s", resp.StatusCode, tt.want, body)
			}
			if tt.want == 200 && !bytes.Contains(body, []byte("data: ")) {
				t.Errorf("no stream: %s", body)
			}
		})
	}
}
