package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
)

// ofVersion returns the file of a session with four messages and a label as a version has it. Version 0 is made
// up: it has another word for nodes.
func ofVersion(t *testing.T, version int) []byte {
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	s, err := New(t.Context(), store, silent{})
	require.NoError(t, err)
	say(t, s, 4)
	require.NoError(t, s.SetLabel(t.Context(), 2, "here"))
	var lines []byte
	for line, err := range s.journal.now().Records(t.Context()) {
		require.NoError(t, err)
		line = bytes.Replace(line, []byte(`"version":1`), fmt.Appendf(nil, `"version":%d`, version), 1)
		if version == 0 {
			line = bytes.Replace(line, []byte(`{"t":"node"`), []byte(`{"t":"knot"`), 1)
		}
		lines = appendLine(lines, line)
	}
	require.NoError(t, s.Close())
	return lines
}

// withUpgrade makes version 0 readable.
func withUpgrade(t *testing.T) {
	upgrades[0] = func(line []byte) ([]byte, error) {
		if bytes.Contains(line, []byte("message 3")) && bytes.Contains(line, []byte("broken")) {
			return nil, errors.New("no such knot")
		}
		line = bytes.Replace(line, []byte(`"version":0`), []byte(`"version":1`), 1)
		return bytes.Replace(line, []byte(`{"t":"knot"`), []byte(`{"t":"node"`), 1), nil
	}
	t.Cleanup(func() { delete(upgrades, 0) })
}

// stored makes a store with a session whose file has these bytes.
func stored(t *testing.T, data []byte) (store journal.Store, file string) {
	dir := t.TempDir()
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	j, err := store.Create(t.Context(), "x")
	require.NoError(t, err)
	require.NoError(t, j.Close())
	file = filepath.Join(dir, "x", journalName)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return store, file
}

func texts(v *View) (all []string) {
	for _, m := range v.Messages(ID(v.Len() - 1)) {
		all = append(all, m.Text())
	}
	return all
}

// A session of a version that is not known is refused, and stays as it is.
func TestUnknownVersionIsRefused(t *testing.T) {
	for version, want := range map[int]string{
		2: `open session "x": it has version 2, and this program reads versions up to 1: use a newer one`,
		0: `open session "x": it has version 0, and this program reads versions up to 1`,
	} {
		data := ofVersion(t, version)
		store, file := stored(t, data)
		for name, open := range map[string]func() error{
			"Open": func() error { _, err := Open(t.Context(), store, "x", silent{}); return err },
			"Read": func() error { _, _, err := Read(t.Context(), store, "x"); return err },
		} {
			err := open()
			require.EqualError(t, err, want, name)
			e, ok := errors.AsType[*VersionError](err)
			require.True(t, ok)
			require.Equal(t, version, e.Version)
		}
		now, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(data), string(now))
		entries, err := os.ReadDir(filepath.Dir(file))
		require.NoError(t, err)
		for _, e := range entries {
			require.NotEqual(t, newName, e.Name())
		}
	}
}

// A session of an older version is read as it is, and rewritten when it is opened for writing.
func TestOlderVersionIsMigrated(t *testing.T) {
	withUpgrade(t)
	want := []string{"message 1", "message 2", "message 3", "message 4"}
	data := ofVersion(t, 0)
	store, file := stored(t, data)
	v, damage, err := Read(t.Context(), store, "x")
	require.NoError(t, err)
	require.Empty(t, damage)
	require.Equal(t, want, texts(v))
	require.Equal(t, "here", v.Label(2))
	now, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(data), string(now))

	s, err := Open(t.Context(), store, "x", silent{})
	require.NoError(t, err)
	require.Empty(t, s.Damage())
	require.Equal(t, want, texts(s.View()))
	say(t, s, 1)
	require.Equal(t, "message 4", text(s, 4))
	require.NoError(t, s.Close())

	delete(upgrades, 0) // all is of the present version
	v, damage, err = Read(t.Context(), store, "x")
	require.NoError(t, err)
	require.Empty(t, damage)
	require.Equal(t, append(want, "message 5"), texts(v))
	require.Equal(t, "here", v.Label(2))
}

