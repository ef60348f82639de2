package mask

import (
	"slices"
	"strings"
)

// Programs take passwords as arguments, in forms that no name tells: the value of a
// short option, the second half of a login. Each row says which of a program's options
// do, by its manual page.

// A passOption is an option whose value is a password, or one behind a user and a
// separator. A program may have several; the first one that has a value in an argument
// counts.
type passOption struct {
	name  string // with its dashes, or the prefix of an argument such as pass:
	sep   byte   // between the user and the password, 0 if there is only a password
	form  passForm
	after string // an argument that must stand before, such as login
}

// A passForm is how an option and its value are written.
type passForm int

const (
	either   passForm = iota // -u value, -uvalue, -su value, --user value, --user=value
	attached                 // -pvalue only: behind a space is another argument
	apart                    // -a value only
)

var (
	curlOptions = []passOption{
		{name: "-u", sep: ':'}, {name: "--user", sep: ':'}, {name: "-U", sep: ':'}, {name: "--proxy-user", sep: ':'},
		{name: "-E", sep: ':'}, {name: "--cert", sep: ':'}, {name: "--pass"},
	}
	mysqlOptions  = []passOption{{name: "-p", form: attached}}
	loginOptions  = []passOption{{name: "-p", form: apart, after: "login"}}
	mongoOptions  = []passOption{{name: "-p", form: apart}}
	ldapOptions   = []passOption{{name: "-w", form: apart}}
	sambaOptions  = []passOption{{name: "-U", sep: '%'}, {name: "--user", sep: '%'}}
	mosquitto     = []passOption{{name: "-P", form: apart}}
	oracleOptions = []passOption{{name: "", sep: '/'}}
	javaOptions   = []passOption{{name: "-storepass", form: apart}, {name: "-keypass", form: apart}}
)

var passOptions = map[string][]passOption{
	"curl":  curlOptions,
	"mysql": mysqlOptions, "mysqldump": mysqlOptions, "mysqladmin": mysqlOptions, "mysqlimport": mysqlOptions,
	"mysqlcheck": mysqlOptions, "mysqlbinlog": mysqlOptions, "mysqlshow": mysqlOptions,
	"mariadb": mysqlOptions, "mariadb-dump": mysqlOptions, "mariadb-admin": mysqlOptions,
	"sshpass":   {{name: "-p"}},
	"redis-cli": {{name: "-a", form: apart}, {name: "--pass"}}, "valkey-cli": {{name: "-a", form: apart}, {name: "--pass"}},
	"sqlcmd": {{name: "-P"}},
	"docker": loginOptions, "podman": loginOptions, "nerdctl": loginOptions, "buildah": loginOptions,
	"skopeo": loginOptions, "helm": loginOptions, "oras": loginOptions, "crane": loginOptions,
	"mongo": mongoOptions, "mongosh": mongoOptions, "mongodump": mongoOptions, "mongorestore": mongoOptions,
	"mongoexport": mongoOptions, "mongoimport": mongoOptions,
	"ldapsearch": ldapOptions, "ldapadd": ldapOptions, "ldapmodify": ldapOptions, "ldapdelete": ldapOptions, "ldapwhoami": ldapOptions,
	"smbclient": sambaOptions, "rpcclient": sambaOptions, "smbget": sambaOptions,
	"mosquitto_pub": mosquitto, "mosquitto_sub": mosquitto,
	"openssl": {{name: "pass:", form: attached}},
	"sqlplus": oracleOptions, "sqlldr": oracleOptions, "expdp": oracleOptions, "impdp": oracleOptions,
	"htpasswd": {},
	"keytool":  javaOptions, "jarsigner": javaOptions, "unzip": {{name: "-P"}}, "ipmitool": {{name: "-P"}},
}

// maxArguments is how many arguments of a command are looked at. A longer line is most
// likely not a command.
const maxArguments = 64

