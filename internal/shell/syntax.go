package shell

import (
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/aycoder/aycoder/internal/late"
)

// A script is judged twice: here by its form, in the walker by what its commands do.
//
// The form is positive. The grammar below is what the parser and bash are known to read
// alike, and in which no value is ever read again as code: words, pipes, lists, loops
// over words, conditions, functions, and arithmetic on numbers. Each node of the tree has
// to be one of these; anything else asks, also if it would be harmless: arrays,
// references, attributes, indirect names, prompts, patterns that depend on options of the
// shell. The invariant is that a part that only looks like data here is data for bash.
//
// The rules come from the manual of bash 5.2 (SHELL GRAMMAR, EXPANSION, ARITHMETIC
// EVALUATION, CONDITIONAL EXPRESSIONS); where a comment names dash, from its manual.

// A form judges the form of one script. Why says what is wrong with it; "" if nothing is.
type form struct {
	text     string
	counters map[string]bool // variables that are only ever set to numbers
	why      string
	heredocs int
	depth    int // of substitutions
}

// refuse keeps the first reason, which is the one to show.
func (g *form) refuse(why string) {
	if g.why == "" {
		g.why = why
	}
}

// stmts stops at the first part that is outside of the grammar, so its time is bounded by
// the script. A coprocess and a disowned job outlive the script; the walker could not say
// what they do then.
func (g *form) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		if g.why != "" {
			return
		}
		if s.Coprocess || s.Disown {
			g.refuse("runs a command beside the shell")
		}
		for _, r := range s.Redirs {
			g.redirect(r)
		}
		g.command(s.Cmd)
	}
}

// command is the heart of the grammar: which kinds of commands there are. A new kind of
// node of the parser asks by default.
func (g *form) command(cmd syntax.Command) {
	switch c := cmd.(type) {
	// An empty command still creates the files that it redirects to: the walker sees these.
	case nil: // only redirects
	case *syntax.CallExpr:
		for _, a := range c.Assigns {
			g.assign(a)
		}
		g.words(c.Args)
	case *syntax.Subshell:
		// bash first tries to read (( as arithmetic.
		if inner, ok := firstOf(c.Stmts).(*syntax.Subshell); ok && inner.Lparen.Offset() == c.Lparen.Offset()+1 {
			g.refuse("has brackets that are arithmetic for some")
		}
		g.stmts(c.Stmts)
	case *syntax.Block:
		g.stmts(c.Stmts)
	case *syntax.BinaryCmd:
		g.stmts([]*syntax.Stmt{c.X, c.Y})
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			g.stmts(c.Cond)
			g.stmts(c.Then)
		}
	case *syntax.WhileClause:
		g.stmts(c.Cond)
		g.stmts(c.Do)
	case *syntax.ForClause:
		g.loop(c)
	case *syntax.CaseClause:
		g.word(c.Word)
		for _, i := range c.Items {
			g.words(i.Patterns)
			g.stmts(i.Stmts)
			if i.Op != syntax.Break {
				g.refuse("falls through cases")
			}
		}
	case *syntax.FuncDecl:
		if c.Name == nil || !identifier(c.Name.Value) || c.Body == nil {
			g.refuse("defines a function with an odd name")
			return
		}
		g.stmts([]*syntax.Stmt{c.Body})
	case *syntax.ArithmCmd:
		g.number(c.X)
		if c.Unsigned {
			g.refuse("has arithmetic of another shell")
		}
	case *syntax.TestClause:
		g.test(c.X)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			g.stmts([]*syntax.Stmt{c.Stmt})
		}
	case *syntax.DeclClause:
		g.declare(c)
	default: // let, select, coproc, bats, …
		g.refuse("has a construct that is not in the grammar of harmless scripts")
	}
}

// firstOf is the first command of a list, nil if there is none. In $((…)) and ((…)) only
// the offset of the inner bracket tells what bash reads.
func firstOf(list []*syntax.Stmt) syntax.Command {
	if len(list) == 0 {
		return nil
	}
	return list[0].Cmd
}

// loop admits loops over words, and those of C with counters. A for without a list goes
// over the parameters, which are judged where they are set.
func (g *form) loop(c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		g.words(l.Items)
	case *syntax.CStyleLoop:
		for _, e := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			if e != nil {
				g.number(e)
			}
		}
	default:
		g.refuse("has a loop that is not understood")
	}
	// select prints a menu and waits; for …; { … } is not POSIX and old shells read it
	// differently.
	if c.Select || c.Braces {
		g.refuse("asks the user, or has a loop in braces")
	}
	g.stmts(c.Do)
}

