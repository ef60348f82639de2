package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/source"
)

// The lists that are fused have up to this many items, or four times as many as are wanted. A place in one
// counts 1/(fusion+place), as Cormack, Clarke and Büttcher propose (2009).
const (
	listed = 50
	fusion = 60
)

// Retriever searches the chunks of files by words and by meaning. It is safe for concurrent use, but the same file
// must not be put or removed by two calls at once.
type Retriever struct {
	words   *Lexical
	embed   *batcher // nil without an embedder
	vectors *Index
	file    string // or ""
	loadErr error

	mu     sync.RWMutex // guards all that follows
	files  map[string][]string
	chunks map[string]*Chunk
}

// File is a file to search.
type File struct {
	Path   string // with slashes
	Source []byte
	Facts  *source.Facts // nil if it is not code
}

// Hit is a chunk that a search found.
type Hit struct {
	Chunk
	Score float64
}

// Result is the result of a search.
type Result struct {
	Hits []Hit // the best first
	// WordsOnly says that there is no embedder, so that only chunks with words of the query were found.
	WordsOnly bool
}

type config struct {
	embedder Embedder
	remote   bool
	file     string
	params   Params
}

// Option sets a property of a [Retriever]. The last one counts.
type Option func(*config) error

// WithEmbedder sets an embedder on this machine. One that is not a [LocalEmbedder], or says that it is not
// local, is refused with an [*aycoder.ConfigError]. Default: none, so searches are by words only.
func WithEmbedder(e Embedder) Option {
	return func(c *config) error {
		if l, ok := e.(LocalEmbedder); !ok || !l.EmbedsLocally() {
			return &aycoder.ConfigError{Option: "WithEmbedder", Err: errors.New("embedder is not on this machine: see WithRemoteEmbedder")}
		}
		c.embedder, c.remote = e, false
		return nil
	}
}

// WithRemoteEmbedder sets an embedder to which the text of all files and queries is sent, wherever it is. Secrets that
// have a known form are replaced by placeholders before. Default: none.
func WithRemoteEmbedder(e Embedder) Option {
	return func(c *config) error {
		if e == nil {
			return &aycoder.ConfigError{Option: "WithRemoteEmbedder", Err: errors.New("embedder is nil")}
		}
		c.embedder, c.remote = e, true
		return nil
	}
}

// WithFile sets the file in which [Retriever.Save] keeps the vectors, and from which [New] reads them. Default: none.
func WithFile(path string) Option {
	return func(c *config) error { c.file = path; return nil }
}

// WithParams sets the parameters of the index of vectors. Default: those of [Params].
func WithParams(p Params) Option {
	return func(c *config) error { c.params = p; return nil }
}

// New returns a retriever without files. It may ask the embedder for the dimension of its vectors. If the file of
// [WithFile] cannot be used, the retriever begins without vectors; see [Retriever.LoadError].
func New(ctx context.Context, opts ...Option) (*Retriever, error) {
	var c config
	var errs []error
	for _, o := range opts {
		errs = append(errs, o(&c))
	}
	r := &Retriever{words: NewLexical(), file: c.file, files: map[string][]string{}, chunks: map[string]*Chunk{}}
	err := errors.Join(errs...)
	if err == nil && c.embedder != nil {
		err = r.begin(ctx, &c)
	}
	if err != nil {
		return nil, fmt.Errorf("new retriever: %w", err)
	}
	return r, nil
}

func (r *Retriever) begin(ctx context.Context, c *config) (err error) {
	if r.embed, err = newBatcher(ctx, c.embedder, c.remote); err != nil {
		return err
	}
	if r.vectors, err = NewIndex(r.embed.model, r.embed.dim, c.params); err != nil || c.file == "" {
		return err
	}
	r.vectors, r.loadErr = Load(c.file, r.embed.model, r.embed.dim, c.params)
	return nil
}

// LoadError returns why the vectors in the file of [WithFile] were not used, as [Load] says it, or nil.
func (r *Retriever) LoadError() error { return r.loadErr }

// Put adds files, and replaces those with the same paths. Chunks that have a vector are not embedded again. If
// texts cannot be embedded, Put returns the error of the embedder and none of the files is changed. More
// files in one call make fewer requests.
func (r *Retriever) Put(ctx context.Context, files ...File) error {
	chunks, texts := make([][]Chunk, len(files)), map[string]string{}
	for i, f := range files {
		chunks[i] = Chunks(f.Path, f.Source, f.Facts)
		for _, c := range chunks[i] {
			texts[c.ID] = c.Path + "\n" + string(f.Source[c.Start:c.End])
		}
	}
	if err := r.addVectors(ctx, chunks, texts); err != nil {
		return fmt.Errorf("put files: %w", err)
	}
	var gone []string
	for i, f := range files {
		gone = append(gone, r.replace(f.Path, chunks[i])...)
		for _, c := range chunks[i] {
			r.words.Put(c.Item, c.Name+"\n"+texts[c.ID])
		}
	}
	return r.forget(ctx, gone)
}

