package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
)

// A Library has models: the [Hub] with its files on this machine, or a server of Ollama.
type Library interface {
	// List returns the models that are there, whole.
	List(ctx context.Context) ([]Installed, error)
	// Pull makes sure that a model is there, and yields the progress, which ends with an error or with all of it done. Leaving
	// the loop stops the download; the next one goes on. The sequence can be used only once.
	Pull(ctx context.Context, name string) iter.Seq2[Progress, error]
	// Delete deletes a model. If it is not there, the error is a [*HubError] that is [ErrNotFound], or an
	// [*aycoder.UnknownModelError] of Ollama.
	Delete(ctx context.Context, name string) error
}

// Installed is a model of a [Library].
type Installed struct {
	// Name is what Pull and Delete take, such as "ggml-org/gemma-3-4b-it-GGUF:Q4_K_M" or "qwen3:8b".
	Name string
	// Files are the paths of its files, in order. A server of Ollama does not tell them.
	Files []string
	// Size is that of all files, in bytes.
	Size int64
	// Modified is when it came.
	Modified time.Time
}

// Progress is how far a download is.
type Progress struct {
	// Status is for people: "downloading", "verifying", "done", or what Ollama says.
	Status string
	// File is the file that is meant.
	File string
	// Done of Total bytes of the file are there. Done becomes smaller if what was there has turned out to be wrong.
	Done, Total int64
}

// The kinds of a [*HubError]: errors.Is tells them.
var (
	// ErrGated is that of a model whose terms the user has to accept on the hub's page, and give a token.
	ErrGated = errors.New("the model is gated: accept its terms on the hub, and set HF_TOKEN")
	// ErrNotFound is that of a model or a file that is not there. A private model is not there without a token.
	ErrNotFound = errors.New("not found")
	// ErrBusy is that of a file that another process downloads.
	ErrBusy = errors.New("another process downloads it")
	// ErrSpace is that of a disk that has too little space.
	ErrSpace = errors.New("too little space on the disk")
	// ErrHash is that of a file that is not what the hub says. A download of it is deleted.
	ErrHash = errors.New("the SHA-256 is not that of the hub")
	// ErrChanged is that of a file that changes while it is downloaded.
	ErrChanged = errors.New("the file has changed")
)

// A HubError says what failed.
type HubError struct {
	// Op is what was being done: "search", "list files of", "download".
	Op string
	// Model is the model or the file.
	Model string
	// Status is that of the answer, or 0.
	Status int
	Err    error
}

// Error implements error.
func (e *HubError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s %s: status %d: %v", e.Op, e.Model, e.Status, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Op, e.Model, e.Err)
}

// Unwrap returns the cause.
func (e *HubError) Unwrap() error { return e.Err }

// Hub is a client of Hugging Face, or of a server that answers like it, and of the directory with what was downloaded. That
// directory has the layout of other programs for this hub, so that they find the models. A Hub is safe for concurrent use, also
// with other processes.
type Hub struct {
	endpoint    *url.URL
	token       string
	client      *http.Client
	dir         string
	connections int
	idle        time.Duration

	chunk int64                                            // bytes of a request
	wait  func(ctx context.Context, d time.Duration) error // before a request is made again
	free  func(dir string) (int64, error)                  // bytes of the disk that are free
	link  func(r *os.Root, file, name string) error        // gives a file a name in snapshots
	sync  func(*os.File) error                             // makes what was written survive a crash
}

// HubOption sets a property of a [Hub]. The last of the same kind counts.
type HubOption func(*Hub) error

// WithEndpoint sets the URL of the hub. Default: the environment variable HF_ENDPOINT, or https://huggingface.co.
func WithEndpoint(base string) HubOption {
	return func(h *Hub) error {
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return &aycoder.ConfigError{Option: "WithEndpoint", Err: fmt.Errorf("%q is not the URL of a hub", base)}
		}
		u.Path = strings.TrimRight(u.Path, "/")
		h.endpoint = u
		return nil
	}
}

