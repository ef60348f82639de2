package config

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/policy"
)

// check reports faults of the whole configuration that no single value has. After wrong syntax there is nothing to
// check, because what the file would have said is not known.
func (l *loader) check() {
	if l.malformed {
		return
	}
	l.required(l.tree)
	if l.profile != "" && !slices.Contains(l.profiles, l.profile) {
		l.add(Error, "profile", Origin{}, fmt.Sprintf("%q is in no file", cut(l.profile)), l.other(l.profile, l.profiles))
	}
	l.entries("models", l.model)
	l.entries("roles", l.role)
	l.entries("servers", l.server)
	for _, serve := range l.tree.tables("serve") {
		for _, all := range serve.tables("webhooks") {
			for _, name := range slices.Sorted(maps.Keys(all.kids)) {
				l.address(all.kids[name].find("url"))
			}
		}
	}
	for _, agent := range l.tree.tables("agent") {
		l.names(agent.find("budget"), "budgets")
	}
	l.rules()
	l.matchers()
}

// shown returns the text of a node for a diagnostic: as it is in the file, because variables may be secrets.
func (n *node) shown() string {
	if n.at.File == "" {
		return "something"
	}
	return `"` + cut(n.text) + `"`
}

// tables returns what a file has under a key, and under names that were probably meant to be that key.
func (n *node) tables(name string) []*node {
	if kid := n.kids[name]; kid != nil {
		return append([]*node{kid}, n.shadows[name]...)
	}
	return n.shadows[name]
}

// entries calls check with the entries of a table.
func (l *loader) entries(table string, check func(name string, n *node)) {
	for _, t := range l.tree.tables(table) {
		for _, name := range slices.Sorted(maps.Keys(t.kids)) {
			check(name, t.kids[name])
		}
	}
}

func (n *node) namesOf(table string) []string {
	return slices.Sorted(maps.Keys(n.kidsOf(table)))
}

// lacking returns the keys that a table needs and does not have.
func (n *node) lacking() []string {
	var out []string
	for _, f := range n.field.fields {
		if f.tag.Get("required") != "" && n.kids[f.name] == nil && n.shadows[f.name] == nil {
			out = append(out, f.name)
		}
	}
	return out
}

// required reports tables without a key that they need.
func (l *loader) required(n *node) {
	for _, name := range n.lacking() {
		l.add(Error, n.key, n.from, "needs the key "+name, "")
	}
	for _, f := range n.field.fields {
		for _, kid := range n.tables(f.name) {
			l.required(kid)
		}
	}
	if n.field.kind == kindDict {
		for _, name := range n.names {
			l.required(n.kids[name])
		}
	}
	for _, item := range n.items {
		l.required(item)
	}
}

// other returns which name may be meant.
func (l *loader) other(wrong string, of []string) string {
	slices.Sort(of)
	of = slices.Compact(of)
	switch best := nearest(wrong, of); {
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(of) > 0:
		return "there are " + quoted(of)
	}
	return ""
}

// names checks that a value is the name of an entry of a table.
func (l *loader) names(n *node, table string) {
	if n == nil || n.value == nil || n.value == "" {
		return
	}
	if name := n.value.(string); !l.has(table, name) {
		l.add(Error, n.key, n.at, "names "+n.shown()+", which is not in "+table,
			l.other(name, l.tree.namesOf(table)))
	}
}

// has reports whether a table has an entry, also under a mistyped name of the table.
func (l *loader) has(table, name string) bool {
	return l.tree.find(table, name) != nil || slices.ContainsFunc(l.tree.shadows[table], func(n *node) bool {
		return n.kids[name] != nil
	})
}

// role checks the model of a role, and that the key of the model is there.
func (l *loader) role(role string, n *node) {
	ref, _ := n.value.(string)
	if provider, model, direct := strings.Cut(ref, "/"); direct && !l.has("models", ref) {
		l.known(provider, model, n, n)
		return
	}
	l.names(n, "models")
	seen := map[string]bool{}
	for todo := []string{ref}; len(todo) > 0; todo = todo[1:] {
		m := l.tree.find("models", todo[0])
		if m == nil || seen[todo[0]] {
			continue
		}
		seen[todo[0]] = true
		l.key(role, m)
		if list := m.find("fallbacks"); list != nil {
			for _, item := range list.items {
				name, _ := item.value.(string)
				todo = append(todo, name)
			}
		}
	}
}

