package cli

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A run that needed an approval, and nobody could be asked, asks in a terminal.
func TestSuspendedRunAsksAgain(t *testing.T) {
	t.Parallel()
	k := newKept(t, newService(t, calls("bash", `{"command":"touch done"}`), says("Ran.", "end_turn")))
	k.run(exitApproval, "-p", "touch it")
	p := startTerminal(t, k.env(), "-C", k.dir, "-c")
	p.expect("Going on with session " + k.ids()[0])
	p.expect("Run it?")
	p.answers("y")
	p.expect("Ran.")
	p.expect("> ")
	p.Type("/clear\r")
	p.expect("A new conversation begins.")
	p.expect("> ")
	p.Type("\x04")
	p.ends(exitOK)
	require.FileExists(t, filepath.Join(k.dir, "done"))
}
