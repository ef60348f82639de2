package rule

import (
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/ignore"
)

// Command matches a command line. Whatever runs behind an operator is a separate command, and
// so is any word that may be the name of a program: a deny rule looks at each, with its quotes
// taken off. It is a help all the same and no wall: a shell can be told in more ways than a
// pattern can know.
func Command(pattern, command string, allow bool) bool {
	if allow {
		command = strings.Trim(command, " \t")
		return wild(pattern, command, plainWords) && belowCeiling(pattern, command)
	}
	if len(command) > maxCommand {
		return true
	}
	command = strings.NewReplacer("\\\n", "", `"`, "", "'", "", `\`, "").Replace(command)
	parts := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune("\n\r;&|()`{}$", r) })
	for _, p := range append(parts, command) {
		words := strings.Fields(p)
		if len(words) > maxWords {
			return true
		}
		for i := range words {
			words[i] = path.Base(words[i])
			line := strings.Join(words[i:], " ")
			if wild(pattern, line, anything) || wild(pattern, line+" ", anything) {
				return true
			}
		}
	}
	return false
}

// SuggestCommand returns patterns that cover a command: the command itself and, if its
// subcommand is known to be harmless with any arguments, the subcommand.
func SuggestCommand(command string) []string {
	all := []string{Quote(strings.TrimSpace(command))}
	words := strings.Fields(command)
	if len(words) > 1 && slices.Contains(subcommands[words[0]], words[1]) {
		p := words[0] + " " + words[1] + " *"
		if len(words) == 2 || Command(p, command, true) {
			all = append(all, p)
		}
	}
	return all
}

// subcommands are those for which a rule with any arguments can be meant.
var subcommands = map[string][]string{
	"go":    {"build", "vet", "test", "fmt", "list", "doc", "version"},
	"git":   {"status", "diff", "log", "show", "add", "commit", "blame"},
	"cargo": {"build", "check", "test", "clippy", "fmt", "doc"},
	"npm":   {"test", "ls"},
}

// belowCeiling reports whether a command stays below the ceiling of an allow rule with a star.
// The author of "git log *" means any history, not the option by which git log writes a file
// anywhere. A rule without a star is explicit, and has no ceiling. Only the options of common
// subcommands are known here, and no other option passes; package policy knows more programs.
func belowCeiling(pattern, command string) bool {
	if len(literals(pattern)) == 1 {
		return true
	}
	words, said := strings.Fields(command), strings.Fields(pattern)
	if len(words) == 0 || slices.Contains(powerful, path.Base(words[0])) {
		return false
	}
	known := len(words) > 1 && words[0] != "npm" && slices.Contains(subcommands[words[0]], words[1])
	if words[0] == "git" && len(words) > 1 && slices.Contains(powerfulGit, words[1]) {
		return false
	}
	for _, w := range words {
		if slices.Contains(said, w) {
			continue
		}
		if option := strings.TrimLeft(w, "-"); option != w {
			// The text right after an option letter may be a path.
			if !known || slices.ContainsFunc(runners, func(r string) bool { return strings.Contains(w, r) }) || strings.Contains(w, "/") {
				return false
			}
			w = option
		}
		if leaves(w) || ignore.Store(w) || ignore.Secret(w) || ignore.Runs(w) != "" {
			return false
		}
	}
	return true
}

// leaves reports whether a word may be a path out of the workspace.
func leaves(w string) bool {
	return path.IsAbs(w) || slices.Contains(strings.FieldsFunc(w, func(r rune) bool { return r == '/' || r == ':' || r == ',' }), "..")
}

// powerful lists programs that destroy data, gain privileges or run other programs. A star
// after one of them could be anything.
var powerful = []string{
	"rm", "rmdir", "unlink", "shred", "truncate", "dd", "wipefs", "fdisk", "parted", "mkfs", "sudo", "su", "doas", "pkexec",
	"runuser", "chroot", "unshare", "nsenter", "setpriv", "chmod", "chown", "chgrp", "setfacl", "setcap", "kill", "pkill", "killall",
	"mount", "umount", "insmod", "modprobe", "systemctl", "service", "shutdown", "reboot", "halt", "poweroff", "init", "crontab", "at",
	"batch", "useradd", "usermod", "userdel", "passwd", "visudo", "iptables", "nft", "sysctl", "docker", "podman", "kubectl", "env",
	"xargs", "nice", "nohup", "timeout", "time", "stdbuf", "setsid", "command", "exec", "eval", "builtin", "source", ".", "find",
	"busybox", "watch", "parallel", "script", "tee", "install", "ln", "gdb", "strace", "ssh", "trap", "alias", "export", "declare",
}

// powerfulGit lists subcommands of git that discard work or run other programs.
var powerfulGit = []string{
	"checkout", "restore", "reset", "clean", "rm", "stash", "push", "reflog", "worktree", "submodule", "bisect", "config",
	"update-ref", "filter-branch", "rebase", "switch", "gc", "prune", "branch", "tag", "replace", "notes", "difftool", "mergetool",
}

// runners are parts of the names of options by which a known subcommand runs a program.
var runners = []string{"exec", "tool", "ext", "config", "overlay", "modfile"}
