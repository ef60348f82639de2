package shell

// The programs that only read, with the options that are known to only read. A row says
// by its comment which manual it was made from and why nothing in it writes, runs or
// connects. Other options of a manual are left out, and so they ask; options whose harm
// deserves a separate class are in the row with their effect. A row is tame if its manual has
// no option at all that does more than read, so that a word that is not known may be one: cat *
// in a directory with a file named -n.
//
// The manuals are those of coreutils 9, util-linux 2.38, diffutils 3.8, grep 3.8,
// findutils 4.9, procps 4, binutils 2.40 and git 2.39 on Debian; where BSD or macOS give
// an option another meaning that does more than read, it is left out.
func rows() map[string]program {
	return map[string]program{
		// coreutils, cat to wc: print their operands, changed, to the standard output.
		"cat": {handler: "cat", tame: true, spec: "-AbeEnstTuv --show-all --number-nonblank --show-ends --number " +
			"--squeeze-blank --show-tabs --show-nonprinting"},
		// tac copies what it cannot seek in to a temporary file.
		"tac": {handler: "tac", tame: true, spec: "-br -s= --before --regex --separator="},
		"nl": {tame: true, spec: "-p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w= --body-numbering= --number-format= " +
			"--number-separator= --number-width= --starting-line-number="},
		"head": {handler: "head", tame: true, spec: "-qvz0123456789 -n= -c= --lines= --bytes= --quiet --silent --verbose " +
			"--zero-terminated"},
		// tail without -f and --retry, which wait for ever, and --pid, which waits for a process.
		"tail": {spec: "-qvzr0123456789 -n= -c= --lines= --bytes= --quiet --silent --verbose --zero-terminated"},
		"wc":   {handler: "wc", tame: true, spec: "-clmwL --bytes --chars --lines --words --max-line-length --total="},
		"cut": {tame: true, spec: "-nsz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --complement " +
			"--only-delimited --output-delimiter= --zero-terminated"},
		"paste": {tame: true, spec: "-sz -d= --delimiters= --serial --zero-terminated"},
		"join": {tame: true, spec: "-iz -a= -e= -j= -o= -t= -v= -1= -2= --ignore-case --check-order --nocheck-order --header " +
			"--zero-terminated"},
		"comm": {tame: true, spec: "-123z --output-delimiter= --check-order --nocheck-order --total --zero-terminated"},
		"tr": {use: 'n', tame: true,
			spec: "-cCdst --complement --delete --squeeze-repeats --truncate-set1"},
		"expand":   {tame: true, spec: "-i -t= --initial --tabs="},
		"unexpand": {tame: true, spec: "-a -t= --all --first-only --tabs="},
		"fold":     {tame: true, spec: "-bs0123456789 -w= --bytes --spaces --width="},
		"fmt": {tame: true, spec: "-cstu0123456789 -w= -g= -p= --crown-margin --tagged-paragraph --split-only " +
			"--uniform-spacing --width= --goal= --prefix="},
		"tsort": {tame: true}, "rev": {tame: true}, "colrm": {tame: true, use: 'n'},
		// sort and uniq have an output file: as an option, and as the second operand. sort -m
		// copies what comes in to a temporary file, and so do -S and a large input.
		"sort": {handler: "sort", spec: "-bcCdfghiMnRrsuVz -k= -t= -o=w -T=w --check? --ignore-leading-blanks " +
			"--dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort " +
			"--human-numeric-sort --numeric-sort --random-sort --reverse --version-sort --stable --unique " +
			"--zero-terminated --key= --field-separator= --sort= --output=w --temporary-directory=w " +
			"--compress-program=x --debug"},
		"uniq": {handler: "oneIn", first: true, spec: "-cdDiuz -f= -s= -w= --count --repeated --unique --ignore-case " +
			"--zero-terminated --skip-fields= --skip-chars= --check-chars= --group? --all-repeated?"},
		"shuf": {spec: "-erz -i= -n= --echo --repeat --zero-terminated --input-range= --head-count= -o=w --output=w"},
		"seq":  {handler: "seq", use: 'n', tame: true, spec: "-w0123456789. -s= -f= --separator= --format= --equal-width"},
		"od": {tame: true, spec: "-abcdfhilosvx -A= -j= -N= -S= -t= -w? --address-radix= --skip-bytes= --read-bytes= " +
			"--format= --width? --output-duplicates"},
		"base64": {handler: "base64", spec: "-diD -w= --decode --ignore-garbage --wrap= -o=w --output=w"},
		"base32": {handler: "base64", spec: "-di -w= --decode --ignore-garbage --wrap= -o=w --output=w"},
		"numfmt": {use: 'n', tame: true, spec: "-z -d= --from= --to= --field= --suffix= --padding= --format= --header? " +
			"--grouping --round= --invalid= --delimiter="},
		"factor": {use: 'n', tame: true}, "nproc": {handler: "number", use: 'n', tame: true, spec: "--all --ignore="},
		"basename": {tame: true, use: 'n', spec: "-az -s= --multiple --suffix= --zero"},
		"dirname":  {tame: true, use: 'n', spec: "-z --zero"},
		"realpath": {use: 'n', tame: true, spec: "-eLmPqsz --canonicalize-existing --canonicalize-missing --logical " +
			"--physical --quiet --relative-to= --relative-base= --strip --no-symlinks --zero"},
		"readlink": {use: 'n', tame: true, spec: "-efmnqsvz --canonicalize --canonicalize-existing " +
			"--canonicalize-missing --no-newline --quiet --silent --verbose --zero"},
		"expr": {handler: "words"}, "pathchk": {use: 'n', tame: true, spec: "-pP --portability"},
		// The checksums, without -c: the list to check may name any file.
		"md5sum": {tame: true, spec: digest}, "sha1sum": {tame: true, spec: digest}, "sha224sum": {tame: true, spec: digest}, "sha256sum": {tame: true, spec: digest},
		"sha384sum": {tame: true, spec: digest}, "sha512sum": {tame: true, spec: digest}, "b2sum": {tame: true, spec: digest + " -l= --length="},
		"sum":   {spec: "-rs --sysv"},
		"cksum": {spec: "-z -a= -l= -c!o --check!o --algorithm= --length= --untagged --tag --zero"},
		"md5":   {spec: "-qrs -s="},
		// Facts of files. -L of ls and du follows links, which may lead outside.
		"ls": {handler: "ls", tame: true, spec: listFiles}, "dir": {handler: "ls", tame: true, spec: listFiles},
		"stat": {tame: true, spec: "-fLtx -c= --dereference --file-system --format= --printf= --terse"},
		"du": {tame: true, spec: "-0abchHklmsSx0123456789 -d= -B= -t= -L!o --dereference!o --all --apparent-size --block-size= --bytes " +
			"--total --max-depth= --human-readable --si --summarize --separate-dirs --one-file-system --exclude= " +
			"--threshold= --time? --time-style= --inodes"},
		"df": {use: 'n', spec: "-ahHiklPT -t= -x= -B= --all --block-size= --human-readable --si --inodes --local " +
			"--portability --output? --total --type= --exclude-type= --print-type"},
		// The system and the user: whoami(1), id(1), uname(1), uptime(1) and the like.
		"whoami": {use: 'n'}, "id": {use: 'n', spec: "-Ggnruz --group --groups --name --real --user --zero"},
		"groups": {use: 'n'}, "logname": {use: 'n'}, "users": {}, "tty": {use: 'n', spec: "-s --silent --quiet"},
		"uname": {use: 'n', spec: "-aimnoprsv --all --kernel-name --nodename --kernel-release --kernel-version --machine " +
			"--operating-system"},
		"uptime": {spec: "-ps --pretty --since"},
		// date(1) sets the clock by an operand without a plus, and -s. -f reads a file of dates.
		"date": {handler: "date", spec: "-uR -I? -d= -v= -r= --date= --reference= --utc --universal --iso-8601? --rfc-3339= " +
			"--rfc-email -s!e --set!e"},
		// hostname(1): an operand or a file sets the name; the other options ask a name server.
		"hostname": {handler: "hostname", spec: "-s --short -F=e --file=e -b!e --boot!e"},
		"free":     {use: 'n', spec: "-bghklmtvw --human --si --kibi --mebi --gibi --mega --giga --total --wide"},
		"ps": {handler: "ps", spec: "-aAcdefFHjlLMNTwyZ -C= -g= -G= -o= -O= -p= -q= -s= -t= -u= -U= --cols= --columns= " +
			"--forest --format= --group= --headers --no-headers --pid= --ppid= --sort= --user= --width="},
		"pstree": {use: 'n', spec: "-AcghlnpstTuU --arguments --ascii --compact-not --show-pids --long --unicode"},
		"pgrep": {use: 'n', spec: "-acflnovwxi -d= -g= -G= -P= -s= -t= -u= -U= --count --delimiter= --list-name " +
			"--list-full --full --newest --oldest --parent= --euid= --uid= --exact --inverse --ignore-case"},
		"pidof": {use: 'n', spec: "-sx"},
		"lscpu": {use: 'n', spec: "-aceJxy -e? -p? --all --json --extended? --parse?"},
		"lsblk": {use: 'n', spec: "-abdflmnpJPrSt -o= --all --bytes --fs --json --list --noheadings --output= --paths"},
		"who":   {spec: "-abdHlmqrstTu"}, "w": {use: 'n', spec: "-fhsu"},
		"getconf": {use: 'n', spec: "-a"}, "locale": {use: 'n', spec: "-ackm --all-locales --charmaps --keyword-name"},
		"sw_vers": {use: 'n', spec: "-productName -productVersion -buildVersion"},
		"cal":     {use: 'n', spec: "-13jmsy"}, "which": {use: 'n', spec: "-as"},
		"whereis": {use: 'n', spec: "-bmsu"},
		// diffutils: -l of diff runs pr, and is left out; so are the options that name files.
		"diff": {spec: "-abBcdeEHinNpqrstTuwyZ0123456789 -C= -F= -I= -L= -S= -U= -W= -x= -X=r --brief " +
			"--report-identical-files --context? --unified? --normal --side-by-side --width= --left-column " +
			"--suppress-common-lines --show-c-function --label= --expand-tabs --initial-tab --tabsize= " +
			"--recursive --no-dereference --new-file --unidirectional-new-file --ignore-file-name-case --exclude= " +
			"--exclude-from=r --ignore-case --ignore-tab-expansion --ignore-trailing-space --ignore-space-change " +
			"--ignore-all-space --ignore-blank-lines --ignore-matching-lines= --text --strip-trailing-cr --minimal " +
			"--speed-large-files --color? -l!a --paginate!a"},
		"cmp": {tame: true, spec: "-bls -i= -n= --print-bytes --ignore-initial= --verbose --bytes= --quiet --silent"},
		// column and hexdump of util-linux and BSD.
		"column": {tame: true, spec: "-tnxeJ -c= -s= -o= -l= -N= -R= -T= -W= -H= -O= -E= --table --json --separator= " +
			"--output-separator= --output-width= --table-columns= --table-right= --table-truncate= --table-hide= " +
			"--table-noheadings --table-empty-lines --fillrows"},
		"hexdump": {spec: "-bcCdovx -e= -n= -s= --canonical --no-squeezing --length= --skip="},
		"hd":      {spec: "-bcCdovx -e= -n= -s="},
		// xxd(1) of vim reads the first letter of an option only, so -ps has no argument; its
		// second operand is written; -r turns a dump back.
		"xxd": {handler: "oneIn", first: true, apart: true, spec: "-abeiup -c= -g= -l= -s= -o="},
		// iconv(1) of glibc, file(1) without -C, which writes, -z, which runs, -m and -f, which read.
		"iconv": {spec: "-cls -f= -t= --from-code= --to-code= --list -o=w --output=w"},
		"file": {spec: "-bhiIkNnr0 -e= -F= --brief --mime --mime-type --mime-encoding --keep-going --no-dereference " +
			"--no-pad --print0 --raw --separator= --exclude= -C!W --compile!W -z!a -Z!a -m=a --magic-file=a"},
		// grep(1): nothing writes or runs. -f reads a file of patterns.
		"grep":  {handler: "grep", use: 'p', tame: true, spec: grepOptions},
		"egrep": {handler: "grep", use: 'p', tame: true, spec: grepOptions},
		"fgrep": {handler: "grep", use: 'p', tame: true, spec: grepOptions},
		// rg(1): --pre and --hostname-bin run a program, -z runs decompressors, -L follows links.
		"rg": {handler: "rg", use: 'p', spec: "-0abcFHIilNnopPqsSuUvVwx. -e=p -f=P -A= -B= -C= -m= -g= -t= -T= -d= -j= -M= " +
			"-r= -E= --regexp=p --file=P --after-context= --before-context= --context= --max-count= --glob= " +
			"--iglob= --type= --type-not= --max-depth= --threads= --max-columns= --replace= --encoding= --sort= " +
			"--sortr= --color= --colors= --count --count-matches --files --files-with-matches --files-without-match " +
			"--fixed-strings --hidden --ignore-case --smart-case --case-sensitive --invert-match --json " +
			"--line-number --no-line-number --line-regexp --word-regexp --multiline --multiline-dotall --no-heading " +
			"--heading --no-filename --with-filename --no-ignore --no-ignore-vcs --no-messages --null --null-data " +
			"--only-matching --passthru --pcre2 --pretty --quiet --stats --text --trim --type-list --vimgrep " +
			"--column --no-config --one-file-system --unrestricted --crlf --max-filesize= --context-separator= " +
			"--glob-case-insensitive --byte-offset --line-buffered --pre=x --hostname-bin=x -z!a --search-zip!a -L!o " +
			"--follow!o"},
		// tree(1) takes the next word for -I also in the middle of letters, so it stands alone; -o
		// writes, -R writes into each directory, -l follows links.
		"tree": {apart: true, spec: "-aACdDfFghiJnNpqrsStuUvxcX -L= -P= -I= --charset= --dirsfirst --filelimit= --prune --noreport --du " +
			"--si --inodes --sort= --matchdirs --ignore-case --gitignore --filesfirst --timefmt= -o=w -l!o -R!W"},
		// fd(1) and bat(1): -x and -X run; a pager runs if told to.
		"fd": {handler: "fd", use: 'p', spec: "-HIuasigFp0 -e= -E= -t= -d= -S= -j= --hidden --no-ignore --case-sensitive " +
			"--ignore-case --glob --fixed-strings --absolute-path --full-path --print0 --extension= --exclude= --type= " +
			"--max-depth= --min-depth= --max-results= --size= --changed-within= --changed-before= --color= " +
			"-x=x -X=x --exec=x --exec-batch=x -L!o --follow!o"},
		"bat": {spec: "-AnpPd -l= -r= -H= -m= --language= --line-range= --highlight-line= --show-all --plain --number --diff " +
			"--style= --color= --theme= --tabs= --wrap= --terminal-width= --decorations= --pager=x"},
		// jq(1.6) has no function that writes or runs; modules and the environment are looked for.
		"jq": {handler: "jq", use: 'p', tame: true, spec: "-acCejMnrRsS --ascii-output --compact-output --color-output " +
			"--monochrome-output --exit-status --join-output --null-input --raw-output --raw-input --slurp " +
			"--sort-keys --tab --indent= --seq --stream --unbuffered --args --jsonargs"},
		// yq: the one in Go and the one in Python; -i and -s write.
		"yq": {handler: "yq", use: 'p', spec: "-crnPNMC -o= -p= -I= --output-format= --input-format= --prettyPrint --unwrapScalar? " +
			"--no-colors -i!i --inplace!i --in-place!i -s=w --split-exp=w -f!a --from-file=a"},
		// binutils: a word that begins with @ names a file of options (handler), --plugin loads
		// code; what could ask a debuginfod server (-l, -S, -w and -g) or load a plugin is left out.
		"nm": {handler: "binary", spec: "-aABCDgnopPrSuv -t= -f= --debug-syms --demangle? --dynamic --defined-only --undefined-only " +
			"--extern-only --numeric-sort --no-sort --size-sort --print-size --print-file-name --reverse-sort " +
			"--radix= --format= --plugin=x"},
		"objdump": {handler: "binary", spec: "-adDfhprRstTxCz -j= -M= --disassemble? --demangle? --section= --syms --dynamic-syms --reloc " +
			"--section-headers --headers --file-headers --private-headers --full-contents --all-headers " +
			"--no-show-raw-insn --start-address= --stop-address= --plugin=x"},
		"readelf": {handler: "binary", spec: "-aehlSgtsnrudVIW -x= -p= --all --file-header --program-headers --section-headers --sections " +
			"--headers --syms --symbols --dyn-syms --notes --relocs --dynamic --version-info --wide --hex-dump= " +
			"--string-dump= --demangle?"},
		"strings": {handler: "binary", spec: "-aw0123456789 -n= -t= -e= --all --bytes= --radix= --encoding= --include-all-whitespace"},
		"size":    {handler: "binary", spec: "-ABGdotx --format= --radix= --totals --common"}, "c++filt": {handler: "binary", use: 'n', spec: "-_nip"},
		// zcat and the like print; they run gzip, bzip2 or xz of the system.
		"zcat": {}, "bzcat": {}, "xzcat": {},
		"zipinfo": {spec: "-12smlvhtTzMC"},
		// shellcheck(1): -x follows sources, and is left out.
		"shellcheck": {spec: "-s= -S= -f= -e= -i= -o= -W= --shell= --severity= --format= --exclude= --include= --enable= " +
			"--color? --norc"},
		// bc(1) of GNU and BSD read files and calculate.
		"bc": {spec: "-lqsw --mathlib --quiet --standard --warn"}, "help": {use: 'n', spec: "-dms"},

		// Programs with their own grammar.
		"find": {handler: "find"}, "sed": {handler: "sed"}, "gsed": {handler: "sed"}, "awk": {handler: "awk"},
		"gawk": {handler: "awk"}, "mawk": {handler: "awk"}, "nawk": {handler: "awk"}, "xargs": {handler: "xargs"},
		"gxargs": {handler: "xargs"}, "git": {handler: "git"}, "fdfind": {handler: "fd", use: 'p'}, "sleep": {handler: "sleep"},
		"dpkg": {handler: "dpkg"}, "dpkg-query": {handler: "dpkg"},

		// Wrappers run another command as it is: env(1), timeout(1), nice(1), stdbuf(1), time(1).
		// A shell gets its script as a word; what tar, unzip and gzip may do unasked is in their
		// handlers.
		"env": {handler: "env"}, "timeout": {handler: "wrapper"}, "gtimeout": {handler: "wrapper"},
		"arch": {handler: "wrapper"}, // of macOS
		"nice": {handler: "wrapper"}, "stdbuf": {handler: "wrapper"}, "time": {handler: "wrapper"},
		"gtime": {handler: "wrapper"}, "printenv": {handler: "printenv"}, "bash": {handler: "interpreter"},
		"sh": {handler: "interpreter"}, "dash": {handler: "interpreter"}, "tar": {handler: "tar"},
		"bsdtar": {handler: "tar"}, "gtar": {handler: "tar"}, "unzip": {handler: "unzip"}, "gzip": {handler: "compress"},
		"gunzip": {handler: "compress"}, "xz": {handler: "compress"}, "unxz": {handler: "compress"},
		"bzip2": {handler: "compress"}, "bunzip2": {handler: "compress"}, "zstd": {handler: "compress"},

		// Builtins of bash, from its manual, SHELL BUILTIN COMMANDS.
		":": {handler: "words"}, "true": {handler: "words"}, "false": {handler: "words"},
		"echo": {handler: "echo"}, "printf": {handler: "printf"}, "test": {handler: "test"}, "[": {handler: "test"},
		"pwd": {handler: "pwd", use: 'n', spec: "-LP"}, "cd": {handler: "cd"}, "pushd": {handler: "cd"},
		"popd": {handler: "popd"}, "dirs": {use: 'n', spec: "-lpv"}, "type": {use: 'n', spec: "-afptP"},
		"times": {use: 'n'}, "umask": {handler: "query"}, "exit": {handler: "exit"}, "return": {handler: "leave"},
		"break": {handler: "leave"}, "continue": {handler: "leave"}, "shift": {handler: "positional"},
		"set": {handler: "set"}, "export": {handler: "declare"}, "readonly": {handler: "declare"},
		"local": {handler: "declare"}, "read": {handler: "read"}, "jobs": {use: 'n', spec: "-lprs"},
		"command": {handler: "command"},
	}
}

