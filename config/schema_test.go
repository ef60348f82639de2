package config_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
)

// validator validates TOML files with a JSON Schema, by programs that share nothing with this package.
const validator = `
import json, sys, tomllib
try:
    import jsonschema
except ImportError:
    sys.exit(77)
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
v = jsonschema.Draft202012Validator(schema)
for name in sys.argv[2:]:
    print(len(list(v.iter_errors(tomllib.load(open(name, "rb"))))))
`

// validate returns the numbers of errors in files.
func validate(t *testing.T, names ...string) []string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3, which validates files with the schema")
	}
	schema := write(t, filepath.Join(t.TempDir(), "schema.json"), string(config.Schema()))
	out, err := exec.Command(python, append([]string{"-I", "-W", "ignore", "-c", validator, schema}, names...)...).CombinedOutput()
	if e, ok := err.(*exec.ExitError); ok && e.ExitCode() == 77 {
		t.Skip("no python package jsonschema, which validates files with the schema")
	}
	require.NoError(t, err, string(out))
	return strings.Fields(string(out))
}

func TestSchemaAndDiagnosticsAgree(t *testing.T) {
	t.Parallel()
	broken := []string{
		"agent.max_turns = 0", "agent.max_turn = 1", "agent = 1", "agent.max_turns = \"x\"", "agent.system = 1",
		"context.fill = 0.95", "context.fill = 0.05", "tools.mask = 1", "tools.disabled = [1]", "tools.disabled = \"x\"",
		"agent.retry_time = 5", "agent.retry_time = \"five\"", "approval.mode = \"aks\"", "sandbox.mode = \"yes\"",
		"models.a.provider = \"x\"", "models.a = { provider = \"x\", model = \"y\", headers = { b = 1 } }", "models = 1", "hooks = [{ event = \"Stop\" }]",
		"hooks = [{ event = \"Stopp\", command = \"x\" }]", "approval.rules = [{ tool = \"x\" }]", "nothing = 1",
		"profile.a.agent.max_turns = 0", "profile.a.b = 0", "budgets.x.cost = \"1\"", "servers.s.args = [[]]",
	}
	files, want := []string{"testdata/good.toml"}, []string{"0"}
	for _, text := range broken {
		files, want = append(files, file(t, text)), append(want, "1")
		_, err := config.Load(config.WithUserFile(files[len(files)-1]))
		require.Error(t, err, text)
	}
	assert.Equal(t, want, validate(t, files...))
}

// Each key has a text for editors, and the good file has each key, so that the tests above and the mutations below
// are about all of them.
func TestEveryKeyIsDescribedAndTested(t *testing.T) {
	var root map[string]any
	require.NoError(t, json.Unmarshal(config.Schema(), &root))
	good, err := os.ReadFile("testdata/good.toml")
	require.NoError(t, err)
	var visit func(key string, s map[string]any)
	visit = func(key string, s map[string]any) {
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			kid := p.(map[string]any)
			assert.NotEmpty(t, kid["description"], "%s.%s", key, name)
			assert.Regexp(t, `\b`+name+`\b`, string(good), "%s.%s", key, name)
			visit(key+"."+name, kid)
		}
		for _, inner := range []string{"items", "additionalProperties"} {
			if kid, ok := s[inner].(map[string]any); ok {
				visit(key+"[]", kid)
			}
		}
	}
	visit("", root)
}
