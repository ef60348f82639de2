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
	"slices"
	"strconv"
	"strings"
	"time"
)

// trial tries what a command must not do, with nothing but a shell, so that it is one
// process: to read and to change a file, to open a setting of the kernel, to signal the
// host; and shows what the kernel says of the process, its mounts and its network. true,
// not a colon: where a special command cannot be redirected, the shell ends.
const trial = `read -r line <"$1" && echo read
true >>"$1" && echo wrote
true >>/proc/sys/kernel/core_pattern && echo tuned
kill -0 "$2" && echo signalled
while read -r line; do echo "mount $line"; done </proc/self/mountinfo
while read -r line; do echo "route $line"; done </proc/self/net/route
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
	leaks := done.leaks(v, file)
	if p, ok := b.mech.(prober); ok {
		more, err := p.probe(v, file)
		if err != nil {
			return err
		}
		leaks = append(leaks, more...)
	}
	if len(leaks) > 0 {
		return b.fail("run a trial", fmt.Errorf("%w: %s", ErrLeaks, strings.Join(leaks, ", ")))
	}
	return nil
}

// A prober is a mechanism that can try by system calls what a shell cannot: it lists what
// could be done although the report of a view says that it could not.
type prober interface {
	probe(v *view, file string) ([]string, error)
}

// tried is what a trial command could do, and where it was.
type tried struct {
	finished, read, wrote, tuned, signalled bool

	status         map[string]string
	mounts, routes []string
}

// parseTrial reads what the trial command could do. It counts only if the command came to
// its end.
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
		case "tuned":
			t.tuned = true
		default:
			if mount, ok := strings.CutPrefix(line, "mount "); ok {
				t.mounts = append(t.mounts, mount)
				continue
			}
			if route, ok := strings.CutPrefix(line, "route "); ok {
				t.routes = append(t.routes, route)
				continue
			}
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

// hostFilters returns how many filters the host itself has, which a command inherits.
func hostFilters() string {
	data, _ := os.ReadFile("/proc/self/status")
	return parseTrial(string(data)).status[filters]
}

// leaks lists what a trial command could do although the report says that it could not.
// The kernel's data on the process are checked only where they are available.
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
	add(r.Filesystem && t.tuned, "it can change the settings of the kernel")
	add(r.Signals && t.signalled && !r.namespaces, "it can signal the host")
	if r.namespaces {
		for _, path := range t.changeable(v) {
			add(r.Filesystem, "it can change "+path)
		}
		// The first line is a title.
		add(r.Network && len(t.routes) > 1, "it has a way into the network")
	}
	add(r.NoNewPrivs && differs("NoNewPrivs", "1"), "it can gain privileges")
	unfiltered := differs("Seccomp", "2") || counted && !differs(filters, hostFilters())
	add(r.Syscalls && unfiltered, "its system calls are not filtered")
	add(r.Capabilities && (differs("CapEff", none) || differs("CapPrm", none) || differs("CapAmb", none)),
		"it has capabilities")
	return out
}

// changeable lists the mounts of a namespace that a command can change although they are
// not its own. See proc_pid_mountinfo(5): the fifth field is the place, the sixth has the
// options.
func (t tried) changeable(v *view) (paths []string) {
	own := []string{"/tmp", "/dev/shm"}
	for _, mount := range t.mounts {
		f := strings.Fields(mount)
		if len(f) < 6 {
			return []string{"a mount that is not understood: " + mount}
		}
		path := unescape.Replace(f[4])
		fixed := slices.Contains(strings.Split(f[5], ","), "ro")
		if !fixed && !covers(v.writes(), path) && !covers(v.Hide, path) && !within(path, "/dev") && !slices.Contains(own, path) {
			paths = append(paths, path)
		}
	}
	if len(t.mounts) == 0 {
		return []string{"mounts that are not known"}
	}
	return paths
}

// unescape undoes how the kernel writes spaces in paths.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// bait makes a file that a trial command must not change, and not read either unless
// every place may be read.
func bait(v *view) (string, error) {
	var errs []error
	for _, unreadable := range []bool{true, false} {
		for _, dir := range v.places(filepath.Dir(v.temp)) {
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
	return "", errors.Join(append(errs, errNoPlace)...)
}

var errNoPlace = errors.New("no place is left that commands may not change")

// places are directories that a command may not change, for files of the host: the first one before the others.
func (v *view) places(first string) (out []string) {
	home, _ := os.UserHomeDir()
	for _, dir := range []string{first, os.TempDir(), "/var/tmp", "/dev/shm", home, "/"} {
		if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) && !v.writable(real) {
			out = append(out, real)
		}
	}
	return out
}

// baitIn makes a file that the trial command must not reach.
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
