package shell

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A call is a simple command that is being looked at. Its arguments are words: state.go says what
// is known of a word, in the order known, digits, glob, listing, anything. The options of a program
// are read by the spec in its row of the tables: see options.go.
type call struct {
	k         *walker
	st        *state
	cmd       Command
	out       word    // what it prints
	captured  bool    // what it prints goes to a file
	bounded   bool    // it reads no more than it is told to
	keepStdin bool    // exec: the redirections stay
	nofuncs   bool    // the next command is not a function
	fed       bool    // find or xargs runs it for what they find
	row       program // the row of the program in the tables
	strict    bool    // the program is one that may only read: what its row does not know asks
}

// raise makes the command at least of the class. The reason of the worst is kept for the
// command, all are for the script. The reason of the script is what a person is shown, so
// even those of a lesser class stay.
func (c *call) raise(class Class, why string) {
	if class > c.cmd.Class || c.cmd.Why == "" && class > ReadOnly {
		c.cmd.Why = why
	}
	c.cmd.Class = max(c.cmd.Class, class)
	if class > ReadOnly {
		c.k.because(why)
	}
}

// dispute keeps a script that only reads from running unasked: it reads what it should
// not, or more than it names.
func (c *call) dispute(why string) { c.k.dispute(why) }

// catastrophe is for what is refused.
func (c *call) catastrophe(why string) {
	c.k.deny = true
	c.raise(Destructive, why)
}

// done hands the command to the analysis. A program that writes where it stands, as git add
// and go mod tidy do, names no file that would have been judged by its place. The number of
// commands that are kept is bounded like the number of steps; the class counts in any case.
func (c *call) done() {
	left := len(c.st.dirs) == 0 && c.k.world.Dir != "" // by a cd to a directory that is not known
	outside := left || slices.ContainsFunc(c.st.dirs, c.k.outside)
	if c.cmd.Class == WritesWorkspace && len(c.cmd.Writes) == 0 && outside {
		c.raise(WritesOutside, "writes outside of the workspace")
	}
	c.k.class = max(c.k.class, c.cmd.Class)
	if len(c.k.cmds) < maxSteps && (len(c.cmd.Argv) > 0 || c.cmd.Class > ReadOnly || c.cmd.Reads != nil) {
		c.k.cmds = append(c.k.cmds, c.cmd)
	}
}

// sub is a call of other words in the same state: what find runs. The class is the caller's
// to judge: it knows whether the words are what the user wrote or what was found.
func (c *call) sub(argv []word) Class {
	s := &call{k: c.k, st: c.st, fed: true}
	if len(argv) > 0 && c.k.enter() {
		s.run(argv)
		c.k.depth--
	}
	s.done()
	return s.cmd.Class
}

// simple walks a simple command: assignments, words, redirects.
func (k *walker) simple(e *syntax.CallExpr, redirs []*syntax.Redirect, st *state) word {
	if !k.enter() {
		return word{kind: anything}
	}
	defer func() { k.depth-- }()
	x := expander{k, st}
	c := &call{k: k, st: st}
	argv := x.list(e.Args)
	for i, w := range argv { // without a word, those behind it have other places
		if w.gone && w.kind <= digits && argv[0].text != "[" && argv[0].text != "test" && argv[0].text != "echo" {
			argv[i] = word{kind: anything, many: true, env: w.env, net: w.net}
		}
	}
	// An assignment that decides what program runs belongs to this command, and so does its
	// reason; the walker only has the class of all commands.
	class, reasons := k.class, len(k.why)
	k.class = ReadOnly // to see what the assignments raise
	restore := x.assigns(e.Assigns, argv)
	if k.class > ReadOnly {
		why := "sets a variable that changes what runs" // if the reason itself is known already
		if len(k.why) > reasons {
			why = k.why[len(k.why)-1]
		}
		c.raise(k.class, why)
	}
	k.class = max(k.class, class)
	stdin := st.stdin
	c.redirects(redirs)
	if len(argv) > 0 {
		c.out = word{kind: anything}
		c.run(argv)
	}
	restore()
	st.stdin = stdin
	// After exec <file, the rest of the script reads that file.
	if c.keepStdin {
		st.stdin = word{kind: anything, env: stdin.env, net: stdin.net}
	}
	c.done()
	// Output that goes to a file does not come out of the pipe.
	if c.captured {
		return word{}
	}
	return c.out
}

