package resolve

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/derive"
)

// cIndex resolves C and C++.
//
// A compiler looks for an #include beside the file, if it is quoted, and then in the directories of its
// command line. These are seldom in the workspace in a form that can be read, so they are guessed where no
// build file names them: the directories around the file, and include, src and inc in them. As a last
// resort, a header is taken whose path ends with that of the include, the one with the most directories in
// common with the file.
// See https://gcc.gnu.org/onlinedocs/cpp/Search-Path.html.
type cIndex struct {
	x       *Index
	headers *derive.Query[[]string]
	byName  *derive.Query[map[string][]string]
	flags   *derive.Query[[]string]
	names   *derive.Query[map[string]bool]
}

func (r *cIndex) init(x *Index) {
	r.x = x
	r.headers = derive.NewQuery(x.table, r.findHeaders, nil)
	r.byName = derive.NewQuery(x.table, r.readHeaders, nil)
	r.flags = derive.NewQuery(x.table, r.readFlags, nil)
	r.names = derive.NewQuery(x.table, r.readNames, nil)
}

// findHeaders returns the files of C in a directory and below.
func (r *cIndex) findHeaders(dir string) (out []string) {
	for _, name := range r.x.names(dir) {
		p := path.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if name != "node_modules/" && name[0] != '.' {
				out = append(out, r.headers.Get(p)...)
			}
		} else if source.LanguageOf(name, nil) == source.C {
			out = append(out, p)
		}
	}
	return out
}

// readHeaders returns the files of C in the workspace by their base names.
func (r *cIndex) readHeaders(root string) map[string][]string {
	out := map[string][]string{}
	for _, p := range r.headers.Get(root) {
		out[path.Base(p)] = append(out[path.Base(p)], p)
	}
	return out
}

// readFlags returns the directories that the build files in a directory name for includes.
func (r *cIndex) readFlags(dir string) (out []string) {
	for _, name := range r.x.names(dir) {
		var found []string
		switch name {
		case "Makefile", "makefile", "GNUmakefile", "Makefile.am", "Makefile.in", "compile_commands.json", "compile_flags.txt":
			found = optionDirs(r.x.read(path.Join(dir, name)))
		case "CMakeLists.txt":
			found = cmakeDirs(r.x.read(path.Join(dir, name)))
		}
		for _, d := range found {
			if d = path.Join(dir, d); inside(d) && !slices.Contains(out, d) && r.x.names(d) != nil {
				out = append(out, d)
			}
		}
	}
	return out
}

// buildVariables stand for the directory of the build file itself, or nearly so.
var buildVariables = []string{
	"$(srcdir)", ".", "$(top_srcdir)", ".", "${CMAKE_CURRENT_SOURCE_DIR}", ".", "${CMAKE_SOURCE_DIR}", ".",
	"${PROJECT_SOURCE_DIR}", ".", "$<BUILD_INTERFACE:", "", "$(CURDIR)", ".", ">", "",
}

// optionDirs returns the relative directories of the options -I, -iquote and -isystem.
func optionDirs(data []byte) (out []string) {
	words := strings.FieldsFunc(string(data), func(c rune) bool { return c <= ' ' || c == '"' || c == '\'' || c == ',' })
	variables := strings.NewReplacer(buildVariables...)
	for i, w := range words {
		dir, ok := strings.CutPrefix(w, "-I")
		if !ok {
			dir, ok = strings.CutPrefix(w, "-iquote")
		}
		if !ok {
			dir, ok = strings.CutPrefix(w, "-isystem")
		}
		if ok && dir == "" && i+1 < len(words) {
			dir = words[i+1]
		}
		if dir = variables.Replace(dir); ok && dir != "" && !path.IsAbs(dir) && !strings.ContainsRune(dir, '$') {
			out = append(out, dir)
		}
	}
	return out
}

