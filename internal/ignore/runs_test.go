package ignore

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each path is of a tool whose manual says that the file takes effect by itself.
func TestRuns(t *testing.T) {
	tests := []struct {
		why   string // a part of the reason, or "store", or "" for a file like any other
		paths []string
	}{
		{"store", []string{
			".git", ".git/hooks/pre-commit", "sub/.git/config", ".hg/hgrc", ".svn/entries", ".jj/repo/config.toml",
			".bzr/branch/branch.conf", "mirror.git/hooks/post-receive", "mirror.git/config", "a/CVS/Root", ".GIT/config",
			"GIT~1/config", ".git::$INDEX_ALLOCATION/config", `a\.git\config`, ".git./config", "/home/u/x/.git/config",
		}},
		{"CI service", []string{
			".github/workflows/ci.yml", ".github/CODEOWNERS", ".gitlab-ci.yml", "ci/deploy.gitlab-ci.yml", ".circleci/config.yml",
			".travis.yml", "azure-pipelines.yml", "azure-pipelines-release.yml", "bitbucket-pipelines.yml", "Jenkinsfile",
			"Jenkinsfile.nightly", ".drone.yml", ".woodpecker.yml", ".woodpecker/test.yaml", ".buildkite/pipeline.yml",
			".semaphore/semaphore.yml", ".cirrus.yml", ".teamcity/settings.kts", "cloudbuild.yaml", "buildspec.yml", "appveyor.yml",
			".gitea/workflows/x.yml", ".forgejo/workflows/x.yml", ".builds/alpine.yml", ".tekton/push.yaml", ".readthedocs.yaml",
			"netlify.toml", "codemagic.yaml", "bitrise.yml", "JENKIN~1", ".GitLab-CI.yml",
			".azure-pipelines.yml", "Jenkinsfile-nightly", "wrangler.jsonc", "vercel.ts", "heroku.yml", "Procfile", "railway.json", ".do/app.yaml",
			"bamboo-specs/bamboo.yml", ".taskcluster.yml", "ci.gocd.yaml", "evergreen.yml", ".packit.yaml", ".copr/Makefile", ".releaserc.json",
		}},
		{"commit", []string{
			".gitattributes", "sub/.gitattributes", ".gitmodules", ".pre-commit-config.yaml", ".husky/pre-commit", "lefthook.yml",
			".lefthook.toml", ".githooks/pre-push", ".lintstagedrc", "lint-staged.config.mjs", "commitlint.config.js", ".overcommit.yml",
			"bare/hooks/pre-commit", "x/hooks/post-checkout", "hooks/update", ".gitconfig", "/home/u/.config/git/config", ".lfsconfig",
		}},
		{"repository", []string{"HEAD", "fixtures/repo/HEAD"}},
		{"shell", []string{
			".bashrc", "dotfiles/.bashrc", "/home/u/.zshenv", ".profile", ".config/fish/config.fish", ".tmux.conf", ".envrc",
			"mise.toml", ".mise.local.toml", "flake.nix", ".devcontainer/devcontainer.json", ".devcontainer.json", ".gitpod.yml",
			"devbox.json", ".lesskey", "docs/desktop.ini", "docs/README.lnk", "Microsoft.PowerShell_profile.ps1", ".config/autostart/x.desktop", "Library/LaunchAgents/x.plist",
		}},
		{"editor", []string{
			".vscode/tasks.json", "sub/.vscode/settings.json", "app.code-workspace", ".idea/workspace.xml", ".zed/tasks.json", ".vimrc",
			".nvim.lua", ".exrc", ".dir-locals.el", "init/.emacs.d/init.el", ".gdbinit", ".lldbinit-Xcode", ".eslintrc.js",
			"eslint.config.mjs", ".Rprofile", ".ghci", "hie.yaml", ".formatter.exs", "Directory.Build.targets", ".latexmkrc", ".babelrc.js",
			"rust-analyzer.toml", ".bsp/sbt.json", "zls.json", ".sourcekit-lsp/config.json", "jupyter_server_config.py", ".flake8", ".mypy.ini",
			".rubocop", "phpcs.xml.dist", ".luacheckrc", "web/tailwind.config.ts", "svelte.config.js", "graphql.config.js", "phpstan.neon", "psalm.xml",
		}},
		{"package manager", []string{
			".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", ".yarnrc.yml", ".npmrc", ".yarn/releases/yarn.cjs",
			".pnpmfile.cjs", "tests/conftest.py", "sitecustomize.py", "lib/x.pth", ".mvn/extensions.xml",
			"gradle/wrapper/gradle-wrapper.properties", ".bazelrc", "tools/bazel", "binding.gyp", "bunfig.toml", "NuGet.config",
			"pip.conf", "pnpm-workspace.yaml", "uv.toml", "gradle.properties", ".nycrc.json", "pytest.ini", "ansible.cfg", ".user.ini", "CONFTEST.PY", "conftest.py.", "conftest.py:x",
		}},
		{"agents", []string{
			"AGENTS.md", "docs/agents.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".mcp.json",
			".claude/settings.json", ".cursor/mcp.json", ".cursorrules", ".codex/config.toml", ".windsurfrules", ".clinerules",
			".clinerules/x.md", ".aiignore", "CODEBUDDY.md", ".coderabbit.yaml", ".aider.conf.yml", "opencode.json", ".agents/skills/x/SKILL.md",
		}},
		{"log in", []string{".ssh/config", "/root/.ssh/authorized_keys", "/etc/sudoers", "/etc/sudoers.d/x", "/etc/passwd"}},
		{"machine", []string{"/etc/cron.d/x", "/usr/local/bin/git", "/etc/profile.d/x.sh", "/home/u/.local/bin/ls", "/etc/ld.so.preload"}},
		{"", []string{
			"main.go", "hooks/useState.ts", "src/hooks/index.ts", "config", "objects", "bin/tool", "lib/x.rb", "usr/bin/x", "etc/passwd",
			"Makefile", "package.json", "setup.py", "build.rs", "go.mod", "README.md", "head.go", "header", "githubx/a", "xconftest.py",
			"conftest.pyc", "pipeline.yml", "pyproject.toml", "settings.gradle", "link.go", "analyzer.toml", "docs/agents.mdx", "azure.yml", "profile.go", "internal/git/config.go", "vscode/x", "cargo/config.toml",
			"sub/cargo/config", "tools/bazel2", "cvs/x", "a.gitx/config", ".gitignore", "pth", ".", "..", "../x", "a/..", "",
		}},
	}
	n := 0
	for _, tt := range tests {
		for _, p := range tt.paths {
			n++
			why := Runs(p)
			switch tt.why {
			case "store":
				assert.True(t, Store(p), p)
				continue
			case "":
				assert.Empty(t, why, p)
			default:
				assert.Contains(t, why, tt.why, p)
			}
			assert.False(t, Store(p), p)
		}
	}
	t.Logf("%d paths", n)
}

