package tools

import (
	"fmt"
	"strings"

	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/internal/runes"
)

// heldText explains the confinement to the model when a command failed.
const heldText = "[this command ran without approval because it only reads, and was confined to that: outside " +
	"its temporary directory it could not change a file, mode, owner, time or attribute, and it had no " +
	"network; if it needs more, call again with request_approval true, and the user is asked]\n"

// heldBack reports whether a command failed that was confined to reading.
func (e *ending) heldBack() bool { return e.res.ReadOnly && !e.stopped() && e.res.Code != 0 }

// A heldLine is a line of output in which a program reports a refusal, with the rule of
// the confinement that may be its cause. File systems refuse in the same words, so the
// cause is not certain.
type heldLine struct{ rule, line string }

func (r heldLine) String() string { return r.rule + ": " + r.line }

// maxRefusals is the number of refusals that a result names. It names the last ones, since a
// program usually fails soon after the refusal that it could not handle.
const maxRefusals = 3

// refusals returns the last refusals in the output of a command.
func refusals(text string) (all []heldLine) {
	text = text[max(0, len(text)-2*maxOutput):]
	for _, line := range refused().FindAllString(text, -1) {
		rule := "no file may be changed, and there is no network"
		if strings.Contains(line, "not permitted") || strings.Contains(line, "EPERM") {
			rule = "no mode, owner, time or attribute may be changed, and no other process"
		}
		all = append(all, heldLine{rule, runes.Shorten(strings.TrimSpace(line), 300)})
	}
	return all[max(0, len(all)-maxRefusals):]
}

// refused matches the messages of programs for EACCES, EPERM and EROFS.
var refused = late.Regexp(`(?m)^.*(?:[Pp]ermission denied|[Oo]peration not permitted|Read-only file system|\bEACCES\b|\bEPERM\b).*$`)

// writeHeld explains to the model how a failed command was confined.
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

// alert records in the audit log that a command was refused something, or that it was not
// confined to reading.
func (b *basher) alert(e *ending, c *ExecCommand, inv *invocation, out *proc.Output) {
	switch {
	case c.ReadOnly && !e.res.ReadOnly:
		b.unheld.Do(func() {
			inv.Alert("not_held_to_reading",
				"commands that run unasked as they only read are not held to that here")
		})
	case e.heldBack():
		text, _ := out.Text()
		for _, r := range refusals(text) {
			inv.Alert("held_to_reading", r.String())
		}
	}
}
