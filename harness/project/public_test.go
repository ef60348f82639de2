package project_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

// The commands, agents and skills of public repositories load as they are. AYCODER_PUBLIC is a directory with a
// directory for each. Every file is there, or a warning says why it is not.
func TestPublicRepositories(t *testing.T) {
	all := os.Getenv("AYCODER_PUBLIC")
	if all == "" {
		t.Skip("AYCODER_PUBLIC is not set: it is a directory of repositories with commands, agents and skills")
	}
	repos, err := os.ReadDir(all)
	require.NoError(t, err)
	for _, repo := range repos {
		t.Run(repo.Name(), func(t *testing.T) { public(t, filepath.Join(all, repo.Name())) })
	}
}

func public(t *testing.T, dir string) {
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	var roots, files []string
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, err := filepath.Rel(dir, name)
		require.NoError(t, err)
		rel = filepath.ToSlash(rel)
		inside := slices.ContainsFunc(roots, func(r string) bool { return within(rel, r) })
		switch {
		case d.IsDir() && !inside && slices.Contains([]string{"commands", "agents", "skills"}, d.Name()):
			if root := path.Dir(rel); !slices.Contains(roots, root) {
				roots = append(roots, root)
			}
		case d.IsDir() && rel != "." && inside && d.Name()[0] == '.':
			return filepath.SkipDir
		case d.Type().IsRegular() && path.Ext(rel) == ".md":
			files = append(files, rel)
		}
		return nil
	}))
	var want []string // what is a command, an agent or a skill by its path
	for _, f := range files {
		kind := kindOf(f, roots)
		if kind == "skills" && path.Base(f) == "SKILL.md" || kind != "" && kind != "skills" && path.Base(f) != "README.md" {
			want = append(want, f)
		}
	}
	if len(roots) == 0 {
		t.Skip("it has no directory named commands, agents or skills")
	}
	seen := map[string]bool{}
	counts := map[string]int{}
	var deep []string            // directories that are left out
	for _, root := range roots { // one after the other, so that plugins may have equal names
		lib, err := project.Load(t.Context(), project.Source{Files: ws, Roots: []string{root}})
		require.NoError(t, err)
		for _, c := range lib.Commands {
			seen[c.File] = true
			require.NotEmpty(t, c.Name)
			counts["commands"]++
			counts["scripts"] += len(c.Scripts())
		}
		for _, a := range lib.Agents {
			seen[a.File] = true
			require.NotEmpty(t, a.Description)
			counts["agents"]++
		}
		for _, s := range lib.Skills {
			seen[s.Dir+"/SKILL.md"] = true
			require.NotEmpty(t, s.Description)
			counts["skills"]++
		}
		for _, w := range lib.Warnings {
			switch {
			case strings.Contains(w.Message, "too deep"):
				deep = append(deep, w.File)
				t.Log(w)
			case strings.Contains(w.Message, "not valid YAML"):
				counts["not valid YAML"]++
				require.Positive(t, w.Line)
			case strings.Contains(w.Message, "left out") && !strings.Contains(w.Message, "no tool like"),
				strings.Contains(w.Message, "already in"):
				seen[w.File] = true
				counts["left out"]++
				t.Log(w)
			default:
				counts["other warnings"]++
				t.Log(w)
			}
		}
	}
	for _, f := range want {
		below := slices.ContainsFunc(deep, func(dir string) bool { return within(f, dir) })
		require.True(t, seen[f] || below, "%s is neither there nor in a warning", f)
	}
	t.Logf("%d files: %v", len(want), counts)
}

func within(name, dir string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}

// kindOf returns the kind of a file by the first directory below its root.
func kindOf(file string, roots []string) string {
	for _, root := range roots {
		rest := file
		if root != "." {
			var ok bool
			if rest, ok = strings.CutPrefix(file, root+"/"); !ok {
				continue
			}
		}
		kind, _, _ := strings.Cut(rest, "/")
		if slices.Contains([]string{"commands", "agents", "skills"}, kind) {
			return kind
		}
	}
	return ""
}
