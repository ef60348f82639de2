package ignore

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// vcs are the directories in which version control keeps what it knows.
var vcs = set{".git", ".hg", ".svn", ".bzr", ".jj", "CVS", "_darcs", ".sl", ".pijul"}

// dependencies are the directories that hold other people's code and what tools made.
// "vendor" is among them; "build", "bin", "out", "env" and "packages" are not,
// since they hold people's own work as often.
var dependencies = set{
	"node_modules", "bower_components", "jspm_packages", "vendor", "Pods", "Carthage",
	"__pycache__", ".venv", "venv", "site-packages", ".tox", ".nox", ".eggs",
	".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints",
	"target", "dist", ".gradle", ".m2", ".bundle", ".dart_tool", ".terraform",
	".next", ".nuxt", ".svelte-kit", ".parcel-cache", ".turbo", ".cache", ".yarn", ".pnpm-store",
	"_build", "elm-stuff", ".stack-work", "dist-newstyle", "zig-cache", ".zig-cache",
}

// secretDirs, secretNames and secretSuffixes are where keys and passwords are kept.
var (
	secretDirs = set{".aws", ".ssh", ".kube", ".gnupg", ".docker", ".azure", ".gcloud", ".oci",
		".password-store"}
	secretNames = set{".env", ".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials",
		"credentials", "credentials.json", "credentials.toml", "application_default_credentials.json",
		".htpasswd", ".pgpass", ".my.cnf", ".s3cfg", ".boto", ".vault-token"}
	secretSuffixes = []string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".ppk", ".kdbx",
		".tfstate", ".tfstate.backup"}
)

// set is some names. It is a list and no map, so that a program that does not look
// into it does not make it when it starts, nor links it.
type set []string

func (s set) has(name string) bool { return slices.Contains(s, name) }

// Skipped reports whether a walk leaves out a directory of this name: version control or
// dependencies. These directories are large, and people hardly ever mean them when they
// search.
func Skipped(name string) bool { return vcs.has(name) || dependencies.has(name) }

// Vendored reports whether a file is a copy of somebody else's, by its directories.
func Vendored(name string) bool {
	dirs := strings.Split(strings.ToLower(name), "/")
	return slices.ContainsFunc(dirs[:len(dirs)-1], set{
		"vendor", "node_modules", "third_party", "third-party", "thirdparty", "bower_components", "vendored",
	}.has)
}

// Temp reports whether the path names a file that stands beside another one while that is
// exchanged, or that says what is exchanged. Nobody is shown these. They are there for
// moments only, or after a crash.
func Temp(p string) bool {
	name, ok := strings.CutPrefix(strings.ToLower(last(p)), ".aycoder-")
	name, end := strings.CutSuffix(name, ".tmp")
	if !ok || !end {
		return false
	}
	return slices.ContainsFunc(strings.Split(name, "-"), func(part string) bool {
		return len(part) == 26 && strings.Trim(part, "abcdefghijklmnopqrstuvwxyz234567") == "" // from rand.Text
	})
}

// Secret reports whether the path names, by its look, a file of keys or passwords. It is a
// guess by the name. A file of keys with another name is found by its contents, if at all.
func Secret(p string) bool {
	return isName(last(p), secretName) ||
		anyElement(p, func(name string) bool { return secretDirs.has(name) })
}

// Editors and people leave copies beside a file, which hold the same secrets.
func secretName(name string) bool {
	if secretFile(name) {
		return true
	}
	name = strings.TrimLeft(name, "#")
	if strings.HasPrefix(name, "..") || strings.HasPrefix(name, ".#") {
		name = strings.TrimPrefix(name[1:], "#") // vim's and Emacs's
	}
	// Several ends may be in a row: .env.bak~.
	for was := ""; was != name; {
		was = name
		// the ends that editors and people give to a copy
		for _, c := range [...]string{"~", "#", ".bak", ".old", ".orig", ".save", ".swp"} {
			name = strings.TrimSuffix(name, c)
		}
	}
	return secretFile(name)
}

