package shell_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder/internal/shell"
)

// harmless are commands that agents run every day.
var harmless = []string{
	"find . -name *.go", "head -n -5 main.go", "tail -c -20 main.go", "sort -t - -k 2 main.go", "find . -name src/*", "git log --format=oneline", "tar -tf ./a*", "ls 3>&1 1>&2 2>&3", "cat 0< a 2>&1", "sed 's/[.=]/x/' a", "find src -type f -exec wc -l {} +",
	"ls -la src/", "ls -R . | head -50", "ls *.go | wc -l", "cat -n main.go | sed -n '10,40p'",
	"cat main.go | head -n 20 | tail -5",
	"head -100 README.md", "tail -n +10 notes.txt", "wc -l $(git ls-files '*.go')",
	"wc -l *.go | sort -n | tail -1", "find . -name '*.go' | xargs wc -l",
	"find . -type f -not -path './.git/*' | head -100", "find . \\( -name '*.ts' -o -name '*.tsx' \\) -print",
	"find src -maxdepth 2 -type d", "find . -name '*.go' -exec grep -l TODO {} +",
	"find . -name '*.go' -exec wc -l {} \\;", "find . -size +100k -exec ls -lh {} \\;", "find . -empty",
	"find . -mtime -1 -name '*.md'", "find . -name '*.go' -exec sh -c 'wc -l \"$1\"' _ {} \\;",
	"grep -rn 'func main' --include='*.go' .", "grep -c '' main.go", "grep -E 'a|b' notes.txt",
	"grep -A3 -B3 -n TODO main.go", "grep -oP '\\d+' data.csv | sort -u", "rg -n 'func' -g '*.go'",
	"rg --files | head", "rg -l TODO | sort", "rg -t go -A 3 'type .* struct' src", "git status --short", "set +e; ls", "ls *.go | xargs cat", "find . -name '*'", "find . -name '*.env.go'",

	"git status -sb", "git diff --stat", "git diff --cached", "git diff HEAD~3 -- src/a.py | head -50",
	"git log --oneline -20", "git log -p -S'foo' -- main.go",
	"git log --since='2 weeks ago' --author=me --stat", "git show HEAD:main.go", "git show --stat HEAD~1",
	"git blame -L 10,20 main.go",
	"git branch -a", "git branch -vv", "git remote -v", "git rev-parse --abbrev-ref HEAD",
	"git ls-files | grep '\\.go$'", "git diff --name-only main...HEAD", "git merge-base main HEAD",

	"git stash list",
	"git tag --list 'v1*' --sort=-version:refname", "git config --get user.name", "git config user.email",
	"git worktree list", "git shortlog -sne", "git describe --tags",
	"git for-each-ref --format='%(refname)' refs/heads", "git cat-file -t HEAD",
	"git check-ignore -v node_modules", "git -C src log -1", "git -c color.ui=always status",
	"git --no-pager diff",
	"git grep -n 'foo bar' -- '*.go'", "git rev-list --count HEAD", "git show-ref --heads",
	"git reflog | head -5", "git diff --no-index main.go notes.txt | cat; true",
	"echo $HOME", "echo \"PATH is $PATH\"", "echo \"user: $USER\" && pwd", "printf 'a\\tb\\n'",
	"printf '%d items\\n' 3", "date '+%Y-%m-%d'", "date -u", "date -d yesterday +%F", "sleep 1", "id -u",
	"uname -s", "nproc", "df -h", "free -m", "uptime", "hostname",
	"which go && node --version", "command -v rg || echo missing", "type ls",
	"node --version", "python3 -V",
	"make --version", "docker --version", "gcc --version | head -1",
	"tsc --version", "ruby -v",
	"cd src && ls -la && cat a.py", "cd src; pwd", "(cd src && grep -n x a.py)", "cd /ws/src && git status",
	"cd src || exit 1; ls", "pushd src > /dev/null; ls; popd > /dev/null",
	"for f in a.go b.go; do echo \"== $f\"; cat \"$f\"; done",
	"for f in $(git ls-files '*.md'); do head -1 \"$f\"; done", "for i in 1 2 3; do echo $i; done",
	"for i in {1..5}; do echo \"line $i\"; done", "for ((i=0; i<3; i++)); do echo $i; done",
	"for d in */; do echo \"$d\"; ls \"$d\" | wc -l; done", "for f in src/*.py; do grep -n def \"$f\"; done",
	"for i in $(seq 1 3); do sed -n \"${i}p\" notes.txt; done",
	"i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done",
	"while read -r line; do echo \"$line\"; done < notes.txt",
	"git ls-files | while read -r f; do wc -l \"$f\"; done",
	"find . -name '*.go' -print0 | while IFS= read -r -d '' f; do head -1 \"$f\"; done",
	"while IFS=, read -r a b; do echo \"$a\"; done < data.csv", "until true; do echo x; done",
	"x=$(wc -l < main.go); echo \"lines: $x\"",
	"f=main.go; head -5 \"$f\"", "dir=src; ls $dir", "a=1 b=2; echo $((a + b))",
	"s=hello; echo ${#s} ${s^^} ${s:0:2}",
	"name=main; cat \"$name.go\"", "show() { head -n 5 \"$1\"; }; show main.go",
	"count() { grep -c \"$1\" main.go; }; count func; count type", "f() { local x=$1; echo \"$x\"; }; f hi",
	"greet() { echo \"hi $1\"; }; greet you | tr a-z A-Z",
	"if grep -q foo main.go; then echo yes; else echo no; fi", "[ -d src ] && ls src || echo none",
	"[[ $HOME == /home/* ]] && echo yes", "[[ -f main.go && -s main.go ]]",
	"x=3; [[ $x -gt 2 ]] && echo big", "test -e go.mod && cat go.mod",
	"case $(uname -s) in Linux) echo l;; *) echo o;; esac", "x=a; case $x in a|b) ls;; esac",
	"awk '{s+=$1} END {print s}' data.csv", "awk -F: '$3 > 100 {print $1}' data.csv",
	"awk 'length($0) > 80' main.go", "awk '/start/,/end/' notes.txt", "awk -v n=3 'NR <= n' main.go",
	"awk '!seen[$0]++' notes.txt", "awk 'NR>=10 && NR<=20 {printf \"%d: %s\\n\", NR, $0}' main.go",
	"awk '{ if ($1 > 5) print $2; else print \"no\" }' data.csv",
	"sed 's/foo/bar/g' main.go", "sed -n '/func/,/^}/p' main.go", "sed -e 's/a/b/' -e '2d' notes.txt",
	"sed -n '5{p;q}' main.go", "sed 's|/usr|/opt|' notes.txt | diff - notes.txt",
	"sed -E 's/([a-z]+) ([0-9]+)/\\2 \\1/' data.csv", "sed '$!d' notes.txt",
	"jq '.scripts' package.json", "jq -r '.dependencies | keys[]' package.json", "cat package.json | jq .name",
	"jq --arg n x '.[$n]' package.json", "sort -k2,2n -t, data.csv | uniq -c | sort -rn | head",
	"cut -d: -f1 data.csv | tr a-z A-Z", "comm -12 <(sort notes.txt) <(sort data.csv)",
	"diff -u main.go <(sed 's/a/b/' main.go)", "column -t -s, data.csv",
	"tar tzf a.tgz", "tar -tvf a.tar | head", "unzip -l a.zip", "xxd main.go | head", "od -c main.go | head -3",
	"strings a.out | head", "file src/*", "stat -c %s main.go", "du -sh . | cut -f1",
	"du -d1 -h . | sort -h", "md5sum *.go", "base64 -w0 README.md", "realpath src",
	"basename src/a.py .py", "readlink -f main.go",
	"timeout 10 grep -r foo .", "time grep -rc foo src", "nice -n 10 wc -l main.go",
	"env LC_ALL=C sort data.csv", "LC_ALL=en_US.UTF-8 sort data.csv", "LANG=C.utf8 ls", "export LC_ALL=POSIX; ls", "LC_ALL= ls",
	"grep -rE '登录|注册' .", "printf '✓\\n'", "echo ✓ | cat", "tail -n $((3*2)) main.go", "seq 1 $((3+4))", "n=3; head -n $((5)) main.go", "cat \"$(pwd)/main.go\"",
	"n=$(wc -l < main.go); [ $n -gt 3 ] && echo \"$n lines\"", "git diff --name-only main...HEAD | xargs cat", "for f in $(git ls-files); do wc -l \"$f\"; done", "LC_ALL=C sort data.csv", "TZ=UTC date", "NO_COLOR=1 ls",
	"cat <<'EOF' | wc -l\na\nb\nEOF", "cat <<EOF\n$HOME\nEOF", "wc -c <<< 'abc'", "tr a-z A-Z <<< hello",
	"ls 2>&1 | head", "ls nothere 2>/dev/null || true", "grep foo main.go >/dev/null 2>&1 && echo found",
	"cat main.go &>/dev/null", "ls >&2", "set -euo pipefail; ls | head", "set -e\nls\npwd",
	"true; false; :", "echo a; echo b # comment", "# only this\nls", "ls \\\n  -la", "exit 0",
	"bash -c 'ls -la'", "sh -c 'cat main.go | wc -l'", "bash -c 'echo \"$1\"' _ hi",
	"xargs -I{} echo 'file: {}' < notes.txt", "git ls-files -z | xargs -0 wc -l",
	"git grep -l TODO | xargs grep -n TODO", "find . -name '*.py' | xargs -n1 basename", "ps aux | grep go",
	"ps -ef | head", "seq 3 | paste -sd+", "ls -a",
	"tree -L 2 -I node_modules", "stat main.go && file main.go", "cat \"my file.txt\"",
	"cat my\\ file.txt", "cat src/{a,b}.py", "echo {1..3}", "echo 'a' \"b\" c$'\\n'",
	"echo \"$(date +%s)\"", "echo `date`", "echo $(( 3 * (4 + 5) ))", "echo \"${x:-none} ${y:+set}\"",
	"git diff | grep '^+' | wc -l",
	"git log --format='%h %s' -n 5 | cat", "cat go.mod | grep -v indirect",
	"grep -n \"it's\" notes.txt", "echo 'rm -rf /'", "grep -rn 'curl http' scripts/",
	"printf '%s\\n' *.go",
}

