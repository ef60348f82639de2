package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// dirWith returns a store with a session that holds the records, and the path of its journal.
func dirWith(t *testing.T, records ...string) (Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := Dir(dir)
	require.NoError(t, err)
	j, err := s.Create(t.Context(), testID)
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, j.Append(t.Context(), false, []byte(r)))
	}
	require.NoError(t, j.Close())
	return s, filepath.Join(dir, testID, journalName)
}

func open(t *testing.T, s Store, write bool) Journal {
	t.Helper()
	j, err := s.Open(t.Context(), testID, write)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}

// results returns the records, and the damaged ones as numbers, with a minus sign if torn.
func results(t *testing.T, j Journal) (list []any) {
	t.Helper()
	for r, err := range j.Records(t.Context()) {
		if d, ok := errors.AsType[*DamageError](err); ok {
			n := d.Record
			if d.Torn {
				n = -n
			}
			list = append(list, n)
			continue
		}
		require.NoError(t, err)
		list = append(list, string(r))
	}
	return list
}

var sample = []string{`{"n":1}`, `{"n":22,"s":"` + "\u2028\u2029" + `"}`, `{"n":333}`}

// The files are as documented, and only the user can read them.
func TestDirFiles(t *testing.T) {
	t.Parallel()
	s, file := dirWith(t, sample...)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, line(sample[0])+line(sample[1])+line(sample[2]), string(text))
	j := open(t, s, true)
	data := bytes.Repeat([]byte("text "), 1000)
	require.NoError(t, j.Put(t.Context(), HashOf(data), data))
	require.NoError(t, j.Describe(t.Context(), Entry{Title: "x"}))
	hash := string(HashOf(data))
	info, err := os.Stat(filepath.Join(filepath.Dir(file), "objects", hash))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(500))
	n := 0
	require.NoError(t, filepath.WalkDir(filepath.Dir(filepath.Dir(file)), func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		if n++; n > 1 && os.PathSeparator == '/' { // the first one is the directory of the test
			require.Zero(t, info.Mode().Perm()&0o077, name)
		}
		return nil
	}))
	require.Equal(t, 9, n)
}

// A journal that is cut at any byte loses the records from there on. A writer reports the torn one
// and removes it, so that the next record is whole.
func TestDirCutAtEveryByte(t *testing.T) {
	t.Parallel()
	s, file := dirWith(t)
	text := line(sample[0]) + line(sample[1]) + line(sample[2])
	for n := range len(text) {
		require.NoError(t, os.WriteFile(file, []byte(text[:n]), 0o600))
		var want []any
		whole := strings.Count(text[:n], "\n")
		for _, r := range sample[:whole] {
			want = append(want, r)
		}
		require.Equal(t, want, results(t, open(t, s, false)))
		j, err := s.Open(t.Context(), testID, true)
		require.NoError(t, err)
		if n > 0 && text[n-1] != '\n' {
			want = append(want, -whole-1)
		}
		require.Equal(t, want, results(t, j))
		require.NoError(t, j.Append(t.Context(), false, []byte("{}")))
		require.NoError(t, j.Close())
		after, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text[:strings.LastIndexByte(text[:n], '\n')+1]+line("{}"), string(after))
	}
}

// If any byte of a journal has another value, each record is there as it was, or is reported.
func TestDirFlipEveryByte(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	s, file := dirWith(t)
	text := []byte(line(sample[0]) + line(sample[1]) + line(sample[2]))
	flips := []byte{1, 0x20, 0x80, 0xff}
	for i := range text {
		for _, flip := range append(flips, text[i], text[i]^'\n') { // also to NUL and to a line feed
			if flip == 0 {
				continue
			}
			damaged := bytes.Clone(text)
			damaged[i] ^= flip
			require.NoError(t, os.WriteFile(file, damaged, 0o600))
			j, err := s.Open(t.Context(), testID, true)
			require.NoError(t, err)
			got := results(t, j)
			require.NoError(t, j.Close())
			reports := 0
			var records []string
			for _, x := range got {
				if r, ok := x.(string); ok {
					records = append(records, r)
				} else {
					reports++
				}
			}
			require.Positive(t, reports, "byte %d: %q", i, got)
			require.GreaterOrEqual(t, len(records), 1, "byte %d: %q", i, got)
			require.True(t, inOrder(records, sample, 0, reports), "byte %d: %q", i, got)
		}
	}
}

