package shell

import (
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/late"
)

// Git has its own grammar: options, a subcommand, its options, revisions and paths. Rows say
// which subcommands read and with which options; the functions here are for those that read
// with some words and write with others. Settings given by -c run programs in many ways, so
// only those that change colours and formats are let through.

// git looks at the options before the subcommand, then at that. They hold for whatever the
// subcommand is, so none is passed over: git -c core.pager=… log runs a program, and -C
// reads the configuration of another repository, which may do the same.
func git(c *call, argv []word) {
	args := plain(argv, 1)
	i := 0
	for ; i < len(args) && strings.HasPrefix(args[i].text, "-"); i++ {
		w := args[i]
		var next word
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case w.kind > digits:
			c.raise(NeedsApproval, "an option is not known")
		case w.text == "-C":
			c.standsIn(next)
			i++
		case w.text == "-c":
			c.gitSetting(next)
			i++
		case strings.HasPrefix(w.text, "-c"):
			c.gitSetting(w.keep(w.text[2:]))
		// The value comes from a variable, so nobody who reads the command sees it.
		case strings.HasPrefix(w.text, "--config-env"):
			c.raise(Escalates, "sets what the environment says")
		// The subcommands are programs in that directory.
		case strings.HasPrefix(w.text, "--exec-path="):
			c.raise(Escalates, "runs other programs under the name of git")
		case strings.HasPrefix(w.text, "--git-dir") || strings.HasPrefix(w.text, "--work-tree") ||
			strings.HasPrefix(w.text, "--namespace") || strings.HasPrefix(w.text, "--super-prefix"):
			if c.raise(NeedsApproval, "uses another repository"); !strings.Contains(w.text, "=") {
				i++
			}
		case !gitTame[w.text]:
			c.raise(NeedsApproval, "has an option that needs approval: "+w.text)
		case w.text == "--version" || w.text == "-v" || w.text == "--exec-path" || w.text == "--html-path":
			return
		}
	}
	if i < len(args) {
		c.gitCommand(args[i:])
	}
}

// gitTame are the options before the subcommand that change neither the repository nor the
// programs (git(1), OPTIONS). The last four of them print something and end git.
var gitTame = set("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--glob-pathspecs",
	"--noglob-pathspecs", "--icase-pathspecs",
	"--no-replace-objects", "--version", "-v", "--exec-path", "--html-path")

// standsIn notes -C of git, go and cargo. The directory holds for this call only; another
// repository or module has another configuration, which may run programs.
func (c *call) standsIn(w word) {
	st := *c.st
	st.dirs = nil
	if w.kind > digits {
		c.raise(NeedsApproval, "works in a directory that is not known")
	} else {
		c.goes(w.text)
		st.dirs = resolve(w.text, c.st.dirs)
	}
	if w.kind > digits || !c.k.below(w.text, c.st) {
		c.dispute("reads outside of the workspace")
	}
	c.st = &st
}

// gitSetting looks at -c name=value. Names are compared in lower case, as git has it. A
// setting that is not in the lists may name a program, as core.pager, diff.external,
// credential.helper and every alias do, so its value is judged as a command.
func (c *call) gitSetting(w word) {
	c.k.opaque = true
	name, value, _ := strings.Cut(w.text, "=")
	name, script := strings.ToLower(name), value
	switch {
	case w.kind > digits:
		c.raise(NeedsApproval, "sets what is not known")
	case slices.ContainsFunc(gitHarmless, func(p string) bool {
		return name == p || strings.HasSuffix(p, ".") &&
			strings.HasPrefix(name, p)
	}):
	case strings.HasSuffix(name, "pager") && (value == "cat" || value == "" || value == "false"):
	// These turn a program of the configuration off, which careful people do.
	case name == "core.fsmonitor" && value == "false" || name == "core.hookspath" && value == "/dev/null":
	case strings.HasPrefix(name, "http.") || strings.HasPrefix(name, "url.") || strings.HasPrefix(name,
		"user.") || strings.HasPrefix(name, "commit.") || strings.HasPrefix(name, "push."):
		c.raise(NeedsApproval, "changes a setting")
	default:
		if strings.HasPrefix(name, "alias.") && !strings.HasPrefix(script, "!") {
			script = "git " + script
		}
		c.smuggled(word{text: strings.TrimPrefix(script, "!")})
	}
}

// gitHarmless are settings of how output looks.
var gitHarmless = []string{
	"color.", "column.", "core.quotepath", "core.abbrev", "log.date", "log.decorate", "log.abbrevcommit",
	"log.follow", "diff.renames", "diff.renamelimit",
	"diff.context", "diff.algorithm", "diff.mnemonicprefix", "diff.noprefix", "diff.colormoved",
	"diff.indentheuristic", "grep.linenumber", "advice.",
}

