// Package shell says what a bash script would do, without running it.
//
//	a := shell.Analyze("git log | head", shell.World{Dir: dir, Root: dir, Home: home})
//	a.Class // ReadOnly
//	a.Allow // true: it may run unasked
//
// A script is parsed, and judged twice. Its form has to be in a grammar that shells read
// alike and in which no value is read again as code. Then the tree is walked the way bash
// would run it, with variables, functions and the working directory as far as they are
// plain to see, and each simple command gets a [Class] by the row of its program: known
// program, known options, known operands. A command that is in no table, cannot be parsed, or
// depends on an unknown value is at least [NeedsApproval]: only what is provably harmless is
// allowed.
//
// Texts are judged, not files: a replaced program or a hostile .git/config is not seen, nor is
// a symbolic link; package policy follows the links in the paths that commands name. A stranger
// can name a file so that a list of names has a path outside behind a space, a quote or a line
// end, which xargs, $(…) and read take for a name; and patterns and grep -R may find links. The
// fence around a command is a sandbox; this is the advice on whether to ask.
package shell

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/rootpath"
	"mvdan.cc/sh/v3/syntax"
)

// Class is what a command does at worst, in ascending severity. The zero value is
// [ReadOnly].
type Class int

// The classes.
const (
	// ReadOnly changes nothing and talks to nobody.
	ReadOnly Class = iota
	// WritesWorkspace creates or changes files below the root.
	WritesWorkspace
	// NeedsApproval has effects that the text does not tell: an unknown program, code
	// of the project, a word that is not known, a script that is not understood.
	NeedsApproval
	// WritesOutside creates or changes files that are not below the root.
	WritesOutside
	// Network talks to other machines, or to a server on this one.
	Network
	// Destructive deletes what may not come back, or ends processes.
	Destructive
	// Escalates gets more power or hides code in data: other users, start files,
	// hooks, settings of agents, variables that load code, options that run commands.
	Escalates
)

var classNames = [...]string{
	"read_only", "writes_workspace", "needs_approval", "writes_outside", "network", "destructive", "escalates",
}

// String returns the name of the class, such as "needs_approval".
func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return "unknown"
	}
	return classNames[c]
}

// ParseClass returns the class of a name that [Class.String] returns, and whether there
// is one.
func ParseClass(name string) (Class, bool) {
	i := slices.Index(classNames[:], name)
	return Class(max(i, 0)), i >= 0
}

// World is where a script runs. The paths are absolute, with forward slashes. An empty
// one is not known, which makes the analysis stricter.
type World struct {
	Dir  string // where the script starts
	Root string // the directory of the workspace
	Home string // the user's home directory
	// More are the further directories of the workspace, by name. Their files have the paths of
	// package rootpath in an analysis.
	More map[string]string
}

// Rel returns the path in the workspace of a clean absolute path, or false.
func (w *World) Rel(p string) (string, bool) {
	if rel, ok := relative(w.Root, p); ok {
		if root, _ := rootpath.Cut(rel); root != "" { // a file of the first directory that looks like one of another
			rel = "./" + rel
		}
		return rel, true
	}
	for name, dir := range w.More {
		if rel, ok := relative(dir, p); ok {
			return rootpath.Join(name, rel), true
		}
	}
	return "", false
}

// Abs returns the absolute path of a path in the workspace, or "" if it has no such directory.
func (w *World) Abs(p string) string {
	if path.IsAbs(p) {
		return p
	}
	name, rest := rootpath.Cut(p)
	root := w.Root
	if name != "" {
		root = w.More[name]
	}
	if root == "" {
		return ""
	}
	return path.Join(root, rest)
}

func relative(root, p string) (string, bool) {
	switch {
	case !below(root, p):
		return "", false
	case p == root:
		return ".", true
	}
	return strings.TrimPrefix(strings.TrimPrefix(p, root), "/"), true
}

// Command is a simple command, without the wrappers in front of it (env, timeout,
// xargs, sudo, sh -c …) where it is certain what they run.
type Command struct {
	Argv    []string // the words; one that is not known is "" and Dynamic is true
	Dynamic bool
	Class   Class
	Why     string   // what made it that class; "" for ReadOnly
	Writes  []string // paths that it is known to write, or patterns of them; relative to the root if below it
	Reads   []string // paths, or patterns of them, that it names to read, as far as known; in the same form
	// Through are the directories that it goes into or through to the one above. If one is a
	// symbolic link, the command is elsewhere than its words say.
	Through []string
	Hosts   []string // names of hosts that it talks to, as far as known
	// Outer are the words with the wrappers in front that were taken off, the outermost
	// first.
	Outer [][]string
}

