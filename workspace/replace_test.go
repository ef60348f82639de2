//go:build unix

package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addLine adds a line to a file, again and again until nobody comes in between.
func addLine(w *Workspace, file, line string) error {
	for {
		old, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		err = replace(w, filepath.Base(file), string(old), string(old)+line)
		if kindOf(err) != "stale" {
			return err
		}
	}
}

// Two workspaces of one directory, as in two processes, lose nothing of each other.
func TestTwoWorkspaces(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": ""})
	other, err := Open(dir)
	require.NoError(t, err)
	defer other.Close()
	const each = 60
	var wg sync.WaitGroup
	for i, ws := range []*Workspace{w, other} {
		wg.Go(func() {
			for n := range each {
				assert.NoError(t, addLine(ws, filepath.Join(dir, "f"), fmt.Sprintf("%d %d\n", i, n)))
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	assert.Equal(t, 2*each, strings.Count(string(data), "\n"))
}

// Text that a user writes into the old file after it was replaced, with a program that had
// opened it before, is not lost.
func TestWrittenWhileReplaced(t *testing.T) {
	tests := []struct {
		name, written, after string
		kind, want, kept     string
	}{
		{name: "nothing", want: "new"},
		{name: "written", written: "old+user", kind: "stale", want: "old+user"},
		{name: "same length", written: "odd", kind: "stale", want: "odd"},
		{name: "emptied", written: "-", kind: "stale", want: ""},
		{name: "both", written: "old+user", after: "new+user", want: "new+user", kept: "old+user"},
	}
	for _, tt := range tests {
		for _, plain := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				w, dir := testWorkspace(t, map[string]string{"f": "old"})
				file := filepath.Join(dir, "f")
				user, err := os.OpenFile(file, os.O_WRONLY, 0)
				require.NoError(t, err)
				defer user.Close()
				r, err := w.Apply(t.Context(), mustPlan(t, change("f", "old", "new")), without(plain, true),
					at("look", func() {
						if tt.written != "" {
							text := strings.TrimPrefix(tt.written, "-")
							_, err := user.WriteString(text)
							require.NoError(t, errors.Join(err, user.Truncate(int64(len(text)))))
						}
						if tt.after != "" {
							require.NoError(t, os.WriteFile(file, []byte(tt.after), 0o644))
						}
					}))
				assert.Equal(t, tt.kind, kindOf(conflictKind(err)), "%v", err)
				now, temps := tree(t, dir)
				assert.Zero(t, temps)
				assert.Equal(t, tt.want, now["f"])
				assert.Equal(t, tt.kept, now["f.save"])
				if tt.kept != "" {
					assert.Equal(t, []string{"f.save"}, r.Files[0].Sidecars)
				}
			})
		}
	}
}

func TestKeepOwner(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		kept  bool
		fails bool
		asked [][2]int
	}{
		{"allowed", nil, true, false, [][2]int{{7, 8}}},
		{"not allowed", syscall.EPERM, false, false, [][2]int{{7, 8}, {-1, 8}}},
		{"no such user here", syscall.EINVAL, false, false, [][2]int{{7, 8}, {-1, 8}}},
		{"no owners", syscall.ENOTSUP, false, false, [][2]int{{7, 8}, {-1, 8}}},
		{"disk", syscall.EIO, false, true, [][2]int{{7, 8}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked [][2]int
			kept, err := keepOwner(func(uid, gid int) error {
				asked = append(asked, [2]int{uid, gid})
				if tt.err == nil {
					return nil
				}
				return &fs.PathError{Op: "chown", Path: "f", Err: tt.err}
			}, 7, 8)
			assert.Equal(t, tt.kept, kept)
			assert.Equal(t, tt.fails, err != nil)
			assert.Equal(t, tt.fails, errors.Is(err, syscall.EIO))
			assert.Equal(t, tt.asked, asked)
		})
	}
}
