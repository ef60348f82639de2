package compaction

import (
	_ "embed" // for the phrases
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/runes"
)

// This file has the rules for sentences. They look at words and at the shape of words only, so they
// are quick, and the same input always gives the same digest. Each rule adds or takes points; none of
// them drops a sentence of the user that fits. So a rule that errs costs room, and rarely a fact:
//
//   - words of deciding, forbidding, concluding (see phrases) give points, also in what the model says;
//   - names of code and numbers give points, because such sentences cannot be guessed from the files;
//   - questions and tasks of the user lose points, because they were answered;
//   - of the model, sentences that announce a step or describe code lose points.
//
// A later sentence about the same subject marks an earlier one as overruled, which costs it points but
// does not remove it, see [subject.overrules].

// A class is a set of phrases that tell what a sentence does. The phrases of strong, middle and weak
// are those by which people decide, forbid, prefer, conclude or leave something open.
type class int

const (
	strong class = iota
	middle
	weak
	announce // at the beginning of a sentence that announces a step, or describes code
	task     // at the beginning of a prompt that is done with once it is answered
	revoke   // takes back what was said earlier; also in some other languages
	choose   // chooses one of several things
	english  // is in almost every English sentence
	common   // says nothing about the subject of a sentence
	failing  // in error messages, also in other texts
	writing  // in lines of output that name a file that was written
	unit     // behind a number
	value    // in front of one
	classes
)

// phraseLists has the phrases of each class, in the order of the classes.
//
//go:embed phrases.txt
var phraseLists string

// phrases returns the phrases of up to three words with their classes, as bits.
var phrases = sync.OnceValue(func() map[string]uint {
	all, c := map[string]uint{}, 0
	for list := range strings.SplitSeq(comments().ReplaceAllString(phraseLists, ""), "\n\n") {
		_, list, _ = strings.Cut(list, ":")
		for phrase := range strings.SplitSeq(list, ";") {
			all[strings.Join(strings.Fields(phrase), " ")] |= 1 << c
		}
		c++
	}
	return all
})

var comments = late.Regexp(`(?m)^#.*\n`)

var (
	urls = late.Regexp(`https?://[^\s<>"'` + "`" + `)\]]+`)
	// code matches lines of programs and logs, which may be pasted without a fence.
	code = late.Regexp("^(?:\t|    )|^\\s*(?://|/\\*|[\"{}()]|\\w[\\w-]*[({]|(?:func|type|var|const|import|package|case|" +
		"return|def|class|public|let|fn)\\s+\\S+.*[({:=;]$)|[{};]\\s*$|:=|==|\\w\\(\\)|^\\s*\\d{4}-\\d\\d-\\d\\d[T ]")
	paths = late.Regexp(`[A-Za-z]:\\[\w.\\@+-]+|[~.\w@%+-]*(?:/[\w.@%+-]+)+|\b[\w@%+-][\w.@%+-]*\.(?:` +
		`go|mod|sum|tsx?|jsx?|mjs|py|rs|java|kt|cc?|cpp|h|hpp|cs|rb|php|swift|sh|sql|md|txt|json|ya?ml|toml|html|s?css|` +
		`xml|csv|log|proto|lock|cfg|ini|env|tmpl|ipynb)\b`)
)

