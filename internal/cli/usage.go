package cli

import (
	"fmt"
	"strings"
)

const usageHead = `usage: aycoder [flags] [prompt]

  aycoder                          talk about this directory
  aycoder "fix the failing test"   start with a task
  aycoder -c                       go on with the newest conversation
  aycoder -p "explain main.go"     print one answer and exit
  cat log | aycoder -p "what broke?"
  aycoder -p "fix the lint errors" -allow edit_file -allow 'bash:go vet *'

The model is that of the configuration or of -model, or else that of the first
provider whose key is in the environment, or else one of an Ollama on this machine.
Without any of them and without a prompt, a scripted model shows a demo.

Settings are in ~/.config/aycoder/config.toml and .aycoder/config.toml. What a project
brings is off until you have trusted it: in a terminal, you are asked.
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
	for _, f := range flagTable() {
		entry(&b, strings.TrimSpace("-"+f.name+" "+f.arg), f.help)
	}
	b.WriteString("\nexit status:\n")
	for _, e := range exitTable() {
		entry(&b, fmt.Sprint(e.code), e.meaning)
	}
	return b.String()
}

const (
	entryColumn = 20 // in which the description begins
	usageWidth  = 86
)

// entry writes a name with its description, which may take several lines.
func entry(b *strings.Builder, name, help string) {
	line := fmt.Sprintf("  %-*s", entryColumn-3, name)
	if len(line) >= entryColumn {
		b.WriteString(line + "\n")
		line = strings.Repeat(" ", entryColumn-1)
	}
	for word := range strings.FieldsSeq(help) {
		if len(line)+1+len(word) > usageWidth {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", entryColumn-1)
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}
