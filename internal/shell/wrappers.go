package shell

import (
	"encoding/base64"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Programs that run other commands. The command inside is judged like any other, with the
// words that the wrapper adds; if those are not known, it asks by the rules for words that
// are not known. Of what a child shell gets, only its script is trusted to be known: its
// variables come from the environment.

// wrapperSpecs are the options, and how many operands come before the command.
var wrapperSpecs = map[string]struct {
	spec   string
	before int
}{
	"nice": {"-n= --adjustment=", 0}, "timeout": {"-v -k= -s= --kill-after= --signal= --preserve-status --foreground", 1},
	"gtimeout": {"-v -k= -s= --kill-after= --signal= --preserve-status --foreground", 1},
	"stdbuf":   {"-i= -o= -e= --input= --output= --error=", 0},
	"time":     {"-pv -f= -o=w --format= --output=w --portability --verbose", 0}, "gtime": {"-pv -f= -o=w --format= --output=w", 0},
	"nohup": {"", 0}, "setsid": {"", 0}, "unbuffer": {"", 0}, "ionice": {"-c= -n= -p= -P= -u= --class= --classdata= --pid=", 0},
	"taskset": {"", 1}, "chrt": {"-T= -P= -D=", 1}, "numactl": {"-i= -N= -m= -C= -p=", 0}, "caffeinate": {"-t= -w=", 0},
	"sudo": {"-u= -g= -h= -p= -C= -D= -R= -T= -U= -r= -t=", 0}, "doas": {"-u= -C=", 0},
	"pkexec": {"--user=", 0}, "gosu": {"", 1}, "run0": {"-u=", 0},
	"unshare": {"-S= -G= -R= -w= --map-user= --map-group= --root= --wd=", 0},
	"chroot":  {"--userspec= --groups=", 1}, "fakeroot": {"-l= -s= -i= -b=", 0},
	"strace": {"-e= -o=w -p= -s= -P= -E= -u= -a= -b= -I= -O= -S=", 0},
	"ltrace": {"-e= -o=w -p= -s= -l= -u=", 0}, "entr": {"", 0},
	"runuser": {"-u= -g= -G= -s=", 0}, "setpriv": {"--reuid= --regid= --groups=", 0},
}

// inner returns what comes after the options and operands of a wrapper. sudo and doas take
// assignments before the command. If it is not known how many words there are before the
// command, it is not known which one is the command.
func (c *call) inner(argv []word) []word {
	name := base(argv[0].text)
	s := wrapperSpecs[name]
	o := c.options(program{spec: s.spec, first: true}, plain(argv, 1))
	rest := o.operands
	for len(rest) > 0 && rest[0].kind == known && strings.Contains(rest[0].text, "=") && (name == "sudo" ||
		name == "doas") {
		rest = rest[1:]
	}
	if slices.ContainsFunc(rest[:min(s.before+1, len(rest))], func(w word) bool { return w.many }) {
		return []word{{kind: anything, many: true}}
	}
	return plain(rest, s.before)
}

// base is the name of a program without its directory.
func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// wrapper is for programs that run a command as it is.
func wrapper(c *call, argv []word) {
	rest := c.inner(argv)
	if len(rest) == 0 {
		return
	}
	c.fresh(rest)
}

// fresh runs a command in a separate process: functions do not count, and what it changes
// in the state stays there. A wrapper looks the name up in PATH, where functions and
// builtins of the script are not.
func (c *call) fresh(argv []word) {
	st := c.st
	c.st = st.clone()
	c.nofuncs = true
	c.run(argv)
	c.st = st
}

// power is for programs that run a command with more power, whatever it is. su and runuser
// give the script of -c to a shell. However harmless it is, power is asked for.
func power(c *call, argv []word) {
	c.k.opaque = true
	rest := c.inner(argv)
	if base(argv[0].text) == "su" || base(argv[0].text) == "runuser" {
		for i, w := range argv {
			if w.text == "-c" && i+1 < len(argv) {
				c.k.nested(argv[i+1], c.st)
			}
		}
		return
	}
	if len(rest) > 0 {
		c.fresh(rest)
	}
}

// shift is for programs that run a command in another world: what it destroys there still
// counts. A chroot or a namespace need not hold, and what is bound into it is the same as
// outside.
func shift(c *call, argv []word) {
	c.k.opaque = true
	if rest := c.inner(argv); len(rest) > 0 {
		c.fresh(rest)
	}
}

// env shows the environment, or runs a command in another one. Without a command it prints
// all variables, among which are the host's keys.
func env(c *call, argv []word) {
	c.k.opaque = true
	o := c.options(program{first: true, spec: "-0 --null -i!a -u=a --ignore-environment!a --unset=a -S=x --split-string=x " +
		"-P=e -L=e -U=e"}, plain(argv, 1))
	rest := o.operands
	for len(rest) > 0 {
		name, value, ok := strings.Cut(rest[0].text, "=")
		if !ok {
			break
		}
		if class, why := hijack(name); class > ReadOnly {
			c.raise(class, why)
		} else if !hands(name, rest[0].keep(value)) {
			c.raise(NeedsApproval, "sets a variable for a program: "+name)
		}
		rest = rest[1:]
	}
	switch {
	case len(rest) > 0:
		c.fresh(rest)
	case !o.has("-S", "--split-string"):
		c.dispute("shows the environment")
	}
}

// printenv shows the variables that it is given, or all of them.
func printenv(c *call, argv []word) {
	for _, w := range argv[1:] {
		if w.kind != known || !public(w.text) {
			c.dispute("shows a variable of the environment")
		}
	}
	if len(argv) == 1 {
		c.dispute("shows the environment")
	}
}

// xargs runs a command with words that come in.
func xargs(c *call, argv []word) {
	c.k.opaque = true
	o := c.options(program{first: true, spec: "-0rtx -a=r -d= -E= -I= -i? -J= -L= -n= -P= -s= --null " +
		"--no-run-if-empty --verbose --exit --delimiter= --arg-file=r --max-args= --max-procs= --max-lines? --replace?"},
		plain(argv, 1))
	rest := slices.Clone(o.operands)
	if len(rest) == 0 {
		rest = []word{{text: "echo"}}
	}
	// The list is cut at white space and at quotes, so even a list of harmless names
	// becomes words that are not known, unless -0 says that nothing else ends a name.
	in := word{kind: anything, many: true, env: c.st.stdin.env, net: c.st.stdin.net}
	if c.st.stdin.kind == listing || c.st.stdin.kind == digits {
		in.kind, in.text = c.st.stdin.kind, c.st.stdin.text
		in.nodash = c.st.stdin.nodash && o.has("-0", "--null") // else a name may have a space or a line end
	}
	// Its mark could be a part of another word.
	if w, ok := o.args["--replace"]; ok && w.text != "" {
		c.raise(NeedsApproval, "replaces a mark that is not plain")
	}
	d, cut := o.args["-d"]
	if w, ok := o.args["--delimiter"]; ok {
		d, cut = w, true
	}
	if o.has("-a", "--arg-file") || cut && d.text != `\n` && d.text != "\n" {
		in = word{kind: anything, many: true}
	}
	mark := ""
	if w, ok := o.args["-I"]; ok {
		mark = w.text
	} else if o.has("-i", "--replace") {
		mark = "{}"
	} else if w, ok := o.args["-J"]; ok {
		mark = w.text
	}
	if mark == "" {
		rest = append(rest, in)
	} else {
		in.many = false
		rest = replaced(rest, mark, in)
	}
	c.feed(rest)
}

// replaced puts a word where its mark is. A word that has the mark twice depends on what
// comes in in a way that is not worked out.
func replaced(argv []word, mark string, in word) []word {
	out := slices.Clone(argv)
	for i, w := range out {
		before, after, ok := strings.Cut(w.text, mark)
		if !ok || w.kind != known {
			continue
		}
		if strings.Contains(after, mark) {
			out[i] = word{kind: anything, text: before, env: in.env, net: in.net}
			continue
		}
		out[i] = word{text: before}.then(in).then(word{text: after})
		if before == "" && after == "" {
			out[i] = in
		}
	}
	return out
}

// feed runs a command with words from a list: that a shell gets them is what attacks look
// like. The command does not get the list on its input: that is /dev/null, or the terminal
// (xargs(1)).
func (c *call) feed(argv []word) {
	fed := c.fed
	c.fed = true
	stdin := c.st.stdin
	c.st.stdin = word{kind: anything}
	c.fresh(argv)
	c.st.stdin = stdin
	c.fed = fed
}

// runner is for programs that run a command in their own syntax: how bad that command is
// counts, wherever it begins. Some take one word as a script, some the rest of the words;
// so both are tried, and the worse one counts.
func runner(c *call, argv []word) {
	c.k.opaque = true
	c.raise(NeedsApproval, base(argv[0].text)+" runs a command")
	for i, w := range argv[1:] {
		if w.kind == known && !w.dash() {
			c.k.nested(w, c.st) // a script in a word
			if rest := argv[i+1:]; len(rest) > 1 {
				c.k.nested(joined(rest), c.st)
			}
		}
	}
}

// command is command of bash: -v and -V say what a name is. A name that is not known may be
// any builtin, so eval among them.
func command(c *call, argv []word) {
	o := c.options(program{first: true, spec: "-vV"}, plain(argv, 1))
	switch {
	case o.has("-v", "-V"):
		c.out = word{kind: anything}
	case len(o.operands) > 0 && o.operands[0].kind != known:
		c.raise(NeedsApproval, "runs a command whose name is not known")
		fallthrough
	case len(o.operands) > 0:
		c.direct(o.operands)
	}
}

// direct runs a command past the functions. Builtins keep their effect on the shell.
func (c *call) direct(argv []word) {
	c.nofuncs = true
	c.run(argv)
}

// builtin runs a builtin although a function has its name, so no function of the script
// protects from it.
func builtin(c *call, argv []word) {
	c.raise(NeedsApproval, "runs a builtin past the functions")
	if rest := plain(argv, 1); len(rest) > 0 {
		c.direct(rest)
	}
}

// execBuiltin takes the place of the shell, or changes its descriptors. Without operands
// the redirections stay for the rest of the script.
func execBuiltin(c *call, argv []word) {
	o := c.options(program{spec: "-a=", first: true}, plain(argv, 1))
	c.out = word{}
	c.raise(NeedsApproval, "takes the place of the shell, or changes its descriptors")
	if len(o.operands) > 0 {
		c.fresh(o.operands)
		return
	}
	c.keepStdin = true
}

// eval runs its words in this shell. Known text is walked as if it stood there, since
// people use eval to put a command together.
func eval(c *call, argv []word) {
	c.k.opaque = true
	c.raise(NeedsApproval, "reads words again as a script")
	w := joined(plain(argv, 1))
	if w.kind > digits || slices.ContainsFunc(argv, func(w word) bool { return w.kind > digits }) {
		c.code(&w, "runs a text that is not known")
		c.lose()
		return
	}
	if w.text == "" || !c.k.enter() {
		return
	}
	c.out = c.k.source(w.text, c.st)
	c.k.depth--
}

// lose forgets what a script that is not known could have changed.
func (c *call) lose() {
	c.st.dirs = nil
	c.st.lost = true
	clear(c.st.vars)
	clear(c.st.funcs)
}

// source runs a file in this shell. A file of the workspace may be written by the model, or
// by the script itself a line before.
func sourceBuiltin(c *call, argv []word) {
	c.k.opaque = true
	if len(argv) < 2 {
		c.raise(NeedsApproval, "runs a file")
		return
	}
	w := argv[1]
	content := w.from
	if w.text == "/dev/stdin" {
		content = &c.st.stdin
	}
	c.raise(NeedsApproval, "runs a file in the shell")
	if content != nil && content.kind == known && c.k.enter() {
		c.k.source(content.text, c.st)
		c.k.depth--
		return
	}
	c.read(w)
	c.code(content, "runs a file in the shell")
	c.lose()
}

// code is for code that is not known. A text that an earlier command fetched may be in any
// file or variable by now.
func (c *call) code(content *word, why string) {
	if content != nil && content.net || c.k.fetched {
		c.raise(Escalates, "runs what came from the network")
		return
	}
	c.raise(NeedsApproval, why)
}

// interpreter is a shell that runs another script. Of the options of bash(1) and dash(1)
// only -c, -e and -u are let through, and -n, which runs nothing.
func interpreter(c *call, argv []word) {
	c.k.opaque = true
	o := c.options(program{first: true, spec: "-ceun -s!a -o=a -O=a -i!a -l!a --rcfile=e --init-file=e"}, plain(argv, 1))
	rest := o.operands
	// bash -i with its descriptors on a connection is what reverse shells are.
	if o.has("-i") && !o.has("-c") {
		c.raise(Escalates, "opens a shell for somebody")
	}
	switch {
	case len(rest) > 0 && rest[0].net:
		c.raise(Escalates, "runs what came from the network")
	case o.has("-c") && len(rest) > 0:
		c.inScript(rest)
	// It reads the script for errors and runs none of it. An option with a plus takes that back.
	case o.has("-n") && len(rest) == 1 && !rest[0].begins("+") && !o.has("-s", "-i", "-l"):
		c.read(rest[0])
	case len(rest) == 0 || o.has("-s"):
		c.fromStdin()
	case rest[0].from != nil && rest[0].from.kind == known:
		c.raise(NeedsApproval, "runs a script")
		c.k.nested(*rest[0].from, c.st)
	default:
		c.read(rest[0])
		c.code(rest[0].from, "runs a script")
		if c.fed {
			c.raise(Escalates, "a shell gets words from a list")
		}
	}
}

// inScript is sh -c script name args…. The words behind the script are $0, $1 and so on. sh
// is dash on Debian, so what only bash has is an error there.
func (c *call) inScript(rest []word) {
	w := rest[0]
	if w.kind > digits {
		c.code(&w, "runs a text that is not known")
		if c.fed {
			c.raise(Escalates, "a shell gets words from a list")
		}
		return
	}
	if !c.k.enter() {
		return
	}
	inner := c.st.child()
	inner.args, inner.name = plain(rest, 2), word{text: c.cmd.Argv[0]}
	if len(rest) > 1 {
		inner.name = rest[1]
		if rest[1].many || rest[1].kind == glob { // the first of several words
			inner.name = word{kind: anything, many: true, env: rest[1].env, net: rest[1].net}
		}
	}
	inner.lost = slices.ContainsFunc(rest, func(w word) bool { return w.many || w.kind == glob })
	declared, lang, active := c.k.declared, c.k.lang, c.k.active
	c.k.declared, c.k.active = map[string]int{}, nil
	if name := base(c.cmd.Argv[0]); name == "sh" || name == "dash" {
		c.k.lang = syntax.LangPOSIX
	}
	c.out = c.k.source(w.text, inner)
	c.k.declared, c.k.lang, c.k.active = declared, lang, active
	c.k.depth--
}

// fromStdin is a shell that reads its script from what comes in.
func (c *call) fromStdin() {
	in := c.st.stdin
	c.k.obeys = c.k.obeys || in.kind != known
	c.code(&in, "runs what comes in")
	c.k.nested(in, c.st)
}

// base64Program decodes what is known, so that a shell after it is judged by that. A script
// that is encoded hides from whoever reads the command, not from the shell behind the pipe.
func base64Program(c *call, argv []word) {
	o := c.options(c.row, plain(argv, 1))
	c.operands(program{}, &parsed{operands: o.operands})
	in := c.st.stdin
	if len(o.operands) == 0 && in.kind == known && o.has("-d", "-D", "--decode") {
		if b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(in.text)); err == nil {
			c.out = word{text: string(b)}
		}
	}
	c.out.env, c.out.net = in.env, in.net
}
