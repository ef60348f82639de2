package shell

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/late"
)

// Paths are compared as texts, after they are made absolute and clean. Symbolic links are not
// resolved here; the sandbox around a command covers them. Where the directory of the script is
// not known, no relative path is inside.

// below reports whether p is root or below it. A slash is added so that /work/ab is not
// below /work/a.
func below(root, p string) bool {
	return root != "" && (p == root || root == "/" || strings.HasPrefix(p, root+"/"))
}

// inside reports whether a clean absolute path is a directory of the workspace or below one.
func (k *walker) inside(p string) bool {
	_, ok := k.world.Rel(p)
	return p != "" && ok
}

// outside reports whether a clean absolute path is neither.
func (k *walker) outside(p string) bool { return !k.inside(p) }

// below reports whether a path is inside, from wherever the script may be. A cd that may
// have failed leaves several directories possible; the path has to be inside from each.
func (k *walker) below(p string, st *state) bool {
	all := resolve(p, st.dirs)
	for _, a := range all {
		if !k.inside(a) {
			return false
		}
	}
	return len(all) > 0
}

// resolve returns the clean absolute forms of a path; none if they are not known. A
// relative path of a script that may be anywhere has none, which callers take for outside.
func resolve(p string, dirs []string) []string {
	if strings.HasPrefix(p, "/") {
		return []string{path.Clean(p)}
	}
	var out []string
	for _, d := range dirs {
		out = append(out, path.Join(d, p))
	}
	return out
}

// shown is a path the way that results show it.
func (k *walker) shown(p string) string {
	if rel, ok := k.world.Rel(p); ok {
		return rel
	}
	return p
}

// secretGlob reports whether a pattern was made to match a file of secrets. A bare star and *.*
// are not: they match everything, and would ask in every directory.
func secretGlob(pattern string) bool { return chooses(pattern, false) }

// brackets are a set of characters. Shells read the quotes, signs and classes in it each in their
// own way, so it may be anything. One that is not closed is text.
var brackets = late.Regexp(`\[(.*\]|.*)`)

// chooses reports whether a part of a path matches a file of secrets. For some programs a star
// also stands for a dot in front; for these, what is made of dots and stars alone lists hidden
// files.
func chooses(pattern string, dots bool) bool {
	for name := range strings.SplitSeq(pattern, "/") {
		name = brackets().ReplaceAllString(name, "*")
		plain := strings.Trim(name, "*.?")
		switch {
		case ignore.Secret(name):
			return true
		case !strings.ContainsAny(name, "*?"), plain == "" && (dots || strings.HasPrefix(name, "*")):
			continue
		}
		for _, s := range secretSamples {
			if ok, err := path.Match(name, s); err != nil || ok && (dots || s[0] != '.' || name[0] == '.') {
				return true
			}
		}
	}
	return false
}

// climbs reports whether a pattern may lead to a directory above: in most shells .? and .* match
// two dots.
func climbs(pattern string) bool {
	for name := range strings.SplitSeq(pattern, "/") {
		name = brackets().ReplaceAllString(name, "*")
		if ok, err := path.Match(name, ".."); err != nil || ok && strings.HasPrefix(name, ".") {
			return true
		}
	}
	return strings.Contains(pattern, "..")
}

// secretSamples are names that patterns are tried on, of each kind of secret that package
// ignore knows: a pattern that was made to find one matches its sample.
var secretSamples = []string{
	".env", ".env.local", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".ssh", ".aws", ".kube", ".gnupg",
	".htpasswd", ".pgpass", "id_rsa", "id_ed25519", "credentials", "server.pem", "server.key", "terraform.tfstate",
}

// read notes that the command reads a path. A path that is not known asks, and one with a known
// beginning, sample or pattern is judged by that: its directory may be outside already.
func (c *call) read(w word) {
	k := c.k
	switch {
	case w.kind == anything || w.many && w.kind != glob && w.kind != listing:
		c.dispute("reads a path that is not known")
		if w.text == "" {
			c.raise(NeedsApproval, "reads a path that is not known")
		}
	// These are names that a program listed below the current directory.
	case w.kind == listing && w.text == "":
		if len(c.st.dirs) == 0 {
			c.dispute("reads a path that is not known")
		}
	case w.text != "":
		c.readPath(w)
	}
	if w.from == nil && w.kind <= glob && w.text != "" {
		if all := resolve(w.text, c.st.dirs); len(all) > 0 {
			c.cmd.Reads = append(c.cmd.Reads, k.shown(all[0]))
		}
		for i := range w.text { // of a/../b the kernel goes through a
			if strings.HasPrefix(w.text[i:], "/..") {
				c.goes(w.text[:i])
			}
		}
	}
}