// WithToken sets the token. It is sent to the endpoint only, whatever that redirects to. Default: the environment variable
// HF_TOKEN, or the file token in HF_HOME.
func WithToken(token string) HubOption {
	return func(h *Hub) error { h.token = strings.TrimSpace(token); return nil }
}

// WithHTTPClient sets the HTTP client, for example to use a proxy. It is copied. Default: one with [http.DefaultTransport].
func WithHTTPClient(c *http.Client) HubOption {
	return func(h *Hub) error { h.client = new(*c); return nil }
}

// WithDir sets the directory of the models. Default: the environment variable HF_HUB_CACHE, or else hub in HF_HOME, or else in
// ~/.cache/huggingface.
func WithDir(dir string) HubOption { return func(h *Hub) error { h.dir = dir; return nil } }

// WithConnections sets how many requests a download makes at a time, from 1 to 16. Default: 4.
func WithConnections(n int) HubOption {
	return func(h *Hub) error {
		if n < 1 || n > 16 {
			return &aycoder.ConfigError{Option: "WithConnections", Err: fmt.Errorf("%d is not from 1 to 16", n)}
		}
		h.connections = n
		return nil
	}
}

// WithIdleTimeout sets for how long a download waits for the next byte before it makes the request again. Default: 1 minute.
func WithIdleTimeout(d time.Duration) HubOption { return func(h *Hub) error { h.idle = d; return nil } }

// NewHub returns a hub. It sends no request, and creates no directory.
func NewHub(opts ...HubOption) (*Hub, error) {
	home := os.Getenv("HF_HOME")
	if home == "" {
		cache := os.Getenv("XDG_CACHE_HOME")
		if dir, err := os.UserHomeDir(); cache == "" && err == nil {
			cache = filepath.Join(dir, ".cache")
		}
		if cache != "" {
			home = filepath.Join(cache, "huggingface")
		}
	}
	h := &Hub{client: &http.Client{}, connections: 4, idle: time.Minute, chunk: 64 << 20, wait: wait, free: freeSpace, link: link, sync: (*os.File).Sync}
	h.token = strings.TrimSpace(os.Getenv("HF_TOKEN"))
	if h.token == "" && home != "" {
		if data, err := os.ReadFile(filepath.Join(home, "token")); err == nil && len(data) < 1<<12 {
			h.token = strings.TrimSpace(string(data))
		}
	}
	if h.dir = os.Getenv("HF_HUB_CACHE"); h.dir == "" && home != "" {
		h.dir = filepath.Join(home, "hub")
	}
	errs := []error{WithEndpoint(cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"))(h)}
	errs = append(errs, option.Apply(h, opts))
	if h.dir == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "WithDir", Err: errors.New("there is no home directory")})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new hub: %w", err)
	}
	h.client.Transport = &tokenTransport{h.endpoint, h.token, cmp.Or[http.RoundTripper](h.client.Transport, http.DefaultTransport)}
	h.client.CheckRedirect = checkRedirect
	return h, nil
}

// Dir returns the directory of the models.
func (h *Hub) Dir() string { return h.dir }

// A tokenTransport adds the token to requests to the hub. Requests themselves never have it, so that no redirect takes it along.
type tokenTransport struct {
	endpoint *url.URL
	token    string
	next     http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req = req.Clone(req.Context()); t.token != "" && req.URL.Host == t.endpoint.Host && req.URL.Scheme == t.endpoint.Scheme {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.next.RoundTrip(req)
}

// checkRedirect allows few redirects, none of which gives up TLS.
func checkRedirect(req *http.Request, via []*http.Request) error {
	req.Header.Del("Authorization")
	switch {
	case len(via) >= 10:
		return errors.New("too many redirects")
	case req.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https":
		return errors.New("a redirect from https to " + req.URL.Scheme)
	}
	return nil
}

// wait waits unless ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxDocument limits what the hub answers to questions, in bytes: a list of some 10,000 files has as many. Decoded, it may take
// thirty times as much.
const maxDocument = 4 << 20

// get asks the hub for a document.
func (h *Hub) get(ctx context.Context, op, name, pathAndQuery string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, h.idle)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.endpoint.String()+pathAndQuery, nil)
	if err != nil {
		return &HubError{Op: op, Model: name, Err: err}
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return &HubError{Op: op, Model: name, Err: plain(err)}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return failure(op, name, resp)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("the answer has more than %d bytes", maxDocument)
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return &HubError{Op: op, Model: name, Err: err}
	}
	return nil
}

