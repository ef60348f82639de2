package shell

import (
	"slices"
	"strconv"
	"strings"
)

// Programs that list, copy, move, change and delete files. But for the listing of
// archives and directories all of these ask: what matters is which files they write, so that
// a question can name them, and which calls are so bad that nobody should be asked.

// ls prints names, one a line if it is not for a terminal. With an option that adds more to
// a line they are not names any more. With one name a line, the output can be read as
// paths. With -d and the like a name may begin with a dash.
func ls(c *call, argv []word) {
	if o := c.reads(argv); o.only("-1", "-d", "-p", "-r", "-S", "-t", "-v", "-X") {
		if c.out = c.names(o.operands); c.out.kind == listing {
			c.out.nodash = false
		}
	}
}

// rm deletes. With -r, in a directory on which much hangs, it is refused.
func rm(c *call, argv []word) {
	o := c.options(program{}, argv[1:])
	// rm without -r does not delete directories, whatever it is given.
	deep := o.has("-r", "-R", "--recursive", "--no-preserve-root")
	c.raise(Destructive, "deletes files")
	for _, w := range o.operands {
		c.remove(w, deep)
	}
}

// copyFiles is cp, install and ln: they read all operands and write the last. A symbolic
// link is made without reading what it leads to, which need not exist.
func copyFiles(c *call, argv []word) {
	name := base(argv[0].text)
	o := c.options(program{spec: copySpec}, argv[1:])
	c.raise(WritesWorkspace, name+" writes files")
	ops := o.operands
	switch {
	case name == "install" && o.has("-d", "--directory"):
		c.operands(program{use: 'w'}, o)
		return
	// The option names where to write, and its row has noted that.
	case o.has("-t", "--target-directory"):
	// ln with one operand makes a link in the current directory (ln(1)).
	case len(ops) == 1 && name == "ln":
	case len(ops) < 2:
		c.raise(NeedsApproval, "writes a path that is not known")
	default:
		c.write(ops[len(ops)-1])
		ops = ops[:len(ops)-1]
	}
	for _, w := range ops {
		if name != "ln" || !o.has("-s", "--symbolic") {
			c.read(w)
		}
	}
	for _, m := range o.all("-m", "--mode") {
		if name == "install" && (m.kind != known || grantsPower(m.text)) {
			c.raise(Escalates, "makes a program that runs with the rights of its owner")
		}
	}
}

// move deletes the old names and writes the new. A move within the workspace can be taken
// back, so it is not as bad as a deletion, but one to /dev/null or of a history is.
func move(c *call, argv []word) {
	o := c.options(program{spec: copySpec}, argv[1:])
	c.raise(WritesWorkspace, "moves files")
	ops := o.operands
	if !o.has("-t", "--target-directory") {
		if len(ops) < 2 {
			c.raise(NeedsApproval, "writes a path that is not known")
			return
		}
		to := ops[len(ops)-1]
		if to.text == "/dev/null" {
			c.raise(Destructive, "moves files to nowhere")
		}
		c.write(to)
		ops = ops[:len(ops)-1]
	}
	for _, w := range ops {
		c.moveFrom(w)
	}
}

// moveFrom notes that a path is moved away, which for a repository or a directory of the
// system is as bad as deleting it.
func (c *call) moveFrom(w word) {
	for _, a := range resolve(w.text, c.st.dirs) {
		if c.vital(a) {
			c.catastrophe("moves " + a)
		}
		if s := "/" + c.k.shown(a) + "/"; strings.HasSuffix(s, "/.git/") {
			c.raise(Destructive, "moves the history of the project")
			return
		}
	}
	c.write(w)
}

// grantsPower reports whether a mode has the set-user-id, set-group-id or sticky bit, as
// numbers or letters (chmod(1)). A program with the first two runs with the rights of the
// file's owner or group, for everybody who starts it.
func grantsPower(mode string) bool {
	if n, err := strconv.ParseUint(mode, 8, 32); err == nil {
		return n&0o6000 != 0
	}
	return strings.ContainsAny(mode, "st") && strings.ContainsAny(mode, "+=")
}