// goes notes that the command goes into a directory, or through it to the one above.
func (c *call) goes(dir string) {
	for _, a := range resolve(dir, c.st.dirs) {
		c.cmd.Through = append(c.cmd.Through, c.k.shown(a))
	}
}

// readPath says what is wrong with reading a path that is known: it lies outside, holds
// secrets, has no end, or is not a file at all. Bash itself opens a connection for
// /dev/tcp/host/port; there is no such file.
func (c *call) readPath(w word) {
	p := w.text
	switch {
	// The numbers may be others than those of the sample.
	case w.kind == digits && (strings.HasPrefix(p, "/") || strings.Contains(p, "..") || secretGlob(numerals().ReplaceAllString(p, "*"))):
		c.dispute("reads a path that is not known")
	// More follows: where it leads depends on the directory that is known.
	case w.kind == listing:
		if secretGlob(p + "*") {
			c.dispute("reads what a pattern may find outside or among secrets")
		}
		p = p[:strings.LastIndexByte(p, '/')+1]
	case w.kind == glob && (climbs(p) || secretGlob(p)):
		c.dispute("reads what a pattern may find outside or among secrets")
	}
	all := resolve(p, c.st.dirs)
	if len(all) == 0 {
		c.dispute("reads a path that is not known")
		return
	}
	for _, a := range all { // a cd before it may have failed
		c.readPlace(a)
	}
}

// readPlace says what is wrong with reading a clean absolute path.
func (c *call) readPlace(a string) {
	switch {
	case strings.HasPrefix(a, "/dev/tcp/") || strings.HasPrefix(a, "/dev/udp/"):
		c.raise(Network, "opens a connection")
	case harmlessDevice(a):
		if a != "/dev/null" {
			c.consumes()
		}
	case endless[a]:
		if !c.bounded {
			c.raise(NeedsApproval, "reads without end")
		}
	// The host's own process has its keys there.
	case strings.HasPrefix(a, "/proc/") && (strings.HasSuffix(a, "/environ") || strings.HasSuffix(a, "/mem")):
		c.raise(Escalates, "reads the memory or the environment of a process")
	case !c.k.inside(a):
		c.dispute("reads outside of the workspace")
	case ignore.Secret(c.k.shown(a)):
		c.dispute("reads a file of secrets")
	}
}

// numerals are the parts of a sample that may be other numbers.
var numerals = late.Regexp(`[0-9]+`)

// endless are the devices that a read never comes to the end of (null(4), random(4),
// full(4)).
var endless = set("/dev/zero", "/dev/random", "/dev/urandom", "/dev/full")

// harmlessDevice is for the devices that keep nothing, and for descriptors that are open
// already.
func harmlessDevice(p string) bool {
	switch p {
	case "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr":
		return true
	}
	fd, ok := strings.CutPrefix(p, "/dev/fd/")
	return ok && strings.Trim(fd, "0123456789") == ""
}

// sink is for the devices that keep nothing, and for the descriptors of the output. Linux
// opens the file behind a descriptor again, so what came in would be written over; no file
// to read may be behind one of these.
func sink(p string) bool {
	switch p {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2":
		return true
	}
	return false
}

// set makes a set of names.
func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// write notes that the command creates or changes a path.
func (c *call) write(w word) {
	if w.kind <= digits && w.text == "" {
		c.raise(NeedsApproval, "writes a path that is not known")
		return
	}
	if w.kind == listing && w.from != nil {
		return // what is written to goes to a command, which is walked
	}
	// Bash refuses a redirection to several files, but a program writes to all of them.
	if w.kind >= glob || w.many ||
		w.kind == digits && (strings.HasPrefix(w.text, "/") || strings.Contains(w.text, "..")) {
		c.raise(NeedsApproval, "writes a path that is not known")
		if w.text == "" {
			return
		}
	}
	all := resolve(w.text, c.st.dirs)
	if len(all) == 0 {
		c.raise(NeedsApproval, "writes in a directory that is not known")
		c.startup(w.text)
		return
	}
	for _, a := range all {
		c.writePath(a)
	}
	if w.kind <= glob && !sink(all[0]) {
		for _, a := range all {
			c.cmd.Writes = append(c.cmd.Writes, c.k.shown(a))
		}
	}
}

