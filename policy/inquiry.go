package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/patch"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/internal/shell"
)

// An inquiry collects the facts on which the decision about a call depends.
type inquiry struct {
	call    *aycoder.ToolUse
	spec    *aycoder.ToolSpec
	subject string // what the call is about, if has
	has     bool
	edits   bool            // it changes files of the workspace and nothing else
	editors map[string]bool // the tools for this
	class   shell.Class
	why     []string
	script  *shell.Analysis // nil if the call is not a command
	online  bool            // a command gets the network by an argument
	// requested says that the model asks, by an argument, for a command to do more than
	// read, whatever its class.
	requested bool
	world     shell.World
	guarded   []guarded
	named     []string     // the files that a path or a patch names; none if it cannot be read
	files     []string     // see filesOf
	touched   []touched    // files that the commands of a script are known to read or write
	copied    int          // words that copies has looked at
	real      *shell.World // without symbolic links; see below
}

// touched is a file that a command reads, or one that it writes, by its name or by that of what is behind a link.
type touched struct {
	name   string
	writes bool
}

// A guarded file is one that a call touches and that only a rule which names it can allow:
// neither a mode nor any other rule does.
type guarded struct {
	name, how, why string
	never          bool // no rule covers it: none says its name
	own            bool // the tool is there to write it, so who names the tool names it
}

// guard looks at a file that the call reads or writes.
func (q *inquiry) guard(how, name string) {
	why := ""
	switch {
	case ignore.Secret(name):
		why = "it may hold secrets"
	case how == "reads":
		return
	case ignore.Store(name):
		why = "it is what version control keeps for itself"
	default:
		why = ignore.Runs(name)
	}
	if why != "" {
		q.protect(guarded{name: name, how: how, why: why})
	}
}

// never reports whether no rule covers the call.
func (q *inquiry) never() bool {
	return slices.ContainsFunc(q.guarded, func(g guarded) bool { return g.never })
}

// maxGuarded bounds the number of files that a question names.
const maxGuarded = 8

func (q *inquiry) protect(g guarded) {
	if !slices.Contains(q.guarded, g) && len(q.guarded) <= maxGuarded {
		q.guarded = append(q.guarded, g)
	}
}

// look determines the subject, class and guarded files of a call.
func (p *Policy) look(ctx context.Context, call *aycoder.ToolUse, spec *aycoder.ToolSpec) *inquiry {
	q := &inquiry{call: call, spec: spec, world: p.world, editors: p.edits}
	q.world.Dir = q.world.Root
	if p.dir != nil {
		q.world.Dir = q.join(p.dir(ctx))
	}
	p.study(q)
	return q
}

// study fills in an inquiry whose call and world are known.
func (p *Policy) study(q *inquiry) {
	call, spec := q.call, q.spec
	q.subject, q.has = stringArg(call, spec.Subject.Arg)
	switch {
	case spec.Subject.Arg != "" && spec.Subject.Kind == aycoder.SubjectCommand:
		q.command()
		p.guardWrites(q)
	case spec.Subject.Arg != "" && spec.Subject.Kind == aycoder.SubjectPath:
		q.path(p.edits[call.Name])
		if q.has {
			q.named = []string{q.subject}
		}
		p.guardFile(q, q.subject)
	case spec.Subject.Arg != "" && spec.Subject.Kind == aycoder.SubjectPatch:
		q.patch(p.edits[call.Name])
		p.guardArgs(q)
	default:
		q.edits = p.edits[call.Name] && spec.Effect != aycoder.EffectReadOnly
		q.other()
		q.own()
		p.guardArgs(q)
	}
}

// own looks at the one file that a tool writes.
func (q *inquiry) own() {
	name := ignore.Own(q.spec.Subject.File, q.subject)
	if name == "" || q.spec.Effect == aycoder.EffectReadOnly {
		return
	}
	q.named = []string{name}
	q.guard("writes", name)
	for i := range q.guarded {
		q.guarded[i].own = true
	}
}

// join returns the absolute form of a directory, or "" if it is unknown.
func (q *inquiry) join(dir string) string {
	dir = filepath.ToSlash(dir)
	if dir == "" || q.world.Root == "" {
		return dir
	}
	// A name of a root that the workspace does not have is refused there.
	return cmp.Or(q.world.Abs(dir), path.Join(q.world.Root, dir))
}

