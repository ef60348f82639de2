package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Bubblewrap returns a box whose commands are confined by bwrap(1), in separate namespaces:
// files outside the policy, other processes and the network are invisible to them.
func Bubblewrap(p Policy) *Box { return newBox(bwrap{}, p) }

type bwrap struct{}

func (bwrap) name() string { return "bwrap" }

func (bwrap) close() {}

// report says what bubblewrap enforces. Its namespaces hide what Landlock can only deny,
// but need a kernel that lets users make them.
func (bwrap) report(v *view) (*Report, error) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		return nil, err
	}
	// The network of a namespace is its own, and so are the names of sockets.
	open := sockets{network: true, unix: v.Sockets || !v.Network}
	v.filter = newFilter(open, v.Debug).bytes()
	switch {
	case v.readOnly:
		open.unix = false
		v.filter = newReadingFilter().bytes()
	case v.proxied:
		if err := bridges(); err != nil {
			return nil, err
		}
		open.unix = false // one may lead to another proxy
		v.filter = newFilter(open, v.Debug).bytes()
	}
	r := &Report{
		Mechanism: "bwrap", Filesystem: true, Network: !v.Network, Signals: true, Syscalls: filtered,
		Capabilities: true, NoNewPrivs: true, ReadOnly: v.readOnly && filtered, Proxied: v.proxied, namespaces: true,
		Limits: []string{"a command that a signal ends exits with 128 and the number of the signal"},
	}
	if open.unix {
		r.Limits = append(r.Limits, "sockets of programs outside can be connected to where the command can read")
	}
	r.lacks(!filtered, "system calls are not filtered on this kind of machine")
	r.lacks(v.Network && v.Sockets, "abstract sockets of programs outside can be connected to")
	for _, path := range v.Protect {
		_, err := os.Lstat(path)
		r.lacks(err != nil, path+" is not there, and can be made")
		r.lacks(err == nil && withoutLinks(path) != path, path+" is a link, and can be replaced")
	}
	return r, nil
}

// arguments are those of bwrap before the command; the filter is read from a descriptor.
func (bwrap) arguments(v *view, filter int) []string {
	out := []string{"--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
		"--unshare-cgroup-try", "--cap-drop", "ALL"}
	if !v.Network {
		out = append(out, "--unshare-net")
	}
	for _, m := range mounts(v) {
		out = append(out, m.args...)
	}
	// The settings of the kernel in /proc belong to user 0 also in a namespace, with no
	// capability at all: core_pattern names a program that the kernel runs as the real one.
	out = append(out, "--remount-ro", "/proc")
	out = append(out, "--remount-ro", "/") // the empty directory around it all
	if filter > 0 {
		out = append(out, "--seccomp", strconv.Itoa(filter))
	}
	return append(out, "--")
}

type mount struct {
	path string
	args []string
}

// mounts are what a view shows. A mount hides the earlier content of its directory, so a
// directory is mounted before the directories in it.
func mounts(v *view) []mount {
	var out []mount
	add := func(path string, args ...string) { out = append(out, mount{path, append(args, path)}) }
	add("/dev", "--dev")
	add("/dev/shm", "--tmpfs")
	add("/tmp", "--tmpfs")
	for _, path := range v.reads() {
		if path != "/proc" {
			add(path, "--ro-bind-try", path)
		}
	}
	add("/proc", "--proc")
	for path, real := range v.links {
		add(path, "--symlink", real)
	}
	for _, path := range v.writes() {
		add(path, "--bind-try", path)
	}
	// A directory that is mounted cannot get another name. Those that a command has made are not among them: there could
	// be a link in their place by now.
	for _, path := range v.around {
		add(path, "--bind-try", path)
	}
	for _, path := range v.Protect {
		if withoutLinks(path) == path { // else this would show what the link leads to
			add(path, "--ro-bind-try", path)
		}
	}
	for _, path := range v.Hide {
		st, err := os.Stat(path)
		switch {
		case err != nil || !covers(v.reads(), path):
		case st.IsDir():
			add(path, "--perms", "0500", "--tmpfs")
		default:
			add(path, "--ro-bind", "/dev/null")
		}
	}
	slices.SortStableFunc(out, func(a, b mount) int {
		return cmp.Or(cmp.Compare(len(a.path), len(b.path)), cmp.Compare(a.path, b.path))
	})
	return out
}

// start puts bwrap in front of the command. The filter is handed over in a file that has no
// name.
func (b bwrap) start(cmd *exec.Cmd, v *view) error {
	program, err := exec.LookPath("bwrap")
	if err != nil {
		return &Error{b.name(), "find it", err}
	}
	descriptor := 0
	if len(v.filter) > 0 {
		f, err := memory(v.filter)
		if err != nil {
			return &Error{b.name(), "hand over the filter", err}
		}
		defer f.Close()
		cmd.ExtraFiles = append(slices.Clip(cmd.ExtraFiles), f)
		descriptor = 2 + len(cmd.ExtraFiles)
	}
	args := cmd.Args
	if len(args) > 0 {
		args = args[1:]
	}
	cmd.Args = slices.Concat([]string{program}, b.arguments(v, descriptor), []string{cmd.Path}, args)
	cmd.Path = program
	if !v.proxied {
		return cmd.Start()
	}
	done := make(chan struct{})
	onFreshThread(func() {
		defer close(done)
		var bridge *bridge
		if bridge, err = b.bridged(); err == nil {
			err = bridge.serve(cmd.Start(), v)
		}
	})
	<-done
	return err
}

// bridged makes this thread, and what it starts, connect by a bridge. In their own network, which
// is the wall, the kernel connects them.
func (b bwrap) bridged() (*bridge, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, &Error{b.name(), "give up new privileges", err}
	}
	out, err := install(newBridgeFilter().bytes(), true)
	if err != nil {
		return nil, &Error{b.name(), "filter system calls", err}
	}
	return out, nil
}

// memory is a file without a name that has some content and is read from its start.
func memory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("filter", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "filter")
	if _, err = f.Write(content); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
