package project_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

func TestSkillTool(t *testing.T) {
	lib := load(t, map[string]string{
		".claude/skills/pdf/SKILL.md":        "---\nname: pdf\ndescription: Reads PDF\n---\nRun the script.\n",
		".claude/skills/pdf/scripts/read.py": "print(1)\n",
		".claude/skills/pdf/.env":            "KEY=1",
		".claude/secret.md":                  "not of the skill",
	})
	tool, err := project.NewSkillTool(lib)
	require.NoError(t, err)
	agenttest.TestTool(t, func(testing.TB) agenttest.ToolSetup { return agenttest.ToolSetup{Tool: tool} }, agenttest.ToolCase{Args: `{"name":"pdf"}`})
	call := func(args string) string {
		res, err := tool.Call(t.Context(), aycoder.NewInvocation("1", "skill", json.RawMessage(args), nil))
		if err != nil {
			return err.Error()
		}
		return res.Text()
	}
	text := call(`{"name":"pdf"}`)
	require.Contains(t, text, "skill pdf in .claude/skills/pdf\n")
	require.Contains(t, text, "scripts/read.py\n")
	require.Contains(t, text, "Run the script.\n</skill id=")
	require.NotContains(t, text, "description:")
	require.Equal(t, "print(1)\n", call(`{"name":"pdf","file":"scripts/read.py"}`))
	require.Contains(t, call(`{"name":"PDFs"}`), "similar ones: pdf")
	require.Contains(t, call(`{"name":"pdf","file":".env"}`), "secrets")
	for _, file := range []string{"../../secret.md", "/../../secret.md", "/etc/passwd"} {
		args, err := json.Marshal(map[string]string{"name": "pdf", "file": file})
		require.NoError(t, err)
		require.NotContains(t, call(string(args)), "not of the skill")
		require.NotContains(t, call(string(args)), "root:")
	}
}

// However many skills there are, their list has a bound, and each has a part of it.
func TestSkillsPrompt(t *testing.T) {
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf(".claude/skills/s%03d/SKILL.md", i)] = "---\ndescription: " + strings.Repeat("long ", 100) + "\n---\n"
	}
	prompt := load(t, files).SkillsPrompt()
	require.LessOrEqual(t, len(prompt), 16<<10)
	require.Contains(t, prompt, "- s000 (project): long")
	require.Contains(t, prompt, "more, which only the user knows")
	require.Empty(t, (&project.Library{}).SkillsPrompt())
}

// The directories of a skill are looked at up to a number, even if they have no files.
func TestSkillOfManyDirectories(t *testing.T) {
	ws := dir(t, map[string]string{".claude/skills/s/SKILL.md": "---\ndescription: x\n---\nDo"})
	for i := range 500 {
		require.NoError(t, os.Mkdir(filepath.Join(ws.Dir(), fmt.Sprintf(".claude/skills/s/d%d", i)), 0o755))
	}
	l := &lister{Workspace: ws}
	lib, err := project.Load(t.Context(), project.Source{Files: l})
	require.NoError(t, err)
	l.listed = 0
	tool, err := project.NewSkillTool(lib)
	require.NoError(t, err)
	loop, err := aycoder.New(script.New(script.Call("skill", map[string]string{"name": "s"}), script.Say("ok")), aycoder.WithTools(tool))
	require.NoError(t, err)
	for _, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
	}
	require.Equal(t, 200, l.listed)
}

// lister counts the directories that are listed.
type lister struct {
	*workspace.Workspace
	listed int
}

func (l *lister) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	l.listed++
	return l.Workspace.ReadDir(ctx, name)
}