// startup raises to escalation for a file that runs code or decides what an agent may do.
// The path is that in the workspace, or an absolute one. Where there is a bin in the home
// directory, login shells look for programs in it. Such a write is worse than a command
// that is asked about now: it runs later, unasked.
func (c *call) startup(p string) {
	home := c.k.world.Home
	if ignore.Store(p) || ignore.Runs(p) != "" || home != "" && below(path.Join(home, "bin"), p) {
		c.raise(Escalates, "writes a file that runs code or grants power")
	}
}

// writePath gives the writing of a path its class. Some files are worse than others: what
// is in them runs, or rules what agents may do.
func (c *call) writePath(a string) {
	switch {
	case strings.HasPrefix(a, "/dev/tcp/") || strings.HasPrefix(a, "/dev/udp/"):
		c.raise(Network, "opens a connection")
	// The terminal is the user's own; text on it is not kept.
	case sink(a) || a == "/dev/tty":
	case blockDevice(a):
		c.catastrophe("overwrites a disk")
	// A letter written to it restarts or stops the machine at once (kernel sysrq.rst).
	case a == "/proc/sysrq-trigger":
		c.catastrophe("stops the machine")
	case strings.HasPrefix(a, "/proc/") || strings.HasPrefix(a, "/sys/"):
		c.raise(Escalates, "changes the kernel's settings")
	case c.k.inside(a):
		c.raise(WritesWorkspace, "writes "+c.k.shown(a))
		c.startup(c.k.shown(a))
	default:
		c.raise(WritesOutside, "writes outside of the workspace")
		c.startup(a)
	}
}

// blockDevice reports whether a path is a disk or the memory of the machine.
func blockDevice(p string) bool {
	name, ok := strings.CutPrefix(p, "/dev/")
	if !ok {
		return false
	}
	for _, prefix := range disks {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// disks are how the names of block devices and of the devices for memory and ports begin,
// on Linux and macOS.
var disks = []string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "mapper/", "loop",
	"mem", "kmem", "port", "sr"}

// remove notes that the command deletes a path, and all below it if deep.
func (c *call) remove(w word, deep bool) {
	c.raise(Destructive, "deletes files")
	// If none of its variables were set, the rest of the path would be deleted.
	if w.unset != "" && deep && c.vital(path.Clean(w.unset)) {
		c.catastrophe("deletes " + w.unset + " if a variable is not set")
	}
	if w.text == "" {
		return
	}
	for _, a := range resolve(w.text, c.st.dirs) {
		if deep && c.vital(a) {
			c.catastrophe("deletes " + a)
		}
		if blockDevice(a) {
			c.catastrophe("overwrites a disk")
		}
		if w.kind <= glob {
			c.cmd.Writes = append(c.cmd.Writes, c.k.shown(a))
		}
	}
}

// vital reports whether so much hangs on a directory that deleting it, or all in it, is a
// catastrophe. A directory that the workspace or the home directory lies in is vital, too.
// The workspace itself may be a home directory of a container.
func (c *call) vital(p string) bool {
	for strings.HasSuffix(p, "/*") || strings.HasSuffix(p, "/.*") || strings.HasSuffix(p, "/.") {
		p = p[:strings.LastIndexByte(p, '/')]
	}
	if p == "" || p == "/" || systemDirs[p] || p == c.k.world.Home {
		return true
	}
	if strings.Count(p, "/") == 2 && (strings.HasPrefix(p, "/home/") || strings.HasPrefix(p, "/Users/")) {
		return c.k.world.Root != p
	}
	for _, d := range append(slices.Collect(maps.Values(c.k.world.More)), c.k.world.Root, c.k.world.Home) {
		if d != "" && d != p && below(p, d) {
			return true
		}
	}
	return false
}

// systemDirs are those of hier(7) and of macOS without which a system does not start, or
// has lost its users' data.
var systemDirs = set(
	"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/srv",
	"/sys", "/usr", "/var", "/usr/bin", "/usr/lib", "/usr/sbin", "/usr/local", "/usr/share", "/var/lib",
	"/Users", "/System", "/Library", "/Applications", "/Volumes",
)
