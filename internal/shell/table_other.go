package shell

// The programs that do more than read, or may: what is here decides how bad the question
// looks, never that there is none. Options are here for their effects only. A row with a
// handler has its class from there; a row with neither reads its operands, and the caller
// asks all the same.
func others() map[string]program {
	return map[string]program{
		"getopts": {class: NeedsApproval, why: "sets variables by options"}, "shopt": {handler: "shopt"},
		"declare": {handler: "declare"}, "typeset": {handler: "declare"}, "let": {handler: "let"},
		"unset": {handler: "unset"}, "mapfile": {handler: "mapfile"}, "readarray": {handler: "mapfile"},
		"hash": {handler: "hash"}, "alias": {handler: "alias"},
		"unalias": {class: NeedsApproval, why: "changes what names mean"},
		"bind":    {class: Escalates, why: "binds keys to commands"}, "complete": {handler: "compgen"},
		"compgen": {handler: "compgen"},
		"enable":  {class: Escalates, why: "loads or hides builtins"}, "history": {handler: "history"},
		"fc": {class: Escalates, why: "runs commands again"}, "trap": {handler: "trap"}, "eval": {handler: "eval"},
		"source": {handler: "source"}, ".": {handler: "source"}, "exec": {handler: "exec"}, "builtin": {handler: "builtin"},
		"kill": {handler: "kill"},
		// Programs that create, change and delete files; the operands are their files.
		"touch":  {class: WritesWorkspace, use: 'w', spec: "-t= -d= -r=r --date= --reference=r --time="},
		"mkdir":  {class: WritesWorkspace, use: 'w', spec: "-m= --mode= --context?"},
		"mkfifo": {class: WritesWorkspace, use: 'w', spec: "-m= --mode="}, "mktemp": {handler: "mktemp"}, "tee": {use: 'w'},
		"truncate":  {class: Destructive, use: 'w', spec: "-s= -r=r --size= --reference=r"},
		"fallocate": {class: WritesWorkspace, use: 'w', spec: "-l= -o= --length= --offset="}, "mv": {handler: "move"},
		"rm":    {handler: "rm"},
		"rmdir": {class: Destructive, use: 'd'}, "unlink": {class: Destructive, use: 'd'},
		"shred": {class: Destructive, use: 'd', spec: "-n= -s= --iterations= --size= --random-source=r"},
		"chmod": {handler: "chmod"}, "chown": {handler: "chown"}, "chgrp": {handler: "chown"}, "dd": {handler: "dd"},
		"rsync": {handler: "rsync"},
		"zip":   {handler: "zip"},
		"patch": {class: WritesWorkspace, use: 'w', spec: "-o=w -r=w -i=r -d=w -p= -F= -D= -V= -B=w -Y=w -z= --prefix=w --basename-prefix=w --output=w --reject-file=w --input=r --directory=w --strip= -e!e --ed!e"},
		"split": {handler: "split"}, "csplit": {handler: "split"},

		// Programs that run others, some with more power or in another world: their handlers
		// find the command.
		"fuser":      {class: NeedsApproval, spec: "-k!d"},
		"domainname": {handler: "hostname"},
		"watch":      {handler: "runner"},
		"flock":      {handler: "runner"},
		"parallel":   {handler: "runner"}, "script": {handler: "runner"}, "busybox": {handler: "runner"},
		"toybox": {handler: "runner"}, "entr": {handler: "power"}, "ltrace": {handler: "power", class: Escalates},
		"strace": {handler: "power", class: Escalates}, "unshare": {handler: "shift", class: NeedsApproval},
		"chroot": {handler: "shift", class: NeedsApproval}, "fakeroot": {handler: "shift", class: NeedsApproval},
		"runuser": {handler: "power", class: Escalates}, "setpriv": {handler: "power", class: Escalates},
		"sudo": {handler: "power", class: Escalates}, "doas": {handler: "power", class: Escalates},
		"pkexec": {handler: "power", class: Escalates}, "su": {handler: "power", class: Escalates},
		"gosu": {handler: "power", class: Escalates}, "run0": {handler: "power", class: Escalates},
		"systemctl": {class: Escalates, sub: true}, "loginctl": {class: Escalates, sub: true},
		// Tools of languages. Building and testing runs code of the project, and most can be
		// told to run any program: -toolexec, -exec and -vettool of go, --config of cargo.
		"gofmt": {long: true, spec: "-w!i -r= -cpuprofile=w"}, "gofumpt": {long: true, spec: "-w!i -r= -cpuprofile=w"}, "crontab": {handler: "crontab"}, "gpg": {handler: "gpg"},
		"gpg2": {handler: "gpg"}, "ping": {class: Network, use: 'h', spec: "-c= -i= -w= -W= -s= -t= -I="},
		"ping6": {class: Network, use: 'h', spec: "-c= -i= -w= -W= -s="}, "getent": {handler: "getent"},
		"openssl":  {handler: "openssl"},
		"ss":       {use: 'n', spec: "-K!d --kill!d -D=w -F=r --diag=w --filter=r", class: NeedsApproval},
		"go":       {class: NeedsApproval, sub: true, long: true, spec: "-C=C"},
		"go build": {class: NeedsApproval, use: 'n', long: true, spec: "-toolexec=x -o=w -exec=x -overlay=a -modfile=a -pkgdir=a -C=r"},
		"go test":  {class: NeedsApproval, use: 'n', long: true, spec: "-toolexec=x -exec=x -vettool=x -o=w -coverprofile=w -cpuprofile=w -memprofile=w -blockprofile=w -mutexprofile=w -trace=w -outputdir=w -run= -bench= -count= -timeout="},
		"go vet":   {class: NeedsApproval, use: 'n', long: true, spec: "-toolexec=x -vettool=x"},
		"go run":   {handler: "goRun"}, "go list": {class: NeedsApproval, use: 'n', long: true, spec: "-toolexec=x"},
		"go generate": {class: NeedsApproval, use: 'n', long: true},
		"go tool":     {class: NeedsApproval, use: 'n', long: true}, "go fix": {class: NeedsApproval, use: 'n', long: true},
		"go get": {class: Network, use: 'n', long: true, spec: "-toolexec=x"}, "go install": {handler: "goRun"},
		"go mod":          {class: NeedsApproval, sub: true, long: true},
		"go mod tidy":     {class: WritesWorkspace, use: 'n', long: true, spec: "-C=C"},
		"go mod init":     {class: WritesWorkspace, use: 'n', long: true, spec: "-C=C"},
		"go mod edit":     {class: WritesWorkspace, use: 'w', long: true, spec: "-C=C -replace= -require= -droprequire= -dropreplace= -go= -toolchain= -exclude= -module="},
		"go mod vendor":   {class: Network, use: 'n', long: true, spec: "-o=w"},
		"go mod download": {class: Network, use: 'n', long: true},
		"go work":         {class: WritesWorkspace, use: 'n', long: true, spec: "-C=C"}, "go fmt": {class: WritesWorkspace, use: 'w', long: true, spec: "-C=C -mod="},
		"go clean":     {class: Destructive, use: 'n', long: true},
		"go telemetry": {class: WritesOutside, use: 'n', long: true}, "npm": {class: NeedsApproval, sub: true},
		"npm link": {class: WritesOutside, use: 'n'}, "yarn": {class: NeedsApproval, sub: true},
		"pnpm": {class: NeedsApproval, sub: true}, "bun": {class: NeedsApproval, sub: true},
		"pip": {class: NeedsApproval, sub: true}, "uv": {class: NeedsApproval, sub: true},
		"poetry": {class: NeedsApproval, sub: true}, "gem": {class: NeedsApproval, sub: true},
		"bundle": {class: NeedsApproval, sub: true}, "composer": {class: NeedsApproval, sub: true},
		"mix":        {class: NeedsApproval, sub: true},
		"cargo":      {class: NeedsApproval, sub: true, spec: "--config=x -Z=a -C=C --color="},
		"cargo new":  {class: WritesWorkspace, use: 'w', spec: "--name= --vcs= --edition="},
		"cargo init": {class: WritesWorkspace, use: 'w', spec: "--name= --vcs= --edition="},
		"rustfmt":    {class: WritesWorkspace, use: 'w', spec: "--check --edition= --config= --config-path=r --emit="},
		// The rest reads, but contacts servers, loads what the project names, or may run what
		// it looks at.
		"apt-cache": {use: 'n', class: NeedsApproval}, "brew": {class: Network, use: 'n', sub: true},
		"terraform": {handler: "terraform"}, "tofu": {handler: "terraform"}, "terragrunt": {handler: "terraform"},
		"pulumi": {handler: "terraform"}, "ldd": {class: NeedsApproval, why: "ldd may run the program"},
		"strip": {class: WritesWorkspace, use: 'w', spec: "-o=w"}, "pkg-config": {use: 'n', class: NeedsApproval},
	}
}
