package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// trial tries what a command must not do, with nothing but a shell, so that it is one
// process: to read and to change a file, to signal the host; and shows what the kernel
// says of the process. true, not a colon: where a special command cannot be redirected,
// the shell ends.
const trial = `read -r line <"$1" && echo read
true >>"$1" && echo wrote
kill -0 "$2" && echo signalled
while read -r key value; do echo "$key $value"; done </proc/self/status
echo done`

const (
	trialTime = 10 * time.Second
	trialText = "a trial command must not read this\n"
)

// try starts a trial command, and fails if it could do what the report says is
// prevented. It can do that much if a thread no longer hands on what it is denied to
// the processes it starts.
func (b *Box) try(ctx context.Context, v *view) error {
	file, err := bait(v)
	if err != nil {
		return b.fail("prepare a trial", err)
	}
	defer os.RemoveAll(filepath.Dir(file))
	ctx, cancel := context.WithTimeoutCause(ctx, trialTime, errors.New("the trial command takes too long"))
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", trial, "sh", file, strconv.Itoa(os.Getpid()))
	cmd.Dir = "/"
	cmd.Env = []string{}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.WaitDelay = time.Second
	if err = b.start(cmd, v); err == nil {
		err = cmd.Wait()
	} else if ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		return b.fail("run a trial", context.Cause(ctx))
	}
	done := parseTrial(out.String())
	if !done.finished {
		err = fmt.Errorf("it stopped early: %w: %.200s", cmp.Or(err, io.ErrUnexpectedEOF), problems.Bytes())
		return b.fail("run a trial", err)
	}
	if leaks := done.leaks(v, file); len(leaks) > 0 {
		return b.fail("run a trial", fmt.Errorf("%w: %s", ErrLeaks, strings.Join(leaks, ", ")))
	}
	return nil
}

// tried is what a trial command could do.
type tried struct {
	finished, read, wrote, signalled bool
	status                           map[string]string
}

func parseTrial(out string) tried {
	t := tried{status: map[string]string{}}
	for line := range strings.Lines(out) {
		switch line = strings.TrimSpace(line); line {
		case "done":
			t.finished = true
		case "read":
			t.read = true
		case "wrote":
			t.wrote = true
		case "signalled":
			t.signalled = true
		default:
			if key, value, ok := strings.Cut(line, ":"); ok {
				t.status[key] = strings.TrimSpace(value)
			}
		}
	}
	return t
}

// filters is how the kernel calls the number of filters for system calls. The host may
// have some already, as in a container.
const filters = "Seccomp_filters"

func hostFilters() string {
	data, _ := os.ReadFile("/proc/self/status")
	return parseTrial(string(data)).status[filters]
}

// leaks lists what a trial command could do although the report says that it could not.
// What the kernel shows of the process counts only where it shows it.
func (t tried) leaks(v *view, file string) []string {
	r := v.report
	var out []string
	add := func(leak bool, what string) {
		if leak {
			out = append(out, what)
		}
	}
	differs := func(key, want string) bool {
		value, known := t.status[key]
		return known && value != want
	}
	_, counted := t.status[filters]
	const none = "0000000000000000"
	add(r.Filesystem && t.read && !v.readable(file), "it read "+file)
	add(r.Filesystem && t.wrote, "it changed "+file)
	add(r.Signals && t.signalled && !r.ownPIDs, "it can signal the host")
	add(r.NoNewPrivs && differs("NoNewPrivs", "1"), "it can gain privileges")
	unfiltered := differs("Seccomp", "2") || counted && !differs(filters, hostFilters())
	add(r.Syscalls && unfiltered, "its system calls are not filtered")
	add(r.Capabilities && (differs("CapEff", none) || differs("CapPrm", none) || differs("CapAmb", none)),
		"it has capabilities")
	return out
}

// bait makes a file that a trial command must not change, and not read either unless
// every place may be read.
func bait(v *view) (string, error) {
	home, _ := os.UserHomeDir()
	var places []string
	for _, dir := range []string{filepath.Dir(v.temp), home, "/var/tmp", "/dev/shm", "/"} {
		if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) && !v.writable(real) {
			places = append(places, real)
		}
	}
	var errs []error
	for _, unreadable := range []bool{true, false} {
		for _, dir := range places {
			if v.readable(dir) == unreadable {
				continue
			}
			file, err := baitIn(dir)
			if err == nil {
				return file, nil
			}
			errs = append(errs, err)
		}
	}
	return "", errors.Join(append(errs, errors.New("no place is left that commands may not change"))...)
}

func baitIn(dir string) (string, error) {
	dir, err := os.MkdirTemp(dir, "aycoder-trial-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "bait")
	if err = os.WriteFile(file, []byte(trialText), 0o600); err != nil {
		_ = os.RemoveAll(dir)
		return "", err
	}
	return file, nil
}
