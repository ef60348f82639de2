package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// plain returns the words from i on.
func plain(argv []word, i int) []word { return argv[min(i, len(argv)):] }

func (c *call) expander() expander { return expander{c.k, c.st} }

func echo(c *call, argv []word) {
	args := plain(argv, 1)
	newline, escapes := "\n", false
	for len(args) > 0 && args[0].kind == known && len(args[0].text) > 1 && strings.Trim(args[0].text, "neE") == "-" {
		if strings.Contains(args[0].text, "n") {
			newline = ""
		}
		escapes = strings.Contains(args[0].text, "e")
		args = args[1:]
	}
	out := joined(args)
	switch {
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
		if i := strings.IndexAny(w.text, "*?["); strings.Contains(w.text, "..") ||
			!c.k.below(w.text[:strings.LastIndexByte(w.text[:max(i, 0)], '/')+1], c.st) {
			c.dispute("lists files outside of the workspace")
		}
	}
}

// unescape is what echo -e and printf print.
func unescape(s string) word { return ansi(s) }

// printf knows what a plain format prints, and with %s of known words.
func printf(c *call, argv []word) {
	args := plain(argv, 1)
	c.showsGlobs(args)
	if len(args) > 0 && args[0].kind == known && strings.HasPrefix(args[0].text, "-v") {
		name := word{text: args[0].text[2:]}
		if name.text == "" {
			if len(args) < 2 {
				c.raise(NeedsApproval, "sets a variable whose name is not known")
				return
			}
			name, args = args[1], args[1:]
		}
		c.expander().target(name, variable{word: word{kind: anything, env: anyEnv(args)}})
		return
	}
	if len(args) > 0 && args[0].dash() && args[0].text != "--" {
		c.raise(NeedsApproval, "printf may set a variable")
		return
	}
	if len(args) > 0 && args[0].text == "--" && args[0].kind == known {
		args = args[1:]
	}
	if len(args) > 1 && (args[0].kind > digits || counts(args[0].text)) {
		c.raise(NeedsApproval, "printf may set a variable")
	}
	c.out = formatted(args)
}

// counts reports whether a format has %n, which sets a variable.
func counts(format string) bool {
	for _, f := range strings.Split(format, "%")[1:] {
		if strings.HasPrefix(strings.TrimLeft(f, "#0- +'*.123456789hlLjzt"), "n") {
			return true
		}
	}
	return false
}

func anyEnv(args []word) bool { return slices.ContainsFunc(args, func(w word) bool { return w.env }) }

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

func pwd(c *call, _ []word) {
	if d := c.st.dirs; len(d) == 1 && !strings.ContainsAny(d[0], "*?[") {
		c.out = word{text: d[0] + "\n"}
	}
}

func basename(c *call, argv []word) {
	if len(argv) == 2 && argv[1].kind == known && !argv[1].dash() {
		c.out = word{text: base(strings.TrimRight(argv[1].text, "/"))}
		return
	}
	for _, w := range plain(argv, 1) {
		c.out = word{kind: anything, env: w.env || c.out.env}
	}
	if len(argv) == 2 && argv[1].kind == listing {
		c.out = word{kind: listing}
	}
}

func dirname(c *call, argv []word) {
	if len(argv) == 2 && argv[1].kind == known && !argv[1].dash() {
		c.out = word{text: path.Dir("./" + strings.TrimRight(argv[1].text, "/"))}
		if strings.HasPrefix(argv[1].text, "/") {
			c.out.text = path.Dir(strings.TrimRight(argv[1].text, "/"))
		}
		return
	}
	for _, w := range plain(argv, 1) {
		c.out = word{kind: anything, env: w.env || c.out.env}
	}
	if len(argv) == 2 && argv[1].kind == listing {
		c.out = word{kind: listing, nodash: argv[1].nodash, text: argv[1].text}
	}
}

// number is for programs that print a number.
func number(c *call, _ []word) { c.out = word{text: "1", kind: digits} }

func seq(c *call, argv []word) {
	c.options(program{spec: "-s= -f= --separator= --format="}, argv[1:])
	if len(c.cmd.Argv) > 1 && !strings.HasPrefix(argv[1].text, "-") {
		c.out = word{text: "1", kind: digits, many: true}
	}
}

// testBuiltin is test and [, which evaluate the names of variables after -v.
func testBuiltin(c *call, argv []word) {
	c.out = word{}
	for i, w := range argv {
		if i == 0 {
			continue
		}
		if w.many || mayBe(w, "-v") && i+1 < len(argv) && mayBe(argv[i+1], "a[") {
			c.raise(NeedsApproval, "tests words that are not known")
		}
		if (w.text == "-v" || w.text == "-R") && w.kind == known && i+1 < len(argv) {
			c.expander().checkName(argv[i+1])
		}
	}
}

