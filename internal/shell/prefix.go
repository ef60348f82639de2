package shell

import (
	"slices"
	"strings"
)

// Prefixes returns, for each simple command that is not read-only, the words that a
// rule "always allow what begins like this" would need: ["git", "commit"],
// ["npm", "run", "build"]. It is nil if no rule of that kind could be trusted: a word is
// not known, a file outside is written, the command deletes or gets power, or what the
// program does is up to its arguments (sh -c, python -c, xargs, env, ssh, curl). It is
// empty if all commands are read-only. A rule should also keep to the class that the
// command had: the same prefix may do worse with other arguments.
func (a *Analysis) Prefixes() [][]string {
	if a.opaque || a.Deny {
		return nil
	}
	out := [][]string{}
	for _, c := range a.Commands {
		if c.Class == ReadOnly {
			continue
		}
		p := prefix(c)
		if p == nil {
			return nil
		}
		out = append(out, p)
	}
	return out
}

// prefix is the words for one command: the program, and what follows as long as that
// chooses what it does.
func prefix(c Command) []string {
	if c.Class >= Destructive || c.Class == WritesOutside || len(c.Argv) == 0 || c.Argv[0] == "" || c.Dynamic ||
		slices.ContainsFunc(c.Writes, func(p string) bool { return strings.HasPrefix(p, "/") }) {
		return nil
	}
	levels, ok := subcommands[base(c.Argv[0])]
	switch {
	case !ok && c.Class == Network:
		return nil // its arguments say where to
	case !ok:
		return c.Argv[:1:1]
	case len(c.Argv) == 1 || !plainWord(c.Argv[1]):
		return nil // nothing says what it does
	}
	if thirdWord[c.Argv[0]+" "+c.Argv[1]] {
		levels = 2
	}
	n := 2
	for n < len(c.Argv) && n <= levels && plainWord(c.Argv[n]) {
		n++
	}
	return c.Argv[:n:n]
}

// plainWord reports whether a word may be the name of a subcommand or of a script of the
// project.
func plainWord(w string) bool {
	return w != "" && w[0] != '-' && strings.IndexFunc(w, func(r rune) bool {
		return (r >= 0x80 || !letter(byte(r))) && !strings.ContainsRune("-:.@/", r)
	}) < 0
}

// subcommands are programs whose first operand decides what they do.
var subcommands = map[string]int{
	"git": 1, "go": 1, "npm": 1, "pnpm": 1, "yarn": 1, "bun": 1, "pip": 1, "pip3": 1, "uv": 1, "poetry": 1,
	"cargo": 1, "gem": 1, "bundle": 1,
	"docker": 1, "podman": 1, "docker-compose": 1, "kubectl": 1, "helm": 1, "gh": 2, "glab": 2, "aws": 2,
	"gcloud": 2, "az": 2, "terraform": 1, "brew": 1,
	"make": 1, "just": 1, "task": 1, "mix": 1, "composer": 1, "rake": 1, "dotnet": 1, "mvn": 1, "gradle": 1,
	"bazel": 1, "nx": 1, "turbo": 1,
}

// thirdWord are subcommands that have subcommands, or whose operand is a script of the
// project.
var thirdWord = set(
	"npm run", "npm run-script", "pnpm run", "yarn run", "bun run", "git stash", "git remote", "git submodule",
	"git worktree", "git bisect", "git notes",
	"go mod", "go work", "go tool", "docker compose", "docker container", "docker image", "docker volume",
	"docker network", "docker system",
	"uv pip", "uv run", "poetry run", "bundle exec", "npm pkg", "npm config", "npm cache", "kubectl config",
	"kubectl rollout",
)
