package shell

import (
	"slices"
	"strings"
)

// find runs through the expression of find: where it starts, and actions that run,
// delete or write.
func find(c *call, argv []word) {
	args := plain(argv, 1)
	i := 0
	for i < len(args) && args[i].kind == known && (args[i].text == "-H" || args[i].text == "-P" ||
		args[i].text == "-L" || strings.HasPrefix(args[i].text, "-O")) {
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

func expression(w word) bool {
	return w.kind == known && (strings.HasPrefix(w.text, "-") && w.text != "-" || w.text == "(" ||
		w.text == "!" || w.text == ")" || w.text == ",")
}

func (c *call) actions(args, starts []word) {
	for i := 0; i < len(args); i++ {
		w := args[i]
		var next word
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch name := w.text; {
		case w.kind > digits && (w.dash() || w.many):
			c.raise(NeedsApproval, "a word that is not known may be an action")
		case findRuns[name]:
			c.k.opaque = true
			n := i + 1
			for n < len(args) && args[n].text != ";" && (args[n].text != "+" || args[n-1].text != "{}") {
				n++
			}
			c.exec(args[i+1:n], starts)
			i = n
		case name == "-delete":
			c.raise(Destructive, "deletes files")
			for _, s := range starts {
				c.remove(s, true)
			}
		case strings.HasPrefix(name, "-fprint") || name == "-fls":
			c.write(next)
			i++
		case name == "-files0-from" || name == "-newer" || name == "-anewer" || name == "-cnewer" ||
			name == "-samefile":
			c.read(next)
			i++
		case name == "-follow":
			c.dispute("follows links out of the workspace")
		case name == "-printf":
			c.out = word{kind: anything, many: true}
			i++
		case findTakes[name]:
			i++
			if next.many {
				c.raise(NeedsApproval, "a word that is not known may be an action")
			}
		}
	}
}

var findRuns = set("-exec", "-execdir", "-ok", "-okdir")

// findTakes are tests with an argument that may look like an action.
var findTakes = set("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-lname", "-ilname")

// exec runs a command with the paths that were found.
func (c *call) exec(argv, starts []word) {
	found := c.names(starts)
	found.nodash = found.kind == listing
	found.many = false
	if found.kind == listing && len(starts) == 1 && starts[0].kind <= token {
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

// fd finds and runs like find.
func fd(c *call, argv []word) {
	args := plain(argv, 1)
	for i, w := range args {
		if w.kind == known && (w.text == "-x" || w.text == "-X" || strings.HasPrefix(w.text, "--exec")) {
			c.k.opaque = true
			c.exec(args[i+1:], nil)
			args = args[:i]
			break
		}
	}
	p := program{use: 'p', spec: fdSpec}
	o := c.options(p, args)
	c.operands(p, o)
	c.out = c.names(plain(o.operands, 1))
}
