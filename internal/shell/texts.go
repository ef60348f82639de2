package shell

import (
	"regexp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/late"
)

// Programs that read texts and print. Their options and operands are judged by their rows;
// here is what a row cannot say: words that mean something by their place, and what is known
// of the output, so that names of files stay names behind a pipe.

// through is what programs print that pass on some of the lines that come in. With a file
// among the operands, lines of it are among the output, and they may be anything. So may those
// of a program with an option that is not in the list, which may cut lines or add to them.
func (c *call) through(o *parsed, skip int, whole ...string) {
	c.out = word{kind: anything}
	if in := c.st.stdin; len(o.operands) <= skip {
		c.out.env, c.out.net = in.env, in.net
		if o.only(whole...) && in.kind != known {
			c.out = in
			c.out.from, c.out.shared = nil, false
		}
	}
}

// consumes notes that a program reads what comes in. If it does not read all, a read behind it
// begins in the middle of a name: of ./etc/passwd that may be the path of another file.
func (c *call) consumes() {
	if c.st.stdin.shared {
		c.dispute("takes a part of a list of names")
	}
}

// ownInput are programs that read nothing if they have no operands, and filters those that read
// what comes in although none of their operands is a file.
var (
	ownInput = set("ls", "du", "tree", "fd", "fdfind")
	filters  = set("tr", "numfmt", "factor", "colrm", "c++filt")
)

// reads goes through the options and operands that the row of the program knows.
func (c *call) reads(argv []word) *parsed {
	o := c.options(c.row, argv[1:])
	c.operands(c.row, o)
	return o
}

// head reads no more of a device without end than it is told to.
func head(c *call, argv []word) {
	c.bounded = true // of a device without end it reads no more than it is told to
	c.through(c.reads(argv), 0, "-n", "-q", "--lines", "--quiet", "-0", "-1", "-2", "-3", "-4", "-5", "-6", "-7", "-8", "-9")
}

// cat passes on what comes in. Only without options does every byte come out as it came in.
func cat(c *call, argv []word) {
	c.out = word{kind: anything}
	if o := c.reads(argv); len(o.operands) == 0 && len(argv) == 1 {
		c.out = c.st.stdin
		c.out.from, c.out.shared = nil, false
	}
}

// binary is for programs that read more options from the file behind an @, also where another
// option has its argument: libiberty puts them in before getopt sees a word.
func binary(c *call, argv []word) {
	c.reads(argv)
	for _, w := range argv[1:] {
		if strings.HasPrefix(w.text, "@") || w.kind > digits && w.text == "" && !w.nodash {
			c.raise(NeedsApproval, "may read options from a file")
		}
	}
}

// tac of a file reads it from its end; of anything else it makes a copy in the directory
// for temporary files first.
func tac(c *call, argv []word) {
	o := c.reads(argv)
	if len(o.operands) == 0 || slices.ContainsFunc(o.operands, func(w word) bool {
		return w.from != nil || w.text == "-" || strings.HasPrefix(w.text, "/dev/")
	}) {
		c.raise(NeedsApproval, "copies what comes in to a temporary file")
	}
	c.out = word{kind: anything}
}

// wc of what comes in prints a number; of files it prints their names too.
func wc(c *call, argv []word) {
	if o := c.reads(argv); len(o.operands) == 0 {
		c.out = word{text: "1", kind: digits, many: true, nodash: true}
	}
}

// anyWords is for programs that take any word as it is.
func anyWords(*call, []word) {}

// sort passes on what comes in. In another order, but each line is one that came in.
func sort(c *call, argv []word) {
	c.through(c.reads(argv), 0, "-b", "-d", "-f", "-g", "-h", "-i", "-k", "-M", "-n", "-R", "-r", "-s", "-t", "-u", "-V")
}

// oneIn is for programs that read one operand and write the next. Some take an option
// after the first for that.
func oneIn(c *call, argv []word) {
	o := c.options(c.row, argv[1:])
	for i, w := range o.operands {
		switch {
		case w.many || w.kind == glob:
			c.raise(NeedsApproval, "may write to its second operand")
		case i == 0:
			c.read(w)
		default:
			c.write(w)
		}
	}
	if len(o.operands) == 0 {
		c.consumes()
	}
	c.out = word{kind: anything}
	if base(argv[0].text) == "uniq" {
		c.through(o, 0, "-d", "-i", "-u")
	}
}

// grep prints lines, or with -l the names of the files that have them.
func grep(c *call, argv []word) {
	o := c.reads(argv)
	c.found(o, o.has("-l", "-L", "--files-with-matches", "--files-without-match"))
}

