package shell

import (
	"slices"
	"strings"
)

// Programs that build, run code, talk to the network or manage machines. All of them ask.
// The search through their words only decides how severe the question looks. It may be
// guesswork, as long as each guess makes the class worse.

// handlers look at the arguments of programs for which a row is not enough.
var handlers = map[string]func(*call, []word){
	"echo": echo, "printf": printf, "pwd": pwd, "number": number,
	"seq": seq, "test": testBuiltin, "words": anyWords, "cd": cd, "popd": popd, "exit": exit, "leave": leave,
	"positional": positional, "set": setBuiltin, "shopt": setBuiltin, "unset": unset, "read": readBuiltin,
	"mapfile": mapfile, "hash": hash, "alias": alias, "compgen": compgen, "history": historyBuiltin, "trap": trap,
	"let": letBuiltin, "declare": declareBuiltin, "wrapper": wrapper, "power": power, "shift": shift,
	"env": env, "printenv": printenv, "xargs": xargs,
	"runner": runner, "command": command, "builtin": builtin, "exec": execBuiltin, "eval": eval,
	"source": sourceBuiltin, "interpreter": interpreter, "base64": base64Program, "binary": binary, "cat": cat, "tac": tac, "ls": ls, "rm": rm,
	"copy": copyFiles, "move": move, "chmod": chmod, "chown": chown, "dd": dd, "tar": tar, "zip": zip,
	"unzip": unzip, "compress": compress, "rsync": rsync, "mktemp": mktemp, "split": split, "disk": disk, "stops": stops,
	"kill": kill, "head": head, "wc": wc, "sort": sort, "oneIn": oneIn, "grep": grep, "rg": rg,
	"jq": jq, "yq": yq, "pager": pager, "editor": editor, "date": date, "hostname": hostname, "sleep": sleep,
	"ps": ps, "query": query, "gpg": gpg, "crontab": crontab, "find": find, "fd": fd, "sed": sed, "awk": awk,
	"git": git, "gitBranch": gitBranch, "gitRemotes": gitRemotes, "gitStash": gitStash, "gitConfig": gitConfig,
	"gitReflog": gitReflog, "gitSymbolic": gitSymbolic, "gitWorktree": gitWorktree, "gitNotes": gitNotes,
	"gitSubmodule": gitSubmodule, "gitBisect": gitBisect, "gitRm": gitRm, "gitRestore": gitRestore,
	"gitCheckout": gitCheckout, "gitSwitch": gitSwitch, "gitReset": gitReset, "gitClean": gitClean,
	"gitApply": gitApply, "gitFilter": gitFilter, "gitPush": gitPush, "gitRemote": gitRemote, "goRun": goRun,
	"language": language, "build": build, "docker": docker, "terraform": terraform, "curl": curl, "ssh": ssh,
	"scp": scp, "nc": nc, "getent": getent, "openssl": openssl, "database": database, "cloud": cloud, "dpkg": dpkg,
}

// goRun is go run and go install: what has a version comes from the network. The rest may
// build with cgo or run generators, which are code of the project.
func goRun(c *call, argv []word) {
	o := c.options(program{long: true, spec: goRunSpec}, argv[1:])
	c.raise(NeedsApproval, "go "+argv[0].text+" runs code of the project or installs it")
	if len(o.operands) > 0 && strings.Contains(o.operands[0].text, "@") {
		c.raise(Network, "fetches a program")
	}
	if argv[0].text == "install" {
		c.raise(WritesOutside, "installs a program")
	}
}

// build is for programs that run what the project says. The steps of a build are in files
// that the model may have written a moment ago.
func build(c *call, argv []word) {
	name := base(argv[0].text)
	c.raise(NeedsApproval, name+" may run code of the project")
	for i, w := range argv {
		// For make, -o names a file that is not made again (make(1)).
		if i > 0 && strings.HasPrefix(w.text, "-o") && name != "make" && name != "gmake" {
			c.compilerOutput(argv, i)
		}
	}
}

