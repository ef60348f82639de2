package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/providers"
)

// A listedModel is a model in the list.
type listedModel struct {
	aycoder.ModelInfo
	// Key says whether a key of the provider is in the environment. It is left out for providers without a key.
	Key *bool `json:"key,omitempty"`
}

// models prints the catalogue: the providers with a key come first.
func models(_ context.Context, k *call) error {
	out := []listedModel{}
	known := catalog.Default()
	for _, name := range k.providersWithKeyFirst() {
		for _, m := range known.Models(name) {
			if full := m.Provider + "/" + m.Model; strings.Contains(strings.ToLower(full), strings.ToLower(k.arg(0))) {
				out = append(out, listedModel{m, k.hasKey(name)})
			}
		}
	}
	return k.print(out, func(w io.Writer) {
		for _, m := range out {
			fmt.Fprintln(w, m.line())
		}
		if len(out) == 0 {
			fmt.Fprintln(w, "The catalogue has no such model. A name that it does not have works, too; its cost is then unknown.")
		}
	})
}

// providersWithKeyFirst returns the names of providers, those with a key first.
func (a *app) providersWithKeyFirst() []string {
	names := providers.Names()
	rank := func(name string) int {
		if has := a.hasKey(name); has != nil && *has {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(x, y string) int { return rank(x) - rank(y) })
	return names
}

// hasKey reports whether a key of a provider is in the environment, or nil for a provider without a key.
func (a *app) hasKey(provider string) *bool {
	for _, v := range vendorTable() {
		if v.provider == provider {
			return new(a.key(v) != "")
		}
	}
	return nil
}

// line describes a model on one line.
func (m *listedModel) line() string {
	context := "context unknown"
	if m.Context > 0 {
		context = fmt.Sprintf("%d tokens", m.Context)
	}
	price := "price unknown"
	if p := m.Price; p != nil {
		price = fmt.Sprintf("$%.4g in, $%.4g out per million", p.Input, p.Output)
	}
	notes := ""
	if !m.Tools {
		notes += ", no tools"
	}
	if m.Key != nil && *m.Key {
		notes += ", has a key"
	}
	return fmt.Sprintf("%-50s %s, %s%s", m.Provider+"/"+m.Model, context, price, notes)
}
