package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// seatbeltProgram confines a command by a profile; see sandbox-exec(1).
const seatbeltProgram = "/usr/bin/sandbox-exec"

// Seatbelt returns a box whose commands are confined by sandbox-exec(1), on macOS. It is
// written after the documentation; nobody has tried it yet.
func Seatbelt(p Policy) *Box { return newBox(seatbelt{}, p) }

type seatbelt struct{}

func (seatbelt) name() string { return "seatbelt" }

func (seatbelt) close() {}

// report claims little, since nothing of it was tried on a machine.
func (s seatbelt) report(v *view) (*Report, error) {
	if runtime.GOOS != "darwin" {
		return unsupported(s.name()).report(v)
	}
	if _, err := exec.LookPath(seatbeltProgram); err != nil {
		return nil, err
	}
	if v.proxied {
		return nil, fmt.Errorf("connections cannot be handed to a proxy: %w", errors.ErrUnsupported)
	}
	r := &Report{Mechanism: "seatbelt", Filesystem: true, Network: !v.Network, Signals: true}
	// So a report does not say of it that commands are held to reading.
	r.lacks(true, "nobody has tried this mechanism yet")
	return r, nil
}

func (seatbelt) start(cmd *exec.Cmd, v *view) error {
	args := cmd.Args
	if len(args) > 0 {
		args = args[1:]
	}
	cmd.Args = slices.Concat([]string{seatbeltProgram, "-p", profile(v), cmd.Path}, args)
	cmd.Path = seatbeltProgram
	return cmd.Start()
}

// profileStart lets commands run, and be what programs of the system expect to be.
const profileStart = `(version 1)
(deny default)
(allow process-exec process-fork)
(allow process-info* signal (target same-sandbox))
(allow sysctl-read ipc-posix-sem)
(allow mach-lookup
 (global-name "com.apple.system.opendirectoryd.libinfo")
 (global-name "com.apple.system.notification_center")
 (global-name "com.apple.trustd.agent"))
(allow file-read-metadata)
(allow file-read* (literal "/"))
`

// profileDevices are for commands that may change something, profileReading for others.
const (
	profileDevices = `(allow file-read* file-write* file-ioctl
 (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom") (subpath "/dev/fd"))
`
	profileReading = `(allow file-read* file-write-data file-ioctl (literal "/dev/null") (subpath "/dev/fd"))
`
)

// profile is a view in the language of seatbelt, where the last rule that fits counts.
func profile(v *view) string {
	var b strings.Builder
	b.WriteString(profileStart)
	if v.readOnly {
		b.WriteString(profileReading)
	} else {
		b.WriteString(profileDevices)
	}
	each := func(action, which string, paths []string) {
		for _, p := range paths {
			b.WriteString("(" + action + " (" + which + " " + quoteProfile(p) + "))\n")
		}
	}
	rule := func(action string, paths []string) { each(action, "subpath", paths) }
	if v.everything {
		b.WriteString("(allow file-read*)\n")
	}
	rule("allow file-read*", v.reads())
	rule("deny file-read*", v.Hide)
	rule("allow file-read* file-write*", v.writes())
	rule("deny file-write*", v.Protect)
	if len(v.Protect) > 0 { // rules are about names, so a directory around these must keep its own
		each("deny file-write-unlink", "literal", slices.Concat(v.writes(), v.around))
	}
	if v.Network {
		b.WriteString("(allow network* system-socket)\n")
	} else if v.Sockets {
		b.WriteString("(allow network* (local unix-socket))\n(allow network* (remote unix-socket))\n")
	}
	return b.String()
}

func quoteProfile(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
