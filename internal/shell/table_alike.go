package shell

// alike are programs of which a table needs no more than the names. None of them can be
// left as one that reads: what a name is in this table for is how severe the question is,
// and which operands it names. They are in groups because rows of names would be mostly
// empty. A name with a space is a program and its subcommand.
var alike = []struct {
	program
	names map[string]bool
}{
	// These make devices or change the attributes and access lists that protect files.
	{program{class: Escalates, use: 'n'}, set(
		"mknod", "chattr", "setfacl", "setfattr",
	)},
	{program{handler: "copy"}, set(
		"cp", "install", "ln", "link", "ditto",
	)},
	// These delete what they are given, with everything below it.
	{program{class: Destructive, use: 'D'}, set(
		"srm", "trash", "trash-put", "wipe",
	)},
	// Programs that are not known ask as well; these would be worse as a part of another.
	{program{class: NeedsApproval}, set(
		"systemctl status", "systemctl list-units", "npm cache", "brew list", "brew info",
	)},
	// These give power, keep keys, change the system for all users, or make commands run
	// later: debuggers, mounts, users, firewalls, kernel modules, package managers of the
	// system, schedulers, and whatever decides what a package manager or git runs by
	// itself.
	{program{class: Escalates}, set(
		"updatedb", "gdb", "lldb", "nsenter", "capsh", "sudoedit", "visudo", "login", "newgrp", "mount",
		"umount", "swapon", "swapoff", "losetup", "insmod", "rmmod", "modprobe", "sysctl", "kexec",
		"setenforce", "setcap", "auditctl", "bpftool", "bpftrace", "ptrace", "debugfs", "service", "launchctl",
		"systemd-run", "initctl", "rc-service", "update-rc.d", "update-alternatives", "defaults",
		"osascript", "gsettings", "dconf", "xdg-mime", "at", "batch", "useradd", "userdel", "usermod", "groupadd", "groupmod", "groupdel",
		"adduser", "deluser", "passwd", "chpasswd", "chsh", "chfn", "gpasswd", "vipw", "dscl", "iptables",
		"ip6tables", "nft", "ufw", "firewall-cmd", "pfctl", "tc", "timedatectl", "hostnamectl", "localectl",
		"hwclock", "adjtimex", "ldconfig", "spctl", "csrutil", "nvram", "efibootmgr", "grub-install",
		"update-grub", "ssh-keygen", "ssh-add", "ssh-agent", "security", "secret-tool", "pass", "op", "vault",
		"keyctl", "kinit", "bw", "sshfs", "ntpdate", "tcpdump", "tshark", "wireshark", "nmcli", "iw", "wg",
		"wg-quick", "openvpn", "git hook", "git credential", "git maintenance", "git for-each-repo", "git mergetool", "npm login", "npm adduser", "npm token",
		"npm owner", "npm pkg set", "npm pkg delete", "npm set-script", "npm config set", "npm config delete",
		"npm config edit", "npm set", "pip config", "cargo login", "cargo owner", "apt", "apt-get", "aptitude",
		"yum", "dnf", "pacman", "zypper", "apk", "emerge", "snap", "flatpak", "port", "direnv", "brew services",
		"husky", "crictl", "ctr", "lxc", "virsh", "qemu-system-x86_64", "limactl", "colima",
	)},
	// The machine does not run on after these, and whoever else works on it loses what was
	// not saved.
	{program{class: Escalates, handler: "stops"}, set(
		"shutdown", "reboot", "halt", "poweroff", "init", "telinit", "systemctl reboot", "systemctl poweroff",
		"systemctl halt", "systemctl kexec", "systemctl soft-reboot", "systemctl rescue", "systemctl emergency",
		"systemctl suspend", "systemctl hibernate", "loginctl reboot", "loginctl poweroff",
	)},
	{program{handler: "compress"}, set(
		"lzma", "lz4", "compress", "uncompress",
	)},
	// A file system, a partition or a volume is gone after these.
	{program{handler: "disk"}, set(
		"mkfs", "mke2fs", "mkswap", "wipefs", "blkdiscard", "fdisk", "sfdisk", "gdisk", "sgdisk", "cfdisk",
		"parted", "hdparm", "cryptsetup", "diskutil", "lvremove", "vgremove", "pvremove", "zpool", "zfs",
		"mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "mkfs.vfat", "mkfs.fat", "mkfs.ntfs",
		"mkfs.f2fs", "newfs",
	)},
	{program{class: WritesWorkspace, use: 'w'}, set(
		"dos2unix", "unix2dos", "git bundle", "git mv",
	)},
	// They wait at a terminal, and have commands that run others.
	{program{handler: "pager"}, set(
		"less", "more", "most", "man", "info",
	)},
	{program{handler: "editor"}, set(
		"ed", "ex", "vi", "vim", "nvim", "view", "vimdiff", "emacs",
	)},
	// These end processes, drop data bases, caches and packages, or what git keeps to undo
	// things with.
	{program{class: Destructive, use: 'n'}, set(
		"killall", "pkill", "skill", "xkill", "killall5", "atrm", "dropdb", "git replace", "git update-ref",
		"git gc", "git prune", "git repack", "git filter-repo", "git prune-packed", "npm unpublish",
		"npm cache clean", "yarn cache clean", "pnpm store prune", "pip uninstall", "pip cache",
		"gem uninstall", "cargo yank", "cargo clean", "cargo uninstall", "brew uninstall", "brew cleanup",
	)},
	{program{handler: "wrapper"}, set(
		"nohup", "unbuffer", "setsid", "ionice", "taskset", "chrt", "numactl", "caffeinate",
	)},
	{program{handler: "interpreter"}, set(
		"zsh", "ksh", "ash", "mksh", "rbash",
	)},
	// A program in one of these languages may do anything. Shells with another syntax than
	// bash are among them, since their scripts are not read.
	{program{handler: "language"}, set(
		"fish", "csh", "tcsh", "pwsh", "nu", "xonsh", "python", "python2", "python3", "pypy3", "ipython",
		"node", "nodejs", "deno", "perl", "ruby", "irb", "php", "lua", "luajit", "java", "scala", "kotlin",
		"groovy", "Rscript", "R", "julia", "ghc", "runghc", "ocaml", "elixir", "erl", "iex", "swift", "dart",
		"dotnet", "tclsh", "guile", "sbcl", "clojure", "clj", "ts-node", "tsx", "zig", "nim", "crystal", "m4",
		"octave", "flutter", "psh",
	)},
	{program{handler: "curl"}, set(
		"curl", "wget", "http", "https", "xh", "aria2c", "lynx", "w3m", "links", "axel", "grpcurl", "httpie",
		"youtube-dl", "yt-dlp",
	)},
	{program{handler: "ssh"}, set(
		"ssh", "mosh", "autossh", "rsh", "slogin", "sshpass",
	)},
	{program{handler: "scp"}, set(
		"scp", "sftp", "rcp", "ssh-copy-id",
	)},
	// A name server or a stranger's host learns what is asked, so even a question can carry
	// data out.
	{program{class: Network, use: 'h'}, set(
		"ssh-keyscan", "telnet", "ftp", "lftp", "tftp", "rlogin", "finger", "traceroute", "tracepath", "mtr",
		"nslookup", "dig", "host", "drill", "whois", "nmap", "masscan", "arping",
	)},
	{program{handler: "nc"}, set(
		"nc", "ncat", "netcat", "socat", "cryptcat",
	)},
	// Package managers are here even where they only install what the project names: the
	// packages run code when they are installed.
	{program{class: Network, use: 'n'}, set(
		"resolvectl", "iperf", "iperf3", "tailscale", "ngrok", "cloudflared", "localtunnel", "mail", "mailx",
		"sendmail", "mutt", "msmtp", "swaks", "pg_dump", "pg_restore", "mysqldump", "createdb", "cqlsh",
		"influx", "clickhouse-client", "etcdctl", "kafkacat", "kcat", "svn", "cvs", "git lfs", "git daemon",
		"git http-backend", "git instaweb", "git send-email", "git imap-send", "git svn", "git p4",
		"git cvsimport", "go bug", "govulncheck", "npm install", "npm i", "npm ci", "npm add", "npm update",
		"npm upgrade", "npm uninstall", "npm audit", "npm outdated", "npm view", "npm info", "npm show",
		"npm search", "npm publish", "npm exec", "npm x", "npm ping", "npm whoami", "npm create", "npm dedupe",
		"npm deprecate", "npx", "bunx", "pnpx", "uvx", "pipx", "yarn install", "yarn add", "yarn upgrade",
		"yarn dlx", "yarn remove", "yarn publish", "yarn global", "yarn create", "pnpm install", "pnpm i",
		"pnpm add", "pnpm update", "pnpm dlx", "pnpm publish", "pnpm remove", "bun install", "bun add", "bun x",
		"pip install", "pip download", "pip wheel", "pip search", "pip index", "uv pip install", "uv pip",
		"uv add", "uv sync", "uv lock", "uv tool", "poetry install", "poetry add", "poetry update",
		"poetry publish", "conda", "mamba", "pipenv", "twine", "easy_install", "gem install", "gem update",
		"gem push", "gem fetch", "bundle install", "bundle update", "composer install", "composer update",
		"composer require", "cpan", "cpanm", "luarocks", "mix deps.get", "nuget", "opam", "cargo fetch",
		"cargo install", "cargo add", "cargo update", "cargo search", "cargo publish", "rustup", "nix",
		"nix-shell", "nix-env", "corepack", "volta", "skopeo", "vagrant", "minikube", "kind", "k3d", "ansible",
		"ansible-playbook",
	)},
	{program{handler: "database"}, set(
		"psql", "mysql", "mariadb", "mongo", "mongosh", "redis-cli",
	)},
	// A single word of these may delete what a company runs on.
	{program{class: Network, handler: "cloud"}, set(
		"aws", "gcloud", "gsutil", "bq", "az", "doctl", "heroku", "flyctl", "fly", "vercel", "netlify",
		"wrangler", "firebase", "s3cmd", "rclone", "oci", "ibmcloud", "linode-cli", "hcloud", "eksctl",
		"pscale", "supabase", "railway", "gh", "glab", "hub", "kubectl", "oc", "helm", "k9s", "argocd", "flux",
		"istioctl",
	)},
	// Their files are those of the repository or of the project, which the words do not
	// name.
	{program{class: WritesWorkspace, use: 'n'}, set(
		"git sparse-checkout", "git rerere", "git commit-tree", "git write-tree",
		"git update-index", "git mktree", "git mktag", "git pack-refs", "cargo fmt", "cargo remove", "lipo",
		"ctags", "etags",
	)},
	{program{handler: "build"}, set(
		"rustc", "gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "as", "javac", "tsc", "nasm", "protoc",
		"buf", "swiftc", "kotlinc", "scalac", "xcodebuild",
	)},
	{program{handler: "build"}, set(
		"make", "gmake", "cmake", "ninja", "meson", "bazel", "buck2", "just", "task", "mage", "scons", "rake",
		"ant", "mvn", "mvnw", "gradle", "sbt", "lein", "tox", "nox", "pre-commit", "lefthook", "turbo", "nx",
		"lerna", "gulp", "grunt", "webpack", "vite", "rollup", "esbuild", "next", "pytest", "py.test", "jest",
		"vitest", "mocha", "rspec", "phpunit", "ctest", "playwright", "cypress", "bats", "mypy", "ruff",
		"black", "isort", "flake8", "pylint", "pyright", "eslint", "prettier", "biome", "stylelint", "rubocop",
		"hadolint", "yamllint", "markdownlint", "clang-tidy", "uvicorn", "gunicorn", "flask", "django-admin",
		"rails", "coverage", "alembic",
	)},
	{program{handler: "docker"}, set(
		"docker", "podman", "nerdctl", "docker-compose", "buildah",
	)},
}
