package project_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

const agentText = "---\nname: %s\ndescription: Reviews.\n---\nYou review.\n"

func TestLoad(t *testing.T) {
	ws := dir(t, map[string]string{
		".aycoder/commands/fix.md":     "---\ndescription: Fixes\nargument-hint: [issue]\nmodel: opus\nallowed-tools: Bash(git add:*), Read\n---\nFix $1\n",
		".claude/commands/fix.md":      "Another",
		".claude/commands/web/page.md": "# Make a page\nText",
		".claude/commands/README.md":   "About these",
		".claude/commands/notes.txt":   "no command",
		".claude/commands/bad name.md": "Text",
		".claude/agents/reviewer.md":   "---\nname: reviewer\ndescription: Use when: reviewing\ntools: Read, Grep, NotebookEdit\n---\nYou review.\n",
		".claude/agents/empty.md":      "No front matter",
		".agents/skills/s/SKILL.md":    "---\nname: Agent Development\ndescription: x\n---\n",
		".agents/skills/pdf/SKILL.md":  "---\nname: pdf\ndescription: Reads PDF\nallowed-tools: Read Bash(pdftotext:*)\n---\nSay it.\n",
		".agents/skills/a/b/SKILL.md":  "---\ndescription: Nested\ndisable-model-invocation: true\n---\nText\n",
	})
	user := dir(t, map[string]string{
		"agents/reviewer.md": fmt.Sprintf(agentText, "reviewer"), "agents/mine.md": fmt.Sprintf(agentText, "mine"),
	})
	lib, err := project.Load(t.Context(), project.Source{Files: ws},
		project.Source{Files: user, Roots: []string{"."}, Label: "~/.claude", User: true})
	require.NoError(t, err)
	require.Equal(t, []string{
		".claude/commands/bad name.md:1: bad name is no name for a command, so it is left out",
		".claude/commands/fix.md:1: the command fix is already in .aycoder/commands/fix.md, which is nearer and counts",
		".claude/agents/empty.md:1: the agent has no description, so nobody could know when to use it, and it is left out",
		".claude/agents/reviewer.md:3: the front matter is not valid YAML (mapping values are not allowed in this context), so it is read line by line",
		".claude/agents/reviewer.md:4: there is no tool like NotebookEdit here, so it is left out",
		"~/.claude/agents/reviewer.md:1: the agent reviewer is already in .claude/agents/reviewer.md, which is nearer and counts",
	}, texts(lib.Warnings))

	require.Len(t, lib.Commands, 2)
	require.Equal(t, &project.Command{Name: "fix", Description: "Fixes", ArgumentHint: "[issue]", Model: "opus",
		AllowedTools: []project.ToolRef{{Name: "bash", Rule: "git add *"}, {Name: "read_file"}},
		File:         ".aycoder/commands/fix.md", Text: "Fix $1\n", Line: 7}, lib.Command("fix"))
	require.Equal(t, "Make a page", lib.Command("web:page").Description)
	require.Nil(t, lib.Command("page"))

	require.Equal(t, &project.Agent{Name: "reviewer", Description: "Use when: reviewing",
		Tools: []project.ToolRef{{Name: "read_file"}, {Name: "code_search"}}, File: ".claude/agents/reviewer.md",
		Prompt: "You review."}, lib.Agent("reviewer"))
	require.True(t, lib.Agent("mine").User)
	require.Nil(t, lib.Agent("mine").Tools)

	require.Equal(t, []project.ToolRef{{Name: "read_file"}, {Name: "bash", Rule: "pdftotext *"}}, lib.Skill("pdf").AllowedTools)
	require.Equal(t, ".agents/skills/a/b", lib.Skill("b").Dir)
	require.NotNil(t, lib.Skill("Agent Development"), "public ones have such names")
	require.NotContains(t, lib.SkillsPrompt(), "Nested")
	require.Contains(t, lib.SkillsPrompt(), "- pdf (project): Reads PDF\n")
}

