package ollama

import (
	"context"
	"iter"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// maxPull bounds what is read of the answer to a pull, which tells how far it is
// several times a second, for hours.
const maxPull = 1 << 30

// PullProgress is how far a pull is.
type PullProgress struct {
	// Status is what is being done, for people: "pulling manifest", "pulling
	// 7cd4618c1faf", "verifying sha256 digest", and "success" at the end.
	Status string
	// Digest is that of the file that is being downloaded, empty if none is.
	Digest string
	// Total and Completed are of this file, in bytes; Completed may be less than before
	// when a part is downloaded again.
	Total, Completed int64
}

// Pull downloads a model, or what is new of it, and yields how far it is. It goes on
// where an earlier pull of the model stopped. The sequence ends after the status
// "success", or with an error, which comes once, last: an [aycoder.UnknownModelError]
// for a model that nobody has. Leaving the loop or cancelling ctx stops the download;
// what has come stays. Nothing is said while a large file is verified, so a slow disk
// wants a longer [WithIdleTimeout]. The sequence is single-use.
func (c *Client) Pull(ctx context.Context, model string) iter.Seq2[PullProgress, error] {
	used := false
	return func(yield func(PullProgress, error) bool) {
		if used {
			yield(PullProgress{}, aycoder.ErrConsumed)
			return
		}
		used = true
		if err := c.pull(ctx, model, yield); err != nil {
			yield(PullProgress{}, err)
		}
	}
}

func (c *Client) pull(ctx context.Context, model string, yield func(PullProgress, error) bool) error {
	cfg := c.cfg.Config
	cfg.MaxResponse = max(cfg.MaxResponse, maxPull)
	x := c.exchange(model, "/api/pull")
	x.Config, x.Encode = &cfg, named(model)
	last := ""
	return stream(ctx, x, func(k *api.Call, data string) error {
		var p PullProgress
		if err := readObject(k, data, p.field); err != nil {
			return err
		}
		if last = p.Status; !yield(p, nil) {
			return api.ErrStopped
		}
		return nil
	}, func() error {
		if last != "success" {
			return api.ErrUnfinished
		}
		return nil
	})
}

func (p *PullProgress) field(r *rawjson.Reader) {
	switch r.Key() {
	case "status":
		p.Status, _ = r.Str()
	case "digest":
		p.Digest, _ = r.Str()
	case "total":
		p.Total, _ = r.Int()
	case "completed":
		p.Completed, _ = r.Int()
	}
}
