package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/closest"
	"github.com/aycoder/aycoder/internal/rawjson"
)

const (
	maxModelList  = 4 << 20
	maxModels     = 10_000
	maxAvailable  = 8
	availableTime = 3 * time.Second
)

// Models sends a GET request to url with the HTTP client of c and returns the names of the service's models. It
// accepts the response {"data":[{"id":…}]} of OpenAI and Anthropic, and the response
// {"models":[{"name":…}]} of Google and Ollama.
func Models(ctx context.Context, c *Config, url string, setHeaders func(http.Header)) ([]string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", withoutQuery(err))
	}
	setHeaders(r.Header)
	r.Header.Del("Content-Type")
	resp, err := c.send(r)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", withoutQuery(err))
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxModelList+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("list models: %w", err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("list models: status %d", resp.StatusCode)
	case len(data) > maxModelList:
		return nil, &aycoder.LimitError{Limit: "bytes of a list of models", Max: maxModelList}
	}
	return parseModels(string(data))
}

// parseModels reads a list of models in the forms of OpenAI, Anthropic, Google and Ollama.
func parseModels(data string) (names []string, err error) {
	r := rawjson.NewReader(strings.ToValidUTF8(data, "\uFFFD"))
	if r.Kind() == '[' { // of some gateways
		names = modelNames(r)
	}
	for r.Object(); r.Next(); {
		if k := r.Key(); k == "data" || k == "models" {
			names = append(append([]string{}, names...), modelNames(r)...)
		}
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	if names == nil {
		return nil, errors.New("list models: no list in the answer")
	}
	return names, nil
}

// modelNames returns the names of a list, as requests use them.
func modelNames(r *rawjson.Reader) []string {
	names := []string{}
	for r.Array(); r.Next(); {
		id, name := "", ""
		for r.Object(); r.Next(); {
			switch r.Key() {
			case "id":
				id, _ = r.Str()
			case "name":
				name, _ = r.Str()
			}
		}
		if id == "" {
			id = strings.TrimPrefix(name, "models/")
		}
		if id != "" && len(names) < maxModels {
			names = append(names, id)
		}
	}
	return names
}

// known adds the names of the most similar existing models to the error for an unknown
// model. If the list of models cannot be read, the error stays unchanged.
func (k *Call) known(err error) {
	e, ok := errors.AsType[*aycoder.UnknownModelError](err)
	if !ok || k.x.ModelsPath == "" {
		return
	}
	ctx, cancel := context.WithTimeout(k.ctx, availableTime)
	defer cancel()
	names, lerr := Models(ctx, k.x.Config, k.x.Config.BaseURL+k.x.ModelsPath, func(h http.Header) {
		k.x.SetHeaders(h)
		_ = k.x.Config.authorise(ctx, h) // the request was authorised just before
	})
	if lerr != nil {
		return
	}
	e.Available = closest.Closest(k.x.Model, names, maxAvailable)
	if len(e.Available) == 0 {
		e.Available = names[:min(len(names), maxAvailable)]
	}
	for i, n := range e.Available {
		e.Available[i] = k.x.Config.Show(n, maxID)
	}
}
