//go:build linux && (amd64 || arm64)

package egress_test

import (
	"bufio"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestMain is also the program that tries to get out: egress.test NAME ARGUMENTS, with the
// variable below.
func TestMain(m *testing.M) {
	if os.Getenv("EGRESS_TEST_PROBE") == "" {
		os.Exit(m.Run())
	}
	try := probes[os.Args[1]]
	if try == nil {
		fmt.Println("no such probe:", os.Args[1])
		os.Exit(2)
	}
	if err := try(os.Args[2:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// ioTime ends a probe that waits for somebody who does not answer. It bounds failures only.
const ioTime = 10 * time.Second

// payload is what the probes send.
const payload = "canary"

// probes are what programs may do on their own, without any library that obeys variables. The
// last argument of most is an address.
var probes = map[string]func(args []string) error{
	"dial": func(a []string) error { return send(net.Dial(a[0], a[1])) },
	"nonblocking": func(a []string) error {
		return connected(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0, a[0])
	},
	"mptcp":   func(a []string) error { return connected(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, a[0]) },
	"sctp":    func(a []string) error { return connected(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP, a[0]) },
	"udplite": func(a []string) error { return connected(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, a[0]) },
	"mapped":  func(a []string) error { return connected(unix.AF_INET6, unix.SOCK_STREAM, 0, a[0]) },
	"high bits": func(a []string) error { // the kernel looks at the lower half of a family
		return connected(1<<32|unix.AF_INET, unix.SOCK_STREAM, 0, a[0])
	},
	"sendto":   func(a []string) error { return sendto(unix.SOCK_DGRAM, 0, a[0]) },
	"fastopen": func(a []string) error { return sendto(unix.SOCK_STREAM, unix.MSG_FASTOPEN, a[0]) },
	"sendmsg fastopen": func(a []string) error {
		return socket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
			return unix.Sendmsg(fd, []byte(payload), nil, sockaddr(a[0]), unix.MSG_FASTOPEN)
		})
	},
	"sendmmsg": func(a []string) error { return sendmmsg(unix.SOCK_DGRAM, 0, a[0]) },
	"sendmmsg fastopen": func(a []string) error {
		return sendmmsg(unix.SOCK_STREAM, unix.MSG_FASTOPEN, a[0])
	},
	"fastopen connect": func(a []string) error {
		return socket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1)
			if err := unix.Connect(fd, sockaddr(a[0])); err != nil {
				return err
			}
			_, err := unix.Write(fd, []byte(payload))
			return err
		})
	},
	"race":      race,
	"raw":       rawUDP,
	"packet":    packet,
	"pair":      pairTo,
	"listen":    listen,
	"autobind":  autobind,
	"namespace": namespace,
	"steal":     steal,
	"pipe":      func(a []string) error { return write("/proc/" + a[0] + "/fd/" + a[1]) },
	"memory":    memory,
	"trace":     trace,
	"uring":     uring,
	"vsock":     func([]string) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0, nothing) },
	"uevents": func([]string) error {
		return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT, nothing)
	},
	"proxy":      throughProxy,
	"tls":        throughTLS,
	"ech":        ech,
	"descriptor": inherited,
	"reconnect":  reconnect,
}

func nothing(int) error { return nil }

func send(conn net.Conn, err error) error {
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(ioTime))
	_, err = io.WriteString(conn, payload)
	return err
}

func write(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(payload)
	return err
}

func sockaddr(s string) unix.Sockaddr {
	a := netip.MustParseAddrPort(s)
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func socket(family, kind, proto uint64, do func(fd int) error) error {
	fd, _, e := unix.Syscall(unix.SYS_SOCKET, uintptr(family), uintptr(kind), uintptr(proto))
	if e != 0 {
		return fmt.Errorf("socket: %w", e)
	}
	defer unix.Close(int(fd))
	return do(int(fd))
}

func connected(family, kind, proto uint64, to string) error {
	return socket(family, kind, proto, func(fd int) error {
		err := unix.Connect(fd, sockaddr(to))
		if err != nil && err != unix.EINPROGRESS {
			return fmt.Errorf("connect: %w", err)
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(ioTime.Milliseconds()))
		_, err = unix.Write(fd, []byte(payload))
		return err
	})
}

func sendto(kind uint64, flags int, to string) error {
	return socket(unix.AF_INET, kind, 0, func(fd int) error {
		return unix.Sendto(fd, []byte(payload), flags, sockaddr(to))
	})
}

// sendmmsg sends a list of one message.
func sendmmsg(kind uint64, flags uintptr, to string) error {
	return socket(unix.AF_INET, kind, 0, func(fd int) error {
		a := netip.MustParseAddrPort(to)
		addr := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: a.Addr().As4()}
		binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&addr.Port))[:], a.Port())
		data := []byte(payload)
		v := unix.Iovec{Base: &data[0], Len: uint64(len(data))}
		m := struct {
			unix.Msghdr
			n, _ uint32
		}{Msghdr: unix.Msghdr{Name: (*byte)(unsafe.Pointer(&addr)), Namelen: unix.SizeofSockaddrInet4, Iov: &v, Iovlen: 1}}
		_, _, e := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), 1, flags, 0, 0)
		runtime.KeepAlive(&v)
		if e != 0 {
			return e
		}
		return nil
	})
}

