package ignore

import (
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
)

// This file is the one list of the files that a tool writes only when somebody was
// asked: those that run code, or decide what an agent may do, although nobody runs them
// by their name. It holds the files that take effect when a user opens a directory,
// commits, pushes or starts a shell, and those that a build, an installation or a test
// loads by itself. The edit tools, the classes of commands and the rules all ask it.
//
// The project's own programs are not in it (Makefile, package.json, build.rs, setup.py):
// a user runs those by name, and they are what an agent is there to change.
//
// A name is in lower case. It stands for the last elements of a path; with a slash at its
// end, for elements anywhere in it, so that a directory stands for all below it; with a
// slash at its start, for the first elements of an absolute path. A star is any part of
// an element.

// A startRow is names, with white space between them, and the reason why the files run code, as a
// sentence. One text is half the size of a list in a program that has it.
type startRow struct{ why, names string }

// stores are where version control keeps what it knows: hooks, filters and commands among
// it. They are changed with its commands only.
const stores = `.git/ *.git/ .hg/ .svn/ .jj/ .bzr/ .sl/ .pijul/ _darcs/ .repo/
	cvs/root cvs/repository cvs/entries .fslckout _fossil_`

// startRows is a list by who runs a file, because that is what a person who is asked has to
// know.
var startRows = []startRow{
	{
		"a CI service or a host runs what it says when it is pushed, often with secrets",
		`.github/ .gitlab/ .gitlab-ci.yml .gitlab-ci.yaml *.gitlab-ci.yml *.gitlab-ci.yaml
		.circleci/ circle.yml .travis.yml .travis.yaml appveyor.yml .appveyor.yml
		azure-pipelines*.yml azure-pipelines*.yaml .azure-pipelines*.yml .azure-pipelines*.yaml azure-pipelines/ .azure-pipelines/ .azuredevops/
		.azure/pipelines/ .pipelines/ .vsts-ci.yml bitbucket-pipelines.yml jenkinsfile*
		*.jenkinsfile .jenkins/ .drone.yml .drone.yaml .drone.jsonnet .drone.star
		.woodpecker.yml .woodpecker.yaml .woodpecker/ .buildkite/ buildkite.yml buildkite.yaml
		.semaphore/ .cirrus.yml .cirrus.yaml .cirrus.star .teamcity/ cloudbuild*.yml
		cloudbuild*.yaml cloudbuild.json buildspec*.yml buildspec*.yaml .codecatalyst/ amplify.yml
		.gitea/ .forgejo/ .gitee/ .builds/ .build.yml .harness/ codefresh.yml .codefresh/ wercker.yml
		shippable.yml .shippable.yml .scrutinizer.yml codeship-steps.* codeship-services.*
		bitrise.yml .bitrise.yml codemagic.yaml .tekton/ .prow.yaml .prow/ zuul.yaml .zuul.yaml
		zuul.d/ .zuul.d/ .onedev-buildspec.yml .readthedocs.yml .readthedocs.yaml readthedocs.yml
		netlify.toml vercel.json render.yaml .platform.app.yaml .upsun/ screwdriver.yaml
		.evergreen.yml buddy.yml .buddy/ .space.kts .mergify.yml .mergify/ concourse.yml
		.ci.yml .nevercode.yml appcenter-*.sh ci_scripts/ wrangler.toml wrangler.json wrangler.jsonc captain-definition
		vercel.ts heroku.yml procfile railway.toml railway.json nixpacks.toml .do/ bamboo-specs/ .taskcluster.yml
		.gocd.yaml *.gocd.yaml *.gocd.json evergreen.yml .evergreen/ .packit.yaml packit.yaml .copr/ .vela.yml .vela.yaml
		.releaserc .releaserc.* release.config.*`,
	},
	{
		"git or its hooks run what it names on a commit, a checkout, a merge or a push",
		// At the end are the hooks of githooks(5), in a directory "hooks" of any repository: the name of the
		// directory alone says nothing, as programs have hooks too.
		`.gitattributes .gitmodules .gitconfig .gitconfig.* .config/git/ /etc/gitconfig .lfsconfig .hgrc
		mercurial.ini .hgsub .jjconfig.toml .config/jj/ .arcconfig .arclint .reviewboardrc
		.pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml .pre-commit-hooks.yml
		prek.toml .husky/ .huskyrc .huskyrc.* husky.config.* lefthook.* .lefthook.* lefthook-local.*
		.lefthook-local.* .lefthook/ .lefthook-local/ .config/lefthook* .overcommit.yml .git-hooks/
		.githooks/ githooks/ git-hooks/ git_hooks/ .hooks/ .lintstagedrc .lintstagedrc.*
		lint-staged.config.* .commitlintrc .commitlintrc.* commitlint.config.* .simple-git-hooks.*
		simple-git-hooks.* captainhook.json grumphp.yml grumphp.yml.dist .rusty-hook.toml .trunk/
		.cargo-husky/ .cz.toml .czrc .gitlint .ghooks/
		hooks/applypatch-msg hooks/pre-applypatch hooks/post-applypatch hooks/pre-commit hooks/pre-merge-commit
		hooks/prepare-commit-msg hooks/commit-msg hooks/post-commit hooks/pre-rebase hooks/post-checkout
		hooks/post-merge hooks/pre-push hooks/pre-receive hooks/update hooks/proc-receive hooks/post-receive
		hooks/post-update hooks/reference-transaction hooks/push-to-checkout hooks/pre-auto-gc hooks/post-rewrite
		hooks/sendemail-validate hooks/fsmonitor-watchman hooks/p4-changelist hooks/p4-prepare-changelist
		hooks/p4-post-changelist hooks/p4-pre-submit hooks/post-index-change`,
	},
	{
		// A directory with HEAD, objects and refs is one, whatever its name.
		"git takes the directory for a repository, and runs what the config beside it says",
		`head`,
	},
	{
		"a shell, a login or a terminal runs it when it starts, or when the directory is entered",
		`.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion
		.bashrc.d/ .profile .profile.d/ .zshrc .zshrc.* .zshenv .zprofile .zlogin .zlogout .zsh_aliases .zshrc.d/
		.zimrc .p10k.zsh .antigenrc .oh-my-zsh/ .zsh/ .oh-my-bash/ .kshrc .mkshrc .shrc .shinit .cshrc .tcshrc
		.login .logout .inputrc .xinitrc .xprofile .xsession .xsessionrc .xserverrc
		.pam_environment .hushrc .xonshrc .elvish/ .config/fish/ config.fish .config/zsh/ .config/bash/
		.config/nushell/ .config/powershell/ *profile.ps1 .config/elvish/ .config/xonsh/ .config/starship.toml
		starship.toml .config/environment.d/ .config/autostart/ .config/autostart-scripts/
		.config/plasma-workspace/ .config/systemd/ .config/i3/ .config/sway/ .config/hypr/ .i3/ .xmonad/
		.config/tmux/ .config/zellij/ .config/alacritty/ .config/kitty/ .config/wezterm/ .wezterm.lua
		.config/ghostty/ .tmux.conf .tmux.conf.* .tmux/ .screenrc .byobu/ *.desktop launchagents/
		launchdaemons/ start*menu/programs/startup/ .envrc .envrc.* .direnvrc .config/direnv/ .direnv/
		.autoenv .autoenv.* .rvmrc mise.toml mise.*.toml .mise.toml .mise.*.toml .mise/ mise/config*.toml
		.config/mise/ .config/mise.toml .rtx.toml .tool-versions .asdfrc devbox.json devenv.nix devenv.yaml
		devenv.local.nix flake.nix shell.nix .devcontainer/ .devcontainer.json devcontainer.json
		.gitpod.yml .gitpod.dockerfile .gitpod/ .ona/ devfile.yaml .devfile.yaml .codesandbox/ .stackblitzrc
		.replit replit.nix .idx/ .forward .procmailrc .mailcap .lessfilter .lesskey .config/lesskey .config/home-manager/
		desktop.ini autorun.inf *.lnk *.scf *.library-ms .curlrc .wgetrc`,
	},
	{
		"an editor, a debugger or a language server runs what it says when it opens the directory",
		`.vscode/ .vscode-server/ .vscode-insiders/ .vscode-oss/ *.code-workspace .idea/ .fleet/ .zed/ .vs/
		.nova/ *.sublime-project *.sublime-build .config/code/ .config/cursor/ .config/zed/ .config/sublime-text*/
		.vimrc .gvimrc .ideavimrc _vimrc _gvimrc .nvimrc .nvim.lua .exrc _exrc .lvimrc .vim/ .nvim/ .config/nvim/
		.config/vim/ .local/share/nvim/ .vimspector.json .emacs .emacs.el .emacs.d/ .config/emacs/
		.config/doom/ .doom.d/ .spacemacs .spacemacs.d/ .dir-locals.el .dir-locals-2.el .config/kak/ .kakrc
		.helix/ .config/helix/ .nanorc .lldbinit* .gdbinit .gdbearlyinit *-gdb.py *-gdb.gdb *-gdb.scm .radare2rc .pdbrc
		.pdbrc.py .perldb .pythonrc .pythonrc.py .pythonstartup .ipython/ .jupyter/ .irbrc .pryrc
		.rprofile .rprofile.site .renviron .julia/config/ .juliarc.jl .octaverc startup.m .sqliterc .psqlrc
		.mongorc.js .mongoshrc.js .ghci hie.yaml .ocamlinit .iex.exs .erlang .gnuplot .latexmkrc
		latexmkrc .ycm_extra_conf.py .luarc.json .luarc.jsonc .solargraph.yml .ruby-lsp/ .rubocop.yml
		.rubocop_todo.yml .rubocop .yardopts .standard.yml .erb-lint.yml .pylintrc pylintrc .flake8 mypy.ini .mypy.ini .luacheckrc .merlin .formatter.exs .credo.exs .php-cs-fixer.php
		.php-cs-fixer.dist.php omnisharp.json rust-analyzer.toml .rust-analyzer.toml zls.json .sourcekit-lsp/ .bsp/ jupyter_*_config.py jupyter_*_config.json
		phpcs.xml .phpcs.xml phpcs.xml.dist .phpcs.xml.dist directory.build.props directory.build.targets
		directory.build.rsp eslint.config.* .eslintrc .eslintrc.* prettier.config.* .prettierrc .prettierrc.* stylelint.config.*
		.stylelintrc .stylelintrc.* tailwind.config.* svelte.config.* graphql.config.* apollo.config.* phpstan.neon phpstan.neon.dist
		phpstan.dist.neon psalm.xml psalm.xml.dist .markdownlint-cli2.* .remarkrc .remarkrc.* .*rc.js .*rc.cjs .*rc.mjs .*rc.ts .*rc.cts .*rc.mts`,
	},
	{
		"a package manager, a build or a test loads it, or takes programs from where it says, whatever it is run for",
		`.npmrc .yarnrc .yarnrc.yml .yarn/releases/ .yarn/plugins/ .yarn/sdks/ .pnp.cjs .pnp.js
		.pnp.loader.mjs .pnpmfile.cjs .pnpmfile.mjs .pnpmfile.js pnpmfile.js pnpm-workspace.yaml uv.toml poetry.toml .pixi/ gradle.properties bunfig.toml .bunfig.toml binding.gyp .node-gyp/
		.cargo/ rust-toolchain rust-toolchain.toml .rustup/ conftest.py sitecustomize.py usercustomize.py *.pth
		pip.conf pip.ini .pip/ .config/pip/ .config/uv/ .condarc .pypirc .pydistutils.cfg .config/go/ go.env
		.mvn/ .m2/ gradle/wrapper/ .gradle/ init.gradle init.gradle.kts gradle/init.d/ .jvmopts .sbtopts .jvm-opts .sbt/
		.bazelrc .bazeliskrc .bazelversion *.bazelrc tools/bazel tools/bazel.* .buckconfig .buckconfig.* .plzconfig .plzconfig.* .pants.rc
		.bundle/ .gemrc .rspec .rspec-local .proverc .mocharc .mocharc.* .nycrc .nycrc.* .taprc .busted .simplecov pytest.ini .pytest.ini .user.ini .htaccess nuget.config global.json
		.config/dotnet-tools.json ansible.cfg .ansible.cfg .ansible/ .terraformrc terraform.rc .terraform.d/
		.terraform/ .tflint.hcl .config/containers/ .config/nix/ .nixpkgs/ .config/nixpkgs/ .composer/ .config/composer/`,
	},
	{
		"agents take instructions, tools or permissions from it",
		`agents.md agents.*.md agent.md claude.md claude.*.md gemini.md qwen.md crush.md warp.md jules.md replit.md
		skill.md .rules .mcp.json mcp.json mcp_config.json .mcp/ .claude/ .claude.json .claude-plugin/ .cursor/
		.cursorrules .cursorignore .cursorindexingignore .codex/ .gemini/ .geminiignore .windsurf/ .windsurfrules .codeium/
		.codeiumignore .roo/ .roorules .roorules-* .roomodes .rooignore .cline/ .clinerules/ .clineignore .continue/
		.continuerules .continueignore .aider* .goose/ .goosehints .gooseignore .amazonq/ .kiro/ .junie/ .augment/
		.augment-guidelines .augmentignore .trae/ .qoder/ .qwen/ .opencode/ opencode.json opencode.jsonc .crush/ crush.json
		.crush.json .openhands/ .openhands_instructions .devin/ .factory/ .agents/ .agent/ .amp/ .zencoder/
		.tabnine/ .sourcegraph/ .cody/ .copilot/ .copilotignore .kilocode/ .kilocodemodes .rovodev/ .warp/ .jules/ .pi/ .grok/ .vibe/
		.codebuddy/ codebuddy.md .iflow/ iflow.md .lingma/ .comate/ .kimi/ .openclaw/ .ruler/ .rulesync/ .aiexclude .aiignore
		gptme.toml .coderabbit.yaml greptile.json .greptile/ .config/opencode/ .config/goose/ .config/crush/ .config/amp/ .config/github-copilot/ .aycoder/`,
	},
	{
		"it says who may log in, with which keys, and what is run for that",
		`.ssh/ authorized_keys known_hosts .rhosts .shosts .k5login .gnupg/ .aws/ .kube/ .docker/
		.netrc _netrc /etc/ssh/ /etc/passwd* /etc/shadow* /etc/group* /etc/gshadow* /etc/sudoers*/ /etc/doas.conf
		/etc/pam.d/ /etc/polkit-1/`,
	},
	{
		"the machine runs it, for this user or for all",
		`.local/bin/ .nvm/ .pyenv/ .rbenv/ .asdf/ .sdkman/ .deno/bin/ .bun/bin/ .npm-global/ crontab .crontab
		/etc/cron*/ /var/spool/cron/ /var/spool/at/ /etc/profile*/ /etc/bash*/ /etc/zsh*/ /etc/fish/ /etc/environment*/ /etc/systemd/ /etc/init.d/
		/etc/rc.local /etc/rc*.d/ /etc/xdg/ /etc/apt/ /etc/yum*/ /etc/dpkg/ /etc/update-motd.d/ /etc/udev/ /etc/modprobe.d/
		/etc/modules-load.d/ /etc/ld.so*/ /etc/inetd*/ /etc/xinetd*/ /etc/logrotate*/ /etc/network/ /usr/bin/ /usr/sbin/
		/usr/local/bin/ /usr/local/sbin/ /usr/local/lib/ /usr/lib/ /usr/lib64/ /usr/libexec/ /lib/ /lib64/ /bin/ /sbin/ /boot/
		/snap/ /nix/ /library/ /system/ /applications/`,
	},
}

