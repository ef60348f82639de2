package catalog

import (
	"cmp"
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
)

//go:embed models.json
var models string

// Catalog is a set of models. It is immutable and safe for concurrent use. A zero or nil
// Catalog has no models.
type Catalog struct {
	load func() *index // called once or more, returns the same
}

// An index holds the models of a catalog by their provider and name.
type index struct {
	models map[key]aycoder.ModelInfo
	names  map[key]string // further names, to the key's model
}

// A key is in lower case: no two models differ in that only.
type key struct{ provider, model string }

func newKey(provider, model string) key {
	return key{strings.ToLower(provider), strings.ToLower(model)}
}

// Default returns the catalog that comes with this package. Its data are parsed at the first
// lookup, which takes a few milliseconds. Keep the catalog instead of calling Default
// repeatedly, since each catalog parses the data once.
func Default() *Catalog {
	return &Catalog{load: sync.OnceValue(func() *index {
		x, err := parse(strings.NewReader(models))
		if err != nil {
			panic(err) // a test reads the file
		}
		return x
	})}
}

func (c *Catalog) index() *index {
	if c == nil || c.load == nil {
		return &index{}
	}
	return c.load()
}

// Lookup returns the data on a provider's model, under any of the names that the provider gives
// it. It returns false if the model is unknown. [aycoder.ModelInfo.Model] is the name in the
// catalog. The caller may modify the result.
func (c *Catalog) Lookup(provider, model string) (aycoder.ModelInfo, bool) {
	if provider == "" || model == "" || len(model) > maxName {
		return aycoder.ModelInfo{}, false
	}
	x := c.index()
	provider, model = strings.ToLower(provider), strings.ToLower(model)
	for _, name := range spellings(provider, model) {
		if info, ok := x.find(provider, name); ok {
			return info, true
		}
	}
	if name, ok := withoutRegion(provider, model); ok {
		info, ok := x.find(provider, name)
		info.Price = nil // it may be another one there
		return info, ok
	}
	return aycoder.ModelInfo{}, false
}

func (x *index) find(provider, name string) (aycoder.ModelInfo, bool) {
	if m, ok := x.names[key{provider, name}]; ok {
		name = m
	}
	info, ok := x.models[key{provider, name}]
	return clone(info), ok
}

// clone returns a copy that shares nothing with info.
func clone(info aycoder.ModelInfo) aycoder.ModelInfo {
	if info.Price != nil {
		info.Price = new(*info.Price)
		if info.Price.Long != nil {
			info.Price.Long = new(*info.Price.Long)
			info.Price.Long.Long = nil // means nothing, and might be a circle
		}
	}
	return info
}

// Models returns the models of a provider, or of all providers if provider is empty, sorted by
// provider and name. The caller may modify the result.
func (c *Catalog) Models(provider string) []aycoder.ModelInfo {
	var out []aycoder.ModelInfo
	provider = strings.ToLower(provider)
	for k, info := range c.index().models {
		if provider == "" || k.provider == provider {
			out = append(out, clone(info))
		}
	}
	slices.SortFunc(out, func(a, b aycoder.ModelInfo) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return out
}

// With returns a catalog to which infos are added. An info whose provider and model are already
// in the catalog replaces the whole entry, which keeps its other names. If several infos are
// for the same model, the last one counts. An info without a provider or a model is ignored.
func (c *Catalog) With(infos ...aycoder.ModelInfo) *Catalog {
	own := make([]aycoder.ModelInfo, 0, len(infos))
	for _, info := range infos {
		if info.Provider != "" && info.Model != "" {
			own = append(own, complete(clone(info)))
		}
	}
	return &Catalog{load: sync.OnceValue(func() *index { return c.index().with(own) })}
}

func (x *index) with(infos []aycoder.ModelInfo) *index {
	out := &index{models: maps.Clone(x.models), names: maps.Clone(x.names)}
	if out.models == nil {
		out.models = make(map[key]aycoder.ModelInfo, len(infos))
	}
	for _, info := range infos {
		k := newKey(info.Provider, info.Model)
		delete(out.names, k) // it was another model's name, and is this one's now
		out.models[k] = info
	}
	return out
}

// complete sets the prices of a cache that are left out. Tokens without a separate price there
// are billed as any other input.
func complete(info aycoder.ModelInfo) aycoder.ModelInfo {
	for p := info.Price; p != nil; p = p.Long {
		p.CacheRead = cmp.Or(p.CacheRead, p.Input)
		p.CacheWrite = cmp.Or(p.CacheWrite, p.Input)
	}
	return info
}
