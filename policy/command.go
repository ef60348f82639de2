package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/shell"
)

// names reports whether the rule's pattern itself names the files that the call touches
// and that no other rule covers.
func (r *rule) names(q *inquiry) bool {
	if len(q.guarded) > maxGuarded {
		return false // there may be more
	}
	for _, g := range q.guarded {
		named := ignore.Names(r.Pattern, g.name) || g.own && !strings.Contains(r.Tool, "*")
		if g.never || !named {
			return false
		}
	}
	return true
}

// exact reports whether an allow rule is the very text of the script.
func (r *rule) exact(q *inquiry) bool {
	return r.Pattern != "" && r.literal && q.has && r.text == trimBlanks(q.subject) && !q.never() &&
		r.connects(q, q.script.Commands) && r.reaches(q.class, nil) && glob.Match(r.Tool, q.call.Name)
}

// reaches reports whether an allow rule goes as far as something of a class that writes
// to the paths. Its class says how far; one that is a command without a star goes as far
// as that command does. With a star, the pattern says nothing about the options and files
// that come in its place, so such a rule stays below a ceiling.
func (r *rule) reaches(class shell.Class, writes []string) bool {
	switch {
	case r.bounded:
		return class <= r.class
	case r.literal && r.Pattern != "":
		return true
	case class == shell.Network:
		return !slices.ContainsFunc(writes, outside)
	}
	return class < shell.WritesOutside
}

// outside reports whether a path that a command writes is not below the workspace.
func outside(name string) bool {
	return path.IsAbs(name) || strings.HasPrefix(name, "~") || name == ".." ||
		strings.HasPrefix(name, "../")
}

// connects reports whether an allow rule holds for commands that get the network by an
// argument. The words of one that needs none do not say so: then the rule's class must.
func (r *rule) connects(q *inquiry, commands []shell.Command) bool {
	switch {
	case !q.online || slices.ContainsFunc(commands, talks):
		return true
	case r.bounded:
		return r.class >= shell.Network
	}
	return r.Pattern == ""
}

func talks(c shell.Command) bool { return c.Class == shell.Network || len(c.Hosts) > 0 }

// exactly reports whether an allow rule is the very text of the script.
func (s *snapshot) exactly(q *inquiry) bool {
	return slices.ContainsFunc(s.rules, func(r rule) bool {
		return r.Action == RuleAllow && r.exact(q)
	})
}

// maxWhy is how many reasons an analysis has at most; there may be more.
const maxWhy = 16

// covered reports whether rules cover each command and redirect of a script that is not
// provably harmless by itself, and names one of them.
func covered(q *inquiry, rules []*rule) (*rule, bool) {
	a := q.script
	if len(a.Commands) == 0 || len(a.Why) >= maxWhy || strays(q) {
		return nil, false
	}
	var first *rule
	explained := map[string]bool{}
	for i := range a.Commands {
		c := &a.Commands[i]
		r, why, ok := coveredCommand(q, c, rules)
		if !ok {
			return nil, false
		}
		if first == nil {
			first = r
		}
		for _, w := range why {
			explained[w] = true
		}
	}
	for _, w := range a.Why { // what kept the script from being allowed and is of no command
		if !explained[w] {
			return nil, false
		}
	}
	return first, first != nil
}

// coveredCommand finds the rule that covers a command, and returns what it explains. A
// command that only reads needs none.
func coveredCommand(q *inquiry, c *shell.Command, rules []*rule) (*rule, []string, bool) {
	var first *rule
	plain := alone(q, c)
	for _, r := range rules {
		if !glob.Match(r.Tool, q.call.Name) || !r.reaches(c.Class, c.Writes) ||
			!r.connects(q, []shell.Command{*c}) {
			continue
		}
		if r.Pattern == "" {
			return r, append(plain.Why, c.Why), true
		}
		if c.Dynamic || !prefixes(r.words, c.Argv) {
			continue
		}
		if why, ok := added(q, c, plain, rules); ok {
			return r, append(why, plain.Why...), true
		}
	}
	return first, nil, c.Class == shell.ReadOnly
}

// alone analyzes the command as if nothing were around it: no wrapper, no assignment,
// no redirect.
func alone(q *inquiry, c *shell.Command) *shell.Analysis {
	if c.Dynamic || len(c.Argv) == 0 {
		return &shell.Analysis{}
	}
	return shell.Analyze(quote(c.Argv), q.world)
}

