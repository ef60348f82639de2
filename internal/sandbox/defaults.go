package sandbox

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// systemDirectories hold what programs need to run. /proc shows a confined process no more
// of others than what everybody may see of them.
var systemDirectories = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc", "/proc", "/sys",
	"/nix/store", "/nix/var/nix/profiles", "/gnu/store", "/run/current-system", "/snap",
	"/home/linuxbrew/.linuxbrew", "/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf", "/var/lib/dpkg", "/var/lib/rpm",
	"/var/lib/ca-certificates", "/var/cache/fontconfig",
	"/System", "/Library", "/Applications/Xcode.app", "/private/etc", "/private/var/db", "/private/var/select",
}

// systemSecrets are what in those directories is for the administrator, who may be the host.
var systemSecrets = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
	"/etc/ssh", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/letsencrypt", "/etc/krb5.keytab",
	"/etc/kubernetes", "/etc/rancher", "/etc/docker", "/etc/wireguard", "/etc/openvpn", "/etc/ppp",
	"/etc/ipsec.secrets", "/etc/ipsec.d/private", "/etc/NetworkManager/system-connections",
	"/etc/security/opasswd", "/etc/master.passwd", "/private/etc/master.passwd", "/Library/Keychains",
}

// A toolchain is what a language has installed: where a variable says, or in a directory of
// the home directory, there only in some directories if any are named. Beside them may be
// settings with passwords.
type toolchain struct {
	env, home string
	only      []string
}

// toolchains are where tools of languages are installed, by a variable or below the home
// directory. Commands may read them, since without them hardly anything can be built.
var toolchains = []toolchain{
	{"GOROOT", "sdk", nil}, {"GOPATH", "go", []string{"bin", "pkg/sumdb", "pkg/mod"}}, {"GOMODCACHE", "", nil},
	{"CARGO_HOME", ".cargo", []string{"bin", "env", "registry", "git"}}, {"RUSTUP_HOME", ".rustup", nil},
	{"NVM_DIR", ".nvm", nil}, {"VOLTA_HOME", ".volta", nil}, {"PNPM_HOME", ".local/share/pnpm", nil},
	{"BUN_INSTALL", ".bun", nil}, {"DENO_INSTALL_ROOT", ".deno", nil}, {"FNM_DIR", ".local/share/fnm", nil},
	{"ASDF_DATA_DIR", ".asdf", nil}, {"MISE_DATA_DIR", ".local/share/mise", nil},
	{"PYENV_ROOT", ".pyenv", nil}, {"VIRTUAL_ENV", ".local/lib", nil}, {"CONDA_PREFIX", "miniconda3", nil},
	{"", ".local/bin", nil}, {"", ".local/share/uv", []string{"python", "tools"}}, {"", ".local/share/pipx", nil},
	{"RBENV_ROOT", ".rbenv", nil}, {"GEM_HOME", ".gem", []string{"ruby", "bin", "gems"}}, {"", ".rvm", nil},
	{"JAVA_HOME", ".jdks", nil}, {"SDKMAN_DIR", ".sdkman", []string{"candidates"}},
	{"", ".m2", []string{"repository", "wrapper"}},
	{"GRADLE_USER_HOME", ".gradle", []string{"caches", "wrapper", "jdks", "native"}},
	{"DOTNET_ROOT", ".dotnet", []string{"dotnet", "host", "metadata", "packs", "sdk", "sdk-manifests", "shared", "templates", "tools"}},
	{"NUGET_PACKAGES", ".nuget/packages", nil},
	{"ANDROID_HOME", "Android/Sdk", nil}, {"SDKROOT", "", nil}, {"DEVELOPER_DIR", "", nil},
	{"OPAMROOT", ".opam", nil}, {"GHCUP_INSTALL_BASE_PREFIX", ".ghcup", nil}, {"JULIA_DEPOT_PATH", ".juliaup", nil},
	{"PUB_CACHE", ".pub-cache", []string{"bin", "git", "global_packages", "hosted", "hosted-hashes"}}, {"", ".nix-profile", nil}, {"", ".local/state/nix", nil},
	{"SSL_CERT_FILE", "", nil}, {"SSL_CERT_DIR", "", nil}, {"", ".config/git", []string{"ignore", "attributes"}},
}

// A cache is a directory that tools change outside of the workspace. One that is only
// filled from the network can be changed only by commands that have it.
type cache struct {
	env, home string
	fetch     bool
}

