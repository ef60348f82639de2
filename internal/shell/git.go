package shell

import (
	"slices"
	"strings"
)

// git looks at the options before the subcommand, then at that.
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
		case w.kind > token:
			c.raise(NeedsApproval, "an option is not known")
		case w.text == "-C":
			c.gitDir(next)
			i++
		case w.text == "-c":
			c.gitSetting(next)
			i++
		case strings.HasPrefix(w.text, "-c"):
			c.gitSetting(w.keep(w.text[2:]))
		case strings.HasPrefix(w.text, "--config-env"):
			c.raise(Escalates, "sets what the environment says")
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

var gitTame = set("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--glob-pathspecs",
	"--noglob-pathspecs", "--icase-pathspecs",
	"--no-replace-objects", "--version", "-v", "--exec-path", "--html-path")

func (c *call) gitDir(w word) {
	if w.kind > token || !c.k.below(w.text, c.st) {
		if w.kind > token {
			c.raise(NeedsApproval, "uses another repository")
		}
		c.dispute("reads outside of the workspace")
		return
	}
	if dirs := resolve(w.text, c.st.dirs); len(dirs) > 0 {
		st := *c.st
		st.dirs = dirs
		c.st = &st
	}
}

// gitSetting looks at -c name=value.
func (c *call) gitSetting(w word) {
	c.k.opaque = true
	name, value, _ := strings.Cut(strings.ToLower(w.text), "=")
	_, script, _ := strings.Cut(w.text, "=")
	switch {
	case w.kind > digits:
		c.raise(NeedsApproval, "sets what is not known")
	case slices.ContainsFunc(gitHarmless, func(p string) bool {
		return name == p || strings.HasSuffix(p, ".") &&
			strings.HasPrefix(name, p)
	}):
	case strings.HasSuffix(name, "pager") && (value == "cat" || value == "" || value == "false"):
	case name == "core.fsmonitor" && value == "false" || name == "core.hookspath" && value == "/dev/null":
	case strings.HasPrefix(name, "http.") || strings.HasPrefix(name, "url.") || strings.HasPrefix(name,
		"user.") || strings.HasPrefix(name, "commit.") || strings.HasPrefix(name, "push."):
		c.raise(NeedsApproval, "changes a setting")
	default:
		c.smuggled(word{text: strings.TrimPrefix(script, "!")})
	}
}

// gitHarmless are settings of how output looks.
var gitHarmless = []string{
	"color.", "column.", "core.quotepath", "core.abbrev", "log.date", "log.decorate", "log.abbrevcommit",
	"log.follow", "diff.renames", "diff.renamelimit",
	"diff.context", "diff.algorithm", "diff.mnemonicprefix", "diff.noprefix", "diff.colormoved",
	"diff.indentheuristic", "status.", "grep.linenumber", "advice.",
	"blame.", "core.pager.no", "i18n.", "core.ignorecase", "core.autocrlf", "core.precomposeunicode",
}

func (c *call) gitCommand(argv []word) {
	sub := argv[0]
	for _, w := range argv {
		if strings.Contains(w.text, "ext::") {
			_, cmd, _ := strings.Cut(w.text, "ext::")
			c.smuggled(w.keep(cmd))
		}
	}
	p, ok := lookup("git " + sub.text)
	if sub.kind != known || !ok {
		c.raise(NeedsApproval, "is no command of git that is known")
		return
	}
	if slices.ContainsFunc(argv, func(w word) bool { return w.text == "--help" && w.kind == known }) {
		c.raise(NeedsApproval, "waits for a person")
	}
	c.raise(p.class, p.reason("git "+sub.text))
	p.spec += " --output=w --ext-diff!e --textconv!e" // most commands take the options of diff
	if h := c.k.handlers[p.handler]; h != nil {
		h(c, argv)
		return
	}
	o := c.options(p, argv[1:])
	c.gitOperands(p, o)
	c.gitPrints(sub.text, o)
}

// gitOperands looks at revisions and paths: a path may lead outside, and a revision
// may name a file of secrets.
func (c *call) gitOperands(p program, o *parsed) {
	c.gitFormat(o)
	ops := o.operands
	if p.use == 'p' && !o.pattern && len(ops) > 0 {
		ops = ops[1:]
	}
	for _, w := range ops {
		switch {
		case p.use == 'n':
		case p.use == 'w':
			c.write(w)
		case w.kind == anything && w.text == "" && !w.many:
			c.dispute("reads a path that is not known")
		case w.many && w.kind == anything:
			c.raise(NeedsApproval, "a word that is not known may be an option")
		case w.kind <= token && strings.Contains(w.text, ":"):
			c.read(w.keep(w.text[strings.IndexByte(w.text, ':')+1:]))
		case w.kind <= glob && strings.HasPrefix(w.text, "..") && !strings.HasPrefix(w.text, "../") &&
			len(w.text) > 2:
		case w.kind <= token && w.text != "":
			c.read(w)
		case w.kind == glob:
			c.read(w)
		}
	}
}