// pathsIn returns the names of files in a text, without addresses and line numbers.
func pathsIn(text string) []string {
	var out []string
	for _, p := range paths().FindAllString(urls().ReplaceAllString(text, " "), -1) {
		p = strings.TrimRight(p, ".-")
		base := p[strings.LastIndexAny(p, `/\`)+1:]
		named := strings.Contains(strings.TrimLeft(base, "."), ".") || strings.Count(p, "/") > 1 || strings.ContainsAny(p[:1], ".~")
		if named && strings.ContainsFunc(base, unicode.IsLetter) {
			out = append(out, p)
		}
	}
	return out
}

// sentences cuts prose into sentences, and returns apart the lines of code, which quote something.
// Lines of a paragraph belong together; items of lists do not.
func sentences(text string) (prose, quoted []string) {
	fenced, open := false, ""
	for line := range strings.Lines(text + "\n\n") {
		pasted := fenced || code().MatchString(line)
		line = strings.TrimSpace(line)
		fence := strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")
		if !pasted && !fence && line != "" && len(open) >= 50 && len(open) < 4*maxEntry && !strings.ContainsAny(line[:1], "-*#|>•[{") && !ends(open) {
			open += " " + line
			continue
		}
		prose = append(prose, splitLine(open)...)
		open = ""
		switch {
		case fence:
			fenced = !fenced
		case pasted:
			quoted = append(quoted, line)
		default:
			open = strings.TrimLeft(line, "-*#>• ")
		}
	}
	return prose, quoted
}

func ends(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return strings.ContainsRune(".!?:;。！？…", r)
}

// splitLine cuts a paragraph behind the marks that end a sentence. An answer of a word or two, such
// as "Agreed.", stays with the sentence behind it.
func splitLine(s string) (out []string) {
	from := 0
	for i, r := range s {
		next := i + utf8.RuneLen(r)
		if next >= len(s) || !strings.ContainsRune("。！？", r) &&
			(!strings.ContainsRune(".!?", r) || s[next] != ' ' || abbreviated(s[from:i])) {
			continue
		}
		if w := wordsOf(s[from:next]); next-from > maxEntry || len(w.words) > 3 || w.counts[strong]+w.counts[middle] == 0 {
			out = append(out, strings.TrimSpace(s[from:next]))
			from = next
		}
	}
	if rest := strings.TrimSpace(s[from:]); rest != "" {
		out = append(out, rest)
	}
	return out
}

// abbreviated reports whether a period behind s belongs to its last word.
func abbreviated(s string) bool {
	word := strings.ToLower(s[strings.LastIndexAny(s, " (")+1:])
	return len(word) == 1 || slices.Contains([]string{"e.g", "i.e", "etc", "vs", "no", "cf", "z.b", "resp", "approx"}, word)
}

// wording is a sentence in words.
type wording struct {
	text       string
	raw, words []string // as written, without punctuation around them, and in lower case
	counts     [classes]int
	first      uint // the classes of its beginning, as bits
}

func wordsOf(sentence string) *wording {
	w := &wording{text: sentence}
	for f := range strings.FieldsSeq(sentence) {
		if f = strings.Trim(f, ".,;:!?()[]{}\"'`«»„“”‘’*…。，"); f != "" {
			w.raw = append(w.raw, f)
			w.words = append(w.words, strings.ToLower(strings.ReplaceAll(f, "’", "'")))
		}
	}
	text, at := strings.Join(w.words, " "), 0
	for i, word := range w.words {
		end := at - 1
		for _, next := range w.words[i:min(i+3, len(w.words))] {
			end += 1 + len(next)
			found := phrases()[text[at:end]]
			for c := range classes {
				w.counts[c] += int(found >> c & 1)
			}
			if i == 0 {
				w.first |= found
			}
		}
		at += len(word) + 1
	}
	return w
}

func (w *wording) begins(c class) bool { return w.first>>c&1 == 1 }

// isName reports whether a word is the name of something in code rather than a word of a language.
func isName(word string) bool {
	return strings.ContainsAny(word[1:], "_/.0123456789") || strings.ContainsFunc(word[1:], unicode.IsUpper)
}

func isNumber(word string) bool { return word[0] >= '0' && word[0] <= '9' }

// measures reports whether a number in the sentence has a unit, or is the value of something.
func (w *wording) measures() bool {
	valued := false
	for i, word := range w.words {
		if isNumber(word) {
			of := strings.TrimLeft(word, "0123456789.,/-")
			if of == "" && i+1 < len(w.words) {
				of = w.words[i+1]
			}
			if valued || phrases()[of]>>unit&1 == 1 {
				return true
			}
		}
		valued = valued || phrases()[word]>>value&1 == 1
	}
	return false
}

// score returns the points of a sentence: for the words of deciding, and for names and numbers.
func (w *wording) score() (said, named int) {
	switch {
	case w.counts[strong] > 0:
		said = 3
	case w.counts[middle] > 0:
		said = 2
	case w.counts[weak] > 0:
		said = 1
	}
	said += min(2, max(0, w.counts[strong]+w.counts[middle]-1))
	if w.begins(strong) {
		said++
	}
	for _, word := range w.raw {
		if isName(word) && !isNumber(word) && named < 2 {
			named++
		}
	}
	if w.measures() {
		said++
	}
	if slices.ContainsFunc(w.raw, isNumber) {
		named++
	}
	return said, named
}

// user keeps what the user said: all of a short prompt, the best of a long one.
func (d *digest) user(text string) {
	text = runes.HeadTail(text, maxScan) // it may be a pasted log
	quoted := d.prose(text, entry{quote: quote{kind: fromUser}}, func(w *wording) int {
		if points := asked(w); points > 4 || len(text) <= maxPrompt {
			return points
		}
		return 0
	})
	d.errors(quoted, entry{origin: "quoted by the user"}, false)
}

// asked returns the points of a sentence of the user. Sentences in other languages get points as such,
// since their words of deciding are not known here.
func asked(w *wording) int {
	said, named := w.score()
	switch {
	case w.begins(task) && said < 3, strings.HasSuffix(w.text, "?"):
		return 1 + min(named, 2)
	case len(w.words) < 3 && said+named < 2:
		return 1
	case len(w.words) > 2 && w.counts[english] == 0:
		said += 2
	}
	return 3 + said + min(named, 2)
}

// atLeast gives points to sentences of anybody else, which decide, conclude, or leave something open, if
// they have at least so many.
func atLeast(least int) func(*wording) int {
	return func(w *wording) int {
		said, named := w.score()
		if w.begins(announce) {
			said -= 2
		}
		if slices.ContainsFunc(w.words, func(s string) bool { return s == "i" || s == "we" || s == "you" }) {
			said++
		}
		if said <= 0 || said+named < least {
			return 0
		}
		return said + named
	}
}

// prose keeps the sentences of a text that get points, and returns its lines of code. The other fields of
// the entries are those of e.
func (d *digest) prose(text string, e entry, points func(*wording) int) (quoted []string) {
	prose, quoted := sentences(text)
	for _, s := range prose {
		switch {
		case e.kind == fromUser:
			d.mentions(s, "named by the user", 6)
		case !e.untrusted:
			d.mentions(s, "mentioned", 3)
		}
		w := wordsOf(oneLine(s, maxEntry))
		e.points = points(w)
		d.say(e, w)
	}
	return quoted
}

// mentions keeps the files and addresses that a sentence names.
func (d *digest) mentions(sentence, state string, points int) {
	for _, p := range pathsIn(sentence) {
		d.file(p, state, points)
	}
	for _, u := range urls().FindAllString(sentence, -1) {
		d.put(entry{quote: quote{ofURL, strings.TrimRight(u, ".,;:")}, state: state, points: points})
	}
}

// A subject is what a sentence is about: its words and names without common words, sorted, and its
// numbers.
type subject struct {
	words, numbers   []string
	revokes, chooses bool
}

func subjectOf(w *wording) *subject {
	s := &subject{revokes: w.counts[revoke] > 0, chooses: w.counts[choose] > 0}
	for i, word := range w.words {
		switch {
		case isNumber(word):
			s.numbers = append(s.numbers, word)
		case isName(w.raw[i]) || phrases()[word]&(1<<common|1<<revoke) == 0:
			s.words = append(s.words, word)
		}
	}
	slices.Sort(s.words)
	s.words = slices.Compact(s.words)
	return s
}

// focusOf returns the words of the user about what to keep that name something.
func focusOf(keep string) []string {
	named := slices.DeleteFunc(strings.Fields(keep), func(s string) bool {
		return phrases()[strings.ToLower(s)]&(1<<middle|1<<english) != 0
	})
	return subjectOf(wordsOf(strings.Join(named, " "))).words
}

// focused reports whether a sentence has one of the words that the user wants to keep.
func (d *digest) focused(w *wording) bool {
	return len(d.focus) > 0 && slices.ContainsFunc(subjectOf(w).words, func(s string) bool {
		return slices.Contains(d.focus, s)
	})
}

// overrules reports whether a later sentence about s takes back an earlier one: it has words of
// revoking and shares half of the subject, or it says the same with another number, or it chooses
// something else for the same.
func (s *subject) overrules(old *subject) bool {
	shared, named := 0, false
	for _, word := range s.words {
		if _, ok := slices.BinarySearch(old.words, word); ok {
			shared++
			named = named || strings.ContainsAny(word, "_/.-0123456789")
		}
	}
	least := min(len(s.words), len(old.words))
	switch {
	case s.chooses && old.chooses && shared > 0 && shared == least-1 && len(s.words) == len(old.words):
		return true
	case shared == 0 || shared == 1 && !named && least > 1:
		return false
	case s.revokes:
		return 2*shared >= least
	case len(s.numbers) > 0 && len(old.numbers) > 0 && !slices.Equal(s.numbers, old.numbers):
		return shared == least
	}
	return s.chooses && old.chooses && 5*shared >= 3*least && shared < len(old.words)
}

// say keeps a sentence if it has points, or if it overrules one that is kept, and marks that one. The model
// overrules only itself, and what a tool prints overrules nothing.
func (d *digest) say(e entry, w *wording) {
	if d.focused(w) {
		e.points += 8
	}
	e.text, e.about = oneLine(w.text, maxEntry), subjectOf(w)
	decides := e.kind != fromTool && !strings.HasSuffix(e.text, "?") &&
		(e.about.revokes || e.about.chooses || e.points > 0 && len(e.about.numbers) > 0)
	var overruled []int
	for i := range d.entries {
		old := &d.entries[i]
		if decides && (old.kind == e.kind || e.kind == fromUser && old.kind == fromModel) && old.later == "" && old.text != e.text &&
			e.about.overrules(old.about) {
			overruled = append(overruled, i)
			e.points = max(e.points, old.points)
		}
	}
	if e.points == 0 {
		return
	}
	text := d.put(e).text
	for _, i := range overruled {
		d.entries[i].later = oneLine(text, maxOrigin)
	}
}
