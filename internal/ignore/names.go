package ignore

import (
	"path"
	"strings"
	"unicode"
)

// vcs are the folders in which version control keeps what it knows.
var vcs = set(".git", ".hg", ".svn", ".bzr", ".jj", "CVS", "_darcs", ".sl", ".pijul")

// dependencies are the folders that hold other people's code and what tools made.
// "vendor" is among them; "build", "bin", "out", "env" and "packages" are not,
// since they hold people's own work as often.
var dependencies = set(
	"node_modules", "bower_components", "jspm_packages", "vendor", "Pods", "Carthage",
	"__pycache__", ".venv", "venv", "site-packages", ".tox", ".nox", ".eggs",
	".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints",
	"target", "dist", ".gradle", ".m2", ".bundle", ".dart_tool", ".terraform",
	".next", ".nuxt", ".svelte-kit", ".parcel-cache", ".turbo", ".cache", ".yarn", ".pnpm-store",
	"_build", "elm-stuff", ".stack-work", "dist-newstyle", "zig-cache", ".zig-cache",
)

// protectedDirs and protectedNames are what runs code on somebody else's machine
// or in somebody else's name, or tells agents what they may do.
var (
	protectedDirs = set(".git", ".hg", ".svn", ".jj", ".vscode", ".idea", ".claude", ".cursor",
		".husky", ".github")
	protectedNames = set(".gitmodules", ".envrc", ".mcp.json", "agents.md", "claude.md", "gemini.md")
)

// secretDirs, secretNames, secretSuffixes and secretPrefixes are where keys and
// passwords are kept.
var (
	secretDirs  = set(".aws", ".ssh", ".kube", ".gnupg", ".docker")
	secretNames = set(".env", ".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials",
		"credentials", "credentials.json", ".htpasswd", ".pgpass")
	secretSuffixes = []string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".tfstate",
		".tfstate.backup"}
	secretPrefixes = []string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"}
	// harmlessEnv are the ends of .env.* files that are meant to be read.
	harmlessEnv = []string{".example", ".sample", ".template"}
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// VCS reports whether a folder of this name belongs to version control.
func VCS(name string) bool { return vcs[name] }

// Skipped reports whether a walk leaves out a folder of this name: version control
// or dependencies.
func Skipped(name string) bool { return vcs[name] || dependencies[name] }

// Git reports whether an element of the slash-separated path is ".git".
func Git(p string) bool {
	return anyElement(p, func(name string) bool { return name == ".git" })
}

// Protected reports whether the path is, or is in, what must not be written because
// it runs code or decides what an agent may do.
func Protected(p string) bool {
	return isName(path.Base(p), func(name string) bool { return protectedNames[name] }) ||
		anyElement(p, func(name string) bool { return protectedDirs[name] })
}

// Secret reports whether the path names, by its look, a file of keys or passwords.
func Secret(p string) bool {
	return isName(path.Base(p), secretName) ||
		anyElement(p, func(name string) bool { return secretDirs[name] })
}

func secretName(name string) bool {
	name = strings.TrimRight(name, "~") // an editor's copy
	if strings.HasSuffix(name, ".pub") {
		return false
	}
	if rest, ok := strings.CutPrefix(name, ".env."); ok && !hasSuffix("."+rest, harmlessEnv) {
		return true
	}
	if strings.HasPrefix(name, "service-account") && strings.HasSuffix(name, ".json") {
		return true
	}
	for _, p := range secretPrefixes {
		if name == p || strings.HasPrefix(name, p+"_") || strings.HasPrefix(name, p+".") {
			return true
		}
	}
	return secretNames[name] || hasSuffix(name, secretSuffixes)
}

func hasSuffix(s string, suffixes []string) bool {
	for _, x := range suffixes {
		if strings.HasSuffix(s, x) {
			return true
		}
	}
	return false
}

func anyElement(p string, is func(name string) bool) bool {
	for name := range strings.SplitSeq(p, "/") {
		if isName(name, is) {
			return true
		}
	}
	return false
}

// isName asks about a folded name, and if it has a colon also about what is before:
// on Windows that is the file, elsewhere the colon is as any other character.
func isName(name string, is func(name string) bool) bool {
	file, _, cut := strings.Cut(name, ":")
	return is(fold(name)) || cut && file != "" && is(fold(file))
}

// fold brings a name to the form under which file systems may find it: case does
// not count on many, for APFS ß is ss too; invisible characters do not on HFS+ (git's
// CVE-2014-9390); dots and spaces at the end do not on Windows, where .git also has the short name
// git~1. A name is folded only to be compared.
func fold(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
			return -1
		}
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return unicode.ToLower(least)
	}, name)
	name = strings.ReplaceAll(name, "ß", "ss")
	if name != "." && name != ".." {
		name = strings.TrimRight(name, ". ")
	}
	if name == "git~1" {
		return ".git"
	}
	return name
}