// plain removes the URL from an error of the client: that of a redirect may be signed.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// failure is the error of an answer.
func failure(op, name string, resp *http.Response) error {
	e := &HubError{Op: op, Model: name, Status: resp.StatusCode, Err: errors.New(http.StatusText(resp.StatusCode))}
	switch code := resp.Header.Get("X-Error-Code"); {
	case code == "GatedRepo":
		e.Err = ErrGated
	case code != "", resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusUnauthorized:
		// The hub answers 401 for models that do not exist, too.
		e.Err = fmt.Errorf("%w (%s)", ErrNotFound, cmp.Or(code, "it may be private, or the token is refused"))
	}
	return e
}

// Repo is a model on the hub, with all its files.
type Repo struct {
	// ID is the name, such as "Qwen/Qwen2.5-Coder-7B-Instruct-GGUF". It differs from the one asked for if the model was renamed.
	ID string
	// Revision is the commit.
	Revision string
	// Gated says that its terms have to be accepted.
	Gated bool
	// License is its short name, or "".
	License string
	// Downloads is how often it was downloaded in the last month.
	Downloads int64
	// Files are its GGUF files. [Hub.Search] does not tell them.
	Files []File
}

// File is a GGUF file of a [Repo].
type File struct {
	// Path is its name in the repository.
	Path string
	// Quantization is what its name says, such as "Q4_K_M", or "".
	Quantization string
	// Size is in bytes.
	Size int64
	// SHA256 is what the hub says, in hexadecimal, or "".
	SHA256 string
}

// quantization finds what the name of a file says.
var quantization = regexp.MustCompile(`(?i)(?:^|[-._/])((?:UD-)?(?:I?Q[1-8]_(?:[0-9A-Z]+_)*[0-9A-Z]+|TQ[12]_0|BF16|F16|F32|FP16|MXFP4(?:_MOE)?|NVFP4))(?:-\d{5}-of-\d{5})?\.gguf$`)

func quantizationOf(name string) string {
	if m := quantization.FindStringSubmatch(name); m != nil {
		return strings.ToUpper(m[1])
	}
	return ""
}

type repoJSON struct {
	ID        string          `json:"id"`
	SHA       string          `json:"sha"`
	Gated     json.RawMessage `json:"gated"` // false, "auto" or "manual"
	Downloads int64           `json:"downloads"`
	Tags      []string        `json:"tags"`
	Siblings  []struct {
		Name string `json:"rfilename"`
		Size int64  `json:"size"`
		LFS  struct {
			SHA256 string `json:"sha256"`
			Size   int64  `json:"size"`
		} `json:"lfs"`
	} `json:"siblings"`
}