// key checks that a model that is used has its key.
func (l *loader) key(role string, m *node) {
	if v := m.find("key_env"); v != nil && v.value != nil && v.value != "" {
		if _, ok := l.lookup(v.value.(string)); !ok {
			l.once(v, fmt.Sprintf("names a variable that is not set, and the role %s needs it", role),
				"set the variable to the API key")
		}
	}
	if v := m.find("key_command"); v != nil && v.value != nil && l.lookPath != nil {
		words := strings.Fields(v.value.(string))
		if len(words) == 0 || strings.ContainsAny(words[0], "'\"$=;|&()") {
			return
		}
		if _, err := l.lookPath(words[0]); err != nil {
			l.once(v, fmt.Sprintf("names a program that is not there, and the role %s needs it", role), "install it")
		}
	}
}

// once reports a fault of a value unless it was reported before, for another role.
func (l *loader) once(n *node, message, help string) {
	if !slices.ContainsFunc(l.faults, func(d Diagnostic) bool { return d.Key == n.key && d.Line == n.at.Line }) {
		l.add(Error, n.key, n.at, message, help)
	}
}

// model checks an entry of the models.
func (l *loader) model(name string, m *node) {
	provider, model := m.find("provider"), m.find("model")
	elsewhere := len(m.tables("base_url")) > 0
	if provider != nil && model != nil && provider.value != nil && model.value != nil && !elsewhere {
		l.known(provider.value.(string), model.value.(string), provider, model)
	}
	l.address(m.find("base_url"))
	l.address(m.find("proxy"))
	if list := m.find("fallbacks"); list != nil {
		for _, item := range list.items {
			l.fallback(name, item)
		}
	}
}

func (l *loader) fallback(name string, item *node) {
	ref, _ := item.value.(string)
	switch {
	case ref == name:
		l.add(Error, item.key, item.at, "is the model itself", "name another model")
	case !strings.Contains(ref, "/"):
		l.names(item, "models")
	}
}

// local is the provider whose models have the names that users give them.
const local = "ollama"

// known checks the names of a provider and a model. p and m are the values with the names.
func (l *loader) known(provider, model string, p, m *node) {
	if l.providers != nil && !slices.Contains(l.providers, provider) {
		l.add(Error, p.key, p.at, "names the provider "+p.shown()+", which this program does not know",
			l.other(provider, slices.Clone(l.providers)))
		return
	}
	if _, ok := l.models.Lookup(provider, model); ok || model == "" {
		return
	}
	var all []string
	for _, info := range l.models.Models(provider) {
		all = append(all, info.Model)
	}
	best := nearest(model, all)
	switch {
	case best != "":
		l.add(Warning, m.key, m.at, "names the model "+m.shown()+", which is not known",
			fmt.Sprintf("did you mean %q?", best))
	case len(all) > 0 && provider != local:
		l.add(Warning, m.key, m.at, "names the model "+m.shown()+", which is not known",
			"its size and price are unknown, too")
	}
}

// address checks that a value is an address.
func (l *loader) address(n *node) {
	if n == nil || n.value == nil || n.value == "" {
		return
	}
	if u, err := url.Parse(n.value.(string)); err != nil || u.Host == "" || u.Scheme == "" {
		l.add(Error, n.key, n.at, "is not an address", `write it with its scheme, such as "https://example.com"`)
	}
}

func (l *loader) server(_ string, n *node) {
	command, address := n.find("command"), n.find("url")
	l.address(address)
	if (command == nil) == (address == nil) && n.shadows["command"] == nil && n.shadows["url"] == nil {
		l.add(Error, n.key, n.from, "needs either command or url", "")
	}
}

// rules checks the patterns and examples of rules.
func (l *loader) rules() {
	for _, approval := range l.tree.tables("approval") {
		for _, list := range approval.tables("rules") {
			for _, item := range list.items {
				l.rule(item)
			}
		}
	}
}

func (l *loader) rule(item *node) {
	rule := store[Rule](item)
	if item.faulty() || rule.Tool == "" || rule.Action == "" {
		return // which is reported elsewhere
	}
	if _, err := policy.New(policy.WithRules(rule.Source, rule.Policy())); err != nil {
		l.add(Error, item.key, item.from, "is not a valid rule: "+cut(err.Error()), "")
	}
}

// matchers checks the expressions of hooks.
func (l *loader) matchers() {
	for _, list := range l.tree.tables("hooks") {
		for _, item := range list.items {
			l.matcher(item.find("matcher"))
		}
	}
}

func (l *loader) matcher(m *node) {
	if m == nil || m.value == nil || m.value == "*" {
		return
	}
	if _, err := regexp.Compile(m.value.(string)); err != nil {
		l.add(Error, m.key, m.at, "is not a regular expression", "")
	}
}
