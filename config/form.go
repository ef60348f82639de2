package config

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/aycoder/aycoder/internal/vars"
)

// Form says how to read another file of a project, in the form of another program: see [WithForms].
type Form struct {
	// File is the file, relative to the project and with slashes, such as ".mcp.json".
	File string
	// Parse reads its contents, which may be anything.
	Parse func(data []byte) Parts
}

// Parts are what a [Form] has found. The lines and columns in the origins are those of the file, and no two parts of
// a kind have the same.
type Parts struct {
	Hooks []Hook
	// Servers may have ${VAR} and ${VAR:-default} in all of their texts.
	Servers map[string]Server
	// Problems say what is not understood, and where.
	Problems []Diagnostic
}

// WithForms adds files of the project in other forms, which need not exist. Their hooks follow those of the
// configuration; a server of the configuration with the same name comes before theirs. Each part is off until the
// user trusts it. It appends. Default: none.
func WithForms(forms ...Form) Option {
	return set(func(s *setup) { s.forms = append(s.forms, forms...) })
}

// formFiles returns the files of the forms.
func (s *setup) formFiles() []file {
	var out []file
	for _, f := range s.forms {
		if s.project != "" {
			name := filepath.Join(s.project, filepath.FromSlash(f.File))
			out = append(out, file{Project, name, s.project, f.File})
		}
	}
	return out
}

// readForms adds what the files of the forms have.
func (l *loader) readForms() {
	for i, f := range l.formFiles() {
		data, ok := l.contents(f)
		if !ok {
			continue
		}
		parts := l.forms[i].Parse(data)
		for _, p := range parts.Problems {
			l.add(Warning, p.Key, Origin{Source: Project, File: f.name, Line: p.Line, Column: p.Column}, p.Message, p.Help)
		}
		l.formedHooks(f, parts.Hooks)
		l.formedServers(f, parts.Servers)
	}
}

func (l *loader) formedHooks(f file, hooks []Hook) {
	for _, h := range hooks {
		h.Origin.Source, h.Origin.File = Project, f.name
		q := h.ask()
		q.Root, q.File, q.Line = f.root, f.rel, h.Origin.Line
		if l.trusts(q, f, &l.report, "hook "+string(h.Event), h.Origin) {
			l.found.hooks = append(l.found.hooks, h)
		}
	}
}

func (l *loader) formedServers(f file, servers map[string]Server) {
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		s.Origin.Source, s.Origin.File = Project, f.name
		if s.Disabled {
			continue
		}
		q := s.ask()
		q.Root, q.File, q.Line = f.root, f.rel, s.Origin.Line
		s.texts(func(text string) string {
			q.Variables = append(q.Variables, vars.Names(text)...)
			return text
		})
		key := "servers." + name
		if l.trusts(q, f, &l.report, key, s.Origin) && l.complete(key, &s) {
			l.found.servers = append(l.found.servers, namedServer{name, s})
		}
	}
}

// complete puts the values of variables into a server. It reports whether all of them are there.
func (l *loader) complete(key string, s *Server) bool {
	ok := true
	s.texts(func(text string) string {
		out, missing := vars.Fill(text, l.lookup)
		if missing != "" || len(out) > maxExpanded {
			ok = false
			l.add(Warning, key, s.Origin, "is off: it needs the variable "+missing+", which is not set",
				"set it, or give a default: ${"+missing+":-default}")
		}
		return out
	})
	return ok
}

// texts replaces all texts of a server that may have variables.
func (s *Server) texts(replace func(string) string) {
	s.Command, s.URL = replace(s.Command), replace(s.URL)
	s.Args = slices.Clone(s.Args)
	for i, a := range s.Args {
		s.Args[i] = replace(a)
	}
	for _, m := range []*map[string]string{&s.Env, &s.Headers} {
		*m = maps.Clone(*m)
		for _, key := range slices.Sorted(maps.Keys(*m)) {
			(*m)[key] = replace((*m)[key])
		}
	}
}

// found are the parts of forms that are on.
type found struct {
	hooks   []Hook
	servers []namedServer
}

type namedServer struct {
	name string
	Server
}

// join adds the parts of forms to the configuration.
func (l *loader) join(c *Config) {
	c.Hooks = append(c.Hooks, l.found.hooks...)
	for _, s := range l.found.servers {
		if _, ok := c.Servers[s.name]; ok {
			l.add(Warning, "servers."+s.name, s.Origin, "is left out: there is another of this name", "")
			continue
		}
		if c.Servers == nil {
			c.Servers = map[string]Server{}
		}
		c.Servers[s.name] = s.Server
	}
	l.loaded.found = l.found
}

// keys returns the keys of the parts that differ.
func (f found) keys(other found) []string {
	var out []string
	if !reflect.DeepEqual(f.hooks, other.hooks) {
		out = append(out, "hooks")
	}
	if !reflect.DeepEqual(f.servers, other.servers) {
		out = append(out, "servers")
	}
	return out
}
