package shell

import (
	"slices"
	"strings"
)

// Options are judged by the row of the program, letter by letter and name by name. The
// invariant: of a program that may run unasked, no word that could be an option is passed
// over. Either the row has it, or the command asks; and a word that is not known is an option
// unless it is seen to begin with something else than a dash.

// A program says what is known of a program.
type program struct {
	class   Class  // the least that it is
	why     string // "" makes one of the class
	spec    string // the options, see below
	use     byte   // what operands are, see below; 0 is 'r'
	sub     bool   // the first operands choose a subcommand, which has its own entry
	long    bool   // options have one dash and a name
	first   bool   // options end with the first operand
	apart   bool   // an option with an argument stands alone, the argument in the next word
	tame    bool   // none of its options does more than read, so any word may be one
	handler string // looks at the arguments instead
}

// A spec is a list of the options that are known, with white space between them. Any other
// one asks, and so does a long one that is cut short: it may mean another tomorrow.
//
//	-abc    are three letters without argument, which may stand together
//	-k=     has an argument
//	-i?     may have one, in the same word
//	-o=w    has an argument, with the effect w
//	-x!e    has none, and the effect e
//	--name, --name=, --name?, … are long options
//
// Effects:
//
//	w  writes the argument           i  changes its operands in place
//	f  the same, unless it is -
//	r  reads the argument            p  gives the pattern, which is then no operand
//	P  the same, from the file that it names
//	x  runs the argument             e  gives power or runs code: Escalates
//	a  needs approval                o  is disputed: reads more than it names
//	n  talks to the network          d  deletes: Destructive
//	W  changes the workspace         O  writes outside
//	C  works in the directory
//
// Uses of operands: r reads them, n does nothing with them, p reads them but for the
// first, which is a pattern, w writes them, d deletes them, D deletes them with all below,
// h are hosts, a may be anything.

// An option is what a spec says of an option.
type option struct {
	name   string // in full
	arg    byte   // '=', '?', '!' or 0
	effect byte   // 0 for none
}

// lookupOption looks up an option by its name with dashes. A long one that is cut short
// has all options that it could be.
func lookupOption(p program, name string) (out []option, exact bool) {
	for t := range strings.FieldsSeq(p.spec) {
		end := strings.IndexAny(t, "=?!")
		o := option{name: t}
		if end > 0 {
			o.name, o.arg = t[:end], t[end]
			if end+1 < len(t) {
				o.effect = t[end+1]
			}
		}
		switch {
		case o.name == name:
			return []option{o}, true
		case end < 0 && !p.long && len(name) == 2 && len(t) > 2 && t[1] != '-' && name[1] != '-' &&
			strings.Contains(t[1:], name[1:]):
			return []option{{name: name}}, true
		case len(name) > 2 && strings.HasPrefix(name, "--") && strings.HasPrefix(o.name, name):
			out = append(out, o)
		}
	}
	return out, false
}

// parsed is what options said.
type parsed struct {
	operands []word
	pattern  bool // an option gave the pattern
	late     bool // an option came after an operand, which some systems take for an operand
	inPlace  bool
	args     map[string]word // the last argument of each option in the spec
	given    []given         // options in the spec, as often as they were given
	flags    []string        // all options; a long one is as it was written, or whole with a = behind
}

// given is an option with its argument.
type given struct {
	name string
	arg  word
}

// has reports whether one of the options was given. A long one may be cut short.
func (o *parsed) has(names ...string) bool {
	for _, f := range o.flags {
		for _, n := range names {
			if f == n || f == n+"=" || len(f) > 2 && strings.HasPrefix(f, "--") && strings.HasPrefix(n, f) {
				return true
			}
		}
	}
	return false
}