// mayBe reports whether a word that is not known may begin so.
func mayBe(w word, s string) bool {
	return w.kind >= glob && (strings.HasPrefix(w.text, s) || strings.HasPrefix(s, w.text))
}

func cd(c *call, argv []word) {
	c.out = word{}
	o := c.options(program{spec: "-n"}, argv[1:])
	st := c.st
	push := argv[0].text == "pushd"
	if push {
		st.back = append(slices.Clone(st.back), first(st.dirs))
	}
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

func first(dirs []string) string {
	if len(dirs) == 0 {
		return ""
	}
	return dirs[0]
}

// chdir makes the directory the expected one. The old ones stay possible: there may be
// no such directory.
func (c *call) chdir(w word) {
	st := c.st
	before := st.dirs
	to, ok := c.destination(w)
	if !ok {
		st.dirs = nil
		c.dispute("changes to a directory that is not known")
		return
	}
	after := resolve(to, before)
	if len(after) == 0 {
		return
	}
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
		w.kind == glob && strings.Contains(w.text, ".."),
		search && !strings.HasPrefix(w.text, "/") && !strings.HasPrefix(w.text, "."):
		return "", false
	case w.kind == listing:
		return strings.TrimPrefix(strings.TrimRight(w.text, "/")+"/*", "/"), true
	case w.kind == glob:
		return strings.TrimRight(w.text, "/"), true
	}
	return w.text, true
}

func popd(c *call, argv []word) {
	c.out = word{}
	st := c.st
	n := len(st.back)
	if n == 0 || len(argv) > 1 || st.back[n-1] == "" {
		st.dirs, st.back = nil, nil
		return
	}
	dirs := []string{st.back[n-1]}
	st.back = st.back[:n-1]
	for _, d := range st.dirs {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	st.dirs = dirs
}

func exit(c *call, argv []word) {
	c.out = word{}
	if len(argv) <= 2 && !slices.ContainsFunc(argv, func(w word) bool { return w.many }) {
		c.st.ends = true
	}
}

func leave(c *call, _ []word) {
	c.out = word{}
	c.k.exits = append(c.k.exits, c.st.clone())
}

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
		case named && t == "pipefail", len(t) > 1 && (t[0] == '-' || t[0] == '+') && strings.Trim(t[1:], "euxo") == "":
		case named || len(t) > 1 && (t[0] == '-' && t != "--" || t[0] == '+'):
			c.raise(NeedsApproval, "changes how the shell reads scripts")
		default:
			c.st.args, c.st.lost = nil, true
			return
		}
	}
}

var shoptTame = set("-s", "-u", "-q", "nullglob", "failglob", "inherit_errexit")

func shopt(c *call, argv []word) {
	c.out = word{}
	for _, w := range argv[1:] {
		if w.kind != known || !shoptTame[w.text] {
			c.raise(NeedsApproval, "changes how the shell reads scripts")
		}
	}
}

func unset(c *call, argv []word) {
	c.out = word{}
	for _, w := range argv[1:] {
		switch {
		case w.kind == known && w.text == "-v":
		case w.kind == known && strings.HasPrefix(w.text, "-"):
			c.raise(NeedsApproval, "removes a function")
			clear(c.st.funcs)
		default:
			c.unsetName(w)
		}
	}
}

func (c *call) unsetName(w word) {
	if w.kind == known && c.k.declared[w.text] > 0 {
		c.raise(NeedsApproval, "removes a function")
		delete(c.st.funcs, w.text)
		return
	}
	c.expander().target(w, variable{word: word{}})
	if class, why := hijack(w.text); class > ReadOnly {
		c.raise(class, why)
	}
}

// readBuiltin sets variables to what comes in.
func readBuiltin(c *call, argv []word) {
	c.out = word{}
	o := c.options(program{spec: "-a= -d= -i= -n= -N= -p= -t= -u="}, argv[1:])
	v := word{kind: anything, env: c.st.stdin.env, net: c.st.stdin.net}
	switch in := c.st.stdin; {
	case in.kind == digits || in.kind == known && numeric(word{text: strings.TrimSpace(in.text)}):
		v = word{text: "1", kind: digits}
	case in.kind == listing && o.has("-r"):
		v = in
		v.many, v.from = false, nil
		v.nodash = in.nodash && o.has("-d") // else a name may have a line end
	}
	if o.has("-u") {
		v = word{kind: anything}
	}
	if a, ok := o.args["-a"]; ok {
		c.expander().target(a, variable{array: true, elems: []word{{kind: anything, many: true, env: v.env,
			net: v.net}}})
	}
	if len(o.operands) == 0 {
		c.expander().assign("REPLY", variable{word: v})
	}
	for _, w := range o.operands {
		if len(o.operands) > 1 {
			v = partOf(v)
		}
		c.expander().target(w, variable{word: v})
	}
}

