package cli

import (
	"context"
	"fmt"
	"strings"
)

// completion prints the completion for a shell, made from the tables of flags and commands.
func completion(_ context.Context, k *call) error {
	write := map[string]func(b *strings.Builder){"bash": k.completeBash, "zsh": k.completeZsh, "fish": k.completeFish}[k.action]
	var b strings.Builder
	write(&b)
	return k.write(b.String())
}

// names returns the names of the commands, and of the flags with their dash.
func (a *app) names() (commands, flags []string) {
	for _, c := range a.subcommands() {
		commands = append(commands, c.name)
	}
	for _, f := range flagTable(&options{}) {
		flags = append(flags, "-"+f.name)
	}
	return commands, append(flags, "-h")
}

// words returns what may follow the name of a command.
func (c subcommand) words() []string {
	if c.raw {
		return nil
	}
	var out []string
	for _, x := range c.actions {
		out = append(out, x.Name)
	}
	for _, f := range c.flags {
		out = append(out, "-"+f.Name)
	}
	return append(out, "-json", "-h")
}

func (k *call) completeBash(b *strings.Builder) {
	commands, flags := k.names()
	b.WriteString("_aycoder() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n\tlocal words=\n")
	b.WriteString("\tif ((COMP_CWORD > 1)); then\n\t\tcase ${COMP_WORDS[1]} in\n")
	for _, c := range k.subcommands() {
		fmt.Fprintf(b, "\t\t%s) words='%s' ;;\n", c.name, strings.Join(c.words(), " "))
	}
	b.WriteString("\t\tesac\n\t\tif [[ -n $words ]]; then\n\t\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n\t\t\treturn\n\t\tfi\n\tfi\n")
	b.WriteString("\tcase $prev in\n")
	for _, f := range flagTable(&options{}) {
		switch {
		case f.values != nil:
			fmt.Fprintf(b, "\t-%s) words='%s' ;;\n", f.name, strings.Join(f.values, " "))
		case f.arg == "dir":
			fmt.Fprintf(b, "\t-%s) mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); return ;;\n", f.name)
		case f.arg == "file" || f.arg == "image":
			fmt.Fprintf(b, "\t-%s) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;\n", f.name)
		}
	}
	fmt.Fprintf(b, "\t*)\n\t\twords='%s'\n\t\tif ((COMP_CWORD == 1)); then words+=' %s'; fi ;;\n\tesac\n", strings.Join(flags, " "), strings.Join(commands, " "))
	b.WriteString("\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\ncomplete -o default -F _aycoder aycoder\n")
}

// quoteZsh quotes the description of a flag or a command.
func quoteZsh(s string) string {
	return strings.NewReplacer("'", "’", "[", "(", "]", ")", ":", `\:`).Replace(s)
}

func (k *call) completeZsh(b *strings.Builder) {
	b.WriteString("#compdef aycoder\n_aycoder() {\n\tlocal -a commands\n\tcommands=(\n")
	for _, c := range k.subcommands() {
		fmt.Fprintf(b, "\t\t'%s:%s'\n", c.name, quoteZsh(c.help))
	}
	b.WriteString("\t)\n\tif ((CURRENT == 2)) && [[ $PREFIX != -* ]]; then\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tcase $words[2] in\n")
	for _, c := range k.subcommands() {
		if words := c.words(); words != nil {
			fmt.Fprintf(b, "\t%s) compadd -- %s || _files; return ;;\n", c.name, strings.Join(words, " "))
		}
	}
	b.WriteString("\tesac\n\t_arguments \\\n")
	for _, f := range flagTable(&options{}) {
		fmt.Fprintf(b, "\t\t'-%s[%s]%s' \\\n", f.name, quoteZsh(f.help), zshValue(f))
	}
	b.WriteString("\t\t'*:prompt:_files'\n}\ncompdef _aycoder aycoder\n")
}

func zshValue(f flagDef) string {
	switch {
	case f.arg == "":
		return ""
	case f.values != nil:
		return ":" + f.arg + ":(" + strings.Join(f.values, " ") + ")"
	case f.arg == "dir":
		return ":dir:_files -/"
	case f.arg == "file" || f.arg == "image":
		return ":" + f.arg + ":_files"
	}
	return ":" + f.arg + ":"
}

func (k *call) completeFish(b *strings.Builder) {
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	for _, c := range k.subcommands() {
		fmt.Fprintf(b, "complete -c aycoder -f -n __fish_use_subcommand -a %s -d %s\n", c.name, quote(c.help))
		for _, w := range c.words() {
			fmt.Fprintf(b, "complete -c aycoder -f -n '__fish_seen_subcommand_from %s' -a %s\n", c.name, quote(w))
		}
	}
	for _, f := range flagTable(&options{}) {
		fmt.Fprintf(b, "complete -c aycoder -n __fish_use_subcommand -o %s -d %s", f.name, quote(f.help))
		switch {
		case f.values != nil:
			fmt.Fprintf(b, " -x -a %s", quote(strings.Join(f.values, " ")))
		case f.arg == "dir" || f.arg == "file" || f.arg == "image":
			b.WriteString(" -r")
		case f.arg != "":
			b.WriteString(" -x")
		}
		b.WriteString("\n")
	}
}
