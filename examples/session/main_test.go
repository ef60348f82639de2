package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The test binary is also the first process of the example, which starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && !strings.HasPrefix(os.Args[1], "-") {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestShow(t *testing.T) {
	var out strings.Builder
	show(&out)
	_, rest, _ := strings.Cut(out.String(), "\n") // how the first process ended depends on the system
	require.NotContains(t, out.String(), "<nil>")
	require.Equal(t, `""                  node  6, plan.txt "by hand"    model: Was it deployed? I do not know.
"let a robot do it" node 10, plan.txt "by a robot" model: A robot will.
"undo"              node  6, plan.txt "by hand"    model: Was it deployed? I do not know.
"let nobody do it"  node 14, plan.txt "never"      model: Nobody will.
"checkout 10"       node 10, plan.txt "by a robot" model: A robot will.
`, rest)
}
