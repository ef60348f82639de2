package project

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tools"
)

const (
	maxDirs    = 2000     // directories that are listed for a source
	maxFiles   = 2000     // files that are read of a source
	maxItemsOf = 1000     // commands, agents or skills of all sources
	maxDepth   = 6        // of directories below commands, agents and skills
	maxTotal   = 16 << 20 // bytes of all texts
	maxName    = 100      // bytes
	maxDescr   = 1 << 10  // bytes of a description
)

// Library has the commands, agents and skills of a project and of its user.
type Library struct {
	// Commands, Agents and Skills are in the order in which they were found: the nearest first, and then by path. Each
	// name is there once.
	Commands []*Command
	Agents   []*Agent
	Skills   []*Skill
	// Warnings say what was not understood, and which files were left out, up to a thousand.
	Warnings []Warning

	next atomic.Pointer[Library]
}

// Replace makes the methods Command, Agent and Skill, and the tool of [NewSkillTool], use another library from now on. The
// fields of l stay. It is safe for concurrent use with these methods.
func (l *Library) Replace(by *Library) { l.next.Store(by) }

// Now returns the library that the methods use: the last one of [Library.Replace], or l.
func (l *Library) Now() *Library {
	if by := l.next.Load(); by != nil {
		return by
	}
	return l
}

// Command is a prompt that a user calls by its name.
type Command struct {
	// Name is the path below commands without ".md", with a colon between directories: "frontend:component".
	Name string
	// Description is that of the front matter, or the first line of the text. ArgumentHint tells the user which
	// arguments the command takes, such as "[file]".
	Description, ArgumentHint string
	// AllowedTools are the tools that the command is made for, or nil if it does not say. The list permits nothing.
	AllowedTools []ToolRef
	// Model is the name of the model as it is in the file, or "".
	Model string
	// File is the file, after the label of its source. User says that it is the user's own.
	File string
	User bool
	// Text is the text of the command, which begins in line Line of the file.
	Text string
	Line int
}

// Agent is the definition of an agent to which work can be handed over.
type Agent struct {
	// Name identifies the agent. Description tells when to use it.
	Name, Description string
	// Tools are the tools that the agent has, or nil for all of those that it may have. Their rules only limit.
	Tools []ToolRef
	// Model is the name of the model as it is in the file, such as "sonnet" or "inherit", or "".
	Model string
	// File is the file, after the label of its source. User says that it is the user's own.
	File string
	User bool
	// Prompt is the system prompt.
	Prompt string
}

// Skill is a directory with the file SKILL.md, which says how to do something.
type Skill struct {
	// Name identifies the skill. Description tells the model when to use it.
	Name, Description string
	// AllowedTools are the tools that the skill is made for, or nil if it does not say. The list permits nothing.
	AllowedTools []ToolRef
	// Manual says that only the user calls the skill: it is not in [Library.SkillsPrompt].
	Manual bool
	// Dir is its directory, after the label of its source. User says that it is the user's own.
	Dir  string
	User bool

	source Source
	dir    string // relative to the source
}

// Load reads the commands, agents and skills of the sources, the nearest first. If two have the same name, the nearer
// one counts, and there is a warning at the other. A file named README.md is none of them. The error is that of ctx: a
// file or directory that cannot be read is a warning.
func Load(ctx context.Context, sources ...Source) (*Library, error) {
	l := loader{Library: &Library{}, names: map[string]string{}, room: maxTotal}
	for _, s := range sources {
		l.source, l.dirs, l.files = s, maxDirs, maxFiles
		for _, dir := range s.dirs("commands", s.Commands) {
			l.walk(ctx, dir, "", l.command)
		}
		for _, dir := range s.dirs("agents", s.Agents) {
			l.walk(ctx, dir, "", l.agent)
		}
		for _, dir := range s.dirs("skills", s.Skills) {
			l.skills(ctx, dir, 0)
		}
	}
	l.Warnings = l.warn
	return l.Library, context.Cause(ctx)
}

// Command returns the command of a name, or nil.
func (l *Library) Command(name string) *Command {
	return find(l.Now().Commands, func(c *Command) bool { return c.Name == name })
}

// Agent returns the agent of a name, or nil.
func (l *Library) Agent(name string) *Agent {
	return find(l.Now().Agents, func(a *Agent) bool { return a.Name == name })
}

// Skill returns the skill of a name, or nil.
func (l *Library) Skill(name string) *Skill {
	return find(l.Now().Skills, func(s *Skill) bool { return s.Name == name })
}

func find[T any](list []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}

// A loader reads sources.
type loader struct {
	*Library
	warn   warnings
	names  map[string]string // the file of each kind and name
	room   int               // bytes for further texts
	source Source
	dirs   int // directories that may still be listed
	files  int // files that may still be read
}

// list returns the files and directories in a directory. A symbolic link counts as a directory if it has no extension.
func (l *loader) list(ctx context.Context, dir string) (files, dirs []string) {
	if l.dirs--; l.dirs < 0 {
		if l.dirs == -1 {
			l.warn.add(l.label(dir), 0, "there are too many directories; this one and others are left out")
		}
		return nil, nil
	}
	entries, err := l.source.Files.ReadDir(ctx, dir)
	if err != nil && !missing(err) {
		l.warn.add(l.label(dir), 0, "%s", runes.Clean(err.Error()))
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "."):
		case e.IsDir(), e.Type() != 0 && path.Ext(name) == "":
			dirs = append(dirs, name)
		default:
			files = append(files, name)
		}
	}
	return files, dirs
}

func (l *loader) label(name string) string { return path.Join(l.source.Label, name) }