// found says what a search prints: names if only names were asked for, else lines. Patterns
// that choose files are looked at, since a search through files of secrets prints them.
func (c *call) found(o *parsed, names bool) {
	skip := 1
	if o.pattern {
		skip = 0
	}
	for _, w := range o.all("--include", "-g", "--glob", "--iglob") {
		c.seeks(w)
	}
	defer c.picks(o)
	switch {
	case names && !o.has("--label", "--stats", "--json", "--color", "--colour", "--colors", "-p", "--pretty"):
		c.out = c.names(plain(o.operands, skip))
	case o.has("-c") && len(o.operands) <= skip && c.row.handler == "grep" &&
		o.only("-c", "-e", "-E", "-F", "-G", "-h", "-i", "-P", "-v", "-w", "-x"):
		c.out = word{text: "1", kind: digits}
	default:
		c.through(o, skip, "-a", "-e", "-E", "-F", "-G", "-h", "-i", "-I", "-m", "-P", "-s", "-v", "-w", "-x", "--ignore-case",
			"--invert-match", "--max-count", "--regexp", "--extended-regexp", "--fixed-strings", "--line-buffered")
	}
}

// picks forgets that a list has harmless names, if the pattern could pick the others. grep
// KEY in a list of names leaves the names of keys, which the next program then reads.
func (c *call) picks(o *parsed) {
	patterns := o.all("-e", "--regexp")
	if !o.pattern {
		patterns = o.operands[:min(1, len(o.operands))]
	}
	if c.out.kind == listing && (o.has("-f", "--file") || slices.ContainsFunc(patterns, picksSecret)) {
		c.out = word{kind: anything, many: true}
	}
}

// picksSecret reports whether an expression was made to match names of secrets: it has a part of
// one, or matches one and no name of a file of code.
func picksSecret(w word) bool {
	p := strings.ToLower(w.text)
	for _, s := range []string{"env", "pem", "key", "secret", "cred", "ssh", "aws", "netrc", "npmrc", "pypirc", "token", "pass", "rsa", "tfstate"} {
		if strings.Contains(p, s) || w.kind > digits {
			return true
		}
	}
	re, err := regexp.Compile("(?i)" + p)
	return err == nil && !re.MatchString("src/main_test.go") && slices.ContainsFunc(secretSamples, func(s string) bool {
		return re.MatchString(s) || re.MatchString("./"+s)
	})
}

// names are paths below operands. They are below the working directory only if the operands
// are.
func (c *call) names(ops []word) word {
	out := word{kind: listing, many: true, nodash: len(ops) > 0}
	for _, w := range ops {
		if w.kind == anything || w.kind == glob && climbs(w.text) || !c.k.below(w.text, c.st) ||
			strings.HasPrefix(w.text, "/") || strings.Contains(w.text, "..") || strings.ContainsAny(w.text, blanks) {
			return word{kind: anything, many: true}
		}
		out.nodash = out.nodash && !w.dash()
	}
	return out
}

// rg is like grep, and with --files it only lists.
func rg(c *call, argv []word) {
	o := c.options(c.row, argv[1:])
	o.pattern = o.pattern || o.has("--files", "--type-list")
	c.operands(c.row, o)
	c.found(o, o.has("-l", "--files", "--files-with-matches", "--files-without-match"))
}

// jq takes names and values behind some options (jq(1)), which are neither programs nor files.
func jq(c *call, argv []word) {
	p := c.row
	args := argv[1:]
	var rest []word
	for i := 0; i < len(args); i++ {
		switch args[i].text { // these have a name and a value
		// --slurpfile name file sets a variable to what the file holds.
		case "--slurpfile", "--rawfile":
			if i+2 < len(args) {
				c.read(args[i+2])
			}
			fallthrough
		case "--arg", "--argjson":
			if slices.ContainsFunc(args[i:min(i+3, len(args))], func(w word) bool { return w.many }) {
				c.raise(NeedsApproval, "the argument of an option may be missing")
			}
			i += 2
		default:
			rest = append(rest, args[i])
		}
	}
	o := c.options(p, rest)
	if len(o.operands) > 0 {
		c.jqProgram(o.operands[0])
	}
	c.operands(p, o)
}

// jqProgram looks for the two things that a program of jq can do beside printing: show the
// environment, and load a module. The words may also be in a string of the program; asking
// then does no harm.
func (c *call) jqProgram(w word) {
	if w.kind > digits {
		c.raise(NeedsApproval, "runs a program that is not known")
	}
	for _, word := range []string{"env", "$ENV"} {
		if strings.Contains(w.text, word) {
			c.dispute("may show the environment")
		}
	}
	for _, word := range []string{"import", "include"} {
		if strings.Contains(w.text, word) && strings.Contains(w.text, ";") {
			c.raise(NeedsApproval, "loads a module")
		}
	}
}

// yq takes paths and a few functions: others of its two languages load files, show the
// environment or run commands.
func yq(c *call, argv []word) {
	o := c.options(c.row, argv[1:])
	if len(o.operands) > 1 && (o.operands[0].text == "eval" || o.operands[0].text == "e") {
		o.operands = o.operands[1:]
	}
	if len(o.operands) == 0 || o.operands[0].kind > digits || !yqPath().MatchString(o.operands[0].text) {
		c.raise(NeedsApproval, "has a program that is not known")
	}
	c.operands(c.row, o)
}

// yqPath is a path of keys and indexes, piped into others or into functions that only look.
var yqPath = late.Regexp(`^\.[A-Za-z0-9_."\[\]-]*( *\| *(\.[A-Za-z0-9_."\[\]-]*|keys|length|type))*$`)

