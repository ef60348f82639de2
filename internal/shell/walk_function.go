package shell

import (
	"maps"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// unknownCall walks the body of a function that may be called with anything. Its changes
// count nowhere else: whether it runs is not known.
func (k *walker) unknownCall(body *syntax.Stmt, st *state) {
	inner := st.clone()
	inner.args, inner.lost = nil, true
	k.active = append(k.active, "")
	k.stmt(body, inner)
	k.active = k.active[:len(k.active)-1]
}

// uncalled walks the functions that nothing calls: they do nothing now, but a shell that
// lives on could call them. Hosts keep a shell between calls, and the next script may be
// nothing but the name.
func (k *walker) uncalled(f *syntax.File) {
	syntax.Walk(f, func(n syntax.Node) bool {
		if d, ok := n.(*syntax.FuncDecl); ok && d.Name != nil && !k.called[d.Name.Value] {
			st := k.start()
			st.dirs = nil
			k.unknownCall(d.Body, st)
		}
		return true
	})
}

// invoke walks the body of a function that is called with the words. Each call is walked
// again, since the words and the state differ; the bounds on steps and depth hold for all
// of them together.
func (k *walker) invoke(c *call, body *syntax.Stmt, argv []word) {
	name := argv[0].text
	if k.called == nil {
		k.called = map[string]bool{}
	}
	k.called[name] = true
	if slices.Contains(k.active, name) {
		// :(){ :|:& };: doubles its processes until none can be made any more.
		if forks(body, name) {
			k.deny = true
			c.raise(Destructive, "calls itself over and over, which stops the machine")
			return
		}
		c.raise(NeedsApproval, "calls itself")
		return
	}
	if !k.enter() {
		return
	}
	k.active = append(k.active, name)
	left, locals, vars := k.left, k.locals, maps.Clone(c.st.vars)
	k.left, k.locals = false, nil
	ends := c.st.ends
	args, lost, stdin := c.st.args, c.st.lost, c.st.stdin
	c.st.args, c.st.lost = argv[1:], slices.ContainsFunc(argv, func(w word) bool { return w.many || w.kind == glob })
	c.out = k.stmt(body, c.st)
	// The statements behind a return may not have run.
	if k.left {
		k.blur(c.st, []*syntax.Stmt{body})
		c.st.ends, c.st.went = ends, nil
	}
	for _, name := range k.locals { // the one outside has its value again, or what was set before
		delete(c.st.vars, name)
		if v, ok := vars[name]; ok {
			c.st.vars[name] = word{kind: anything, many: true, env: v.env, net: v.net}
		}
	}
	k.left, k.locals = left, locals
	c.st.args, c.st.lost, c.st.stdin = args, lost, stdin
	k.active = k.active[:len(k.active)-1]
	k.depth--
}

// forks reports whether a body calls the name in the background or in a pipe. A recursion
// without that grows by one process at most, and the depth of the shell ends it.
func forks(body *syntax.Stmt, name string) bool {
	found := false
	syntax.Walk(body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			found = found || n.Background && calls(n, name)
		case *syntax.BinaryCmd:
			found = found || n.Op == syntax.Pipe && (calls(n.X, name) || calls(n.Y, name))
		}
		return !found
	})
	return found
}

// calls reports whether a statement calls a name anywhere.
func calls(s *syntax.Stmt, name string) bool {
	found := false
	syntax.Walk(s, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 && plainText(c.Args[0]) == name {
			found = true
		}
		return !found
	})
	return found
}