// command marks the passwords among the arguments of a program whose name begins at a
// position. The name has to be a whole word: mysql in a sentence has no option behind it,
// so nothing is marked there.
func (f *finder) command(at int) {
	end := at
	for end < len(f.s) && (base64URL.has(f.s[end])) {
		end++
	}
	options, known := passOptions[f.s[at:end]]
	if !known || !f.edge(at) {
		return
	}
	args := arguments(f.rest(end), end)
	if f.s[at:end] == "htpasswd" {
		f.htpasswd(args)
		return
	}
	for i := range args {
		for _, o := range options {
			if o.after != "" && !slices.ContainsFunc(args[:i], func(b argument) bool { return b.text == o.after }) {
				continue
			}
			if v, ok := o.value(args, i); ok && f.password(v, o.sep) {
				break
			}
		}
	}
}

// An argument is a word of a command line, with its quotes.
type argument struct {
	text string
	at   int
}

// arguments returns the words of a command, up to the next one. A quote that is not closed
// on the line belongs to something around the command, such as a string of source code.
func arguments(line string, at int) (out []argument) {
	i := 0
	for len(out) < maxArguments {
		for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
			i++
		}
		start, quote := i, byte(0)
		for i < len(line) {
			c := line[i]
			switch {
			case quote != 0:
				if c == quote {
					quote = 0
				}
			// A quote inside of a word begins a quoted part of it, as in -p'x y'.
			case c == '\'' || c == '"':
				if strings.IndexByte(line[i+1:], c) >= 0 { // else it closes one around the command
					quote = c
				}
			}
			if quote == 0 && strings.IndexByte(" \t|;&<>`\r", c) >= 0 {
				break
			}
			i++
		}
		if i > start {
			out = append(out, argument{line[start:i], at + start})
		}
		if i >= len(line) || line[i] != ' ' && line[i] != '\t' {
			return out
		}
	}
	return out
}

// value returns the value of the option, if the argument is one. An argument that begins
// with the option's name may have its value behind it, depending on the form.
func (o *passOption) value(args []argument, i int) (argument, bool) {
	a := args[i]
	rest, begins := strings.CutPrefix(a.text, o.name)
	switch {
	case !begins:
		long := strings.HasPrefix(o.name, "--") || len(o.name) != 2
		if long || o.form != either || !bundle(a.text, o.name[1]) {
			return a, false
		}
	case rest != "" && o.form == apart:
		return a, false
	case rest != "" && strings.HasPrefix(o.name, "--"):
		if rest[0] != '=' {
			return a, false
		}
		return argument{rest[1:], a.at + len(o.name) + 1}, true
	case rest != "":
		return argument{rest, a.at + len(o.name)}, true
	case o.form == attached:
		return a, false
	}
	if i+1 >= len(args) {
		return a, false
	}
	return args[i+1], true
}

// bundle reports whether an argument is several short options of which the last takes a
// value: -sSu.
func bundle(arg string, last byte) bool {
	return len(arg) > 2 && arg[0] == '-' && arg[len(arg)-1] == last && strings.Trim(arg[1:], letters) == ""
}

// password marks the password that an argument is, or has behind a separator, and reports
// whether there was one. Short passwords and those that stand for one are left, as in
// documentation.
func (f *finder) password(a argument, sep byte) bool {
	text, from := unquote(a)
	user := ""
	if sep != 0 {
		i := strings.IndexByte(text, sep)
		if i < 0 {
			return false
		}
		user, text, from = text[:i], text[i+1:], from+i+1
		if sep == '/' { // user/password@host
			if i = strings.LastIndexByte(text, '@'); i < 0 || user == "" {
				return false
			}
			text = text[:i]
		}
	}
	if len(text) < 5 || strings.ContainsAny(text, "{}[]") || !plausiblePassword(user, text) {
		return false
	}
	f.mark(from, from+len(text), byPlace)
	return true
}

// unquote returns an argument without what stands around it.
func unquote(a argument) (string, int) {
	for _, q := range []string{`\"`, `"`, "'"} {
		if rest, ok := strings.CutPrefix(a.text, q); ok {
			if i := strings.Index(rest, q); i >= 0 {
				rest = rest[:i]
			}
			return rest, a.at + len(q)
		}
	}
	return strings.TrimRight(a.text, "\"'),.;\\"), a.at
}

