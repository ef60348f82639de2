package vocab

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the counts that the tests of package tokens compare with")

// The counts in the test data of package tokens are those of the vocabularies.
func TestCounts(t *testing.T) {
	dir := filepath.Join("..", "..", "tokens", "testdata")
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	vs, err := Open()
	require.NoError(t, err)
	got := map[string]map[string]int{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		kind := strings.TrimSuffix(filepath.Base(name), ".txt")
		got[kind] = map[string]int{}
		for _, v := range vs {
			got[kind][v.Name], err = v.Count(string(data))
			require.NoError(t, err)
		}
	}
	list := filepath.Join(dir, "counts.json")
	if *update {
		data, err := json.MarshalIndent(got, "", "\t")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(list, append(data, '\n'), 0o666))
	}
	data, err := os.ReadFile(list)
	require.NoError(t, err)
	want := map[string]map[string]int{}
	require.NoError(t, json.Unmarshal(data, &want))
	require.Equal(t, want, got)
}

// OpenAI's vocabularies count as its cookbook says.
func TestOpen(t *testing.T) {
	vs, err := Open()
	require.NoError(t, err)
	want := map[string]int{"o200k": 6, "cl100k": 6, "p50k": 5}
	for _, v := range vs {
		if n, ok := want[v.Name]; ok {
			got, err := v.Count("antidisestablishmentarianism")
			require.NoError(t, err)
			require.Equal(t, n, got, v.Name)
		}
	}
}
