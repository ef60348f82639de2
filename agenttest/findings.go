package agenttest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The rules as a failed suite names them. The rules with a number are those in the doc comment of
// [aycoder.Agent].
const (
	ruleLazy    = "rule 1: a run is lazy"
	ruleOnce    = "rule 1: a sequence is single-use"
	ruleError   = "rule 2: an error comes once, last, with a nil event"
	ruleAgain   = "rule 3: the body is not called again after it ended the loop"
	ruleGone    = "rule 3: no goroutine outlives the loop"
	ruleWorking = "rule 3: no tool works after the loop"
	ruleInto    = "rule 3: the result is filled"
	rulePanic   = "rule 3: a panic of the body comes through, and there is no other"
	ruleLate    = "rule 3: an approval that comes late is told so"
	ruleCancel  = "rule 3: a cancelled run ends with the error of the context"
	ruleOwn     = "rule 4: all events come on the goroutine that ranges"
	ruleSlow    = "rule 4: a slow body delays no tool"
	ruleAhead   = "rule 4: the model is asked again when the body has seen everything"
	ruleEvents  = "rule 4: no event is lost or out of order"
	ruleHistory = "rule 5: the history is valid"
	ruleOutput  = "rule 5: each call has its own output, in call order"
	ruleTwice   = "rule 5: no tool runs twice"
	ruleEager   = "turn: a call that reads starts before the message is complete"
	ruleWrites  = "turn: a call that writes starts after the message, in order, alone"
	ruleNotRun  = "turn: what was cut off, refused, broken or denied is never run"
	ruleArgs    = "turn: a call runs with the arguments that stand in the history"
	ruleRetry   = "turn: the model is asked again when that helps, and only then"
	ruleEnds    = "turn: the run ends as it should"
	ruleClean   = "input: text is valid UTF-8 without NUL"
	ruleBounds  = "input: memory and time are bounded"
	ruleShared  = "an agent is safe for concurrent use"

	ruleModelOrder  = "model: blocks end with BlockDone, the answer with one MessageDone, last"
	ruleModelDeltas = "model: deltas join to the block"
	ruleModelError  = "model: an error has a type, and comes once, last, with a nil event"
	ruleModelLazy   = "model: nothing is sent before the sequence is ranged over"
	ruleModelAgain  = "model: the body is not called again after it ended the loop"
	ruleModelGone   = "model: leaving the loop ends everything"
	ruleModelCancel = "model: a cancelled request ends soon, with the error of the context"
	ruleModelReq    = "model: the request is not changed"
	ruleModelBroken = "model: a broken answer is a *StreamBrokenError, without MessageDone"
	ruleModelCut    = "model: a call that was cut off is a BlockTruncated, never a BlockDone"
	ruleModelShared = "model: a client is safe for concurrent use"
	ruleModelWhole  = "model: Complete gives the whole answer"
	ruleModelType   = "model: an error has the type that says what to do"
	ruleModelSecret = "model: a key is never shown"
	ruleModelSends  = "model: everything that the model is to read is sent"
	ruleModelGrows  = "model: a request begins with the bytes of the one before"
	ruleModelBack   = "model: what the provider needs back goes back unchanged"
	ruleModelMoved  = "model: a conversation can come from another provider"
	ruleModelFormat = "model: a client that says so asks for an answer of a schema"

	ruleToolSpec   = "tool: the spec is valid and always the same"
	ruleToolValid  = "tool: a valid call works"
	ruleToolBad    = "tool: an invalid call is an error or an error result, never a panic"
	ruleToolCancel = "tool: a call ends within 100 ms of cancel, with an error or an error result"
	ruleToolShared = "tool: calls are safe for concurrent use"
	ruleToolClean  = "tool: a result is valid UTF-8 text"
	ruleToolBounds = "tool: a result has at most 1 MiB of text, and 16 MiB of data in each media"
	ruleToolReads  = "tool: a read-only tool changes nothing"
	ruleToolPlan   = "tool: a plan is always the same, and fails if the call does"
	ruleToolGone   = "tool: no goroutine and no progress outlives the call"

	ruleJournalOrder   = "journal: records come back in order, byte for byte"
	ruleJournalWhole   = "journal: an Append that fails or is cancelled adds nothing"
	ruleJournalKept    = "journal: acknowledged records survive the end of the process"
	ruleJournalWriter  = "journal: a session has one writer, and others learn which process it is"
	ruleJournalReader  = "journal: readers see whole records, and write nothing"
	ruleJournalErrors  = "journal: an error has the type that says what happened"
	ruleJournalObject  = "journal: an object comes back byte for byte, or is an error"
	ruleJournalRewrite = "journal: Rewrite replaces all records, and removes only objects not kept"
	ruleJournalList    = "journal: the list has each session once, with its newest description"
	ruleJournalClosed  = "journal: a closed journal does nothing"
	ruleJournalShared  = "journal: a store is safe for concurrent use, and keeps no slice of the caller"
	ruleJournalDamage  = "journal: damage is reported, and everything else is read"
)

// findings collects the violations that a check has found. The checks return them instead of
// failing a test, so that a test of the suite can check that a broken agent is found.
type findings struct {
	mu     sync.Mutex
	list   []string
	stored map[[sha256.Size]byte]bool
}

// maxFindings bounds how many violations one check reports. An agent that breaks one rule often
// breaks it at every event.
const maxFindings = 8

// add records that a rule was violated. A violation with the same text is reported once.
func (f *findings) add(rule, format string, args ...any) {
	s := rule + ": " + fmt.Sprintf(format, args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) < maxFindings && !slices.Contains(f.list, s) {
		f.list = append(f.list, s)
	}
}

// first reports whether this is the first call with data, so that equal data is checked only once.
func (f *findings) first(data []byte) bool {
	sum := sha256.Sum256(data)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stored[sum] {
		return false
	}
	if f.stored == nil {
		f.stored = map[[sha256.Size]byte]bool{}
	}
	f.stored[sum] = true
	return true
}

// empty reports whether no violation was found.
func (f *findings) empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.list) == 0
}

// of reports whether the given rule was violated.
func (f *findings) of(rule string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.list, func(s string) bool { return strings.HasPrefix(s, rule) })
}

// String returns the findings, one per line.
func (f *findings) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.list, "\n")
}

// report fails the test with one error for each finding.
func (f *findings) report(t testing.TB) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.list {
		t.Error(s)
	}
}

// shown quotes a text for a finding and shortens it, since some texts of the suite have
// megabytes.
func shown(s string) string {
	if len(s) > 120 {
		return fmt.Sprintf("%q… (%d bytes)", s[:120], len(s))
	}
	return fmt.Sprintf("%q", s)
}
