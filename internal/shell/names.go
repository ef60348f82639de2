package shell

import (
	"strings"

	"github.com/aycoder/aycoder/internal/late"
)

// hijack says what setting a variable does to the commands after it.
func hijack(name string) (Class, string) {
	switch {
	case name == "IFS":
		return NeedsApproval, "changes how words are split"
	case special[name]:
		return NeedsApproval, "sets a variable of the shell: " + name
	case hijackNames[name]:
		return Escalates, "sets a variable that decides what programs run or load: " + name
	}
	for _, p := range hijackPrefixes {
		if strings.HasPrefix(name, p) && !tame[name] {
			return Escalates, "sets a variable that decides what programs run or load: " + name
		}
	}
	return ReadOnly, ""
}

// hijackNames and hijackPrefixes are the best known of these. Every other variable that a
// program could get asks too.
var hijackNames = set(
	"PATH", "ENV", "SHELL", "SHELLOPTS", "PS0", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "PAGER", "EDITOR", "VISUAL",
	"BROWSER", "MAKEFLAGS", "HOME", "TMPDIR", "EXECIGNORE", "GLOBIGNORE", "INPUTRC", "TAR_OPTIONS", "CC", "CXX",
	"CFLAGS", "LDFLAGS", "RUSTC", "RUSTC_WRAPPER", "RUSTFLAGS", "SSH_ASKPASS", "RSYNC_RSH", "DIRSTACK", "FUNCNEST",
	"CLASSPATH", "JAVA_HOME", "MAVEN_OPTS", "GRADLE_OPTS", "KUBECONFIG", "DOCKER_HOST", "http_proxy", "https_proxy",
	"all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "XDG_CONFIG_HOME", "VIRTUAL_ENV", "ZDOTDIR", "TERMINFO",
)

var hijackPrefixes = []string{
	"LD_", "DYLD_", "GIT_", "BASH_", "GO", "CGO_", "NODE_", "NPM_", "npm_", "YARN_", "PYTHON", "PIP_", "PERL5", "RUBY",
	"GEM_", "BUNDLE_", "JAVA_", "_JAVA_", "JDK_", "PHP", "LUA_", "CARGO_", "RUSTUP_", "DOTNET_", "OPENSSL_", "SSL_",
	"SUDO_", "AWS_", "MAN", "LESS",
}

// tame are the variables that such programs have only for how their output looks, or
// that name a system to build for.
var tame = set("GOOS", "GOARCH", "GOMAXPROCS", "GOGC", "CGO_ENABLED", "NODE_ENV", "PYTHONUNBUFFERED", "MANWIDTH")

// special are the variables that the manual of bash lists as set or used by the shell:
// what is assigned to them is evaluated, or changes how the shell works.
var special = set("RANDOM", "SRANDOM", "HISTCMD", "OPTIND", "SECONDS", "LINENO", "EPOCHSECONDS", "BASHPID", "COLUMNS",
	"LINES", "TMOUT", "HISTSIZE", "HISTFILESIZE", "HISTCONTROL", "HISTIGNORE", "HISTTIMEFORMAT", "OPTARG", "PPID", "UID",
	"EUID", "GROUPS", "FUNCNAME", "PIPESTATUS", "COPROC", "COMPREPLY", "COMP_CWORD", "COMP_LINE", "COMP_POINT",
	"COMP_WORDS", "CHILD_MAX", "EMACS", "INSIDE_EMACS", "HOSTFILE", "IGNOREEOF", "PROMPT_DIRTRIM", "READLINE_LINE",
	"READLINE_POINT", "READLINE_MARK", "SHLVL", "GLOBSORT", "PS3", "auto_resume", "histchars", "PWD", "OLDPWD",
	"HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE", "LOGNAME", "USER", "CDPATH")

// handed are the variables that may be set for a program: they name a language, a time
// zone or how output looks (locale(7), tzset(3), no-color.org). Every other one may mean
// something to some program.
var handed = set("LANGUAGE", "TZ", "NO_COLOR", "CLICOLOR", "FORCE_COLOR")

// locales are those in which every shell and program finds the characters of a script where we do.
var locales = late.Regexp(`^(C|POSIX|[A-Za-z_]+\.(?i:utf-?8))?$`)

// hands reports whether a variable may be given to a program with that value: a name, not
// a path, as a time zone may be read from a file.
func hands(name string, v word) bool {
	if name == "LANG" || strings.HasPrefix(name, "LC_") {
		return v.kind <= digits && locales().MatchString(v.text)
	}
	return handed[name] && v.kind <= digits && !strings.Contains(v.text, "..") &&
		!strings.HasPrefix(v.text, "/") && !strings.HasPrefix(v.text, ":") && !strings.HasPrefix(v.text, ".")
}

// numbers are variables of the shell that are always numbers.
var numbers = set("#", "?", "$", "!", "RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "BASHPID", "SHLVL")

// public reports whether anybody may see a variable of the environment. Those in small
// letters belong to scripts.
func public(name string) bool {
	return publicNames[name] || strings.HasPrefix(name, "LC_") || name == strings.ToLower(name)
}

var publicNames = set(
	"PATH", "USER", "LOGNAME", "HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE", "SHELL", "LANG", "LANGUAGE",
	"TERM", "PWD", "OLDPWD", "HOME",
	"TMPDIR", "EDITOR", "PAGER", "GOPATH", "GOROOT", "GOOS", "GOARCH", "GOBIN", "GOFLAGS", "CI", "BASH_VERSION",
	"BASH", "BASHOPTS", "SHELLOPTS",
	"VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "NODE_ENV", "PYTHONPATH", "DISPLAY", "TZ", "IFS",
	"EPOCHREALTIME", "FUNCNAME", "BASH_SOURCE",
	"BASH_LINENO", "PIPESTATUS", "REPLY", "GROUPS", "DIRSTACK", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "CARGO_HOME",
	"RUSTUP_HOME", "NVM_DIR", "COLORTERM", "NO_COLOR", "CC", "CXX", "CFLAGS", "LDFLAGS", "MAKEFLAGS", "NF", "NR",
)
