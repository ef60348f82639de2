package shell

import "strings"

// lookup finds a program, or a program and its subcommand, in the tables.
func lookup(name string) (program, bool) {
	for _, t := range tables {
		if p, ok := t[name]; ok {
			return p, true
		}
	}
	for i := range alike {
		if alike[i].names[name] {
			return alike[i].program, true
		}
	}
	return program{}, false
}

// canonical is a name without the version behind it: python3.12 is python.
func canonical(name string) string {
	short := strings.TrimRight(name, "0123456789.")
	if short == name {
		return name
	}
	_, whole := lookup(name)
	if p, ok := lookup(short); !whole && ok && (p.handler == "language" || short == "pip") {
		return short
	}
	return name
}

var tables = []map[string]program{builtins, filePrograms, textPrograms, systemPrograms, gitCommands,
	toolPrograms, networkPrograms}

// builtins are the commands that bash has itself.
var builtins = map[string]program{
	":": {use: 'n'}, "true": {use: 'n'}, "false": {use: 'n'}, "echo": {handler: "echo", noHelp: true},
	"printf": {handler: "printf", noHelp: true}, "test": {handler: "test", noHelp: true},
	"[": {handler: "test", noHelp: true}, "pwd": {handler: "pwd"}, "cd": {handler: "cd", noHelp: true},
	"pushd": {handler: "cd", noHelp: true}, "popd": {handler: "popd", noHelp: true},
	"dirs": {use: 'n', spec: "-c!a"}, "type": {use: 'n', noHelp: true}, "which": {use: 'n'}, "whereis": {use: 'n'},
	"whatis": {use: 'n'}, "apropos": {use: 'n'}, "help": {use: 'n'}, "times": {use: 'n'},
	"ulimit": {class: NeedsApproval, why: "changes limits"}, "umask": {handler: "query"},
	"exit": {handler: "exit", noHelp: true}, "return": {handler: "leave", noHelp: true},
	"break": {handler: "leave", noHelp: true}, "continue": {handler: "leave", noHelp: true},
	"shift":   {handler: "positional", noHelp: true},
	"getopts": {class: NeedsApproval, why: "sets variables by options"}, "set": {handler: "set", noHelp: true},
	"shopt": {handler: "shopt", noHelp: true}, "export": {handler: "declare", noHelp: true},
	"readonly": {handler: "declare", noHelp: true}, "declare": {handler: "declare", noHelp: true},
	"typeset": {handler: "declare", noHelp: true}, "local": {handler: "declare", noHelp: true},
	"let": {handler: "let", noHelp: true}, "unset": {handler: "unset", noHelp: true},
	"read": {handler: "read", noHelp: true}, "mapfile": {handler: "mapfile", noHelp: true},
	"readarray": {handler: "mapfile", noHelp: true}, "wait": {use: 'n', spec: "-p=a"},
	"jobs": {use: 'n', spec: "-x!e"}, "fg": {class: NeedsApproval}, "bg": {class: NeedsApproval},
	"disown": {class: NeedsApproval}, "suspend": {class: NeedsApproval}, "hash": {handler: "hash", noHelp: true},
	"alias": {handler: "alias", noHelp: true}, "unalias": {class: NeedsApproval, why: "changes what names mean"},
	"bind": {class: Escalates, why: "binds keys to commands"}, "complete": {handler: "compgen", noHelp: true},
	"compgen": {handler: "compgen", noHelp: true}, "compopt": {class: NeedsApproval},
	"enable": {class: Escalates, why: "loads or hides builtins"}, "history": {handler: "history", noHelp: true},
	"fc": {class: Escalates, why: "runs commands again"}, "trap": {handler: "trap", noHelp: true},
	"eval": {handler: "eval", noHelp: true}, "source": {handler: "source", noHelp: true},
	".": {handler: "source", noHelp: true}, "exec": {handler: "exec", noHelp: true},
	"command": {handler: "command", noHelp: true}, "builtin": {handler: "builtin", noHelp: true},
	"kill": {handler: "kill", noHelp: true}, "logout": {class: NeedsApproval}, "caller": {use: 'n'},
}

