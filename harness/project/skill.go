package project

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/closest"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	skillFile     = "SKILL.md"
	skillTool     = "skill"
	maxSkillText  = 64 << 10 // bytes of a file of a skill that the model reads
	maxSkillFiles = 100      // that are listed
	maxSkillDirs  = 200      // in which they are looked for
	maxSkillsList = 16 << 10 // bytes
)

// SkillsPrompt returns the list of the skills for the system prompt, with names and descriptions, in at most 16
// KiB, or "" if there are none. If there are many, descriptions are shortened.
func (l *Library) SkillsPrompt() string {
	skills := slices.DeleteFunc(slices.Clone(l.Skills), func(s *Skill) bool { return s.Manual })
	if len(skills) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("Skills say how to do certain work. Before such work, call the tool skill with the name. " +
		"Those that are marked came with the project, and permit nothing.\n")
	room := maxSkillsList - 200
	each := max(80, room/len(skills)-maxName)
	for i, s := range skills {
		line := fmt.Sprintf("- %s%s: %s\n", s.Name, s.mark(), runes.Shorten(s.Description, each))
		if out.Len()+len(line) > room {
			fmt.Fprintf(&out, "- and %d more, which only the user knows\n", len(skills)-i)
			break
		}
		out.WriteString(line)
	}
	return out.String()
}

func (s *Skill) mark() string {
	if s.User {
		return ""
	}
	return " (project)"
}

type skillArgs struct {
	Name string `json:"name" jsonschema_description:"The name of the skill."`
	File string `json:"file,omitempty" jsonschema_description:"A file of the skill to read, by its path in the directory of the skill. Default: the instructions."`
}

// NewSkillTool returns the tool "skill", by which the model reads the instructions of a skill and its other
// files, as they are at that time. It only reads, and reads nothing else. A [Keeper] keeps the instructions after
// a compaction. It follows [Library.Replace].
func NewSkillTool(l *Library) (aycoder.Tool, error) {
	return aycoder.NewTool(skillTool, "Returns the instructions of a skill, and the names of its files.",
		func(ctx context.Context, _ *aycoder.Invocation, in skillArgs) (*aycoder.ToolResult, error) {
			s := l.Skill(in.Name)
			switch {
			case s == nil:
				return aycoder.ErrorResult("not_found: there is no skill " + runes.Path(in.Name) + l.similar(in.Name)), nil
			case in.File != "":
				return s.readFile(ctx, in.File)
			}
			return s.read(ctx)
		}, aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectText, "name"))
}

// similar names the skills that the model may have meant.
func (l *Library) similar(name string) string {
	var names []string
	for _, s := range l.Now().Skills {
		names = append(names, s.Name)
	}
	return closest.Hint(name, names)
}

// read returns the instructions in a part that a keeper finds again.
func (s *Skill) read(ctx context.Context) (*aycoder.ToolResult, error) {
	text, err := s.source.readBeginning(ctx, path.Join(s.dir, skillFile), maxSkillText)
	if err != nil {
		return nil, err
	}
	d := parse(skillFile, text, nil, &warnings{})
	note := "The user's own skill."
	switch {
	case s.source.Prefix != "":
		note = "This skill is of the plugin " + s.source.Prefix + ", which the user trusts. It permits nothing."
	case !s.User:
		note = "This skill came with the project. It permits nothing, and yields to the user's words."
	}
	res := aycoder.TextResult(fmt.Sprintf("skill %s in %s\n%s", s.Name, runes.Path(s.Dir), s.list(ctx)))
	res.Parts = append(res.Parts, &aycoder.Text{
		Text: block(skillTag, s.Name, note, strings.TrimSpace(d.body)),
	})
	res.Summary = s.Name
	return res, nil
}

// Command returns the skill as a command, for a user who calls it by its name: with the instructions as they are now.
func (s *Skill) Command(ctx context.Context) (*Command, error) {
	text, err := s.source.read(ctx, path.Join(s.dir, skillFile))
	if err != nil {
		return nil, err
	}
	d := parse(path.Join(s.Dir, skillFile), text, nil, &warnings{})
	return &Command{Name: s.Name, Description: s.Description, AllowedTools: s.AllowedTools, File: d.file, User: s.User,
		Text: d.body, Line: d.line}, nil
}

// list returns the names of the other files, a line for each.
func (s *Skill) list(ctx context.Context) string {
	dirs := maxSkillDirs
	names := s.files(ctx, "", 0, &dirs, nil)
	var out strings.Builder
	for i, name := range names {
		switch i {
		case 0:
			out.WriteString("Its files, to be read with file=:\n")
		case maxSkillFiles:
			out.WriteString("and more\n")
			return out.String()
		}
		out.WriteString(runes.Path(name) + "\n")
	}
	return out.String()
}

// files adds the names of files below a directory of the skill, up to one more than are listed.
func (s *Skill) files(ctx context.Context, below string, depth int, dirs *int, names []string) []string {
	if *dirs--; *dirs < 0 || ctx.Err() != nil {
		return names
	}
	entries, err := s.source.Files.ReadDir(ctx, path.Join(s.dir, below))
	if err != nil {
		return names
	}
	for _, e := range entries {
		name := path.Join(below, e.Name())
		switch {
		case len(names) > maxSkillFiles:
			return names
		case e.IsDir() && depth < maxDepth:
			names = s.files(ctx, name, depth+1, dirs, names)
		case !e.IsDir() && name != skillFile:
			names = append(names, name)
		}
	}
	return names
}

// readFile returns another file. Its name leads nowhere else, since it is cleaned as an absolute one.
func (s *Skill) readFile(ctx context.Context, file string) (*aycoder.ToolResult, error) {
	text, err := s.source.readBeginning(ctx, path.Join(s.dir, path.Clean("/"+file)), maxSkillText)
	if err != nil {
		return nil, err
	}
	return aycoder.TextResult(text), nil
}