// gitCommand judges a subcommand by its row. Aliases cannot hide one: git looks for its
// own commands first. An unknown subcommand may be an alias or a program named git-….
func (c *call) gitCommand(argv []word) {
	sub := argv[0]
	// The transport ext:: runs the rest of an address as a command (git-remote-ext(1)).
	for _, w := range argv {
		if strings.Contains(w.text, "ext::") {
			_, cmd, _ := strings.Cut(w.text, "ext::")
			c.smuggled(w.keep(cmd))
		}
	}
	p, reads := tables().gitRows[sub.text]
	ok := reads
	if !reads {
		p, _, ok = lookup("git " + sub.text)
	}
	if sub.kind != known || !ok {
		c.raise(NeedsApproval, "is not a known git command")
		return
	}
	if slices.ContainsFunc(argv, func(w word) bool { return w.text == "--help" && w.kind == known }) {
		// --help opens a manual page or a browser, whatever the subcommand is.
		c.raise(NeedsApproval, "waits for a person")
	}
	c.row, c.strict = p, reads
	c.raise(p.class, p.reason("git "+sub.text))
	switch h := c.k.handlers[p.handler]; {
	case h != nil:
		h(c, argv)
	default:
		o := c.options(p, argv[1:])
		c.gitOperands(p, o)
		c.gitPrints(sub.text, o)
	}
	if !reads && c.cmd.Class == ReadOnly {
		c.raise(NeedsApproval, "git "+sub.text+" may do more than read")
	}
}

// gitOperands looks at revisions and paths: a path may lead outside, and a revision
// may name a file of secrets. An empty word that is known names nothing.
func (c *call) gitOperands(p program, o *parsed) {
	c.gitFormat(o)
	ops := o.operands
	if p.use == 'p' && !o.pattern && len(ops) > 0 {
		ops = ops[1:]
	}
	for _, w := range o.all("-L") { // a range or a function, a colon, and a file
		if i := strings.LastIndexByte(w.text, ':'); i >= 0 {
			c.read(w.keep(w.text[i+1:]))
		}
	}
	for _, w := range ops {
		// Git expands patterns itself, and has signs in front of them.
		c.seeks(w.keep(w.text[strings.LastIndexAny(w.text, ":)!^")+1:]))
		switch {
		case p.use == 'n':
		case p.use == 'w':
			c.write(w)
		case w.kind == anything && w.text == "" && !w.many:
			c.dispute("reads a path that is not known")
		case w.many && w.kind == anything:
			c.raise(NeedsApproval, "a word that is not known may be an option")
		// HEAD:path names a file in a revision, which may be one of secrets like the file
		// itself. It may as well be the name of a file, which git diff reads outside too.
		case w.kind <= digits && strings.Contains(w.text, ":"):
			for rest, ok := w.text, true; ok; {
				if _, rest, ok = strings.Cut(rest, ":"); ok {
					c.read(w.keep(rest))
				}
			}
			c.readPath(w)
		// ..main is a range of revisions and not a path.
		case w.kind <= glob && strings.HasPrefix(w.text, "..") && !strings.Contains(w.text, "/.") &&
			!strings.HasPrefix(w.text, "../") && len(w.text) > 2:
		case w.kind == anything:
			c.dispute("reads a path that is not known")
		case w.text != "":
			c.read(w)
		}
	}
}

// gitFormat refuses formats that verify signatures, which starts programs, and names of
// formats that the configuration defines.
func (c *call) gitFormat(o *parsed) {
	for _, f := range o.all("--format", "--pretty", "--sort", "--group") {
		if signed().MatchString(f.text) || strings.Contains(f.text, "signature") || f.kind > digits {
			c.raise(NeedsApproval, "verifies signatures")
		}
	}
	for _, f := range o.all("--format", "--pretty") {
		if !strings.Contains(f.text, "%") && !prettyFormats[f.text] {
			c.raise(NeedsApproval, "has a format that the configuration defines")
		}
	}
}

// signed is a placeholder that verifies a signature, with or without one of the signs that
// may stand behind the percent sign.
var signed = late.Regexp(`%[-+ ]*G`)

// prettyFormats are those that git-log(1) has.
var prettyFormats = set("", "oneline", "short", "medium", "full", "fuller", "reference", "email", "mboxrd", "raw")

