package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

const testID = "a-1"

// item is a record of these tests. It may name an object.
type item struct {
	N      int  `json:"n"`
	Object Hash `json:"object,omitempty"`
}

type version struct {
	records []string
	durable int
}

// powerRun does random operations, and knows what must be there after a loss of power.
type powerRun struct {
	t   *testing.T
	rnd *rand.Rand
	fs  *fakeFS
	j   Journal
	n   int
	// known are the records so far, of which the first ones are durable. During Rewrite, the new
	// records may be there instead.
	known    []string
	durable  int
	created  bool
	rewrite  []string
	rewrites bool
	objects  []Hash
	points   int
	failing  bool // operations may fail
	// A failed Rewrite may have put the new records in place. Then a loss of power may bring the
	// former ones back.
	former    []version
	uncertain []string // records of a failed Append that may be there
}

func (p *powerRun) check(err error) bool {
	if !p.failing {
		require.NoError(p.t, err)
	}
	return err == nil
}

// record makes a record, perhaps with an object, new or known.
func (p *powerRun) record() (string, bool) {
	p.n++
	x := item{N: p.n}
	switch p.rnd.IntN(3) {
	case 0:
		data := fmt.Appendf(nil, "object %d", p.rnd.IntN(12))
		x.Object = HashOf(data)
		if !p.check(p.j.Put(p.t.Context(), x.Object, data)) {
			return "", false
		}
		p.objects = append(p.objects, x.Object)
	case 1:
		if len(p.objects) > 0 {
			x.Object = p.objects[p.rnd.IntN(len(p.objects))]
		}
	}
	text, err := json.Marshal(x)
	require.NoError(p.t, err)
	return string(text), true
}

func (p *powerRun) append() {
	var records [][]byte
	before := len(p.known)
	var added []string
	for range 1 + p.rnd.IntN(3) {
		r, ok := p.record()
		if !ok {
			return
		}
		added = append(added, r)
		records = append(records, []byte(r))
	}
	p.known = append(p.known, added...)
	durable := p.rnd.IntN(2) == 0
	err := p.j.Append(p.t.Context(), durable, records...)
	switch {
	case !p.check(err):
		p.known = p.known[:before]
		if errors.Is(err, ErrUncertain) {
			p.uncertain = added
		}
	case durable:
		p.durable = len(p.known)
		fallthrough
	default:
		p.uncertain = nil
	}
}

// compact keeps some records, and the objects that they name.
func (p *powerRun) compact() {
	p.rewrite, p.rewrites = nil, true
	named := map[Hash]bool{}
	for _, r := range p.known {
		if p.rnd.IntN(3) > 0 {
			p.rewrite = append(p.rewrite, r)
			named[objectOf(p.t, r)] = true
		}
	}
	err := p.j.Rewrite(p.t.Context(), func(yield func([]byte) bool) {
		for _, r := range p.rewrite {
			if !yield([]byte(r)) {
				return
			}
		}
	}, func(h Hash) bool { return named[h] })
	p.rewrites = false
	if !p.check(err) {
		// The error does not say whether the new records are there.
		if slices.Equal(read(p.t, p.j, nil), p.rewrite) {
			p.former = append(p.former, version{p.known, p.durable})
			p.known, p.durable = p.rewrite, 0
		}
	} else {
		p.former = nil
		p.known, p.durable = p.rewrite, len(p.rewrite)
	}
	p.objects = slices.DeleteFunc(p.objects, func(h Hash) bool { return !named[h] })
}

// reopen ends the process without a loss of power, and opens the session in another one.
func (p *powerRun) reopen() {
	p.fs.killed()
	j, err := p.fs.store().Open(p.t.Context(), testID, true)
	if p.check(err) {
		p.j, p.former = j, nil
		got := read(p.t, j, nil)
		if more := len(got) - len(p.known); more > 0 && more <= len(p.uncertain) {
			require.Equal(p.t, p.uncertain[:more], got[len(p.known):])
			p.known = got
		}
		p.uncertain = nil
	}
}

func (p *powerRun) step() {
	switch n := p.rnd.IntN(10); {
	case n == 0:
		p.compact()
	case n == 1:
		p.reopen()
	case n == 2:
		p.check(p.j.Describe(p.t.Context(), Entry{Title: "t"}))
	default:
		p.append()
	}
}

func objectOf(t *testing.T, record string) Hash {
	var x item
	require.NoError(t, json.Unmarshal([]byte(record), &x))
	return x.Object
}

