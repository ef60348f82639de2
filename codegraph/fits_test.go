package codegraph_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/stretchr/testify/require"
)

// stubborn is an analyzer that gives the same facts for each file of Go.
type stubborn struct{ facts source.Facts }

func (s stubborn) Extensions() []string { return []string{".go"} }

func (s stubborn) Scan(string, []byte) (*source.Facts, error) { return &s.facts, nil }

// Facts of an analyzer that cannot be those of the file are not used.
func TestFactsThatDoNotFit(t *testing.T) {
	at := source.Span{Start: 0, End: 9}
	for name, tt := range map[string]struct {
		facts source.Facts
		fits  bool
	}{
		"sound": {source.Facts{
			Language: source.Go,
			Imports:  []source.Import{{Path: "x", At: at}}, Exports: []source.Export{{Name: "x", Import: 0}},
			Decls: []source.Decl{{Name: "T", Parent: -1, At: at}, {Name: "f", Parent: 0, At: source.Span{Start: 2, End: 4}, NameAt: 3}},
			Uses:  []source.Use{{Name: "a", Count: 1}, {Of: "a", Name: "a", Count: 9}},
		}, true},
		"behind the end":      {source.Facts{Decls: []source.Decl{{Parent: -1, At: source.Span{Start: 3, End: 1 << 20}}}}, false},
		"before the start":    {source.Facts{Imports: []source.Import{{At: source.Span{Start: -1, End: 1}}}}, false},
		"backwards":           {source.Facts{Imports: []source.Import{{At: source.Span{Start: 5, End: 4}}}}, false},
		"unordered":           {source.Facts{Imports: []source.Import{{At: source.Span{Start: 5, End: 6}}, {At: at}}}, false},
		"name elsewhere":      {source.Facts{Decls: []source.Decl{{Parent: -1, At: at, NameAt: 10}}}, false},
		"body elsewhere":      {source.Facts{Decls: []source.Decl{{Parent: -1, At: at, Body: source.Span{Start: 5, End: 10}}}}, false},
		"parent later":        {source.Facts{Decls: []source.Decl{{Parent: 0, At: at}}}, false},
		"no parent":           {source.Facts{Decls: []source.Decl{{Parent: -2, At: at}}}, false},
		"no import":           {source.Facts{Exports: []source.Export{{Name: "x", Import: 0}}}, false},
		"uses twice":          {source.Facts{Uses: []source.Use{{Name: "a", Count: 1}, {Name: "a", Count: 1}}}, false},
		"too many uses":       {source.Facts{Uses: []source.Use{{Name: "a", Count: 1 << 30}}}, false},
		"import without name": {source.Facts{Language: source.Rust, Imports: []source.Import{{Path: "crate::a", At: at}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			files := &memory{MapFS: fstest.MapFS{}}
			files.put("a.go", "package a\n\nfunc F() {}\n")
			g, err := codegraph.New(files, codegraph.WithAnalyzer(stubborn{tt.facts}))
			require.NoError(t, err)
			s, err := g.Refresh(t.Context())
			require.NoError(t, err)
			if tt.fits {
				require.Equal(t, &tt.facts, s.Facts("a.go"))
			} else {
				require.Equal(t, "F", s.Facts("a.go").Decls[0].Name)
			}
		})
	}
}

// slow does not list a directory before it is told to.
type slow struct {
	*memory
	listing, proceed chan struct{}
}

func (s slow) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	close(s.listing)
	<-s.proceed
	return s.memory.ReadDir(ctx, name)
}

// A refresh that waits for another one ends with its context.
func TestRefreshWaits(t *testing.T) {
	files := slow{&memory{MapFS: fstest.MapFS{}}, make(chan struct{}), make(chan struct{})}
	g, err := codegraph.New(files)
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		_, err := g.Refresh(t.Context())
		done <- err
	}()
	<-files.listing
	cause := errors.New("no time")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	s, err := g.Refresh(ctx)
	require.ErrorIs(t, err, cause)
	require.NotNil(t, s)
	close(files.proceed)
	require.NoError(t, <-done)
}
