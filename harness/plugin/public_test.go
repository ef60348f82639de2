package plugin_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/harness/plugin"
)

// The plugins of public repositories can be installed as they are, and each entry of their indexes that names a
// directory is one of them. AYCODER_PLUGINS is a directory with a directory for each repository.
func TestPublicPlugins(t *testing.T) {
	all := os.Getenv("AYCODER_PLUGINS")
	if all == "" {
		t.Skip("AYCODER_PLUGINS is not set: it is a directory of repositories with plugins")
	}
	repos, err := os.ReadDir(all)
	require.NoError(t, err)
	for _, repo := range repos {
		t.Run(repo.Name(), func(t *testing.T) { publicPlugins(t, filepath.Join(all, repo.Name())) })
	}
}

func publicPlugins(t *testing.T, dir string) {
	var found []plugin.Source
	indexes, offers := 0, 0
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() || filepath.Base(filepath.Dir(name)) != ".claude-plugin" {
			return nil
		}
		top := filepath.Dir(filepath.Dir(name))
		switch d.Name() {
		case "plugin.json":
			found = append(found, plugin.Source{Path: top})
		case "marketplace.json":
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			list, problems := plugin.ParseIndex(data, plugin.Source{Path: top})
			for _, p := range problems {
				t.Log(p)
			}
			indexes, offers = indexes+1, offers+len(list)
			for _, o := range list {
				if o.Source.Path != "" {
					found = append(found, o.Source)
				}
			}
		}
		return nil
	}))
	if len(found) == 0 {
		t.Skip("it has no plugins")
	}
	brings := 0
	for _, from := range found {
		st, err := plugin.NewStore(t.TempDir()).Stage(t.Context(), from)
		if err != nil {
			t.Errorf("%s: %v", from, err)
			continue
		}
		require.NoError(t, st.Install(t.Context()))
		brings += len(st.Plugin.Brings())
		for _, w := range st.Plugin.Warnings {
			t.Log(w)
		}
		require.NoError(t, st.Discard())
	}
	t.Logf("%d plugins, %d indexes with %d offers; they bring %d parts", len(found), indexes, offers, brings)
}
