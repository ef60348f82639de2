package shell

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// The walker goes through a script as bash would run it, and collects its commands with
// what they do. It runs nothing twice and guesses nothing: a loop is walked once, after all
// is forgotten that its body may change, and branches are joined to what holds in both. Its
// steps and its depth are bounded, since scripts may be made to be expensive.

// A walker collects what the commands of a script do.
type walker struct {
	world    World
	handlers map[string]func(*call, []word)
	declared map[string]int // how often each function is declared anywhere
	called   map[string]bool
	counters map[string]bool // the variables of this script that are only numbers
	sites    map[string]int  // in how many places a variable is set, anywhere
	roams    bool            // a function changes the directory
	anywhere bool            // a command sets a variable that it does not name
	lang     syntax.LangVariant
	handed   string   // says that a variable was set that may be in the environment; "" if none was
	runs     bool     // a program runs that gets the environment
	active   []string // the functions that are being called
	locals   []string // the variables that end with the function
	left     bool     // a return, break or continue was met

	cmds     []Command
	class    Class
	why      []string
	disputed bool
	deny     bool
	opaque   bool
	fetched  bool // a command before may have written what came from the network
	connects bool // a program passes on what comes in over a connection, and sends what it gets
	obeys    bool // a shell takes its commands from what is not known
	steps    int
	depth    int
}

// raise is for what no command is to blame for: the form of the script, its bounds.
func (k *walker) raise(c Class, why string) {
	k.class = max(k.class, c)
	k.because(why)
}

// dispute keeps a script that only reads from being allowed.
func (k *walker) dispute(why string) {
	k.disputed = true
	k.because(why)
}

// because keeps a reason. There are at most 16, so that a report of a long script stays
// short. A reason that was given before says nothing new, however many commands it applies
// to.
func (k *walker) because(why string) {
	if len(k.why) < 16 && !slices.Contains(k.why, why) {
		k.why = append(k.why, why)
	}
}

// tick counts a step and reports whether there are any left. Unrolled loops and calls of
// functions multiply the work, so it is not bounded by the length of the script.
func (k *walker) tick() bool {
	k.steps++
	if k.steps > maxSteps {
		k.raise(NeedsApproval, "has too many steps")
		return false
	}
	return true
}

// enter goes a level deeper, and reports whether that is allowed.
func (k *walker) enter() bool {
	if k.depth >= maxDepth {
		k.raise(NeedsApproval, "is nested too deep")
		return false
	}
	k.depth++
	return true
}

// stmts walks statements in a row. Their output is known only if there is a single one. The
// output of several could be joined, but a script that is fed to a shell from more than one
// command is not worth that.
func (k *walker) stmts(list []*syntax.Stmt, st *state) word {
	out := word{kind: anything}
	for _, s := range list {
		out = k.stmt(s, st)
	}
	if len(list) != 1 {
		return word{kind: anything}
	}
	return out
}

// stmt walks a statement.
func (k *walker) stmt(s *syntax.Stmt, st *state) word {
	if !k.tick() {
		return word{kind: anything}
	}
	if len(s.Redirs) > 0 {
		return k.redirected(s, st)
	}
	return k.bare(s, st)
}

// redirected walks a statement with redirections. If one of them fails, as that to read a file
// which does not exist, the statement does not run, and the script goes on.
func (k *walker) redirected(s *syntax.Stmt, st *state) word {
	before := st.clone()
	out := k.bare(s, st)
	went := st.went
	before.join(st)
	*st = *before
	st.went = went
	return out
}

// bare walks a statement as if its redirections succeed.
func (k *walker) bare(s *syntax.Stmt, st *state) word {
	st.went = nil
	// In the background it has a separate state, and goes on when the script has ended. The rest
	// of the script does not see its changes, such as that of the directory.
	if s.Background {
		st = st.clone()
		k.dispute("goes on in the background")
	}
	var out word
	if c, ok := s.Cmd.(*syntax.CallExpr); ok {
		out = k.simple(c, s.Redirs, st)
	} else {
		out = k.compound(s, st)
	}
	if s.Negated || !tells(s.Cmd) {
		st.went = nil
	}
	return out
}

// tells reports whether the success of a command says where the script is. It does for cd and
// for lists of it; any other succeeds wherever it runs, and has cleared what a cd in it said.
func tells(cmd syntax.Command) bool {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return true
	case *syntax.BinaryCmd:
		return c.Op == syntax.AndStmt
	}
	return false
}

// compound walks a statement that is not a simple command. The redirections of a block
// hold for all commands in it, and are opened before the first.
func (k *walker) compound(s *syntax.Stmt, st *state) word {
	if len(s.Redirs) == 0 {
		return k.command(s.Cmd, st)
	}
	c := &call{k: k, st: st}
	stdin := st.stdin
	c.redirects(s.Redirs)
	c.done()
	out := k.command(s.Cmd, st)
	st.stdin = stdin
	if c.captured {
		return word{}
	}
	return out
}