// declare admits export and local of plain strings. With an option they give attributes, by
// which a later value is evaluated; declare and typeset have no other use. After readonly an
// assignment fails, and bash goes on in the next line.
func (g *form) declare(c *syntax.DeclClause) {
	if v := c.Variant.Value; v != "export" && v != "local" {
		g.refuse("declares variables with attributes")
	}
	for _, a := range c.Args {
		if a.Name == nil {
			if w := a.Value; w == nil || w.Lit() != "-p" {
				g.refuse("declares variables with attributes")
			}
			continue
		}
		g.assign(a)
	}
}

// assign admits name=word. A subscript is evaluated, and += on a number is too.
func (g *form) assign(a *syntax.Assign) {
	if a.Name == nil || a.Index != nil || a.Array != nil || a.Append {
		g.refuse("assigns to an array, or adds to a value")
		return
	}
	if a.Value != nil {
		g.word(a.Value)
	}
}

var plainEnd = late.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

// redirect admits the redirections that bash and dash read alike. The walker checks the files
// that they read and write.
func (g *form) redirect(r *syntax.Redirect) {
	// In {name}>file bash sets the variable name, which may be one that it uses itself.
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" {
		g.refuse("sets a variable to a descriptor")
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		// Where a here-document ends is for the shell to say: only ends that all shells
		// find alike are taken, one in a script, none in a substitution.
		end := strings.Trim(g.source(r.Word), `'"`)
		if g.heredocs++; g.heredocs > 1 || g.depth > 0 || !plainEnd().MatchString(end) {
			g.refuse("has a here-document whose end is not plain")
		}
		quoted := end != g.source(r.Word)
		if r.Hdoc != nil && !quoted {
			if strings.Contains(g.source(r.Hdoc), `\`) {
				g.refuse("has a backslash in a here-document")
			}
			g.parts(r.Hdoc.Parts, true)
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.DplOut, syntax.RdrClob,
		syntax.WordHdoc, syntax.RdrAll, syntax.AppAll:
		g.word(r.Word)
	default:
		g.refuse("has a redirection that is not understood")
	}
}

// source is the text of a node. A node without a text, or beyond the end of the script,
// gets a backslash: every check of the text refuses that.
func (g *form) source(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if n == nil || from > to || int(to) > len(g.text) {
		return "\\"
	}
	return g.text[from:to]
}

// words goes through words in a row.
func (g *form) words(list []*syntax.Word) {
	for _, w := range list {
		g.word(w)
	}
}

// bracesAlike are the brace expansions that are read: one list of plain texts, or of
// numbers. One without a comma is none.
var bracesAlike = late.Regexp(`^([^{}]*)\{([A-Za-z0-9_./*-]*(,[A-Za-z0-9_./*-]*)+|[0-9]{1,4}\.\.[0-9]{1,4})\}([^{}]*)$`)

// word looks at what only the whole word shows, braces and dollars, and then at its
// parts.
func (g *form) word(w *syntax.Word) {
	if w == nil {
		return
	}
	for i, p := range w.Parts {
		l, ok := p.(*syntax.Lit)
		if !ok {
			continue
		}
		// Braces that expand to nothing else are left: {} of find, and an awk program is in
		// quotes.
		if strings.ContainsAny(l.Value, "{}") && (strings.Contains(l.Value, ",") || strings.Contains(l.Value, "..") ||
			strings.Count(l.Value, "{") != strings.Count(l.Value, "}")) &&
			(len(w.Parts) > 1 || strings.Contains(l.Value, `\`) || !bracesAlike().MatchString(l.Value)) {
			g.refuse("has braces that may expand otherwise")
		}
		// In dash a dollar before a quote is a dollar, so the quote may end elsewhere.
		if strings.HasSuffix(l.Value, "$") && i+1 < len(w.Parts) {
			g.refuse("has a dollar before a quote")
		}
	}
	if end := int(w.End().Offset()); end > 0 && end < len(g.text) && g.text[end-1] >= utf8.RuneSelf && g.text[end] == '|' {
		g.refuse("has a bar that is a part of the character before it in some locales")
	}
	g.parts(w.Parts, false)
}

// parts admits text, quotes, plain variables, substitutions, and arithmetic on numbers. A
// substitution is a separate script in the same grammar. Text in single quotes is data for
// every shell.
func (g *form) parts(list []syntax.WordPart, quoted bool) {
	for _, p := range list {
		if g.why != "" {
			return
		}
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if p.Dollar {
				g.refuse("has a string that is translated")
			}
			g.parts(p.Parts, true)
		case *syntax.ParamExp:
			g.param(p, quoted)
		case *syntax.CmdSubst:
			g.substitution(p)
		case *syntax.ArithmExp:
			if p.Bracket || p.Unsigned {
				g.refuse("has arithmetic of another shell")
			}
			g.number(p.X)
		// >(command) runs beside the script and may end after it.
		case *syntax.ProcSubst:
			if p.Op != syntax.CmdIn {
				g.refuse("writes to a command")
			}
			g.depth++
			g.stmts(p.Stmts)
			g.depth--
		default: // extended patterns, which depend on an option of the shell
			g.refuse("has a pattern that depends on options of the shell")
		}
	}
}

// substitution admits $(…) and simple backquotes. Bash looks for arithmetic first where
// two brackets meet.
func (g *form) substitution(c *syntax.CmdSubst) {
	if c.TempFile || c.ReplyVar {
		g.refuse("has a substitution of another shell")
	}
	if inner, ok := firstOf(c.Stmts).(*syntax.Subshell); ok && inner.Lparen.Offset() == c.Left.Offset()+2 {
		g.refuse("has brackets that are arithmetic for some")
	}
	// In backquotes a backslash is taken off before the script is read.
	if c.Backquotes && strings.ContainsAny(g.source(c), `\"'`) {
		g.refuse("has quotes in backquotes")
	}
	g.depth++
	g.stmts(c.Stmts)
	g.depth--
}

// operators are the expansions that look at a value without reading it as code. Not
// among them: ${x:=y}, which assigns; ${!x}, a name in a value; ${x@P}, a prompt with
// commands in it; the other @ forms.
var operators = []syntax.ParExpOperator{
	syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
	syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.RemSmallPrefix, syntax.RemLargePrefix,
	syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst,
	syntax.LowerAll,
}

// param admits a plain variable with an operator that only looks at it. Subscripts,
// indirection and transformations evaluate.
func (g *form) param(p *syntax.ParamExp, quoted bool) {
	if p.Param == nil || p.NestedParam != nil || p.Flags != nil || p.Width || p.IsSet || p.Excl || p.Names != 0 ||
		p.Index != nil || len(p.Modifiers) > 0 {
		g.refuse("expands more than a plain variable")
		return
	}
	switch {
	// The offsets of ${x:1:2} are arithmetic.
	case p.Slice != nil:
		g.number(p.Slice.Offset)
		g.number(p.Slice.Length)
		if p.Slice.Length != nil && !digitsOnly(literalArith(p.Slice.Length)) && g.lines() {
			g.refuse("has arithmetic that may fail") // an end in front of the beginning is an error
		}
	case p.Repl != nil:
		g.inner(p.Repl.Orig, quoted)
		g.inner(p.Repl.With, quoted)
	case p.Exp != nil:
		if !slices.Contains(operators, p.Exp.Op) {
			g.refuse("expands a variable in a way that may run or set something")
		}
		g.inner(p.Exp.Word, quoted)
	}
}

// inner is a word in an expansion. Shells and versions differ in how they read quotes
// and backslashes there, so it may only have plain text and plain variables.
func (g *form) inner(w *syntax.Word, quoted bool) {
	if w == nil {
		return
	}
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "'\"\\`$") {
				g.refuse("has quotes in an expansion")
			}
		case *syntax.ParamExp:
			g.param(p, quoted)
		default:
			g.refuse("has more than plain text in an expansion")
		}
	}
}

// test admits the operators of [[ … ]] that look at strings and files, and comparisons of
// numbers. Not -v and -R, which evaluate a subscript in a name. Regular expressions and
// patterns on the right are only compared.
func (g *form) test(e syntax.TestExpr) {
	switch e := e.(type) {
	case *syntax.BinaryTest:
		switch e.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{e.X, e.Y} {
				if w, ok := side.(*syntax.Word); !ok || !g.isNumber(w) {
					g.refuse("evaluates more than numbers and counters")
				}
			}
			return
		case syntax.TsReMatch: // parsers differ in where an unquoted pattern ends
			if w, ok := e.Y.(*syntax.Word); !ok || strings.ContainsAny(w.Lit(), "()|;&<> \\`") {
				g.refuse("has a pattern that may end elsewhere")
			}
		}
		g.test(e.X)
		g.test(e.Y)
	case *syntax.UnaryTest:
		if e.Op == syntax.TsVarSet || e.Op == syntax.TsRefVar {
			g.refuse("tests a variable by its name")
		}
		g.test(e.X)
	case *syntax.ParenTest:
		g.test(e.X)
	case *syntax.Word:
		g.word(e)
	default:
		g.refuse("has a test that is not understood")
	}
}
