package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/cli/line"
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
	var out []listedModel
	known := catalog.Default()
	for _, name := range k.providersWithKeyFirst() {
		for _, m := range known.Models(name) {
			if full := m.Provider + "/" + m.Model; strings.Contains(strings.ToLower(full), strings.ToLower(k.arg(0))) {
				out = append(out, listedModel{m, k.hasKey(name)})
			}
		}
	}
	return printList(k, out, (*listedModel).line, "The catalogue has no such model. A name that it does not have works, too; its cost is then unknown.")
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
	if v, ok := vendorOf(provider); ok {
		return new(a.key(v) != "")
	}
	return nil
}

// line describes a model on one line.
func (m *listedModel) line() string {
	text := fmt.Sprintf("%-50s %s", m.Provider+"/"+m.Model, windowAndPrice(&m.ModelInfo))
	if m.Key != nil && *m.Key {
		text += ", has a key"
	}
	return text
}

// windowAndPrice describes what a model holds and costs.
func windowAndPrice(m *aycoder.ModelInfo) string {
	text := "context unknown"
	if m.Context > 0 {
		text = fmt.Sprintf("%d tokens", m.Context)
	}
	if p := m.Price; p != nil {
		text += fmt.Sprintf(", $%.4g in, $%.4g out per million", p.Input, p.Output)
	} else {
		text += ", price unknown"
	}
	if !m.Tools {
		text += ", no tools"
	}
	return text
}

// chooseModel gives the conversation another model: that of a name, or one of those of the configuration and of the
// catalogue that can be used here.
func (c *chat) chooseModel(ctx context.Context, words string) (string, error) {
	switch {
	case c.working && c.session.demo:
		return "", errors.New("not while the demo works")
	case c.working && words == "":
		return "", errors.New("say the name while the agent works: /model " + defaultModel)
	}
	list := c.models()
	name := words
	if found := like(list, words); words == "" || len(found) > 0 && !c.working {
		n, err := c.choose("Ask", list, words)
		if n < 0 {
			return "", err
		}
		name = list[n].Text
	}
	if c.session.demo && name == demoModel {
		return "", nil
	}
	if v, needs := c.keyNeeded(name); needs {
		if err := c.askKey(v); err != nil {
			return "", err
		}
	}
	if c.session.demo {
		return "", c.leaveDemo(ctx, name)
	}
	if name = c.app.named(name, c.settings); name == "" {
		return "", &noModelError{c.settings.why}
	}
	if err := c.session.SetModel(ctx, name); err != nil {
		return "", err
	}
	c.settings.model, c.settings.fixed = name, true // also in a session that is resumed
	c.prose("", "From the next turn on, "+c.session.model()+" is asked.")
	return "", nil
}

// models are those that the user may choose in the conversation.
func (c *chat) models() []line.Candidate {
	if c.session.demo {
		return c.app.vendors()
	}
	now, _, _ := strings.Cut(c.session.model(), "/")
	return c.app.choices(c.settings.loaded, now)
}

// choices are the models that the configuration names, and those of the catalogue whose provider has a key or is in use.
func (a *app) choices(loaded *config.Loaded, now string) (list []line.Candidate) {
	for _, name := range slices.Sorted(maps.Keys(loaded.Config.Models)) {
		m := loaded.Config.Models[name]
		list = append(list, line.Candidate{Text: name, Note: m.Provider + "/" + m.Model + ", of the configuration"})
	}
	known := catalog.Default()
	for _, name := range a.providersWithKeyFirst() {
		if has := a.hasKey(name); (has == nil || !*has) && name != now {
			continue
		}
		for _, m := range known.Models(name) {
			list = append(list, line.Candidate{Text: m.Provider + "/" + m.Model, Note: windowAndPrice(&m)})
		}
	}
	return list
}
