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