// asks are commands that must not run unasked.
var asks = map[string][]string{
	// The cd may have failed, and then the path leads out of the workspace.
	"after a cd": {
		"cd nope; cat ../x", "cd nope || true; ls ..", "cd src; head -1 ../../README.md; cd lib; cat ../x",
		"cd nope\ngrep -r password ../",
	},
	// Some words look like something else than the path that they are.
	"no path, it seems": {
		"awk 1 ./x=/../../.ssh/id_rsa", "awk 1 /outside/a=b", "git diff --no-index /dev/null ../a/10:00.log",
		"git diff --no-index /dev/null /etc/a:b", "git diff --no-index ..x/../../secret a", `git show "HEAD:$f"`,
		`git diff --no-index /dev/null "/etc/$x"`, "cat .[!x]nv", "cat .[[:lower:]]nv", "git -c core.hooksPath=/DEV/NULL log",
		"git -c core.pager=CAT log",
	},
	// These print more than names of files, or other ones.
	"no listing": {
		"cat $(git ls-files --format='/etc/passwd %(path)')", "cat $(git ls-files -s)", "cat $(git ls-files --eol)",
		"cat $(git diff -l5)", "cat $(git diff --name-only -p)", "cat $(git diff --name-only --line-prefix=/etc/)",
	},
	// These only look as if they read, or only read if something holds that is not plain to
	// see: go and its tools count their calls in a file, java maps one, rustup runs what the
	// project names, pip compiles; a word that is not known may be an option; an array, a value
	// and a text of sed are outside of the grammar.
	"not plain": {
		"git diff \"$(git merge-base main HEAD)\" --stat",
		"git log \"$(git merge-base HEAD main)\"..HEAD --oneline",
		"go version",
		"go env GOPATH GOROOT",
		"go doc strings.Builder",
		"rustc --version",
		"cargo --version",
		"java -version",
		"n=$(git rev-list --count HEAD); echo $((n + 1))",
		"files=(a.go b.go); for f in \"${files[@]}\"; do cat \"$f\"; done",
		"sed '1i\\\nheader' data.csv",
		"gofmt -l .",
		"gofmt -d main.go",
		"kill -l",
		"pip list | grep torch",
		"pip show requests",
		"pip freeze",
	},
	"wrappers": {
		"env -i rm x", "nohup rm x", "timeout 5 rm x", "nice -n 5 rm x", "stdbuf -oL rm x", "setsid rm x",
		"command rm x", "builtin eval 'rm x'", "exec rm x", "time rm x", "sudo ls", "xargs rm",
		"echo x | xargs -I{} rm {}",
		"xargs sh -c 'rm x'", "busybox rm x", "watch rm x", "script -c 'rm x' /dev/null", "env -S 'rm x'",
		"env FOO=1 -S 'rm x'", "timeout -k 1 5 rm x", "ionice -c3 rm x", "flock -c 'rm x' l",
		"flock l -c 'rm x'", "parallel rm ::: x", "find . -name x | parallel rm", "unshare -r rm x",
		"su -c 'rm x'", "command -p rm x", "chroot . rm x",
		"strace ls", "gdb -ex 'shell id'", "doas ls", "entr rm", "/usr/bin/env rm x", "xargs -a list rm",
		"find . | xargs -0 -n1 sh",
	},
	"quotes": {
		"r\"\"m x", "\"r\"m x", "$'rm' x", "$'\\x72m' x", "$'\\u0072m' x", "r\\m x", "'r'm x", "rm$IFS''x",
		"X=r; Y=m; $X$Y x", "a=rm; \"$a\" x", "${a:-rm} x", "$(printf rm) x", "`printf rm` x", "{rm,x}",
		"{r,}m x", "/bin/r?", "/bin/r[m] x", "r*", "$\"rm\" x", "set -- rm x; \"$@\"", "rm\\\n x",
		"r\\\nm x", "!!", "!rm", "\\rm x", "$0 -c 'rm x'",
	},
	"builtins": {
		"eval rm x", "eval \"$x\"", "source x", ". ./x", "alias ls=rm", "unalias ls", "hash -p /tmp/x ls",
		"enable -f ./x.so x", "trap 'rm x' EXIT", "export PATH=/tmp", "declare -n r=PATH; r=/tmp",
		"read PATH <<< /tmp", "printf -v PATH /tmp", "declare -x LD_PRELOAD=x", "typeset BASH_ENV=x",
		"local PATH=x", "readonly IFS=x", "mapfile PATH < x",
		"unset PATH", "set -o history", "set -o posix", "shopt -s extglob", "ulimit -n 1", "umask 0",
		"bind -x '\"a\":rm x'", "complete -C 'rm x' ls", "compgen -C 'rm x'", "fc -s", "coproc rm x",
		"command eval 'rm x'", "builtin source x", "getopts a b", "PROMPT_COMMAND='rm x'",
		"HOME=/tmp git status", "GIT_DIR=/tmp git log", "for LD_PRELOAD in x; do ls; done",
		"((PATH=1))", "let PATH=1", "${PATH:=/tmp}", ": ${PATH:=/tmp}", "exec 3>/tmp/x",
		"exec > out", "command . ./x", "BASH_ENV=x bash -c ls",
		"x=echo; bash -c '$x rm x'", "export -f ls", "unset -f ls", "ls() { rm x; }; ls",
		"cd() { rm x; }; cd src", "function grep { rm x; }\ngrep a b", "test() { rm x; }; test -f x",
		"[() { rm x; }; [ a ]", "echo() { rm x; }; (echo hi)", "f() { g; }; g() { rm x; }; f",
		"eval 'ls() { rm x; }'; ls", "for i in 1 2; do ls; eval 'ls() { rm x; }'; done",
	},
	"arithmetic": {
		"echo $((a[$(rm x)]))", "((a[$(rm x)]++))", "x='a[$(rm x)]'; ((x))", "x='a[$(rm x)]'; echo $((x+1))",
		"x='a[$(rm x)]'; [[ $x -eq 1 ]]", "x='a[$(rm x)]'; [[ x -eq 1 ]]", "declare -i n='a[$(rm x)]'",
		"let 'x=a[$(rm x)]'", "[[ -v a[$(rm\\ x)] ]]", "test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]",
		"y=x; x='a[$(rm x)]'; echo $((y))",
		"read -r n < notes.txt; echo $((n))", "n=$(cat notes.txt); ((n > 1))", "x='$(rm x)'; echo ${x@P}",
		"echo ${!x}", "x=y; echo ${!x}", "a[$(rm x)]=1", "echo ${a[$(rm x)]}", "echo ${x:$(rm x)}",
		"echo ${x:a[$(rm x)]}", "printf -v 'a[$(rm x)]' y", "unset 'a[$(rm x)]'",
		"for ((i=a[$(rm x)];;)); do :; done", "mapfile -t 'a[$(rm x)]'", "read 'a[$(rm x)]' < notes.txt",
	},
	"substitution": {
		"echo $(rm x)", "echo \"$(rm x)\"", "echo `rm x`", "cat <(rm x)", "ls > >(rm x)",
		"cat <<EOF\n$(rm x)\nEOF", "cat <<< $(rm x)", "x=$(rm x)", "echo ${x:-$(rm x)}",
		"echo \"${x:-`rm x`}\"", "echo ${x/$(rm x)/y}", "case x in $(rm x)) ;; esac", "[[ $(rm x) ]]",
		"echo $(($(rm x)))", "a=($(rm x))", "ls $(rm x)", "> $(rm x)",
		"select i in 1; do rm x; done", "echo \"${x:-'}$(rm x)\"", "echo \"${x:-\"$(rm x)\"}\"",
		"${x:-rm} y",
	},
	"programs": {
		"find . -name *", "find . -name [!a]*", "find . -path ??????? -print", "find src -exec uniq {} +", "find src -type f -exec xxd {} +", "find src -exec env uniq {} +", "fd a -X uniq",
		"find . -exec rm {} +", "find . -ok rm {} \\;", "find . -execdir sh -c 'rm x' \\;",
		"find . -fprintf out x", "find . -fls out", "find . -delete -name x", "find . $(echo -delete)",
		"find . -exec sh -c 'cat {}' \\;", "find . -name x -exec sh {} \\;", "fd -x rm", "fd -X rm",
		"fd --exec rm", "sed -i s/a/b/ x", "sed -ni p x", "sed --in-place=.b p x",
		"sed -n 'w out' x", "sed 's/a/b/w out' x", "sed 's/a/rm x/e' x", "sed e x",
		"sed '1!e rm x' x", "sed -e p -e 'w out' x", "sed -f x y", "sed -ne 'w out' x",
		"sed $'p\\nw out' x", "sed '/a/{p;w out\n}' x", "sed '/[/]/w out' x",
		"awk 'BEGIN{system(\"id\")}'", "awk '{print > \"x\"}' y", "awk '{print >> \"x\"}' y",
		"awk '{print | \"sh\"}' y", "awk 'BEGIN{\"id\"|getline x}'",
		"awk 'BEGIN{getline x < \"/etc/passwd\"}'", "awk -f x y", "awk '@load \"x\"'",
		"gawk -i inplace '{print}' x", "awk '{printf \"x\" > $1}' y",
		"awk '{print a,\nb > \"x\"}' y", "awk '{print $1/2 > \"f/\"}' x",
		"awk 'BEGIN{print 1 |& \"sh\"}'", "awk 'BEGIN { ARGV[1]=\"/etc/passwd\" } 1' x",
		"awk \"$x\" y", "awk 'BEGIN{f=\"system\"; @f(\"id\")}'",
		"git -c core.pager=x log", "git -c alias.y='!rm x' y", "git --exec-path=. status", "git log --output=x",
		"git log --outp=x", "git diff --ext-diff", "git diff --textconv", "git grep -O", "git grep -Orm x",
		"git grep --open x", "git config alias.x '!rm'", "git config --global core.pager x",
		"git branch x", "git branch -D x", "git branch --delete x", "git tag x", "git tag -d x",
		"git stash", "git stash pop", "git remote add x y", "git remote set-url origin x",
		"git fetch", "git clone x", "git checkout x", "git submodule foreach 'rm x'",
		"git bisect run rm x", "git rebase -x 'rm x'", "git difftool -x rm",
		"git archive -o x HEAD", "git bundle create x HEAD", "git format-patch -1",
		"git worktree add ../x", "git log --format='%G?'",
		"git log --show-signature", "git log $x", "git reflog expire --all",
		"git update-ref -d x", "git symbolic-ref HEAD x",
		"git ls-remote", "git remote show origin",
		"git -C .. status", "git -C /tmp log", "git help log",
		"git log --help", "git mycommand", "git lfs pull",
		"git fetch --upload-pack='rm x' .",
		"git clone -c core.fsmonitor=x y",
		"git clone -u 'rm x' y z",
		"git --git-dir=x log",
		"git --bare log", "git -p log",
		"git show HEAD:.env",
		"git diff -- .env", "git cat-file --filters HEAD:x", "git hash-object -w x", "git replace a b",
		"git notes add", "git am x", "git apply x", "git gc", "git push",
		"rg --pre=x y", "rg --pre x y", "rg -z x", "rg --search-zip x", "rg --hostname-bin=x y", "rg x *",
		"sort -o x y", "sort -ox y", "sort --output=x y", "sort --out x y", "sort --compress-program=x y",
		"sort -T /tmp y", "sort *", "sort $(ls)", "uniq a b", "uniq *", "tee x", "ls | tee x",
		"shuf -o x y", "iconv -o x y", "tree -o x", "split x", "csplit x 1", "xxd -r x y", "xxd x -s", "zstdcat x -o y", "git config core.pager -x", "git config core.pager --x", "reset", "git var -l", "uniq x -c",
		"xxd x y", "base64 -o x y", "dd of=x", "tar xf x", "tar cf x y",
		"tar tf x --to-command=rm", "tar --checkpoint=1 --checkpoint-action=exec=rm -tf x",
		"tar -I 'rm x' -tf y", "tar --use-compress-program=x -tf y", "zip x y",
		"unzip x", "gzip x", "gunzip x", "patch -p1", "ed x", "vim x",
		"ex -sc '!rm x'", "less x", "man ls", "date -s x", "date 010100002020",
		"hostname x", "diff3 --diff-program=x a b c", "file -C -m x",
		"yq -i x y", "bat --pager=x y", "jq -f x y", "jq -n env",
		"jq 'import \"a\" as a; .' x", "split --filter=x y",
		"install x y", "ln -s x y", "mkdir x", "touch x",
		"rm x", "mv a b", "cp a b", "chmod +x a",
		"truncate -s0 x", "make", "make -n", "npm ls",
		"npm run x", "go build", "go test ./...",
		"go run .", "go list ./...",
		"go env -w X=1", "go doc -http x",
		"python3 x.py", "python3 -c 1",
		"python -m json.tool x",
		"node x", "node -e 1",
		"perl -e 1", "perl -ne print x", "ruby -e 1", "php -r 1", "java X", "./x", "../x", "x/y", "/tmp/ls",
		"bin/ls", "~/x", "foo", "yes", "top", "ssh x", "curl x", "wget x", "nc x 1", "ping x", "docker ps",
		"kubectl get x", "psql", "kill 1", "kill -0 1", "bash x", "bash -s < x", "cat x | bash", "bash -i",
		"bash -lc ls", "bash --rcfile x -c ls", "bash -o posix", "zsh", "python3 < x", "echo rm x | sh",
		"env", "printenv", "printenv AWS_SECRET", "export", "set", "declare -p", "history",
		"compgen -v; rm x",
	},
	"the name of a script": {
		"bash -c 'find . \"$0\"' -delete", "sh -c 'find . $0' -delete", "sh -c 'sort $0' -ox", "bash -c 'sort \"$0\" a' -ox", "sh -c '\"$0\" --version' ./x",
		"bash -c '$0 --help' touch", "sh -c 'cat $0' /etc/passwd", "sh -c 'cat \"$0\"' .env", "sh -c 'cat $0' ../x", "ls | xargs sh -c 'sort \"$0\"'",
		"sh -c 'sort $0' *", "sh -c 'f() { sort $0; }; f' -ox", "bash -c 'sh -c \"find . \\$0\" $0' -delete", "bash -c \"bash -c 'sort \\$0' \\$0\" -ox",
		"timeout 5 bash -c 'find . $0' -delete", "find . -exec sh -c 'sort $0' -ox \\;",
	},
	"redirects": {
		"sh -c 'echo >> $1'", "f() { echo > $1; }; f", "echo > $@", "cat < $@",
		"cat < a > /dev/stdin", "ls 3< a > /dev/fd/3", "ls 1< a > /dev/stdout", "ls 2< a > /dev/stderr", "cat < a 1<&0 > /dev/stdout",
		"cat < a >&0 > /dev/stdout", "cat < a 2>&00 > /dev/stderr", "cat < a 1<&0- > /dev/stdout", "cat < a 3<&0 1>&3 > /dev/stdout",
		"{ ls > /dev/stdout; } 1< a", "while read -r x; do echo \"$x\" > /dev/stdin; done < a", "cat < a > /dev/fd/0",
		"ls > x", "ls >> x", "ls >| x", "ls &> x", "ls >& x", "ls 2> x", "ls <> x", ": > x", "> x", "ls > $x", "ls > \"$1\"", "ls > ''",
		"ls > *", "ls > /tmp/x", "ls > ~/x", "ls > ../x", "{ ls; } > x", "(ls) > x",
		"for i in 1; do ls; done > x", "if true; then ls; fi > x", "f() { ls; } > x; f",
		"ls > /dev/sda", "cat < /dev/tcp/h/1", "cat < /dev/udp/h/1", "ls > /dev/tcp/h/1",
		"exec {fd}> x", "ls {PATH}> x", "cat < ~/.ssh/id_rsa", "cat < .env",
		"ls > /dev/null > x", "ls 3> x", "ls > \"$(echo x)\"",
		"while read l; do echo $l; done < /etc/passwd", "cat << EOF > x\na\nEOF",
	},
	"paths": {
		"cat /etc/passwd", "cat ~/.bashrc", "cat ../x", "cat src/../../x", "ls /", "ls ..", "find / -name x",
		"grep -r x /", "cat .env", "cat ./.env", "cat .ENV", "cat .e*", "cat .[e]nv", "cat {.env,x}",
		"cat src/../.env", "cat \"$HOME/x\"", "cat $x", "cat \"$x\"", "cat $(cat x)", "cat `cat x`",
		"x=/etc/passwd; cat $x", "x=.env; cat \"$x\"", "x=.; cat ${x}env",
		"for f in /etc/*; do cat $f; done", "for f in .env; do cat $f; done", "cat < $x",
		"cd /; ls", "cd ..; ls", "cd ~; ls", "cd; ls", "cd - ; ls", "cd \"$x\"; ls",
		"cat /proc/self/environ", "cat /dev/zero", "tail -f x", "cat id_rsa",
		"cat x.pem", "head -c 100 ~/.aws/credentials", "ls ~root",
		"cat /ws/../etc/passwd", "cat //etc/passwd", "cd src && cat ../../x",
		"ln -s / x; cat x/etc/passwd", "xargs cat < x", "cat x | xargs cat",
		"pushd /; ls", "git diff /etc/passwd x",
		"git diff --no-index ../x y", "echo /etc/*",
		"find -L . -name x", "du -L .", "ls -L", "tar tf ../x",
		"diff x ~/y", "grep x -f ~/y",
		"wc --files0-from=/etc/x",
		"find . -newer /etc/passwd",
		"find . -files0-from /etc/x",
		"source ~/.bashrc", "test -f x && cat ~/x", "cat \"${x:-/etc/passwd}\"", "cat ${HOME}/x", "HOME=/ cat ~/x",
	},
	"environment": {
		"echo $AWS_SECRET_ACCESS_KEY", "echo \"${GITHUB_TOKEN}\"", "printf '%s' \"$API_KEY\"",
		"cat <<< \"$SECRET\"", "cat <<EOF\n$PASSWORD\nEOF", "x=$API_KEY; echo $x",
		"for x in $API_KEY; do echo $x; done", "echo ${API_KEY:0:3}", "echo ${API_KEY#x}",
		"echo \"$DATABASE_URL\"", "LD_PRELOAD=x ls", "PATH=. ls", "GIT_PAGER=x git log",
		"LESSOPEN=x cat y", "RIPGREP_CONFIG_PATH=x rg y", "GOFLAGS=-exec=x go version",
		"PYTHONPATH=. python3 -V", "NODE_OPTIONS=x node -v", "TAR_OPTIONS=x tar tf y",
		"MANPAGER=x ls", "GREP_OPTIONS=x grep y z", "XDG_CONFIG_HOME=. git status",
		"IFS=x; ls", "env PATH=. ls", "env -u PATH LD_PRELOAD=x ls",
		"PS4='$(rm x)'; set -x; ls", "SHELLOPTS=x ls", "BASH_ENV=x ls",
		"TMPDIR=x sort y",
	},
	"subtle": {
		"RANDOM='a[$(rm x)]'", "OPTIND='a[$(rm x)]'", "HISTCMD='a[$(rm x)]'", "declare -i n; n='a[$(rm x)]'",
		"declare -i n; read n", "declare -l f; f=-OX; sort $f", "declare -n r; r=PATH",
		"printf '%n' 'a[$(rm x)]'", "printf \"$x\" y", "wait -p 'a[$(rm x)]'",
		"test \"$x\" \"$y\"", "[ \"$x\" \"$y\" ]", "find . | xargs sort",
		"find . | while read -r f; do sort \"$f\"; done", "sort $(find .)",
		"mapfile -t a < <(find .); sort \"${a[@]}\"", "tar tfI x 'rm x'", "tar xf x -C ..",
		"git blame --output out", "git shortlog --output=x", "git rev-list --output=x HEAD",
		"printf ': %s' \"'\" | (read a; bash)", "echo ls | { read x; bash; }", "echo ls | (exec < x; bash)",
		"exec < x; bash", "BASH_CMDS[ls]=/tmp/x; ls", "BASH_ALIASES[ls]=rm", "DIRSTACK[0]=/", "mvn -v",
		"yarn --version", "pytest --version", "flake8 --version", "cargo build --version",
		"python3.12 x", "ls2",
		"f() { sort -\"$@\" x; }; f oout", "awk 'BEGIN{system(\"id\")}' -e x", "awk 'BEGIN{system(\"id\")}' -exec",
		"sed 'w out' x -e p", "f() { sort a\"$@\"; }; f x -oout", "a=(x -oout); sort \"a${a[@]}\"", "sort -nr\"$x\"", "rg a$x", "sort -k1$x y",
		"sort -nr$(git rev-parse HEAD) x", "f() { sort \"x$@\"; }; f a -oout", "find . -name .env | xargs cat", "find . -name '.e*' -exec cat {} +", "find . -iname '*ENV' -exec cat {} +",
		"find . | grep env | xargs cat", "grep -r --include=.env x .", "rg -g '*.pem' x", "ls | grep id_rsa | xargs cat",
		"while true; do cd /; break; cd /ws; done; rm x", "f() { cd /; return; cd /ws; }; f; rm x",
		"x=-o; [ a = b ] || x=-n; sort $x out", "x=ls; [ a = b ] && x=rm; $x y",
		"if a; then x=ls; else x=rm; fi; $x y", "for x in ls rm; do $x y; done",
		"x=ls; f() { x=rm; }; f; $x y", "x=ls; read x; $x y",
		"x=ls; while true; do $x y; x=rm; done", "ls | x=rm; $x y",
		"x=ls; for x in rm; do :; done; $x y", "x=ls; ((x=1)); $x y", "x=ls; unset x; $x y",
		"a=(ls rm); ${a[1]} y", "a=(ls rm); for c in \"${a[@]}\"; do $c y; done", "set -- rm; $1 y",
		"f() { \"$@\"; }; f rm x", "f() { $1 x; }; f rm", "f() { local x=rm; g; }; g() { $x y; }; f",
		"bash -c '\"$@\"' _ rm x", "bash -c '$0 x' rm", "eval 'x=rm'; $x y", "x=rm bash -c '$x y'",
		"x=rm; export x; bash -c '$x y'",
		"cat <<EOF | sh\nrm x\nEOF", "ls ${x:=-o}; sort $x y", "echo ${x:=rm}; $x y", ": ${x=rm}; $x y",
		"printf -v x rm; $x y", "find . -name '*' -exec $x {} \\;", "awk '{print}' x=1 /etc/passwd",
		"sed -n p /etc/passwd", "sed --expression='w out' x", "sed -s -e 'w out' x",
		"sed -n --expr 'w out' x", "awk -e '{print > \"x\"}'", "awk --source '{print > \"x\"}'",
		"grep -f /etc/passwd -f x y", "jq -n 'import \"a\" as a; a'",
	},
	"characters": {
		"ls\r", "ls\r\nrm x", "ls\x00", "ls\x1b[2K", "ls \u200b", "\u202els", "ls\u00a0-l", "ls\u2003x",
		"\u0433m x", "\uff52\uff4d x", "ls\u2028rm x", "ls\ufeff", "l\u00ads", "ls \U000e0041", "ls\v",
		"ls\f", "ls\u3164", "ls\ufe0f", "\xff", "ls \xc0\xaf",
	},
	// Causes that were found once, each with what is near to it.
	"joined lines":  {"ls # \\\nrm -rf src", "ls # a\\\nrm -rf src", "ls # \\\\\\\nrm x", "ls \\\n# \\\nrm x", "l\\\ns", "ls &\\\n& rm x", "#\\\nrm x", "cat <<E\\\nOF\nEOF\nrm x"},
	"labels of sed": {"sed ':a e touch P' f", "sed ':a;N;$!ba;e touch P' f", "sed 'ba e touch P' f", "sed 'b;e' f", "sed ':a\te touch P' f", "sed '}e touch P' f", "sed 's/a/b/;;e touch P' f", "sed 'y/a/b/e' f", "sed '/[/]/e touch P' f", "sed 's,[,],x,e' f", "sed '1,/a/{s/b/c/e}' f", "sed -n '$!{h;d};x;w P' f", "sed --expression='s/a/b/;w P' f", "sed -s -- 'w P' f", "sed -f x f", "sed -e 'i\\' -e 'x' f", "sed 's/x/y/\nw P' f"},
	"values as code": {
		"a=('b[$(touch P)]'); ((a))", "x=y; y=z; z='a[$(touch P)]'; echo $((x))", "mapfile a < f; ((a))",
		"declare -a a='($(touch P))'", "env x='a[$(touch P)]' bash -c '((x))'", "x='a[$(touch P)]' bash -c '((x))'",
		"export x='a[$(touch P)]'; bash -c '((x))'", "env x='a[$(touch P)]' bash -c 'echo $((x)); x=1'", "readarray a < f; echo $((a))",
		"x='a[$(touch P)]'; echo ${y:x}", "x='a[$(touch P)]'; echo ${y:0:x}", "read x < f; ((x))", "read x < f; [[ $x -gt 1 ]]",
		"x=1; read x < f; ((x))", "x=1; f() { read \"$1\" < notes.txt; }; f x; ((x))", "for x in $(cat f); do ((x)); done",
		"typeset -i n; n=$x", "local -n r=x", "export -n x", "readonly -a a='($(touch P))'", "i=1; i+='a[$(touch P)]'; ((i))",
		"select x in a; do ((x)); done", "let x", "((x))", "echo $((x))", "x=1; printf -v x %s 'a[$(touch P)]'; ((x))",
		"x=1; getopts a x; ((x))", "x=1; unset x; ((x))", "for ((i=0;i<n;i++)); do ls; done", "echo $((RANDOM=x))",
		"OPTIND='a[$(touch P)]'", "[[ -v x[$(touch\\ P)] ]]", "[[ x -eq 1 ]]", "test -v x", "[ -v x ]", "[ a -o -v b ]",
		"x='$(touch P)'; echo \"${x@P}\"", "x=y; echo ${!x}", "echo ${!x*}", "echo ${x[$(touch P)]}", "cat <<E\n$((a[$(touch P)]))\nE", "PS4='$(touch P)'; set -x; ls", "set -x; ls",
	},
	"words of awk": {
		"awk '1system(\"touch P\")' f", "awk -W exec=evil.awk", "awk -Wexec=evil.awk f", "awk '1;1system(\"touch P\")' f", "awk '{print>\"P\"}' f",
		"awk '{print $1\n> \"P\"}' f", "awk '{x=1;print(1)>\"P\"}' f", "awk '{print|\"sh\"}' f", "awk 'BEGIN{\"date\"|getline x}' f", "awk '{printf(\"x\")>>\"P\"}' f",
		"awk 'function f(){}; BEGIN{f()}' f", "awk '@include \"x\"' f", "awk -i inplace 1 f", "awk -l x 1 f", "awk -f x f", "awk -E x f", "awk '{print}' -f x", "awk -v ARGV=1 1 f",
		"awk '/[/]/{system(\"touch P\")}/]/' f", "awk '$1/2/system(\"touch P\")/1' f", "awk '1)/system(\"touch P\")/1' f", "awk 'BEGIN{for(;;print \"x\" > \"P\");}'", "gawk -e 1 f", "awk --dump-variables=P 1 f", "awk 0x1system f",
		"awk '# \\\n{system(\"touch P\")}' f", "awk 'BEGIN{close(\"x\")}'", "awk 'BEGIN { getline < \"f\" }'", "awk '{print $0 |& \"sh\"}' f", "awk 'BEGIN{printf \"a\" > /dev/stdout}'",
	},
	"other options": {
		"git submodule --quiet foreach 'touch P'", "git submodule --quiet --cached foreach 'touch P'", "xz -l -d a.xz", "xz -d -l a.xz", "gzip -t -d a.gz", "gzip -l -r .", "zstd -t --rm a", "xz -c -o x a",
		"pip list --log ~/.bashrc", "tar tf a --volno-file=x", "tar tf a --index-file=x", "tar tf a --delete b", "tar tf a -x", "tar --list --file=a -I touch", "tar t --checkpoint-action=exec=rm -f a", "tar tf host:a", "shfmt --write", "shfmt -w x",
		"cat --exec=rm", "cat --numbe x", "cat -Z x", "git log --some-new-exec=rm", "git log --onelin", "git diff --outpu=x", "ls --exec=x", "find . -newaction x", "sort --outp x", "rg --pre-glob x y", "rg --new-option x", "jq --new . x", "grep --new x y", "git status --new", "git branch --new", "git tag --new", "git remote --new", "git stash list --output=x", "git config --get x --add y z", "git reflog write x", "git worktree list --new", "git notes list --new", "git clean -n --new",
		"diff -l a b", "diff --paginate a b", "file -C -m x", "file *", "file -z x", "du --files0-from=x", "hostname -f", "hostname -I", "date -f x", "date 01010000", "ps e", "ps axe", "unzip -o x", "unzip -l x -d y -o", "env --chdir=x ls", "env X=1 ls", "timeout --new 1 ls", "xargs --new ls", "xargs --process-slot-var=PATH ls", "bash -x -c ls", "bash --new -c ls", "zsh -c ls", "read -e x", "read -a x < f", "read -u 3 x", "bat --pager=x y", "bat --new y", "fd --new x", "tree -R", "tree -o x", "dpkg -l --pre-invoke=x", "dpkg -S x --new", "wc --files0-from=x", "column --new x", "nm --plugin=x y", "objdump -S x", "objdump -l x", "readelf -w x",
		"export x=1", "export FOO", "export PAGER=x", "X=1 ls", "pager=x ls", "LC_ALL=../x ls", "TZ=/x date", "LANG=:x ls", "histchars=x", "COLUMNS=x ls",
	},
	"parsers of their own": {
		"xxd -c -o a b", "time xxd -c -o a .", "tree -P -- -o x", "tree -I -- -o x", "rg -g -- --pre=./x y", "rg -e -- --pre ./x y", "nl -b -d /etc/passwd",
		"rg -m -g --pre=./x y", "git log -S -- --output=x", "git log -S -G --output=x", "git grep -e -- -O x", "sed -e -- -i f", "head -n -c /etc/passwd",
		"git log --format='%+G?'", "git show --format='%-GK'", "git log --pretty='format:% GS'", "git shortlog --group=%GS", "git log --format=mine", "git stash list --format=mine",
		"sed 's/[[.].]/]/;s/w out/a/p' f", "sed 's/[^[=]=]/]/;s/w out/a/p' f", "awk '/[[.].]/]/;/> \"out\"/' f",
		"tar tf host:a -f b", "tar -t -f host:a --file=b", "tar -t --file=host:a --file=b", "tar -tf a*", "tar -tf */a", "tar -tf [a:]*/a",
		"npm --version",
		"xxd -ps a.txt out", "xxd -pc a b", "tree -Io '*.x' out", "tree -aIo x out", "nm @opts", "objdump @opts", "size @opts", "strings @opts", "nm *", "readelf $(ls)", "c++filt @opts",
		"unzip -p- x.zip", "unzip -l- x.zip", "bash -n +n x", "bash -c +n 'rm x'", "env -i git status", "env -u GIT_CONFIG_COUNT git status", "env - git status", "GIT_OPTIONAL_LOCKS=1 git status",
		"DEVELOPER_DIR=x; git status", "X=1; ls", "while read FOO; do ls; done", "for FOO in a b; do ls; done", "ls; FOO=x", "read -r SDKROOT < a; git log", "bash -c 'FOO=x; ls'",
		"npm -v", "cat <<< \"$(ls)\"", "cat <<E\n$(ls)\nE", "cat <<E\n`ls`\nE", "x=$(ls); cat <<< \"$x\"", "sort -m", "sort --merge x", "shasum .", "git describe --dirty", "git describe --broken",
		"git config edit", "git config x", "git log --pretty=mine", "git show --pretty=mine", "yq 'load(\"x\")' a", "yq 'env' a", "yq -n 'system(\"x\")'", "yq '.a | load(\"x\")' a", "yq -i .a x",
		"awk 'length /x/ {print}' f", "tac", "cat x | tac", "tac -", "tac <(ls)", "zcat *",
	},
	"options that are arguments": {
		"git clean -e -n -f", "git clean --exclude -n -f", "git clean -f -e --dry-run", "git clean -e -- -n -f", "tar -xf a.tar --exclude -O", "tar -x -C -O -f a.tar", "tar xf -O",
		"tar -xf a.tar --exclude --to-stdout", "grep -r -e -l . | xargs cat", "grep -rh -e --files-with-matches . | xargs cat", "rg -e --files . | xargs cat", "git grep -e -l | xargs cat",
		"git config --file --get core.pager evil", "git config -f --get core.pager evil", "find . | xargs -E -0 sort", "find . | xargs -I -0 sort -0", "find . | while read -p -r f; do cat \"$f\"; done",
		"git branch --format --list x", "git tag -n-1 x",
	},
	"options behind two dashes": {
		"git stash list -- --output=x", "git stash list -- -p --output=/etc/x", "unzip -p -- -p x.zip", "unzip -l -- -l x.zip", "unzip -qp -- -p x.zip", "unzip -l -- -ld /etc x.zip",
	},
	"a plus for a dash": {"bash -n +n", "echo 'touch P' | bash -n +n", "sh -n +n < f", "bash -n +nx", "bash -n *", "bash -n [+]n", "bash -n \"$f\"", "for f in *; do bash -n \"$f\"; done", "git ls-files -z | xargs -0 -n 1 bash -n"},
	"ends of find": {
		"x=$(cat f); find . -exec echo \"$x\" -delete -exec echo \\;", "find . -exec echo {} \"$x\" -delete -exec echo {} +", "for f in *; do find . -exec echo \"$f\" -delete -exec echo \\; ; done",
		"find . -exec echo \"$x\" + -delete -exec echo \\;", "find . -exec echo $(ls src) -delete -exec echo \\;", "find . -exec echo * -delete -exec echo \\;",
	},
	"arch of macOS": {"arch touch x", "arch sh x.sh", "arch -x86_64 ls"},
	"forms": {
		"((ls); ls)", "$((ls); ls)", "ls {a,b}{c,d}", "ls {a,$x}", "ls \\{a,b}", "ls \"a\"{b,c}", "echo `echo \\`ls\\``", "echo $\"x\"", "echo $'\\c'; cat $'\\u2e\\u2e/x'",
		"cat <<'E O'\nx\nE O", "cat <<\\E\nx\nE", "cat <<A <<B\nA\nB", "echo $(cat <<E\nx\nE\n)", "cat <<E\n\\$(touch P)\nE", "[[ x =~ (a|b) ]]", "[[ a =~ b\\ c ]]", "sh -c 'ls &>x'", "sh -c \"echo $'a\\\\'; touch P #'\"", "dash -c '[[ a ]]'",
		"case x in x) ls;& y) ls;; esac", "coproc ls", "f() ( ls ) 2> x", "function f() { rm x; }; f", "a+=b", "a[0]=b", "a=(b)", "echo ${a[0]}", "echo ${a[@]}", "echo ${x:=y}", "echo ${x=y}", "echo ${x@Q}", "echo ${x@A}", "ls >(cat)", "exec 3<f", "{x}<f ls", "!", "ls |& rm x", "eval ls", "command eval ls", "builtin cd src", "trap ls EXIT", "trap - EXIT", "enable ls", "shopt -s nullglob", "set -o posix", "unset x", "alias", "wait", "printf '%n' x", "printf '%(%s)T' -1", "printf \"$x\"", "test a -a b", "[ a = b -o -v c ]", "[ \"$a\" \"$b\" ]", "[ $x = a ]",
	},
	"syntax": {
		"", " ", "\n\n", "ls &&", "ls |", "(ls", "ls)", "{ ls", "if ls", "'", "\"", "`ls", "$(ls", "ls <<",
		"ls >", "ls ;;", "case x in", "ls &", "ls & rm x", "ls; rm x", "ls\nrm x", "ls||rm x", "ls|rm x",
		"ls|&rm x", "! rm x", "ls && { rm x; }", "ls; (rm x)", "echo a\\", "ls @(a|b)", "ls =(ls)",
		"echo $[a[$(rm x)]]", "while rm x; do :; done", "until rm x; do :; done",
		"if rm x; then :; fi", "for i in 1; do rm x; done", "for i in $(rm x); do :; done",
		"case x in x) rm x;; esac", "f() { rm x; }", "f() { f | f & }; f",
		"function f { f; }; f", "time -p rm x", "ls #\nrm x", "ls ' \n' ; rm x",
	},
}