// only reports whether no other options were given. A long one that is cut short is another.
func (o *parsed) only(names ...string) bool {
	for _, f := range o.flags {
		if name, _, _ := strings.Cut(f, "="); !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// all returns the arguments of options, in order.
func (o *parsed) all(names ...string) []word {
	var out []word
	for _, g := range o.given {
		if slices.Contains(names, g.name) {
			out = append(out, g.arg)
		}
	}
	return out
}

// keep is the word with another beginning.
func (w word) keep(text string) word {
	w.text, w.from = text, nil
	return w
}

// options goes through the arguments, and notes the effects of options.
func (c *call) options(p program, args []word) *parsed {
	r := &parsed{args: map[string]word{}}
	value := false // w may be the argument of the option before it
	for i := 0; i < len(args); i++ {
		w, isValue := args[i], value
		value = false
		switch {
		case w.kind == known && w.text == "--" && !isValue:
			r.operands = append(r.operands, args[i+1:]...)
			return r
		case w.text != "" && w.text[0] == '-' && (w.text != "-" || w.kind > digits):
			var next *word
			if i+1 < len(args) {
				next = &args[i+1]
			}
			r.late = r.late || len(r.operands) > 0
			into := r
			if isValue { // its effects count, but what others make harmless it does not
				into = &parsed{args: map[string]word{}}
			}
			took := c.option(p, into, w, next)
			value = took && next.dash() // judged as an argument, and as an option
			number := strings.Trim(w.text, "-0123456789") == ""
			if c.strict && (isValue && (took || !number) || took && next.kind == known && next.text == "--") {
				c.raise(NeedsApproval, "the argument of an option may be an option of its own")
			}
			if took && next.many && c.strict && !p.tame {
				c.raise(NeedsApproval, "the argument of an option may be missing")
			}
			if took && !value && !isValue {
				i++
			}
			continue
		case w.dash() && w.kind > known && c.strict && !p.tame && !(isValue && numeric(w)):
			c.raise(NeedsApproval, "a word that is not known may be an option")
		}
		r.operands = append(r.operands, w)
		if p.first {
			r.operands = append(r.operands, args[i+1:]...)
			return r
		}
	}
	return r
}

// option notes an option, and reports whether it takes the next word.
func (c *call) option(p program, r *parsed, w word, next *word) bool {
	whole := p.long || strings.HasPrefix(w.text, "--")
	if w.kind > digits && (w.many || whole && !strings.Contains(w.text, "=")) && c.strict && !p.tame {
		c.raise(NeedsApproval, "an option is not known")
	}
	if whole {
		return c.longOption(p, r, w, next)
	}
	return c.cluster(p, r, w, next)
}

// longOption notes --name, --name=value, or for some programs -name.
func (c *call) longOption(p program, r *parsed, w word, next *word) (took bool) {
	name, value, cut := strings.Cut(w.text, "=")
	if p.long && strings.HasPrefix(name, "--") {
		name = name[1:]
	}
	opts, exact := lookupOption(p, name)
	if !exact {
		c.strange(name)
	} else if cut && opts[0].arg != '=' && opts[0].arg != '?' {
		c.strange(w.text)
	}
	if exact {
		name += "=" // it is not cut short
	}
	r.flags = append(r.flags, name)
	for _, o := range opts {
		arg := word{}
		switch {
		case cut:
			arg = w.keep(value)
		case o.arg == '=' && next != nil:
			arg, took = *next, true
		}
		c.apply(r, o, arg)
	}
	return took
}

// cluster notes options of one letter each, such as -rn or -k2.
func (c *call) cluster(p program, r *parsed, w word, next *word) bool {
	for j := 1; j < len(w.text); j++ {
		name := "-" + w.text[j:j+1]
		r.flags = append(r.flags, name)
		opts, exact := lookupOption(p, name)
		if !exact {
			c.strange(name)
			continue
		}
		o, rest := opts[0], w.keep(w.text[j+1:])
		attached := rest.text != "" || w.kind > digits
		if p.apart && o.arg != 0 && o.arg != '!' && len(w.text) != 2 {
			c.strange(w.text)
		}
		switch {
		case o.arg == '=' && attached, o.arg == '?':
			c.apply(r, o, rest)
			return false
		case o.arg == '=' && next != nil:
			c.apply(r, o, *next)
			return true
		case o.arg == '=':
			c.strange(name)
		}
		c.apply(r, o, word{})
	}
	if w.kind > digits && c.strict && !p.tame {
		c.raise(NeedsApproval, "an option is not known")
	}
	return false
}

// strange notes an option that is not in the table of its program.
func (c *call) strange(name string) {
	if c.strict {
		c.raise(NeedsApproval, "has an option that is not known: "+name)
	}
}

// apply notes an option of the row, and what its effect does with the argument.
func (c *call) apply(r *parsed, o option, arg word) {
	name := o.name
	r.args[name] = arg
	r.given = append(r.given, given{name, arg})
	switch o.effect {
	case 'w':
		c.write(arg)
	case 'f':
		if arg.text != "-" {
			c.write(arg)
		}
	case 'r':
		c.read(arg)
	case 'C':
		c.standsIn(arg)
	case 'p':
		r.pattern = true
	case 'P':
		r.pattern = true
		c.read(arg)
	case 'x':
		c.smuggled(arg)
	case 'i':
		r.inPlace = true
	case 'o':
		c.dispute("reads more than it names: " + name)
	case 'a':
		c.raise(NeedsApproval, "has an option that needs approval: "+name)
	case 'e':
		c.raise(Escalates, "has an option that runs code or gives power: "+name)
	case 'n':
		c.raise(Network, "has an option that talks to the network: "+name)
	case 'd':
		c.raise(Destructive, "has an option that deletes: "+name)
	case 'W':
		c.raise(WritesWorkspace, "has an option that writes: "+name)
	case 'O':
		c.raise(WritesOutside, "has an option that writes outside of the workspace: "+name)
	}
}

// smuggled notes a command that a program runs because an option or an operand says
// so: people do not expect it there.
func (c *call) smuggled(w word) {
	c.k.opaque = true
	if c.k.nested(w, c.st) == Destructive {
		c.raise(Destructive, "a program is told to run a command")
		return
	}
	c.raise(Escalates, "a program is told to run a command")
}

// nested walks a script that another shell runs. Its commands count, what it sets does
// not.
func (k *walker) nested(w word, st *state) Class {
	if w.kind > digits || !k.enter() {
		return ReadOnly
	}
	defer func() { k.depth-- }()
	before, declared := k.class, k.declared
	k.class, k.declared = ReadOnly, map[string]int{}
	inner := st.child()
	inner.lost = true
	k.source(w.text, inner)
	class := k.class
	k.class, k.declared = max(class, before), declared
	return class
}

// child is the state of a shell that this one starts: it knows no variables but those
// of the environment.
func (s *state) child() *state {
	c := s.clone()
	clear(c.vars)
	clear(c.funcs)
	return c
}

// byTable looks at a program with its row.
func (c *call) byTable(name string, p program, argv []word) {
	if p.sub {
		p, argv = c.subcommand(name, p, argv)
	}
	c.row = p
	c.raise(p.class, p.reason(name))
	if h := c.k.handlers[p.handler]; h != nil {
		h(c, argv)
		return
	}
	c.operands(p, c.options(p, argv[1:]))
}

// subcommand finds the entry of a subcommand of up to two words, and returns it with
// the words from the last of these on.
func (c *call) subcommand(name string, p program, argv []word) (program, []word) {
	pre := p
	pre.first = true
	rest := c.options(pre, argv[1:]).operands
	if len(rest) == 0 || rest[0].kind != known {
		p.use = 'n'
		return p, argv[:1]
	}
	full := name + " " + rest[0].text
	if len(rest) > 1 && rest[1].kind == known {
		if s, _, ok := lookup(full + " " + rest[1].text); ok {
			return s, rest[1:]
		}
	}
	if s, _, ok := lookup(full); ok {
		if s.sub {
			return c.subcommand(full, s, rest)
		}
		return s, rest
	}
	p.use = 'n'
	return p, rest
}

// operands notes what a program does with its operands.
func (c *call) operands(p program, r *parsed) {
	ops := r.operands
	if p.use == 'p' && !r.pattern && len(ops) > 0 {
		ops = ops[1:]
	}
	if name := base(append(c.cmd.Argv, "")[0]); p.use != 'n' && len(ops) == 0 && !ownInput[name] || filters[name] ||
		slices.ContainsFunc(ops, func(w word) bool { return w.text == "-" }) {
		c.consumes()
	}
	for _, w := range ops {
		switch {
		case r.inPlace || p.use == 'w':
			c.write(w)
		case p.use == 'd':
			c.remove(w, false)
		case p.use == 'D':
			c.remove(w, true)
		case p.use == 'h':
			c.host(w)
		case p.use == 'a' && w.kind > known:
			c.raise(NeedsApproval, "has an argument that is not known")
		case p.use == 'n' || p.use == 'a':
		default:
			c.read(w)
		}
	}
	if r.inPlace && len(ops) == 0 {
		c.raise(WritesWorkspace, "changes files in place")
	}
}

// reason says in words what the class of a program means for people who are asked.
func (p program) reason(name string) string {
	if p.why != "" {
		return p.why
	}
	switch p.class {
	case WritesWorkspace:
		return name + " writes files"
	case NeedsApproval:
		if tables().others[before(name, " ")].sub {
			return name + " may run code of the project"
		}
		return name + " may do more than read"
	case WritesOutside:
		return name + " writes outside of the workspace"
	case Network:
		return name + " talks to the network"
	case Destructive:
		return name + " deletes or ends things"
	case Escalates:
		return name + " gives power or changes the system"
	}
	return ""
}

// host notes a host by a URL, user@host, host:path or a name.
func (c *call) host(w word) {
	if w.kind > digits && w.kind != glob {
		return
	}
	s := w.text
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
		s, _, _ = strings.Cut(s, "/")
	}
	s = s[strings.LastIndexByte(s, '@')+1:]
	s, _, _ = strings.Cut(s, "/")
	if !strings.HasPrefix(s, "[") {
		s, _, _ = strings.Cut(s, ":")
	} else if i := strings.IndexByte(s, ']'); i > 0 {
		s = s[1:i]
	}
	if s != "" && !strings.ContainsAny(s, "*?") {
		c.cmd.Hosts = append(c.cmd.Hosts, strings.ToLower(s))
	}
}
