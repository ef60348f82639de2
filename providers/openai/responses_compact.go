package openai

import (
	"encoding/json"
	"fmt"

	"github.com/aycoder/aycoder"
)

// The rules of this file are those of "Compaction" in the documentation of the API:
// https://developers.openai.com/api/docs/guides/compaction

const (
	contextField = "context_management"
	leastCompact = 1000 // tokens; the smallest threshold that is known to be accepted
)

// CompactFrom returns the field of [aycoder.Request].Extra with which the service compacts a
// conversation that has more than a number of tokens (0 means its default). The name is empty for any
// other API than OpenAI's own Responses API, and if [WithExtra] sets that field. It implements an
// ability that package compaction uses, see its option WithServer.
func (c *Client) CompactFrom(_ string, tokens int64) (name string, value json.RawMessage) {
	if _, own := c.cfg.extra[contextField]; own || !c.cfg.responses || c.cfg.Provider != provider || !c.cfg.isOpenAI() {
		return "", nil
	}
	threshold := ""
	if tokens > 0 {
		threshold = fmt.Sprintf(`,"compact_threshold":%d`, max(tokens, leastCompact))
	}
	return contextField, []byte(`[{"type":"compaction"` + threshold + `}]`)
}

// CompactedBy reports whether a part is an item with which the service has replaced what was before
// it: "The latest compaction item carries the necessary context to continue the conversation." It is
// encrypted, so summary is empty.
func (c *Client) CompactedBy(part *aycoder.Opaque) (summary string, ok bool) {
	if !(&respItems{respForm: respForm{owner: c.respOwner()}}).mine(part) {
		return "", false
	}
	kind, _ := respHead(string(part.Raw))
	return "", kind == "compaction"
}