// compilerOutput notes the file of -o, in the same word or the next.
func (c *call) compilerOutput(argv []word, i int) {
	if out := argv[i].text[2:]; out != "" {
		c.write(argv[i].keep(out))
	} else if i+1 < len(argv) {
		c.write(argv[i+1])
	}
}

// language is an interpreter of code that is not looked at, but for hints of what deletes
// or talks. No grammar is read here: that a program is in Python says nothing about what it
// does.
func language(c *call, argv []word) {
	c.k.opaque = true
	c.raise(NeedsApproval, "runs code")
	for i, w := range argv {
		if i > 0 {
			c.codeArg(w, argv[i-1])
		}
	}
	in := c.st.stdin
	if c.code(&in, "runs code"); in.kind == known {
		c.hints(in.text)
	}
}

// codeArg looks at an argument of an interpreter, and at the one before it. python -m
// http.server opens the directory to the network, python -m pip installs from there.
func (c *call) codeArg(w, before word) {
	if w.net || w.from != nil && w.from.net {
		c.raise(Escalates, "runs what came from the network")
	}
	if w.text == "http.server" || w.text == "pip" && before.text == "-m" {
		c.raise(Network, "talks to the network")
	}
	c.hints(w.text)
}

// hints looks for the names of functions that delete, connect or run.
func (c *call) hints(code string) {
	if len(code) < 6 {
		return
	}
	for _, h := range codeHints {
		if strings.Contains(code, h.text) {
			c.raise(h.class, "runs code that has "+h.text)
		}
	}
	// A command in a string of the code is a script for sh; it ends at the same quote.
	for _, q := range []string{`system("`, `system('`, "exec(\"", "exec('", "execSync(\"", "execSync('",
		"popen(\"", "popen('"} {
		if _, rest, ok := strings.Cut(code, q); ok {
			if cmd, _, ok := strings.Cut(rest, q[len(q)-1:]); ok {
				c.raise(c.k.nested(word{text: cmd}, c.st), "runs code that runs a command")
			}
		}
	}
}

// codeHints are parts of the names by which the libraries of Python, JavaScript, Ruby and
// Perl delete files and open connections. That none is found means nothing.
var codeHints = []struct {
	text  string
	class Class
}{
	{"rmtree", Destructive}, {"os.remove", Destructive}, {"os.unlink", Destructive}, {".unlink(", Destructive},
	{"rmSync", Destructive}, {"unlinkSync", Destructive},
	{"rmdirSync", Destructive}, {"rmdir(", Destructive}, {"FileUtils.rm", Destructive}, {"File.delete",
		Destructive}, {"unlink ", Destructive}, {"os.rmdir", Destructive},
	{"urllib", Network}, {"requests.", Network}, {"http.client", Network}, {"http.get", Network}, {"https.get",
		Network}, {"fetch(", Network}, {"socket", Network},
	{"Net::HTTP", Network}, {"LWP::", Network}, {"open-uri", Network}, {"urlopen", Network}, {"httpx", Network},
	{"aiohttp", Network},
}

// docker asks in any case: its client talks to a daemon that is root. Options that hand the
// machine to a container are worse. Options have many spellings, so they are looked for in
// the text of the whole line. A wrong hit only makes the question graver.
func docker(c *call, argv []word) {
	var words []string
	for _, w := range argv[1:] {
		words = append(words, w.text)
	}
	line := strings.Join(words, " ")
	c.raise(NeedsApproval, "changes or runs containers")
	for _, bad := range []string{"--privileged", "--pid=host", "--pid host", "--net=host", "--network=host",
		"--network host", "--net host", "--cap-add", "docker.sock", "-v /:", "--volume /:", "--volume=/:",
		"src=/,", "source=/,", "--userns=host", "--ipc=host", "--security-opt", "--device", "-v /etc",
		"-v ~", "-v /root", "-v /home", "--mount type=bind,source=/"} {
		if strings.Contains(" "+line+" ", bad) {
			c.raise(Escalates, "gives a container power over the machine")
		}
	}
	for _, w := range words {
		switch w {
		case "rm", "rmi", "prune", "kill", "down", "stop", "remove", "destroy":
			c.raise(Destructive, "removes containers, images or volumes")
		case "login":
			c.raise(Escalates, "keeps a password")
		case "pull", "push", "search":
			c.raise(Network, "talks to a registry")
		// The words behind these belong to the container.
		case "run", "exec", "build", "compose", "start", "up":
			if w != "compose" {
				return
			}
		}
	}
}