// gitPrints says what a subcommand prints, where that is names of files or a number. Any other
// option may make it print something else, which would then be read as a name.
func (c *call) gitPrints(sub string, o *parsed) {
	names := false
	switch sub {
	case "ls-files":
		names = o.only("-c", "--cached", "-m", "--modified", "-d", "--deleted", "-o", "--others",
			"-i", "--ignored", "--exclude-standard", "--full-name", "--deduplicate", "-z")
	case "diff", "diff-tree", "diff-index", "diff-files":
		names = o.has("--name-only") && o.only("--name-only", "--cached", "--staged", "--merge-base",
			"--diff-filter", "-r", "--no-renames")
	case "grep":
		names = o.has("-l", "--files-with-matches", "--name-only") && o.only("-l", "--files-with-matches",
			"--name-only", "-i", "-w", "-e", "-E", "-F", "-P", "-G", "-I", "--cached", "--untracked")
		for i, w := range o.operands { // it puts a revision in front of each name, as it was given
			names = names && (i == 0 && !o.pattern || !strings.ContainsAny(w.text, blanks))
		}
	case "rev-list":
		if o.has("--count") {
			c.out = word{text: "1", kind: digits}
		}
	}
	climb := slices.ContainsFunc(o.operands, func(w word) bool { // it prints paths from where it stands
		return strings.HasPrefix(w.text, ":") || strings.Contains("/"+w.text+"/", "/../")
	})
	if names && !climb {
		c.out = word{kind: listing, many: true}
	}
}

// gitBranch is branch and tag: without operands, or with options that list, they list. With
// an operand they create, which is not told apart from a pattern to list unless such an
// option is there.
func gitBranch(c *call, argv []word) {
	o := c.options(c.row, argv[1:])
	c.gitFormat(o)
	lists := o.has("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at",
		"--show-current")
	if argv[0].text == "tag" { // with less than no lines it lists none
		lists = lists || o.has("-n") && !slices.ContainsFunc(o.all("-n"), word.dash)
	}
	if len(o.operands) > 0 && !lists || slices.ContainsFunc(o.operands, word.dash) {
		c.raise(WritesWorkspace, "makes a branch or a tag")
	}
}

// second is the next word after the subcommand, "" if there is none.
func second(argv []word) string {
	if len(argv) > 1 && argv[1].kind == known {
		return argv[1].text
	}
	if len(argv) > 1 {
		return "?"
	}
	return ""
}

// gitRemotes lets remote list and get-url through (git-remote(1)); show and update ask
// the server.
func gitRemotes(c *call, argv []word) {
	o := c.options(program{first: true, spec: "-v --verbose"}, argv[1:])
	if len(o.operands) == 0 {
		return
	}
	switch sub, rest := o.operands[0], o.operands[1:]; {
	// An address may have a password in it, but the model can read it in .git/config as
	// well.
	case sub.text == "get-url" && sub.kind == known:
		c.options(program{spec: "--all --push"}, rest)
	case sub.text == "show" && len(rest) == 0:
	case sub.text == "show" || sub.text == "update" || sub.text == "prune":
		c.raise(Network, "asks a remote")
	case sub.text == "remove" || sub.text == "rm":
		c.raise(Destructive, "removes a remote")
	default:
		c.raise(Escalates, "changes where code comes from")
	}
}

// gitStash lets list and show through, with the options of log and diff (git-stash(1)).
func gitStash(c *call, argv []word) {
	switch second(argv) {
	case "list": // it takes two dashes off before log gets what is behind them
		rest := slices.DeleteFunc(slices.Clone(argv[2:]), func(w word) bool { return w.text == "--" })
		c.gitOperands(program{use: 'n'}, c.options(program{spec: gitLog + "-n="}, rest))
	case "show":
		c.gitOperands(program{use: 'n'}, c.options(program{spec: gitDiff + "--include-untracked --only-untracked"}, argv[2:]))
	// pop drops the stash even if the model meant to look.
	case "drop", "clear", "pop":
		c.raise(Destructive, "drops stashed changes")
	case "", "push", "save", "apply", "branch", "create", "store", "-u", "-k", "-a", "-m",
		"--include-untracked", "--keep-index", "--all":
		c.raise(WritesWorkspace, "git stash writes files")
	default:
		c.raise(NeedsApproval, "is not a known git command")
	}
}