func mapfile(c *call, argv []word) {
	c.out = word{}
	o := c.options(program{spec: "-d= -n= -O= -s= -u= -C=x -c="}, argv[1:])
	name := word{text: "MAPFILE"}
	if len(o.operands) > 0 {
		name = o.operands[0]
	}
	e := word{kind: anything, many: true, env: c.st.stdin.env, net: c.st.stdin.net}
	if c.st.stdin.kind == listing {
		e = c.st.stdin
		e.many, e.from = true, nil
	}
	e.nodash = e.nodash && o.has("-d")
	c.expander().target(name, variable{array: true, elems: []word{e}})
}

func hash(c *call, argv []word) {
	c.out = word{}
	for _, w := range argv[1:] {
		if w.text != "-r" {
			c.raise(Escalates, "decides what program a name means")
		}
	}
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

func compgen(c *call, argv []word) {
	o := c.options(program{spec: "-A= -C=x -F=a -G= -P= -S= -W=a -X= -o="}, argv[1:])
	if argv[0].text == "complete" && len(o.operands) > 0 {
		c.raise(NeedsApproval, "changes completion")
	}
}

func historyBuiltin(c *call, argv []word) {
	if len(argv) == 1 || argv[1].kind <= digits && strings.Trim(argv[1].text, "0123456789") == "" {
		c.raise(Escalates, "shows what was typed, which may have secrets in it")
		return
	}
	c.raise(Destructive, "changes the history")
}

// trap runs its argument later.
func trap(c *call, argv []word) {
	c.out = word{}
	args := plain(argv, 1)
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) == 0 || args[0].kind == known && (args[0].text == "-" || args[0].text == "" ||
		args[0].text == "-l" || args[0].text == "-p") {
		return
	}
	c.k.opaque = true
	if args[0].kind != known || c.k.nested(args[0], c.st) > ReadOnly {
		c.raise(NeedsApproval, "runs a command later")
	}
	c.dispute("runs a command later")
}

func letBuiltin(c *call, argv []word) {
	c.out = word{}
	for _, w := range argv[1:] {
		if w.kind > digits {
			c.raise(NeedsApproval, "evaluates a value that is not known as arithmetic")
			continue
		}
		c.k.source("(("+w.text+"))", c.st)
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

// declClause walks declare, local, export, readonly and typeset.
func (k *walker) declClause(d *syntax.DeclClause, st *state) word {
	if k.declared[d.Variant.Value] > 0 {
		k.raise(NeedsApproval, "calls what may be a function of the script")
	}
	x := expander{k, st}
	flags, named := "", false
	for _, a := range d.Args {
		if a.Name == nil {
			w := x.single(a.Value)
			switch {
			case w.kind != known:
				k.raise(NeedsApproval, "declares what is not known")
			case strings.HasPrefix(w.text, "-") || strings.HasPrefix(w.text, "+"):
				flags += w.text[1:]
			default:
				x.target(word{text: before(w.text, "=")}, variable{word: word{kind: anything}})
			}
			continue
		}
		named = true
		x.declareName(d.Variant.Value, flags, a)
	}
	if !named && d.Variant.Value != "local" {
		k.dispute("shows the environment")
	}
	if strings.ContainsAny(flags, "nfFI") && flags != "f" || strings.Contains(flags, "f") &&
		d.Variant.Value == "export" {
		k.raise(NeedsApproval, "declares a reference or a function")
	}
	return word{}
}

func before(s, sep string) string {
	s, _, _ = strings.Cut(s, sep)
	return s
}

func (x expander) declareName(variant, flags string, a *syntax.Assign) {
	name := a.Name.Value
	if strings.ContainsAny(flags, "pP") {
		if !public(name) {
			x.k.dispute("shows a variable of the environment")
		}
		return
	}
	if strings.ContainsAny(flags, "iluc") {
		x.k.attrs[name] += flags
	}
	if a.Naked {
		if class, why := hijack(name); class > ReadOnly && variant != "export" {
			x.k.raise(class, why)
		}
		if _, ok := x.st.vars[name]; !ok && variant != "export" && variant != "readonly" {
			x.st.vars[name] = variable{array: strings.ContainsAny(flags, "aA")}
		}
		return
	}
	x.assignment(a)
}