// These are near to what asks, and read.
var nearHarmless = []string{
	"head -n -1 a.txt", "git log -n -1", "cut -d - -f 1 a.txt", "sort -t - -k 2 a.txt", "git clean -n -e x -f", "tar -xOf a.tar --exclude=x", "bash -n ./x.sh", "bash -n x.sh", "bash -n scripts/*.sh",
	"for f in scripts/*.sh; do bash -n \"$f\"; done", "find . -name '*.sh' -exec bash -n {} \\;", "unzip -p -- x.zip", "unzip -l x.zip", "git stash list -- -p", "find . -name a -exec grep x {} +",
	"d=src; find . -exec grep \"$d\" {} \\;", "find . -exec grep \"./$x\" {} \\; | wc -l", "git tag -n5", "git tag -n -l 'v*'", "arch", "arch ls",
}

func TestHarmless(t *testing.T) {
	for _, cmd := range nearHarmless {
		if a := shell.Analyze(cmd, world); !a.Allow {
			t.Errorf("%q is %s: %q", cmd, a.Class, a.Why)
		}
	}

	for _, cmd := range harmless {
		if a := shell.Analyze(cmd, world); !a.Allow {
			t.Errorf("%q is %s: %q", cmd, a.Class, a.Why)
		}
	}
	t.Logf("%d commands", len(harmless))
}