const (
	digest    = "-btz -c!o --check!o --binary --text --tag --zero"
	listFiles = "-1aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ -I= -T= -w= -L!o --dereference!o --all --almost-all --author --escape " +
		"--block-size= --ignore-backups --color? --directory --classify? --file-type --format= --full-time " +
		"--group-directories-first --no-group --human-readable --si --hide= --hyperlink? --indicator-style= --inode " +
		"--ignore= --kibibytes --literal --numeric-uid-gid --quote-name --quoting-style= --reverse --recursive --size " +
		"--sort= --time= --time-style= --tabsize= --width= --zero --show-control-chars --hide-control-chars"
	grepOptions = "-abcEFGhHiIlLnoPqrRsTUvVwxyzZ0123456789 -e=p -f=P -A= -B= -C= -m= -d= -D= --regexp=p --file=P --after-context= " +
		"--before-context= --context= --max-count= --include= --exclude= --exclude-dir= --exclude-from=r --label= " +
		"--color? --colour? --binary-files= --directories= --devices= --group-separator= --no-group-separator " +
		"--extended-regexp --fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --word-regexp " +
		"--line-regexp --null-data --no-messages --invert-match --byte-offset --line-number --line-buffered " +
		"--with-filename --no-filename --only-matching --quiet --silent --text --recursive --dereference-recursive " +
		"--files-with-matches --files-without-match --count --initial-tab --null --binary"
)

// versions are the programs that are only asked for their version: they print it before
// they look into the project. Not among them: go, cargo and rustc, which let a file of the
// project choose and fetch the tool chain; and those that load plugins or start scripts.
var versions = set(
	"node", "nodejs", "python", "python2", "python3", "perl", "ruby", "php", "lua", "gcc", "g++", "cc", "c++",
	"clang", "clang++", "ld", "as", "make", "gmake", "cmake", "ninja", "docker", "git", "bash",
	"tsc", "curl", "wget", "tar", "gzip", "xz", "zip", "unzip", "ssh", "rsync",
)

// saysVersion are the short forms.
var saysVersion = set(
	"node -v", "nodejs -v", "python -V", "python3 -V", "perl -v", "ruby -v", "php -v", "lua -v", "gcc -v",
	"g++ -v", "cc -v", "clang -v", "clang++ -v", "make -v", "gmake -v", "tsc -v", "ssh -V",
)
