package shell

// Options that several commands of git have.
const (
	gitDiff = " --output=w --ext-diff!e --textconv!e -O=r -U= -G= -S= -l= --relative? " +
		"--word-diff-regex= --inter-hunk-context= "
	gitLog = gitDiff + " --show-signature!a -n= --format= --pretty? --since= --until= --after= --before= --author= " +
		"--committer= --grep= -L= --max-count= --skip= --date= --decorate-refs= --glob= --exclude= --branches? --tags? " +
		"--remotes? --stdin "
	gitFetch = " -u=x --upload-pack=x --receive-pack=x --exec=x -c=a --config=a --template=a --reference=r "
)

// gitCommands are the subcommands of git, as far as they need no code of their own. What
// a hostile configuration of the repository could add is up to the environment that
// hosts set.
var gitCommands = map[string]program{
	"git": {handler: "git"}, "git var": {use: 'n', spec: "-l!o"}, "git status": {spec: "--untracked-files? --ignored? --porcelain?"},
	"git diff": {spec: gitDiff}, "git log": {spec: gitLog}, "git show": {spec: gitLog},
	"git whatchanged": {spec: gitLog}, "git rev-list": {spec: gitLog, use: 'n'}, "git shortlog": {spec: gitLog},
	"git diff-tree": {spec: gitLog}, "git diff-index": {spec: gitDiff}, "git diff-files": {spec: gitDiff},
	"git range-diff": {spec: gitDiff},
	"git blame":      {spec: "-L= -S=r --contents=r --ignore-rev= --ignore-revs-file=r --date= --textconv!e -C? -M?"},
	"git annotate":   {spec: "-L= --contents=r --textconv!e"},
	"git grep": {spec: "-O!e --open-files-in-pager!e --textconv!e --ext-grep!e -f=P -e=p -A= -B= -C= -m= " +
		"--max-depth= " +
		"--threads=", use: 'p'},
	"git ls-files":     {spec: "-x= -X=r --exclude= --exclude-from=r --exclude-per-directory= --with-tree= --format="},
	"git ls-tree":      {spec: "--format= --abbrev?"},
	"git cat-file":     {spec: "--textconv!e --filters!a --path= --batch? --batch-check? --batch-command?"},
	"git describe":     {use: 'n', spec: "--match= --exclude= --candidates="},
	"git for-each-ref": {use: 'n', spec: "--shell --format= --sort= --count= --points-at= --contains? --merged?"},
	"git show-ref":     {use: 'n', spec: "--exclude-existing?"}, "git fsck": {use: 'n', spec: "--lost-found!W"},
	"git merge-tree": {use: 'n', spec: "--write-tree!W"}, "git ls-remote": {handler: "gitRemote", spec: gitFetch},
	"git branch": {handler: "gitBranch"}, "git tag": {handler: "gitBranch"}, "git remote": {handler: "gitRemotes"},
	"git stash": {handler: "gitStash"}, "git config": {handler: "gitConfig"}, "git reflog": {handler: "gitReflog"},
	"git symbolic-ref": {handler: "gitSymbolic"}, "git worktree": {handler: "gitWorktree"},
	"git notes": {handler: "gitNotes"}, "git submodule": {handler: "gitSubmodule"},
	"git bisect": {handler: "gitBisect"}, "git archive": {handler: "gitArchive"},
	"git hash-object": {spec: "-w!W -t= --path="},
	"git add": {class: WritesWorkspace,
		spec: "-e!a --edit!a -p!a --patch!a -i!a --interactive!a --pathspec-from-file=r --chmod="},
	"git stage": {class: WritesWorkspace},
	"git commit": {class: WritesWorkspace,
		spec: "-m= -F=r -C= -c= -t=r -S? --message= --file=r --template=r --author= --date= --fixup= --squash= " +
			"--cleanup= --trailer= -u? --gpg-sign?", use: 'n'},
	"git init": {class: WritesWorkspace, use: 'w',
		spec: "--template=a --separate-git-dir=w -b= --initial-branch= --shared? --object-format="},
	"git rm": {handler: "gitRm"}, "git restore": {handler: "gitRestore"}, "git checkout": {handler: "gitCheckout"},
	"git switch": {handler: "gitSwitch"}, "git reset": {handler: "gitReset"}, "git clean": {handler: "gitClean"},
	"git merge":       {class: WritesWorkspace, use: 'n', spec: "-s= -X= -m= --strategy="},
	"git rebase":      {class: WritesWorkspace, use: 'n', spec: "-x=x --exec=x -s= -X= --onto="},
	"git cherry-pick": {class: WritesWorkspace, use: 'n', spec: "-m= -s= -X="},
	"git revert":      {class: WritesWorkspace, use: 'n', spec: "-m="}, "git am": {class: WritesWorkspace},
	"git apply":          {handler: "gitApply"},
	"git format-patch":   {class: WritesWorkspace, use: 'n', spec: gitLog + "-o=w --output-directory=w --stdout"},
	"git checkout-index": {class: WritesWorkspace, use: 'n', spec: "--prefix=w"},
	"git filter-branch":  {handler: "gitFilter"},
	"git difftool":       {class: NeedsApproval, use: 'n', spec: "-x=x --extcmd=x -t= --tool="},
	"git push":           {handler: "gitPush"}, "git fetch": {handler: "gitRemote", spec: gitFetch},
	"git pull": {handler: "gitRemote", spec: gitFetch}, "git clone": {handler: "gitRemote", spec: gitFetch},
	"git fetch-pack": {handler: "gitRemote", spec: gitFetch},
	"git send-pack":  {handler: "gitRemote", spec: gitFetch},
}