func TestDirDamagedMiddle(t *testing.T) {
	t.Parallel()
	s, file := dirWith(t)
	text := line(sample[0]) + strings.Replace(line(sample[1]), "22", "23", 1) + strings.Repeat("\x00", 4096) +
		"\n" + line(sample[2])
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	for _, write := range []bool{false, true} {
		j := open(t, s, write)
		require.Equal(t, []any{sample[0], 2, 3, sample[2]}, results(t, j))
		for _, err := range j.Records(t.Context()) {
			if d, ok := errors.AsType[*DamageError](err); ok {
				require.Equal(t, testID, d.Session)
				require.False(t, d.Torn)
			}
		}
	}
}

// A damaged object is an error, and storing it again mends it.
func TestDirDamagedObject(t *testing.T) {
	t.Parallel()
	s, file := dirWith(t)
	data := []byte("some text, some text, some text")
	hash := HashOf(data)
	j, err := s.Open(t.Context(), testID, true)
	require.NoError(t, err)
	require.NoError(t, j.Put(t.Context(), hash, data))
	require.NoError(t, j.Close())
	name := filepath.Join(filepath.Dir(file), "objects", string(hash))
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for i := range len(whole) {
		for _, damaged := range [][]byte{whole[:i], slices.Concat(whole[:i], []byte{whole[i] ^ 1}, whole[i+1:])} {
			require.NoError(t, os.WriteFile(name, damaged, 0o600))
			got, err := open(t, s, false).Get(t.Context(), hash)
			if d, ok := errors.AsType[*DamageError](err); ok {
				require.Equal(t, hash, d.Object)
				continue
			}
			require.NoError(t, err) // padding at the end of the stream may have any value
			require.Equal(t, data, got)
		}
	}
	require.NoError(t, os.WriteFile(name, whole[:3], 0o600))
	j = open(t, s, true)
	require.NoError(t, j.Put(t.Context(), hash, data))
	got, err := j.Get(t.Context(), hash)
	require.NoError(t, err)
	require.Equal(t, data, got)
}

// The next writer removes what a crash left unfinished.
func TestDirLeftovers(t *testing.T) {
	t.Parallel()
	s, file := dirWith(t, sample...)
	left := filepath.Join(filepath.Dir(file), newName)
	require.NoError(t, os.WriteFile(left, []byte("half"), 0o600))
	open(t, s, false)
	require.FileExists(t, left)
	require.Equal(t, []any{sample[0], sample[1], sample[2]}, results(t, open(t, s, true)))
	require.NoFileExists(t, left)
}

func TestDirNeedsAName(t *testing.T) {
	_, err := Dir("")
	require.ErrorContains(t, err, "its name is empty")
}

// Whoever mistypes an id reads what is wrong, not the name of a file.
func TestNoSuchSession(t *testing.T) {
	t.Parallel()
	dir, err := Dir(t.TempDir())
	require.NoError(t, err)
	for _, s := range []Store{dir, Memory()} {
		for _, write := range []bool{true, false} {
			_, err := s.Open(t.Context(), "none", write)
			require.EqualError(t, err, `open session "none": there is no such session`)
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
	}
}

// The holder is found by another store of the same directory, and the lock ends with Close.
func TestDirHolder(t *testing.T) {
	t.Parallel()
	s, file := dirWith(t)
	j, err := s.Open(t.Context(), testID, true)
	require.NoError(t, err)
	other, err := Dir(filepath.Dir(filepath.Dir(file)))
	require.NoError(t, err)
	for _, f := range []func() error{
		func() error { _, err := other.Open(t.Context(), testID, true); return err },
		func() error { return other.Delete(t.Context(), testID) },
	} {
		busy, ok := errors.AsType[*BusyError](f())
		require.True(t, ok)
		require.Equal(t, os.Getpid(), busy.Holder.PID)
		require.NotEmpty(t, busy.Holder.Program)
		require.Contains(t, busy.Error(), fmt.Sprint(os.Getpid()))
	}
	_, err = other.Create(t.Context(), testID)
	require.ErrorIs(t, err, fs.ErrExist)
	require.NoError(t, j.Close())
	open(t, other, true)
}

// While a session is open, its directory may be moved, removed or replaced. Then appending is an
// error, and the file of someone else is not changed.
func TestDirMoved(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("a directory with open files cannot be moved on this system")
	}
	t.Parallel()
	move := func(t *testing.T, dir string) { require.NoError(t, os.Rename(dir, dir+"-moved")) }
	for name, f := range map[string]func(t *testing.T, dir string){
		"session removed": func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) },
		"session moved":   move,
		"store moved":     func(t *testing.T, dir string) { move(t, filepath.Dir(dir)) },
		"replaced": func(t *testing.T, dir string) {
			move(t, dir)
			require.NoError(t, os.CopyFS(dir, os.DirFS(dir+"-moved")))
		},
		"file replaced": func(t *testing.T, dir string) {
			file := filepath.Join(dir, journalName)
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.WriteFile(file, []byte(line("0")), 0o600))
		},
		"file grown": func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			defer f.Close()
			_, err = f.WriteString(line("0")[:9])
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := filepath.Join(t.TempDir(), "deep", "store")
			s, err := Dir(store)
			require.NoError(t, err)
			j, err := s.Create(t.Context(), testID)
			require.NoError(t, err)
			require.NoError(t, j.Append(t.Context(), true, []byte("1")))
			f(t, filepath.Join(store, testID))
			file := filepath.Join(store, testID, journalName)
			before, _ := os.ReadFile(file)
			for _, durable := range []bool{false, true} {
				err = j.Append(t.Context(), durable, []byte("2"))
				_, ok := errors.AsType[*OpError](err)
				require.True(t, ok, "%v", err)
			}
			if name != "file grown" {
				require.Error(t, j.Put(t.Context(), HashOf(nil), nil))
				require.Error(t, j.Rewrite(t.Context(), slices.Values([][]byte{[]byte("3")}), nil))
			}
			require.NoError(t, j.Close())
			after, _ := os.ReadFile(file)
			require.Equal(t, string(before), string(after))
		})
	}
}

