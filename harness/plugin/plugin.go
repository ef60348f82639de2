package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/program"
	"github.com/aycoder/aycoder/tools"
)

// Plugin is what a directory brings.
type Plugin struct {
	// Name consists of at most 64 letters, digits, "-", "_" and ".". Version and Description are those of the manifest.
	Name, Version, Description string
	// Dir is the directory, as an absolute path. Hash identifies the contents of all files in it.
	Dir, Hash string
	// Files are the files that it had when it was read.
	Files *Files
	// Hooks know the directory, and run only while the files are unchanged.
	Hooks []hooks.Hook
	// Servers are without the values of variables.
	Servers map[string]config.Server
	// Programs are its tools.
	Programs []Program
	// Library has its commands, agents and skills.
	Library *project.Library
	// Warnings say what is not understood, and which files are left out.
	Warnings []project.Warning

	source project.Source
}

var (
	plain   = late.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	strange = late.Regexp(`[^A-Za-z0-9._-]+`)
)

// manifest is the file plugin.json.
type manifest struct {
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Description string          `json:"description"`
	Commands    paths           `json:"commands"`
	Agents      paths           `json:"agents"`
	Skills      paths           `json:"skills"`
	Hooks       json.RawMessage `json:"hooks"`
	Servers     json.RawMessage `json:"mcpServers"`
	Tools       []Program       `json:"tools"`
}

// silent are the keys that say nothing to an agent.
var silent = []string{"$schema", "author", "homepage", "repository", "license", "keywords", "category", "displayName"}

// paths are one path or several.
type paths []string

// UnmarshalJSON implements json.Unmarshaler.
func (p *paths) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*p = paths{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(p))
}

// Read reads the plugin in a directory, and runs nothing. If the plugin has no manifest, its name is that of the
// argument. A part that is not understood is left out with a warning. The error, an [*Error], is for a directory that
// cannot be read as a plugin.
func Read(ctx context.Context, dir, name string) (*Plugin, error) {
	p, err := read(ctx, dir, name)
	if err != nil {
		return nil, &Error{Op: "read", Plugin: cmp.Or(name, dir), Err: err}
	}
	return p, nil
}

func read(ctx context.Context, dir, name string) (*Plugin, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := scan(ctx, dir)
	if err != nil {
		return nil, err
	}
	p := &Plugin{Dir: dir, Files: files, Hash: files.hash(), Servers: map[string]config.Server{}}
	for _, name := range files.left {
		p.leftOut(name)
	}
	m, err := p.manifest()
	if err != nil {
		return nil, err
	}
	p.Name, p.Version, p.Description = cmp.Or(m.Name, name), line(m.Version), line(m.Description)
	if !plain().MatchString(p.Name) {
		return nil, fmt.Errorf("%.100q is no name for a plugin", p.Name)
	}
	p.source = project.Source{
		Files: files, Roots: []string{"."}, Label: p.Name, User: true, Prefix: p.Name,
		Commands: p.local("commands", m.Commands), Agents: p.local("agents", m.Agents), Skills: p.local("skills", m.Skills),
	}
	if p.Library, err = project.Load(ctx, p.source); err != nil {
		return nil, err
	}
	p.Warnings = append(p.Warnings, p.Library.Warnings...)
	p.hooks(m.Hooks)
	p.servers(m.Servers)
	p.programs(m.Tools)
	return p, nil
}

// line makes a text of a stranger fit for a line.
func line(s string) string {
	return tools.EscapeInvisible(strings.Join(strings.Fields(s), " "))
}

func (p *Plugin) warn(file string, at int, format string, args ...any) {
	if len(p.Warnings) < 1000 {
		p.Warnings = append(p.Warnings, project.Warning{File: path.Join(p.Name, file), Line: at, Message: fmt.Sprintf(format, args...)})
	}
}

func (p *Plugin) leftOut(name string) {
	p.warn(name, 0, "is a symbolic link or no regular file, and is left out")
}

var manifests = []string{".claude-plugin/plugin.json", "plugin.json"}

// manifest reads the manifest, if there is one.
func (p *Plugin) manifest() (m manifest, err error) {
	for _, name := range manifests {
		data, err := p.Files.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &m)
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
		var keys map[string]json.RawMessage
		_ = json.Unmarshal(data, &keys) // which is an object
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			is := func(name string) bool { return strings.EqualFold(name, key) } // as encoding/json takes it
			if !slices.ContainsFunc(silent, is) && !slices.ContainsFunc(known, is) {
				p.warn(name, 0, "the key %.80q is ignored", key)
			}
		}
		return m, nil
	}
	return m, nil
}

var known = []string{"name", "version", "description", "commands", "agents", "skills", "hooks", "mcpServers", "tools"}

// local returns the paths that are in the plugin, in their clean form.
func (p *Plugin) local(key string, list paths) []string {
	var out []string
	for _, name := range list {
		clean := path.Clean(name)
		if strings.HasPrefix(name, "/") || sane(clean) != nil && clean != "." {
			p.warn("", 0, "%s: %.200q is not a path in the plugin, and is left out", key, name)
			continue
		}
		out = append(out, clean)
	}
	return out
}

