package shell

import (
	"slices"
	"strings"
)

// These functions judge the subcommands of git that change something. They read the options by a
// spec, whose language options.go explains, and then raise the class for what the operands mean.

// gitRm deletes files, or with --cached only what the index has of them. A file that has
// changes is refused by git, but one that is committed is gone from the disk.
func gitRm(c *call, argv []word) {
	o := c.options(program{spec: "--pathspec-from-file=r"}, argv[1:])
	if o.has("--cached") {
		c.raise(WritesWorkspace, "changes the index")
		return
	}
	c.operands(program{use: 'd'}, o)
	c.raise(Destructive, "deletes files")
}

// gitRestore throws changes away, but for --staged alone, which changes the index.
func gitRestore(c *call, argv []word) {
	o := c.options(program{spec: "-s= --source= --pathspec-from-file=r -p!a --patch!a"}, argv[1:])
	if o.has("--staged", "-S") && !o.has("--worktree", "-W") {
		c.raise(WritesWorkspace, "changes the index")
		return
	}
	c.raise(Destructive, "throws changes away")
}

// gitCheckout throws changes away if it is given paths. One word may be a branch or a path
// (git-checkout(1)). A word that has a dot in it, or stands behind two dashes, is taken for
// a path, unless it is a version.
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
		if strings.Contains(base(w.text), ".") && !o.has("-b", "-B") && !version(w.text) {
			c.raise(Destructive, "throws changes away")
		}
	}
	c.raise(WritesWorkspace, "checks out a revision")
}

// version reports whether a word is a version, as tags are named: v1.2 or v1.2.3-rc.1. The file
// v2.go is not.
func version(s string) bool {
	numbers, _, _ := strings.Cut(s, "-")
	numbers, ok := strings.CutPrefix(numbers, "v")
	return ok && numbers != "" && strings.Trim(numbers, "0123456789.") == ""
}

// gitSwitch checks a branch out, and refuses to lose changes without an option.
func gitSwitch(c *call, argv []word) {
	c.options(program{spec: "-c= -C= --orphan= -f!d --force!d --discard-changes!d"}, argv[1:])
	c.raise(WritesWorkspace, "checks out a revision")
}

// gitReset changes the index, and with --hard the files. Without --hard the files stay as
// they are, and the commits can be found in the reflog.
func gitReset(c *call, argv []word) {
	c.options(program{spec: gitResetSpec}, argv[1:])
	c.raise(WritesWorkspace, "changes the index")
}

// gitClean lists with -n, which wins over -f.
func gitClean(c *call, argv []word) {
	o := c.options(program{spec: "-ndxXqf --dry-run --quiet --force -e= --exclude= -i!a"}, argv[1:])
	if !o.has("-n", "--dry-run") || slices.ContainsFunc(o.operands, word.dash) {
		c.raise(Destructive, "deletes files")
	}
}

// gitApply changes files. Which ones is in the patch, not in the words. The paths of a
// patch are bounded by git itself: it refuses those that lead outside unless it is told
// otherwise.
func gitApply(c *call, argv []word) {
	o := c.options(program{spec: gitApplySpec}, argv[1:])
	c.operands(program{}, o)
	c.raise(WritesWorkspace, "applies a patch")
}

// gitFilter rewrites the history with commands that its options have.
func gitFilter(c *call, argv []word) {
	c.options(program{spec: gitFilterSpec}, argv[1:])
	c.raise(Destructive, "rewrites the history")
}

// gitPush sends to a remote. A plus or a colon in front of a ref overwrites or deletes
// what is there.
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

// gitRemote is for the commands that only talk to a remote, as fetch and ls-remote do.
func gitRemote(c *call, argv []word) {
	p, _, _ := lookup("git " + argv[0].text)
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