// terraform runs providers that the project names, already to plan. An approval that covers
// -auto-approve would be given for whatever the plan turns out to be.
func terraform(c *call, argv []word) {
	c.raise(NeedsApproval, "runs what providers of the project do")
	for _, w := range argv[1:] {
		switch w.text {
		case "destroy", "-destroy", "taint", "rm", "-auto-approve", "--auto-approve":
			c.raise(Destructive, "destroys infrastructure")
		case "apply", "up", "import", "init", "get", "refresh":
			c.raise(Network, "changes infrastructure")
		}
	}
}

// curl talks to hosts, writes what it gets, and sends files. A file behind @ is sent, so it
// counts as read; one of secrets is then disputed.
func curl(c *call, argv []word) {
	c.raise(Network, base(argv[0].text)+" talks to the network")
	spec := curlSpec
	if base(argv[0].text) == "wget" {
		spec = wgetSpec
	}
	o := c.options(program{spec: spec}, argv[1:])
	c.k.fetched = true
	for _, w := range o.operands {
		c.host(w)
	}
	if w, ok := o.args["--url"]; ok {
		c.host(w)
	}
	for _, w := range o.all("-d", "--data", "--data-ascii", "--data-binary", "--data-urlencode", "--json", "--url-query", "-F", "--form", "-H", "--header") {
		if i := strings.IndexAny(w.text, "@<"); i >= 0 { // the settings of a part of a form are behind the file
			c.read(word{text: before(w.text[i+1:], ";")})
		}
	}
	c.out = word{kind: anything, net: true}
}

// ssh runs a command on another machine: what it destroys there counts too. Its output
// comes from another machine, which may be anybody's.
func ssh(c *call, argv []word) {
	c.k.opaque = true
	c.raise(Network, "logs in to another machine")
	o := c.options(program{spec: sshSpec, first: true}, argv[1:])
	c.sshSettings(argv)
	if len(o.operands) == 0 {
		return
	}
	c.host(o.operands[0])
	if rest := o.operands[1:]; len(rest) > 0 {
		c.k.nested(joined(rest), c.st)
	}
	c.out = word{kind: anything, net: true}
}

// sshSettings looks for those that run a command here (ssh_config(5)). A ProxyCommand runs
// before anything is sent, so the host that is named need not even exist.
func (c *call) sshSettings(argv []word) {
	c.k.fetched = true
	for _, w := range argv {
		if l := strings.ToLower(w.text); strings.Contains(l, "proxycommand") || strings.Contains(l,
			"localcommand") || strings.Contains(l, "knownhostscommand") {
			c.raise(Escalates, "a program is told to run a command")
		}
	}
}

// scp copies from or to another machine, through a program that -S names, or with -D is the
// server (scp(1), sftp(1)). One of its operands has a colon, or it is a host to talk to.
func scp(c *call, argv []word) {
	c.raise(Network, "copies from or to another machine")
	o := c.options(program{spec: sshSpec}, argv[1:])
	c.sshSettings(argv)
	if o.has("-S", "-D") {
		c.raise(Escalates, "a program is told to run a command")
	}
	for i, w := range o.operands {
		switch {
		case strings.Contains(w.text, ":") || len(o.operands) == 1:
			c.host(w)
		case i == len(o.operands)-1:
			c.write(w)
		default:
			c.read(w)
		}
	}
}