// addVectors adds the vectors that are missing.
func (r *Retriever) addVectors(ctx context.Context, chunks [][]Chunk, texts map[string]string) error {
	if r.embed == nil {
		return nil
	}
	var added []Vector
	var missing []string
	for _, c := range slices.Concat(chunks...) {
		if !r.vectors.Has(c.ID) {
			added = append(added, Vector{Item: c.Item})
			missing = append(missing, texts[c.ID])
		}
	}
	if len(added) == 0 {
		return nil
	}
	vectors, err := r.embed.texts(ctx, missing)
	if err != nil {
		return err
	}
	for i := range added {
		added[i].Values = vectors[i]
	}
	return r.vectors.Add(ctx, added...)
}

// replace sets the chunks of a file, and returns the IDs that are gone.
func (r *Retriever) replace(path string, chunks []Chunk) (gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.files[path]
	for _, id := range old {
		delete(r.chunks, id)
	}
	var ids []string
	for _, c := range chunks {
		ids = append(ids, c.ID)
		r.chunks[c.ID] = &c
	}
	if r.files[path] = ids; ids == nil {
		delete(r.files, path)
	}
	return slices.DeleteFunc(old, func(id string) bool { return r.chunks[id] != nil })
}

func (r *Retriever) forget(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	r.words.Delete(ids...)
	if r.vectors == nil {
		return nil
	}
	return r.vectors.Delete(ctx, ids...)
}

// Remove removes files, if they are there.
func (r *Retriever) Remove(ctx context.Context, paths ...string) error {
	var gone []string
	for _, path := range paths {
		gone = append(gone, r.replace(path, nil)...)
	}
	return r.forget(ctx, gone)
}

// Prune deletes vectors from the file of [WithFile] whose chunks were not put since. Hosts call it after they have put
// all files.
func (r *Retriever) Prune(ctx context.Context) error {
	if r.vectors == nil {
		return nil
	}
	var unknown []string
	for _, i := range r.vectors.Items() {
		if r.chunk(i.ID) == nil {
			unknown = append(unknown, i.ID)
		}
	}
	return r.vectors.Delete(ctx, unknown...)
}

// Save writes the vectors to the file of [WithFile], if there is one. See [Index.Save].
func (r *Retriever) Save() error {
	if r.vectors == nil || r.file == "" {
		return nil
	}
	return r.vectors.Save(r.file)
}

// Stats returns the number of files and chunks, and the numbers of the index of vectors.
func (r *Retriever) Stats() (files, chunks int, vectors Stats) {
	if r.vectors != nil {
		vectors = r.vectors.Stats()
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.files), len(r.chunks), vectors
}

func (r *Retriever) chunk(id string) *Chunk {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.chunks[id]
}

// Search returns the k chunks that fit a question or some words best. If the question cannot be embedded, that is an
// error.
func (r *Retriever) Search(ctx context.Context, query string, k int, filter Filter) (Result, error) {
	keep, n := filter.Keep(), max(listed, 4*k)
	lists := [][]Match{r.words.Search(query, n, keep)}
	if r.embed != nil && strings.TrimSpace(query) != "" {
		q, err := r.embed.query(ctx, query)
		if err != nil {
			return Result{}, fmt.Errorf("search: %w", err)
		}
		near, err := r.vectors.Search(q, n, keep)
		if err != nil {
			return Result{}, err
		}
		lists = append(lists, near)
	}
	return Result{Hits: r.fuse(lists, k), WordsOnly: r.embed == nil}, ctx.Err()
}

// Suggest returns at most n ways to complete the last word of a half-typed query. See [Lexical.Suggest].
func (r *Retriever) Suggest(query string, n int) []string { return r.words.Suggest(query, n) }

// fuse returns the best of several lists by reciprocal ranks.
func (r *Retriever) fuse(lists [][]Match, k int) (hits []Hit) {
	scores := map[string]float64{}
	for _, list := range lists {
		place := 0
		for _, m := range list {
			if r.chunk(m.Item.ID) != nil { // else it is of a file that is not there any more
				place++
				scores[m.Item.ID] += 1 / float64(fusion+place)
			}
		}
	}
	for id, score := range scores {
		if c := r.chunk(id); c != nil {
			hits = append(hits, Hit{*c, score})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
	})
	return hits[:max(min(k, len(hits)), 0)]
}
