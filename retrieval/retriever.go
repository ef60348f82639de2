package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/order"
)

// The lists that are fused have up to this many items, or four times as many as are wanted. A place in one
// counts weight/(fusion+place), as Cormack, Clarke and Büttcher propose (2009) with equal weights.
//
// The other chunks of a file in a list raise the scores of its chunks: by a share of the score of the second one,
// half of that of the third one, and so on. So a file that has much of what is sought comes before one that mentions it once.
// docs/benchmarks.md says how the numbers were chosen.
const (
	listed = 50
	fusion = 60

	wordsWeight, wordsShare = 1, 0.6
	nearWeight, nearShare   = 0.5, 0.3
)

// Retriever searches the chunks of files by words and by meaning. It is safe for concurrent use, but the same file
// must not be put or removed by two calls at once.
type Retriever struct {
	words   *Lexical
	mask    func(string) string
	embed   *batcher // nil without an embedder
	vectors *Index
	file    string // or ""
	loadErr error
	turn    chan struct{} // holds a value while texts are embedded

	mu      sync.RWMutex // guards all that follows
	files   map[string][]string
	chunks  map[string]*Chunk
	pending map[string]string // the texts of chunks that have no vector yet, by ID
	refused map[string]bool   // those of pending whose texts the embedder does not take
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
	// WordsOnly says that there is no embedder, or that it failed, so that only chunks with words of the query were
	// found.
	WordsOnly bool
	// Pending is the number of chunks that have no vector yet, and were searched by words only.
	Pending int
}

type config struct {
	embedder Embedder
	file     string
}

// Option sets a property of a [Retriever]. The last one counts.
type Option func(*config) error

// WithEmbedder sets an embedder on this machine. One that is not a [LocalEmbedder], or says that it is not
// local, is refused with an [*aycoder.ConfigError]. Default: none, so searches are by words only.
func WithEmbedder(e Embedder) Option {
	return func(c *config) error {
		if e == nil {
			return &aycoder.ConfigError{Option: "WithEmbedder", Err: errors.New("embedder is nil")}
		}
		if l, ok := e.(LocalEmbedder); !ok || !l.EmbedsLocally() {
			return &aycoder.ConfigError{Option: "WithEmbedder", Err: errors.New("embedder is not on this machine: see WithRemoteEmbedder")}
		}
		c.embedder = e
		return nil
	}
}

// WithRemoteEmbedder sets an embedder to which the text of all files and queries is sent, wherever it is. Default: none.
func WithRemoteEmbedder(e Embedder) Option {
	return func(c *config) error {
		if e == nil {
			return &aycoder.ConfigError{Option: "WithRemoteEmbedder", Err: errors.New("embedder is nil")}
		}
		c.embedder = e
		return nil
	}
}

// WithFile sets the file in which [Retriever.Save] keeps the vectors, and from which [New] reads them. Default: none.
func WithFile(path string) Option {
	return func(c *config) error { c.file = path; return nil }
}

// New returns a retriever without files. It may ask the embedder for the dimension of its vectors. If the file of
// [WithFile] cannot be used, the retriever begins without vectors; see [Retriever.LoadError].
func New(ctx context.Context, opts ...Option) (*Retriever, error) {
	var c config
	err := option.Apply(&c, opts)
	r := &Retriever{words: NewLexical(), mask: mask.New().Excerpt, file: c.file, turn: make(chan struct{}, 1),
		files: map[string][]string{}, chunks: map[string]*Chunk{}, pending: map[string]string{}, refused: map[string]bool{}}
	if err == nil && c.embedder != nil {
		err = r.begin(ctx, &c)
	}
	if err != nil {
		return nil, fmt.Errorf("new retriever: %w", err)
	}
	return r, nil
}

func (r *Retriever) begin(ctx context.Context, c *config) (err error) {
	if r.embed, err = newBatcher(ctx, c.embedder, r.mask); err != nil {
		return err
	}
	if r.vectors, err = NewIndex(r.embed.model, r.embed.dim); err != nil || c.file == "" {
		return err
	}
	r.vectors, r.loadErr = Load(c.file, r.embed.model, r.embed.dim)
	return nil
}

