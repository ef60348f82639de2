package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/line"
)

var update = flag.Bool("update", false, "write the tables of docs/cli.md")

// cell escapes text for a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// tables returns the tables of docs/cli.md by the name in their marker.
func tables() map[string]string {
	var flags, subcommands, codes, vendors, slash strings.Builder
	flags.WriteString("| flag | meaning |\n| --- | --- |\n")
	for _, f := range flagTable(&options{}) {
		fmt.Fprintf(&flags, "| `%s` | %s |\n", strings.TrimSpace("-"+f.name+" "+f.arg), cell(f.help))
	}
	subcommands.WriteString("| command | meaning |\n| --- | --- |\n")
	for _, c := range (&app{}).subcommands() {
		fmt.Fprintf(&subcommands, "| `aycoder %s` | %s |\n", c.name, cell(c.help))
		for _, x := range c.actions {
			if len(c.actions) > 1 || x.Args != "" {
				fmt.Fprintf(&subcommands, "| `aycoder %s` | %s |\n", cell(strings.TrimSpace(c.name+" "+x.Name+" "+x.Args)), cell(x.Help))
			}
		}
		for _, f := range c.flags {
			fmt.Fprintf(&subcommands, "| `aycoder %s -%s` | %s |\n", c.name, f.Name, cell(f.Help))
		}
	}
	codes.WriteString("| status | meaning |\n| --- | --- |\n")
	for _, e := range exitTable() {
		fmt.Fprintf(&codes, "| %d | %s |\n", e.code, e.meaning)
	}
	vendors.WriteString("| key in | model |\n| --- | --- |\n")
	for _, v := range vendorTable() {
		fmt.Fprintf(&vendors, "| `%s` | `%s/%s` |\n", strings.Join(v.keys, "`, `"), v.provider, v.model)
	}
	slash.WriteString("| line | meaning |\n| --- | --- |\n")
	for _, c := range commands() {
		fmt.Fprintf(&slash, "| `%s` | %s |\n", cell(strings.TrimSpace("/"+c.name+" "+c.args)), cell(c.help))
	}
	return map[string]string{"slash": slash.String(), "flags": flags.String(), "commands": subcommands.String(), "codes": codes.String(), "vendors": vendors.String()}
}

// The page names all actions of keys.
func TestDocsOfActions(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	for _, action := range line.New(line.Options{}).Actions() {
		require.Contains(t, string(data), "`"+action+"`")
	}
}

// The tables of docs/cli.md are those of the program.
func TestDocs(t *testing.T) {
	t.Parallel()
	const file = "../../docs/cli.md"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(data)
	for name, table := range tables() {
		begin, end := "<!-- "+name+": go test ./internal/cli -run TestDocs -update -->\n\n", "\n<!-- end -->"
		head, rest, ok := strings.Cut(text, begin)
		require.True(t, ok, name)
		was, tail, ok := strings.Cut(rest, end)
		require.True(t, ok, name)
		if !*update {
			require.Equal(t, table, was)
		}
		text = head + begin + table + end + tail
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
}
