package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/vars"
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
		l.add(Error, "profile", l.chosen, fmt.Sprintf("%q is in no file", cut(l.profile)), l.other(l.profile, l.profiles))
	}
	l.entries("models", l.model)
	l.entries("roles", l.role)
	l.entries("servers", l.server)
	l.entries("language_servers", l.languageServer)
	l.names(l.tree.find("agent", "budget"), "budgets")
	if rules := l.tree.find("approval", "rules"); rules != nil {
		for _, item := range rules.items {
			l.rule(item)
		}
	}
	l.tree.each(l.form)
}

// form checks the form of a text. It is not done as soon as the text is read, since nobody may trust it.
func (l *loader) form(n *node) {
	text, is := n.value.(string)
	switch form := n.field.tag.Get("form"); {
	case text == "" && is && n.field.tag.Get("required") != "":
		l.add(Error, n.key, n.at, "is empty", "")
	case text == "":
	case form == "address":
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme == "" {
			l.add(Error, n.key, n.at, "is not an address", `write it with its scheme, such as "https://example.com"`)
		}
	case form == "path":
		if name, _, _ := strings.Cut(filepath.ToSlash(text), "/"); name == "~" {
			l.add(Error, n.key, n.at, "begins with ~, which stands for nothing here", "write ${HOME} in its place")
		}
	case form == "expression":
		if _, err := regexp.Compile(text); err != nil && text != "*" {
			l.add(Error, n.key, n.at, "is not a regular expression", "")
		}
	}
}

// shown returns the text of a node for a diagnostic, unless it is of a variable, which may be a secret.
func (n *node) shown() string {
	if n.at.Source == Environment {
		return "something"
	}
	return `"` + cut(n.text) + `"`
}

// entries calls check with the entries of a table.
func (l *loader) entries(table string, check func(name string, n *node)) {
	for _, name := range l.tree.namesOf(table) {
		if n := l.tree.find(table, name); !n.bad {
			check(name, n)
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
		if f.tag.Get("required") != "" && n.kids[f.name] == nil {
			out = append(out, f.name)
		}
	}
	return out
}

// required reports tables without a key that they need.
func (l *loader) required(n *node) {
	if n.bad { // it has another type, which is reported
		return
	}
	for _, name := range n.lacking() {
		l.add(Error, n.key, n.from, "needs the key "+name, "")
	}
	for _, name := range n.names {
		l.required(n.kids[name])
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
	if name := n.value.(string); l.tree.find(table, name) == nil {
		help := l.other(name, l.tree.namesOf(table))
		if table == "models" && !strings.HasPrefix(help, "did") {
			help = strings.TrimPrefix(help+`, or write it as "provider/model"`, ", or ")
		}
		l.add(Error, n.key, n.at, "names "+n.shown()+", which is not in "+table, help)
	}
}

// role checks the model of a role, and that the key of the model is there.
func (l *loader) role(role string, n *node) {
	ref, _ := n.value.(string)
	if l.direct(n) {
		l.customary(role, ref, n)
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
				if todo = append(todo, name); strings.Contains(name, "/") && l.tree.find("models", name) == nil {
					l.customary(role, name, item)
				}
			}
		}
	}
}

// direct checks a model that is named as "provider/model". It reports whether it is.
func (l *loader) direct(n *node) bool {
	ref, _ := n.value.(string)
	provider, model, is := strings.Cut(ref, "/")
	if is = is && l.tree.find("models", ref) == nil; is {
		l.known(provider, model, n, n)
	}
	return is
}

// customary checks that a model whose key nothing names has that of its provider. n names the provider.
func (l *loader) customary(role, ref string, n *node) {
	provider, _, _ := strings.Cut(ref, "/")
	names := l.keys[provider]
	if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { _, ok := l.lookup(name); return ok }) {
		return
	}
	l.once(Warning, n, "needs the variable "+strings.Join(names, " or ")+", which is not set,", "for the role "+role,
		"set it to the API key, or name another one with key_env")
}

