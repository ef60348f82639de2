package cli

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

const usageHead = `usage: aycoder [flags] [prompt]

  aycoder                          talk about this directory
  aycoder "fix the failing test"   start with a task
  aycoder -c                       go on with the newest conversation
  aycoder -p "explain main.go"     print one answer and exit
  cat log | aycoder -p "what broke?"
  aycoder -p "fix the lint errors" -allow edit_file -allow 'bash:go vet *'

The model is that of the configuration or of -model, or else that of the first ` +
	`provider whose key is in the environment, or else one of an Ollama on this machine. ` +
	`Without any of them and without a prompt, a scripted model shows a demo.

Settings are in ~/.config/aycoder/config.toml and .aycoder/config.toml. What a project ` +
	`brings is off until you have trusted it: in a terminal, you are asked.
`

// An exitStatus is what the program tells the one that has started it.
type exitStatus struct {
	code    int
	meaning string
}

// exitTable lists the exit statuses.
func exitTable() []exitStatus {
	return []exitStatus{
		{exitOK, "done"},
		{exitError, "failed"},
		{exitUsage, "wrong usage, or no model"},
		{exitLimit, "a limit was reached: turns, cost, working time, or the length of an answer"},
		{exitApproval, "an approval was needed, and nobody could be asked"},
		{exitConflicts, "done, but changes were left out because they conflict with those of somebody else"},
		{exitHangup, "ended by SIGHUP"},
		{exitInterrupted, "interrupted"},
		{exitPipe, "nobody reads the output any more"},
		{exitTerminated, "ended by SIGTERM"},
	}
}

// usage returns the text of -h.
func (a *app) usage() string {
	var b strings.Builder
	b.WriteString(usageHead + "\ncommands (each with -h):\n")
	for _, c := range a.subcommands() {
		entry(&b, c.name, c.help)
	}
	b.WriteString("\nflags:\n")
	for _, f := range flagTable(&options{}) {
		entry(&b, strings.TrimSpace("-"+f.name+" "+f.arg), f.help)
	}
	b.WriteString("\nexit status:\n")
	for _, e := range exitTable() {
		entry(&b, fmt.Sprint(e.code), e.meaning)
	}
	return shaped(b.String(), columnsOf(a.stdout))
}

const (
	entryColumn = 20 // in which the description begins
	usageWidth  = 80 // where there is no terminal, or a wide one
)

// entry writes a name with its description, on one line if there is room for the name.
func entry(b *strings.Builder, name, help string) {
	name = "  " + name
	if len(name) >= entryColumn-1 {
		b.WriteString(name + "\n")
		name = ""
	}
	fmt.Fprintf(b, "%-*s%s\n", entryColumn, name, help)
}

// shaped breaks the lines of a text between words. An entry goes on in the column of its description, if there is
// room.
func shaped(text string, width int) string {
	width = min(width, usageWidth)
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		hang := ""
		if strings.HasPrefix(line, "  ") {
			hang = strings.Repeat(" ", entryColumn)
			if width < narrow {
				hang = "      "
			}
		}
		out = append(out, tty.Wrap(line, width, hang)...)
	}
	return strings.Join(out, "\n")
}

// columnsOf returns the width of a terminal, or that of a usual one.
func columnsOf(f *os.File) int {
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		return width
	}
	return usageWidth
}
