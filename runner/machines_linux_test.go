package runner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// machineURL makes the test binary the program of a machine that serves its current directory.
const machineURL = "AYCODER_TEST_RUNNER_URL"

func TestMain(m *testing.M) {
	url, ok := os.LookupEnv(machineURL)
	if !ok {
		os.Exit(m.Run())
	}
	os.Unsetenv(machineURL)
	dir, err := os.Getwd()
	var ws *workspace.Workspace
	if err == nil {
		ws, err = workspace.Open(dir)
	}
	var e tools.Exec
	if err == nil {
		e, err = tools.LocalExec()
	}
	if err == nil {
		err = Serve(context.Background(), url, testToken, ws, e, WithPlainHTTP(true))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A machine has its own network, process and directory, which it sees as /mnt.
type machine struct {
	t    *testing.T
	name string
	link string
	dir  string
	host string // how it reaches the server
	cmd  *exec.Cmd
	said bytes.Buffer
}

func sh(t *testing.T, line string) {
	t.Helper()
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
}

func newMachine(t *testing.T, n int) *machine {
	m := &machine{t: t, name: fmt.Sprintf("aycoder-%d-%d", os.Getpid(), n), link: fmt.Sprintf("ay%d", n), dir: t.TempDir(), host: fmt.Sprintf("10.213.%d.1", n)}
	sh(t, "ip netns add "+m.name)
	t.Cleanup(func() { sh(t, "ip netns del "+m.name) })
	sh(t, fmt.Sprintf("ip link add %s type veth peer name eth0 netns %s && ip addr add %s/24 dev %[1]s && ip link set %[1]s up", m.link, m.name, m.host))
	sh(t, fmt.Sprintf("ip -n %s addr add 10.213.%d.2/24 dev eth0 && ip -n %[1]s link set eth0 up", m.name, n))
	return m
}

func (m *machine) start(port int) {
	self, err := os.Executable()
	require.NoError(m.t, err)
	m.cmd = exec.Command("ip", "netns", "exec", m.name, "sh", "-c", `mount --bind "$1" /mnt && cd /mnt && exec "$2"`, "sh", m.dir, self)
	m.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=http://%s:%d/", machineURL, m.host, port))
	m.cmd.Stderr = &m.said
	require.NoError(m.t, m.cmd.Start())
	m.t.Cleanup(func() { _ = m.cmd.Process.Kill(); _ = m.cmd.Wait() })
}

func (m *machine) file(name string) string {
	data, _ := os.ReadFile(filepath.Join(m.dir, name))
	return string(data)
}

// Two machines, which share neither network nor directory, have the same name one after the other. The first loses its network while a command
// writes: nothing says that the connection has ended. The session goes on at the second one, as soon as the first
// can do no more. When the first comes back, it is refused, and has changed nothing since.
// AYCODER_RUNNER_MACHINES makes it run: it takes root, and about three minutes.
func TestTwoMachines(t *testing.T) {
	if os.Getenv("AYCODER_RUNNER_MACHINES") == "" {
		t.Skip("left out: set AYCODER_RUNNER_MACHINES, as root; it takes about three minutes")
	}
	authorize, err := Tokens(map[string]string{"laptop": testToken})
	require.NoError(t, err)
	h, err := NewHub(authorize, WithWait(5*time.Minute))
	require.NoError(t, err)
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	s := &http.Server{Handler: h}
	var work sync.WaitGroup
	work.Go(func() { _ = s.Serve(l) })
	defer func() { _ = h.Close(); _ = s.Close(); work.Wait() }()
	port := l.Addr().(*net.TCPAddr).Port

	first, second := newMachine(t, 1), newMachine(t, 2)
	write(t, first.dir, "f", "one\n")
	write(t, second.dir, "f", "one\n")
	first.start(port)
	env, err := h.Environment(t.Context(), "laptop")
	require.NoError(t, err)
	require.Equal(t, "/mnt", env.Dir())
	var once sync.Once
	cmd := &tools.ExecCommand{Script: "while :; do date +%s >>log; echo x; sleep 1; done", Root: "/mnt", Dir: "/mnt", Env: env.Environ(),
		Output: writeFunc(func() {
			once.Do(func() { sh(t, "ip link set "+first.link+" down"); t.Logf("cut at %s", clock(t)) })
		})}
	_, err = env.Run(t.Context(), cmd)
	require.Equal(t, workspace.KindInterrupted, fileKind(err), "%v", err)
	t.Logf("noticed at %s", clock(t))
	second.start(port)
	plan, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Change, Base: "one\n", Proposed: "two\n"})
	require.NoError(t, err)
	_, err = env.Apply(t.Context(), plan, workspace.WithApproved(plan.Digest()))
	require.NoError(t, err)
	require.Equal(t, []string{"one\n", "two\n"}, []string{first.file("f"), second.file("f")})
	t.Logf("moved at %s", clock(t))
	lines := first.file("log")
	last := lines[strings.LastIndex(strings.TrimSpace(lines), "\n")+1:]
	sh(t, "ip link set "+first.link+" up")
	_ = first.cmd.Wait()
	require.Contains(t, first.said.String(), string(KindFenced))
	require.Equal(t, lines, first.file("log"), "the command of the first machine wrote after the second had the name")
	require.Equal(t, "one\n", first.file("f"))
	f, err := env.Open("f")
	require.NoError(t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "two\n", string(data))
	t.Logf("the last write of the first machine was at %s, and the second went on before %s", strings.TrimSpace(last), clock(t))
}

// clock returns the seconds of the machines, which wrote them.
func clock(t *testing.T) string {
	out, err := exec.Command("date", "+%s").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
