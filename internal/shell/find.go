package shell

import (
	"slices"
	"strings"
)

// find runs through the expression of find: where it starts, and actions that run, delete
// or write. Everything in front of the first word of the expression is a path to start at,
// and find(1) takes -H, -L, -P and -O before them.
func find(c *call, argv []word) {
	args := plain(argv, 1)
	i := 0
	for i < len(args) && args[i].kind == known && (args[i].text == "-H" || args[i].text == "-P" ||
		args[i].text == "-L" || args[i].text == "-O1" || args[i].text == "-O2" || args[i].text == "-O3") {
		if args[i].text == "-L" {
			c.dispute("follows links out of the workspace")
		}
		i++
	}
	var starts []word
	for i < len(args) && !expression(args[i]) {
		if args[i].dash() || args[i].many && args[i].kind == anything {
			c.raise(NeedsApproval, "a word that is not known may be an action")
		}
		starts = append(starts, args[i])
		c.read(args[i])
		i++
	}
	if len(starts) == 0 {
		starts = []word{{text: "."}}
	}
	c.out = c.names(starts)
	c.out.nodash = c.out.kind == listing
	c.actions(args[i:], starts)
}

// expression reports whether a word begins the expression (find(1)): what is in front of
// it are paths to start at.
func expression(w word) bool {
	return w.kind == known && (strings.HasPrefix(w.text, "-") && w.text != "-" || w.text == "(" ||
		w.text == "!" || w.text == ")" || w.text == ",")
}

// The primaries of find(1) of findutils 4.9 that test or print, by how many arguments they
// have. The actions that write, delete or run are in actions; any other word asks.
var (
	findAlone = set("-print", "-print0", "-prune", "-depth", "-d", "-empty", "-true", "-false", "-readable", "-writable",
		"-executable", "-nouser", "-nogroup", "-quit", "-daystart", "-mount", "-xdev", "-noleaf", "-not", "-and",
		"-or", "-a", "-o", "!", "(", ")", ",", "-nowarn", "-warn", "-ignore_readdir_race")
	findTakes = set("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-lname",
		"-ilname", "-type", "-xtype", "-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-newer",
		"-anewer", "-cnewer", "-maxdepth", "-mindepth", "-perm", "-user", "-group", "-uid", "-gid", "-inum", "-links",
		"-samefile", "-fstype", "-used", "-regextype", "-printf", "-newermt")
)

// actions goes through the expression. Each word is in one of the tables above, or asks:
// a test that is not known may have an argument, or may be an action.
func (c *call) actions(args, starts []word) {
	for i := 0; i < len(args); i++ {
		w, next := args[i], word{}
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch name := w.text; {
		case w.kind != known || w.many:
			c.raise(NeedsApproval, "a word that is not known may be an action")
		case name == "-ls": // with what a link leads to
			c.out = word{kind: anything, many: true}
		case findAlone[name]:
		case name == "-exec" || name == "-execdir" || name == "-ok" || name == "-okdir":
			n := i + 1 + end(args[i+1:])
			if slices.ContainsFunc(args[i+1:n], func(w word) bool { return w.kind > digits && (w.many || w.begins(";+{")) }) {
				c.raise(NeedsApproval, "a word that is not known may end the command")
			}
			// It runs in the directory that has the file, for the first one above that.
			if strings.HasSuffix(name, "dir") {
				c.dispute("runs a command in directories that are not known")
			}
			c.exec(args[i+1:n], starts, n < len(args) && args[n].text == "+")
			i = n
		case findTakes[name]:
			c.findTest(name, next)
			i++
		case name == "-fprint" || name == "-fprint0" || name == "-fls" || name == "-fprintf":
			c.write(next)
			if i++; name == "-fprintf" {
				i++
			}
		case name == "-delete":
			c.raise(Destructive, "deletes files")
			c.operands(program{use: 'D'}, &parsed{operands: starts})
		case name == "-follow":
			c.dispute("follows links out of the workspace")
		default:
			c.raise(NeedsApproval, "has a test or an action that is not known: "+name)
		}
	}
}