// gitFormat refuses formats that verify signatures, which starts programs.
func (c *call) gitFormat(o *parsed) {
	for _, name := range []string{"--format", "--pretty"} {
		if f, ok := o.args[name]; ok && (strings.Contains(f.text, "%G") || f.kind > token && f.kind != anything) {
			c.raise(NeedsApproval, "verifies signatures")
		}
	}
}

func (c *call) gitPrints(sub string, o *parsed) {
	switch sub {
	case "ls-files":
		c.out = word{kind: listing, many: true}
	case "diff", "diff-tree", "diff-index", "diff-files", "grep", "show", "log":
		if o.has("--name-only", "-l", "--files-with-matches") && sub != "log" && sub != "show" &&
			!o.has("--no-index", "--stat") {
			c.out = word{kind: listing, many: true}
		}
	case "rev-parse":
		if len(o.operands) == 1 && !o.has("--show-toplevel", "--git-dir", "--abbrev-ref", "--show-prefix",
			"--show-cdup", "--symbolic", "--symbolic-full-name") &&
			strings.HasPrefix(o.operands[0].text, "HEAD") {
			c.out = word{text: "1a", kind: token}
		}
	case "merge-base":
		c.out = word{text: "1a", kind: token}
	case "rev-list":
		if o.has("--count") {
			c.out = word{text: "1", kind: digits}
		}
	}
}

// gitBranch is branch and tag: without operands, or with options that list, they list.
func gitBranch(c *call, argv []word) {
	o := c.options(program{spec: gitBranchSpec},
		tagOptions(argv))
	c.gitFormat(o)
	lists := o.has("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at",
		"--show-current")
	tag := argv[0].text == "tag"
	if !tag && o.has("-m") || tag && o.has("-a") && !lists {
		c.raise(WritesWorkspace, "changes refs")
	}
	if tag && o.has("-v") {
		c.raise(NeedsApproval, "verifies signatures")
	}
	if !tag && (o.has("-a", "-r", "-v", "-vv") && !o.has("-d", "-D", "-m", "-M")) {
		lists = lists || len(o.operands) == 0
	}
	if tag && o.has("-n") {
		lists = true
	}
	if len(o.operands) > 0 && !lists {
		c.raise(WritesWorkspace, "makes a branch or a tag")
	}
	if o.has("--show-current") {
		c.out = word{kind: anything, nodash: true}
	}
}