// cmakeDirs returns the directories of include_directories and target_include_directories.
func cmakeDirs(data []byte) (out []string) {
	text := string(data)
	variables := strings.NewReplacer(buildVariables...)
	for {
		before, after, ok := strings.Cut(text, "include_directories")
		if !ok {
			return out
		}
		arguments, rest, ok := strings.Cut(strings.TrimLeft(after, " \t("), ")")
		if !ok {
			return out
		}
		words := strings.Fields(arguments)
		if strings.HasSuffix(before, "target_") && len(words) > 0 {
			words = words[1:]
		}
		for _, w := range words {
			if w = variables.Replace(strings.Trim(w, `"`)); w != "" && !path.IsAbs(w) && !strings.ContainsRune(w, '$') {
				out = append(out, w)
			}
		}
		text = rest
	}
}

func (r *cIndex) imports(file string, f *source.Facts) (out []Edge) {
	for i := range f.Imports {
		if to := r.include(file, &f.Imports[i]); to != "" {
			out = append(out, Edge{To: to, Import: int32(i)})
		}
	}
	return out
}

// guesses are where headers are in the directories around a file.
var guesses = []string{"", "include", "src", "inc"}

// include returns the file that an #include means, or "". Of several, it is the first in the order in which
// a compiler would look, or the nearest.
func (r *cIndex) include(file string, i *source.Import) string {
	p := strings.ReplaceAll(i.Path, `\`, "/")
	if path.IsAbs(p) {
		return ""
	}
	system := i.Kind == source.System
	if beside := path.Join(path.Dir(file), p); !system && r.x.file(beside) {
		return beside
	}
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		for _, d := range r.flags.Get(dir) {
			if to := path.Join(d, p); r.x.file(to) {
				return to
			}
		}
		if dir == "." {
			break
		}
	}
	if system && isSystemHeader(p) {
		return ""
	}
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		for _, d := range guesses {
			if to := path.Join(dir, d, p); r.x.file(to) {
				return to
			}
		}
		if dir == "." {
			return r.nearest(file, p)
		}
	}
}

// nearest returns the file with the most directories in common, of those whose path ends with p.
func (r *cIndex) nearest(file, p string) (best string) {
	p = path.Clean(p)
	for strings.HasPrefix(p, "../") {
		p = p[3:]
	}
	most := -1
	for _, candidate := range r.byName.Get(".")[path.Base(p)] {
		if n := common(file, candidate); n > most && strings.HasSuffix("/"+candidate, "/"+p) {
			best, most = candidate, n
		}
	}
	return best
}

// common returns the number of directories that two paths begin with.
func common(a, b string) (n int) {
	for i := 0; i < len(a) && i < len(b) && a[i] == b[i]; i++ {
		if a[i] == '/' {
			n++
		}
	}
	return n
}

// systemHeaders are those of C, C++ and POSIX: in angle brackets, they are not files of the workspace unless a
// build file says so.
const systemHeaders = `
aio.h arpa/inet.h assert.h complex.h cpio.h ctype.h dirent.h dlfcn.h endian.h err.h errno.h fcntl.h fenv.h float.h fmtmsg.h fnmatch.h
ftw.h getopt.h glob.h grp.h iconv.h ifaddrs.h inttypes.h iso646.h langinfo.h libgen.h libintl.h limits.h locale.h malloc.h math.h memory.h
monetary.h mqueue.h ndbm.h net/if.h netdb.h netinet/in.h netinet/tcp.h nl_types.h paths.h poll.h pthread.h pty.h pwd.h regex.h resolv.h
sched.h search.h semaphore.h setjmp.h signal.h spawn.h stdalign.h stdarg.h stdatomic.h stdbit.h stdbool.h stdckdint.h stddef.h stdint.h
stdio.h stdlib.h stdnoreturn.h string.h strings.h stropts.h sys/file.h sys/ioctl.h sys/ipc.h sys/mman.h sys/msg.h sys/param.h sys/resource.h
sys/select.h sys/sem.h sys/shm.h sys/socket.h sys/stat.h sys/statvfs.h sys/syscall.h sys/sysinfo.h sys/time.h sys/times.h sys/types.h
sys/uio.h sys/un.h sys/utsname.h sys/wait.h syslog.h tar.h termios.h tgmath.h threads.h time.h trace.h uchar.h ucontext.h ulimit.h unistd.h
utime.h utmpx.h wchar.h wctype.h wordexp.h windows.h winsock2.h ws2tcpip.h io.h direct.h process.h
algorithm any array atomic barrier bit bitset cassert ccomplex cctype cerrno cfenv cfloat charconv chrono cinttypes climits clocale cmath
codecvt compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctgmath ctime
cuchar cwchar cwctype deque exception execution expected filesystem format forward_list fstream functional future generator initializer_list
iomanip ios iosfwd iostream istream iterator latch limits list locale map mdspan memory memory_resource mutex new numbers numeric optional
ostream print queue random ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream stack stacktrace
stdexcept stop_token streambuf string string_view strstream syncstream system_error thread tuple type_traits typeindex typeinfo
unordered_map unordered_set utility valarray variant vector version
`

func isSystemHeader(p string) bool {
	for w := range strings.FieldsSeq(systemHeaders) {
		if w == p {
			return true
		}
	}
	return false
}

// readNames returns the names that a file declares: those in the scope of the file or of a namespace, and the
// members of enums. A name of a class, or in a namespace, is there also as Class::name.
func (r *cIndex) readNames(file string) map[string]bool {
	out := map[string]bool{}
	f := r.x.surfaceOf(file)
	if f == nil {
		return out
	}
	for _, d := range f.Decls {
		of := d.Of
		outer := source.Module
		if d.Parent >= 0 {
			of, outer = f.Decls[d.Parent].Name, f.Decls[d.Parent].Kind
		}
		if of != "" {
			out[of+"::"+d.Name] = true
		}
		if d.Of == "" && (outer == source.Module || d.Kind == source.Field && outer == source.Type) {
			out[d.Name] = true
		}
	}
	return out
}

// refs finds the names of a file in what it includes, directly or not. The first file that declares a name
// counts, and the nearer ones are looked at first.
func (r *cIndex) refs(file string, f *source.Facts) Refs {
	counts := newRefCounts(0)
	declared := r.declared(file, f)
	for _, u := range f.Uses {
		names := []string{u.Name}
		if u.Of != "" {
			names = []string{u.Of + "::" + u.Name, u.Of}
		}
		for _, name := range names {
			if to := declared[name]; to != "" {
				counts.add(to, name[strings.LastIndexByte(name, ':')+1:], u.Count)
			}
		}
	}
	var direct []string
	for _, e := range r.x.imports.Get(file) {
		if e.To != file {
			direct = append(direct, e.To)
		}
	}
	counts.whole(direct)
	return counts.refs()
}

// included returns the files that a file includes, directly or not, the nearer ones first.
func (r *cIndex) included(file string) []string {
	seen := map[string]bool{file: true}
	queue := []string{file}
	for i := 0; i < len(queue); i++ {
		for _, e := range r.x.imports.Get(queue[i]) {
			if !seen[e.To] {
				seen[e.To] = true
				queue = append(queue, e.To)
			}
		}
	}
	return queue[1:]
}

// declared returns the first file that declares each name that a file uses, unless it is the file's own. It looks
// at each file once, and at its names or at those that are left, whichever are fewer.
func (r *cIndex) declared(file string, f *source.Facts) map[string]string {
	own, left := r.names.Get(file), map[string]bool{}
	for _, u := range f.Uses {
		if u.Of == "" {
			left[u.Name] = true
		} else {
			left[u.Of], left[u.Of+"::"+u.Name] = true, true
		}
	}
	maps.DeleteFunc(left, func(name string, _ bool) bool { return own[name] })
	found := map[string]string{}
	for _, to := range r.included(file) {
		few, many := r.names.Get(to), left
		if len(many) < len(few) {
			few, many = many, few
		}
		for name := range few {
			if many[name] {
				found[name] = to
				delete(left, name)
			}
		}
	}
	return found
}