// LoadError returns why the vectors in the file of [WithFile] were not used, as [Load] says it, or nil.
func (r *Retriever) LoadError() error { return r.loadErr }

// Put adds files, and replaces those with the same paths. Secrets that have a known form are replaced by placeholders
// before a text is indexed or embedded. Then Put embeds as [Retriever.Embed] does; if that fails, the files
// are found by words. More files in one call make fewer requests.
func (r *Retriever) Put(ctx context.Context, files ...File) error {
	if err := r.put(ctx, files); err != nil {
		return fmt.Errorf("put files: %w", err)
	}
	return r.embedPending(ctx, nil)
}

// put adds files to the index of words.
func (r *Retriever) put(ctx context.Context, files []File) error {
	for _, f := range files {
		chunks := Chunks(f.Path, f.Source, f.Facts)
		texts := make([]string, len(chunks))
		for i, c := range chunks {
			texts[i] = c.Path + "\n" + r.mask(string(f.Source[c.Start:c.End]))
			names := c.Name + "\n" + c.Path + "\n" // which say more than the code does
			r.words.Put(c.Item, names+c.Name+"\n"+texts[i])
		}
		if err := r.forget(ctx, r.replace(f.Path, chunks, texts)); err != nil {
			return err
		}
	}
	return nil
}

// maxRefusals is how often in a row the embedder may refuse before it is taken for one that refuses everything.
const maxRefusals = 16

// Embed makes the vectors that chunks of files do not have yet, a few at a time. If the embedder fails, Embed
// returns its error. If it refuses some texts, because they are too long for it, for example, Embed makes the vectors of
// the others, and then returns the error for the first of them. Vectors that it has made before are kept, also if ctx ends.
// Without an embedder, it does nothing.
func (r *Retriever) Embed(ctx context.Context) error {
	r.mu.Lock()
	clear(r.refused)
	r.mu.Unlock()
	return r.embedPending(ctx, nil)
}

// embedPending is Embed without the texts that were refused before. It does nothing if another call is still at it when late
// fires.
func (r *Retriever) embedPending(ctx context.Context, late <-chan time.Time) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-late:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var refusals int
	var refusal error
	for {
		ids := r.waiting()
		if len(ids) == 0 {
			return refusal
		}
		for some := range slices.Chunk(ids, batchTexts) {
			items, texts := r.still(some)
			if err := r.embedSome(ctx, items, texts, &refusals, &refusal); err != nil {
				return err
			}
		}
	}
}

// embedSome makes the vectors of some chunks, without those whose texts the embedder refuses. It counts the refusals in a
// row, and keeps the first error for a single text.
func (r *Retriever) embedSome(ctx context.Context, items []Vector, texts []string, refusals *int, refusal *error) error {
	vectors, err := r.embed.texts(ctx, texts)
	if err != nil {
		if *refusals++; !refuses(err) || *refusals > maxRefusals {
			return err
		}
		if half := len(items) / 2; half > 0 {
			if err := r.embedSome(ctx, items[:half], texts[:half], refusals, refusal); err != nil {
				return err
			}
			return r.embedSome(ctx, items[half:], texts[half:], refusals, refusal)
		}
		*refusal = cmp.Or(*refusal, fmt.Errorf("%s: %w", items[0].Path, err))
		r.mu.Lock()
		r.refused[items[0].ID] = true
		r.mu.Unlock()
		return nil
	}
	*refusals = 0
	for i := range items {
		items[i].Values = vectors[i]
	}
	if err := r.vectors.Add(ctx, items...); err != nil {
		return err
	}
	r.done(items)
	return nil
}

// refuses reports whether an error is about the texts, so that others may do.
func refuses(err error) bool {
	_, large := errors.AsType[*aycoder.ContextTooLargeError](err)
	_, bad := errors.AsType[*aycoder.BadRequestError](err)
	return large || bad || errors.Is(err, ErrNoDirection)
}

