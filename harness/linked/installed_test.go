package linked_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// An installedServer is a language server that a user has installed, with a workspace for it.
type installedServer struct {
	name, variable, ext, language string
	files                         map[string]string
	preset                        string    // settings for the other client
	settings                      [2]string // with the first, a file has an error at the place
	file, text, place             string
}

var installedServers = []installedServer{
	{
		"pyright-langserver", "AYCODER_PYRIGHT", ".py", "python", map[string]string{
			"shop/__init__.py": "",
			"shop/price.py": "from dataclasses import dataclass\n\n\n@dataclass\nclass Price:\n    cents: int\n\n    def plus(self, other: \"Price\") -> \"Price\":\n" +
				"        return Price(self.cents + other.cents)\n\n\nFREE = Price(0)\n",
			"shop/cart.py": "from shop.price import FREE, Price\n\n\nclass Cart:\n    def __init__(self) -> None:\n        self.goods: dict[str, Price] = {}\n\n" +
				"    def add(self, good: str, price: Price) -> None:\n        self.goods[good] = price\n\n    def total(self) -> Price:\n        total = FREE\n" +
				"        for price in self.goods.values():\n            total = total.plus(price)\n        return total\n",
			"main.py": "from shop.cart import Cart\nfrom shop import price as prices\n\ncart = Cart()\ncart.add(\"tea\", prices.Price(250))\nprint(cart.total().cents)\n",
		},
		"{}", [2]string{`python.analysis.typeCheckingMode = "strict"`, `python.analysis.typeCheckingMode = "standard"`},
		"shop/tax.py", "import os\n", "shop/tax.py:1: ",
	},
	{
		"typescript-language-server", "AYCODER_TYPESCRIPT", ".ts", "typescript", map[string]string{
			"tsconfig.json": `{"compilerOptions": {"strict": true, "module": "nodenext", "lib": ["es2022"]}, "include": ["**/*.ts"]}`,
			"shop/price.ts": "export class Price {\n  constructor(readonly cents: number) {}\n\n  plus(other: Price): Price {\n    return new Price(this.cents + other.cents);\n  }\n}\n\n" +
				"export const FREE = new Price(0);\n",
			"shop/cart.ts": "import { FREE, Price } from \"./price.js\";\n\nexport class Cart {\n  private goods = new Map<string, Price>();\n\n  add(good: string, price: Price): void {\n" +
				"    this.goods.set(good, price);\n  }\n\n  total(): Price {\n    let total = FREE;\n    for (const price of this.goods.values()) total = total.plus(price);\n    return total;\n  }\n}\n",
			"main.ts": "import { Cart } from \"./shop/cart.js\";\nimport * as prices from \"./shop/price.js\";\n\nconst cart = new Cart();\ncart.add(\"tea\", new prices.Price(250));\nexport const cents = cart.total().cents;\n",
		},
		`{"tsserver":{"useSyntaxServer":"never"}}`, // or else it answers before it has loaded the project
		[2]string{`diagnostics.ignoredCodes = [80006]`, `diagnostics.ignoredCodes = [2322]`},
		"shop/tax.ts", "export const tax: number = \"a fifth\";\n", "shop/tax.ts:1: ",
	},
}

// A server works as a user configures it: its answers through the harness are those that it gives to another client, its own
// settings hold, and all new errors follow an edit, but none that was there before.
func TestInstalledServers(t *testing.T) {
	timed.Long(t, "language servers in Node.js")
	for _, in := range installedServers {
		t.Run(in.name, func(t *testing.T) {
			program := os.Getenv(in.variable)
			if program == "" {
				var err error
				if program, err = exec.LookPath(in.name); err != nil {
					t.Skipf("%s is not in PATH: set %s to its path", in.name, in.variable)
				}
			}
			in.answers(t, program)
			for i, settings := range in.settings {
				outputs := in.serve(t, program, settings, []script.Step{in.write(in.file, in.text)})
				require.Equal(t, i == 0, strings.Contains(strings.Join(outputs, ""), in.place), "%s: %s", settings, outputs)
			}
			in.planted(t, program)
		})
	}
}

