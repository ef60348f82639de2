package shell

import "strings"

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

var hijackNames = set(
	"PATH", "ENV", "SHELL", "SHELLOPTS", "FPATH", "PS0", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "HISTFILE",
	"PAGER", "MANPAGER", "MANPATH", "MANOPT", "MANROFFOPT", "LESSOPEN", "LESSCLOSE", "LESSEDIT", "LESS", "LESSKEY",
	"EDITOR", "VISUAL", "FCEDIT", "BROWSER", "TERMINFO", "TERMCAP", "EXINIT", "VIMINIT", "MYVIMRC", "MAKEFLAGS",
	"GNUMAKEFLAGS", "MFLAGS",
	"SSLKEYLOGFILE", "HOME", "TMPDIR", "TMP", "TEMP", "EXECIGNORE", "GLOBIGNORE", "INPUTRC", "TAR_OPTIONS",
	"TAPE", "GZIP", "ZIPOPT",
	"UNZIP", "XZ_OPT", "XZ_DEFAULTS", "GREP_OPTIONS", "AWKPATH", "AWKLIBPATH", "POSIXLY_CORRECT", "CC", "CXX",
	"CPP", "LD", "AR", "AS",
	"CFLAGS", "LDFLAGS", "CPPFLAGS", "RUSTFLAGS", "RUSTC", "RUSTDOC", "RUSTC_WRAPPER", "SSH_ASKPASS", "SSH_AUTH_SOCK",
	"SUDO_ASKPASS", "RSYNC_RSH", "CVS_RSH", "SVN_SSH", "HG", "HGRCPATH", "HGEDITOR", "DISPLAY", "XAUTHORITY",
	"DBUS_SESSION_BUS_ADDRESS",
	"NLSPATH", "LOCPATH", "GCONV_PATH", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "GETCONF_DIR", "MAGIC",
	"MAIL", "MAILPATH",
	"MAILCHECK", "OPTERR", "DIRSTACK", "FUNCNEST", "FIGNORE", "COMP_WORDBREAKS", "TIMEFORMAT", "CLASSPATH",
	"JAVA_HOME", "MAVEN_OPTS", "MAVEN_ARGS",
	"GRADLE_OPTS", "GRADLE_USER_HOME", "ANT_OPTS", "SBT_OPTS", "KUBECONFIG", "DOCKER_HOST", "DOCKER_CONFIG",
	"LIBRARY_PATH",
	"CPATH", "PKG_CONFIG_PATH", "SYSTEMD_PAGER", "SYSTEMD_EDITOR", "GPG_TTY", "GNUPGHOME", "http_proxy",
	"https_proxy",
	"all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "CURL_CA_BUNDLE", "CURL_HOME", "WGETRC",
	"REQUESTS_CA_BUNDLE",
	"DELTA_PAGER", "MYSQL_HOME", "PSQLRC", "PSQL_PAGER", "ACK_PAGER", "ACKRC", "FZF_DEFAULT_COMMAND",
	"FZF_DEFAULT_OPTS",
	"MALLOC_CONF", "MALLOC_TRACE", "PARALLEL", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME",
	"XDG_CONFIG_DIRS", "XDG_DATA_DIRS",
	"XDG_RUNTIME_DIR", "JQ_LIBRARY_PATH", "TREE_COLORS_FILE", "PERLLIB", "VIRTUAL_ENV", "ZDOTDIR", "TERM_PROGRAM",
)

var hijackPrefixes = []string{
	"LD_", "DYLD_", "GIT_", "BASH_", "GO", "CGO_", "NODE_", "NPM_", "npm_", "YARN_", "PNPM_", "BUN_", "DENO_",
	"PYTHON", "PIP_", "UV_", "POETRY_", "PERL5",
	"RUBY", "GEM_", "BUNDLE_", "JAVA_", "_JAVA_", "JDK_", "PHP", "COMPOSER_", "LUA_", "CARGO_", "RUSTUP_",
	"DOTNET_", "COR_", "CORECLR_", "RIPGREP_", "BAT_", "FD_",
	"OPENSSL_", "SSL_", "GLIBC_", "AWS_", "AZURE_", "GOOGLE_", "DOCKER_", "TF_", "ANSIBLE_", "SUDO_", "GTK_",
	"QT_", "GDK_",
	"CMAKE_", "MAKE_", "R_", "JULIA_", "OCAML", "ERL_", "ELIXIR_", "MIX_", "GCC_", "COMPILER_", "DEBUGINFOD_",
	"CCACHE_", "DISTCC_", "MAN", "LESS",
}

// tame are the variables that such programs have only for how their output looks, or
// that name a system to build for.
var tame = set(
	"GOOS", "GOARCH", "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GOTRACEBACK", "GO111MODULE", "CGO_ENABLED",
	"NODE_ENV", "NODE_NO_WARNINGS",
	"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED",
	"GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT",
	"GIT_PAGER_IN_USE", "LESSCHARSET", "MANWIDTH", "NPM_CONFIG_COLOR", "CARGO_TERM_COLOR", "BASH_REMATCH",
)

// numbers are variables of the shell that are always numbers.
var numbers = set(
	"#", "?", "$", "!", "RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "BASHPID", "COLUMNS", "LINES",
	"SHLVL", "OPTIND",
	"BASH_SUBSHELL", "EPOCHSECONDS", "SRANDOM",
)

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
var handed = set("LANG", "LANGUAGE", "TZ", "NO_COLOR", "CLICOLOR", "FORCE_COLOR", "GIT_OPTIONAL_LOCKS")

// hands reports whether a variable may be given to a program with that value: a name, not
// a path, as locale and time zone may be read from a file.
func hands(name string, v word) bool {
	return (handed[name] || strings.HasPrefix(name, "LC_")) && v.kind <= digits && !strings.Contains(v.text, "..") &&
		!strings.HasPrefix(v.text, "/") && !strings.HasPrefix(v.text, ":") && !strings.HasPrefix(v.text, ".")
}

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
