package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/postgres"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/contrib/worker"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
)

// place returns the place of a machine, or nil.
func (h helper) place() (*worker.Place, error) {
	if h.Dir == "" {
		return nil, nil
	}
	return worker.NewPlace(h.Dir)
}

// open opens a session in its workspace. The model makes some files, and then writes one whose second half comes when h.Go exists.
// Whatever happens meanwhile, it tries to write to the session then.
func (h helper) open(ctx context.Context, place *worker.Place, store *postgres.Store, id string) (*temporal.Agent, error) {
	var rt *harness.Runtime
	file := filepath.Join(h.Dir, id, "half.txt")
	half, err := aycoder.NewTool("half", "Writes a file in two halves", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		if err := os.WriteFile(file, []byte("first "), 0o600); err != nil {
			return nil, err
		}
		fmt.Println("has written half")
		for missing := fs.ErrNotExist; errors.Is(missing, fs.ErrNotExist); _, missing = os.Stat(h.Go) {
			<-time.After(20 * time.Millisecond)
		}
		err := os.WriteFile(file, []byte("first and late second"), 0o600)
		go func() {
			err := errors.Join(err, rt.Session.SetValues(context.WithoutCancel(ctx), map[string]json.RawMessage{"late": []byte("1")}))
			fmt.Println("has written late:", strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
		}()
		return aycoder.TextResult("late result"), err
	}, aycoder.WithEffect(aycoder.EffectWrite))
	if err != nil {
		return nil, err
	}
	model := modelFunc(func(req *aycoder.Request) script.Step {
		switch out := script.LastOutput(req); {
		case strings.HasPrefix(script.LastText(req), "work"):
			return script.Reply(script.Call("write_file", map[string]any{"path": "a/run.sh", "content": "echo run\n"}).WithID("m1"),
				script.Call("bash", map[string]any{"command": "chmod 750 a/run.sh; ln -s a/run.sh link; echo notes >notes.txt; truncate -s 70M big.bin"}).WithID("m2"))
		case out != nil && out.ID == "m2":
			return script.Call("half", nil).WithID("m3")
		}
		return script.Say("gone on")
	})
	all := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	rt, err = place.Open(ctx, store, id, func(dir string) (*harness.Runtime, error) {
		return harness.New(ctx, dir, harness.WithClient(model), harness.WithStore(store, id), harness.WithTools(half), harness.WithApprover(all))
	})
	if err != nil {
		return nil, err
	}
	return &temporal.Agent{Session: rt.Session, Agent: rt.Agent, Close: rt.Close}, nil
}

// network makes two network namespaces, whose machines reach this one at an address, and no other. cut ends and begins the
// connection of the first.
func network(t *testing.T) (address string, in [][]string, cut func(cut bool)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	n := os.Getpid() % 200
	subnet := fmt.Sprintf("198.18.%d.", n) // of the range for measurements
	bridge := fmt.Sprintf("aybr%d", n)
	first := true
	ip := func(line string, args ...any) {
		t.Helper()
		out, err := exec.Command("ip", strings.Fields(fmt.Sprintf(line, args...))...).CombinedOutput()
		if err != nil && first {
			t.Skipf("network namespaces cannot be made: %v: %s", err, out)
		}
		if first = false; err != nil {
			t.Fatalf("ip "+line+": %v: %s", append(args, err, out)...)
		}
	}
	ip("link add %s type bridge", bridge)
	t.Cleanup(func() { ip("link del %s", bridge) })
	ip("addr add %s1/24 dev %s", subnet, bridge)
	ip("link set %s up", bridge)
	for i := range 2 {
		space := fmt.Sprintf("ay%d-%d", n, i)
		ip("netns add %s", space)
		t.Cleanup(func() { ip("netns del %s", space) })
		ip("link add %sv%d type veth peer name eth0 netns %s", bridge, i, space)
		ip("link set %sv%d master %s up", bridge, i, bridge)
		ip("-n %s addr add %s%d/24 dev eth0", space, subnet, 10+i)
		ip("-n %s link set eth0 up", space)
		ip("-n %s link set lo up", space)
		in = append(in, []string{"ip", "netns", "exec", space})
	}
	return subnet + "1", in, func(cut bool) {
		ip("link set %sv0 %s", bridge, map[bool]string{true: "down", false: "up"}[cut])
	}
}

// forward passes on connections to a port of an address, and returns the port.
func forward(t *testing.T, address, network, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", address+":0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			conn, err := net.Dial(network, to)
			if err != nil {
				from.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // whoever it was, both are told
				to.Close()
				from.Close()
			}
			go pass(conn, from)
			go pass(from, conn)
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}

