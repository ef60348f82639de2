package sandbox

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A bridge leads from a command that has no network to a proxy in this process. A filter makes
// the kernel hand each connect of the command to this process, which is asked instead of the
// network (seccomp_unotify(2)). For the address of the proxy, the descriptor of the command
// becomes a connection that this process made; every other address is refused. So the command
// decides neither where a connection leads, nor has the kernel look at an address that could
// change after it was checked.
//
// The address is nowhere in use: nobody else can connect to the proxy, and no other server has
// to be told from it.
type bridge struct {
	notify *os.File
	conn   syscall.RawConn
}

func newBridge(fd int) (*bridge, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "connections")
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &bridge{f, conn}, nil
}

// serve hands the bridge over to who accepts connections, if the command has started: err is that
// of its start.
func (b *bridge) serve(err error, v *view) error {
	switch {
	case b == nil:
	case err != nil || v.serve == nil: // that is a trial
		b.Close()
	default:
		v.serve(b)
	}
	return err
}

// triesBridge lists what this thread can do although all it may reach is the proxy, and whether
// it reaches that. Somebody listens at another address.
func triesBridge(b *bridge, other netip.AddrPort) (leaks []string) {
	reached := make(chan int)
	go func() { // returns when the bridge is closed
		n := 0
		for {
			conn, err := b.Accept()
			if err != nil {
				reached <- n
				return
			}
			conn.Close()
			n++
		}
	}()
	with := func(do func(fd int) error) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return do(fd)
	}
	try := func(what string, do func(fd int) error) {
		if err := with(do); err == nil || err == unix.EINPROGRESS {
			leaks = append(leaks, "it can "+what)
		}
	}
	try("connect to others than the proxy", func(fd int) error { return unix.Connect(fd, sockaddr(other)) })
	try("connect by sending", func(fd int) error { return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, sockaddr(other)) })
	try("be connected to", func(fd int) error { return unix.Listen(fd, 1) })
	err := with(func(fd int) error { return unix.Connect(fd, sockaddr(proxyAddress())) })
	b.Close()
	if n := <-reached; err != nil || n != 1 {
		leaks = append(leaks, fmt.Sprintf("it cannot connect to the proxy (%v)", err))
	}
	return leaks
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

// bridges says why there can be no bridge on this machine.
func bridges() error {
	var sizes [3]uint16
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	switch {
	case !filtered:
		return errors.New("system calls cannot be filtered on this kind of machine, so connections cannot be handed to a proxy")
	case e != 0:
		return fmt.Errorf("connections cannot be handed to a proxy: %w", e)
	case int(sizes[0]) > int(unsafe.Sizeof(notification{})) || int(sizes[1]) > int(unsafe.Sizeof(response{})):
		return errors.New("connections cannot be handed to a proxy: this kernel tells more of them than is known here")
	}
	return nil
}

// See struct seccomp_notif, seccomp_notif_resp and seccomp_notif_addfd in linux/seccomp.h.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	caller     uint64 // the instruction
	args       [6]uint64
}

type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

type descriptor struct {
	id           uint64
	flags, from  uint32
	to, newFlags uint32
}

func (b *bridge) ioctl(request uintptr, arg unsafe.Pointer) error {
	e := unix.EINTR
	for e == unix.EINTR {
		if err := b.conn.Control(func(fd uintptr) { _, _, e = unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(arg)) }); err != nil {
			return err
		}
	}
	if e != 0 {
		return e
	}
	return nil
}

// Accept implements [net.Listener]. It answers all other attempts to connect meanwhile, so it
// must be called until it fails. It fails when the last process of the command has ended, or
// when the bridge is closed: after that the command has no way out.
func (b *bridge) Accept() (net.Conn, error) {
	for {
		n, err := b.next()
		if err != nil {
			return nil, err
		}
		if n == nil {
			continue
		}
		address, err := n.address()
		if err == nil && destination(address) == proxyAddress() {
			if conn, err := b.connect(n); err == nil {
				return conn, nil
			}
			continue
		}
		if err == nil {
			err = b.within(n, address)
		}
		e, ok := err.(unix.Errno)
		if !ok && err != nil {
			e = unix.ENETUNREACH
		}
		b.answer(&response{id: n.id, err: -int32(e)})
	}
}

// next waits for the next attempt. There may be none any more when it is looked at.
func (b *bridge) next() (*notification, error) {
	var n *notification
	var failed error
	err := b.conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(fds, 0); err != unix.EINTR {
				break
			}
		}
		switch {
		case fds[0].Revents&unix.POLLIN != 0:
			var got notification
			_, _, e := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&got)))
			if e == 0 {
				n = &got
			} else if e != unix.ENOENT && e != unix.EINTR {
				failed = e
			}
			return true
		case fds[0].Revents != 0:
			failed = io.EOF
			return true
		}
		return false
	})
	if err != nil {
		return nil, net.ErrClosed
	}
	return n, failed
}

func (b *bridge) answer(r *response) {
	_ = b.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r)) // the process may have ended
}

// address reads the address that a command gave, once: the kernel never uses that of the command,
// which could change.
func (n *notification) address() ([]byte, error) {
	raw := make([]byte, min(n.args[2], unix.SizeofSockaddrInet6))
	if len(raw) < 8 {
		return nil, unix.EINVAL
	}
	to := []unix.Iovec{{Base: &raw[0]}}
	to[0].SetLen(len(raw))
	from := []unix.RemoteIovec{{Base: uintptr(n.args[1]), Len: len(raw)}}
	got, err := unix.ProcessVMReadv(int(n.pid), to, from, 0)
	if err == nil && got < len(raw) {
		err = unix.EFAULT
	}
	return raw, err
}

