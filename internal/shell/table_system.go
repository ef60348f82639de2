package shell

// systemPrograms tell about the machine, change it, or run other programs.
var systemPrograms = map[string]program{
	"uname": {handler: "uname"}, "arch": {handler: "uname"}, "nproc": {handler: "number"},
	"free": {use: 'n', spec: "-s=a -c="}, "vmstat": {use: 'n', class: NeedsApproval},
	"last": {use: 'n', class: NeedsApproval}, "fuser": {class: NeedsApproval, spec: "-k!d"},
	"date": {handler: "date"}, "hostname": {handler: "hostname"}, "domainname": {handler: "hostname"},
	"sleep": {handler: "sleep"}, "ps": {handler: "ps"}, "pstree": {use: 'n', spec: "-a!o"},
	"top":  {class: NeedsApproval, why: "waits for a person"},
	"htop": {class: NeedsApproval, why: "waits for a person"},
	"btop": {class: NeedsApproval, why: "waits for a person"}, "watch": {handler: "watch"},
	"printenv": {handler: "printenv"}, "env": {handler: "env"}, "flock": {handler: "flock"},
	"xargs": {handler: "xargs"}, "gxargs": {handler: "xargs"}, "parallel": {handler: "parallel"},
	"script": {handler: "script"}, "busybox": {handler: "box"}, "toybox": {handler: "box"},
	"entr": {handler: "power"}, "ltrace": {handler: "power", class: Escalates},
	"strace": {handler: "power", class: Escalates}, "unshare": {handler: "shift", class: NeedsApproval},
	"chroot": {handler: "shift", class: NeedsApproval}, "fakeroot": {handler: "shift", class: NeedsApproval},
	"runuser": {handler: "power", class: Escalates}, "setpriv": {handler: "power", class: Escalates},
	"sudo": {handler: "power", class: Escalates}, "doas": {handler: "power", class: Escalates},
	"pkexec": {handler: "power", class: Escalates}, "su": {handler: "power", class: Escalates},
	"gosu": {handler: "power", class: Escalates}, "run0": {handler: "power", class: Escalates},
	"systemctl": {class: Escalates, sub: true}, "crontab": {handler: "crontab"}, "gpg": {handler: "gpg"},
	"gpg2": {handler: "gpg"},
}

// networkPrograms talk to other machines.
var networkPrograms = map[string]program{
	"ping":  {class: Network, use: 'h', spec: "-c= -i= -w= -W= -s= -t= -I="},
	"ping6": {class: Network, use: 'h', spec: "-c= -i= -w= -W= -s="}, "getent": {handler: "getent"},
	"openssl": {handler: "openssl"}, "netstat": {use: 'n', class: NeedsApproval},
	"ss": {use: 'n', spec: "-K!d --kill!d -D=w -F=r --diag=w --filter=r", class: NeedsApproval},
}