// stringArg returns an argument of a call that is a string.
func stringArg(call *aycoder.ToolUse, name string) (string, bool) {
	if name == "" {
		return "", false
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(call.Args, &args) != nil {
		return "", false
	}
	var s *string
	if json.Unmarshal(args[name], &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// flagArg reports whether an argument of a call is true. An argument that cannot be decoded
// counts as true, which is the stricter reading.
func flagArg(call *aycoder.ToolUse, name string) bool {
	var args map[string]json.RawMessage
	if json.Unmarshal(call.Args, &args) != nil || args[name] == nil {
		return false
	}
	flag := true
	return json.Unmarshal(args[name], &flag) != nil || flag
}

func (q *inquiry) because(class shell.Class, why string) {
	q.class = max(q.class, class)
	q.why = append(q.why, why)
}

// command looks at a script.
func (q *inquiry) command() {
	if !q.has {
		q.because(shell.NeedsApproval, "runs a command that is not known")
		return
	}
	if dir, ok := stringArg(q.call, "working_dir"); ok && dir != "" {
		q.world.Dir = q.join(dir)
	}
	q.requested = flagArg(q.call, "request_approval")
	q.script = shell.Analyze(q.subject, q.world)
	q.class, q.why = q.script.Class, slices.Clone(q.script.Why)
	if !q.script.Allow && flagArg(q.call, "network") {
		q.online = true
		q.because(shell.Network, "gets the network")
	}
	for i := range q.script.Commands {
		c := &q.script.Commands[i]
		for _, name := range c.Reads {
			q.guard("reads", name)
			q.follow(name, false)
		}
		for _, name := range c.Through {
			q.follow(name, true)
		}
		q.guardWords(c)
		for _, name := range c.Writes {
			q.guard("writes", name)
			to := q.resolve(name)
			q.touched = append(q.touched, touched{name, true}, touched{to, true})
			for _, copied := range q.copies(name, c.Argv) {
				q.guard("writes", copied)
				q.touched = append(q.touched, touched{copied, true})
			}
			if to != name {
				if path.IsAbs(to) && !path.IsAbs(name) {
					c.Class = max(c.Class, shell.WritesOutside)
					q.because(shell.WritesOutside, "writes outside of the workspace by a link")
				}
				n := len(q.guarded)
				q.guard("writes", to)
				for i := range q.guarded[n:] {
					q.guarded[n+i].never = true
				}
			}
		}
	}
}

// follow guards what a command that reads finds behind a symbolic link: the analysis of the
// script knows names only, and nothing else keeps a command from reading. Above a directory that
// is a link, two dots lead to another one than the names say.
func (q *inquiry) follow(name string, above bool) {
	to := q.resolve(name)
	q.touched = append(q.touched, touched{name, false}, touched{to, false})
	switch {
	case path.IsAbs(name) || to == name:
	case path.IsAbs(to) || above:
		q.protect(guarded{name: name, how: "reads", why: "a link in it leads elsewhere"})
	default:
		q.guard("reads", to)
	}
}

// settings are commands that write files of the list without naming them.
var settings = []struct{ words, file string }{
	{"git config", ".git/config"}, {"git submodule", ".gitmodules"}, {"git remote", ".git/config"}, {"git lfs", ".gitattributes"},
	{"git init", ".git/config"}, {"git worktree", ".git/worktrees"}, {"hg config", ".hg/hgrc"}, {"jj config", ".jjconfig.toml"},
	{"npm config", ".npmrc"}, {"npm set", ".npmrc"}, {"pnpm config", ".npmrc"}, {"yarn config", ".yarnrc.yml"},
	{"yarn set", ".yarnrc.yml"}, {"yarn plugin", ".yarn/plugins"}, {"pip config", "pip.conf"}, {"pip3 config", "pip.conf"},
	{"go env -w", ".config/go/env"}, {"go env -u", ".config/go/env"}, {"bundle config", ".bundle/config"}, {"composer config", ".composer"}, {"rustup override", ".rustup"},
	{"crontab", "crontab"}, {"at", "/var/spool/at"}, {"batch", "/var/spool/at"}, {"systemctl", "/etc/systemd"}, {"launchctl", "launchagents"},
	{"pre-commit install", ".git/hooks"}, {"lefthook install", ".git/hooks"}, {"lefthook add", "lefthook.yml"}, {"husky", ".husky"},
	{"npx husky", ".husky"}, {"overcommit", ".git/hooks"}, {"ssh-copy-id", "authorized_keys"}, {"ssh-keygen", ".ssh"},
	{"mise use", "mise.toml"}, {"mise settings", ".config/mise"}, {"asdf", ".tool-versions"}, {"direnv edit", ".envrc"},
	{"code", ".vscode"}, {"claude mcp", ".mcp.json"}, {"gh workflow", ".github/workflows"}, {"chsh", "/etc/passwd"},
	{"update-alternatives", "/usr/bin"}, {"git-lfs", ".gitattributes"},
}

// guardWords guards the files that any word of a command names, unless the command only reads:
// for many programs it is unknown which of their words they read or write.
func (q *inquiry) guardWords(c *shell.Command) {
	if c.Class == shell.ReadOnly || len(c.Argv) == 0 {
		return
	}
	for _, s := range settings {
		if sure, _ := hits(strings.Fields(s.words), c.Argv, c.Dynamic); sure {
			q.guard("writes", s.file)
		}
	}
	if path.Base(c.Argv[0]) == "git" && len(c.Argv) > 1 {
		switch c.Argv[1] {
		case "add", "commit", "diff", "log", "show", "status", "blame", "push":
			return // these name files without writing them
		}
	}
	program := path.Base(c.Argv[0])
	for _, word := range c.Argv[1:] {
		names := []string{word, after(word, "="), after(word, ":"), strings.TrimLeft(word, "-"),
			afterLetter(word)}
		if program != "echo" && program != "printf" { // the word may be a program, as of sed, awk or python
			names = append(names, strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(" \t\n'\"`(){}[]<>|&;,=@", r) })...)
		}
		for _, name := range names {
			if name == "" || len(name) > maxSubject || strings.EqualFold(name, "HEAD") {
				continue
			}
			if ignore.Secret(name) {
				q.guard("may read", name)
				break
			}
			if ignore.Runs(name) != "" {
				q.guard("may write", name)
				break
			}
		}
	}
}

func after(word, sep string) string {
	_, rest, _ := strings.Cut(word, sep)
	return rest
}

// afterLetter returns what is glued to an option of one letter.
func afterLetter(word string) string {
	if len(word) > 2 && word[0] == '-' && word[1] != '-' {
		return word[2:]
	}
	return ""
}

// maxCopied bounds the work for a command that moves very many files, each of which could be a directory for the others.
const maxCopied = 4096

// copies returns the files that a command may create in a directory: they are named after the last elements of its words.
func (q *inquiry) copies(dir string, argv []string) (names []string) {
	// Only these programs put files into a directory under the names they had.
	copying := []string{"cp", "mv", "install", "rsync", "ln", "scp", "wget", "curl", "git", "ditto"}
	if len(argv) == 0 || !slices.Contains(copying, path.Base(argv[0])) {
		return nil
	}
	if q.world.Root != "" {
		if info, err := os.Stat(filepath.FromSlash(q.join(dir))); err == nil && !info.IsDir() {
			return nil
		}
	}
	if q.copied += len(argv); q.copied > maxCopied {
		q.protect(guarded{name: dir, how: "may write into", why: "too many files are named to look at each", never: true})
		return nil
	}
	for _, word := range argv {
		if _, value, ok := strings.Cut(word, "="); ok {
			word = value
		}
		if base := path.Base(word); base != "." && base != ".." && base != "/" {
			names = append(names, path.Join(dir, base))
		}
	}
	return names
}

// resolve follows the symbolic links in the name of a file, which need not exist. The result is
// relative to the workspace if it is inside. No file has a name that is longer than maxSubject.
func (q *inquiry) resolve(name string) string {
	if q.world.Root == "" || len(name) > maxSubject {
		return name
	}
	full, rest := filepath.FromSlash(q.join(name)), ""
	for links := 0; links <= maxLinks; {
		real, err := filepath.EvalSymlinks(full)
		if err == nil {
			return q.below(filepath.Join(real, rest))
		}
		dir := filepath.Dir(full)
		if _, missing := errors.AsType[*fs.PathError](err); !missing || dir == full { // or too many links
			break
		}
		to, err := os.Readlink(full)
		switch {
		case err != nil: // is not there yet
			full, rest = dir, filepath.Join(filepath.Base(full), rest)
			continue
		case filepath.IsAbs(to): // a link to what is not there yet
			full = to
		default:
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				dir = real
			}
			full = filepath.Join(dir, to)
		}
		links++
	}
	return name
}

