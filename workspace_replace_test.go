//go:build unix

package aycoder

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
		err = w.Replace(filepath.Base(file), old, append(old, line...))
		if kindOf(err) != "stale" {
			return err
		}
	}
}

// Two workspaces of one folder, as in two processes, lose nothing of each other.
func TestTwoWorkspaces(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": ""})
	other, err := OpenWorkspace(dir)
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

// What a user writes after the content was compared, and before the file is
// replaced, is not lost.
func TestWrittenWhileReplaced(t *testing.T) {
	tests := []struct {
		name, written, after string
		noLinks              bool
		kind, want, kept     string
	}{
		{name: "nothing", want: "new"},
		{name: "written", written: "old+user", kind: "stale", want: "old+user"},
		{name: "same length", written: "odd", kind: "stale", want: "odd"},
		{name: "emptied", written: "-", kind: "stale", want: ""},
		{name: "no hard links", written: "old+user", noLinks: true, kind: "stale", want: "old+user"},
		{name: "both", written: "old+user", after: "new+user", kind: "stale", want: "new+user", kept: "old+user"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, dir := testWorkspace(t, map[string]string{"f": "old"})
			target, err := w.openTarget(t.Context(), "f", "f")
			require.NoError(t, err)
			defer target.close()
			f, err := target.dir.Open("f")
			require.NoError(t, err)
			defer f.Close()
			user, err := os.OpenFile(filepath.Join(dir, "f"), os.O_WRONLY, 0)
			require.NoError(t, err)
			defer user.Close()
			if tt.written != "" {
				text := strings.TrimPrefix(tt.written, "-")
				_, err = user.WriteString(text)
				require.NoError(t, err)
				require.NoError(t, user.Truncate(int64(len(text))))
			}
			temp, err := target.temp([]byte("new"), 0o600, nil)
			require.NoError(t, err)
			if tt.noLinks || tt.after != "" {
				err = replaceWithout(target, f, temp, tt.after, !tt.noLinks)
			} else {
				err = target.swap(f, temp, []byte("old"), []byte("new"))
			}
			assert.Equal(t, tt.kind, kindOf(err), "%v", err)
			data, err2 := os.ReadFile(filepath.Join(dir, "f"))
			require.NoError(t, err2)
			assert.Equal(t, tt.want, string(data))
			left, err2 := filepath.Glob(filepath.Join(dir, ".aycoder-*"))
			require.NoError(t, err2)
			if tt.kept == "" {
				assert.Empty(t, left)
				return
			}
			require.Len(t, left, 1)
			assert.ErrorContains(t, err, filepath.Base(left[0]))
			data, err2 = os.ReadFile(left[0])
			require.NoError(t, err2)
			assert.Equal(t, tt.kept, string(data))
		})
	}
}

// replaceWithout does what swap does, where somebody writes after into the new file,
// or where there are no hard links.
func replaceWithout(t *target, f *os.File, temp, after string, links bool) error {
	kept := ""
	if links {
		kept = tempName()
		if err := t.dir.Link(t.name, kept); err != nil {
			return err
		}
	}
	ours, err := t.dir.Lstat(temp)
	if err == nil {
		err = t.dir.Rename(temp, t.name)
	}
	if err == nil && after != "" {
		err = t.dir.WriteFile(t.name, []byte(after), 0)
	}
	if err != nil {
		return err
	}
	return t.restore(f, kept, ours, []byte("new"))
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
