package plugin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/vars"
)

const (
	maxServers = 256
	longestMS  = int64(time.Hour / time.Millisecond)
)

// ParseServers reads servers in the form of .mcp.json: an object whose key mcpServers has an object for each name, or
// that object itself, as some plugins have it. A server that is not understood is left out. That, and each key that is
// not known, is a problem with its line.
func ParseServers(data []byte) config.Parts {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	p := &serverParser{data: data, parts: config.Parts{Servers: map[string]config.Server{}}}
	if at, err := jsontext.Syntax(data); err != nil {
		p.problem(at, "%v", err)
		return p.parts
	}
	type member struct {
		name  string
		at    int
		value json.RawMessage
	}
	var rest []member
	wrapped := false
	err := p.members(0, func(name string, at int, value json.RawMessage) {
		if name != "mcpServers" {
			rest = append(rest, member{name, at, value})
			return
		}
		wrapped = true
		if err := p.members(at, p.server); err != nil {
			p.problem(at, "mcpServers: %v", err)
		}
	})
	if err != nil {
		p.problem(0, "%v", err)
	}
	for _, m := range rest {
		if wrapped {
			p.problem(m.at, "the key %.80q is ignored", m.name)
		} else {
			p.server(m.name, m.at, m.value)
		}
	}
	return p.parts
}

// servers collects what is in a file.
type serverParser struct {
	data  []byte
	parts config.Parts
}

// members calls f for each member of the object that begins at a position, with the position of its value.
func (p *serverParser) members(from int, f func(name string, at int, value json.RawMessage)) error {
	d := json.NewDecoder(bytes.NewReader(p.data[from:]))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return cmp.Or(err, errors.New("must be an object"))
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		f(key.(string), from+int(d.InputOffset())-len(value), value)
	}
	_, err := d.Token()
	return err
}

// server reads a server.
func (p *serverParser) server(name string, at int, value json.RawMessage) {
	var in struct {
		Type     string            `json:"type"`
		Command  string            `json:"command"`
		Args     []string          `json:"args"`
		Env      map[string]string `json:"env"`
		URL      string            `json:"url"`
		Headers  map[string]string `json:"headers"`
		Timeout  int64             `json:"timeout"` // in milliseconds
		Disabled bool              `json:"disabled"`
	}
	_ = p.members(at, func(key string, at int, _ json.RawMessage) {
		if !slices.Contains([]string{"type", "command", "args", "env", "url", "headers", "timeout", "disabled", "description"}, key) {
			p.problem(at, "server %.80q: the key %.80q is ignored", name, key)
		}
	})
	if err := json.Unmarshal(value, &in); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			err = fmt.Errorf("%s is of a wrong type: %s", cmp.Or(e.Field, "it"), e.Value)
		}
		p.problem(at, "server %.80q is left out: %v", name, err)
		return
	}
	switch {
	case len(p.parts.Servers) == maxServers:
		p.problem(at, "server %.80q is left out: there are more than %d", name, maxServers)
		return
	case (in.Command == "") == (in.URL == ""):
		p.problem(at, "server %.80q is left out: it needs a command or a url, and not both", name)
		return
	case in.Type != "" && !slices.Contains([]string{"stdio", "http", "sse", "streamable-http"}, in.Type):
		p.problem(at, "server %.80q is left out: there is no type %.80q", name, in.Type)
		return
	}
	line, column := p.place(at)
	p.parts.Servers[name] = config.Server{
		Command: in.Command, Args: in.Args, Env: in.Env, URL: in.URL, Headers: in.Headers, Disabled: in.Disabled,
		Timeout: time.Duration(min(max(in.Timeout, 0), longestMS)) * time.Millisecond,
		Origin:  config.Origin{Line: line, Column: column},
	}
}

// place returns the line and the column of a position, from 1.
func (p *serverParser) place(at int) (line, column int) {
	before := p.data[:min(at, len(p.data))]
	return bytes.Count(before, []byte("\n")) + 1, at - bytes.LastIndexByte(before, '\n')
}

func (p *serverParser) problem(at int, format string, args ...any) {
	if len(p.parts.Problems) < maxServers {
		line, column := p.place(at)
		p.parts.Problems = append(p.parts.Problems, config.Diagnostic{Line: line, Column: column, Message: fmt.Sprintf(format, args...)})
	}
}

// Variables returns the names of the variables that the texts of a server need, sorted.
func Variables(s config.Server) []string {
	var out []string
	_, _ = fill(s, func(name string) (string, bool) {
		out = append(out, name)
		return "x", true
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// Server returns a server of the plugin with the values of its variables, and with the directory of the plugin. It is
// an error if a variable is not set and has no default.
func (p *Plugin) Server(name string, lookup func(string) (string, bool)) (config.Server, error) {
	s, err := fill(p.Servers[name], func(name string) (string, bool) {
		if name == rootVariable {
			return p.Dir, true
		}
		return lookup(name)
	})
	if err != nil {
		return config.Server{}, &Error{Op: "start server " + name + " of", Plugin: p.Name, Err: err}
	}
	s.Timeout = cmp.Or(s.Timeout, time.Minute) // as in a configuration
	return s, nil
}

func fill(s config.Server, lookup func(string) (string, bool)) (config.Server, error) {
	var err error
	text := func(t string) string {
		out, missing := vars.Fill(t, lookup)
		if missing != "" {
			err = fmt.Errorf("the variable %s is not set", missing)
		}
		return out
	}
	texts := func(in map[string]string) map[string]string {
		out := map[string]string{}
		for k, v := range in {
			out[k] = text(v)
		}
		return out
	}
	s.Command, s.URL, s.Env, s.Headers, s.Args = text(s.Command), text(s.URL), texts(s.Env), texts(s.Headers), slices.Clone(s.Args)
	for i, a := range s.Args {
		s.Args[i] = text(a)
	}
	return s, err
}