// chmod takes a mode that may look like options, so its arguments are told apart by hand.
func chmod(c *call, argv []word) {
	var args []word // a mode may look like an option: -x
	deep := false
	for _, w := range argv[1:] {
		switch {
		case w.kind == known && chmodDeep(w.text):
			deep = true
		case !strings.HasPrefix(w.text, "--") && (len(args) > 0 || w.text != "-v" && w.text != "-c" && w.text != "-f"):
			args = append(args, w)
		}
	}
	c.raise(WritesWorkspace, "changes modes of files")
	if len(args) == 0 {
		return
	}
	mode := args[0]
	if mode.kind != known || grantsPower(mode.text) {
		c.raise(Escalates, "makes a program that runs with the rights of its owner")
	}
	c.changeAll(args[1:], deep, takesRights(mode.text))
	// An octal digit with the bit 2 lets others write. Only the last one counts, that of
	// everybody.
	if deep && (strings.ContainsAny(mode.text[max(0, len(mode.text)-1):], "2367") || strings.Contains(mode.text, "w")) {
		c.raise(NeedsApproval, "lets others write many files")
	}
}

// chmodDeep reports whether a word has -R.
func chmodDeep(w string) bool {
	return w == "--recursive" || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "R")
}

// takesRights reports whether the owner may do nothing, or less, with such a mode. A tree
// that its owner cannot enter any more is as good as deleted for most people.
func takesRights(mode string) bool {
	if n, err := strconv.ParseUint(mode, 8, 32); err == nil {
		return n&0o700 == 0
	}
	return strings.HasPrefix(mode, "-") || strings.HasPrefix(mode, "a-") || strings.HasPrefix(mode, "u-")
}

// changeAll notes a change to files, or to all files below them.
func (c *call) changeAll(ops []word, deep, removes bool) {
	if deep && removes {
		c.raise(Destructive, "takes away the rights to many files")
	}
	for _, w := range ops {
		c.write(w)
		for _, a := range resolve(w.text, c.st.dirs) {
			if deep && c.vital(a) {
				c.catastrophe("changes who may use " + a)
			}
		}
	}
}

// chown gives files away, which needs power and may not be taken back. Only the
// administrator may do so, and a system whose files belong to somebody else does not start
// any more.
func chown(c *call, argv []word) {
	o := c.options(program{spec: "--from= --reference=r"}, argv[1:])
	c.raise(Escalates, "changes the owner of files")
	c.changeAll(plain(o.operands, 1), o.has("-R", "--recursive"), false)
	if c.k.deny {
		c.cmd.Class = Destructive
	}
}

// dd has operands of the form name=value (dd(1)). Of these, of writes and if reads. An
// input such as /dev/zero has no end unless count bounds it.
func dd(c *call, argv []word) {
	writes := false
	for _, w := range argv[1:] {
		name, value, ok := strings.Cut(w.text, "=")
		switch arg := w.keep(value); {
		case !ok || w.kind > digits && value == "":
			c.raise(NeedsApproval, "has an argument that is not known")
		case name == "of":
			writes = true
			c.write(arg)
		case name == "if":
			c.bounded = slices.ContainsFunc(argv, func(w word) bool { return strings.HasPrefix(w.text, "count=") })
			c.read(arg)
		}
	}
	if writes {
		c.raise(WritesWorkspace, "writes files")
	}
}

// tar lists with -t, and prints with -x and -O; these may run unasked with the options of
// the list below. All else writes, or runs programs: -I, --to-command, --checkpoint-
// action, an archive on another machine. The options are read twice: first all that tar
// has, to find the archive and the directory; then, if it only reads so far, against the
// short list, of which the rest asks.
func tar(c *call, argv []word) {
	args := slices.Clone(plain(argv, 1))
	if len(args) > 0 && args[0].text != "" && args[0].text[0] != '-' {
		args = oldTar(args)
	}
	strict := c.strict
	c.strict = false
	o := c.options(program{spec: tarSpec}, args)
	c.strict = strict
	files := o.all("-f", "--file")
	for _, w := range files {
		host, _, path := strings.Cut(w.text, "/")
		switch {
		// host:file and user@host:file are archives that tar fetches with rsh (tar(1),
		// --force-local).
		case strings.Contains(host, ":"):
			c.raise(Network, "an archive on another machine")
		case w.kind > digits && (!path || w.many || strings.ContainsAny(host, "*?[")):
			c.raise(NeedsApproval, "may be an archive on another machine")
		}
	}
	dirs := o.all("-C", "--directory", "--one-top-level")
	switch {
	case o.has("-c", "-r", "-u", "-A", "--create", "--append", "--update", "--catenate", "--delete"):
		for _, file := range files {
			if file.text != "-" {
				c.write(file)
			}
		}
		c.operands(program{}, &parsed{operands: o.operands})
		for _, dir := range dirs {
			c.read(dir)
		}
	case o.has("-x", "--extract", "--get"):
		c.readArchives(files)
		c.unpack(dirs, o.has("-O", "--to-stdout"))
	case o.has("-t", "--list"):
		c.readArchives(files)
	default:
		c.raise(NeedsApproval, "does not say what it does")
	}
	c.only("-txvzjJaO -f= -C= --list --extract --get --to-stdout --file= --directory= --verbose --gzip --bzip2 --xz "+
		"--zstd --auto-compress --wildcards --exclude= --full-time --numeric-owner", args)
}