// pager waits for a person, and runs commands if told to. less +!cmd and man -P run a
// command as soon as they start (less(1), man(1)).
func pager(c *call, argv []word) {
	c.raise(NeedsApproval, "waits for a person")
	for _, w := range argv[1:] {
		switch {
		case strings.HasPrefix(w.text, "+") && strings.Contains(w.text, "!"):
			c.smuggled(word{text: strings.TrimLeft(w.text[strings.IndexByte(w.text, '!'):], "!")})
		case base(argv[0].text) == "man" && (strings.HasPrefix(w.text, "-H") || strings.HasPrefix(w.text,
			"-P") || strings.HasPrefix(w.text, "--html") || strings.HasPrefix(w.text, "--pager")):
			c.raise(Escalates, "a program is told to run a command")
		case !strings.HasPrefix(w.text, "-") && base(argv[0].text) != "man" && base(argv[0].text) != "info":
			c.read(w)
		}
	}
}

// editor runs commands by arguments and by what comes in. ed, ex and vi run what stands
// behind an exclamation mark.
func editor(c *call, argv []word) {
	c.raise(NeedsApproval, "waits for a person, or is told to change files")
	c.k.opaque = true
	texts := slices.Clone(argv[1:])
	if in := c.st.stdin; in.kind == known {
		for line := range strings.Lines(in.text) {
			texts = append(texts, word{text: strings.TrimRight(line, "\n")})
		}
	}
	for _, w := range texts {
		if before, cmd, ok := strings.Cut(w.text, "!"); ok && cmd != "" && strings.Trim(before,
			"-+c%:.$0123456789,rwe ") == "" {
			c.smuggled(word{text: cmd})
		}
	}
}

// date prints with an operand that begins with a plus, and sets the clock with any other.
func date(c *call, argv []word) {
	o := c.options(c.row, argv[1:])
	for _, w := range o.operands {
		switch {
		case w.kind == known && w.text == "+%s":
			c.out = word{text: "1", kind: digits}
		case !strings.HasPrefix(w.text, "+"):
			c.raise(Escalates, "sets the clock")
		}
	}
}

// hostname sets the name with an operand.
func hostname(c *call, argv []word) {
	o := c.options(c.row, argv[1:])
	if len(o.operands) > 0 {
		c.raise(Escalates, "names the machine")
	}
}

// sleep is for seconds; with longer times a command only blocks.
func sleep(c *call, argv []word) {
	c.out = word{}
	for _, w := range argv[1:] {
		if w.kind > digits || len(strings.TrimSuffix(w.text, "s")) > 3 || strings.ContainsAny(w.text, "mhdie") {
			c.raise(NeedsApproval, "sleeps for long")
		}
	}
}

// ps also takes letters without a dash: e among them shows the environment. The environment
// of the user's other processes has their secrets.
func ps(c *call, argv []word) {
	o := c.options(c.row, argv[1:])
	for _, w := range o.operands {
		if w.kind > digits || strings.Trim(w.text, "afghjlnrStTuvwxX0123456789,") != "" {
			c.dispute("may show the environment of processes")
		}
	}
	for _, w := range o.all("-o", "-O", "--format") {
		if w.kind > digits || strings.Contains(strings.ToLower(w.text), "env") { // environ of procps 4
			c.dispute("may show the environment of processes")
		}
	}
	// If there is no such user or group, the words are read again as if they had no dash.
	for _, w := range o.all("-u", "-g") {
		if w.kind > digits || (o.has("-e") || strings.Contains(w.text, "e")) && strings.Trim(w.text, "aefghjlnrStTuvwxX") == "" {
			c.dispute("may show the environment of processes")
		}
	}
}

// query is umask without an operand, which shows.
func query(c *call, argv []word) {
	c.out = word{kind: anything}
	for _, w := range argv[1:] {
		if w.text != "-S" && w.text != "-p" {
			c.raise(NeedsApproval, "changes a setting of the shell")
		}
	}
}

// gpg reads keys at the least, and starts an agent that stays.
func gpg(c *call, argv []word) {
	c.raise(NeedsApproval, "uses keys")
	for _, w := range argv[1:] {
		for _, bad := range []string{"secret", "--import", "--delete", "--gen", "--edit", "--sign-key",
			"--quick", "--full", "--export-s", "--decrypt"} {
			if strings.HasPrefix(w.text, "-") && strings.Contains(w.text, bad) {
				c.raise(Escalates, "uses secret keys, or changes which are trusted")
			}
		}
		if strings.Contains(w.text, "keyserver") || w.text == "--recv-keys" || w.text == "--send-keys" {
			c.raise(Network, "asks for keys")
		}
	}
}

// crontab lists with -l, deletes with -r, and else has commands run later.
func crontab(c *call, argv []word) {
	switch {
	case len(argv) == 2 && argv[1].text == "-l":
		c.dispute("reads outside of the workspace")
	case slices.ContainsFunc(argv, func(w word) bool { return w.text == "-r" }):
		c.raise(Destructive, "deletes the timetable")
	default:
		c.raise(Escalates, "runs commands later")
	}
}
