package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The access rights that a rule can grant for a path, by purpose.
const (
	rightsLook = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR
	// No device files: they lead to what is not in the directory.
	rightsChange = rightsLook | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	rightsDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// rightsFile are those that a file, as opposed to a directory, can have.
	rightsFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX | rightsDevice
)

// devices are what programs take for granted. All may be written to but by commands that
// only read: those have the first.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// maxABI is the newest version of Landlock's interface whose rights are known here.
const maxABI = 10

// A ruleset has what Landlock denies unless a rule grants it.
type ruleset struct {
	fd  int
	all uint64 // the rights in files that are denied
}

// abi asks the kernel for the version of Landlock's interface.
func abi() (int, error) {
	n, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0, fmt.Errorf("ask for the version: %w", e)
	}
	return min(int(n), maxABI), nil
}

// handled are the rights that a version can deny. See landlock(7), "VERSIONS".
func handled(version int, network bool) *unix.LandlockRulesetAttr {
	a := &unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER - 1}
	since := func(v int, field *uint64, bits uint64) {
		if version >= v {
			*field |= bits
		}
	}
	since(2, &a.Handled_access_fs, unix.LANDLOCK_ACCESS_FS_REFER)
	since(3, &a.Handled_access_fs, unix.LANDLOCK_ACCESS_FS_TRUNCATE)
	since(5, &a.Handled_access_fs, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	since(6, &a.Scoped, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET|unix.LANDLOCK_SCOPE_SIGNAL)
	since(9, &a.Handled_access_fs, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX)
	if !network {
		since(4, &a.Handled_access_net, unix.LANDLOCK_ACCESS_NET_BIND_TCP|unix.LANDLOCK_ACCESS_NET_CONNECT_TCP)
		since(10, &a.Handled_access_net, unix.LANDLOCK_ACCESS_NET_BIND_UDP|unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP)
	}
	return a
}

// newRuleset makes the rules for a view. The caller closes it.
func newRuleset(v *view) (*ruleset, error) {
	version, err := abi()
	if err != nil {
		return nil, err
	}
	attr := handled(version, v.Network)
	if v.everything {
		attr.Handled_access_fs &^= rightsLook &^ unix.LANDLOCK_ACCESS_FS_READ_FILE
	}
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0)
	if e != 0 {
		return nil, fmt.Errorf("create rules: %w", e)
	}
	r := &ruleset{int(fd), attr.Handled_access_fs}
	if err := r.fill(v); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *ruleset) close() { _ = unix.Close(r.fd) }

// fill grants what a view allows.
func (r *ruleset) fill(v *view) error {
	for i, path := range devices {
		rights := uint64(rightsDevice)
		if v.readOnly && i > 0 {
			rights &^= rightsChange &^ rightsLook
		}
		if err := r.grant(path, rights, 0, nil); err != nil {
			return err
		}
	}
	if v.everything {
		err := r.grant("/", unix.LANDLOCK_ACCESS_FS_READ_FILE, 0, []string{"/dev"})
		if err = cmp.Or(err, r.grant("/dev/shm", unix.LANDLOCK_ACCESS_FS_READ_FILE, 0, nil)); err != nil {
			return err
		}
	}
	for _, path := range v.reads() {
		if err := r.grant(path, rightsLook, unix.LANDLOCK_ACCESS_FS_READ_DIR, v.Hide); err != nil {
			return err
		}
	}
	for _, path := range v.writes() {
		if err := r.grant(path, rightsChange, rightsLook, v.Protect); err != nil {
			return err
		}
	}
	return nil
}

// grant gives rights in a path and in what is in it, but only the lesser ones in some
// paths. As rules can only add rights, directories around those get the lesser ones, and
// what is in them each the full ones: what is new in such a directory gets none.
func (r *ruleset) grant(path string, rights, lesser uint64, except []string) error {
	return r.grantAt(unix.AT_FDCWD, path, path, &grant{rights, lesser, except})
}

// A grant is what ruleset.grant is asked for.
type grant struct {
	rights, lesser uint64
	except         []string // absolute paths
}

// grantAt opens one name below an open directory, so that nobody can put another directory
// in the way between the check of the path and the rule for it. The path is for messages and
// for the comparison with the exceptions.
func (r *ruleset) grantAt(dir int, name, path string, g *grant) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // It is gone, or not even the host gets there.
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFLNK {
		return nil // The target of the link has separate rules.
	}
	if covers(g.except, path) {
		return r.add(fd, kind, path, g.lesser)
	}
	if kind != unix.S_IFDIR || !slices.ContainsFunc(g.except, func(e string) bool { return within(e, path) }) {
		return r.add(fd, kind, path, g.rights)
	}
	if err := r.add(fd, kind, path, g.lesser); err != nil {
		return err
	}
	return r.grantEach(fd, path, g)
}

// grantEach gives rights in each of the entries of a directory.
func (r *ruleset) grantEach(dir int, path string, g *grant) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	for _, name := range names {
		if err := r.grantAt(dir, name, filepath.Join(path, name), g); err != nil {
			return err
		}
	}
	return nil
}

// add adds the rule for an open path, with those rights that the kernel knows and that
// this kind of file can have.
func (r *ruleset) add(fd int, kind uint32, path string, rights uint64) error {
	rights &= r.all
	if kind != unix.S_IFDIR {
		rights &= rightsFile
	}
	if rights == 0 {
		return nil
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if e != 0 {
		return fmt.Errorf("add a rule for %s: %w", path, e)
	}
	return nil
}

// restrict makes the rules those of this thread and of what it starts.
func (r *ruleset) restrict() error {
	_, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
