package catalog

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
)

//go:embed models.json
var models string

// Catalog is a set of models with their data. It is immutable and safe for concurrent use. A nil
// *Catalog and the zero value have no models.
type Catalog struct {
	// load returns the index of a provider, whose name is in lower case, or of all of them if it is empty. It may be
	// called repeatedly, and always returns the same index.
	load func(provider string) *index
}

// An index holds the models of a catalog by provider and name.
type index struct {
	models map[key]aycoder.ModelInfo
	names  map[key]string // from another name of a model to its name in models
}

// A key is in lower case. No two models of a provider differ only in case.
type key struct{ provider, model string }

func newKey(provider, model string) key {
	return key{strings.ToLower(provider), strings.ToLower(model)}
}

// Default returns the catalog that comes with this package. The data of a provider is parsed once in a process, at
// the first lookup of a model of it.
func Default() *Catalog {
	return &Catalog{load: func(provider string) *index { return embedded().index(provider) }}
}

// data is a catalog whose providers are parsed when they are needed: programs ask one of them as a rule.
type data struct {
	providers map[string]func() *index
	all       func() *index
}

func (d *data) index(provider string) *index {
	if provider == "" {
		return d.all()
	}
	if parsed := d.providers[provider]; parsed != nil {
		return parsed()
	}
	return &index{}
}

// embedded is the data that comes with this package. Each provider of the file begins and ends with a line that has
// only a brace. A test checks the data as [Parse] does.
var embedded = sync.OnceValue(func() *data {
	d := &data{providers: map[string]func() *index{}}
	list := strings.TrimPrefix(models, "{\"providers\": [\n")
	list = strings.TrimSuffix(list, "\n]}\n")
	for part := range strings.SplitSeq(list, ",\n{\n") {
		_, name, _ := strings.Cut(part, `"provider": "`)
		name, _, _ = strings.Cut(name, `"`)
		d.providers[name] = sync.OnceValue(func() *index { return parsePart("{" + strings.TrimPrefix(part, "{")) })
	}
	d.all = sync.OnceValue(func() *index {
		all := &index{models: map[key]aycoder.ModelInfo{}, names: map[key]string{}}
		for _, parsed := range d.providers {
			x := parsed()
			maps.Copy(all.models, x.models)
			maps.Copy(all.names, x.names)
		}
		return all
	})
	return d
})

func parsePart(text string) *index {
	var g struct {
		Provider string
		Models   []entry
	}
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		panic(err) // cannot happen: see embedded
	}
	x := &index{models: map[key]aycoder.ModelInfo{}, names: map[key]string{}}
	for _, e := range g.Models {
		e.Provider = g.Provider
		k := newKey(g.Provider, e.Model)
		x.models[k] = complete(e.ModelInfo)
		for _, name := range e.Names {
			x.names[newKey(g.Provider, name)] = k.model
		}
	}
	return x
}

func (c *Catalog) index(provider string) *index {
	if c == nil || c.load == nil {
		return &index{}
	}
	return c.load(provider)
}

// Lookup returns the data about a model of a provider. The provider may have several names for
// the model, and the parameter model may be any of them. The field [aycoder.ModelInfo.Model] of
// the result is the name in the catalog. Lookup returns false if the model is unknown. The caller
// may modify the result.
func (c *Catalog) Lookup(provider, model string) (aycoder.ModelInfo, bool) {
	if provider == "" || model == "" || len(model) > maxName {
		return aycoder.ModelInfo{}, false
	}
	provider, model = strings.ToLower(provider), strings.ToLower(model)
	x := c.index(provider)
	for _, name := range spellings(provider, model) {
		if info, ok := x.find(provider, name); ok {
			return info, true
		}
	}
	if name, ok := withoutRegion(provider, model); ok {
		info, ok := x.find(provider, name)
		info.Price = nil // the price in that region may differ
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

// clone returns a deep copy of info.
func clone(info aycoder.ModelInfo) aycoder.ModelInfo {
	if info.Price != nil {
		info.Price = new(*info.Price)
		if info.Price.Long != nil {
			info.Price.Long = new(*info.Price.Long)
			info.Price.Long.Long = nil // has no meaning, and might be a cycle
		}
	}
	return info
}

// Models returns the data about all models of a provider, sorted by name. If provider is empty,
// it returns the models of all providers, sorted by provider and name. The caller may modify the
// result.
func (c *Catalog) Models(provider string) []aycoder.ModelInfo {
	var out []aycoder.ModelInfo
	provider = strings.ToLower(provider)
	for k, info := range c.index(provider).models {
		if provider == "" || k.provider == provider {
			out = append(out, clone(info))
		}
	}
	slices.SortFunc(out, func(a, b aycoder.ModelInfo) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return out
}

// With returns a new catalog that has the models of c and the given ones. If c has a model with
// the same provider and name, the new data replaces all of the old data, except for the other
// names by which [Catalog.Lookup] finds the model. If several of the infos are about the same
// model, the last one is used. An info without a provider or a model name is ignored.
func (c *Catalog) With(infos ...aycoder.ModelInfo) *Catalog {
	own := make([]aycoder.ModelInfo, 0, len(infos))
	for _, info := range infos {
		if info.Provider != "" && info.Model != "" {
			own = append(own, complete(clone(info)))
		}
	}
	all := sync.OnceValue(func() *index { return c.index("").with(own) })
	return &Catalog{load: func(provider string) *index {
		if provider == "" || slices.ContainsFunc(own, func(info aycoder.ModelInfo) bool { return strings.EqualFold(info.Provider, provider) }) {
			return all()
		}
		return c.index(provider)
	}}
}

func (x *index) with(infos []aycoder.ModelInfo) *index {
	out := &index{models: maps.Clone(x.models), names: maps.Clone(x.names)}
	if out.models == nil {
		out.models = make(map[key]aycoder.ModelInfo, len(infos))
	}
	for _, info := range infos {
		k := newKey(info.Provider, info.Model)
		delete(out.names, k) // the name may have been another name of a different model
		out.models[k] = info
	}
	return out
}

// complete sets the cache prices that are omitted. If there is no separate price for cached
// tokens, the provider bills them like other input.
func complete(info aycoder.ModelInfo) aycoder.ModelInfo {
	for p := info.Price; p != nil; p = p.Long {
		p.CacheRead = cmp.Or(p.CacheRead, p.Input)
		p.CacheWrite = cmp.Or(p.CacheWrite, p.Input)
	}
	return info
}
