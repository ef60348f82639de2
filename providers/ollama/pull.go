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

// PullProgress reports the progress of [Client.Pull].
type PullProgress struct {
	// Status is a text for people about the current step: for example "pulling manifest",
	// "pulling 7cd4618c1faf" or "verifying sha256 digest". It is "success" at the end.
	Status string
	// Digest is the digest of the file that is being downloaded. It is empty in other
	// steps.
	Digest string
	// Total is the size of the file that is being downloaded, and Completed is the
	// downloaded part of it, both in bytes. Completed may decrease if a part has to be
	// downloaded again.
	Total, Completed int64
}

// Pull makes the server download a model, and yields the progress. If the server already
// has the model, it downloads only the changed files. If an earlier download was stopped,
// the server resumes it. The sequence ends after the status "success" or after an error.
// If the model does not exist, the error is an [*aycoder.UnknownModelError].
//
// Leaving the loop or canceling ctx stops the download; the server keeps the parts that
// it has downloaded. The server does not report progress while it verifies a large file,
// so a server with a slow disk may need a longer [WithIdleTimeout]. The sequence can be
// used only once.
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