// end is where the command of -exec ends. It is a semicolon, or a plus behind the braces. A
// plus elsewhere is an argument of the command: find -exec echo + is not complete before
// its semicolon.
func end(args []word) int {
	for i, w := range args {
		if w.text == ";" || w.text == "+" && i > 0 && args[i-1].text == "{}" {
			return i
		}
	}
	return len(args)
}

// findTest notes a test with an argument. A pattern without a dot or a slash could expand
// to a file that somebody named -delete, and find would take that for an action.
func (c *call) findTest(name string, arg word) {
	switch {
	case arg.many, arg.kind == glob && (strings.Contains(arg.text, "[") || !strings.ContainsAny(arg.text, "./")):
		// files may be named as actions are, but for a dot or a slash
		c.raise(NeedsApproval, "a word that is not known may be an action")
	case name == "-printf":
		// Its format may print the contents of a link or fixed text, not only names.
		c.out = word{kind: anything, many: true}
	case strings.HasSuffix(name, "regex") && picksSecret(arg):
		c.dispute("looks for files of secrets")
	case strings.HasSuffix(name, "newer") || name == "-samefile":
		c.read(arg)
	default:
		c.seeks(arg)
	}
}

// seeks disputes the search for files of secrets by their names. Here a star also stands for a
// dot in front, and some programs know lists in braces.
func (c *call) seeks(pattern word) {
	p := strings.ToLower(pattern.text)
	before, list, _ := strings.Cut(p, "{")
	list, after, braces := strings.Cut(list, "}")
	names := []string{p}
	if braces {
		names = nil
		for s := range strings.SplitSeq(list, ",") {
			names = append(names, before+s+after)
		}
	}
	for _, name := range names {
		if pattern.kind <= glob && (chooses(name, true) || strings.Contains(p, ",") && strings.Contains(after, "{")) {
			c.dispute("looks for files of secrets")
		}
	}
}

// exec runs a command with the paths that were found, one or many at a time. The names that
// are found begin with the directory they were searched in, so they cannot be taken for
// options, unless that directory is not known.
func (c *call) exec(argv, starts []word, many bool) {
	c.k.opaque = true
	found := c.names(starts)
	found.nodash = found.kind == listing
	found.many = many
	if found.kind == listing && len(starts) == 1 && starts[0].kind <= digits {
		found.text = strings.TrimRight(starts[0].text, "/") + "/"
	}
	var words []word
	for _, w := range argv {
		words = append(words, replaced([]word{w}, "{}", found)...)
	}
	if len(words) == 0 {
		c.raise(NeedsApproval, "runs a command that is not known")
		return
	}
	if class := c.sub(words); class > ReadOnly {
		c.raise(class, "runs a command for what it finds")
	}
	// Deleting everything that find finds in / is as bad as deleting /, although rm is only
	// given files.
	if first := words[0]; first.kind == known && (base(first.text) == "rm" || base(first.text) == "shred") {
		for _, s := range starts {
			c.remove(s, slices.ContainsFunc(words, func(w word) bool {
				return strings.HasPrefix(w.text, "-") &&
					strings.ContainsAny(w.text, "rR")
			}))
		}
	}
	c.out = word{kind: anything, many: true}
}

// fd finds and runs like find. It takes the command anywhere among its arguments, up to the
// end of the line.
func fd(c *call, argv []word) {
	args := plain(argv, 1)
	for i, w := range args {
		if w.kind == known && (w.text == "-x" || w.text == "-X" || strings.HasPrefix(w.text, "--exec")) {
			c.k.opaque = true
			c.raise(NeedsApproval, "runs a command for what it finds, wherever that is put")
			c.exec(args[i+1:], nil, true)
			args = args[:i]
			break
		}
	}
	o := c.options(tables().rows["fd"], args)
	c.operands(tables().rows["fd"], o)
	c.out = c.names(plain(o.operands, 1))
}