var (
	validID   = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$`)
	validHash = regexp.MustCompile(`^[0-9a-f]{64}$`)
	validSHA  = regexp.MustCompile(`^[0-9a-f]{7,64}$`)
)

func (r *repoJSON) repo() Repo {
	repo := Repo{ID: r.ID, Revision: r.SHA, Downloads: r.Downloads, Gated: len(r.Gated) > 0 && string(r.Gated) != "false" && string(r.Gated) != "null"}
	for _, t := range r.Tags {
		if l, ok := strings.CutPrefix(t, "license:"); ok {
			repo.License = l
		}
	}
	for _, s := range r.Siblings {
		base := strings.ToLower(path.Base(s.Name))
		if !strings.HasSuffix(base, ".gguf") || !safePath(s.Name) || strings.HasPrefix(base, "mmproj") || strings.Contains(base, "imatrix") {
			continue
		}
		f := File{Path: s.Name, Quantization: quantizationOf(s.Name), Size: cmp.Or(s.LFS.Size, s.Size), SHA256: strings.ToLower(s.LFS.SHA256)}
		if !validHash.MatchString(f.SHA256) {
			f.SHA256 = ""
		}
		repo.Files = append(repo.Files, f)
	}
	return repo
}

// safePath says whether a name of the hub may become the name of a file here.
func safePath(name string) bool {
	return filepath.IsLocal(filepath.FromSlash(name)) && path.Clean(name) == name && !strings.ContainsAny(name, `\:*?"<>|`) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' })
}

// Search finds models with GGUF files by words of their names, those first that are downloaded most. At most 100 are returned.
func (h *Hub) Search(ctx context.Context, words string, limit int) ([]Repo, error) {
	q := url.Values{"search": {words}, "filter": {"gguf"}, "sort": {"downloads"}, "direction": {"-1"}, "limit": {strconv.Itoa(min(max(limit, 1), 100))}}
	var list [100]repoJSON // what is more in the answer is left out
	if err := h.get(ctx, "search", strconv.Quote(words), "/api/models?"+q.Encode(), &list); err != nil {
		return nil, err
	}
	var repos []Repo
	for _, r := range list {
		if validID.MatchString(r.ID) {
			repos = append(repos, r.repo())
		}
	}
	return repos, nil
}

// Files returns a model with its GGUF files.
func (h *Hub) Files(ctx context.Context, id string) (Repo, error) {
	const op = "list files of"
	if !validID.MatchString(id) {
		return Repo{}, &HubError{Op: op, Model: id, Err: errors.New("a name is owner/name")}
	}
	var r repoJSON
	if err := h.get(ctx, op, id, "/api/models/"+id+"?blobs=true", &r); err != nil {
		return Repo{}, err
	}
	if !validID.MatchString(r.ID) || !validSHA.MatchString(r.SHA) {
		return Repo{}, &HubError{Op: op, Model: id, Err: errors.New("the answer names no model and no commit")}
	}
	return r.repo(), nil
}

// A Choice is the files of a model with one quantisation.
type Choice struct {
	// Repo is the model, with these files only.
	Repo
	// Quantization is theirs, such as "Q4_K_M".
	Quantization string
}

// Name returns owner/name:QUANT.
func (c Choice) Name() string { return c.ID + ":" + c.Quantization }

// Size returns the size of all files, in bytes.
func (c Choice) Size() (n int64) {
	for _, f := range c.Files {
		n += f.Size
	}
	return n
}

// Resolve finds the files of a model by a name such as "owner/name:Q4_K_M", as llama.cpp and Ollama spell it, with "hf.co/" before
// it or without. Without a quantisation it is Q4_K_M, or Q8_0, or the first.
func (h *Hub) Resolve(ctx context.Context, name string) (Choice, error) {
	id, quant := splitModel(name)
	repo, err := h.Files(ctx, id)
	if err != nil {
		return Choice{}, err
	}
	choices := repo.Choices()
	if len(choices) == 0 {
		return Choice{}, &HubError{Op: "find", Model: name, Err: fmt.Errorf("%w: it has no GGUF file", ErrNotFound)}
	}
	var quants []string
	for _, c := range choices {
		quants = append(quants, c.Quantization)
	}
	wanted := []string{quant}
	if quant == "" {
		wanted = []string{"Q4_K_M", "Q8_0", quants[0]}
	}
	for _, q := range wanted {
		if i := slices.IndexFunc(choices, func(c Choice) bool { return strings.EqualFold(c.Quantization, q) }); i >= 0 {
			return choices[i], nil
		}
	}
	return Choice{}, &HubError{Op: "find", Model: name, Err: fmt.Errorf("%w: no quantisation %s; there are %s", ErrNotFound, quant, strings.Join(quants, ", "))}
}

