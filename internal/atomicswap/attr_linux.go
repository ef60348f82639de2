package atomicswap

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"unsafe"
)

const maxAttributes = 64 << 10 // bytes of all names, and of one value: XATTR_LIST_MAX, XATTR_SIZE_MAX

// accessList is the attribute that a new file inherits from its directory.
const accessList = "system.posix_acl_access"

// notCopied are attributes that belong to the bytes of a file, and that the kernel takes
// away when these change: rights that it gives to who runs it, and their signatures.
var notCopied = []string{"security.capability", "security.ima", "security.evm"}

// CopyAttributes gives a file the extended attributes of another, access lists and
// labels among them, but not rights that belong to the content. Those that the
// process may not set or the file system does not know are left out.
func CopyAttributes(to, from *os.File) error {
	names, err := attributes(from)
	if err != nil {
		return ignoreUnsettable(err)
	}
	if !slices.Contains(names, accessList) {
		if err := removeAttribute(to, accessList); ignoreUnsettable(err) != nil {
			return err
		}
	}
	var value []byte
	for _, name := range names {
		if slices.Contains(notCopied, name) {
			continue
		}
		if value == nil {
			value = make([]byte, maxAttributes)
		}
		n, err := attribute(syscall.SYS_FGETXATTR, from, name, value)
		if err == nil {
			_, err = attribute(syscall.SYS_FSETXATTR, to, name, value[:n])
		}
		if ignoreUnsettable(err) != nil {
			return err
		}
	}
	return nil
}

func ignoreUnsettable(err error) error {
	for _, e := range []error{syscall.EPERM, syscall.EACCES, syscall.ENOTSUP, syscall.ENODATA, syscall.EINVAL, syscall.ENOSYS} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

func attributes(f *os.File) ([]string, error) {
	list, n := make([]byte, 512), uintptr(0)
	read := func(fd int) error {
		var errno syscall.Errno
		n, _, errno = syscall.Syscall(syscall.SYS_FLISTXATTR, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(list))), uintptr(len(list)))
		return failed(errno)
	}
	err := control(f, read)
	if errors.Is(err, syscall.ERANGE) {
		list = make([]byte, maxAttributes)
		err = control(f, read)
	}
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(string(list[:n]), func(r rune) bool { return r == 0 }), nil
}

// attribute reads or writes one.
func attribute(call uintptr, f *os.File, name string, value []byte) (int, error) {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return 0, err
	}
	var n uintptr
	err = control(f, func(fd int) error {
		var errno syscall.Errno
		n, _, errno = syscall.Syscall6(call, uintptr(fd), uintptr(unsafe.Pointer(p)),
			uintptr(unsafe.Pointer(unsafe.SliceData(value))), uintptr(len(value)), 0, 0)
		return failed(errno)
	})
	return int(n), err
}

func removeAttribute(f *os.File, name string) error {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	return control(f, func(fd int) error {
		_, _, errno := syscall.Syscall(syscall.SYS_FREMOVEXATTR, uintptr(fd), uintptr(unsafe.Pointer(p)), 0)
		return failed(errno)
	})
}
