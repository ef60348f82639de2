package session_test

import (
	"errors"
	"os"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A name of a root means one directory in a session, also if the session was opened without the root meanwhile.
func TestRootsResumed(t *testing.T) {
	base, store := t.TempDir(), newMemory()
	for _, dir := range []string{"ws", "lib", "other"} {
		require.NoError(t, os.Mkdir(base+"/"+dir, 0o755))
	}
	require.NoError(t, os.WriteFile(base+"/other/f", []byte("another file\n"), 0o644))
	open := func(id string, steps []script.Step, opts ...workspace.Option) (*session.Session, error) {
		ws, err := workspace.Open(base+"/ws", opts...)
		require.NoError(t, err)
		t.Cleanup(func() { ws.Close() })
		files := snapshot.New(ws)
		list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
		require.NoError(t, err)
		l, err := aycoder.New(script.New(steps...), aycoder.WithTools(list...), aycoder.WithApprover(verdict(aycoder.Allow())))
		require.NoError(t, err)
		if id == "" {
			return session.New(t.Context(), store, l, session.WithFiles(files))
		}
		return session.Open(t.Context(), store, id, l, session.WithFiles(files))
	}
	for _, id := range []string{"null", "number"} { // directories that make no sense count as unknown
		j, err := store.Create(t.Context(), id)
		require.NoError(t, err)
		value := map[string]string{"null": "null", "number": "1"}[id]
		require.NoError(t, j.Append(t.Context(), true, []byte(`{"t":"session","at":1,"session":{"version":1,"id":"x"}}`),
			[]byte(`{"t":"value","at":1,"values":{"workspace roots":`+value+`}}`)))
		s, err := open(id, nil, workspace.WithRoot("lib", base+"/lib"))
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	s, err := open("", []script.Step{writeFile("lib:/f", "x\n"), script.Say("done")}, workspace.WithRoot("lib", base+"/lib"))
	require.NoError(t, err)
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
	}
	id := s.ID()
	require.NoError(t, s.Close())
	assert.FileExists(t, base+"/lib/f")
	for range 2 {
		s, err = open(id, nil) // without the root its files stay as they are
		require.NoError(t, err)
		move, err := s.Undo(t.Context())
		require.NoError(t, err)
		require.Len(t, move.Files, 1)
		assert.Equal(t, snapshot.ActionKeep, move.Files[0].Action)
		_, err = s.Redo(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Close())
		assert.FileExists(t, base+"/lib/f")
		assert.NoDirExists(t, base+"/ws/lib:")

		_, err = open(id, nil, workspace.WithRoot("lib", base+"/other"))
		e, ok := errors.AsType[*aycoder.ConfigError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, "WithFiles", e.Option)
		assert.ErrorContains(t, err, base+"/lib")
	}
	s, err = open(id, nil, workspace.WithRoot("lib", base+"/lib"), workspace.WithRoot("more", base+"/other"))
	require.NoError(t, err)
	_, err = s.Undo(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	assert.NoFileExists(t, base+"/lib/f")
	assert.FileExists(t, base+"/other/f")
}