// splitModel separates a name and a quantisation.
func splitModel(name string) (id, quant string) {
	for _, prefix := range []string{"https://", "hf.co/", "huggingface.co/"} {
		name = strings.TrimPrefix(name, prefix)
	}
	id, quant, _ = strings.Cut(name, ":")
	return id, quant
}

// Choices returns the quantisations of a model, with their files. A split file is there with all its parts, or not at all.
func (r Repo) Choices() (list []Choice) {
	files := map[string]File{}
	for _, f := range r.Files {
		files[f.Path] = f
	}
	for _, f := range r.Files {
		dir, base := path.Split(f.Path)
		parts := splitFiles(base)
		if base != parts[0] {
			continue
		}
		c := Choice{Repo: r, Quantization: cmp.Or(f.Quantization, strings.TrimSuffix(path.Base(parts[0]), ".gguf"))}
		c.Files = nil
		for _, p := range parts {
			if f, ok := files[dir+p]; ok {
				c.Files = append(c.Files, f)
			}
		}
		if len(c.Files) == len(parts) && !slices.ContainsFunc(list, func(o Choice) bool { return o.Quantization == c.Quantization }) {
			list = append(list, c)
		}
	}
	return list
}

// Model reads the metadata of the files of a choice from the hub, by requests for the first parts of them.
func (h *Hub) Model(ctx context.Context, c Choice) (*Model, error) {
	if len(c.Files) == 0 {
		return nil, &HubError{Op: "read", Model: c.ID, Err: ErrNotFound}
	}
	j := joiner{left: maxHeader}
	for _, f := range c.Files {
		name := c.ID + "/" + f.Path
		if err := j.read(name, &remoteFile{ctx: ctx, h: h, url: h.fileURL(c.Repo, f), name: name, size: f.Size, step: 1 << 20}); err != nil {
			return nil, err
		}
	}
	return j.model(c.ID)
}

func (h *Hub) fileURL(r Repo, f File) string {
	return h.endpoint.JoinPath(r.ID, "resolve", r.Revision, (&url.URL{Path: f.Path}).EscapedPath()).String()
}

// A remoteFile reads a file of the hub in ranges, the first of which are small.
type remoteFile struct {
	ctx       context.Context
	h         *Hub
	url, name string
	at, size  int64
	step      int64
	etag      string
	part      []byte
}

// Read implements [io.Reader].
func (r *remoteFile) Read(p []byte) (int, error) {
	if len(r.part) == 0 {
		if r.at >= r.size {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.part)
	r.part = r.part[n:]
	return n, nil
}

// next requests the next range.
func (r *remoteFile) next() error {
	ctx, cancel := context.WithTimeout(r.ctx, r.h.idle)
	defer cancel()
	to := min(r.at+r.step, r.size)
	resp, err := r.h.request(ctx, r.url, r.at, to, r.etag)
	if err != nil {
		return &HubError{Op: "read", Model: r.name, Err: cause(ctx, err)}
	}
	defer resp.Body.Close()
	switch etag := resp.Header.Get("Etag"); {
	case resp.StatusCode == http.StatusOK && r.at > 0, r.etag != "" && etag != r.etag:
		return &HubError{Op: "read", Model: r.name, Err: ErrChanged}
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent:
		return failure("read", r.name, resp)
	case resp.StatusCode == http.StatusPartialContent && checkRange(resp, r.at, r.size) != nil:
		return &HubError{Op: "read", Model: r.name, Err: checkRange(resp, r.at, r.size)}
	default:
		r.etag = etag
	}
	r.part, err = io.ReadAll(io.LimitReader(resp.Body, to-r.at))
	if err == nil && len(r.part) == 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return &HubError{Op: "read", Model: r.name, Err: err}
	}
	r.at += int64(len(r.part))
	r.step = min(2*r.step, 8<<20)
	return nil
}