// key checks that a model that is used has its key.
func (l *loader) key(role string, m *node) {
	own := func(key string) bool { return m.find(key) != nil }
	if p := m.find("provider"); p != nil && !slices.ContainsFunc([]string{"key_env", "key_command", "base_url", "headers"}, own) {
		provider, _ := p.value.(string)
		l.customary(role, provider, p)
	}
	if v := m.find("key_env"); v != nil && v.value != nil && v.value != "" {
		if _, ok := l.lookup(v.value.(string)); !ok {
			help := "set the variable to the API key"
			if !slices.Equal(vars.Names("${"+v.text+"}"), []string{v.text}) {
				help = "write only the name of the variable, such as OPENAI_API_KEY, and no key"
			}
			l.once(Error, v, "names a variable that is not set,", "and the role "+role+" needs it", help)
		}
	}
	if v := m.find("key_command"); v != nil && v.value != nil && l.lookPath != nil {
		words := strings.Fields(v.value.(string))
		if len(words) == 0 || strings.ContainsAny(words[0], "'\"$=;|&()") {
			return
		}
		if _, err := l.lookPath(words[0]); err != nil {
			l.once(Error, v, "names a program that is not there,", "and the role "+role+" needs it", "install it")
		}
	}
}

// once reports a fault of a value unless it was reported before, for another role.
func (l *loader) once(severity Severity, n *node, message, role, help string) {
	if !slices.ContainsFunc(l.faults, func(d Diagnostic) bool {
		return d.Key == n.key && d.Line == n.at.Line && strings.HasPrefix(d.Message, message)
	}) {
		l.add(severity, n.key, n.at, message+" "+role, help)
	}
}

// model checks an entry of the models.
func (l *loader) model(name string, m *node) {
	provider, model := m.find("provider"), m.find("model")
	if provider != nil && model != nil && provider.value != nil && model.value != nil {
		name := model.value.(string)
		if m.find("base_url") != nil {
			name = "" // whatever the service there calls its models
		}
		l.known(provider.value.(string), name, provider, model)
	}
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
	case !l.direct(item):
		l.names(item, "models")
	}
}

// local is the provider whose models have the names that users give them.
const local = "ollama"

// known checks the names of a provider and a model. p and m are the values with the names.
func (l *loader) known(provider, model string, p, m *node) {
	if l.providers != nil && !slices.Contains(l.providers, provider) {
		what := "names the provider " + p.shown() + ", which"
		if p == m {
			what = "names " + p.shown() + ", whose provider"
		}
		l.add(Error, p.key, p.at, what+" this program does not know", l.other(provider, slices.Clone(l.providers)))
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
	if best != "" && p == m {
		best = provider + "/" + best
	}
	switch {
	case best != "":
		l.add(Warning, m.key, m.at, "names the model "+m.shown()+", which is not known",
			fmt.Sprintf("did you mean %q?", best))
	case len(all) > 0 && provider != local:
		l.add(Warning, m.key, m.at, "names the model "+m.shown()+", which is not known",
			"its size and price are unknown, too")
	}
}

func (l *loader) server(_ string, n *node) {
	if (n.find("command") == nil) == (n.find("url") == nil) {
		l.add(Error, n.key, n.from, "needs either command or url", "")
	}
}

// languageServer checks that a server is known, or has all that it needs.
func (l *loader) languageServer(name string, n *node) {
	if !slices.Contains(knownLanguageServers, name) {
		for _, key := range []string{"command", "languages"} {
			if n.find(key) == nil {
				l.add(Error, n.key, n.from, "needs the key "+key, l.other(name, slices.Clone(knownLanguageServers)))
			}
		}
	}
	if at := n.find("command"); at != nil {
		if text, is := at.value.(string); is && strings.TrimSpace(text) == "" {
			l.add(Error, at.key, at.at, "is empty", "")
		}
	}
	if at := n.find("languages"); at != nil {
		if len(at.names) == 0 && strings.HasSuffix(at.key, ".languages") { // of a mistyped key, the names are not read
			l.add(Error, at.key, at.from, "is empty", "")
		}
		for _, ext := range at.names {
			if !strings.HasPrefix(ext, ".") {
				l.add(Error, at.kids[ext].key, at.kids[ext].at, "is not an extension", `write it with its dot, such as ".go"`)
			}
			if id, is := at.kids[ext].value.(string); is && strings.TrimSpace(id) == "" {
				l.add(Error, at.kids[ext].key, at.kids[ext].at, "is empty", "name the language as the protocol does")
			}
		}
	}
}

// rule checks the pattern and the examples of a rule.
func (l *loader) rule(item *node) {
	rule := store[Rule](item)
	if item.faulty() || rule.Tool == "" || rule.Action == "" {
		return // which is reported elsewhere
	}
	_, err := policy.New(policy.WithRules(rule.Source, rule.Policy()))
	if e, ok := errors.AsType[*aycoder.ConfigError](err); ok {
		err = e.Err // the rest says which rule it is
	}
	if err != nil {
		l.add(Error, item.key, item.from, "is not a valid rule: "+cut(err.Error()), "")
	}
}
