package ollama

import (
	"context"
	"iter"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// maxPull limits the size of the answer to a pull, which reports the progress several
// times a second, for hours.
const maxPull = 1 << 30

// PullProgress is the progress of a pull.
type PullProgress struct {
	// Status describes the current step for people: "pulling manifest", "pulling
	// 7cd4618c1faf", "verifying sha256 digest", and "success" at the end.
	Status string
	// Digest is that of the file that is being downloaded, or empty.
	Digest string
	// Total and Completed are sizes of this file in bytes. Completed may decrease when a
	// part is downloaded again.
	Total, Completed int64
}

// Pull downloads a model, or the changed files of it, and yields its progress. It resumes
// an earlier pull of the model. The sequence ends after the status "success", or with an
// error, which is yielded once, last. The error is an [aycoder.UnknownModelError] if the
// model does not exist. Leaving the loop or cancelling ctx stops the download; downloaded
// parts are kept. There is no progress while a large file is verified, so a slow disk
// needs a longer [WithIdleTimeout]. The sequence is single-use.
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