// destination parses an address. It is the zero value for what is none of IPv4 and IPv6.
func destination(raw []byte) netip.AddrPort {
	port := binary.BigEndian.Uint16(raw[2:])
	switch family := binary.NativeEndian.Uint16(raw); {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[4:])), port)
	case family == unix.AF_INET6 && len(raw) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[8:])).Unmap(), port)
	}
	return netip.AddrPort{}
}

// within connects a socket that belongs to a network of the sandbox, which leads nowhere, so that
// a command may have servers there. It is done here, to a copy of the descriptor, for two reasons.
// The kernel must not use an address, or a descriptor, that a thread of the command exchanges. And
// the connection to the proxy is one of the network of this program, also in the command's hands,
// so it must not be taken back and made anew, which is what the family AF_UNSPEC does.
func (b *bridge) within(n *notification, address []byte) error {
	if binary.NativeEndian.Uint16(address) == unix.AF_UNIX {
		return unix.EACCES // here, the path would lead elsewhere
	}
	fd, err := n.socket()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if own, err := ownNetwork(); err != nil || inNetwork(fd, own) {
		return unix.ENETUNREACH
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags&unix.O_NONBLOCK == 0 {
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
		defer func() { _ = unix.SetNonblock(fd, false) }()
	}
	_, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)))
	switch {
	case e == 0:
		return nil
	case e != unix.EINPROGRESS || flags&unix.O_NONBLOCK != 0:
		return e
	}
	// A server in the same machine answers at once, or is too busy.
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 50); n == 0 || err != nil {
		return unix.ETIMEDOUT
	}
	if code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
		return unix.Errno(code)
	}
	return nil
}

// socket returns a copy of the descriptor that a command wants to connect.
func (n *notification) socket() (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.pid))
	if err != nil {
		return -1, err
	}
	leader, err := field(status, "Tgid:", 10)
	if err != nil {
		return -1, err
	}
	process, err := unix.PidfdOpen(leader, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(process)
	return unix.PidfdGetfd(process, int(int32(n.args[0])), 0)
}

// ownNetwork returns what tells the network of this program from others.
func ownNetwork() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
}

// inNetwork reports whether a socket is, or may be, in a network.
func inNetwork(fd int, network uint64) bool {
	its, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return err != nil || its == network
}

// connect puts a connection in the place of the socket that a command wants to connect, and
// returns the other end. It has answered in any case.
func (b *bridge) connect(n *notification) (net.Conn, error) {
	refuse := func(err error) (net.Conn, error) {
		b.answer(&response{id: n.id, err: -int32(unix.ECONNREFUSED)})
		return nil, err
	}
	flags, err := n.openFlags()
	if err != nil {
		return refuse(err)
	}
	its, ours, err := tcpPair()
	if err != nil {
		return refuse(err)
	}
	defer its.Close() // the command has a copy
	fd := int(its.Fd())
	if err = unix.SetNonblock(fd, flags&unix.O_NONBLOCK != 0); err == nil {
		add := &descriptor{id: n.id, flags: unix.SECCOMP_ADDFD_FLAG_SETFD, from: uint32(fd),
			to: uint32(n.args[0]), newFlags: uint32(flags & unix.O_CLOEXEC)}
		err = b.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(add))
	}
	if err != nil {
		ours.Close()
		return refuse(err)
	}
	b.answer(&response{id: n.id})
	return ours, nil
}

// openFlags returns the flags of the socket that a command wants to connect.
func (n *notification) openFlags() (int, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", n.pid, int32(n.args[0])))
	if err != nil {
		return 0, err
	}
	return field(info, "flags:", 8)
}

// field returns a number of a file of /proc.
func field(file []byte, name string, base int) (int, error) {
	for line := range bytes.Lines(file) {
		if value, ok := strings.CutPrefix(string(line), name); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), base, 64)
			return int(n), err
		}
	}
	return 0, io.ErrUnexpectedEOF
}

// tcpPair returns the two ends of a TCP connection of this machine. Programs set options of TCP
// that a pair of UNIX sockets does not have.
func tcpPair() (its *os.File, ours net.Conn, err error) {
	// A closed connection keeps its ports for a minute, so a command that makes many must not take
	// those of the usual address.
	var r [2]byte
	_, _ = rand.Read(r[:]) // never fails
	ip := net.IPv4(127, 83, r[0], r[1])
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: ip})
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	dialled, err := net.DialTCP("tcp4", &net.TCPAddr{IP: ip}, l.Addr().(*net.TCPAddr))
	if err != nil {
		return nil, nil, err
	}
	defer dialled.Close() // File returns a copy
	for {
		ours, err = l.Accept()
		if err != nil {
			return nil, nil, err
		}
		if ours.RemoteAddr().String() == dialled.LocalAddr().String() {
			break
		}
		ours.Close() // somebody else was faster
	}
	its, err = dialled.File()
	if err != nil {
		ours.Close()
	}
	return its, ours, err
}

// Close implements [net.Listener]. Attempts to connect fail from then on.
func (b *bridge) Close() error { return b.notify.Close() }

// Addr implements [net.Listener].
func (b *bridge) Addr() net.Addr { return net.TCPAddrFromAddrPort(proxyAddress()) }