func quote(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// added reports whether what stands around a command adds nothing to what it does, but
// redirects that rules cover by class. It returns what those explain.
func added(q *inquiry, c *shell.Command, plain *shell.Analysis, rules []*rule) ([]string, bool) {
	class := plain.Class
	var why, writes []string
	for _, p := range plain.Commands {
		writes = append(writes, p.Writes...)
	}
	for _, w := range c.Writes {
		if slices.Contains(writes, w) {
			continue
		}
		to := shell.Analyze(": >"+quote([]string{q.join(w)}), q.world)
		if !slices.ContainsFunc(rules, func(r *rule) bool {
			return r.Pattern == "" && r.bounded && to.Class <= r.class &&
				glob.Match(r.Tool, q.call.Name)
		}) {
			return nil, false
		}
		why, class = append(why, to.Why...), max(class, to.Class)
	}
	known := c.Why == "" || slices.Contains(plain.Why, c.Why) || slices.Contains(why, c.Why)
	return why, known && c.Class <= class
}

// strays reports whether the script may leave the workspace: a rule for a command means
// it there.
func strays(q *inquiry) bool {
	for _, c := range q.script.Commands {
		if len(c.Argv) == 0 || c.Argv[0] != "cd" && c.Argv[0] != "pushd" && c.Argv[0] != "popd" {
			continue
		}
		if c.Dynamic || len(c.Argv) != 2 {
			return true
		}
		to := path.Clean(c.Argv[1])
		if _, ok := q.world.Rel(to); ok {
			continue
		}
		if path.IsAbs(to) || to == ".." || strings.HasPrefix(to, "../") || strings.HasPrefix(to, "-") {
			return true
		}
	}
	return false
}

// prefixes reports whether the words of an allow rule are the command's, or with a star
// at the end its first ones.
func prefixes(words, argv []string) bool {
	if n := len(words); n > 0 && words[n-1] == "*" {
		words = words[:n-1]
		argv = argv[:min(len(argv), len(words))]
	}
	if len(words) != len(argv) {
		return false
	}
	for i, w := range words {
		if !matchText(w, argv[i]) {
			return false
		}
	}
	return true
}

// againstScript reports whether an ask or deny rule covers a command of a script, or the
// pattern of several commands a part of its text.
func (r *rule) againstScript(q *inquiry) (sure, maybe bool) {
	if r.touches(q) {
		return true, false
	}
	if !glob.Match(r.Tool, q.call.Name) {
		return false, false
	}
	if r.several && (!r.bounded || q.class >= r.class) && len(q.subject) <= maxCommand {
		if contains(r.tokens, tokens(q.subject, false)) {
			return true, false
		}
		maybe = contains(r.tokens, tokens(bare.Replace(q.subject), false))
	}
	for _, c := range q.script.Commands {
		if r.bounded && c.Class < r.class && !(q.online && r.class <= shell.Network) {
			continue
		}
		for _, argv := range append(c.Outer, c.Argv) {
			certain, possible := r.hits(argv, c.Dynamic)
			if certain {
				return true, false
			}
			maybe = maybe || possible
		}
	}
	if q.class < shell.NeedsApproval || r.bounded && q.class < r.class {
		return false, maybe
	}
	// Something in it is not understood: then the text counts as well.
	text := r.mentions(q.subject)
	return text && len(q.script.Commands) == 0, maybe || text
}

// touches reports whether a rule for the files of read_file, or of an edit tool, covers one that a command is known to read or
// write: the rule is about the file, and not about the way to it. A directory above, in which a command may search, is not
// covered: it is not known what is read there.
func (r *rule) touches(q *inquiry) bool {
	if r.bounded && q.class < r.class {
		return false
	}
	edits := false
	for name := range q.editors {
		edits = edits || glob.Match(r.Tool, name)
	}
	return slices.ContainsFunc(q.touched, func(f touched) bool {
		return (edits && f.writes || !f.writes && glob.Match(r.Tool, "read_file")) && matchFile(r.Pattern, f.name, false, false)
	})
}

// hits matches the pattern of an ask or deny rule with the beginning of a command, with quotes
// as characters and as a shell reads them.
func (r *rule) hits(argv []string, dynamic bool) (sure, maybe bool) {
	sure, maybe = hits(r.words, argv, dynamic)
	if sure || r.several || slices.Equal(r.tokens, r.words) {
		return sure, maybe
	}
	certain, possible := hits(r.tokens, argv, dynamic)
	return certain, maybe || possible
}

// hits matches the words of an ask or deny rule with the beginning of a command: its
// program in any directory, with options and their operands between the words, with options
// of the rule anywhere. An unknown word may be anything.
func hits(words, argv []string, dynamic bool) (sure, maybe bool) {
	if len(argv) == 0 {
		return false, dynamic
	}
	short := false
	at := []int{0} // where the next word may be
	for i, w := range words {
		if w == "*" && i == len(words)-1 {
			break
		}
		if i > 0 && w[0] == '-' {
			switch {
			case hasOption(argv[1:], w):
			case shortened(argv[1:], w):
				short = true
			default:
				return false, dynamic
			}
			continue
		}
		var next []int
		for _, j := range at {
			if i > 0 {
				j = skipTo(argv, j, w)
			}
			if j < 0 || j >= len(argv) {
				continue
			}
			if dynamic && argv[j] == "" {
				return false, true
			}
			if hitsWord(w, argv[j], i == 0) {
				next = append(next, j+1)
			}
		}
		if at = next; len(at) == 0 {
			return false, dynamic && i > 0 && slices.Contains(argv, "")
		}
	}
	return !short, short
}

// skipTo returns where, from j on, behind options and an operand of each, the word may
// stand, or where the first other word does.
func skipTo(argv []string, j int, w string) int {
	for j < len(argv) && strings.HasPrefix(argv[j], "-") {
		if j++; j+1 < len(argv) && !strings.HasPrefix(argv[j], "-") && !hitsWord(w, argv[j], false) {
			j++
		}
	}
	return j
}

func hitsWord(w, arg string, program bool) bool {
	if program { // in any directory, also if the rule names one
		w, arg = path.Base(w), path.Base(arg)
	}
	return matchText(strings.ToLower(w), strings.ToLower(arg))
}

// hasOption reports whether an option is among the words: of "-rf" each letter, in
// whatever order.
func hasOption(argv []string, w string) bool {
	if slices.ContainsFunc(argv, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return matchText(w, a) || matchText(w, name)
	}) {
		return true
	}
	if strings.HasPrefix(w, "--") || len(w) < 2 || strings.Contains(w, "*") {
		return false
	}
	for _, letter := range w[1:] {
		if !slices.ContainsFunc(argv, func(a string) bool {
			return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") &&
				strings.ContainsRune(a, letter)
		}) {
			return false
		}
	}
	return true
}

// shortened reports whether a long option may be among the words cut short, as many programs take one.
func shortened(argv []string, w string) bool {
	w, _, _ = strings.Cut(w, "=")
	return slices.ContainsFunc(argv, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return len(name) > 2 && strings.HasPrefix(name, "--") && strings.HasPrefix(w, name)
	})
}