// gitConfig lets one setting be shown that is not likely to hold a secret. With a second
// word it is set, and settings run programs: pagers, editors, filters, hooks (git-
// config(1)).
func gitConfig(c *call, argv []word) {
	o := c.options(program{first: true, spec: "-lz -f=r --file=r --get --get-all --get-regexp --get-urlmatch --list " +
		"--null --type= --bool --int --path --default= --local --global --system --worktree --show-origin --show-scope " +
		"--name-only -e!e --edit!e --unset!e --unset-all!e --add!e --replace-all!e --rename-section!e " +
		"--remove-section!e"}, argv[1:])
	ops := o.operands
	if len(ops) > 0 && slices.ContainsFunc(ops[1:], word.dash) {
		c.raise(NeedsApproval, "has options behind its operands")
	}
	if len(ops) > 0 && (ops[0].text == "get" || ops[0].text == "list" || ops[0].text == "set" ||
		ops[0].text == "unset") && ops[0].kind == known {
		if ops[0].text == "set" || ops[0].text == "unset" {
			c.raise(Escalates, "changes settings of git, which can run commands")
		}
		o.flags = append(o.flags, "--"+ops[0].text)
		ops = ops[1:]
	}
	switch {
	case o.has("-l", "--list", "--get-regexp", "--get-urlmatch"):
		c.dispute("shows settings, which may have tokens in them")
	case len(ops) == 1 && ops[0].kind == known && !strings.Contains(ops[0].text, ".") && !o.has("--get", "--get-all"):
		c.raise(NeedsApproval, "is not a git setting") // edit and others are subcommands of some
	case len(ops) == 1 || o.has("--get", "--get-all"):
		if len(ops) == 0 || ops[0].kind != known || slices.ContainsFunc([]string{"url", "credential", "http",
			"token", "pass", "extraheader", "sendemail"},
			func(s string) bool { return strings.Contains(strings.ToLower(ops[0].text), s) }) {
			c.dispute("shows settings, which may have tokens in them")
		}
	default:
		c.raise(Escalates, "changes settings of git, which can run commands")
	}
}

// gitReflog shows the log of HEAD, or of a ref that cannot be taken for a subcommand. Git
// takes each other word for a ref, but a later version may have a subcommand of that name:
// so only HEAD and words with @ or / are refs here.
func gitReflog(c *call, argv []word) {
	sub, rest := second(argv), plain(argv, 1)
	switch {
	case sub == "expire" || sub == "delete" || sub == "drop":
		c.raise(Destructive, "drops the log of refs")
	case sub == "show":
		rest = rest[1:]
	case sub != "" && sub[0] != '-' && sub != "HEAD" && !strings.ContainsAny(sub, "@/"):
		c.raise(NeedsApproval, "is not a known git command")
	}
	c.gitOperands(program{use: 'n'}, c.options(program{spec: gitLog + "-n="}, rest))
}

// gitSymbolic reads with one operand and writes with two (git-symbolic-ref(1)).
func gitSymbolic(c *call, argv []word) {
	o := c.options(program{spec: "-q -m=W -d!d --delete!d --short --quiet --no-recurse"}, argv[1:])
	if len(o.operands) != 1 || o.operands[0].dash() {
		c.raise(WritesWorkspace, "changes refs")
	}
}

// gitWorktree lets list through (git-worktree(1)).
func gitWorktree(c *call, argv []word) {
	switch second(argv) {
	case "list":
		c.options(program{spec: "-vz --porcelain --verbose"}, argv[2:])
	case "remove", "prune":
		c.raise(Destructive, "removes a worktree")
	case "add":
		c.raise(WritesWorkspace, "makes a worktree")
		o := c.options(program{spec: "-b= -B= --reason="}, argv[2:])
		for _, w := range o.operands[:min(1, len(o.operands))] {
			c.write(w)
		}
	default:
		c.raise(NeedsApproval, "changes worktrees")
	}
}

// gitNotes lets list and show through (git-notes(1)).
func gitNotes(c *call, argv []word) {
	switch second(argv) {
	case "list", "show":
		c.options(program{}, argv[2:])
	case "":
	case "remove", "prune":
		c.raise(Destructive, "removes notes")
	default:
		c.raise(WritesWorkspace, "writes notes")
	}
}

// gitSubmodule finds the subcommand behind options, of which only status reads.
func gitSubmodule(c *call, argv []word) {
	o := c.options(program{first: true, spec: "-q --quiet --cached"}, argv[1:])
	if len(o.operands) == 0 {
		return
	}
	switch sub, rest := o.operands[0], o.operands[1:]; sub.text {
	case "status":
		c.gitOperands(program{}, c.options(program{spec: "-q --quiet --cached --recursive"}, rest))
	case "update", "add", "sync":
		c.raise(Network, "asks a remote")
	// Its words are a script for the shell in each submodule.
	case "foreach":
		c.smuggled(joined(rest))
	case "deinit":
		c.raise(Destructive, "removes a submodule")
	default:
		c.raise(NeedsApproval, "changes submodules")
	}
}

// gitBisect lets log through (git-bisect(1)); run runs a command, the others check
// revisions out.
func gitBisect(c *call, argv []word) {
	switch second(argv) {
	case "log":
		c.options(program{}, argv[2:])
	case "run":
		c.k.opaque = true
		c.sub(plain(argv, 2))
		c.raise(Escalates, "a program is told to run a command")
	default:
		c.raise(WritesWorkspace, "checks out revisions")
	}
}