// Analysis is what is known about a script.
type Analysis struct {
	Class    Class
	Why      []string // what made it that class, or kept it from being allowed
	Commands []Command
	Allow    bool   // provably harmless: it may run unasked
	Deny     bool   // catastrophic: refused, unless a rule allows exactly this
	Dir      string // the working directory afterwards, if all commands succeed; "" if not known

	opaque bool // a program runs other programs by argument: no prefix says what it does
}

// Bounds. The parser is recursive, and a fatal overflow of its stack could not be
// recovered, so what could nest is counted before it is called.
const (
	maxScript = 32 << 10 // bytes
	maxOpen   = 1500     // brackets, operators and words that may nest
	maxSteps  = 2000     // statements and words looked at, loops and calls unrolled
	maxParts  = 256      // parts of a word
	maxDepth  = 24       // scripts in scripts, functions in functions
)

// Analyze classes a script for bash. It returns in bounded time and never nil, however
// the script is made. A script over 32 KiB, or with more than 1,500 brackets and
// operators, is not parsed and needs approval.
func Analyze(script string, w World) (a *Analysis) {
	defer func() {
		if recover() != nil { // a bug here or in the parser must not end the host
			a = &Analysis{
				Class: NeedsApproval, Why: []string{"is not understood"}, opaque: true,
				Commands: []Command{{Dynamic: true, Class: NeedsApproval, Why: "is not understood"}},
			}
		}
	}()
	return analyze(script, w)
}

// analyze is Analyze without the net for panics, for tests.
func analyze(script string, w World) *Analysis {
	k := newWalker(w)
	st := k.start()
	k.source(script, st)
	if k.handed != "" && k.runs { // in whatever order: there are loops
		k.raise(NeedsApproval, k.handed)
	}
	if k.connects && k.obeys { // in whatever order: a pipe with a name may join them
		k.raise(Escalates, "a shell may take its commands from a connection")
	}
	k.cover()
	a := &Analysis{
		Class: k.class, Why: k.why, Commands: k.cmds, Deny: k.deny, opaque: k.opaque,
		Allow: k.class == ReadOnly && !k.disputed,
	}
	if len(st.dirs) > 0 && !strings.ContainsAny(st.dirs[0], "*?[") {
		a.Dir = st.dirs[0]
	}
	return a
}

// cover adds what no command says, so that the commands say all: what is judged by the
// commands alone must not be judged less.
func (k *walker) cover() {
	for _, c := range k.cmds {
		if c.Class >= k.class {
			return
		}
	}
	if k.class > ReadOnly {
		k.cmds = append(k.cmds, Command{Dynamic: true, Class: k.class, Why: k.why[len(k.why)-1]})
	}
}

// newWalker starts without what is not absolute: what is not known can only make the
// analysis stricter.
func newWalker(w World) *walker {
	for _, p := range []*string{&w.Dir, &w.Root, &w.Home} {
		if !strings.HasPrefix(*p, "/") {
			*p = ""
			continue
		}
		*p = path.Clean(*p)
	}
	w.More = maps.Clone(w.More)
	maps.DeleteFunc(w.More, func(_, dir string) bool { return !strings.HasPrefix(dir, "/") || path.Clean(dir) != dir })
	return &walker{world: w, handlers: handlers, declared: map[string]int{}, lang: syntax.LangBash}
}

// source walks a script in the given state and returns what it prints.
func (k *walker) source(script string, st *state) word {
	if why := refuse(script); why != "" {
		k.raise(NeedsApproval, why)
		return word{kind: anything}
	}
	f, err := syntax.NewParser(syntax.Variant(k.lang)).Parse(strings.NewReader(script), "")
	switch {
	case err != nil:
		k.raise(NeedsApproval, "is not a script that bash understands for sure")
		return word{kind: anything}
	case len(f.Stmts) == 0 && strings.TrimSpace(script) == "":
		k.raise(NeedsApproval, "is empty")
		return word{}
	}
	if swallowed().MatchString(script) {
		k.raise(NeedsApproval, "has a backslash that is a part of the character before it in some locales")
	}
	g := &form{text: script, counters: map[string]bool{}}
	if k.depth == 0 { // another shell gets its variables from the environment
		g.counters = counters(f)
	}
	if g.stmts(f.Stmts); g.why != "" {
		k.raise(NeedsApproval, g.why)
	}
	counters, sites := k.counters, k.sites
	k.counters = g.counters
	defer func() { k.counters, k.sites = counters, sites }()
	k.survey(f)
	out := k.stmts(f.Stmts, st)
	if k.depth == 0 {
		k.uncalled(f)
	}
	return out
}