// caches are what builds write outside of the workspace. Those that hold downloads may be
// read where the network is closed.
var caches = []cache{
	{"GOCACHE", "~cache/go-build", false}, {"GOLANGCI_LINT_CACHE", "~cache/golangci-lint", false},
	{"STATICCHECK_CACHE", "~cache/staticcheck", false}, {"UV_CACHE_DIR", "~cache/uv", false},
	{"CCACHE_DIR", "~cache/ccache", false}, {"ZIG_GLOBAL_CACHE_DIR", "~cache/zig", false},
	{"GOMODCACHE", "go/pkg/mod", true}, {"", "go/pkg/sumdb", true},
	{"", ".cargo/registry", true}, {"", ".cargo/git", true}, {"npm_config_cache", ".npm", true},
	{"YARN_CACHE_FOLDER", "~cache/yarn", true}, {"PIP_CACHE_DIR", "~cache/pip", true},
	{"DENO_DIR", "~cache/deno", true}, {"NUGET_PACKAGES", ".nuget/packages", true},
	{"", ".m2/repository", true}, {"", ".gradle/caches", true}, {"", ".gradle/wrapper", true},
}

// Host is what the defaults depend on.
type Host struct {
	Home string                   // the user's directory, "" if not known
	Env  func(name string) string // the host's environment
}

// ThisHost returns what the defaults depend on for the running program.
func ThisHost() Host {
	home, _ := os.UserHomeDir()
	return Host{home, os.Getenv}
}

// Defaults returns the policy for commands that work in a directory: they may look at the
// system, at installed languages and packages, and change the directory. If shared, they may
// also change the user's caches of builds, and with the network those of packages;
// otherwise, or where such a cache is missing, each command line gets a separate one.
func Defaults(dir string, h Host, shared bool) Policy {
	p := Policy{Read: slices.Clone(systemDirectories), Write: []string{dir}}
	for _, t := range toolchains {
		p.Read = append(p.Read, h.directories(t)...)
	}
	for _, list := range []string{"PATH", "PKG_CONFIG_PATH"} {
		p.Read = append(p.Read, h.safe(filepath.SplitList(h.Env(list)))...)
	}
	for _, c := range caches {
		h.addCache(&p, c, shared)
	}
	for _, path := range systemSecrets {
		if f, err := os.Open(path); err == nil {
			f.Close()
			p.Hide = append(p.Hide, path)
		}
	}
	return p
}

func (h Host) directories(t toolchain) []string {
	root := h.Env(t.env)
	if t.env == "" || root == "" {
		root = h.in(t.home)
	}
	if len(t.only) == 0 {
		return h.safe([]string{root})
	}
	var out []string
	for _, sub := range t.only {
		out = append(out, filepath.Join(root, sub))
	}
	return h.safe(out)
}

// addCache lets a command use a cache, or gives it a private one.
func (h Host) addCache(p *Policy, c cache, shared bool) {
	path := ""
	if c.env != "" {
		path = h.Env(c.env)
	}
	if path == "" {
		path = h.in(c.home)
	}
	found := h.safe([]string{path})
	_, err := os.Stat(path)
	switch {
	case len(found) > 0 && err == nil && shared && c.fetch:
		p.Fetch = append(p.Fetch, path)
	case len(found) > 0 && err == nil && shared:
		p.Write = append(p.Write, path)
	case c.env != "" && !c.fetch:
		p.Private = append(p.Private, c.env)
	}
}

// in is a path in the home directory, "" without one.
func (h Host) in(path string) string {
	if h.Home == "" || path == "" {
		return ""
	}
	rest, cached := strings.CutPrefix(path, "~cache/")
	if !cached {
		return filepath.Join(h.Home, path)
	}
	base := filepath.Join(h.Home, ".cache")
	if runtime.GOOS == "darwin" {
		base = filepath.Join(h.Home, "Library", "Caches")
	} else if x := h.Env("XDG_CACHE_HOME"); x != "" {
		base = x
	}
	return filepath.Join(base, rest)
}

// safe leaves out paths that are not absolute, and directories that contain the home directory:
// a variable that says so must not open all that the user has.
func (h Host) safe(paths []string) []string {
	home := filepath.Clean(h.Home)
	return slices.DeleteFunc(clean(paths), func(p string) bool {
		return p == filepath.Dir(p) || h.Home != "" && (within(home, p) || within(withoutLinks(home), withoutLinks(p)))
	})
}
