package compaction

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/timed"
)

// The test of planted facts: generated conversations of many windows, with real source files, their
// comments and their names as filler, contain facts at random places. After the last compaction,
// the facts must be in the text of the digest, word for word.

const (
	window     = 110 << 10  // bytes of 32,000 tokens
	digestRoom = window / 4 // for the text of the digest
	aboutBytes = 2600 << 10 // of a conversation: more than 20 windows
)

// A fact is planted in a conversation.
type fact struct {
	half, kind, source string
	key                string // the words to look for
	later              *fact  // that overrules it
	resolved           bool
	at                 int // the message
}

// wordings are the lines of testdata/facts.txt: half, kind, source, wording, and perhaps a later one.
func wordings(t *testing.T) (all [][]string) {
	data, err := os.ReadFile("testdata/facts.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			all = append(all, strings.Split(line, "|"))
		}
	}
	return all
}

// compacted feeds a conversation to a digest as a builder of requests does: when the window is
// full, the older half leaves. It returns the digest, and the number of messages that have left.
func compacted(t *testing.T, messages []*aycoder.Message) (d *digest, left, steps int) {
	d = newDigest("")
	live := 0
	for i, m := range messages {
		live += int(sizeOf(m.Parts))
		if live <= window-digestRoom || i+1 < len(messages) && hasOutput(messages[i+1]) {
			continue
		}
		from := left
		for goal := live / 2; live > goal; left++ {
			live -= int(sizeOf(messages[left].Parts))
		}
		for left < i && hasOutput(messages[left]) {
			live -= int(sizeOf(messages[left].Parts))
			left++
		}
		for _, m := range messages[from:left] {
			d.add(m)
		}
		require.LessOrEqual(t, len(d.entries), maxEntries)
		steps++
	}
	return d, left, steps
}

func hasOutput(m *aycoder.Message) bool { return slices.ContainsFunc(m.Parts, part.IsOutput) }

// score counts facts that were found, of those that should be.
type score struct{ found, all int }

func (s *score) add(ok bool) {
	s.all++
	if ok {
		s.found++
	}
}

func (s score) percent() float64 { return 100 * float64(s.found) / float64(max(s.all, 1)) }

func (s score) String() string { return fmt.Sprintf("%d of %d (%.1f %%)", s.found, s.all, s.percent()) }

// check looks for the facts in the text of a digest.
func check(text string, facts []*fact, left int, add func(name string, f *fact, ok bool)) {
	for _, f := range facts {
		if f.at >= left {
			continue
		}
		key := strings.Join(strings.Fields(f.key), " ")
		has, marked := strings.Contains(text, key), true
		for line := range strings.Lines(text) {
			if _, rest, ok := strings.Cut(line, key); ok && strings.HasPrefix(line, "- ") && !strings.Contains(line[:len(line)-len(rest)], "overruled later") {
				marked = marked && (strings.Contains(rest, "overruled later") || strings.Contains(rest, "succeeded"))
			}
		}
		switch {
		case f.later != nil && f.later.at >= left:
		case f.later != nil, f.resolved:
			add("marked", f, marked)
		case f.kind == "overruled":
			add("replacements", f, has)
		default:
			add(f.kind, f, has)
			if f.kind == "decision" || f.kind == "error" {
				add("left unmarked", f, !has || !marked)
			}
		}
	}
}

// Facts that were planted in long conversations are in the text that replaces them.
func TestDigestKeepsFacts(t *testing.T) {
	timed.Serial(t)
	n := 3
	if v := os.Getenv("AYCODER_FACTS"); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	if len(filler().names) < 100 {
		t.Skip("skipped: the source of the standard library is not installed")
	}
	scores := map[string]*score{}
	lost := map[string]int{}
	for seed := range uint64(n) {
		messages, facts := generated(t, seed)
		d, left, steps := compacted(t, messages)
		require.GreaterOrEqual(t, steps, 20)
		text := d.text(digestRoom)
		require.LessOrEqual(t, len(text), digestRoom)
		require.Equal(t, text, d.text(digestRoom))
		check(text, facts, left, func(name string, f *fact, ok bool) {
			names := []string{name, name + " " + f.half}
			if name == "path" || name == "error" || name == "decision" {
				names = append(names, "bar", "bar "+f.half)
			}
			for _, name := range names {
				if scores[name] == nil {
					scores[name] = &score{}
				}
				scores[name].add(ok)
			}
			if !ok && f.half == "seen" {
				lost[name+" "+f.source+": "+f.key]++
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		t.Logf("%-22s %v", name, scores[name])
	}
	t.Logf("%d conversations", n)
	if os.Getenv("AYCODER_FACTS_LOST") != "" {
		for _, l := range slices.Sorted(maps.Keys(lost)) {
			t.Log("lost: ", l)
		}
	}
	require.GreaterOrEqual(t, scores["bar"].percent(), 90.0)
	require.GreaterOrEqual(t, scores["bar held"].percent(), 80.0)
	for _, name := range []string{"marked", "left unmarked"} {
		require.GreaterOrEqual(t, scores[name].percent(), 90.0, name)
	}
}