// An agent whose tools are all unknown has none, and not all.
func TestUnknownToolsAreNotAll(t *testing.T) {
	lib := load(t, map[string]string{".claude/agents/a.md": "---\ndescription: x\ntools: NotebookEdit\n---\n"})
	require.NotNil(t, lib.Agent("a").Tools)
	require.Empty(t, lib.Agent("a").Tools)
	for _, tools := range []string{"[]", "{bash: false}", "\n  write: false\n  edit: false", "&x {a: b}", "*x"} {
		lib = load(t, map[string]string{".claude/agents/a.md": "---\ncolor: &x [bash]\ndescription: x\ntools: " + tools + "\n---\n"})
		require.NotNil(t, lib.Agent("a").Tools, tools)
		require.Empty(t, lib.Agent("a").Tools, tools)
		require.Equal(t, tools != "[]", len(lib.Warnings) > 0, tools)
	}
	for _, tools := range []string{"", "null", "''", "'*'"} { // which says nothing
		lib = load(t, map[string]string{".claude/agents/a.md": "---\ndescription: x\ntools: " + tools + "\n---\n"})
		require.Nil(t, lib.Agent("a").Tools, tools)
	}
}

// A directory with any number of files costs a bounded time, and the user is told what was left out.
func TestLoadIsBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 3500 {
		files[fmt.Sprintf(".claude/commands/%04d.md", i)] = "---\ndescription: x\n---\n"
	}
	ws := &counting{Workspace: dir(t, files)}
	lib, err := project.Load(t.Context(), project.Source{Files: ws})
	require.NoError(t, err)
	require.Len(t, lib.Commands, 1000)
	require.LessOrEqual(t, ws.opened, 2000)
	require.Len(t, lib.Warnings, 1001)
	require.Contains(t, lib.Warnings[1000].Message, "too many warnings")

	lib = load(t, map[string]string{
		".claude/commands/1/2/3/4/5/6/a.md": "Do it.\n", ".claude/commands/1/2/3/4/5/6/7/b.md": "Do it.\n",
		".claude/skills/1/2/3/4/5/6/a/SKILL.md": "---\ndescription: x\n---\n", ".claude/skills/1/2/3/4/5/a/SKILL.md": "---\ndescription: x\n---\n",
	})
	require.Len(t, lib.Commands, 1)
	require.Len(t, lib.Skills, 1)
	require.Equal(t, []string{
		".claude/commands/1/2/3/4/5/6: the directories in it are too deep, and are left out",
		".claude/skills/1/2/3/4/5/6: the directories in it are too deep, and are left out",
	}, texts(lib.Warnings))
}

// counting counts the files that are opened.
type counting struct {
	*workspace.Workspace
	opened int
}

func (c *counting) Open(name string) (fs.File, error) {
	c.opened++
	return c.Workspace.Open(name)
}

// Hostile files of a repository are left out, with a warning.
func TestLoadHostile(t *testing.T) {
	ws := dir(t, map[string]string{
		".claude/commands/big.md":     strings.Repeat("x", 300<<10),
		".claude/commands/binary.md":  "a\x00b",
		".claude/commands/.env.md":    "hidden",
		".claude/agents/escape.md":    "---\nname: \"a\\e[31mb\"\ndescription: x\n---\n",
		".claude/agents/lines.md":     "---\nname: \"a\\n- b: c\"\ndescription: x\n---\n",
		".claude/agents/invisible.md": "---\ndescription: \"a\\u202Eb\\nc\"\n---\n",
	})
	outside := t.TempDir()
	put(t, outside, "secret.md", "secret")
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret.md"), filepath.Join(ws.Dir(), ".claude/commands/link.md")))
	require.NoError(t, os.Symlink(outside, filepath.Join(ws.Dir(), ".claude/commands/out")))
	require.NoError(t, os.Symlink("..", filepath.Join(ws.Dir(), ".claude/commands/loop")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(ws.Dir(), ".claude/skills")))
	lib, err := project.Load(t.Context(), project.Source{Files: ws})
	require.NoError(t, err)
	for _, c := range lib.Commands {
		require.NotContains(t, c.Text, "secret")
	}
	require.Len(t, lib.Agents, 1)
	require.Equal(t, "a<U+202E>b c", lib.Agents[0].Description)
	all := strings.Join(texts(lib.Warnings), "\n")
	for _, want := range []string{"big.md", "binary.md", "link.md", "out", "escape.md", "lines.md"} {
		require.Contains(t, all, want)
	}
	require.NotContains(t, all, "\x1b")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = project.Load(ctx, project.Source{Files: ws})
	require.ErrorIs(t, err, context.Canceled)
}