// command walks what is not a simple command. The form of the script says which of these
// may run unasked; here only their commands and what they change count.
func (k *walker) command(cmd syntax.Command, st *state) word {
	if !k.enter() {
		return word{kind: anything}
	}
	defer func() { k.depth-- }()
	if st.stdin.kind == known { // commands in there may take a part of it each
		st.stdin = word{kind: anything, env: st.stdin.env, net: st.stdin.net}
	}
	if _, list := cmd.(*syntax.BinaryCmd); st.stdin.kind == listing && !list {
		stdin := st.stdin
		defer func() { st.stdin = stdin }()
		st.stdin.shared = true
	}
	switch c := cmd.(type) {
	case *syntax.Subshell:
		// A subshell keeps what it changes to itself.
		return k.stmts(c.Stmts, st.clone())
	case *syntax.Block:
		return k.stmts(c.Stmts, st)
	case *syntax.BinaryCmd:
		return k.binary(c, st)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return k.stmt(c.Stmt, st)
		}
	case *syntax.IfClause:
		k.ifClause(c, st)
	case *syntax.WhileClause:
		k.loop(st, slices.Concat(c.Cond, c.Do), func(st *state) {
			k.stmts(c.Cond, st)
			k.stmts(c.Do, st)
		})
	case *syntax.ForClause:
		k.forClause(c, st)
	case *syntax.CaseClause:
		k.caseClause(c, st)
	case *syntax.FuncDecl:
		k.declare(c, st)
	default:
		k.rare(cmd, st)
	}
	return word{kind: anything}
}

// rare are the commands that run no others but in substitutions. That the others ask is for
// the form of the script to say.
func (k *walker) rare(cmd syntax.Command, st *state) {
	x := expander{k, st}
	switch c := cmd.(type) {
	case *syntax.ArithmCmd:
		x.arith(c.X)
	case *syntax.LetClause:
		for _, e := range c.Exprs {
			x.arith(e)
		}
	case *syntax.TestClause:
		x.test(c.X)
	case *syntax.DeclClause:
		k.declClause(c, st)
	case *syntax.CoprocClause:
		k.stmt(c.Stmt, st.clone())
	}
}

// binary walks a && b, a || b and pipes. The changes of b may have happened or not, so both
// states are joined.
func (k *walker) binary(c *syntax.BinaryCmd, st *state) word {
	switch c.Op {
	case syntax.AndStmt:
		k.stmt(c.X, st)
		left := st.clone()
		st.succeeded()
		k.stmt(c.Y, st)
		st.succeeded()
		went := st.dirs
		left.join(st)
		*st = *left
		st.went = went
		return word{kind: anything}
	case syntax.OrStmt:
		k.stmt(c.X, st)
		right := st.clone()
		k.stmt(c.Y, right)
		if right.ends { // cd x || exit leaves only the success
			st.succeeded()
		}
		right.join(st)
		*st = *right
		return word{kind: anything}
	}
	return k.pipe(c, st)
}

// pipe walks both sides as separate shells, as bash does without lastpipe.
func (k *walker) pipe(c *syntax.BinaryCmd, st *state) word {
	left, right := st.clone(), st.clone()
	out := k.stmt(c.X, left)
	right.stdin = out
	// A command that prints nothing that is known may still let its own input through.
	if out == (word{}) {
		right.stdin = word{kind: anything}
	}
	return k.stmt(c.Y, right)
}

// ifClause walks both branches from the state after the condition, and joins them.
func (k *walker) ifClause(c *syntax.IfClause, st *state) {
	if len(c.Cond) == 0 { // else
		k.stmts(c.Then, st)
		return
	}
	k.stmts(c.Cond, st)
	other := st.clone()
	k.stmts(c.Then, st)
	if c.Else != nil {
		k.ifClause(c.Else, other)
	}
	st.join(other)
}

// caseClause walks each branch from the state before, and joins them with the case that
// none matches. Which pattern matches is not decided, even where it could be.
func (k *walker) caseClause(c *syntax.CaseClause, st *state) {
	x := expander{k, st}
	x.single(c.Word)
	before := st.clone()
	for _, item := range c.Items {
		branch := before.clone()
		x := expander{k, branch}
		for _, p := range item.Patterns {
			x.single(p)
		}
		k.stmts(item.Stmts, branch)
		st.join(branch)
	}
}

// declare remembers a function. One that is defined twice could be either when it is
// called. Its body is walked where it is called, with the directory and the variables of
// that place.
func (k *walker) declare(c *syntax.FuncDecl, st *state) {
	if c.Name == nil || k.declared[c.Name.Value] != 1 {
		k.raise(NeedsApproval, "defines a function more than once")
		k.unknownCall(c.Body, st)
		return
	}
	st.funcs[c.Name.Value] = c.Body
}