// only asks for an option that is not in the spec, of a program that only reads so far.
func (c *call) only(spec string, args []word) {
	if c.cmd.Class == ReadOnly {
		c.options(program{spec: spec}, args)
	}
}

// oldTar makes options of the old style, in which the arguments follow in the order of
// the letters: tar tfI archive program.
func oldTar(args []word) []word {
	var out []word
	rest := args[1:]
	for _, letter := range args[0].text {
		out = append(out, word{text: "-" + string(letter), kind: args[0].kind})
		if strings.ContainsRune("fCTXbIFHKNVg", letter) && len(rest) > 0 {
			out = append(out, rest[0])
			rest = rest[1:]
		}
	}
	return append(out, rest...)
}

// readArchives notes that archives are read; a dash stands for what comes in.
func (c *call) readArchives(files []word) {
	for _, file := range files {
		if file.text != "-" {
			c.read(file)
		}
	}
}

// unpack notes that an archive is unpacked into a directory. Names in an archive are a
// stranger's. GNU tar and unzip keep them from leading out of the directory, so that alone
// is written.
func (c *call) unpack(dirs []word, printed bool) {
	if printed {
		return
	}
	if len(dirs) == 0 {
		dirs = []word{{text: "./."}}
	}
	for _, dir := range dirs { // tar goes from one to the next, and writes in each
		c.write(dir)
	}
	c.raise(WritesWorkspace, "unpacks an archive")
}

// zip writes an archive, and tests it with a command of -TT.
func zip(c *call, argv []word) {
	o := c.options(program{spec: zipSpec}, argv[1:])
	for i, w := range argv {
		if strings.HasPrefix(w.text, "-T") && w.text != "-T" && i+1 < len(argv) {
			c.smuggled(argv[i+1])
		}
	}
	c.raise(WritesWorkspace, "writes an archive")
	if len(o.operands) > 0 && o.operands[0].text != "-" {
		c.write(o.operands[0])
		c.operands(program{}, &parsed{operands: o.operands[1:]})
	}
}

// unzip prints with one of the letters below (unzip(1)). A dash behind a letter takes it
// back, so it is not among them.
func unzip(c *call, argv []word) {
	strict := c.strict
	c.strict = false
	o := c.options(program{spec: "-d= -x? -P= -:!O"}, argv[1:])
	c.strict = strict
	if slices.ContainsFunc(o.operands, word.dash) {
		c.raise(WritesOutside, "has options behind two dashes, which turn them around")
	}
	if len(o.operands) > 0 {
		c.read(o.operands[0])
	}
	c.unpack(o.all("-d"), o.has("-l", "-v", "-p", "-c", "-Z", "-t", "-z"))
	c.only("-lvpctzZqC12", argv[1:])
}

// compress is gzip and the like. They print with -c, list with -l and test with -t; with
// other modes beside, the last one or the strongest wins, so those ask. Without a mode, the
// file is replaced by its compressed form and deleted.
func compress(c *call, argv []word) {
	strict := c.strict
	c.strict = false
	o := c.options(program{spec: compressSpec}, argv[1:])
	c.strict = strict
	switch {
	case o.has("-c", "--stdout", "--to-stdout") || len(o.operands) == 0:
		c.operands(program{}, o)
		c.only("-cdkqv123456789 --stdout --to-stdout --decompress --keep --quiet --verbose", argv[1:])
	case o.has("-l", "--list"):
		c.operands(program{}, o)
		// The -c of the first case may not be among these: gzip -lc lists and prints.
		c.only("-lqv --list --quiet --verbose", argv[1:])
	case o.has("-t", "--test"):
		c.operands(program{}, o)
		c.only("-tqv --test --quiet --verbose", argv[1:])
	default:
		c.raise(WritesWorkspace, "replaces files by compressed ones")
		c.operands(program{use: 'w'}, o)
	}
}