// tagOptions takes messages off, which are no operands.
func tagOptions(argv []word) []word {
	var out []word
	for i := 1; i < len(argv); i++ {
		out = append(out, argv[i])
		if argv[0].text == "tag" && argv[i].text == "-m" {
			i++
		}
	}
	return out
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

func gitRemotes(c *call, argv []word) {
	args := plain(argv, 1)
	for len(args) > 0 && (args[0].text == "-v" || args[0].text == "--verbose") {
		args = args[1:]
	}
	switch {
	case len(args) == 0:
	case args[0].text == "get-url":
	case args[0].text == "show" && (len(args) == 1 || args[1].text == "-n"):
	case args[0].text == "show" || args[0].text == "update" || args[0].text == "prune":
		c.raise(Network, "asks a remote")
	case args[0].text == "remove" || args[0].text == "rm":
		c.raise(Destructive, "removes a remote")
	default:
		c.raise(Escalates, "changes where code comes from")
	}
}

func gitStash(c *call, argv []word) {
	switch second(argv) {
	case "list":
		c.gitOperands(program{use: 'n'}, c.options(program{spec: gitLog}, argv[2:]))
	case "show":
		c.gitOperands(program{use: 'n'}, c.options(program{spec: gitLog}, argv[2:]))
	case "drop", "clear", "pop":
		c.raise(Destructive, "drops stashed changes")
	case "", "push", "save", "apply", "branch", "create", "store", "-u", "-k", "-a", "-m",
		"--include-untracked", "--keep-index", "--all":
		c.raise(WritesWorkspace, "git stash writes files")
	default:
		c.raise(NeedsApproval, "is no command of git that is known")
	}
}

func gitConfig(c *call, argv []word) {
	o := c.options(program{spec: gitConfigSpec, first: true}, argv[1:])
	ops := o.operands
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

func gitReflog(c *call, argv []word) {
	switch second(argv) {
	case "expire", "delete", "drop":
		c.raise(Destructive, "drops the log of refs")
	default:
		c.gitOperands(program{use: 'n'}, c.options(program{spec: gitLog}, argv[1:]))
	}
}

func gitSymbolic(c *call, argv []word) {
	o := c.options(program{spec: "-m= -d!d --delete!d"}, argv[1:])
	if len(o.operands) > 1 {
		c.raise(WritesWorkspace, "changes refs")
	}
}

func gitWorktree(c *call, argv []word) {
	switch second(argv) {
	case "list":
	case "remove", "prune":
		c.raise(Destructive, "removes a worktree")
	case "add":
		c.raise(WritesWorkspace, "makes a worktree")
		o := c.options(program{spec: "-b= -B= --reason="}, argv[2:])
		for _, w := range plain(o.operands, 0)[:min(1, len(o.operands))] {
			c.write(w)
		}
	default:
		c.raise(NeedsApproval, "changes worktrees")
	}
}

func gitNotes(c *call, argv []word) {
	switch second(argv) {
	case "", "list", "show", "get-ref":
	case "remove", "prune":
		c.raise(Destructive, "removes notes")
	default:
		c.raise(WritesWorkspace, "writes notes")
	}
}

func gitSubmodule(c *call, argv []word) {
	switch second(argv) {
	case "", "status", "summary", "--cached", "--quiet":
	case "update", "add", "sync":
		c.raise(Network, "asks a remote")
	case "foreach":
		c.smuggled(joined(plain(argv, 2)))
	case "deinit":
		c.raise(Destructive, "removes a submodule")
	default:
		c.raise(NeedsApproval, "changes submodules")
	}
}

func gitBisect(c *call, argv []word) {
	switch second(argv) {
	case "log", "terms":
	case "run":
		c.k.opaque = true
		c.sub(plain(argv, 2))
		c.raise(Escalates, "a program is told to run a command")
	default:
		c.raise(WritesWorkspace, "checks out revisions")
	}
}

func gitArchive(c *call, argv []word) {
	o := c.options(program{spec: gitArchiveSpec}, argv[1:])
	if r, ok := o.args["--remote"]; ok {
		c.raise(Network, "asks a remote")
		c.host(r)
	}
	if o.has("-o", "--output") {
		c.raise(WritesWorkspace, "writes an archive")
	}
}

func gitRm(c *call, argv []word) {
	o := c.options(program{spec: "--pathspec-from-file=r"}, argv[1:])
	if o.has("-n", "--dry-run") {
		return
	}
	if o.has("--cached") {
		c.raise(WritesWorkspace, "changes the index")
		return
	}
	c.operands(program{use: 'd'}, o)
	c.raise(Destructive, "deletes files")
}

func gitRestore(c *call, argv []word) {
	o := c.options(program{spec: "-s= --source= --pathspec-from-file=r -p!a --patch!a"}, argv[1:])
	if o.has("--staged", "-S") && !o.has("--worktree", "-W") {
		c.raise(WritesWorkspace, "changes the index")
		return
	}
	c.raise(Destructive, "throws changes away")
}

// gitCheckout throws changes away if it is given paths.
func gitCheckout(c *call, argv []word) {
	for i, w := range argv[1:] {
		if w.text == "--" && i+2 < len(argv) || w.text == "." || w.kind <= glob && strings.HasSuffix(w.text, "/") {
			c.raise(Destructive, "throws changes away")
		}
	}
	o := c.options(program{spec: gitCheckoutSpec}, argv[1:])
	if len(o.operands) > 1 && !o.has("-b", "-B", "--orphan") {
		c.raise(Destructive, "throws changes away")
	}
	for _, w := range o.operands {
		if strings.Contains(base(w.text), ".") && !o.has("-b", "-B") && !strings.HasPrefix(w.text, "v") {
			c.raise(Destructive, "throws changes away")
		}
	}
	c.raise(WritesWorkspace, "checks out a revision")
}

func gitSwitch(c *call, argv []word) {
	c.options(program{spec: "-c= -C= --orphan= -f!d --force!d --discard-changes!d"}, argv[1:])
	c.raise(WritesWorkspace, "checks out a revision")
}

func gitReset(c *call, argv []word) {
	c.options(program{spec: gitResetSpec}, argv[1:])
	c.raise(WritesWorkspace, "changes the index")
}

func gitClean(c *call, argv []word) {
	o := c.options(program{spec: "-e= --exclude= -i!a"}, argv[1:])
	if !o.has("-n", "--dry-run") {
		c.raise(Destructive, "deletes files")
	}
}

func gitApply(c *call, argv []word) {
	o := c.options(program{spec: gitApplySpec}, argv[1:])
	c.operands(program{}, o)
	if !o.has("--check", "--stat", "--numstat", "--summary") || o.has("--apply", "--index", "--cached") {
		c.raise(WritesWorkspace, "applies a patch")
	}
}

func gitFilter(c *call, argv []word) {
	c.options(program{spec: gitFilterSpec}, argv[1:])
	c.raise(Destructive, "rewrites the history")
}

func gitPush(c *call, argv []word) {
	o := c.options(program{spec: gitPushSpec}, argv[1:])
	c.raise(Network, "sends to a remote")
	for i, w := range o.operands {
		if i == 0 && strings.ContainsAny(w.text, ":/") {
			c.host(w)
		}
		if i > 0 && (strings.HasPrefix(w.text, "+") || strings.HasPrefix(w.text, ":")) {
			c.raise(Destructive, "overwrites what a remote has")
		}
	}
	if o.has("--force-with-lease") {
		c.raise(Destructive, "overwrites what a remote has")
	}
}

// gitRemote is for commands that fetch.
func gitRemote(c *call, argv []word) {
	p, _ := lookup("git " + argv[0].text)
	c.raise(Network, "asks a remote")
	o := c.options(p, argv[1:])
	for i, w := range o.operands {
		if i == 0 && strings.ContainsAny(w.text, ":") {
			c.host(w)
		}
		if i > 0 && argv[0].text == "clone" {
			c.write(w)
		}
	}
}
