package shell_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/shell"
)

var update = flag.Bool("update", false, "collect the options of the installed programs")

// manual is what a manual page and --help say of a program.
type manual struct {
	program, version string
	options          []string // as in -x, -x=, --name, --name= and --name?
}

var optionsFile = filepath.Join("testdata", "options.txt")

// TestOptions collects the options of the known programs from the manual pages and --help
// texts that are installed, with -update; else it reads what was collected.
func TestOptions(t *testing.T) {
	if *update {
		var b bytes.Buffer
		b.WriteString("# program, version and options, as the installed manual pages and --help texts have them:\n" +
			"# go test -run TestOptions -update. An option with = has an argument, with ? it may have one.\n")
		for _, name := range shell.Programs() {
			if m := collect(name); len(m.options) > 0 {
				b.WriteString(m.program + "\t" + m.version + "\t" + strings.Join(m.options, " ") + "\n")
			}
		}
		require.NoError(t, os.WriteFile(optionsFile, b.Bytes(), 0o644))
	}
	n := 0
	all := manuals(t)
	for _, m := range all {
		n += len(m.options)
	}
	t.Logf("%d options of %d programs", n, len(all))
	require.Greater(t, n, 3000)
}

func manuals(t testing.TB) []manual {
	t.Helper()
	data, err := os.ReadFile(optionsFile)
	require.NoError(t, err)
	var out []manual
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 {
			out = append(out, manual{f[0], f[1], strings.Fields(f[2])})
		}
	}
	return out
}

var (
	optionText = regexp.MustCompile(`(?:^|[\s,|\[(])(--?[A-Za-z0-9?#@][A-Za-z0-9_.-]*)(\[?=\[?[A-Za-z<]|\[[=<A-Z]|[ =]<|[ =][A-Z][A-Z_]+\b|\b=)?`)
	manNoise   = regexp.MustCompile(".\x08")
)

func collect(name string) manual {
	m := manual{program: name}
	prog, sub, _ := strings.Cut(name, " ")
	page := strings.ReplaceAll(name, " ", "-")
	texts := [][]byte{}
	if out, err := command("man", "-P", "cat", page); err == nil {
		texts = append(texts, out)
	}
	if _, err := exec.LookPath(prog); err == nil {
		args := []string{"--help"}
		if sub != "" {
			args = []string{sub, "-h"}
		}
		out, _ := command(prog, args...)
		texts = append(texts, out)
		v, _ := command(prog, "--version")
		line, _, _ := strings.Cut(string(v), "\n")
		m.version = strings.Join(strings.Fields(line), " ")
	}
	seen := map[string]bool{}
	for _, text := range texts {
		for line := range strings.Lines(string(manNoise.ReplaceAll(text, nil))) {
			if !strings.HasPrefix(strings.TrimSpace(line), "-") && !strings.Contains(line, " --") {
				continue
			}
			for _, o := range optionText.FindAllStringSubmatch(line, -1) {
				opt := strings.TrimRight(o[1], ".-")
				switch {
				case strings.HasPrefix(o[2], "["):
					opt += "?"
				case o[2] != "":
					opt += "="
				}
				if len(opt) > 1 && !seen[opt] && len(opt) < 40 {
					seen[opt] = true
					m.options = append(m.options, opt)
				}
			}
		}
	}
	slices.Sort(m.options)
	return m
}

func command(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MANWIDTH=200", "LC_ALL=C", "TERM=dumb", "HOME=/nonexistent"}
	return cmd.CombinedOutput()
}
