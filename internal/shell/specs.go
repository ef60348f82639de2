package shell

// The options of programs that do more than read, in the language of a spec, as far as an
// option has an argument or an effect.
const (
	tarSpec = "-f= -C= -T=r -X=r -b= -I=x -F=x -H= -K= -N= -V= -g=w --file= --directory= --exclude= " +
		"--exclude-from=r --files-from=r --use-compress-program=x --to-command=x --checkpoint-action=x " +
		"--info-script=x --new-volume-script=x --rsh-command=x --rmt-command=x --transform= " +
		"--strip-components= --list --check --owner= --group= --mode= --index-file=w " +
		"--listed-incremental=w --remove-files!d -P!O --absolute-names!O --one-top-level?w --recursive-unlink!d --overwrite --checkpoint? " +
		"--wildcards --suffix="
	// zip -TT runs a command to test the archive, and -m deletes the files that it has
	// stored.
	zipSpec      = "-TT=x --unzip-command=x -b=w -O=w --out=w -n= -t= -x? -i? -P= -m!d --move!d -d!W"
	compressSpec = "-o=w -S= -b= -T= -M= --suffix= --threads= --memlimit= -D=r --output-dir-flat=w --files?"
	// rsync runs the shell of -e here, and the program of --rsync-path there.
	rsyncSpec = "-e=x --rsh=x --rsync-path=x --daemon!n --password-file=r --files-from=r --exclude-from=r " +
		"--include-from=r --log-file=w --write-batch=w --backup-dir=w --partial-dir=w --temp-dir=w -T=w " +
		"--exclude= --include= -f= --filter= -B= -M=a --delete!d --delete-before!d --delete-during!d " +
		"--delete-delay!d --delete-after!d --delete-excluded!d --remove-source-files!d --del!d"
	splitSpec = "--filter=x -a= -b= -C= -l= -n= -t= -f=w -k -s -z --additional-suffix= --bytes= --lines= " +
		"--number= --prefix=w --suffix-format="
	copySpec = "-t=w -S= -m= -o= -g= -Z? --target-directory=w --suffix= --mode= --owner=e --group=e --backup? " +
		"--preserve? --sparse? --reflink? --context? --strip-program=x"
	// Options that throw changes away have the effect d, those that wait for a person a.
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
	// curl -K and wget -e read further options, which may be any of these.
	curlSpec = "-o=f --output=f -O!W --remote-name!W -d= --data= --data-binary= --data-raw= -F= --form= -H= " +
		"--header= -X= --request= -u= --user= -A= --user-agent= -e= -b= -c=w --cookie-jar=w -D=w " +
		"--dump-header=w -K=e --config=e -T=r --upload-file=r -x= --proxy= -w= --write-out= -m= " +
		"--max-time= --connect-timeout= --retry= --trace=w --trace-ascii=w --stderr=w --output-dir=w " +
		"--libcurl=w --hsts=w --alt-svc=w --etag-save=w --data-ascii= --data-urlencode= --json= --url-query= " +
		"-E=r --cert=r --key=r --cacert=r --url= -L -s -S -f -k -i -I -v -Z"
	wgetSpec = "-O=f --output-document=f -P=w --directory-prefix=w -o=w --output-file=w -a=w " +
		"--append-output=w --save-cookies=w --warc-file=w --hsts-file=w --rejected-log=w -i=r --input-file=r --post-file=r --body-file=r --post-data= --header= -U= -T= -t= -e=e " +
		"--execute=e --use-askpass=x --config=e -q -c -r -l= -A= -R= -D= --user= --password="
)
