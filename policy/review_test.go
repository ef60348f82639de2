package policy_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
)

// A tool that does not say what it does may run what it is given the path of.
func TestToolOfUnknownEffectIsNoEdit(t *testing.T) {
	spec := aycoder.ToolSpec{Name: "run_tests", Subject: aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath}}
	p := newPolicy(t, policy.WithMode(policy.AcceptEdits))
	got, v := ask(t, p, &spec, "a.sh")
	require.Equal(t, "ask", got)
	require.Equal(t, "needs_approval", v.Grounds().Class)
	p = newPolicy(t, policy.WithMode(policy.AcceptEdits), policy.WithEditTools("run_tests"))
	got, _ = ask(t, p, &spec, "a.sh")
	require.Equal(t, "allow", got)
	got, _ = ask(t, p, &spec, "../a.sh")
	require.Equal(t, "ask", got)
}

func TestLineOfALongRunIsBounded(t *testing.T) {
	var out bytes.Buffer
	rec := &aycoder.AuditRecord{Run: strings.Repeat("r", 40<<10), Class: strings.Repeat("\x01", 40<<10)}
	require.NoError(t, policy.NewAuditLog(&out).Audit(t.Context(), rec))
	require.LessOrEqual(t, out.Len(), 16<<10)
}