func (*installedServer) write(name, text string) script.Step {
	return script.Call("write_file", map[string]any{"path": name, "content": text})
}

// serve runs steps in the workspace, and returns the outputs of them and of an edit behind them: errors that come late follow it.
func (in *installedServer) serve(t *testing.T, program, settings string, steps []script.Step) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.toml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "[language_servers.%s]\ncommand = %q\nargs = [\"--stdio\"]\n[language_servers.%[1]s.settings]\n%[3]s\n",
		in.name, program, settings), 0o600))
	l, err := config.Load(config.WithUserFile(file))
	require.NoError(t, err)
	s := withServer(t, func(st *config.Settings) { st.LanguageServers, st.Agent.MaxTurns = l.Config.LanguageServers, 200 },
		slices.Concat(steps, []script.Step{in.write("last"+in.ext, ""), script.Say("ok")}), harness.WithPolicyOptions(policy.WithMode(policy.FullAuto)))
	in.lay(t, s.Files.Dir())
	s.run()
	require.Len(t, s.outputs, len(steps)+1)
	return s.outputs
}

// lay writes the files into a directory.
func (in *installedServer) lay(t *testing.T, dir string) {
	for name, text := range in.files {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// answers compares the answers of the tools with those that another client gets.
func (in *installedServer) answers(t *testing.T, program string) {
	python, err := exec.CommandContext(t.Context(), "python3", "-I", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("python3 is not installed")
	}
	dir := t.TempDir()
	in.lay(t, dir)
	client, err := filepath.Abs("../../codegraph/lsp/testdata/oracle.py")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), strings.TrimSpace(string(python)), "-I", client, dir, in.ext, in.language, "30", in.preset, program, "--stdio")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var steps []script.Step
	var asked []string
	var want [][]string
	for line := range bytes.Lines(out) {
		var a struct {
			Path, Name             string
			Line                   int
			Definition, References [][3]any
		}
		require.NoError(t, json.Unmarshal(line, &a))
		if at := strings.Split(in.files[a.Path], "\n")[a.Line-1]; strings.Count(at, a.Name) > 1 {
			continue // a line and a name are not a place
		}
		for tool, places := range map[string][][3]any{"definition": a.Definition, "references": a.References} {
			if len(places) > 200 {
				continue // of a result
			}
			steps = append(steps, script.Call(tool, map[string]any{"path": a.Path, "line": a.Line, "name": a.Name}))
			asked = append(asked, fmt.Sprintf("%s of %s in %s:%d", tool, a.Name, a.Path, a.Line))
			found := []string{}
			for _, at := range places {
				found = append(found, fmt.Sprint(at[0], ":", at[1]))
			}
			want = append(want, found)
		}
	}
	require.Greater(t, len(steps), 20)
	places := 0
	for i, out := range in.serve(t, program, in.settings[0], steps)[:len(steps)] {
		got := []string{}
		for line := range strings.Lines(out) {
			if path, rest, ok := strings.Cut(line, ":"); ok {
				number, _, _ := strings.Cut(strings.TrimSuffix(rest, " (outside the workspace)\n"), ":")
				got = append(got, path+":"+number)
			}
		}
		require.ElementsMatch(t, want[i], got, "%s: %s", asked[i], out)
		places += len(got)
	}
	t.Logf("%d answers with %d places are the same", len(steps), places)
}

// planted plants an error in each of 50 files.
func (in *installedServer) planted(t *testing.T, program string) {
	var steps []script.Step
	for i := range 50 {
		name := strings.Replace(in.file, "tax", "tax"+strconv.Itoa(i), 1)
		steps = append(steps, in.write(name, strings.Repeat("\n", i)+in.text))
	}
	all := strings.Join(in.serve(t, program, in.settings[0], steps), "")
	for i := range steps {
		name := strings.Replace(in.file, "tax", "tax"+strconv.Itoa(i), 1)
		require.Equal(t, 1, strings.Count(all, "\n"+name+":"+strconv.Itoa(i+1)+": "), "%s: %s", name, all)
	}
}