// reconnect connects to a place, takes that back, and connects the same socket to another place,
// or has it listen.
func reconnect(args []string) error {
	return socket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
		if err := unix.Connect(fd, sockaddr(args[0])); err != nil {
			return err
		}
		none := make([]byte, 16) // AF_UNSPEC
		if _, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none[0])), 16); e != 0 {
			fmt.Println("disconnect:", e)
		}
		switch args[1] {
		case "connect":
			if err := unix.Connect(fd, sockaddr(args[2])); err != nil {
				return err
			}
			_, err := unix.Write(fd, []byte(payload))
			return err
		case "send":
			return unix.Sendto(fd, []byte(payload), unix.MSG_FASTOPEN, sockaddr(args[2]))
		}
		if err := unix.Listen(fd, 1); err != nil {
			return err
		}
		l, err := net.FileListener(os.NewFile(uintptr(fd), "listener"))
		if err != nil {
			return err
		}
		return tell(l)
	})
}

// race connects while another thread changes the address between that of the proxy and the
// forbidden one, so that one is checked and the other is used.
func race(args []string) error {
	proxy, other := netip.MustParseAddrPort(args[0]), netip.MustParseAddrPort(args[1])
	raw := make([]byte, unix.SizeofSockaddrInet4)
	binary.NativeEndian.PutUint16(raw, unix.AF_INET)
	copy(raw[4:], []byte{127, 0, 0, 1})
	port := (*uint32)(unsafe.Pointer(&raw[0]))
	word := func(p uint16) uint32 {
		var b [4]byte
		binary.NativeEndian.PutUint16(b[:], unix.AF_INET)
		binary.BigEndian.PutUint16(b[2:], p)
		return binary.NativeEndian.Uint32(b[:])
	}
	var over atomic.Bool
	defer over.Store(true)
	go func() {
		for !over.Load() {
			atomic.StoreUint32(port, word(proxy.Port()))
			atomic.StoreUint32(port, word(other.Port()))
		}
	}()
	for range 300 {
		_ = socket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
			_, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&raw[0])), uintptr(len(raw)))
			if e != 0 {
				return e
			}
			_, err := unix.Write(fd, []byte(payload))
			return err
		})
	}
	return nil
}

// rawUDP sends a datagram by a raw socket.
func rawUDP(args []string) error {
	a := netip.MustParseAddrPort(args[0])
	return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP, func(fd int) error {
		return unix.Sendto(fd, datagram(a.Port()), 0, &unix.SockaddrInet4{Addr: a.Addr().As4()})
	})
}

// datagram is the header of UDP (RFC 768), without a checksum, and the payload.
func datagram(port uint16) []byte {
	b := binary.BigEndian.AppendUint16(nil, 40000)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	return append(append(b, 0, 0), payload...)
}

// packet sends a frame of Ethernet on the loopback interface.
func packet(args []string) error {
	a := netip.MustParseAddrPort(args[0])
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	udp := datagram(a.Port())
	ip := []byte{0x45, 0, 0, byte(20 + len(udp)), 0, 1, 0, 0, 64, unix.IPPROTO_UDP, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1}
	var sum uint32
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
	const all = 8 // ETH_P_IP, in the order of the network
	return socket(unix.AF_PACKET, unix.SOCK_DGRAM, all, func(fd int) error {
		return unix.Sendto(fd, append(ip, udp...), 0, &unix.SockaddrLinklayer{Protocol: all, Ifindex: lo.Index, Halen: 6})
	})
}

// pairTo sends from one of a pair of sockets to another address.
func pairTo(args []string) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fds[0], []byte(payload), 0, &unix.SockaddrUnix{Name: args[0]})
}

// listen waits for a connection from outside, to which it tells the payload.
func listen(args []string) error {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	return tell(l)
}

// tell prints where it listens.
func tell(l net.Listener) error {
	fmt.Println("listening", l.Addr().(*net.TCPAddr).Port)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until whoever should connect has given up
		l.Close()
	}()
	return send(l.Accept())
}

