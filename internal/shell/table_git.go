package shell

// Options that several commands of git have, from git-diff(1) and git-log(1). Left out is
// what runs a program of the configuration or of the repository (--ext-diff, --textconv,
// --show-signature) and what writes (--output); these have their effect here.
const (
	gitDiff = "-abBcCDmMprRstuvwWz0123456789 -U= -G= -S= -l= -O=r --patch --no-patch --unified= --stat? --numstat --shortstat --summary --dirstat? " +
		"--name-only --name-status --raw --patch-with-stat --patch-with-raw --minimal --patience --histogram --cc " +
		"--diff-algorithm= --color? --no-color --color-moved? --color-words? --word-diff? --word-diff-regex= --no-renames " +
		"--find-renames? --find-copies? --find-copies-harder --diff-filter= --pickaxe-all --pickaxe-regex --relative? " +
		"--no-relative --text --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines " +
		"--ignore-cr-at-eol --inter-hunk-context= --function-context --exit-code --quiet --no-ext-diff --no-textconv " +
		"--src-prefix= --dst-prefix= --no-prefix --abbrev? --full-index --binary --check --compact-summary --submodule? " +
		"--ignore-submodules? --cached --staged --merge-base --no-index --indent-heuristic --line-prefix= --root --first-parent " +
		"--no-commit-id --output=w --ext-diff!e --textconv!e "
	gitLog = gitDiff + "-igEFPn -L= --max-count= --oneline --graph --all --decorate? --no-decorate --format= --pretty? " +
		"--abbrev-commit --no-abbrev-commit --no-abbrev --date= --relative-date --since= --until= --after= --before= " +
		"--author= --committer= --grep= --all-match --invert-grep --regexp-ignore-case --extended-regexp --fixed-strings " +
		"--perl-regexp --skip= --merges --no-merges --min-parents= --max-parents= --not --branches? --tags? --remotes? " +
		"--glob= --exclude= --reflog --walk-reflogs --cherry --cherry-mark --cherry-pick --left-right --left-only " +
		"--right-only --boundary --simplify-by-decoration --full-history --dense --sparse --ancestry-path? --topo-order " +
		"--date-order --author-date-order --reverse --follow --source --parents --children --no-walk? --notes? --no-notes " +
		"--decorate-refs= --decorate-refs-exclude= --log-size --no-mailmap --use-mailmap --encoding= --expand-tabs? " +
		"--no-expand-tabs --count --objects --timestamp --show-signature!a "
	gitList = "--sort= --format= --contains? --no-contains? --merged? --no-merged? --points-at= --color? --no-color --column? " +
		"--no-column --ignore-case "
	gitFetch = "-u=x --upload-pack=x --receive-pack=x --exec=x -c=e --config=e --template=e --separate-git-dir=w --reference=r "
)

