package workspace

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/atomicswap"
	"github.com/aycoder/aycoder/internal/timed"
)

// race is a workspace in which somebody exchanges the directory d with a link of that
// name, again and again, in one step.
type race struct {
	t      *testing.T
	w      *Workspace
	inside *os.Root // the directory, under whatever name
	bad    string   // where the link leads
	before []time.Time
	stop   atomic.Bool
	wg     sync.WaitGroup
}

// newRace starts the exchange with a link that leads to a directory, seen from the
// workspace.
func newRace(t *testing.T, to string) *race {
	t.Helper()
	w, dir := testWorkspace(t, map[string]string{"d/f": "inside"})
	r := &race{t: t, w: w, bad: filepath.Join(dir, to)}
	require.NoError(t, os.Mkdir(r.bad, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(r.bad, "f"), []byte("SECRET"), 0o644))
	require.NoError(t, os.Symlink(to, filepath.Join(dir, "s")))
	var err error
	r.inside, err = os.OpenRoot(filepath.Join(dir, "d"))
	require.NoError(t, err)
	r.before = r.times()
	top, err := os.Open(dir)
	require.NoError(t, err)
	err = atomicswap.Exchange(top, "d", "s")
	if err != nil {
		t.Skipf("two names cannot be exchanged here: %v", err)
	}
	r.wg.Go(func() {
		defer top.Close()
		for !r.stop.Load() {
			_ = atomicswap.Exchange(top, "d", "s")
		}
	})
	t.Cleanup(r.end)
	return r
}

func (r *race) end() {
	r.stop.Store(true)
	r.wg.Wait()
	r.inside.Close()
}

// times tell of everything that happens in the directory where nothing may happen: also
// of a file that was there for a moment.
func (r *race) times() []time.Time {
	var all []time.Time
	for _, name := range []string{r.bad, filepath.Join(r.bad, "f")} {
		info, err := os.Stat(name)
		require.NoError(r.t, err)
		all = append(all, info.ModTime())
	}
	return all
}

func (r *race) read(int) error {
	f, err := r.w.Open("d/f")
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	require.NoError(r.t, err)
	require.Equal(r.t, "inside", string(data))
	return nil
}

func (r *race) list(int) error {
	entries, err := r.w.ReadDir(r.t.Context(), "d/sub")
	if err == nil {
		require.Empty(r.t, entries)
	}
	return err
}

func (r *race) create(i int) error {
	name := "n" + strconv.Itoa(i)
	err := create(r.w, "d/"+name, "new")
	if err == nil {
		require.NoError(r.t, r.inside.Remove(name))
	}
	return err
}

func (r *race) makeDirectory(i int) error {
	name := "m" + strconv.Itoa(i)
	err := create(r.w, "d/"+name+"/x/y", "new")
	require.NoError(r.t, r.inside.RemoveAll(name))
	return err
}

func (r *race) change(i int) error {
	was, now := "even", "odd"
	if i%2 == 1 {
		was, now = now, was
	}
	require.NoError(r.t, r.inside.WriteFile("g", []byte(was), 0o644))
	return replace(r.w, "d/g", was, now)
}

func (r *race) remove(int) error {
	require.NoError(r.t, r.inside.WriteFile("h", []byte("gone soon"), 0o644))
	return applyOne(r.w, edit.File{Path: "d/h", Kind: edit.Delete, Base: "gone soon"})
}

// Somebody exchanges a directory and a link while all kinds of reads and writes go on
// below it. AYCODER_RACE is the number of tries of each.
func TestExchangeRace(t *testing.T) {
	timed.Long(t, "races for a file")
	tries, err := strconv.Atoi(os.Getenv("AYCODER_RACE"))
	if err != nil {
		tries = 400
	}
	for where, to := range map[string]string{"outside": "../ws-out", "secret": ".ssh"} {
		for name, do := range map[string]func(*race, int) error{
			"read": (*race).read, "list": (*race).list, "create": (*race).create, "directories": (*race).makeDirectory,
			"change": (*race).change, "delete": (*race).remove,
		} {
			t.Run(where+"/"+name, func(t *testing.T) {
				if name == "list" && where == "secret" {
					t.Skip("the names in a directory of secrets are not secret")
				}
				r := newRace(t, to)
				require.NoError(t, r.inside.Mkdir("sub", 0o755))
				done, kinds := 0, map[string]int{}
				i := 0
				for ; i < tries || (done == 0 || done == i) && i < 1000*tries; i++ {
					if err := do(r, i); err != nil {
						kinds[cmp.Or(kindOf(err), "conflict")]++
						continue
					}
					done++
				}
				r.end()
				t.Logf("%d tries beside the exchange: %d worked, the others: %v", i, done, kinds)
				assert.Positive(t, done)
				assert.Less(t, done, i)
				assert.Equal(t, r.before, r.times())
				entries, err := os.ReadDir(r.bad)
				require.NoError(t, err)
				assert.Len(t, entries, 1)
				data, err := os.ReadFile(filepath.Join(r.bad, "f"))
				require.NoError(t, err)
				assert.Equal(t, "SECRET", string(data))
			})
		}
	}
}