// autobind listens with a socket that has no address, which gives it one.
func autobind([]string) error {
	return socket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
		if err := unix.Listen(fd, 1); err != nil {
			return err
		}
		fd, err := unix.Dup(fd)
		if err != nil {
			return err
		}
		l, err := net.FileListener(os.NewFile(uintptr(fd), "listener"))
		if err != nil {
			return err
		}
		return tell(l)
	})
}

// namespace enters the network of another process, and connects from there.
func namespace(args []string) error {
	runtime.LockOSThread()
	f, err := os.Open("/proc/" + args[0] + "/ns/net")
	if err != nil {
		return err
	}
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	return connected(unix.AF_INET, unix.SOCK_STREAM, 0, args[1])
}

// steal takes a connected socket from another process.
func steal(args []string) error {
	pid, fd := number(args[0]), number(args[1])
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	got, err := unix.PidfdGetfd(p, fd, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(got, []byte(payload))
	return err
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func memory(args []string) error {
	f, err := os.OpenFile("/proc/"+args[0]+"/mem", os.O_RDWR, 0)
	if err == nil {
		f.Close()
	}
	return err
}

func trace(args []string) error {
	runtime.LockOSThread()
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(number(args[0])), 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func uring([]string) error {
	var params [120]byte
	fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if e != 0 {
		return e
	}
	return unix.Close(int(fd))
}

// inherited writes to every descriptor that the program was given beside its output.
func inherited([]string) error {
	var open []string
	for fd := 3; fd < 256; fd++ {
		if kind, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && strings.HasPrefix(kind, "socket:") {
			open = append(open, kind)
			_, _ = unix.Write(fd, []byte(payload))
		}
	}
	if open == nil {
		return errors.New("there is none")
	}
	return nil
}

// dialProxy connects to the proxy that the variables name.
func dialProxy() (net.Conn, error) {
	u, err := url.Parse(os.Getenv("HTTP_PROXY"))
	if err != nil || u.Host == "" {
		return nil, errors.New("there is no proxy")
	}
	conn, err := net.Dial("tcp", u.Host)
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(ioTime))
	}
	return conn, err
}

// throughProxy writes texts to the proxy as they are, and prints what comes back. It waits for an
// answer after each.
func throughProxy(args []string) error {
	conn, err := dialProxy()
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for _, text := range args {
		if _, err := io.WriteString(conn, text); err != nil {
			return err
		}
		if !strings.Contains(text, " HTTP/1.1\r\n") {
			line, err := r.ReadString('\n')
			fmt.Println(line)
			if err != nil {
				return err
			}
			continue
		}
		method, _, _ := strings.Cut(text, " ")
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return err
		}
		fmt.Println(resp.Status)
		if method == http.MethodConnect && resp.StatusCode != http.StatusOK {
			return errors.New("not connected")
		}
		if method != http.MethodConnect {
			_, _ = io.Copy(os.Stdout, resp.Body)
		}
	}
	return nil
}

// throughTLS connects by CONNECT to a place, names a server in the handshake, sends a text, and
// prints what comes back.
func throughTLS(args []string) error {
	conn, err := tunnel(args[0])
	if err != nil {
		return err
	}
	return handshake(conn, &tls.Config{ServerName: args[1], InsecureSkipVerify: true}, args[2])
}

func handshake(conn net.Conn, config *tls.Config, text string) error {
	defer conn.Close()
	client := tls.Client(conn, config)
	if err := client.Handshake(); err != nil {
		return err
	}
	if _, err := io.WriteString(client, text); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	n, err := client.Read(buf)
	fmt.Printf("%s\n", buf[:n])
	return err
}

func tunnel(to string) (net.Conn, error) {
	conn, err := dialProxy()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err == nil && !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 200 ") {
		err = errors.New(string(buf[:n]))
	}
	return conn, err
}

// ech names the allowed server in the open, and another one in the encrypted part.
func ech(args []string) error {
	list, err := hex.DecodeString(args[1])
	if err != nil {
		return err
	}
	conn, err := tunnel(args[0])
	if err != nil {
		return err
	}
	return handshake(conn, &tls.Config{ServerName: "evil.test", MinVersion: tls.VersionTLS13,
		EncryptedClientHelloConfigList: list, InsecureSkipVerify: true}, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
}

// echConfig makes a configuration for a server that is named in the open, with
// DHKEM(X25519), HKDF-SHA256 and AES-128-GCM (RFC 9849, section 4).
func echConfig(name string) (config []byte, private []byte, err error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	public := key.PublicKey().Bytes()
	c := append([]byte{7, 0, 0x20, 0, byte(len(public))}, public...)
	c = append(c, 0, 4, 0, 1, 0, 1, 0, byte(len(name)))
	c = append(append(c, name...), 0, 0)
	return append([]byte{0xfe, 0x0d, 0, byte(len(c))}, c...), key.Bytes(), nil
}