// gitRows are the subcommands of git that only read, each from its manual page of git
// 2.39. Additions by the configuration of the repository (external diffs, filters, a pager, a
// monitor) are turned off by the environment that hosts set.
func gitRows() map[string]program {
	return map[string]program{
		"status": {spec: "-sbvz -u? --short --branch --show-stash --porcelain? --long --verbose --untracked-files? --ignored? " +
			"--ignore-submodules? --no-renames --find-renames? --column? --no-column --ahead-behind --no-ahead-behind --null"},
		"diff": {spec: gitDiff}, "log": {spec: gitLog + "-n="}, "show": {spec: gitLog + "-n="},
		"whatchanged": {spec: gitLog + "-n="}, "rev-list": {spec: gitLog + "-n=", use: 'n'},
		"diff-tree": {spec: gitLog}, "diff-index": {spec: gitDiff}, "diff-files": {spec: gitDiff},
		"range-diff": {spec: gitDiff + "--creation-factor= --no-dual-color --left-only --right-only"},
		"shortlog": {spec: "-nsec --numbered --summary --email --committer --group= --format= --no-merges --merges --since= " +
			"--until= --after= --before= --author= --all --branches? --first-parent"},
		// blame --contents and --ignore-revs-file read a file.
		"blame": {spec: "-bcltfnsewpCM -L= -S=r --date= --porcelain --line-porcelain --incremental --root --show-stats --show-name " +
			"--show-number --show-email --first-parent --abbrev= --since= --color-lines --color-by-age --reverse " +
			"--ignore-rev= --ignore-revs-file=r --contents=r --textconv!e"},
		// grep -O opens a pager, --ext-grep runs the grep of the system.
		"grep": {use: 'p', spec: "-aiIwvhHEGFPnlLcorqzWp0123456789 -e=p -f=P -A= -B= -C= -m= --cached --no-index --untracked " +
			"--exclude-standard --no-exclude-standard --ignore-case --word-regexp --invert-match --full-name " +
			"--extended-regexp --basic-regexp --fixed-strings --perl-regexp --line-number --column --files-with-matches " +
			"--name-only --files-without-match --count --all-match --break --heading --show-function --function-context " +
			"--context= --after-context= --before-context= --max-depth= --max-count= --color? --no-color --quiet --null " +
			"--only-matching --and --or --not -O!e --open-files-in-pager!e --textconv!e --ext-grep!e"},
		"ls-files": {spec: "-cdmositukvzf -x= -X=r --cached --deleted --modified --others --ignored --stage --unmerged --killed " +
			"--exclude= --exclude-from=r --exclude-standard --directory --no-empty-directory --error-unmatch --full-name " +
			"--abbrev? --eol --deduplicate --with-tree= --format= --recurse-submodules"},
		"ls-tree":  {spec: "-drtlz --name-only --name-status --object-only --long --full-name --full-tree --format= --abbrev?"},
		"cat-file": {spec: "-tsep --textconv!e --filters!a"},
		// describe --dirty and --broken write the index, also where locks are not taken.
		"describe": {use: 'n', spec: "--all --tags --contains --always --long --abbrev= --candidates= --exact-match --match= " +
			"--exclude= --first-parent"},
		"for-each-ref": {use: 'n', spec: gitList + "--count= --shell --perl --python --tcl"},
		"show-ref":     {use: 'n', spec: "-dsqh --heads --tags --branches --verify --head --hash? --dereference --abbrev? --quiet"},
		"rev-parse": {use: 'n', spec: "-q -n= --show-toplevel --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree " +
			"--is-inside-git-dir --is-bare-repository --is-shallow-repository --abbrev-ref? --short? --verify --quiet " +
			"--symbolic --symbolic-full-name --show-prefix --show-cdup --all --branches? --tags? --remotes? --revs-only " +
			"--flags --no-flags --no-revs --sq --default= --git-path= --path-format= --show-superproject-working-tree " +
			"--show-object-format? --since= --until= --disambiguate= --not"},
		"merge-base":    {use: 'n', spec: "-a --all --octopus --independent --is-ancestor --fork-point"},
		"name-rev":      {use: 'n', spec: "--name-only --tags --refs= --exclude= --all --always --no-undefined"},
		"cherry":        {use: 'n', spec: "-v --verbose --abbrev?"},
		"count-objects": {use: 'n', spec: "-vH --verbose --human-readable"},
		"check-ignore":  {spec: "-qvnz --quiet --verbose --no-index --non-matching"},
		"check-attr":    {use: 'n', spec: "-az --all --cached"}, "version": {use: 'n', spec: "--build-options"},
		"var": {use: 'n', spec: "-l!o"},
		// These read with some arguments; their handlers say with which.
		"branch": {handler: "gitBranch", use: 'n', spec: "-avrlqi --all --remotes --list --verbose --show-current --quiet --abbrev? --no-abbrev " + gitList +
			"-d!d -D!d --delete!d -f!d --force!d -m!W -M!d -c!W -C!W --move!W --copy!W -u=W --set-upstream-to=W " +
			"--unset-upstream!W --edit-description!a -t!W --track?W --no-track!W --create-reflog!W"},
		"tag": {handler: "gitBranch", use: 'n', spec: "-li -n? --list " + gitList + "-d!d --delete!d -f!d --force!d -a!W --annotate!W -m=W --message=W " +
			"-s!a --sign!a -u=a --local-user=a -F=r --file=r -e!a --edit!a -v!a --verify!a --cleanup= --create-reflog!W"},
		"remote": {handler: "gitRemotes"}, "stash": {handler: "gitStash"}, "config": {handler: "gitConfig"},
		"reflog": {handler: "gitReflog"}, "symbolic-ref": {handler: "gitSymbolic"}, "worktree": {handler: "gitWorktree"},
		"notes": {handler: "gitNotes"}, "submodule": {handler: "gitSubmodule"}, "bisect": {handler: "gitBisect"},
		"clean": {handler: "gitClean"},
	}
}