// filePrograms look at, make, move and remove files.
var filePrograms = map[string]program{
	"ls": {handler: "ls"}, "dir": {handler: "ls"}, "vdir": {handler: "ls"},
	"exa": {spec: "-L= -I= -s= -t= --level= --ignore-glob= --sort= --time="},
	"eza": {spec: "-L= -I= -s= -t= --level= --ignore-glob= --sort= --time="},
	"tree": {spec: "-o=w -L= -P= -I= -H= -T= --charset= --filelimit= --timefmt= --sort= --gitfile=r --infofile=r " +
		"--fromfile -l!o -R!a --output=w"},
	"stat": {spec: "-c= -f? --format= --printf= -t?", use: 'r'},
	"file": {spec: "-m=r -f=r -F= -P= -e= -C!W --magic-file=r --files-from=r --compile!W --separator= --exclude= " +
		"-z!a -Z!a --uncompress!a --uncompress-noreport!a"},
	"du": {spec: "-d= -B= -t= -X=r --max-depth= --block-size= --threshold= --exclude= --exclude-from=r " +
		"--files0-from=r --time-style= -L!o --dereference!o"},
	"df":       {spec: "-B= -t= -x= --block-size= --type= --exclude-type= --sync!a", use: 'n'},
	"realpath": {use: 'n', spec: "--relative-to= --relative-base="}, "basename": {handler: "basename"},
	"dirname": {handler: "dirname"}, "cksum": {spec: "-a= -l= --algorithm= --length= -c!o --check!o"},
	"md5sum": {spec: "-c!o --check!o"}, "sha1sum": {spec: "-c!o --check!o"}, "sha224sum": {spec: "-c!o --check!o"},
	"sha256sum": {spec: "-c!o --check!o"}, "sha384sum": {spec: "-c!o --check!o"},
	"sha512sum": {spec: "-c!o --check!o"}, "b2sum": {spec: "-l= --length= -c!o --check!o"},
	"shasum": {spec: "-a= --algorithm= -c!o --check!o"}, "md5": {spec: "-s="},
	"touch":  {class: WritesWorkspace, use: 'w', spec: "-t= -d= -r=r --date= --reference=r --time="},
	"mkdir":  {class: WritesWorkspace, use: 'w', spec: "-m= --mode= --context?"},
	"mkfifo": {class: WritesWorkspace, use: 'w', spec: "-m= --mode="}, "mktemp": {handler: "mktemp"},
	"tee": {use: 'w'}, "truncate": {class: Destructive, use: 'w', spec: "-s= -r=r --size= --reference=r"},
	"fallocate": {class: WritesWorkspace, use: 'w', spec: "-l= -o= --length= --offset="}, "mv": {handler: "move"},
	"rename": {class: NeedsApproval, why: "renames files by a pattern"}, "rm": {handler: "rm"},
	"rmdir": {class: Destructive, use: 'd'}, "unlink": {class: Destructive, use: 'd'},
	"shred": {class: Destructive, use: 'd', spec: "-n= -s= --iterations= --size= --random-source=r"},
	"chmod": {handler: "chmod"}, "chown": {handler: "chown"}, "chgrp": {handler: "chown"}, "dd": {handler: "dd"},
	"find": {handler: "find"}, "fd": {handler: "fd"}, "fdfind": {handler: "fd"},
	"locate": {use: 'n', class: NeedsApproval}, "rsync": {handler: "rsync"}, "tar": {handler: "tar"},
	"bsdtar": {handler: "tar"}, "gtar": {handler: "tar"}, "zip": {handler: "zip"}, "unzip": {handler: "unzip"},
	"patch": {class: WritesWorkspace, use: 'w',
		spec: "-o=w -r=w -i=r -d=w -p= -F= -D= -V= -B= -z= --output=w --reject-file=w --input=r --directory=w " +
			"--strip= -e!e --ed!e"},
}
