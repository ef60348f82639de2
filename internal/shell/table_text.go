package shell

// textPrograms read texts, and print something about them.
var textPrograms = map[string]program{
	"zstdcat": {spec: "-o=w --output-dir-flat=w --output-dir-mirror=w --rm!d -D=r -M= -T="},
	"cat":     {handler: "cat"}, "tac": {spec: "-s= --separator="},
	"nl": {spec: "-b= -d= -f= -h= -i= -l= -n= -s= -v= -w="}, "bat": {handler: "bat"}, "batcat": {handler: "bat"},
	"head": {handler: "head"}, "tail": {handler: "head"}, "wc": {handler: "wc"},
	"cut":   {spec: "-b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --output-delimiter="},
	"paste": {spec: "-d= --delimiters="}, "join": {spec: "-a= -e= -j= -o= -t= -v= -1= -2="},
	"comm": {spec: "--output-delimiter="}, "sort": {handler: "sort"}, "uniq": {handler: "uniq"},
	"tr": {handler: "filter", use: 'n'}, "expand": {spec: "-t= --tabs="}, "unexpand": {spec: "-t= --tabs="},
	"fold": {spec: "-w= --width="}, "fmt": {spec: "-w= -g= -p= --width="},
	"pr": {spec: "-D= -h= -l= -N= -o= -w= -W="},
	"column": {spec: "-s= -o= -c= -N= -H= -R= -T= -O= --separator= --output-separator= --table-columns= " +
		"--output-width="},
	"ul": {spec: "-t="},
	"diff": {spec: "-I= -x= -X=r -C= -U= -W= -L= -F= -S= --label= --from-file=r --to-file=r --exclude= " +
		"--exclude-from=r --width= --context? --unified? -l!a --paginate!a --tabsize= --color? " +
		"--ignore-matching-lines= --horizon-lines= --strip-trailing-cr"},
	"diff3": {spec: "--diff-program=x -L= --label="},
	"sdiff": {spec: "-o=w --output=w -w= -I= --width= --diff-program=x"},
	"wdiff": {spec: "-l!a -p!a --less-mode!a"}, "cmp": {spec: "-i= -n= --bytes= --ignore-initial="},
	"base64": {handler: "base64"}, "base32": {handler: "base64"}, "basenc": {spec: "-w= --wrap="},
	"od": {spec: "-A= -j= -N= -S= -t= -w? --address-radix= --skip-bytes= --read-bytes= --format= --strings? " +
		"--width?"},
	"xxd": {handler: "xxd"}, "hexdump": {spec: "-e= -f=r -n= -s="}, "hd": {spec: "-e= -f=r -n= -s="},
	"strings": {spec: "-n= -t= -e= --bytes= --radix= --encoding= -T= --target="},
	"iconv":   {spec: "-f= -t= -o=w --from-code= --to-code= --output=w"}, "grep": {handler: "grep"},
	"egrep": {handler: "grep"}, "fgrep": {handler: "grep"}, "rg": {handler: "rg"},
	"ag": {use: 'p', spec: "-G= -A= -B= -C= -m= -p=r --pager=x --ignore= --ignore-dir= --depth= " +
		"-z!a --search-zip!a -f!o " +
		"--follow!o"},
	"sed": {handler: "sed"}, "gsed": {handler: "sed"}, "jq": {handler: "jq"}, "gojq": {handler: "jq"},
	"jaq": {handler: "jq"}, "yq": {handler: "yq"}, "split": {handler: "split"}, "csplit": {handler: "split"},
	"shuf": {spec: "-o=w -i= -n= --output=w --input-range= --head-count= --random-source=r -e --echo", use: 'r'},
	"seq":  {handler: "seq"}, "expr": {use: 'n', noHelp: true},
	"dc": {class: NeedsApproval, why: "dc runs commands that its input has"}, "look": {class: ReadOnly, use: 'p'},
	"yes":    {class: NeedsApproval, use: 'n', why: "prints without end"},
	"scc":    {spec: "-o=w --output=w -f= --format-multi=a"},
	"nano":   {class: NeedsApproval, why: "waits for a person"},
	"pico":   {class: NeedsApproval, why: "waits for a person"},
	"code":   {class: NeedsApproval, why: "waits for a person"},
	"fzf":    {class: NeedsApproval, why: "waits for a person"},
	"dialog": {class: NeedsApproval, why: "waits for a person"},
}
