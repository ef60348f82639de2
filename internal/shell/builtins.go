package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/aycoder/aycoder/internal/late"
)

// The builtins of bash. Those that the table of rows has may run unasked with the options
// and words that are let through here; the others are here for how bad they are. The manual
// is bash(1), SHELL BUILTIN COMMANDS. The effects of a builtin on the shell (the directory,
// variables, the end of the script) are tracked, since later words depend on it.

// plain returns the words from i on.
func plain(argv []word, i int) []word { return argv[min(i, len(argv)):] }

// expander is what expands words in the state of the call.
func (c *call) expander() expander { return expander{c.k, c.st} }

// echo prints its words. The output is known if the words are, so that a shell behind a pipe is
// judged by the script that it gets.
func echo(c *call, argv []word) {
	args := plain(argv, 1)
	newline, escapes := "\n", false
	for len(args) > 0 && args[0].kind == known && len(args[0].text) > 1 && strings.Trim(args[0].text, "neE") == "-" {
		if strings.Contains(args[0].text, "n") {
			newline = ""
		}
		if i := strings.LastIndexAny(args[0].text, "eE"); i >= 0 {
			escapes = args[0].text[i] == 'e'
		}
		args = args[1:]
	}
	out := joined(args)
	switch {
	// dash reads escapes without an option, and knows none but -n.
	case c.k.lang == syntax.LangPOSIX && (escapes || strings.Contains(out.text, `\`)):
		out.kind = anything
	case slices.ContainsFunc(args, func(w word) bool { return w.kind == glob }):
		out.kind = anything
		if len(args) == 1 {
			out = c.k.matched(args[0], c.st)
			out.many = true
		}
	case out.kind == known && escapes:
		out = unescape(out.text)
	}
	c.out = out.then(word{text: newline})
	c.showsGlobs(args)
}

// showsGlobs disputes patterns that list what is outside.
func (c *call) showsGlobs(args []word) {
	for _, w := range args {
		if w.kind != glob {
			continue
		}
		if i := strings.IndexAny(w.text, "*?["); climbs(w.text) ||
			!c.k.below(w.text[:strings.LastIndexByte(w.text[:max(i, 0)], '/')+1], c.st) {
			c.dispute("lists files outside of the workspace")
		}
	}
}

// unescape is what echo -e and printf print. The two read a zero in front of a number each in
// their own way.
func unescape(s string) word {
	if strings.Contains(s, `\0`) {
		return word{kind: anything}
	}
	return ansi(s)
}

// printf knows what a plain format prints, and with %s of known words. Bash sets a
// variable for -v, and for %n in the format, which has to be known for that.
func printf(c *call, argv []word) {
	args := plain(argv, 1)
	c.showsGlobs(args)
	if len(args) > 0 && args[0].text == "--" && args[0].kind == known {
		args = args[1:]
	} else if len(args) > 0 && args[0].dash() {
		c.raise(NeedsApproval, "printf may set a variable")
		if len(args) > 1 && args[0].text == "-v" {
			c.expander().target(args[1], word{kind: anything, many: true, env: anyEnv(args)})
		}
		return
	}
	if len(args) > 1 && (args[0].kind > digits || !formatOf().MatchString(args[0].text)) {
		c.raise(NeedsApproval, "printf has a format that is not known")
	}
	c.out = formatted(args)
}

// formatOf are the formats that print their arguments: printf(1) of bash has %n, which
// assigns, and %(…)T and %q besides.
var formatOf = late.Regexp(`^([^%]|%%|%[-+ 0#]*[0-9]*(\.[0-9]*)?[sdiouxXeEfgGcbq])*$`)

// anyEnv reports whether one of the words may show a variable of the environment.
func anyEnv(args []word) bool { return slices.ContainsFunc(args, func(w word) bool { return w.env }) }

// formatted is what printf prints for a format without or with one %s; of others nothing
// is known.
func formatted(args []word) word {
	unknown := word{kind: anything, env: anyEnv(args)}
	if len(args) == 0 || slices.ContainsFunc(args, func(w word) bool { return w.kind != known }) {
		return unknown
	}
	format := args[0].text
	switch n := strings.Count(format, "%"); {
	case n == 0:
		return unescape(format)
	case n == 1 && strings.Contains(format, "%s"):
		out := word{}
		for _, a := range plain(args, 1) {
			before, after, _ := strings.Cut(format, "%s")
			out = out.then(unescape(before)).then(a).then(unescape(after))
		}
		return out
	}
	return unknown
}

// pwd prints the directory, where that is known for sure.
func pwd(c *call, _ []word) {
	if d := c.st.dirs; len(d) == 1 && !strings.ContainsAny(d[0], "*?[") {
		c.out = word{text: d[0] + "\n"}
	}
}

// number is for programs that print a number.
func number(c *call, _ []word) { c.out = word{text: "1", kind: digits} }

// seq prints numbers, unless an option says what stands between or around them.
func seq(c *call, argv []word) {
	c.options(program{spec: "-s= -f= --separator= --format=", tame: true}, argv[1:])
	if len(c.cmd.Argv) > 1 && !strings.HasPrefix(argv[1].text, "-") {
		c.out = word{text: "1", kind: digits, many: true, nodash: !slices.ContainsFunc(argv, word.dash)}
	}
}

// testBuiltin is test and [, by the number of their arguments as POSIX has it: an operator
// is only where a word stands in the script. Not -v and -R, which evaluate a subscript in a
// name, and no longer expressions, which shells read differently. POSIX leaves more than
// four arguments open, and bash parses them by precedence.
func testBuiltin(c *call, argv []word) {
	c.out = word{}
	args := plain(argv, 1)
	if base(argv[0].text) == "[" {
		if len(args) == 0 || args[len(args)-1].text != "]" {
			c.raise(NeedsApproval, "is not a test that is understood")
			return
		}
		args = args[:len(args)-1]
	}
	if slices.ContainsFunc(args, func(w word) bool { return w.many || w.kind == glob }) {
		c.raise(NeedsApproval, "tests words that are not known")
	}
	for len(args) > 1 && args[0].kind == known && args[0].text == "!" {
		args = args[1:]
	}
	isOp := func(w word, ops string) bool {
		return w.kind == known && strings.Contains(ops, " "+w.text+" ") && w.text != ""
	}
	switch {
	case len(args) <= 1:
	case len(args) == 2 && isOp(args[0], " -b -c -d -e -f -g -h -k -n -p -r -s -t -u -w -x -z -G -L -N -O -S -o "):
	case len(args) == 3 && isOp(args[1], " = == != < > -nt -ot -ef "):
	case len(args) == 3 && isOp(args[1], " -eq -ne -lt -le -gt -ge "):
		if anyEnv(args) { // what is not a number is shown in the message
			c.dispute("shows a variable of the environment")
		}
	default:
		c.raise(NeedsApproval, "is not a test that is understood")
		for _, w := range args {
			c.expander().evaluated(word{text: w.text, kind: w.kind})
		}
	}
}

// cd changes the directory of the shell. More than one operand, and the stack of pushd
// with its +N, lead where nobody looked.
func cd(c *call, argv []word) {
	c.out = word{}
	o := c.options(program{}, argv[1:]) // pushd -n goes nowhere
	st := c.st
	push := argv[0].text == "pushd"
	switch {
	case push && (len(o.operands) != 1 || strings.HasPrefix(o.operands[0].text, "+")):
		st.dirs = nil
		return
	case len(o.operands) == 0:
		o.operands = []word{{text: c.expander().home()}}
	case len(o.operands) > 1:
		st.dirs = nil
		c.raise(NeedsApproval, "changes to a directory that is not known")
		return
	}
	c.chdir(o.operands[0])
}

// chdir makes the directory the expected one. The old ones stay possible: there may be no
// such directory. The list is ordered: the first is where the script is if every cd worked.
func (c *call) chdir(w word) {
	st := c.st
	before := st.dirs
	to, ok := c.destination(w)
	c.goes(to)
	if !ok {
		st.dirs = nil
		c.dispute("changes to a directory that is not known")
		return
	}
	after := resolve(to, before)
	if w.kind == listing { // a dot is listed too
		after = append(after, resolve(path.Dir(to), before)...)
	}
	if len(after) == 0 {
		return
	}
	st.went = after
	st.dirs = after[:1]
	for _, d := range slices.Concat(after[1:], before) {
		if !slices.Contains(st.dirs, d) {
			st.dirs = append(slices.Clip(st.dirs), d)
		}
	}
	if len(st.dirs) > 6 {
		st.dirs = st.dirs[:6]
		c.raise(NeedsApproval, "changes directories too often")
	}
	if !c.k.inside(after[0]) {
		c.dispute("leaves the workspace")
	}
}

// destination is the path of a directory to go to. One of several is a pattern.
func (c *call) destination(w word) (string, bool) {
	_, search := c.st.vars["CDPATH"]
	switch {
	case w.text == "-" || w.text == "" && w.kind != listing || w.kind == anything || w.env,
		w.kind == glob && climbs(w.text),
		search && !strings.HasPrefix(w.text, "/") && !strings.HasPrefix(w.text, "."):
		return "", false
	case w.kind == listing:
		return strings.TrimPrefix(strings.TrimRight(w.text, "/")+"/*", "/"), true
	case w.kind == glob:
		return strings.TrimRight(w.text, "/"), true
	}
	return w.text, true
}

// popd goes back to where nobody looked.
func popd(c *call, _ []word) {
	c.out = word{}
	c.st.dirs = nil
}

// exit ends the script, so that what follows only runs if it was not reached: cd src ||
// exit 1 makes sure of the directory.
func exit(c *call, argv []word) {
	c.out = word{}
	if len(argv) <= 2 && !slices.ContainsFunc(argv, func(w word) bool { return w.many }) {
		c.st.ends = true
	}
}

// leave is break, continue and return. The skipped commands are dealt with at the end of the
// loop or function.
func leave(c *call, _ []word) {
	c.out = word{}
	c.k.left = true
}

// positional forgets the parameters, which shift moves.
func positional(c *call, _ []word) { c.st.args, c.st.lost, c.out = nil, true, word{} }

// setBuiltin lets the options of careful scripts through: -e, -u, -o pipefail.
func setBuiltin(c *call, argv []word) {
	c.out = word{}
	if len(argv) == 1 {
		c.dispute("shows the environment")
		return
	}
	for i, w := range argv[1:] {
		named := i > 0 && strings.HasSuffix(argv[i].text, "o") && strings.HasPrefix(argv[i].text, "-")
		switch t := w.text; {
		case w.kind != known:
			c.raise(NeedsApproval, "sets options that are not known")
		case named && t == "pipefail", len(t) > 1 && (t[0] == '-' || t[0] == '+') && strings.Trim(t[1:], "euo") == "":
		case named || len(t) > 1 && (t[0] == '-' && t != "--" || t[0] == '+'):
			c.raise(NeedsApproval, "changes how the shell reads scripts")
		default:
			c.st.args, c.st.lost = nil, true
			return
		}
	}
}

// unset may remove a function, and evaluates a subscript.
func unset(c *call, argv []word) {
	c.out = word{}
	c.raise(NeedsApproval, "removes variables or functions")
	for _, w := range argv[1:] {
		c.expander().target(w, word{})
	}
	clear(c.st.funcs)
}

// readBuiltin sets variables to what comes in.
func readBuiltin(c *call, argv []word) {
	c.out = word{}
	o := c.options(program{spec: "-rs -d= -n= -N= -p= -t="}, argv[1:])
	v := word{kind: anything, env: c.st.stdin.env, net: c.st.stdin.net}
	switch in := c.st.stdin; {
	case in.kind == digits:
		v = word{text: "1", kind: digits}
	case in.kind == listing && o.has("-r") && len(o.operands) == 1:
		v = in
		v.many, v.from, v.shared = false, nil, false
		v.nodash = in.nodash && o.has("-d") // else a name may have a line end
	}
	if d, ok := o.args["-d"]; o.has("-n", "-N", "-t") || ok && (d.text != "" || d.kind != known) { // not to the end of a name
		v = word{kind: anything, env: v.env, net: v.net}
		c.consumes()
	}
	v.gone = true // it found no line
	if len(o.operands) == 0 {
		c.expander().assign("REPLY", v)
	}
	for _, w := range o.operands {
		c.expander().target(w, v)
	}
}

// mapfile fills an array, whose elements arithmetic would evaluate, and runs a callback
// for -C. It asks.
func mapfile(c *call, argv []word) {
	c.out = word{}
	c.raise(NeedsApproval, "fills an array, whose elements may be evaluated")
	o := c.options(program{spec: "-d= -n= -O= -s= -u= -C=x -c="}, argv[1:])
	for _, w := range o.operands {
		c.expander().target(w, word{kind: anything, many: true})
	}
}

// hash binds a name to a path with -p: the next ls may be another program.
func hash(c *call, _ []word) {
	c.out = word{}
	c.raise(Escalates, "decides what program a name means")
}

// alias looks at what an alias means, although scripts do not expand it by default.
func alias(c *call, argv []word) {
	if len(argv) == 1 {
		return
	}
	c.raise(NeedsApproval, "changes what names mean")
	for _, w := range argv[1:] {
		if _, value, ok := strings.Cut(w.text, "="); ok && w.kind == known {
			c.raise(c.k.nested(word{text: value}, c.st), "an alias runs a command")
		}
	}
}

// compgen and complete run functions and commands to make completions (-C, -F), and
// expand words (-W).
func compgen(c *call, argv []word) {
	c.raise(NeedsApproval, "changes completion, or runs what makes it")
	c.options(program{spec: "-A= -C=x -F=a -G= -P= -S= -W=a -X= -o="}, argv[1:])
}

// historyBuiltin shows what a person typed before, which is none of the agent's business,
// or changes it.
func historyBuiltin(c *call, argv []word) {
	if len(argv) == 1 || argv[1].kind <= digits && strings.Trim(argv[1].text, "0123456789") == "" {
		c.raise(Escalates, "shows what was typed, which may have secrets in it")
		return
	}
	c.raise(Destructive, "changes the history")
}

// trap runs its argument later. When that is depends on signals, so its commands count as
// if they ran now.
func trap(c *call, argv []word) {
	c.out = word{}
	args := plain(argv, 1)
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	c.k.opaque = true
	c.raise(NeedsApproval, "runs a command later")
	if len(args) > 0 {
		c.k.nested(args[0], c.st)
	}
}

// letBuiltin evaluates each word as arithmetic, quoted or not. It asks; what it would set
// and run counts.
func letBuiltin(c *call, argv []word) {
	c.out = word{}
	c.raise(NeedsApproval, "evaluates words as arithmetic")
	for _, w := range argv[1:] {
		if name := before(w.text, "="); identifier(name) {
			c.expander().assign(name, word{text: "1", kind: digits})
		}
		c.expander().evaluated(w)
	}
}

// declareBuiltin is declare and the like as a plain command, with words in place of
// assignments: after command or builtin, or with a name in a variable.
func declareBuiltin(c *call, argv []word) {
	c.out = word{}
	for _, w := range argv[1:] {
		if w.kind == known && identifier(w.text) {
			continue
		}
		c.raise(NeedsApproval, "declares what is not known")
		name, _, _ := strings.Cut(w.text, "=")
		if class, why := hijack(name); class > NeedsApproval {
			c.raise(class, why)
		}
	}
	c.dispute("may show the environment")
}

// declClause walks declare, local, export, readonly and typeset. Which may run unasked is
// for the form of the script.
func (k *walker) declClause(d *syntax.DeclClause, st *state) {
	if k.declared[d.Variant.Value] > 0 {
		k.raise(NeedsApproval, "calls what may be a function of the script")
	}
	x := expander{k, st}
	named := false
	for _, a := range d.Args {
		switch {
		case a.Name == nil:
			x.single(a.Value)
		case a.Naked:
			named = true
			if d.Variant.Value == "export" {
				x.exports(a.Name.Value, st.vars[a.Name.Value])
			}
			if d.Variant.Value == "local" {
				x.local(a.Name.Value, word{})
			}
		default:
			named = true
			v := x.assignment(a)
			if d.Variant.Value == "local" {
				x.local(a.Name.Value, v)
			}
			if d.Variant.Value == "export" {
				x.exports(a.Name.Value, v)
			}
		}
	}
	if !named {
		k.dispute("shows the environment")
	}
}

// local sets a variable until the function returns. Outside of a function it sets nothing.
func (x expander) local(name string, v word) {
	if len(x.k.active) == 0 {
		v = word{kind: anything, many: true, env: true}
	}
	x.assign(name, v)
	x.k.locals = append(x.k.locals, name)
}

// exports asks for each variable that programs get from the script, but those that only say
// how output looks. A program that was harmless may do something else with such a variable,
// as git does with GIT_PAGER.
func (x expander) exports(name string, v word) {
	if !hands(name, v) {
		x.k.raise(NeedsApproval, "sets a variable for programs: "+name)
	}
}

// before is the text in front of a separator, or all of it.
func before(s, sep string) string {
	s, _, _ = strings.Cut(s, sep)
	return s
}
