package tools

import (
	"os"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/late"
)

// passed are the variables that commands inherit from the host: those with which programs
// find their files and the user's language, and the settings of tool chains.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_ADDRESS",
	"LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES",
	"LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
	"TZ", "TMPDIR", "TMP",
	"TEMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
	"GOPATH", "GOROOT", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GOPRIVATE",
	"GONOSUMDB", "GOSUMDB", "GOTOOLCHAIN", "GOOS", "GOARCH", "CGO_ENABLED", "CC", "CXX",
	"CFLAGS", "CXXFLAGS", "LDFLAGS", "PKG_CONFIG_PATH", "SDKROOT", "DEVELOPER_DIR",
	"CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "JAVA_HOME", "GRADLE_USER_HOME",
	"M2_HOME", "ANDROID_HOME", "NVM_DIR", "VOLTA_HOME", "PNPM_HOME", "BUN_INSTALL",
	"DENO_DIR", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "RBENV_ROOT", "GEM_HOME",
	"DOTNET_ROOT", "SSL_CERT_FILE", "SSL_CERT_DIR", "CI",
}

// login matches a user name, mostly with a password, in the address of a server.
var login = late.Regexp(`://[^/\s]*@`)

// fixed are set for every command. Programs are told that there is no terminal. Git is
// told not to run programs that a repository configures when the repository is only
// inspected, as far as settings can forbid it: filters and an external diff still run (an
// empty diff.external breaks git diff). A repository cannot choose the key for ssh;
// GIT_SSH_COMMAND in [WithEnv] can.
var fixed = []string{
	"TERM=dumb", "NO_COLOR=1", "PAGER=cat", "EDITOR=false", "VISUAL=false",
	"DEBIAN_FRONTEND=noninteractive", "GIT_PAGER=cat", "GIT_EDITOR=false",
	"GIT_SEQUENCE_EDITOR=false", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false",
	"GIT_OPTIONAL_LOCKS=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
	"GIT_CONFIG_COUNT=12", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0=false",
	"GIT_CONFIG_KEY_1=core.hooksPath", "GIT_CONFIG_VALUE_1=/dev/null",
	"GIT_CONFIG_KEY_2=core.pager", "GIT_CONFIG_VALUE_2=cat",
	"GIT_CONFIG_KEY_3=log.showSignature", "GIT_CONFIG_VALUE_3=false",
	"GIT_CONFIG_KEY_4=credential.helper", "GIT_CONFIG_VALUE_4=",
	"GIT_CONFIG_KEY_5=protocol.ext.allow", "GIT_CONFIG_VALUE_5=never",
	"GIT_CONFIG_KEY_6=core.sshCommand", "GIT_CONFIG_VALUE_6=ssh",
	"GIT_CONFIG_KEY_7=gpg.program", "GIT_CONFIG_VALUE_7=gpg",
	// A repository may contain a bare one, in a directory that looks harmless, whose
	// configuration git would obey.
	"GIT_CONFIG_KEY_8=safe.bareRepository", "GIT_CONFIG_VALUE_8=explicit",
	// Otherwise git diff writes the index, which GIT_OPTIONAL_LOCKS does not forbid it.
	"GIT_CONFIG_KEY_9=diff.autoRefreshIndex", "GIT_CONFIG_VALUE_9=false",
	// A format of the repository may have git log verify signatures.
	"GIT_CONFIG_KEY_10=gpg.ssh.program", "GIT_CONFIG_VALUE_10=ssh-keygen",
	"GIT_CONFIG_KEY_11=gpg.x509.program", "GIT_CONFIG_VALUE_11=gpgsm",
}

// inherited returns the variables that commands inherit from the machine on which they run.
func inherited(machine []string) []string {
	env := []string{}
	for _, v := range machine {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(passed, name) && !login().MatchString(v) {
			env = append(env, v)
		}
	}
	return env
}

// Environ returns the environment that bash gives to the commands of exec, for programs that a host runs in the same
// way. More are variables as those of [WithEnv].
func Environ(exec Exec, more ...string) []string {
	host := os.Environ()
	if r, ok := exec.(RemoteExec); ok {
		return environ(r.Environ(), host, more)
	}
	return environ(host, host, more)
}

// environ returns the environment of a command: variables inherited from the machine on which it
// runs, then the fixed ones, then those that the host asked for.
func environ(machine, host, extra []string) []string {
	env := append(inherited(machine), fixed...)
	value := map[string]string{}
	for _, v := range host {
		name, _, _ := strings.Cut(v, "=")
		value[name] = v
	}
	for _, v := range extra {
		if !strings.Contains(v, "=") {
			v = value[v]
		}
		if v != "" {
			env = append(env, v)
		}
	}
	return env
}
