package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// tryEffects runs the probe, and compares what happened with a column of the table.
func tryEffects(t *testing.T, uid int, open func(Policy) *Box, want func(effect) bool) {
	t.Helper()
	p := newPlace(t, uid)
	exe := copyOf(t)
	cmd := p.probeCommand(exe)
	if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if open == nil {
		require.NoError(t, cmd.Start())
	} else {
		policy := p.policy(t)
		policy.Read = append(policy.Read, exe)
		b := open(policy)
		defer func() { require.NoError(t, b.Close()) }()
		r, err := b.Start(t.Context(), cmd, Call{})
		require.NoError(t, err)
		assert.Empty(t, r.Missing)
	}
	require.NoError(t, cmd.Wait(), out.String())
	got := results(t, out.String())
	for _, e := range effects {
		result := got[e.name]
		assert.Equal(t, want(e), strings.HasPrefix(result, "true"), "%s: %s", e.name, result)
	}
	t.Logf("%d effects", len(effects))
}

func TestEffectsPlain(t *testing.T) {
	timed.Serial(t)
	tryEffects(t, os.Getuid(), nil, func(e effect) bool { return e.plain })
}

// needLandlock skips a test if the kernel cannot enforce the whole table.
func needLandlock(t testing.TB) {
	t.Helper()
	if version, err := abi(); err != nil || version < 6 {
		t.Skipf("this kernel's Landlock has version %d, 6 is needed: %v", version, err)
	}
	if !filtered {
		t.Skip("system calls are not filtered on this kind of machine")
	}
}

func TestEffectsLandlock(t *testing.T) {
	timed.Serial(t)
	needLandlock(t)
	tryEffects(t, os.Getuid(), Landlock, func(e effect) bool { return e.landlock })
}

func TestEffectsBubblewrap(t *testing.T) {
	timed.Serial(t)
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bwrap is not on this machine")
	}
	if !filtered {
		t.Skip("system calls are not filtered on this kind of machine")
	}
	tryEffects(t, os.Getuid(), Bubblewrap, func(e effect) bool { return e.bwrap })
}

func TestEffectsOfAnotherUser(t *testing.T) {
	needLandlock(t)
	if os.Getuid() != 0 {
		t.Skip("only root can start commands as another user")
	}
	tryEffects(t, 65534, Landlock, func(e effect) bool { return e.landlock })
}

// The whole host as a user without any rights, if the test has them.
func TestEffectsUnprivileged(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "all effects again as another user")
	if os.Getuid() != 0 {
		t.Skip("the other tests run without privileges already")
	}
	cmd := exec.Command(copyOf(t), "-test.run=^TestEffects|^TestMany", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestEffectsPlain")
	t.Logf("%s", out)
}