// A journal, an object, a lock or a directory that is a link or a device is refused, and what the
// link points to is not changed.
func TestDirLinks(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("links need a privilege on this system")
	}
	t.Parallel()
	data := []byte("secret")
	hash := HashOf(data)
	for _, name := range []string{"", journalName, lockName, newName, "objects", "objects/" + string(hash)} {
		for _, target := range []string{"file", "directory", "/dev/zero"} {
			t.Run(name+" to "+target, func(t *testing.T) {
				t.Parallel()
				outside := filepath.Join(t.TempDir(), "outside")
				link := outside
				switch target {
				case "directory":
					require.NoError(t, os.Mkdir(outside, 0o700))
				case "file":
					require.NoError(t, os.WriteFile(outside, []byte("foreign\n"), 0o600))
				default:
					link = target
				}
				s, file := dirWith(t)
				j, err := s.Open(t.Context(), testID, true)
				require.NoError(t, err)
				require.NoError(t, j.Put(t.Context(), hash, data))
				require.NoError(t, j.Close())
				place := filepath.Join(filepath.Dir(file), name)
				require.NoError(t, os.RemoveAll(place))
				require.NoError(t, os.Symlink(link, place))
				j, err = s.Open(t.Context(), testID, true)
				if err == nil {
					_, get := j.Get(t.Context(), hash)
					require.Equal(t, name == newName, get == nil, "%v", get) // what is left there is removed
					_ = j.Put(t.Context(), hash, data)
					require.NoError(t, j.Close())
				}
				require.Equal(t, name != newName && !strings.HasPrefix(name, "objects/"), err != nil, "%v", err)
				switch target {
				case "directory":
					list, err := os.ReadDir(outside)
					require.NoError(t, err)
					require.Empty(t, list)
				case "file":
					text, err := os.ReadFile(outside)
					require.NoError(t, err)
					require.Equal(t, "foreign\n", string(text))
				}
			})
		}
	}
}

func listed(t *testing.T, s Store) map[string]Entry {
	t.Helper()
	all := map[string]Entry{}
	for e, err := range s.List(t.Context()) {
		require.NoError(t, err)
		require.NotContains(t, all, e.ID)
		all[e.ID] = e
	}
	return all
}

// The index may be lost, damaged, or of another time. The sessions are listed nevertheless, and
// only what is damaged has lost its description.
func TestDirIndex(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	s, file := dirWith(t)
	index := filepath.Join(filepath.Dir(filepath.Dir(file)), indexName, journalName)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ids := []string{testID, "b", "c"}
	for i, id := range ids {
		if id != testID {
			j, err := s.Create(t.Context(), id)
			require.NoError(t, err)
			require.NoError(t, j.Close())
		}
		j, err := s.Open(t.Context(), id, false)
		require.NoError(t, err)
		require.NoError(t, j.Describe(t.Context(), Entry{ID: "x", Title: "old"}))
		require.NoError(t, j.Describe(t.Context(), Entry{Title: "title " + id, Nodes: i, Used: at}))
		require.NoError(t, j.Close())
	}
	want := map[string]Entry{}
	for i, id := range ids {
		want[id] = Entry{ID: id, Title: "title " + id, Nodes: i, Used: at}
	}
	require.Equal(t, want, listed(t, s))
	text, err := os.ReadFile(index)
	require.NoError(t, err)
	for n := range len(text) {
		damaged := bytes.Clone(text)
		damaged[n] ^= 0x20
		require.NoError(t, os.WriteFile(index, damaged, 0o600))
		got := listed(t, s)
		require.Len(t, got, 3)
		for id, e := range got {
			require.True(t, e == want[id] || e.Title == "" || e.Title == "old", "%+v", e)
			require.False(t, e.Used.IsZero() && e.Title == "")
		}
		require.NoError(t, os.WriteFile(index, text[:n], 0o600))
		require.Len(t, listed(t, s), 3)
		j := open(t, s, false)
		require.NoError(t, j.Describe(t.Context(), Entry{Title: "new"}))
		require.Equal(t, "new", listed(t, s)[testID].Title)
	}
	require.NoError(t, os.Remove(index))
	for _, e := range listed(t, s) {
		require.Empty(t, e.Title)
		require.False(t, e.Used.IsZero())
	}
}

