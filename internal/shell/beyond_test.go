package shell_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder/internal/shell"
)

// beyond are scripts whose words look as if they stay in the workspace. Each was run by bash or
// dash, and read outside of it, read a file of secrets, or ran a program of a stranger.
var beyond = map[string][]string{
	// A cd that fails leaves the script where it was, whatever succeeds behind it.
	"directories": {
		"cd nope; true && cat ../x", "cd nope; true || exit; cat ../x", "cd a; cd b && cat ../../x",
		"f() { cd a; true; }; f && cat ../x", "f() { return; exit; }; cd nope || f; cat ../x",
		"r=return; f() { $r; cd a; }; f && cat ../x", "cd nope || exit < nope; cat ../x", "pushd -n a && cat ../x",
		"cd nope || { exit; } < nope; cat ../x", "if cd nope; then :; fi && cat ../x",
	},
	// What find and others list is below the directory; what is put around it may lead out again.
	"listed": {
		"for f in *; do cat \"$f\"/.'.'/.'.'/x; done", "find . | while read -r f; do cat \"$f\"./x; done",
		"find . -name x | while read -r f; do cat .\"$f\"; done", "for f in */*; do cat /ws\"$f\"; done",
		"f=$(find a/../../ws); ls \"${f%/ws*}\"", "f=$(git ls-files no); g=$(git ls-files); cat \"${f:-../$g}\"",
		"for f in *.go; do cat $(echo \"$f\" /etc/passwd); done", "for f in *.go; do x=\"$f /etc/passwd\"; cat $x; done",
		"for f in *.go; do x=\"a /etc/passwd $f\"; cat $x; done", "for g in *; do f=../$g; cat \"${f%x}\"; done",
		"f=$(find . -name ..a); cat \"${f%a}/x\"", "for f in *; do cat \".e$f\"; done", "for f in *; do cat \"${f%a}.pem\"; done",
		"for d in */; do cat \"$d/.env\"; done", "cd \"$(find . -maxdepth 0)\" && cat ../x",
		"for d in $(git ls-files); do (cd \"./$d\" && cat ../x); done", "cat $(find 'a /etc/passwd')",
		"cat $(git grep -l package 'HEAD^{/a /etc/passwd }')",
	},
	// In dash and older shells .? and .* match two dots; quotes and classes in brackets are read
	// in several ways; git and rg have patterns of their own.
	"patterns": {
		"cat .?/x", "sh -c 'cat .?/x'", "cd .? && cat x", "for f in .?; do cat \"$f\"/x; done", "ls .[.]/x", "echo .?/*",
		"cat .e[n\\]x]v", "cat .e['!'n]v", "cat .e[n[:alpha:]]v", "cat [i]d_rsa", "find . -name '.[!x]nv' -exec cat {} +",
		"grep -r --include='.[!x]nv' . .", "rg --hidden -g '.{env,x}' .", "rg --hidden -g '{.}{env,x}' .",
		"find . -path '*/.ssh/*' -exec cat {} +", "git grep --untracked -e . -- '.en*'", "git show HEAD -- '*.e*v'",
		"git grep . -- ':(icase).ENV'", "git diff -- ':(top).env'", "git cat-file blob :0:.env", "git log -L:f:.env",
		"git log -L1,3:../x", "git show HEAD:.ssh/a:b",
	},
	// The number is not that of the sample.
	"numbers": {
		"cat id_ed$((25519))", "cat /ws$((2))/x", "cat \"x$(grep -c x a)/../../y\"", "x=$(wc -l < a); cat \"/ws/$x\"",
	},
	// An assignment need not happen, or holds for a part of the script only.
	"variables": {
		"x=../a; local x=main.go; cat \"$x\"", "x=../a; f() { local x=main.go; }; f; cat \"$x\"",
		"x=../a; x=main.go < nope; cat \"$x\"", "x=../a; { x=main.go; } < nope; cat \"$x\"",
		"readonly x=../a\ny=1; x=main.go\ncat \"$x\"",
	},
	// After an error of arithmetic, bash goes on in the next line.
	"errors": {
		"x=../a\necho $((1/0)); x=main.go\ncat \"$x\"", "cd nope || exit $((1/0))\ncat ../x",
		"x=../a\nn=0; echo $((1%n)); x=main.go\ncat \"$x\"", "x=../a\necho ${y:1:-2}; x=main.go\ncat \"$x\"",
		"x=../a\nn=$((0-3)); echo ${y:0:$n}; x=main.go\ncat \"$x\"", "x=../a\necho $((08)); x=main.go\ncat \"$x\"",
		"x=../a\nn=$((0-1)); echo $((2**n)); x=main.go\ncat \"$x\"", "x=../a\nn={1..2}; ((n)); x=main.go\ncat \"$x\"",
		"x=../a\nfor n in {08..10}; do ((n)); x=main.go; done\ncat \"$x\"", "x=../a\n((5++)); x=main.go\ncat \"$x\"",
	},
}

func TestBeyond(t *testing.T) {
	n := 0
	for kind, cmds := range beyond {
		n += len(cmds)
		for _, cmd := range cmds {
			a := shell.Analyze(cmd, world)
			assert.False(t, a.Allow, "%s: %q", kind, cmd)
			assert.NotEmpty(t, a.Why, cmd)
		}
	}
	t.Logf("%d scripts", n)
}
