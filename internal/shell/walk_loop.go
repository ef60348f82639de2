package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// loop walks a body once, with what holds in every round: nothing of a variable that is set
// in several places, nor of the directory if the body changes it. A second walk would find
// nothing more: what the first one could change was forgotten before it. The loop may also
// not run at all, so the state before it is joined.
func (k *walker) loop(st *state, body []*syntax.Stmt, walk func(*state)) {
	k.blur(st, body)
	before := st.clone()
	walk(st)
	k.blur(st, body)
	before.join(st)
	*st = *before
}

// blur forgets what statements may change that run several times, or not to their end. A
// number stays a number, since each place that sets a counter makes one.
func (k *walker) blur(st *state, body []*syntax.Stmt) {
	for name, v := range st.vars {
		if k.sites[name] > 1 || k.anywhere {
			st.vars[name] = unsure(v)
		}
	}
	if k.roams || roams(body) {
		st.dirs = nil
	}
}

// roams reports whether statements change the directory of the shell they run in. A name
// that is not a literal may be cd, and command, builtin and eval may run it. A subshell
// moves on its own.
func roams(body []*syntax.Stmt) bool {
	found := false
	for _, s := range body {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Subshell, *syntax.CmdSubst, *syntax.ProcSubst:
				return false
			case *syntax.CallExpr:
				if len(n.Args) > 0 {
					name := plainText(n.Args[0])
					found = found || name == "" || name == "cd" || name == "pushd" || name == "popd" ||
						name == "command" || name == "builtin" || name == "eval"
				}
			}
			return true
		})
	}
	return found
}

// plainText is a word that no expansion changes; "" if one may.
func plainText(w *syntax.Word) string {
	if s := w.Lit(); strings.Trim(s, "~") == s && !strings.ContainsAny(s, `\{}*?[`) {
		return s
	}
	return ""
}

// survey counts in how many places each variable is set, and looks at the functions. It
// goes through the script before the walk, since a loop may use what stands behind it.
func (k *walker) survey(f *syntax.File) {
	k.sites = map[string]int{}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				k.declared[n.Name.Value]++
			}
			k.roams = k.roams || n.Body != nil && roams([]*syntax.Stmt{n.Body})
		case *syntax.Assign:
			if n.Name != nil {
				k.sites[n.Name.Value]++
			}
		case *syntax.WordIter:
			k.sites[n.Name.Value]++
		case *syntax.ParamExp:
			if n.Param != nil && n.Exp != nil {
				k.sites[n.Param.Value]++
			}
		case *syntax.BinaryArithm:
			// Such a value differs from round to round even if there is only one place, so
			// it counts twice.
			if assigns(n.Op) {
				k.sites[literalArith(n.X)] += 2
			}
		case *syntax.UnaryArithm:
			if n.Op == syntax.Inc || n.Op == syntax.Dec {
				k.sites[literalArith(n.X)] += 2
			}
		case *syntax.CallExpr: // read and others have names as words
			reads := len(n.Args) > 0 && (plainText(n.Args[0]) == "read" || plainText(n.Args[0]) == "command")
			for i, w := range n.Args {
				name := plainText(w)
				if i > 0 {
					k.sites[name]++
				}
				// read $x sets a variable that is not named.
				k.anywhere = k.anywhere || name == "" && (i == 0 || reads) && source(w) != "''"
			}
		}
		return true
	})
}

// unrolled is how many values of a loop are looked at one by one. Longer lists are walked
// once, with a value that could be any of theirs.
const unrolled = 16

// forClause walks the body once for each value, as a path in a list may be one that must
// not be read.
func (k *walker) forClause(c *syntax.ForClause, st *state) {
	x := expander{k, st}
	it, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		k.cLoop(c, st)
		return
	}
	items := st.args
	if it.InPos.IsValid() {
		items = x.list(it.Items)
	} else if st.lost {
		items = []word{{kind: anything, many: true}}
	}
	// The body is then judged for a value that may be each of them: mostly one that is not
	// known.
	if len(items) > unrolled {
		all := items[0]
		for _, v := range items[1:] {
			all = all.or(v)
		}
		items = []word{all}
	}
	for _, v := range items {
		v.gone = v.gone && !v.many // for no word there is no round
		v.many, v.bare = false, false
		if v.kind == glob {
			v = k.matched(v, st)
		}
		k.loop(st, c.Do, func(st *state) {
			x := expander{k, st}
			x.assign(it.Name.Value, v)
			k.stmts(c.Do, st)
		})
	}
}

// matched is what a loop over a pattern gets: a path, if the pattern stays inside. Names
// that begin with a dash, which a stranger may have created, are options to most programs;
// so what the pattern begins with is kept in mind.
func (k *walker) matched(v word, st *state) word {
	text := strings.TrimRight(v.text, "/")
	dir := text[:strings.LastIndexByte(text, '/')+1]
	if climbs(v.text) || strings.ContainsAny(dir, "*?[") || !k.below(dir, st) || secretGlob(v.text) {
		return word{kind: anything, text: dir}
	}
	return word{kind: listing, text: dir, nodash: !v.dash()}
}

// cLoop walks a loop with counters. The condition and the step may run commands too, in
// each round.
func (k *walker) cLoop(c *syntax.ForClause, st *state) {
	if l, ok := c.Loop.(*syntax.CStyleLoop); ok {
		x := expander{k, st}
		x.arith(l.Init)
		k.loop(st, c.Do, func(st *state) {
			x := expander{k, st}
			x.arith(l.Cond)
			k.stmts(c.Do, st)
			x.arith(l.Post)
		})
	}
}