// maxPath bounds the time of a check, which grows with the length of the path times that of the
// list. No system opens a longer path: it is PATH_MAX of Linux.
const maxPath = 4096 // bytes

// Store reports whether the path is, or is in, what version control keeps for itself. A
// change there can make git run a program at the next command, whatever that is.
func Store(p string) bool {
	forms, absolute := elements(p)
	return anyName(stores, forms, absolute)
}

// Runs returns why the file at the path runs code though nobody runs it by its name, or
// decides what an agent may do: a sentence, or "" if it does not. Path is relative to a
// workspace, or absolute. A path that is too long to be checked has a reason, too.
func Runs(p string) string {
	if len(p) > maxPath {
		return "its name is too long to be checked"
	}
	forms, absolute := elements(p)
	for i := range startRows {
		if anyName(startRows[i].names, forms, absolute) {
			return startRows[i].why
		}
	}
	return ""
}

// Names reports whether a pattern of a rule contains, as literal letters, all that makes a
// path one for which [Runs] has a reason, or [Secret] holds: "**/conftest.py" does for such
// a file, "tests/**" does not. A rule that a user wrote for a whole directory was not
// written with such a file in mind.
func Names(pattern, p string) bool {
	if len(p) > maxPath {
		return false
	}
	if Secret(p) && !Secret(pattern) || Store(p) && !Store(pattern) {
		return false
	}
	forms, absolute := elements(p)
	own, anchored := elements(pattern)
	for i := range startRows {
		names := startRows[i].names
		if anyName(names, forms, absolute) && !anyName(names, own, anchored) {
			return false
		}
	}
	return true
}