// htpasswd marks the argument behind the name of the user, if -b says that it is the
// password. With -n there is no file before. Options may be bundled, as in -bnB.
func (f *finder) htpasswd(args []argument) {
	rest, batch := 2, false
	for _, a := range args {
		switch {
		case a.text[0] == '-':
			batch = batch || strings.Contains(a.text, "b")
			if strings.Contains(a.text, "n") {
				rest--
			}
		case rest == 0:
			if batch {
				f.password(a, 0)
			}
			return
		default:
			rest--
		}
	}
}

// dsn marks the password of a data source name of Go's driver for MySQL,
// user:password@tcp(host)/name, of which the check sees the @.
func (f *finder) dsn(at int) {
	from := at
	for limit := f.start(at); from > limit && strings.IndexByte(" \t\"'`=,;<>", f.s[from-1]) < 0; {
		from--
	}
	user, password, ok := strings.Cut(f.s[from:at], ":")
	if ok && plausiblePassword(user, password) {
		f.mark(at-len(password), at, byPlace)
	}
}

// oracle marks the password in jdbc:oracle:thin:user/password@host.
func (f *finder) oracle(at int) {
	rest := f.rest(at)
	f.password(argument{rest[:strings.IndexAny(rest+" ", " \t\"'`<>")], at}, '/')
}

// identified marks the password of a user in SQL: IDENTIFIED BY 'x', also with a plugin
// between.
func (f *finder) identified(at int) {
	from := at + len("identified ")
	line := f.rest(from)
	i := strings.Index(strings.ToLower(line[:min(len(line), 64)]), "by ")
	if i != 0 && (i < 0 || !strings.HasPrefix(strings.ToLower(line), "with ")) {
		return
	}
	i += len("by ")
	if strings.EqualFold(line[i:min(len(line), i+len("password "))], "password ") {
		i += len("password ")
	}
	if words := arguments(line[i:], from+i); len(words) > 0 {
		f.password(words[0], 0)
	}
}

// connect marks the third string among the arguments of a call, which is the password:
// mysqli_connect("host", "user", "password").
func (f *finder) connect(at int) {
	open := strings.IndexByte(f.s[at:min(len(f.s), at+32)], '(')
	if open < 0 || !f.edge(at) {
		return
	}
	at += open + 1
	line := f.rest(at)
	for n := range 3 {
		skip := len(line) - len(strings.TrimLeft(line, " \t"))
		line, at = line[skip:], at+skip
		end := -2 // a variable
		switch {
		case line == "":
			return
		case line[0] == '"' || line[0] == '\'':
			end = closing(line[1:], line[:1])
		case line[0] != '$' || n == 2:
			return
		}
		if n == 2 {
			f.password(argument{line[1 : 1+end], at + 1}, 0)
			return
		}
		_, rest, ok := strings.Cut(line[min(len(line), end+2):], ",")
		if !ok {
			return
		}
		at += len(line) - len(rest)
		line = rest
	}
}

// pgpass marks the password of a line of PostgreSQL's file for them,
// host:port:database:user:password, of which the check sees the port.
func (f *finder) pgpass(at int) {
	from, end := at, at
	for limit := f.start(at); from > limit && strings.IndexByte(aroundPgpass, f.s[from-1]) < 0; {
		from--
	}
	for end < min(len(f.s), at+maxBefore) && strings.IndexByte(aroundPgpass, f.s[end]) < 0 {
		end++
	}
	host := f.s[from:at]
	if i := strings.LastIndexByte(host, ':'); i >= 0 { // a tool has put a number before
		number := host[strings.LastIndexByte(host[:i], ':')+1 : i]
		if host = host[i+1:]; !isNumber(number) {
			return
		}
	}
	fields := strings.Split(f.s[at:end], ":")
	if host == "" || len(fields) != 5 || fields[1] != "*" && !isNumber(fields[1]) || fields[2] == "" || fields[3] == "" {
		return
	}
	f.password(argument{fields[4], end - len(fields[4])}, 0)
}

const aroundPgpass = " \t\r\n\"'`,;()<>"