// rsync copies, here or with a colon in a path from or to another machine, by a program
// that -e names. Two colons are the rsync protocol, one is a shell on the other machine. In
// front of a slash, a colon is part of a local name for rsync, but asking once too often
// does no harm.
func rsync(c *call, argv []word) {
	o := c.options(program{spec: rsyncSpec}, argv[1:])
	c.raise(WritesWorkspace, "copies files")
	for i, w := range o.operands {
		switch {
		case strings.Contains(w.text, ":"):
			c.raise(Network, "copies from or to another machine")
			c.host(w)
		case i == len(o.operands)-1 && i > 0:
			c.write(w)
		default:
			c.read(w)
		}
	}
}

// mktemp makes a file, in the directory for temporary ones unless an operand or -p says
// where. The name cannot be known, but it is below /tmp unless TMPDIR says otherwise.
func mktemp(c *call, argv []word) {
	o := c.options(program{spec: "-p= --tmpdir? --suffix="}, argv[1:])
	if o.has("-u", "--dry-run") && !o.has("-d") {
		return
	}
	dir, ok := o.args["-p"]
	if d, long := o.args["--tmpdir"]; long {
		dir, ok = d, true
	}
	switch {
	case ok && dir.text != "":
		c.write(dir)
		c.raise(WritesWorkspace, "makes a file")
	case !ok && len(o.operands) > 0 && !o.has("-t"):
		c.write(o.operands[0])
	default:
		c.raise(WritesOutside, "makes a file among the temporary ones")
	}
	c.out = word{kind: anything, text: "/tmp/"}
}

// split writes the parts of a file, or pipes them into a command of --filter. Its row has
// noted the filter, which runs instead of the files being written.
func split(c *call, argv []word) {
	o := c.options(program{spec: splitSpec}, argv[1:])
	if o.has("--filter") {
		return
	}
	c.raise(WritesWorkspace, "writes the parts of a file")
	if len(o.operands) > 0 && o.operands[0].text != "-" {
		c.read(o.operands[0])
	}
	if len(o.operands) > 1 && base(argv[0].text) == "split" {
		c.write(o.operands[1])
		return
	}
	c.write(word{text: "./xaa"})
}

// disk is for programs that partition and format. Some only list with -l; they ask all the
// same. An operand below /dev is the disk that changes; without one, these programs list or
// wait for a person.
func disk(c *call, argv []word) {
	c.raise(Destructive, "changes disks")
	switch base(argv[0].text) {
	case "fdisk", "sfdisk", "parted", "hdparm":
		if slices.ContainsFunc(argv, func(w word) bool {
			return w.text == "-l" || w.text == "--list" ||
				w.text == "-I"
		}) {
			return
		}
	}
	for _, w := range argv[1:] {
		if strings.HasPrefix(w.text, "/dev/") || w.text == "eraseDisk" || w.text == "eraseVolume" {
			c.catastrophe("overwrites a disk")
		}
	}
}

// kill ends processes: with -1 all of them, which is refused. The process -1 stands for
// every process that the user may signal (kill(2)). A first word -1 is a signal, SIGHUP.
func kill(c *call, argv []word) {
	all := false
	for i, w := range argv[1:] {
		switch {
		case w.text == "-l" || w.text == "-L":
			return
		case w.text == "-1" && i > 0, w.text == "-1" && i == len(argv)-2 && i > 0:
			all = true
		case strings.Contains(w.text, "STOP") || strings.Contains(w.text, "TSTP") || w.text == "-19":
			c.raise(Escalates, "stops a process")
		}
	}
	c.raise(Destructive, "ends processes")
	if all {
		c.catastrophe("ends all processes")
	}
}

// stops is for programs that stop the machine, or throw everybody out of it. shutdown -c
// takes that back; init with another level than these changes what runs.
func stops(c *call, argv []word) {
	name := base(argv[0].text)
	level := second(argv)
	switch {
	case name == "shutdown" && level == "-c", (name == "init" || name == "telinit") && !strings.Contains("0 1 6 s S", level):
		c.raise(Escalates, "changes what runs on the machine")
	default:
		c.catastrophe("stops the machine")
	}
}