// read returns the records. It counts the damaged ones, but not a torn one; with nil, there must
// not be any.
func read(t *testing.T, j Journal, damaged *int) (list []string) {
	t.Helper()
	for r, err := range j.Records(t.Context()) {
		if d, ok := errors.AsType[*DamageError](err); ok && (d.Torn || damaged != nil) {
			if !d.Torn {
				*damaged++
			}
			continue
		}
		require.NoError(t, err)
		list = append(list, string(r))
	}
	return list
}

// lost checks what is there after a loss of power at this point.
func (p *powerRun) lost(image *fakeFS) {
	p.points++
	ctx := p.t.Context()
	j, err := image.store().Open(ctx, testID, true)
	if !p.created && errors.Is(err, fs.ErrNotExist) {
		j, err = image.store().Create(ctx, testID)
	}
	require.NoError(p.t, err)
	damaged := 0
	got := read(p.t, j, &damaged)
	if !p.survived(got, damaged) {
		require.Fail(p.t, "records", "got %q, damaged %d, known %q, durable %d, rewrite %t %q", got, damaged,
			p.known, p.durable, p.rewrites, p.rewrite)
	}
	for _, r := range got {
		if h := objectOf(p.t, r); h != "" {
			_, err := j.Get(ctx, h)
			require.NoError(p.t, err, "object of %s", r)
		}
	}
	for _, err := range image.store().List(ctx) {
		require.NoError(p.t, err)
	}
	// The journal can be used after that, and loses nothing at the next loss of power.
	require.NoError(p.t, j.Append(ctx, true, []byte(`{"n":-1}`)))
	again := image.crash(nil)
	j, err = again.store().Open(ctx, testID, false)
	require.NoError(p.t, err)
	require.Equal(p.t, append(got, `{"n":-1}`), read(p.t, j, new(int)))
}

func (p *powerRun) survived(got []string, damaged int) bool {
	if inOrder(got, p.known, p.durable, damaged) {
		return true
	}
	for _, v := range p.former {
		if inOrder(got, v.records, v.durable, damaged) {
			return true
		}
	}
	return p.rewrites && inOrder(got, p.rewrite, len(p.rewrite), damaged)
}

// inOrder reports whether got is the beginning of known, with at least the durable records.
// Records after the durable ones may be missing if damage was reported.
func inOrder(got, known []string, durable, damaged int) bool {
	if len(got) < durable {
		return false
	}
	k := 0
	for i, r := range got {
		for k < len(known) && known[k] != r && damaged > 0 && i >= durable {
			k++
		}
		if k == len(known) || known[k] != r {
			return false
		}
		k++
	}
	return true
}

// rounds returns how often a random test is repeated: AYCODER_ROUNDS, or else a number for -short and
// one for other runs. With the race detector, it is a fifth of that.
func rounds(t *testing.T, usual, short int) int {
	n, err := strconv.Atoi(os.Getenv("AYCODER_ROUNDS"))
	switch {
	case err == nil:
		return n
	case timed.Reduced(t):
		return usual / 5
	case testing.Short():
		return short
	}
	return usual
}

// At every point of a run, power is lost or the process is killed. Everything that was acknowledged as durable is there,
// each record is whole, and names only objects that are there.
func TestPowerLoss(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	runs := rounds(t, 30, 15)
	points := 0
	for seed := range runs {
		p := &powerRun{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 1)), fs: newFakeFS()}
		p.fs.after = func() {
			p.lost(p.fs.crash(nil))
			p.lost(p.fs.crash(p.rnd))
			p.lost(p.fs.copy()) // the process is killed, and power is lost later
		}
		var err error
		p.j, err = p.fs.store().Create(t.Context(), testID)
		require.NoError(t, err)
		p.created = true
		for range 25 {
			p.step()
		}
		require.ElementsMatch(t, p.known, read(t, p.j, nil))
		points += p.points
	}
	require.Greater(t, points, 100*runs)
	t.Logf("%d losses of power in %d runs", points, runs)
}

// Any operation may fail at any time. The records are those whose Append returned nil, none is
// joined with half of another one, and a loss of power later finds what was acknowledged.
func TestFaults(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	faults := 0
	for seed := range rounds(t, 80, 40) {
		p := &powerRun{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 2)), fs: newFakeFS(), failing: true}
		var err error
		p.j, err = p.fs.store().Create(t.Context(), testID)
		require.NoError(t, err)
		p.created = true
		for range 40 {
			p.fs.fault = func(op, _ string) error {
				if op != "read" && p.rnd.IntN(12) == 0 {
					faults++
					return []error{syscall.ENOSPC, syscall.EIO}[p.rnd.IntN(2)]
				}
				return nil
			}
			p.step()
			p.fs.fault = nil
			if got := read(t, p.j, nil); !slices.Equal(got, p.known) {
				require.Equal(t, p.known, got, "seed %d", seed)
			}
			p.lost(p.fs.crash(nil))
		}
		p.reopen()
		got := read(t, p.j, nil)
		require.True(t, slices.Equal(p.known, got), "seed %d: %q, want %q", seed, got, p.known)
		require.NoError(t, p.j.Append(t.Context(), true, []byte(`{}`)))
	}
	t.Logf("%d faults", faults)
}

