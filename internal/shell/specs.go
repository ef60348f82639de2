package shell

// What programs take as options, in the language of a spec. Options without argument and
// effect are here only where others could be taken for them.
const (
	awkSpec = "-F= -v= -f=a --file=a -E=a --exec=a -e=p --source=p -i=e --include=e -l=e --load=e -o?W " +
		"--pretty-print?W -p?W --profile?W -d?W --dump-variables?W -D?a --debug?a --field-separator= " +
		"--assign= -m="
	lsSpec = "-I= -T= -w= --ignore= --hide= --block-size= --width= --time-style= --sort= --time= --format= " +
		"-L!o --dereference!o"
	tarSpec = "-f= -C= -T=r -X=r -b= -I=x -F=x -H= -K= -N= -V= -g=w --file= --directory= --exclude= " +
		"--exclude-from=r --files-from=r --use-compress-program=x --to-command=x --checkpoint-action=x " +
		"--info-script=x --new-volume-script=x --rsh-command=x --rmt-command=x --transform= " +
		"--strip-components= --list --check --owner= --group= --mode= --index-file=w " +
		"--listed-incremental=w --remove-files!d -P!a --absolute-names!a --overwrite --checkpoint? " +
		"--wildcards --suffix="
	zipSpec      = "-TT=x --unzip-command=x -b=w -O=w --out=w -n= -t= -x? -i? -P= -m!d --move!d -d!W"
	compressSpec = "-o=w -S= -b= -T= -M= --suffix= --threads= --memlimit= -D=r --output-dir-flat=w --files?"
	rsyncSpec    = "-e=x --rsh=x --rsync-path=x --daemon!n --password-file=r --files-from=r --exclude-from=r " +
		"--include-from=r --log-file=w --write-batch=w --backup-dir=w --partial-dir=w --temp-dir=w -T=w " +
		"--exclude= --include= -f= --filter= -B= -M=a --delete!d --delete-before!d --delete-during!d " +
		"--delete-delay!d --delete-after!d --delete-excluded!d --remove-source-files!d --del!d"
	splitSpec = "--filter=x -a= -b= -C= -l= -n= -t= -f=w -k -s -z --additional-suffix= --bytes= --lines= " +
		"--number= --prefix=w --suffix-format="
	copySpec = "-t=w -S= -m= -o= -g= -Z? --target-directory=w --suffix= --mode= --owner=e --group=e --backup? " +
		"--preserve? --sparse? --reflink? --context? --strip-program=x"
	fdSpec = "-x=x -X=x --exec=x --exec-batch=x -e= -E= -t= -d= -g -c= -j= -S= -o= --extension= --exclude= " +
		"--type= --max-depth= --min-depth= --size= --changed-within= --changed-before= --owner= --format= " +
		"-L!o --follow!o --base-directory=r --search-path=r --ignore-file=r -C=r"
	gitBranchSpec = "-m=? -F=r -u=W --set-upstream-to=W --unset-upstream!W --edit-description!a -d!d -D!d --delete!d " +
		"-f!d --force!d -M!d -C!W -c!W --copy!W --move!W -s!a --sign!a -v? --verify!a -a? -e!a --edit!a " +
		"-n? --sort= --format= --contains? --no-contains? --merged? --no-merged? --points-at= --color? " +
		"--column? --abbrev? --create-reflog!W -t!W --track!W"
	gitConfigSpec = "-f=r --file=r --blob= --get --get-all --type= -t= --default= --get-color= --url= -e!e --edit!e " +
		"--unset!e --unset-all!e --add!e --replace-all!e --rename-section!e --remove-section!e"
	gitArchiveSpec  = "-o=w --output=w --exec=x --remote=n --format= --prefix= --add-file=r"
	gitCheckoutSpec = "-b= -B= --orphan= -f!d --force!d -p!a --patch!a --pathspec-from-file=d --conflict= --ours!d " +
		"--theirs!d -m!W --merge!W"
	gitResetSpec = "--hard!d --merge!d --keep!d -p!a --patch!a --pathspec-from-file=r"
	gitApplySpec = "-p= -C= --exclude= --include= --directory= --whitespace= --build-fake-ancestor=w " +
		"--unsafe-paths!O"
	gitFilterSpec = "--setup=e --env-filter=e --tree-filter=e --index-filter=e --parent-filter=e --msg-filter=e " +
		"--commit-filter=e --tag-name-filter=e -d= --original="
	gitPushSpec = "-f!d --force!d --force-with-lease?d --mirror!d -d!d --delete!d --prune!d --receive-pack=x " +
		"--exec=x -o= --push-option= --repo="
	goRunSpec = "-toolexec=x -exec=x -overlay=a -modfile=a -C=r -ldflags= -tags= -mod= -gcflags="
	ncSpec    = "-e=e -c=e --exec=e --sh-exec=e --lua-exec=e -w= -p= -s= -i= -q= -X= -x= -o=w"
	sshSpec   = "-p= -i=r -l= -L= -R= -D= -W= -J= -F=r -o= -b= -c= -E=w -e= -I= -m= -O= -Q= -S= -w= -P= -B="
	sedSpec   = "-e=p --expression=p -f=e --file=e -i?i --in-place?i -l= -s -n -E -r -z -u --line-length= " +
		"--sandbox --debug --posix --follow-symlinks"
	headSpec = "-n= -c= -b= -s= --lines= --bytes= --sleep-interval= --pid= --max-unchanged-stats="
	sortSpec = "-k= -t= -S= -o=w -T=w --key= --field-separator= --buffer-size= --output=w " +
		"--temporary-directory=w --compress-program=x --files0-from=r --random-source=r --parallel= " +
		"--batch-size= --sort="
	uniqSpec = "-f= -s= -w= --skip-fields= --skip-chars= --check-chars= --group? --all-repeated?"
	grepSpec = "-e=p -f=P -A= -B= -C= -m= -d= -D= --regexp=p --file=P --after-context= --before-context= " +
		"--context= --max-count= --include= --exclude= --exclude-dir= --exclude-from=r --label= --color? " +
		"--colour? --binary-files= --directories= --devices= --group-separator="
	rgSpec = "--pre=x --hostname-bin=x -z!a --search-zip!a -L!o --follow!o -e=p -f=P --regexp=p --file=P -A= " +
		"-B= -C= -m= -g= -t= -T= -d= -j= -M= -r= -E= --after-context= --before-context= --context= " +
		"--max-count= --glob= --iglob= --type= --type-not= --max-depth= --threads= --max-columns= " +
		"--replace= --encoding= --sort= --sortr= --color= --colors= --context-separator= --engine= " +
		"--ignore-file=r --max-filesize= --path-separator= --pre-glob= --type-add= --type-clear= " +
		"--dfa-size-limit= --regex-size-limit= --field-context-separator= --field-match-separator= " +
		"--hyperlink-format= --generate="
	batSpec = "--pager=x --paging= -l= -r= -H= -m= --language= --line-range= --highlight-line= --theme= " +
		"--style= --color= --map-syntax= --tabs= --wrap= --terminal-width= --diff-context="
	jqSpec = "-f!a --from-file!a -L=a --library-path=a --tab --indent= --slurpfile= --rawfile= --arg= " +
		"--argjson= --args --jsonargs --run-tests!a"
	yqSpec = "-i!i --inplace!i --in-place!i -s=w --split-exp=w -f!a --from-file=a -o= -p= -I= --indent= " +
		"--output-format= --input-format="
	dateSpec  = "-s!e --set!e -d= --date= -f=r --file=r -r= --reference= -I? --iso-8601? --rfc-3339= -v= -j"
	envSpec   = "-P=e -L=e -U=e -u= -C= -S=x --unset= --chdir= --split-string=x --argv0= -a="
	xargsSpec = "-a=r -d= -E= -e? -I= -i? -L= -l? -n= -P= -s= --arg-file=r --delimiter= --eof? --replace? " +
		"--max-lines? --max-args= --max-procs= --max-chars= --process-slot-var= -J= -R= -S="
	parallelSpec    = "-a=r -j= -n= -N= -I= -C= -d= --jobs= --colsep= -S=n --sshlogin=n"
	interpreterSpec = "-o= -O= +O= --rcfile=e --init-file=e -i!a -l!a --login!a -a!a -t -n"
	curlSpec        = "-o=f --output=f -O!W --remote-name!W -d= --data= --data-binary= --data-raw= -F= --form= -H= " +
		"--header= -X= --request= -u= --user= -A= --user-agent= -e= -b= -c=w --cookie-jar=w -D=w " +
		"--dump-header=w -K=e --config=e -T=r --upload-file=r -x= --proxy= -w= --write-out= -m= " +
		"--max-time= --connect-timeout= --retry= --trace=w --trace-ascii=w --stderr=w --output-dir=w " +
		"-E=r --cert=r --key=r --cacert=r --url= -L -s -S -f -k -i -I -v -Z"
	wgetSpec = "-O=f --output-document=f -P=w --directory-prefix=w -o=w --output-file=w -a=w " +
		"--append-output=w -i=r --input-file=r --post-file=r --post-data= --header= -U= -T= -t= -e=e " +
		"--execute=e --use-askpass=x --config=e -q -c -r -l= -A= -R= -D= --user= --password="
)