// tree describes the files of a workspace.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		must(t, err)
		if e.Type() == fs.ModeSymlink {
			to, err := os.Readlink(filepath.Join(dir, name))
			must(t, err)
			fmt.Fprintf(&b, "%s -> %s\n", name, to)
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		fmt.Fprintf(&b, "%s %o %q\n", name, info.Mode().Perm(), text)
		return nil
	}))
	return b.String()
}

// Two machines have nothing in common but the addresses of PostgreSQL and of the Temporal server. The first one is cut off, or
// killed, in the middle of a write. The other one lays out the workspace and goes on. The first one is refused when it comes back and
// writes, and has the files of the other one when the session comes back to it.
func TestMachines(t *testing.T) {
	if os.Getenv("AYCODER_MACHINES") == "" {
		t.Skip("AYCODER_MACHINES is not set")
	}
	for _, how := range []string{"cut off", "killed"} {
		t.Run(how, func(t *testing.T) { testMachines(t, how == "killed") })
	}
}

func testMachines(t *testing.T, kill bool) {
	address, in, cut := network(t)
	h, w, store := startServers(t, helper{Queue: "machines"})
	socket := strings.TrimPrefix(strings.Fields(h.Database)[0], "host=")
	h.Database = fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres", address, forward(t, address, "unix", filepath.Join(socket, ".s.PGSQL.5432")))
	h.Temporal = address + ":" + forward(t, address, "tcp", h.Temporal)
	var machines []helper
	for range 2 {
		m := h
		m.Dir = t.TempDir()
		m.Go = filepath.Join(m.Dir, "go")
		machines = append(machines, m)
	}
	first := machines[0].start(t, in[0]...)
	path := w.prompt("work", "")
	id := strings.TrimPrefix(path, "/api/sessions/")
	first.says(t, "has written half")
	if kill {
		must(t, first.Process.Kill())
		_ = first.Wait()
	} else {
		cut(true)
	}
	begin := time.Now()
	second := machines[1].start(t, in[1]...)
	ended := func(n int) (list []string) {
		var s shown
		for ev := range w.events(path) {
			if s.add(ev); s.ends == n {
				break
			}
		}
		return s.events
	}
	want := []string{"starts m1", "ends m1 false", "starts m2", "ends m2 false", "starts m3", "ends m3 true", "over done", "gone on"}
	if got := ended(1); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("shown:\n%q\nwant\n%q", got, want)
	}
	t.Logf("the other machine has ended the run after %v", time.Since(begin).Round(time.Second/10))
	// A file as large as big.bin is in no snapshot.
	const files = "a/run.sh 750 \"echo run\\n\"\nlink -> a/run.sh\nnotes.txt 644 \"notes\\n\"\n"
	if got := tree(t, filepath.Join(machines[1].Dir, id)); got != files {
		t.Errorf("the other machine has:\n%s", got)
	}
	records := func() string {
		j, err := store.Open(t.Context(), id, false)
		must(t, err)
		defer j.Close()
		var b strings.Builder
		for r, err := range j.Records(t.Context()) {
			must(t, err)
			b.Write(r)
		}
		return b.String()
	}
	before := records()
	for _, part := range []string{"big.bin: its content is not held: it is larger than", "outcome is unknown", "gone on"} {
		if !strings.Contains(before, part) {
			t.Errorf("the session has no %q:\n%s", part, before)
		}
	}

	must(t, os.WriteFile(machines[0].Go, nil, 0o600))
	if kill {
		first = machines[0].start(t, in[0]...)
	} else {
		cut(false)
		late := first.says(t, "has written late: ")
		t.Logf("the first machine: %s", late)
		if late == "<nil>" {
			t.Error("the first machine has written to the session")
		}
	}
	if after := records(); strings.Contains(after, "late result") || strings.Contains(after, `"late"`) {
		t.Errorf("after the return of the first machine:\n%s", after)
	}
	second.drain(t)
	w.prompt("go", id)
	if got := ended(2); fmt.Sprint(got[len(got)-2:]) != "[over done gone on]" {
		t.Errorf("shown on the first machine: %q", got)
	}
	if got := tree(t, filepath.Join(machines[0].Dir, id)); got != files {
		t.Errorf("the first machine has:\n%s", got)
	}
	first.drain(t)
	old, err := filepath.Glob(filepath.Join(machines[0].Dir, id+".left-*", "half.txt"))
	must(t, err)
	if len(old) != 1 {
		t.Errorf("the old file is in %q", old)
	}
}