// gitCommands are subcommands of git that do more. Their effects on the repository can
// mostly be taken back by the reflog; those that drop what the reflog needs are in alike,
// as Destructive.
func gitCommands() map[string]program {
	return map[string]program{
		"git ls-remote": {handler: "gitRemote", spec: gitFetch},
		"git add": {class: WritesWorkspace,
			spec: "-e!a --edit!a -p!a --patch!a -i!a --interactive!a --pathspec-from-file=r --chmod="},
		"git archive": {class: NeedsApproval, use: 'n', spec: "-o=w --output=w --exec=x --remote=n --format= --prefix= --add-file=r"},
		"git stage":   {class: WritesWorkspace},
		"git commit": {class: WritesWorkspace,
			spec: "-m= -F=r -C= -c= -t=r -S? --message= --file=r --template=r --author= --date= --fixup= --squash= " +
				"--cleanup= --trailer= -u? --gpg-sign?", use: 'n'},
		"git init": {class: WritesWorkspace, use: 'w',
			spec: "--template=a --separate-git-dir=w -b= --initial-branch= --shared? --object-format="},
		"git rm": {handler: "gitRm"}, "git restore": {handler: "gitRestore"}, "git checkout": {handler: "gitCheckout"},
		"git switch": {handler: "gitSwitch"}, "git reset": {handler: "gitReset"},
		"git merge":       {class: WritesWorkspace, use: 'n', spec: "-s= -X= -m= --strategy="},
		"git rebase":      {class: WritesWorkspace, use: 'n', spec: "-x=x --exec=x -s= -X= --onto="},
		"git cherry-pick": {class: WritesWorkspace, use: 'n', spec: "-m= -s= -X="},
		"git revert":      {class: WritesWorkspace, use: 'n', spec: "-m="}, "git am": {class: WritesWorkspace},
		"git apply":          {handler: "gitApply"},
		"git format-patch":   {class: WritesWorkspace, use: 'n', spec: "-o=w --output-directory=w --output=w"},
		"git checkout-index": {class: WritesWorkspace, use: 'n', spec: "--prefix=w -f!d --force!d"},
		"git read-tree":      {class: WritesWorkspace, use: 'n', spec: "--reset!d --index-output=w"},
		"git filter-branch":  {handler: "gitFilter"},
		"git difftool":       {class: NeedsApproval, use: 'n', spec: "-x=x --extcmd=x -t= --tool="},
		// The address of a remote is in the configuration if no operand names it.
		"git push": {handler: "gitPush"}, "git fetch": {handler: "gitRemote", spec: gitFetch},
		"git pull": {handler: "gitRemote", spec: gitFetch}, "git clone": {handler: "gitRemote", spec: gitFetch},
		"git fetch-pack": {handler: "gitRemote", spec: gitFetch},
		"git send-pack":  {handler: "gitRemote", spec: gitFetch},
	}
}