// assigns makes the assignments in front of a command; restore takes them back. Without a
// command they stay. A variable in front of a command is given to the program alone, which
// may be told by it to run or load something: so only those that hands knows are let
// through.
func (x expander) assigns(list []*syntax.Assign, argv []word) (restore func()) {
	before := maps.Clone(x.st.vars)
	for _, a := range list {
		if a.Name == nil {
			x.k.raise(NeedsApproval, "is for another shell")
			continue
		}
		name := a.Name.Value
		// while IFS= read -r f is how careful scripts read lines.
		if len(argv) > 0 && name == "IFS" && argv[0].text == "read" && x.k.declared["read"] == 0 {
			x.single(a.Value) // it holds for the splitting of what is read
			continue
		}
		v := x.assignment(a)
		if len(argv) > 0 && !hands(name, v) {
			x.k.raise(NeedsApproval, "sets a variable for a program: "+name)
		}
	}
	return func() {
		for _, a := range list {
			if a.Name == nil || len(argv) == 0 {
				continue
			}
			if v, ok := before[a.Name.Value]; ok {
				x.st.vars[a.Name.Value] = v
			} else {
				delete(x.st.vars, a.Name.Value)
			}
		}
	}
}

// assignment makes name=value; of anything else only the commands in it count.
func (x expander) assignment(a *syntax.Assign) word {
	v := word{kind: anything, many: true, env: true}
	switch {
	case a.Array != nil:
		for _, e := range a.Array.Elems {
			x.arith(e.Index)
			if e.Value != nil {
				x.list([]*syntax.Word{e.Value})
			}
		}
	// The result of += depends on the value before it, and on whether the variable was
	// declared a number.
	case a.Index != nil || a.Append:
		x.arith(a.Index)
		x.single(a.Value)
	default:
		// PATH=~/bin:~/go expands both (bash(1), Tilde Expansion).
		v = x.tilde(a.Value)
	}
	x.assign(a.Name.Value, v)
	return v
}

// tilde expands a value, in which a tilde also counts after a colon.
func (x expander) tilde(w *syntax.Word) word {
	v := x.single(w)
	if strings.Contains(v.text, ":~") {
		v.kind = anything
	}
	return v
}

// redirects notes what the redirections read and write, and sets what stdin has.
func (c *call) redirects(list []*syntax.Redirect) {
	for _, r := range list {
		if c.k.steps > maxSteps {
			return
		}
		c.redirect(r)
	}
}

// redirect notes one redirection. The word behind the operator may be several after
// expansion, of which bash refuses all but one.
func (c *call) redirect(r *syntax.Redirect) {
	x := expander{c.k, c.st}
	// {fd}>file opens a descriptor of the shell's choice and sets fd to its number.
	if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
		x.target(word{text: strings.Trim(r.N.Value, "{}")}, word{text: "1", kind: digits})
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		c.here(r.Hdoc)
		c.st.stdin = x.heredoc(r)
		return
	case syntax.WordHdoc:
		c.here(r.Word)
		c.st.stdin = x.single(r.Word)
		c.st.stdin.text += "\n"
		return
	}
	for _, b := range x.braces(r.Word) {
		words := x.fields(b)
		if len(words) == 0 { // an error for bash, a file without a name for dash
			c.raise(NeedsApproval, "redirects to nothing")
		}
		for _, w := range words {
			c.redirectTo(r, w)
		}
	}
}

// here asks for what a command printed in a here-document: bash hands more than a pipe
// takes on in a temporary file. The output would then lie in /tmp for a while.
func (c *call) here(w *syntax.Word) {
	if w == nil {
		return
	}
	syntax.Walk(w, func(n syntax.Node) bool {
		_, printed := n.(*syntax.CmdSubst)
		if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil {
			printed = c.st.vars[p.Param.Value].kind > digits
		}
		if printed {
			c.raise(NeedsApproval, "hands on what a command printed, which may take a temporary file")
		}
		return true
	})
}

// redirectTo notes a redirection to one word. Which descriptor it is for only matters for
// what a pipe behind the command gets, and for crosses.
func (c *call) redirectTo(r *syntax.Redirect, w word) {
	out := r.N == nil || r.N.Value == "1"
	c.crosses(r, w)
	switch r.Op {
	case syntax.RdrIn:
		c.bounded = true // for files: an endless device asks below, with the name in stdin
		c.read(w)
		c.bounded = false
		c.st.stdin = word{kind: anything}
		if w.from != nil {
			c.st.stdin = *w.from
		}
		if endless[w.text] {
			c.st.stdin.text = w.text
			c.raise(NeedsApproval, "reads without end")
		}
	case syntax.RdrInOut:
		c.read(w)
		c.write(w)
		c.st.stdin = word{kind: anything}
	case syntax.DplIn, syntax.DplOut:
		// 2>&1 copies a descriptor, and 2>&- closes it. With anything else behind it, >& is
		// a file for both outputs.
		if w.kind <= digits && strings.Trim(strings.TrimSuffix(w.text, "-"), "0123456789") == "" {
			return
		}
		if r.Op == syntax.DplIn {
			c.raise(NeedsApproval, "reads what is not known")
			return
		}
		c.captured = c.captured || out
		c.write(w)
	default:
		c.captured = c.captured || out || r.Op == syntax.RdrAll || r.Op == syntax.AppAll
		c.write(w)
	}
}