// A rule covers such a file only if the name is in its pattern.
func TestNames(t *testing.T) {
	tests := []struct {
		pattern, path string
		want          bool
	}{
		{"**", "main.go", true},
		{"", "conftest.py", false},
		{"**", "conftest.py", false},
		{"*", "conftest.py", false},
		{"conf*", "conftest.py", false},
		{"conftest.p?", "conftest.py", false},
		{"{conftest,x}.py", "conftest.py", false},
		{"[c]onftest.py", "conftest.py", false},
		{"tests/**", "tests/conftest.py", false},
		{"tests/**/conftest.py", "tests/a/conftest.py", true},
		{"conftest.py", "conftest.py", true},
		{"CONFTEST.PY", "conftest.py", true},
		{".github/**", ".github/workflows/ci.yml", true},
		{".git*/**", ".github/workflows/ci.yml", false},
		{".*/**", ".github/workflows/ci.yml", false},
		{".github/**", ".github/conftest.py", false},
		{".vscode/**", ".idea/x.xml", true}, // named is the kind of file; the path is matched elsewhere
		{"conftest.py/../*", "conftest.py", false},
		{".env", ".env", true},
		{"**", ".env", false},
		{".github/**", ".git/config", false},
		{"AGENTS.md", ".github/AGENTS.md", false},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, Names(tt.pattern, tt.path), "Names(%q, %q)", tt.pattern, tt.path)
	}
}

// The matching expects names in a form, and a reason that can be read.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	n := 0
	for _, r := range append([]startRow{{"a store", stores}}, startRows...) {
		require.NotEmpty(t, r.why)
		for name := range strings.FieldsSeq(r.names) {
			n++
			assert.Equal(t, fold(strings.ReplaceAll(name, "*", "x")), strings.ReplaceAll(name, "*", "x"), "%q is not folded", name)
			for elem := range strings.SplitSeq(name, "/") {
				assert.LessOrEqual(t, strings.Count(elem, "*"), 1, name)
			}
			assert.False(t, seen[name], "%q is there twice", name)
			seen[name] = true
			sample := strings.ReplaceAll(name, "*", "x")
			if strings.HasSuffix(name, "/") {
				sample += "y"
			}
			assert.True(t, Store(sample) || Runs(sample) != "", sample)
			assert.True(t, Store(strings.ToUpper(sample)) || Runs(strings.ToUpper(sample)) != "", sample)
		}
	}
	t.Logf("%d names", n)
}