// maxLinks bounds the links that are followed to what is not there yet, as a system does.
const maxLinks = 40

// below returns a name without links relative to the workspace if it is inside.
func (q *inquiry) below(real string) string {
	if q.real == nil {
		q.real = &shell.World{Root: realPath(q.world.Root), More: map[string]string{}}
		for name, dir := range q.world.More {
			q.real.More[name] = realPath(dir)
		}
	}
	real = filepath.ToSlash(real)
	if rel, ok := q.real.Rel(real); ok {
		return rel
	}
	return real
}

// realPath returns a directory without symbolic links.
func realPath(dir string) string {
	if real, err := filepath.EvalSymlinks(filepath.FromSlash(dir)); err == nil {
		return filepath.ToSlash(real)
	}
	return dir
}

// filesOf returns the files that a call about a path or a patch names, each also as the name
// that its symbolic links lead to: a rule is about files, whatever they are called. It returns
// false for a patch that cannot be read.
func (q *inquiry) filesOf() ([]string, bool) {
	if q.files == nil {
		for _, name := range q.named {
			q.files = append(q.files, name)
			rel, _ := q.relative(name)
			if to := q.resolve(name); to != rel {
				q.files = append(q.files, to)
			}
		}
	}
	return q.files, q.files != nil
}

// patch looks at a call about several files: its effect is that on the one that reaches
// farthest.
func (q *inquiry) patch(edits bool) {
	q.edits = (edits || q.spec.Effect == aycoder.EffectWrite) && !q.spec.OpenWorld && !q.spec.Destructive
	q.other()
	names, ok := patch.Paths(q.subject)
	if ok {
		q.named = names
	}
	if q.spec.Effect == aycoder.EffectReadOnly || !ok { // one that cannot be read does nothing
		q.edits = false
		return
	}
	for _, name := range q.named {
		rel, inside := q.relative(name)
		if !inside {
			q.edits = false
			q.because(shell.WritesOutside, "writes outside of the workspace")
		}
		q.guard("writes", name)
		q.guard("writes", rel)
	}
}