// A public key is meant to be shown.
func secretFile(name string) bool {
	if strings.HasSuffix(name, ".pub") {
		return false
	}
	if rest, ok := strings.CutPrefix(name, ".env."); ok {
		// Files with these ends are examples, which are meant to be read.
		harmless := []string{".example", ".sample", ".template"}
		if !hasSuffix("."+rest, harmless) {
			return true
		}
	}
	if strings.HasPrefix(name, "service-account") && strings.HasSuffix(name, ".json") {
		return true
	}
	for _, p := range [...]string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"} {
		if name == p || strings.HasPrefix(name, p+"_") || strings.HasPrefix(name, p+".") {
			return true
		}
	}
	return secretNames.has(name) || hasSuffix(name, secretSuffixes)
}

// hasSuffix reports whether a name has one of the ends.
func hasSuffix(s string, suffixes []string) bool {
	for _, x := range suffixes {
		if strings.HasSuffix(s, x) {
			return true
		}
	}
	return false
}

// separator finds what separates the elements of a path: on Windows, and for git
// anywhere, a backslash does too.
const separator = "/\\"

func last(p string) string { return p[strings.LastIndexAny(p, separator)+1:] }

func anyElement(p string, is func(name string) bool) bool {
	for {
		i := strings.IndexAny(p, separator)
		if i < 0 {
			return isName(p, is)
		}
		if isName(p[:i], is) {
			return true
		}
		p = p[i+1:]
	}
}

func isName(name string, is func(name string) bool) bool {
	if is(fold(name)) {
		return true
	}
	return strings.ContainsAny(name, ":~") && slices.ContainsFunc(nameForms(name), is)
}

// nameForms returns what a name may be taken for: the folded name, and if it has a colon
// also what is before it, which on Windows is the file; elsewhere the colon is as any
// other character. There a file has a second, short name too, which stands for any long
// one that it may be of.
func nameForms(name string) []string {
	var all []string
	for ok := true; ok; {
		folded := fold(name)
		all = append(append(all, folded), longNames(folded)...)
		i := strings.LastIndexByte(name, ':')
		if ok = i > 0; ok {
			name = name[:i]
		}
	}
	return all
}

// longNames returns those among the names of the tables that may have this one as
// their short name: up to six characters of the name without its dots and spaces, a
// tilde and a number, and three characters of what comes after the last dot. Of many
// alike, git knows the one of .gitmodules that is made of a hash.
func longNames(short string) []string {
	base, ext, _ := strings.Cut(short, ".")
	stem, number, ok := strings.Cut(base, "~")
	if !ok || stem == "" || len(stem) > 6 || len(ext) > 3 || number == "" || strings.Trim(number, "0123456789") != "" {
		return nil
	}
	if stem == "gi7eba" {
		return []string{".gitmodules"}
	}
	names := slices.Concat(strings.Fields(stores), secretDirs, secretNames)
	for i := range startRows {
		names = append(names, strings.Fields(startRows[i].names)...)
	}
	var all []string
	for _, long := range names {
		var elem string
		for rest, more := strings.Trim(long, "/"), true; more; {
			elem, rest, more = strings.Cut(rest, "/")
			if s, e := shorten(elem); s == stem && e == ext {
				all = append(all, elem)
			}
		}
	}
	return all
}

// shorten returns the two parts of a short name, without the tilde and the number.
func shorten(long string) (stem, ext string) {
	long = strings.TrimLeft(long, ".")
	if i := strings.LastIndexByte(long, '.'); i >= 0 {
		long, ext = long[:i], long[i+1:]
	}
	long = strings.ReplaceAll(long, ".", "")
	return long[:min(len(long), 6)], ext[:min(len(ext), 3)]
}

// fold brings a name to the form under which file systems may find it: case does
// not count on many, for APFS ß is ss too; invisible characters do not on HFS+ (git's
// CVE-2014-9390); dots and spaces at the end do not on Windows. A name is folded only
// to be compared.
func fold(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		name = strings.ToLower(name)
	} else {
		name = strings.ReplaceAll(strings.Map(foldRune, name), "ß", "ss")
	}
	if name != "." && name != ".." {
		name = strings.TrimRight(name, ". ")
	}
	return name
}

// foldRune returns the least of the runes that are the same but for their case, in
// lower case, and nothing for one that is not seen.
func foldRune(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
		return -1
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return unicode.ToLower(least)
}