// walk calls visit for the Markdown files below a directory, with their names for the user.
func (l *loader) walk(ctx context.Context, dir, prefix string, visit func(ctx context.Context, file, name string)) {
	if name, ok := strings.CutSuffix(path.Base(dir), ".md"); ok && prefix == "" {
		visit(ctx, dir, name)
		return
	}
	files, dirs := l.list(ctx, dir)
	for _, f := range files {
		if name, ok := strings.CutSuffix(f, ".md"); ok && name != "README" && ctx.Err() == nil {
			visit(ctx, path.Join(dir, f), prefix+name)
		}
	}
	for _, d := range l.below(dir, dirs, strings.Count(prefix, ":")) {
		if ctx.Err() == nil {
			l.walk(ctx, path.Join(dir, d), prefix+d+":", visit)
		}
	}
}

// below returns the directories of a directory, unless they are too deep.
func (l *loader) below(dir string, dirs []string, depth int) []string {
	if depth < maxDepth || len(dirs) == 0 {
		return dirs
	}
	l.warn.add(l.label(dir), 0, "the directories in it are too deep, and are left out")
	return nil
}

// open reads and parses a file. It returns false after a warning.
func (l *loader) open(ctx context.Context, file string, keys []string) (document, bool) {
	if l.files--; l.files < 0 {
		if l.files == -1 {
			l.warn.add(l.label(file), 0, "there are too many files; this one and others are left out")
		}
		return document{}, false
	}
	text, err := l.source.read(ctx, file)
	if err == nil && len(text) > l.room {
		err = errNoRoom
	}
	if err != nil {
		l.warn.add(l.label(file), 0, "%s, so it is left out", runes.Clean(err.Error()))
		return document{}, false
	}
	l.room -= len(text)
	return parse(l.label(file), text, keys, &l.warn), true
}

// takes reports whether a name is good and new. Otherwise there is a warning.
func (l *loader) takes(kind, name, file string, count int) bool {
	before, known := l.names[kind+" "+name]
	switch {
	case name == "" || len(name) > maxName || strings.ContainsAny(name, "/\\<>\"'`") || runes.Path(name) != name ||
		kind == "command" && strings.Contains(name, " "):
		l.warn.add(file, 1, "%s is no name for a %s, so it is left out", runes.Path(name), kind)
	case known:
		l.warn.add(file, 1, "the %s %s is already in %s, which is nearer and counts", kind, name, runes.Path(before))
	case count >= maxItemsOf:
		l.warn.add(file, 0, "there are already %d, so it is left out", count)
	default:
		l.names[kind+" "+name] = file
		return true
	}
	return false
}

// described returns a text as it may stand in a list: in a line, bounded, and with all characters visible.
func described(text string) string {
	return runes.Shorten(tools.EscapeInvisible(strings.Join(strings.Fields(text), " ")), maxDescr)
}

func (l *loader) command(ctx context.Context, file, name string) {
	name = l.source.name(name)
	d, ok := l.open(ctx, file, []string{"description", "argument-hint", "allowed-tools", "model"})
	if !ok || !l.takes("command", name, d.file, len(l.Commands)) {
		return
	}
	c := &Command{Name: name, Description: described(d.matter.text("description")), File: d.file, User: l.source.User,
		ArgumentHint: described(d.matter.text("argument-hint")), Model: described(d.matter.text("model")),
		AllowedTools: toolRefs(d, "allowed-tools", &l.warn), Text: d.body, Line: d.line}
	if c.Description == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(d.body), "\n")
		c.Description = described(strings.TrimLeft(first, "# "))
	}
	l.Commands = append(l.Commands, c)
}

func (l *loader) agent(ctx context.Context, file, name string) {
	d, name, ok := l.named(ctx, "agent", file, name, len(l.Agents), "tools", "model")
	if ok {
		l.Agents = append(l.Agents, &Agent{Name: name, Description: described(d.matter.text("description")),
			Tools: toolRefs(d, "tools", &l.warn), Model: described(d.matter.text("model")), File: d.file,
			User: l.source.User, Prompt: strings.TrimSpace(d.body)})
	}
}

// named opens a file that needs a description, and may have a name in place of the usual one.
func (l *loader) named(ctx context.Context, kind, file, name string, count int, keys ...string) (document, string, bool) {
	d, ok := l.open(ctx, file, append(keys, "name", "description"))
	if !ok {
		return d, "", false
	}
	if d.matter.text("description") == "" {
		l.warn.add(d.file, 1, "the %s has no description, so nobody could know when to use it, and it is left out", kind)
		return d, "", false
	}
	name = l.source.name(cmp.Or(d.matter.text("name"), name))
	return d, name, l.takes(kind, name, d.file, count)
}

// skills looks for skills in a directory and in those below.
func (l *loader) skills(ctx context.Context, dir string, depth int) {
	files, dirs := l.list(ctx, dir)
	if slices.Contains(files, skillFile) {
		l.skill(ctx, dir)
		return
	}
	for _, d := range l.below(dir, dirs, depth) {
		if ctx.Err() == nil {
			l.skills(ctx, path.Join(dir, d), depth+1)
		}
	}
}

func (l *loader) skill(ctx context.Context, dir string) {
	d, name, ok := l.named(ctx, "skill", path.Join(dir, skillFile), path.Base(dir), len(l.Skills),
		"allowed-tools", "disable-model-invocation")
	if ok {
		l.Skills = append(l.Skills, &Skill{Name: name, Description: described(d.matter.text("description")),
			AllowedTools: toolRefs(d, "allowed-tools", &l.warn), Manual: d.matter.true("disable-model-invocation"),
			Dir: l.label(dir), User: l.source.User, source: l.source, dir: dir})
	}
}
