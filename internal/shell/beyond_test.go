package shell_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder/internal/shell"
)

// beyond are scripts whose words look as if they stay in the workspace. By the manuals of bash, dash
// and the programs, each may read outside of it, read a file of secrets, or run a stranger's program.
var beyond = map[string][]string{
	// A cd that fails leaves the script where it was, whatever succeeds behind it.
	"directories": {
		"cd nope; true && cat ../x", "cd nope; true || exit; cat ../x", "cd a; cd b && cat ../../x",
		"f() { cd a; true; }; f && cat ../x", "f() { return; exit; }; cd nope || f; cat ../x",
		"r=return; f() { $r; cd a; }; f && cat ../x", "cd nope || exit < nope; cat ../x", "pushd -n a && cat ../x",
		"cd nope || { exit; } < nope; cat ../x", "if cd nope; then :; fi && cat ../x",
	},
	// Find and others list what is below the directory, and text around a name may lead out again.
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
	// in several ways; git and rg have other patterns.
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
	// Not each line that a program prints is one that came in, and not each part of one is a name.
	"printed": {
		"cat $(find . -ls)", "cat $(ls --full-time)", "for d in $(ls --all); do ls \"$d\"; done", "cat $(ls -m)",
		"cat $(grep -l --label=/etc/passwd x -)", "cat \"$(rg -c x)\"", "cat $(find . | rg -r /etc/passwd '.*')",
		"cat $(find . | grep -A0 --group-separator=/etc/passwd a)", "find . | grep -o /etc/passwd | xargs cat",
		"x=$(seq 1 | grep -H --label=/etc/passwd 1); cat \"$x\"", "cat \"$(seq 1 | sed 's|1|/etc/passwd|')\"",
		"cat \"$(seq 1 | sed -n -e p list)\"", "find . | xxd | xargs cat", "find . | grep -e '\\.pem' | xargs cat",
		"find . | grep 'e.v$' | xargs cat", "find . | grep -f list | xargs cat", "find . -regex '.*/.e.v' -exec cat {} +",
		"find . -path ./etc/passwd -print0 | xargs -d. cat", "find . -print0 | while IFS= read -r -d . f; do cat \"$f\"; done",
		"find . | { read -r -n1 x; read -r f; cat \"$f\"; }", "find . | { head -c1; read -r f; cat \"$f\"; }",
		"find . | while read -r f; do cat \"$f\"; tr -d x; done", "find . | (xxd -l1; read -r f; cat \"$f\")",
		"find . | while read -r f; do awk '{exit}'; cat \"$f\"; done", "find . | while read -r f; do cat - a; done | (read -r f; cat \"$f\")",
		"find . | while read -r f; do head -1 /dev/stdin; cat \"$f\"; done", "find . | while read -r f; do head -1 -; cat \"$f\"; done",
		"find \"$PWD\" -maxdepth 0 -execdir cat x \\;",
	},
	// dash and bash differ in what echo prints, and Go reads octal numbers as neither.
	"escapes": {
		"cat $(echo -e '\\0057etc\\0057passwd')", "sh -c 'cat $(echo \"\\057etc\\057passwd\")'",
		"sh -c 'cat $(echo \"a\\n/etc/passwd\")'", "cat $(echo -e -n '\\x2e\\x2e/x')",
	},
	// A loop sets what a word in it names only when it is expanded.
	"names": {
		"cd a && while read -r l; do cat ../x; c\\d ..; done < list", "cd a && while read -r l; do cat ../x; {cd,..}; done < list",
		"f=a; v=f; while true; do cat \"$f\"; read -r $v; done < list",
		"f=a; v=f; while true; do cat \"$f\"; command read -r $v; done < list", "f=a; while true; do cat \"$f\"; read -r \\f; done < list",
	},
	// A message shows the word that is wrong. ps reads its words again if there is no such user.
	"messages": {
		"[ \"$API_KEY\" -eq 1 ]", "exit \"$API_KEY\"", "shift \"$API_KEY\"", "read -t \"$API_KEY\"", ": \"${nothing:?$API_KEY}\"",
		"pidof --version", "pidof --help", "ps -auxe", "ps -e -u x", "ps -o environ= 1", "ps -eopid,environ", "ps --format=environ",
	},
	// An @ names a file of options, also where it is the argument of another.
	"files of options": {"nm -t @a b", "objdump -j @a b", "strings -n @a b", "nm -t \"$x\" b"},
	// An assignment need not happen, or holds for a part of the script only.
	"variables": {
		"x=../a; local x=main.go; cat \"$x\"", "x=../a; f() { local x=main.go; }; f; cat \"$x\"",
		"x=../a; x=main.go < nope; cat \"$x\"", "x=../a; { x=main.go; } < nope; cat \"$x\"",
		"f() { bash -c 'x=../a; local x=main.go; cat \"$x\"'; }; f",
		"readonly x=../a\ny=1; x=main.go\ncat \"$x\"",
	},
	// In Big5, GBK and Shift JIS a backslash, a bar or a brace may be the second byte of a character, and bash reads
	// a script in the locale that the lines before it set.
	"locales": {
		"LC_ALL=ja_JP.SJIS bash -c 'echo \"$0\"'", "export LC_ALL=zh_CN.GBK\nls", "LANG=zh_CN ls", "env LC_CTYPE=zh_TW.BIG5 ls",
		"LC_ALL=utf8.GBK ls", "echo \"丁\\\"; touch P #\"", "sed 's/丁\\/a/w P/' f", "sort 丁|echo -o P",
		"sed 's|丁|b|;s|w P|y|' f", "sed 's/[丁]/w P/' f", "awk '/[丁]/' f", "echo \"丁`ls`\"", "cd 丁||exit; ls",
	},
	// These read the records of another file than that of the system.
	"records": {"who /etc/passwd", "who -a .env", "users /etc/passwd", "uptime ../x"},
	// A number may be less than zero, and what is behind it an option.
	"negative numbers": {
		"git grep \"$((0-1))Otouch P;\" a", "zstd -c \"$((0-1))o\" P a", "x=$((0-1)); git grep \"${x}O./x\" a",
		"i=1; while ls; do i=$((i-1)); git grep \"${i}O./x\" a; done", "i=0; ((i--)); git grep \"${i}O./x\" a",
		"x=1; x=$((0-1)); for i in a b; do git grep \"${x}O./x\" a; x=$((x-1)); done", "for i in $(seq 3 -1 -3); do git grep \"${i}O./x\" a; done",
		"n=$((0-5)); for i in $(seq 5 $n); do git grep \"${i}O./x\" a; done",
	},
	// A command that fails prints nothing, and so do parts of a number: of $x/etc the end may be left, and of -e $x the -e.
	"nothing": {
		"n=$(wc -l < nope); sort \"$n-oP\" a", "n=$(wc -l < nope); cat \"$n/etc/passwd\"", "n=$(wc -l < nope); cat \".$n./x\"",
		"n=$(wc -l < a); cat \"${n:0:0}/etc/passwd\"", "n=$(wc -l < a); cat \"${n%%*}/etc/passwd\"", "sort \"$!-oP\" a",
		"cat \"$!/etc/passwd\"", "sh -c 'cat \"$RANDOM/etc/passwd\"'", "cat \"$(nproc --foo)/etc/passwd\"",
		"cat \"$(git rev-list --count nope)/etc/passwd\"", "cat .$(nproc --x).", "x=$(echo a < nope); sort \"$x-oP\" a",
		"read n < <(wc -l < nope); cat \"$n/etc/passwd\"", "x=$(ls nope); cat \"$x/etc/passwd\"", "x=$(echo a >&-); cat \"$x/etc/passwd\"",
		"x=$(echo -n $(nproc --x)); cat \"$x/etc/passwd\"", "x=$(ls nope); cat \"${x%/*}/etc/passwd\"", "x=$(ls nope); y=$x; cat \"$y/etc/passwd\"", "x=$(echo a < nope); cat \"${x:-/etc/passwd}\"",
		"i=0; i=$((i+1)); sort \"${i#*}-oP\" a", "for i in {1..30}; do cat \"${i#*}/etc/passwd\"; done", "cat \"$(pwd -X)/etc/passwd\"",
		"x=$(echo -n < nope); git clean $x -f", "git clean -e $(find . -name nope) -n -f", "git clean -e $(nproc --x) -n -f",
		"jq -n --arg x $(ls nope) . env", "jq -n --arg x $unset . env", "n=$(nproc --x); git -C $n log stash", "n=$(nproc --x); git -C \"$n\" diff --no-index a ../x", "x=$(echo --version < nope); git $x clean -f",
	},
	// Neither an alternative that is empty nor white space is a word, and dash has no alternatives.
	"no words": {
		"git clean -e {,-n} -f", "git clean -e {,} -n -f", "x=' '; git clean -e $x -n -f", "x='\t'; y=$x; git clean -e $y -n -f",
		"sh -c 'git clean {-n,-d} -f'", "sh -c 'git clean {-n,src} -f'", "for x in ' '; do git clean -e $x -n -f; done",
	},
	// git prints paths from where it stands, and what reads them may stand above.
	"paths of git": {
		"cd a/b && git ls-files ../.. | (cd ../.. && xargs cat)", "cd a/b && git ls-files :/ | (cd ../.. && xargs cat)",
		"cd a/b && git grep -l x .. | (cd .. && xargs cat)", "cd a/b && git grep -l x -- :/ | (cd ../.. && xargs cat)",
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