// nc opens connections, and with -e or EXEC: gives somebody a shell. A program behind a
// pipe from it gets whatever the other side sends.
func nc(c *call, argv []word) {
	c.raise(Network, "opens a connection")
	c.k.fetched, c.k.connects = true, true
	o := c.options(program{spec: ncSpec}, argv[1:])
	for _, w := range o.operands {
		if u := strings.ToUpper(w.text); strings.HasPrefix(u, "EXEC:") || strings.HasPrefix(u, "SYSTEM:") {
			c.raise(Escalates, "a program is told to run a command")
		}
	}
	if len(o.operands) > 0 {
		c.host(o.operands[0])
	}
	c.out = word{kind: anything, net: true}
}

// getent asks the name services, some of which are on other machines.
func getent(c *call, argv []word) {
	switch second(argv) {
	case "hosts", "ahosts", "ahostsv4", "ahostsv6", "networks":
		c.raise(Network, "asks for the address of a host")
		for _, w := range plain(argv, 2) {
			c.host(w)
		}
	default:
		c.raise(NeedsApproval, "asks a database of the system")
	}
}

// openssl opens connections, or reads and writes keys.
func openssl(c *call, argv []word) {
	switch second(argv) {
	case "version":
	case "s_client", "s_server", "s_time", "ocsp":
		c.raise(Network, "opens a connection")
		for i, w := range argv {
			if w.text == "-connect" && i+1 < len(argv) {
				c.host(argv[i+1])
			}
		}
	default:
		c.raise(NeedsApproval, "reads or writes keys")
		for i, w := range argv {
			if (w.text == "-out" || w.text == "-keyout") && i+1 < len(argv) {
				c.write(argv[i+1])
			}
		}
	}
}

// database is for clients of databases. Deletions by their statements count, as far as the
// statements are in the words. Statements in files and on standard input are not looked at.
func database(c *call, argv []word) {
	c.raise(Network, "talks to a database")
	for _, w := range argv[1:] {
		u := strings.ToUpper(w.text)
		for _, bad := range []string{"DROP ", "TRUNCATE ", "DELETE FROM", "FLUSHALL", "FLUSHDB", "DROPDATABASE",
			".DELETE", ".DROP"} {
			if strings.Contains(u, bad) {
				c.raise(Destructive, "deletes data")
			}
		}
	}
}

// cloud is for programs that manage what runs elsewhere. The verb is one of the first
// words; names behind it may have the same letters.
func cloud(c *call, argv []word) {
	c.raise(Network, base(argv[0].text)+" talks to the network")
	for i, w := range argv[1:] {
		switch t := w.text; {
		case i < 4 && (strings.HasPrefix(t, "delete") || strings.HasPrefix(t, "terminate") ||
			strings.HasPrefix(t, "destroy") || t == "rm" || t == "rb" || t == "drain" || t == "uninstall" ||
			t == "purge" || t == "--delete" || t == "scale"):
			c.raise(Destructive, "deletes what runs elsewhere")
		case i < 4 && (strings.Contains(t, "token") || strings.Contains(t, "secret") || strings.Contains(t,
			"iam") || t == "auth" || t == "login" || t == "configure" || strings.Contains(t, "password") || strings.Contains(t,
			"credential") || t == "ssh-key"):
			c.raise(Escalates, "reads or changes keys and rights")
		}
	}
	if name := base(argv[0].text); name == "kubectl" || name == "oc" {
		if s := second(argv); s == "exec" || s == "cp" || s == "port-forward" || s == "proxy" {
			c.raise(Escalates, "runs a command on another machine")
		}
	}
	c.out = word{kind: anything, net: true}
}

// dpkg lists with one of these options alone (dpkg(1), dpkg-query(1)); --pre-invoke and
// others run commands.
func dpkg(c *call, argv []word) {
	switch second(argv) {
	case "-l", "-L", "-s", "-S", "--list", "--status", "--search", "--listfiles", "--print-architecture":
		if !slices.ContainsFunc(argv[2:], word.dash) {
			return
		}
	}
	c.raise(Escalates, "installs or removes programs")
}