// elements splits a path, and returns the names that each of its elements may stand for.
// Backslashes count as slashes, since a path may come from Windows.
func elements(p string) (forms [][]string, absolute bool) {
	p = strings.ReplaceAll(p, `\`, "/")
	absolute = strings.HasPrefix(p, "/")
	for e := range strings.SplitSeq(path.Clean(p), "/") {
		if e != "" {
			forms = append(forms, nameForms(e))
		}
	}
	return forms, absolute
}

// anyName reports whether one of the names of the list is that of a path.
func anyName(names string, forms [][]string, absolute bool) bool {
	for name := range strings.FieldsSeq(names) {
		if matchName(name, forms, absolute) {
			return true
		}
	}
	return false
}

// matchName matches a name of the list with a path. Without a slash at an end it is the
// last elements of the path; with one at the end, any.
func matchName(name string, forms [][]string, absolute bool) bool {
	name, anchored := strings.CutPrefix(name, "/")
	name, anywhere := strings.CutSuffix(name, "/")
	if anchored && !absolute {
		return false
	}
	n := strings.Count(name, "/") + 1
	from, to := len(forms)-n, len(forms)-n
	if anywhere || anchored {
		from = 0
	}
	if anchored {
		to = 0
		if !anywhere && len(forms) != n {
			return false
		}
	}
	for at := max(from, 0); at <= to; at++ {
		if at+n <= len(forms) && matchElements(name, forms[at:at+n]) {
			return true
		}
	}
	return false
}

// matchElements matches the elements of a name with as many of a path.
func matchElements(name string, forms [][]string) bool {
	for _, f := range forms {
		var elem string
		elem, name, _ = strings.Cut(name, "/")
		if !slices.ContainsFunc(f, func(s string) bool { return matchElement(elem, s) }) {
			return false
		}
	}
	return true
}

// matchElement matches an element with one of the list.
func matchElement(elem, s string) bool {
	before, rest, star := strings.Cut(elem, "*")
	if !star {
		return elem == s
	}
	s, ok := strings.CutPrefix(s, before)
	return ok && strings.HasSuffix(s, rest) // there is one star at most
}

// Own returns the file of a tool, in which a star stands for an argument, or "" if the argument is
// more than a part of a name.
func Own(file, arg string) string {
	if strings.Contains(file, "*") && strings.ContainsAny(arg, `/\`) {
		return ""
	}
	return strings.ReplaceAll(file, "*", arg)
}

// WhyRuns returns a reason for each of the files that runs code, see [Runs], at most limit, or
// nil if none does.
func WhyRuns(names []string, limit int) []string {
	var why []string
	for _, name := range names {
		if w := Runs(name); w != "" && len(why) < limit {
			why = append(why, "writes "+runes.Path(name)+": "+w)
		}
	}
	return why
}
