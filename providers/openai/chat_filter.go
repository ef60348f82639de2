package openai

import (
	"encoding/json"
	"strconv"

	"github.com/aycoder/aycoder"
)

// chatKinds is a set of kinds of content.
type chatKinds uint8

const (
	chatText chatKinds = 1 << iota
	chatReasoning
	chatToolCalls
)

// A chatFilter separates the answer from alternative answers. Most services number
// alternative answers with the index of a choice, but some number the phases of one
// answer with it: thinking, text, calls. Alternative answers are recognized by the
// request, by a chunk with only a role at the start of each, and by a kind of content
// that appears under two indexes.
type chatFilter struct {
	several bool // several answers were requested
	index   int64
	begun   bool
	brought chatKinds      // under any index so far
	others  map[int64]bool // indexes of alternative answers
}

// takes reports whether a choice belongs to the answer, which may have finished. A choice opens an answer if
// it has only a role.
func (f *chatFilter) takes(index int64, kinds chatKinds, opens, finished bool) bool {
	if !f.begun {
		f.begun, f.index = true, index
		if f.several { // "The index of the choice in the list of choices", whichever comes first
			f.index = 0
		}
	}
	if index == f.index && !f.others[index] {
		f.brought |= kinds
		return true
	}
	if f.others[index] {
		return false
	}
	if f.several || finished || opens || kinds&f.brought != 0 {
		if f.others == nil {
			f.others = map[int64]bool{}
		}
		f.others[index] = true
		return false
	}
	if kinds != 0 { // the next phase
		f.index = index
		f.brought |= kinds
	}
	return true
}

// bound limits the number of alternative answers.
func (f *chatFilter) bound() error {
	if len(f.others) <= chatMany {
		return nil
	}
	return &aycoder.LimitError{Limit: "choices of an answer", Max: chatMany}
}

// asksSeveral reports whether "n" is more than 1.
func asksSeveral(fields ...map[string]json.RawMessage) bool {
	several := false
	for _, extra := range fields {
		if raw, ok := extra["n"]; ok {
			n, err := strconv.Atoi(string(raw))
			several = err == nil && n > 1
		}
	}
	return several
}