// relative returns a path below the workspace, and reports whether it is one.
func (q *inquiry) relative(name string) (rel string, inside bool) {
	rel = rootpath.Clean(strings.ReplaceAll(name, `\`, "/"))
	if in, ok := q.world.Rel(rel); ok && in != "." {
		rel = in
	}
	drive := len(rel) > 1 && rel[1] == ':'
	return rel, !drive && local(rel)
}

// path looks at a call about a file.
func (q *inquiry) path(edits bool) {
	q.edits = (edits || q.spec.Effect == aycoder.EffectWrite) && !q.spec.OpenWorld && !q.spec.Destructive
	q.other()
	if q.spec.Effect == aycoder.EffectReadOnly || !q.has {
		q.edits = false
		return
	}
	rel, inside := q.relative(q.subject)
	q.guard("writes", rel)
	if q.guarded == nil {
		q.guard("writes", q.subject) // what is guarded above ".." counts too
	}
	if !inside {
		q.edits = false
		q.because(shell.WritesOutside, "writes outside of the workspace")
		return
	}
	// Rules are matched with the path below the workspace. On systems where a backslash is
	// a letter of a name, that name is not the path that it looks like.
	if filepath.Separator == '\\' || !strings.Contains(q.subject, `\`) {
		q.subject = rel
	}
}

// other classes a call by what the tool says of itself.
func (q *inquiry) other() {
	s := q.spec
	if s.OpenWorld || s.Subject.Arg != "" && s.Subject.Kind == aycoder.SubjectURL {
		q.because(shell.Network, "reaches outside of the workspace")
	}
	switch {
	case s.Effect == aycoder.EffectReadOnly:
		return
	case s.Destructive:
		q.because(shell.Destructive, "may destroy what cannot be brought back")
	case q.edits:
		q.because(shell.WritesWorkspace, "changes files of the workspace")
	default:
		q.because(shell.NeedsApproval, "has effects that are not known")
	}
}

// harmless reports whether the call provably only reads, and nothing that is secret.
func (q *inquiry) harmless() bool {
	if q.script != nil {
		return q.script.Allow && q.class == shell.ReadOnly && q.guarded == nil
	}
	return q.class == shell.ReadOnly
}

// writes returns the paths that a command is known to write.
func (q *inquiry) writes() []string {
	var all []string
	for _, c := range q.script.Commands {
		all = append(all, c.Writes...)
	}
	return all
}

// far reports whether the call has, or may have, effects that a text from an untrusted source
// must not cause. A program of the project counts as well, since such a text may have caused a
// change of the program.
func (q *inquiry) far() bool {
	if q.class >= shell.NeedsApproval {
		return true
	}
	if q.script != nil {
		for _, c := range q.script.Commands {
			if len(c.Hosts) > 0 {
				return true
			}
		}
	}
	return false
}