// A message that was delivered before a migration is not taken again after it, and one that waits still waits. Trim
// forgets the ids.
func TestMigrationKeepsDelivered(t *testing.T) {
	withUpgrade(t)
	say := []byte(`{"t":"say","at":1,"say":{"message":{"role":"user","parts":[{"type":"text","text":"hello"}]}},"letter":"a"}`)
	store, _ := stored(t, appendLine(ofVersion(t, 0), say))
	for range 2 {
		s, err := Open(t.Context(), store, "x", silent{})
		require.NoError(t, err)
		require.Empty(t, s.Damage())
		require.NoError(t, s.SteerOnce(t.Context(), "a", "hello", nil, false))
		require.Len(t, s.Queued(), 1)
		require.NoError(t, s.Close())
	}
	s, err := Open(t.Context(), store, "x", silent{})
	require.NoError(t, err)
	require.NoError(t, s.Trim(t.Context()))
	require.NoError(t, s.Close())
	s, err = Open(t.Context(), store, "x", silent{})
	require.NoError(t, err)
	require.NoError(t, s.SteerOnce(t.Context(), "a", "hello", nil, false))
	require.Len(t, s.Queued(), 2)
	require.NoError(t, s.Close())
}

// A migration keeps all objects: the workspace may need those of a checkout that was interrupted. It also keeps that
// the checkout was to move the head.
func TestMigrationKeepsObjects(t *testing.T) {
	withUpgrade(t)
	move := []byte(`{"t":"move","n":1,"at":1,"name":"undo","paths":["a"]}`)
	store, _ := stored(t, appendLine(ofVersion(t, 0), move))
	object := []byte("content of a file")
	j, err := store.Open(t.Context(), "x", true)
	require.NoError(t, err)
	require.NoError(t, j.Put(t.Context(), journal.HashOf(object), object))
	require.NoError(t, j.Close())

	s, err := Open(t.Context(), store, "x", silent{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	j, err = store.Open(t.Context(), "x", false)
	require.NoError(t, err)
	defer j.Close()
	data, err := j.Get(t.Context(), journal.HashOf(object))
	require.NoError(t, err)
	require.Equal(t, object, data)
	var last []byte
	for last, err = range j.Records(t.Context()) {
		require.NoError(t, err)
	}
	require.JSONEq(t, string(move), string(last))
}

// A damaged record of an older version is reported, and costs only what it holds. A cancelled migration changes
// nothing.
func TestOlderVersionIsDamaged(t *testing.T) {
	withUpgrade(t)
	data := ofVersion(t, 0)
	lines := bytes.SplitAfter(data, []byte("\n"))
	store, file := stored(t, bytes.Join(append([][]byte{lines[0], lines[1], []byte("[\"00000000\",{}]\n")}, lines[3:]...), nil))
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Open(ctx, store, "x", silent{})
	require.ErrorIs(t, err, context.Canceled)
	now, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(before), string(now))

	s, err := Open(t.Context(), store, "x", silent{})
	require.NoError(t, err)
	require.Len(t, s.Damage(), 1)
	require.Equal(t, 3, s.Damage()[0].(*journal.DamageError).Record)
	require.True(t, s.View().Node(2).Lost)
	require.Equal(t, "message 3", text(s, 3))
	require.Equal(t, "message 4", text(s, 4))
	require.NoError(t, s.Close())
}

// A run that was interrupted, and of which a migration has lost a record, makes no call again.
func TestRunOfOlderVersionIsDamaged(t *testing.T) {
	withUpgrade(t)
	lines := []string{
		`{"t":"session","session":{"version":0,"id":"x"}}`,
		`{"t":"run","r":1,"n":1,"name":"r","start":{"max_turns":5,"max_calls":5,"tools":{"write":2}}}`,
		`{"t":"knot","n":1,"r":1,"m":{"role":"user","parts":[{"type":"text","text":"go"}]}}`,
	}
	use := &aycoder.ToolUse{ID: "w", Name: "write", Args: []byte(`{}`)}
	for i, f := range []aycoder.Fact{&aycoder.BlockDone{Part: use}, &aycoder.MessageDone{Stop: aycoder.StopToolUse}, &aycoder.ToolBegan{ID: "w"}} {
		line, err := (aycoder.FactRecord{Run: "1", Seq: int64(i + 1), Fact: f}).MarshalJSON()
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	var data []byte
	for _, l := range lines {
		data = appendLine(data, []byte(l))
	}
	data[len(data)-5] ^= 1 // in the record that the call began
	store, _ := stored(t, data)
	s, err := Open(t.Context(), store, "x", silent{})
	require.NoError(t, err)
	require.Len(t, s.Damage(), 1)
	m := s.Pending().State.Messages()
	require.Contains(t, m[len(m)-1].Parts[0].(*aycoder.ToolOutput).Text(), "records of this run are damaged")
	for _, action := range s.Pending().State.Outstanding() {
		require.IsType(t, &aycoder.CallModel{}, action)
	}
	require.NoError(t, s.Close())
}
