package tools

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/internal/runes"
)

// heldText is for a model whose command did not succeed.
const heldText = "[this command ran without asking, as it only reads, and was held to that: outside of its own temporary " +
	"directory it could change no file, mode, owner, time or attribute, and it had no network; if it needs more, call again " +
	"with request_approval true, and the user is asked]\n"

// heldBack reports whether a command did not succeed that could do nothing but read.
func (e *ending) heldBack() bool { return e.res.ReadOnly && !e.stopped() && e.res.Code != 0 }

// A heldLine is a line in which a program says that it was refused something, and what
// commands that only read are refused in these words. What refused it is not known: they
// are those of file systems too.
type heldLine struct{ rule, line string }

func (r heldLine) String() string { return r.rule + ": " + r.line }

const maxRefusals = 3

// refusals finds the last refusals in what a command has printed.
func refusals(text string) (all []heldLine) {
	for _, line := range refused.FindAllString(text, -1) {
		rule := "no file may be changed, and there is no network"
		if strings.Contains(line, "not permitted") || strings.Contains(line, "EPERM") {
			rule = "no mode, owner, time or attribute may be changed, and no other process"
		}
		all = append(all, heldLine{rule, runes.Shorten(strings.TrimSpace(line), 300)})
	}
	return all[max(0, len(all)-maxRefusals):]
}

// refused finds what programs make of EACCES, EPERM and EROFS.
var refused = regexp.MustCompile(`(?m)^.*(?:[Pp]ermission denied|[Oo]peration not permitted|Read-only file system|\bEACCES\b|\bEPERM\b).*$`)

// writeHeld says of a command that did not succeed what it was held to.
func (e *ending) writeHeld(b *strings.Builder) {
	if !e.heldBack() {
		return
	}
	found := refusals(b.String())
	b.WriteString(heldText)
	for _, r := range found {
		fmt.Fprintf(b, "[refused, perhaps by that: %s]\n", r)
	}
}

// alert tells the audit log what a command that only reads was refused, or that nothing
// has held it to reading.
func (b *basher) alert(e *ending, c *ExecCommand, inv *invocation, out *proc.Output) {
	switch {
	case c.ReadOnly && !e.res.ReadOnly:
		b.unheld.Do(func() {
			inv.Alert("not_held_to_reading", "commands that run unasked as they only read are not held to that here")
		})
	case e.heldBack():
		text, _ := out.Text()
		for _, r := range refusals(text) {
			inv.Alert("held_to_reading", r.String())
		}
	}
}