func TestAsks(t *testing.T) {
	n := 0
	for family, cmds := range asks {
		n += len(cmds)
		for _, cmd := range cmds {
			if a := shell.Analyze(cmd, world); a.Allow {
				t.Errorf("%s: %q is allowed", family, cmd)
			}
		}
	}
	t.Logf("%d commands", n)
}

// denied are refused even if the user is there to be asked.
var denied = []string{
	"rm -rf /", "rm -fr /*", "sudo rm -rf /", "rm -r -f /", "rm --recursive --force /", "rm -rf ~", "rm -rf ~/",
	"rm -rf ~/*", "rm -rf \"$HOME\"", "rm -rf $HOME/*", "rm -rf /etc", "rm -rf /usr/", "rm -rf ..",
	"rm -rf ../*", "rm -rf /home/user", "cd / && rm -rf *", "cd /; rm -rf .", "cd ~ && rm -rf .",
	"bash -c 'rm -rf /'", "x=/; rm -rf $x", "find / -delete", "find ~ -exec rm -rf {} +",
	"chmod -R 777 /", "chmod -R 000 ~", "chown -R me /usr", "mv / /tmp", "mv ~ /tmp/x", "dd if=x of=/dev/sda",
	"dd if=/dev/urandom of=/dev/nvme0n1 bs=1M", "cat x > /dev/sda", "cp x /dev/sda", "tee /dev/sdb < x",
	"mkfs.ext4 /dev/sdb1", "mkfs -t ext4 /dev/sda", "wipefs -a /dev/sda", "shred /dev/sda",
	"kill -9 -1", "kill -KILL -1", "kill -s KILL -1", ":(){ :|:& };:", "f(){ f|f& };f",
	"env rm -rf /", "timeout 5 rm -rf /", "ls; rm -rf / --no-preserve-root", "echo $(rm -rf /)",
	"eval 'rm -rf /'", "ls | xargs rm -rf /",
	"rm -rf \"${UNSET:-}/\"", "rm -rf \"${UNSET%/}\"/*", "rm -rf ${UNSET##*/}/", "rm -rf \"${UNSET:+$UNSET}/\"",
	"rm -rf \"$UNSET\"/", "rm -rf $UNSET/", "rm -rf \"$UNSET\"/*", "rm -rf ${A}${B}/*", "rm -fr \"$PREFIX/usr\"",
	"rm -rf \"${DIR}/\"*", "cd src; rm -rf \"$OUT\"/", "reboot", "shutdown", "shutdown -h now", "sudo shutdown -r now",
	"poweroff", "halt", "init 6", "init 0", "telinit 0", "systemctl reboot", "systemctl --force poweroff", "/sbin/reboot",
	"systemctl -i halt", "echo b > /proc/sysrq-trigger", "sleep 1 && reboot", "loginctl poweroff",
}

func TestDenied(t *testing.T) {
	for _, cmd := range denied {
		a := shell.Analyze(cmd, world)
		assert.True(t, a.Deny, "%q: %s %q", cmd, a.Class, a.Why)
		assert.GreaterOrEqual(t, a.Class, shell.Destructive, "%q: %q", cmd, a.Why)
	}
	for _, cmd := range []string{"rm -rf node_modules", "rm -rf ./build", "rm -rf /tmp/x", "rm -rf /ws/dist",
		"rm x", "find . -delete", "chmod -R u+w src", "kill 123", "git clean -fdx", "rm -rf *",
		"mkfs.ext4 disk.img", "mv src /tmp", "ls /", "echo 'rm -rf /'", "rm -rf \"$OUT\"", "rm -rf \"$OUT/build\"",
		"rm -rf \"$(cat dir)\"/", "rm -rf \"${OUT:?}\"/", "rm -rf \"${OUT:-build}/\"", "rm \"$OUT\"/", "shutdown -c", "systemctl restart x", "init 3",
		"echo reboot", "git log --grep=reboot"} {
		assert.False(t, shell.Analyze(cmd, world).Deny, cmd)
	}
}