// After a flush failed, nobody knows what is on the disk. Nothing is acknowledged after that,
// until the session is rewritten or opened anew.
func TestFailedFlush(t *testing.T) {
	t.Parallel()
	f := newFakeFS()
	j, err := f.store().Create(t.Context(), testID)
	require.NoError(t, err)
	require.NoError(t, j.Append(t.Context(), true, []byte(`{"n":1}`)))
	f.fault = func(op, _ string) error {
		if op == "fsync" {
			return syscall.EIO
		}
		return nil
	}
	require.ErrorIs(t, j.Append(t.Context(), true, []byte(`{"n":2}`)), syscall.EIO)
	f.fault = nil
	err = j.Append(t.Context(), true, []byte(`{"n":3}`))
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, "earlier")
	require.Equal(t, []string{`{"n":1}`}, read(t, j, nil))
	require.NoError(t, j.Rewrite(t.Context(), slices.Values([][]byte{[]byte(`{"n":1}`)}), nil))
	require.NoError(t, j.Append(t.Context(), true, []byte(`{"n":4}`)))
	require.Equal(t, []string{`{"n":1}`, `{"n":4}`}, read(t, j, nil))
}

// Where files cannot be locked, a session can be opened for writing only if the host opts out.
func TestNoLocks(t *testing.T) {
	t.Parallel()
	f := newFakeFS()
	f.fault = func(op, _ string) error {
		if op == "lock" {
			return syscall.ENOLCK
		}
		return nil
	}
	s := f.store()
	_, err := s.Create(t.Context(), testID)
	require.ErrorIs(t, err, ErrNoLock)
	require.ErrorIs(t, err, syscall.ENOLCK)
	require.NoError(t, WithoutLock()(s))
	j, err := s.Create(t.Context(), testID)
	require.NoError(t, err)
	require.NoError(t, j.Append(t.Context(), true, []byte(`1`)))
	require.NoError(t, j.Describe(t.Context(), Entry{Title: "x"}))
	_, err = s.Create(t.Context(), testID)
	require.ErrorIs(t, err, fs.ErrExist)
	require.Equal(t, []string{"1"}, read(t, j, nil))
}

// If power is lost while a session is deleted, the session is there with all of its objects, or it
// is gone and can be created again. An old description never comes back.
func TestPowerLossInDelete(t *testing.T) {
	t.Parallel()
	f := newFakeFS()
	ctx := t.Context()
	s := f.store()
	j, err := s.Create(ctx, testID)
	require.NoError(t, err)
	data := []byte("object")
	require.NoError(t, j.Put(ctx, HashOf(data), data))
	require.NoError(t, j.Append(ctx, true, []byte("1")))
	require.NoError(t, j.Describe(ctx, Entry{Title: "old"}))
	require.NoError(t, j.Close())
	there, gone := 0, 0
	rnd := rand.New(rand.NewPCG(1, 1))
	f.after = func() {
		for i := range 20 {
			image := f.copy()
			if i > 0 {
				image = f.crash([]*rand.Rand{nil, rnd}[min(i-1, 1)])
			}
			j, err := image.store().Open(ctx, testID, true)
			if err == nil {
				there++
				require.Equal(t, []string{"1"}, read(t, j, nil))
				_, err = j.Get(ctx, HashOf(data))
				require.NoError(t, err)
				continue
			}
			gone++
			require.ErrorIs(t, err, fs.ErrNotExist)
			j, err = image.store().Create(ctx, testID)
			require.NoError(t, err)
			require.Empty(t, read(t, j, nil))
			_, err = j.Get(ctx, HashOf(data))
			require.ErrorIs(t, err, fs.ErrNotExist)
			for e, err := range image.store().List(ctx) {
				require.NoError(t, err)
				require.Empty(t, e.Title)
			}
		}
	}
	require.NoError(t, s.Delete(ctx, testID))
	require.Positive(t, there)
	require.Positive(t, gone)
	f.after = nil
	require.Empty(t, slices.Collect(func(yield func(string) bool) {
		names, err := (&fakeDisk{fs: f, node: f.root}).names(".")
		require.NoError(t, err)
		for _, n := range names {
			if CheckID(n) == nil && !yield(n) {
				return
			}
		}
	}))
}