// The index of a program that never lists its sessions is bounded, too.
func TestDirIndexWithoutList(t *testing.T) {
	store, err := Dir(t.TempDir())
	require.NoError(t, err)
	j, err := store.Create(t.Context(), "a")
	require.NoError(t, err)
	defer j.Close()
	e := Entry{ID: "a", Title: strings.Repeat("x", indexSlack/2)}
	most := int64(0)
	for n := range 200 {
		e.Nodes = n
		require.NoError(t, j.Describe(t.Context(), e))
		info, err := os.Stat(filepath.Join(store.(*dirStore).path, indexName, journalName))
		require.NoError(t, err)
		most = max(most, info.Size())
	}
	require.Less(t, most, int64(40*indexSlack))
	found := 0
	for got, err := range store.List(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, 199, got.Nodes)
		found++
	}
	require.Equal(t, 1, found)
}

// Outdated lines do not make the index grow without bound, and compaction loses no description.
func TestDirIndexIsCompacted(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	s, file := dirWith(t)
	j := open(t, s, false)
	gone, err := s.Create(t.Context(), "gone")
	require.NoError(t, err)
	require.NoError(t, gone.Describe(t.Context(), Entry{Title: "gone"}))
	require.NoError(t, gone.Close())
	require.NoError(t, s.Delete(t.Context(), "gone"))
	pad := strings.Repeat("x", 10_000)
	var size int64
	for i := range 200 {
		require.NoError(t, j.Describe(t.Context(), Entry{Title: fmt.Sprint(pad, i)}))
		require.Equal(t, fmt.Sprint(pad, i), listed(t, s)[testID].Title)
		info, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(file)), indexName, journalName))
		require.NoError(t, err)
		size = max(size, info.Size())
	}
	require.Less(t, size, int64(2*indexSlack))
	gone, err = s.Create(t.Context(), "gone")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	require.Empty(t, listed(t, s)["gone"].Title)
}

func TestPrune(t *testing.T) {
	t.Parallel()
	dir, err := Dir(t.TempDir())
	require.NoError(t, err)
	for _, s := range []Store{dir, Memory()} {
		at := func(n int) time.Time { return time.Unix(int64(1000*n), 0) }
		for i := range 6 {
			j, err := s.Create(t.Context(), fmt.Sprintf("s%d", i))
			require.NoError(t, err)
			require.NoError(t, j.Append(t.Context(), false, make([]byte, 1000)))
			require.NoError(t, j.Describe(t.Context(), Entry{Used: at(i)}))
			if i != 0 {
				require.NoError(t, j.Close())
			} else {
				t.Cleanup(func() { require.NoError(t, j.Close()) })
			}
		}
		deleted, err := Prune(t.Context(), s, time.Time{}, 0)
		require.NoError(t, err)
		require.Empty(t, deleted)
		deleted, err = Prune(t.Context(), s, at(2), 0)
		require.NoError(t, err)
		require.Equal(t, []string{"s1"}, deleted) // s0 is open
		deleted, err = Prune(t.Context(), s, time.Time{}, 3500)
		require.NoError(t, err)
		require.Equal(t, []string{"s2", "s3"}, deleted)
		require.Len(t, listed(t, s), 3)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = Prune(ctx, s, at(9), 0)
		require.ErrorIs(t, err, context.Canceled)
	}
}

// A process that was stopped while it wrote the index keeps the lock of the index. Other processes go on without descriptions.
func TestIndexOfAStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Memory().(*dirStore)
		j, err := s.Create(t.Context(), "a")
		require.NoError(t, err)
		d, err := s.open(s.path)
		require.NoError(t, err)
		stopped, err := s.acquire(t.Context(), "describe", d, indexName, true)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorAs(t, j.Describe(ctx, Entry{Title: "x"}), new(*BusyError))
		require.NoError(t, stopped.Close())
		require.NoError(t, j.Describe(ctx, Entry{Title: "x"}))
		require.NoError(t, j.Close())
	})
}