// crosses asks for a redirection by which a file that is read may get behind a descriptor
// of the output: Linux opens that again to write where a path such as /dev/stdout says so.
// With tee /dev/stdout 1<file, for example, tee writes over the file.
func (c *call) crosses(r *syntax.Redirect, w word) {
	reads := r.Op == syntax.RdrIn || r.Op == syntax.DplIn
	if reads && r.N == nil || r.N != nil && strings.Trim(r.N.Value, "0") == "" {
		return // it stays what comes in
	}
	from := strings.TrimSuffix(w.text, "-")
	switch {
	case r.Op == syntax.RdrIn,
		(r.Op == syntax.DplIn || r.Op == syntax.DplOut) && from != "" && strings.Trim(from, "0") == "":
		c.raise(NeedsApproval, "opens what comes in as another descriptor")
	}
}

// trusted are where the programs of the system are. A name with another directory in front
// of it may be a program of the workspace, which the model may have written.
var trusted = []string{
	"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin",
	"/usr/local/go/bin",
}

// run looks at a command: a function, a builtin or a program.
func (c *call) run(argv []word) {
	if len(argv) == 0 {
		c.raise(NeedsApproval, "runs a command whose name is not known")
		return
	}
	// A wrapper such as timeout runs the rest of its words: rules see both, the outer
	// first.
	if len(c.cmd.Argv) > 0 {
		c.cmd.Outer = append(c.cmd.Outer, c.cmd.Argv)
	}
	c.cmd.Argv, c.cmd.Dynamic = nil, false
	for _, w := range argv {
		text := w.text
		if w.kind > known {
			text, c.cmd.Dynamic = "", true
		}
		c.cmd.Argv = append(c.cmd.Argv, text)
	}
	if !c.k.tick() {
		c.raise(NeedsApproval, "has too many steps")
		return
	}
	// command and builtin in front of a name skip functions, and only for this name.
	nofuncs := c.nofuncs
	c.nofuncs = false
	name := argv[0].text
	if argv[0].kind != known || name == "" {
		c.dynamic(argv)
		return
	}
	if body, ok := c.st.funcs[name]; ok && !nofuncs {
		c.k.invoke(c, body, argv)
		return
	}
	// The function is declared further down, or in a branch that may not have run.
	if c.k.declared[name] > 0 && !nofuncs {
		c.raise(NeedsApproval, "calls what may be a function of the script")
		return
	}
	if dir, base := path.Split(name); dir != "" {
		if !slices.Contains(trusted, strings.TrimRight(dir, "/")) {
			c.code(nil, "runs a program of its own: "+name)
			return
		}
		name = base
	}
	c.program(name, argv)
}

// dynamic is for a command whose name is not known. A pattern may still end with a
// name that tells.
func (c *call) dynamic(argv []word) {
	c.raise(NeedsApproval, "runs a command whose name is not known")
	if w := argv[0]; w.kind == glob {
		if base := path.Base(w.text); !strings.ContainsAny(base, "*?[") {
			c.program(base, argv)
		}
	}
}

// program looks up a name in the tables. Only a program that is in rows may be left as one
// that reads. Its output may reach the model, so a variable among its words may show a
// secret of the environment.
func (c *call) program(name string, argv []word) {
	name = canonical(name)
	if asksVersion(name, argv) {
		return
	}
	p, reads, ok := lookup(name)
	if !ok {
		c.raise(NeedsApproval, "runs a program that is not known: "+name)
		return
	}
	shows := slices.ContainsFunc(argv[1:], func(w word) bool { return w.env && !silent[name] })
	if shows || c.st.stdin.env {
		c.dispute("shows a variable of the environment")
	}
	c.strict = reads
	c.k.runs = c.k.runs || !builtins[name]
	c.byTable(name, p, argv)
	// Only the rows are complete enough to say that a call reads.
	if !reads && c.cmd.Class == ReadOnly {
		c.raise(NeedsApproval, name+" may do more than read")
	}
}

// builtins are those of bash that may run unasked. A script of these alone starts no
// program.
var builtins = set(":", "true", "false", "echo", "printf", "test", "[", "pwd", "cd", "pushd", "popd", "dirs", "type",
	"times", "umask", "exit", "return", "break", "continue", "shift", "set", "export", "readonly", "local", "read", "jobs",
	"command")

// silent are builtins that do not show their arguments, not even in a message. With a variable
// among the words of these, nothing of it comes out.
var silent = set("test", "[", ":", "true", "false", "cd", "export", "local", "readonly", "set")

// asksVersion reports whether a program is only asked what it is. Programs of the rows know
// --version and --help as the GNU coding standards have it. Only those two words count:
// with a third, --version may be the argument of another option.
func asksVersion(name string, argv []word) bool {
	if len(argv) != 2 || argv[1].kind != known || name == "pidof" { // of sysvinit, which writes to the log of the system
		return false
	}
	arg := argv[1].text
	_, row := tables().rows[name]
	return arg == "--version" && (row || versions[name]) || arg == "--help" && row || saysVersion[name+" "+arg]
}