// part returns the contents that a key of the manifest has or names, or else those of the usual file.
func (p *Plugin) part(key string, value json.RawMessage, usual string) (name string, data []byte) {
	name = usual
	var file string
	switch {
	case len(value) > 0 && json.Unmarshal(value, &file) == nil:
		list := p.local(key, paths{file})
		if len(list) == 0 {
			return "", nil
		}
		name = list[0]
	case len(value) > 0:
		return "plugin.json", value
	}
	data, err := p.Files.read(name)
	if err != nil && (file != "" || !errors.Is(err, fs.ErrNotExist)) {
		p.warn(name, 0, "%s: %v", key, err)
	}
	return name, data
}

func (p *Plugin) hooks(value json.RawMessage) {
	name, data := p.part("hooks", value, "hooks/hooks.json")
	if data == nil {
		return
	}
	var keys map[string]json.RawMessage
	if name == "plugin.json" && json.Unmarshal(data, &keys) == nil && keys["hooks"] == nil {
		data = slices.Concat([]byte(`{"hooks":`), data, []byte("}")) // the events themselves
	}
	list, problems := hooks.Parse(path.Join(p.Name, name), data)
	for _, x := range problems {
		p.warn(name, x.Line, "%s", x.Message)
	}
	for _, h := range list {
		h.Env = append(h.Env, rootVariable+"="+p.Dir)
		h.Verify = func() error { return p.Verify(context.Background()) }
		p.Hooks = append(p.Hooks, h)
	}
}

const rootVariable = "CLAUDE_PLUGIN_ROOT"

// inRoot puts the directory of the plugin into a text.
func (p *Plugin) inRoot(s string) string { return strings.ReplaceAll(s, "${"+rootVariable+"}", p.Dir) }

func (p *Plugin) servers(value json.RawMessage) {
	name, data := p.part("mcpServers", value, ".mcp.json")
	if data == nil {
		return
	}
	parts := ParseServers(data)
	for _, x := range parts.Problems {
		p.warn(name, x.Line, "%s", x.Message)
	}
	for key, s := range parts.Servers {
		if !plain().MatchString(key) {
			p.warn(name, s.Origin.Line, "server %.80q is left out: that is no name", key)
			continue
		}
		p.Servers[key] = s
	}
}

// Source returns where commands, agents and skills are, for Load of package project.
func (p *Plugin) Source() project.Source { return p.source }

// Verify returns an error if the files are no longer those that were read.
func (p *Plugin) Verify(ctx context.Context) error {
	files, err := scan(ctx, p.Dir)
	if err == nil && files.hash() != p.Hash {
		err = errChanged
	}
	if err != nil {
		return &Error{Op: "verify", Plugin: p.Name, Err: err}
	}
	return nil
}

// shown makes a text of a stranger visible as a whole in a line.
func shown(s string) string {
	return tools.EscapeInvisible(strings.NewReplacer("\r", `\r`, "\n", `\n`, "\t", `\t`).Replace(s))
}

// shownScript is the script of a command as it is in the file.
func (p *Plugin) shownScript(s project.Script) string {
	return shown(strings.ReplaceAll(s.Text, p.Dir, "${"+rootVariable+"}"))
}

// quoted joins words so that each can be told from the others.
func quoted(words []string) string {
	var out []string
	for _, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\r\n'\"") {
			w = program.Quote(w)
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// pairs are names with their values, sorted.
func pairs(what string, m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, quoted([]string{k + "=" + m[k]}))
	}
	if len(out) == 0 {
		return ""
	}
	return ", with " + what + " " + strings.Join(out, " ")
}

// Brings says in lines what the plugin would do, for the user to decide: what would run, with which variables, and
// the names of the texts that the model would read. No line has characters that do not show.
func (p *Plugin) Brings() []string {
	var out []string
	for _, c := range p.Library.Commands {
		scripts := c.Scripts()
		for _, s := range scripts {
			out = append(out, fmt.Sprintf("command /%s, which runs: %s", c.Name, p.shownScript(s)))
		}
		if len(scripts) == 0 {
			out = append(out, "command /"+c.Name)
		}
	}
	for _, a := range p.Library.Agents {
		out = append(out, "agent "+a.Name)
	}
	for _, s := range p.Library.Skills {
		out = append(out, "skill "+s.Name)
		if c, err := s.Command(context.Background()); err == nil {
			for _, x := range c.Scripts() {
				out = append(out, fmt.Sprintf("skill %s, which runs when you call it: %s", s.Name, p.shownScript(x)))
			}
		}
	}
	for _, h := range p.Hooks {
		out = append(out, shown(fmt.Sprintf("hook at %s %s: %s", h.Event, h.Matcher, h.Command)))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Servers)) {
		s := p.Servers[name]
		text := fmt.Sprintf("server %s: %s", name, quoted(append([]string{s.URL + s.Command}, s.Args...)))
		text += pairs("headers", s.Headers) + pairs("environment", s.Env)
		if vars := slices.DeleteFunc(Variables(s), func(v string) bool { return v == rootVariable }); len(vars) > 0 {
			text += ", with the variables " + strings.Join(vars, ", ")
		}
		out = append(out, shown(text))
	}
	for _, t := range p.Programs {
		out = append(out, shown(fmt.Sprintf("tool %s, which runs: %s", t.Name, quoted(t.Command))))
	}
	return out
}