// done notes that chunks have vectors, and deletes those of chunks that are gone meanwhile. The vector of one that was removed and
// put again may be gone, too: it then stays without.
func (r *Retriever) done(items []Vector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range items {
		if r.chunks[v.ID] == nil {
			r.vectors.drop(v.ID)
		} else if r.vectors.Has(v.ID) {
			delete(r.pending, v.ID)
		}
	}
}

// waiting returns the IDs of the chunks to embed, in an order in which those of a file come together.
func (r *Retriever) waiting() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.pending)), func(id string) bool { return r.refused[id] })
}

// still returns those of some chunks that still have no vector.
func (r *Retriever) still(ids []string) (items []Vector, texts []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, id := range ids {
		if text, ok := r.pending[id]; ok {
			items = append(items, Vector{Item: r.chunks[id].Item})
			texts = append(texts, text)
		}
	}
	return items, texts
}

// replace sets the chunks of a file and their texts, and returns the IDs that are gone.
func (r *Retriever) replace(path string, chunks []Chunk, texts []string) (gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.files[path]
	for _, id := range old {
		delete(r.chunks, id)
		delete(r.pending, id)
		delete(r.refused, id)
	}
	var ids []string
	for i, c := range chunks {
		ids = append(ids, c.ID)
		r.chunks[c.ID] = &c
		if r.embed != nil && !r.vectors.Has(c.ID) {
			r.pending[c.ID] = texts[i]
		}
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
		gone = append(gone, r.replace(path, nil, nil)...)
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

// Search returns the k chunks that fit a question or some words best. If the question cannot be embedded, there is an
// error besides the chunks with its words.
func (r *Retriever) Search(ctx context.Context, query string, k int, filter Filter) (Result, error) {
	keep, n := filter.Keep(), max(listed, 4*k)
	scores := map[string]float64{}
	r.addPlaces(scores, r.words.Search(query, n, keep), wordsWeight, wordsShare)
	wordsOnly := true
	var err error
	if r.embed != nil && strings.TrimSpace(query) != "" {
		var near []Match
		if near, err = r.near(ctx, query, n, keep); err == nil {
			r.addPlaces(scores, near, nearWeight, nearShare)
			wordsOnly = false
		}
	}
	r.mu.RLock()
	pending := len(r.pending)
	r.mu.RUnlock()
	return Result{Hits: r.best(scores, k), WordsOnly: wordsOnly, Pending: pending}, cmp.Or(err, ctx.Err())
}

func (r *Retriever) near(ctx context.Context, query string, n int, keep func(*Item) bool) ([]Match, error) {
	q, err := r.embed.query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return r.vectors.Search(q, n, keep)
}

// Suggest returns at most n ways to complete the last word of a half-typed query. See [Lexical.Suggest].
func (r *Retriever) Suggest(query string, n int) []string { return r.words.Suggest(query, n) }

// addPlaces adds to the scores of chunks what their places in a list count.
func (r *Retriever) addPlaces(scores map[string]float64, list []Match, weight, share float64) {
	rest, next := map[string]float64{}, map[string]float64{} // by file; next is what the next chunk counts
	for _, m := range list {
		rest[m.Item.Path] += m.Score * next[m.Item.Path]
		next[m.Item.Path] = cmp.Or(next[m.Item.Path]/2, share)
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Score += rest[list[i].Item.Path]
	}
	order.By(list, bestFirst)
	place := 0
	for _, m := range list {
		if r.chunk(m.Item.ID) != nil { // else it is of a file that is not there any more
			place++
			scores[m.Item.ID] += weight / float64(fusion+place)
		}
	}
}

// best returns the k chunks with the highest scores.
func (r *Retriever) best(scores map[string]float64, k int) (hits []Hit) {
	for id, score := range scores {
		if c := r.chunk(id); c != nil {
			hits = append(hits, Hit{*c, score})
		}
	}
	order.By(hits, func(a, b *Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
	})
	return hits[:max(min(k, len(hits)), 0)]
}
