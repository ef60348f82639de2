package compaction

import (
	"encoding/json"
	"fmt"
	gobuild "go/build"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aycoder/aycoder"
)

// corpus is the filler: files of GOROOT, and sentences of their comments.
type corpus struct {
	names     []string // of source files
	docs      []string
	lines     map[string][]string
	sentences []string
	idents    []string
}

var words = regexp.MustCompile(`\b[a-z]+[A-Z]\w+|\b[A-Z][a-z]+[A-Z]\w+`)

var filler = sync.OnceValue(func() *corpus {
	c := &corpus{lines: map[string][]string{}}
	root := filepath.Join(gobuild.Default.GOROOT, "src")
	for _, dir := range []string{"net/http", "encoding/json", "go/types", "os", "database/sql", "text/template", "cmd/go/internal/load", "runtime"} {
		files, _ := filepath.Glob(filepath.Join(root, dir, "*.go"))
		for _, name := range files[:min(len(files), 60)] {
			data, err := os.ReadFile(name)
			if err != nil || len(data) < 2000 {
				continue
			}
			rel, _ := filepath.Rel(root, name)
			rel = "src/" + filepath.ToSlash(rel)
			c.names = append(c.names, rel)
			c.lines[rel] = strings.Split(string(data), "\n")
			c.comments(string(data))
		}
	}
	_ = filepath.WalkDir(filepath.Join(root, "cmd"), func(name string, d fs.DirEntry, err error) error {
		if data, err := os.ReadFile(name); err == nil && strings.HasSuffix(name, ".md") {
			rel, _ := filepath.Rel(root, name)
			rel = "src/" + filepath.ToSlash(rel)
			c.docs = append(c.docs, rel)
			c.lines[rel] = strings.Split(string(data), "\n")
		}
		return nil
	})
	return c
})

// comments adds the sentences of the comments, and identifiers, of a file.
func (c *corpus) comments(src string) {
	var b strings.Builder
	for line := range strings.Lines(src) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "// "); ok {
			b.WriteString(text + " ")
		} else if b.Len() > 0 {
			for s := range strings.SplitSeq(b.String(), ". ") {
				if s = strings.TrimSpace(s); len(s) > 30 && len(s) < 200 && s[0] >= 'A' && s[0] <= 'Z' {
					c.sentences = append(c.sentences, strings.TrimSuffix(s, ".")+".")
				}
			}
			b.Reset()
		}
	}
	c.idents = append(c.idents, words.FindAllString(src, 20)...)
}

// A talk is a conversation that is being generated.
type talk struct {
	*corpus
	rng      *rand.Rand
	messages []*aycoder.Message
	bytes    int
	work     []string // the files that the work is about now
	calls    int
	used     map[string]bool
	slots    map[string]string
}

func pick[T any](g *talk, list []T) T { return list[g.rng.IntN(len(list))] }

func (g *talk) chance(percent int) bool { return g.rng.IntN(100) < percent }

func (g *talk) message(role aycoder.Role, parts ...aycoder.Part) {
	m := &aycoder.Message{Role: role, Parts: parts}
	g.messages = append(g.messages, m)
	g.bytes += int(sizeOf(m.Parts))
}

// step is a message with a call, and its output.
func (g *talk) step(said, tool string, args any, output string, isError bool) {
	g.calls++
	id := "call_" + strconv.Itoa(g.calls)
	data, _ := json.Marshal(args)
	use := &aycoder.ToolUse{ID: id, Name: tool, Args: data}
	parts := []aycoder.Part{use}
	if said != "" {
		parts = []aycoder.Part{&aycoder.Text{Text: said}, use}
	}
	g.message(aycoder.RoleAssistant, parts...)
	g.message(aycoder.RoleUser, &aycoder.ToolOutput{ID: id, Name: tool, IsError: isError,
		Parts: []aycoder.Part{&aycoder.Text{Text: output}}})
}

type args map[string]any

var taskTexts = []string{
	"Now look at %p and explain how %i works.", "Can you add a test for %i in %p?", "Why does %i return early?",
	"Rename %i so that it says what it does.", "Please simplify %p a little, it is hard to read.", "Run the tests of that package again.",
	"What happens if %i is called twice?", "Good. Continue with %p.", "Fix the lint warnings in %p.", "Thanks, that looks right to me.",
	"I think %i could be shorter.", "Show me where %i is used.", "Check whether %p still needs %i.", "Go on.", "Could the loop in %i be avoided?",
	"Have a look at the comment of %i, it seems to be out of date.", "Let us continue with the next file.", "Is there a reason for the lock in %i?",
}

var stepTexts = []string{
	"Let me look at %p.", "I'll check how %i is used.", "Now I'll run the tests.", "", "", "Let me read the rest of %p first.",
	"%i is defined here; next I look at its callers.", "That matches what I expected. Now the tests.", "The function %i takes care of that.", "I see.",
	"Let me search for other uses of %i.",
}

var answerTexts = []string{
	"I changed %i in `%p`: it now returns the error.", "- `%p`: simplified %i", "%i is called from %p and from three tests.",
	"All tests of the package pass.", "The loop in %i is now easier to follow.", "I did not change the behaviour.", "Let me know if you want me to go on with %p.",
	"- added a test for %i", "The comment of %i is up to date again.", "Nothing else in %p uses it.",
}

// fill replaces the names in a text of filler.
func (g *talk) fill(text string) string {
	return strings.NewReplacer("%p", pick(g, g.work), "%i", pick(g, g.idents)).Replace(text)
}

// prose returns sentences of filler, with extra ones among them.
func (g *talk) prose(texts []string, n, comments int, extra ...string) string {
	var all []string
	for range n {
		all = append(all, g.fill(pick(g, texts)))
	}
	for range comments {
		all = append(all, pick(g, g.sentences))
	}
	g.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, e := range extra {
		all = slices.Insert(all, g.rng.IntN(len(all)+1), e)
	}
	sep := pick(g, []string{" ", " ", "\n", "\n\n"})
	if slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, "- ") }) {
		sep = "\n"
	}
	return strings.Join(all, sep)
}

// excerpt returns lines of a file as read_file shows them, with extra lines among them.
func (g *talk) excerpt(name string, n int, extra ...string) string {
	lines := g.lines[name]
	from := g.rng.IntN(max(1, len(lines)-n))
	some := slices.Clone(lines[from:min(len(lines), from+n)])
	for _, e := range extra {
		some = slices.Insert(some, g.rng.IntN(len(some)+1), "", e, "")
	}
	var b strings.Builder
	for i, line := range some {
		fmt.Fprintf(&b, "%6d\t%s\n", from+i+1, line)
	}
	fmt.Fprintf(&b, "[lines %d-%d of %d]\n", from+1, from+len(some), len(lines))
	return b.String()
}

// working is a step of filler.
func (g *talk) working() {
	said := g.prose(stepTexts, 1, g.rng.IntN(6)/4)
	name := pick(g, g.work)
	switch n := g.rng.IntN(100); {
	case n < 45:
		g.step(said, "read_file", args{"path": name}, g.excerpt(name, 40+g.rng.IntN(250)), false)
	case n < 60:
		var b strings.Builder
		for range 10 + g.rng.IntN(40) {
			f := pick(g, g.names)
			i := g.rng.IntN(len(g.lines[f]))
			fmt.Fprintf(&b, "%s:%d: %s\n", f, i+1, g.lines[f][i])
		}
		if g.chance(50) {
			g.step(said, "bash", args{"command": "grep -rn " + pick(g, g.idents) + " src"}, b.String()+"[exit 0]\n", false)
		} else {
			g.step(said, "code_search", args{"pattern": pick(g, g.idents)}, b.String(), false)
		}
	case n < 75:
		i := g.rng.IntN(len(g.lines[name]) - 12)
		old := strings.Join(g.lines[name][i:i+6], "\n")
		diff := "--- " + name + "\n+++ " + name + "\n-" + strings.ReplaceAll(old, "\n", "\n-") + "\n+" + strings.Join(g.lines[name][i+6:i+12], "\n+") + "\n"
		if g.chance(10) {
			g.step(said, "edit_file", args{"path": name, "old_string": old, "new_string": "x"}, "no_match: the old string is not in "+name, true)
			return
		}
		g.step(said, "edit_file", args{"path": name, "old_string": old, "new_string": "x"}, diff, false)
	case n < 95:
		g.testing(said, name)
	default:
		if g.chance(50) {
			doc := pick(g, g.docs)
			g.step(said, "read_file", args{"path": doc}, g.excerpt(doc, 80), false)
			return
		}
		g.step(said, "glob", args{"pattern": "**/*.go"}, strings.Join(g.names[:60], "\n"), false)
	}
}

// testing runs the tests of a package, which fail now and then, and mostly pass when run again.
func (g *talk) testing(said, name string) {
	dir := "./" + filepath.ToSlash(filepath.Dir(name))
	command := args{"command": "go test " + dir + pick(g, []string{"", " 2>&1 | tail -30"})}
	var b strings.Builder
	for range g.rng.IntN(40) {
		fmt.Fprintf(&b, "=== RUN   Test%s\n--- PASS: Test%s (0.%02ds)\n", pick(g, g.idents), pick(g, g.idents), g.rng.IntN(100))
	}
	if g.chance(75) {
		g.step(said, "bash", command, b.String()+fmt.Sprintf("ok  \t%s\t0.%03ds\n[exit 0]\n", dir, g.rng.IntN(1000)), false)
		return
	}
	for range 1 + g.rng.IntN(8) {
		fmt.Fprintf(&b, "%s:%d:%d: undefined: %s\n", name, g.rng.IntN(900), g.rng.IntN(60), pick(g, g.idents))
	}
	g.step(said, "bash", command, b.String()+"FAIL\t"+dir+" [build failed]\n[exit 1]\n", false)
	if g.chance(80) {
		g.step("", "edit_file", args{"path": name, "old_string": "a", "new_string": "b"}, "+b\n-a\n", false)
		g.step("", "bash", command, "ok  \t"+dir+"\t0.1s\n[exit 0]\n", false)
	}
}

var (
	dirNames  = strings.Fields("internal pkg cmd services src lib core api web store queue auth billing ledger notify search mail gateway ingest reports")
	fileNames = strings.Fields("backoff session token parser router worker cache schema invoice retry cursor index merge upload limits audit shard lease batch config")
	exts      = strings.Fields(".go .go .ts .py .rs .java .tsx .yaml .sql .md _test.go .proto")
	verbs     = strings.Fields("Retry Flush Load Merge Parse Route Lease Drain Encode Settle Replay Shard Audit Quote Fetch Split Trim Hash")
	nouns     = strings.Fields("Budget Queue Cursor Ledger Token Window Batch Invoice Tenant Shard Lease Cache Payload Header Digest Ticket Replica Handle")
	libs      = strings.Fields("zerolog badger sqlx pgx redis kafka nats viper cobra chi fiber echo lodash axios zod prisma pytest celery tokio serde jackson guava mockito netty")
	services  = strings.Fields("billing ledger mailer gateway ingest search reports auth notifier scheduler exporter checkout catalog pricing shipping archive")
	people    = strings.Fields("Anna Bjarne Chidi Dolores Emre Fatima Giulia Hiroshi")
	commands  = []string{"make release", "terraform apply", "npm publish", "git push --force", "./scripts/migrate.sh", "make lint", "helm upgrade", "tox -e py312"}
)

// slot returns a value for a slot of a wording; the same one for the same slot of a fact.
func (g *talk) slot(name string) string {
	if v := g.slots[name]; v != "" {
		return v
	}
	var v string
	switch strings.TrimRight(name, "2") {
	case "path":
		v = pick(g, dirNames) + "/" + pick(g, dirNames) + "/" + pick(g, fileNames) + pick(g, []string{"", "_" + pick(g, fileNames)}) + pick(g, exts)
	case "dir":
		v = pick(g, dirNames) + "/" + pick(g, dirNames) + "/" + pick(g, fileNames)
	case "file":
		v = pick(g, fileNames) + "_" + pick(g, fileNames)
	case "Ident":
		v = pick(g, verbs) + pick(g, nouns) + pick(g, []string{"", "", pick(g, nouns)})
	case "ident":
		v = pick(g, []string{strings.ToLower(pick(g, verbs)) + pick(g, nouns), pick(g, fileNames) + "_" + pick(g, fileNames)})
	case "lib":
		v = pick(g, libs)
	case "svc":
		v = pick(g, services)
	case "table":
		v = pick(g, fileNames) + "_" + pick(g, fileNames) + "s"
	case "person":
		v = pick(g, people)
	case "cmd":
		v = pick(g, commands)
	case "env":
		v = strings.ToUpper(pick(g, fileNames) + "_" + pick(g, fileNames))
	case "host":
		v = pick(g, services) + "-" + strconv.Itoa(g.rng.IntN(90)+10) + ".example.net"
	case "ticket":
		v = strings.ToUpper(pick(g, services)[:3]) + "-" + strconv.Itoa(g.rng.IntN(9000)+100)
	case "port":
		v = strconv.Itoa(1024 + g.rng.IntN(60000))
	case "ver":
		v = fmt.Sprintf("v%d.%d.%d", g.rng.IntN(5), g.rng.IntN(30), g.rng.IntN(10))
	case "day":
		v = strconv.Itoa(1 + g.rng.IntN(28))
	default: // num, line, col
		v = strconv.Itoa(2 + g.rng.IntN(4000))
	}
	if slices.Contains([]string{"path", "Ident", "ident", "file"}, name) {
		if g.used[v] || slices.Contains(g.names, v) {
			return g.slot(name)
		}
		g.used[v] = true
	}
	g.slots[name] = v
	return v
}

var slots = regexp.MustCompile(`\{(\w+)\}`)

func (g *talk) fillSlots(wording string) string {
	return slots.ReplaceAllStringFunc(wording, func(s string) string { return g.slot(s[1 : len(s)-1]) })
}

// plan makes a fact from a wording, and the text to plant. It makes two from a wording with a later one.
func (g *talk) plan(w []string) (facts []*fact, texts []string) {
	g.slots = map[string]string{}
	for _, wording := range w[3:] {
		f := &fact{half: w[0], kind: w[1], source: w[2]}
		text := g.fillSlots(wording)
		f.key = text
		if before, rest, ok := strings.Cut(text, "«"); ok {
			key, after, _ := strings.Cut(rest, "»")
			f.key, text = key, before+key+after
		} else if f.kind == "path" {
			f.key = g.slots["path"]
		}
		if g.used[f.key] && f.kind != "path" && f.kind != "number" {
			return g.plan(w)
		}
		g.used[f.key] = true
		if len(facts) > 0 {
			facts[0].later = f
		}
		facts, texts = append(facts, f), append(texts, text)
	}
	return facts, texts
}

// plant adds a step, or a message, with the fact.
func (g *talk) plant(f *fact, text string) {
	f.at = len(g.messages)
	said := g.prose(stepTexts, 1, 0)
	path := g.slots["path"]
	switch f.source {
	case "user":
		g.message(aycoder.RoleUser, &aycoder.Text{Text: g.prose(taskTexts, g.rng.IntN(3), 0, text)})
	case "assistant":
		if g.chance(50) {
			g.message(aycoder.RoleAssistant, &aycoder.Text{Text: g.prose(answerTexts, 2+g.rng.IntN(3), g.rng.IntN(4), text)})
			g.message(aycoder.RoleUser, &aycoder.Text{Text: g.prose(taskTexts, 1, 0)})
		} else {
			g.step(g.prose(stepTexts, 1, 0, text), "read_file", args{"path": g.work[0]}, g.excerpt(g.work[0], 30), false)
		}
	case "ask":
		g.step(said, "ask_user", args{"question": "How should " + pick(g, g.idents) + " be done?"}, text+"\n", false)
	case "sub":
		g.step(said, "subagent", args{"task": "Find out about " + pick(g, g.idents)}, g.prose(answerTexts, 4, 6, text), false)
	case "doc":
		g.step(said, "read_file", args{"path": "docs/" + pick(g, fileNames) + ".md"}, g.excerpt(pick(g, g.docs), 60, text), false)
	case "edit_file", "write_file", "multi_edit":
		g.step(said, f.source, args{"path": text, "content": strings.Join(g.lines[g.work[0]][:30], "\n")}, "--- "+text+"\n+++ "+text+"\n+x\n", false)
	case "apply_patch":
		g.step(said, f.source, args{"patch": "*** Begin Patch\n*** Update File: " + text + "\n@@\n-a\n+b\n*** End Patch\n"}, "-a\n+b\n", false)
	case "delete":
		g.step(said, "bash", args{"command": "rm " + text}, "[no output]\n[exit 0]\n", false)
	case "move":
		g.step(said, "bash", args{"command": "git mv " + g.work[0] + " " + text}, "[no output]\n[exit 0]\n", false)
	default:
		g.plantOutput(f, said, text, path)
	}
}

// runs are the commands that print planted errors.
var runs = map[string]string{
	"go": "go test ./%s/...", "ts": "npx jest %s", "py": "pytest %s", "rust": "cargo test %s", "java": "mvn -q test -Dtest=%s", "bash": "./scripts/%s.sh",
}

// plantOutput adds a command that prints the fact among other lines.
func (g *talk) plantOutput(f *fact, said, text, path string) {
	command := fmt.Sprintf(runs[f.source], pick(g, fileNames)+strconv.Itoa(g.calls))
	var lines []string
	for range 5 + g.rng.IntN(40) {
		lines = append(lines, pick(g, []string{
			"    Compiling " + pick(g, libs), "ok  \tpkg/" + pick(g, fileNames), "=== RUN   Test" + pick(g, g.idents), "step " + pick(g, fileNames) + " done",
			"  ✓ " + pick(g, g.idents), "loading " + pick(g, g.names), pick(g, g.names) + " PASSED", "",
		}))
	}
	lines = slices.Insert(lines, g.rng.IntN(len(lines)), text)
	exit := 0
	if f.kind == "error" && !strings.HasPrefix(text, "level=") {
		exit = 1
	}
	g.step(said, "bash", args{"command": command}, strings.Join(lines, "\n")+fmt.Sprintf("\n[exit %d]\n", exit), false)
	if f.resolved {
		g.step("", "bash", args{"command": command}, fmt.Sprintf("all well\n[exit %d]\n", 0), false)
	}
}

// generated returns a conversation and its facts.
func generated(t *testing.T, seed uint64) ([]*aycoder.Message, []*fact) {
	g := &talk{corpus: filler(), rng: rand.New(rand.NewPCG(seed, 1)), used: map[string]bool{}}
	byKind := map[string][][]string{}
	for _, w := range wordings(t) {
		byKind[w[1]] = append(byKind[w[1]], w)
	}
	type planted struct {
		at int // bytes
		do func()
	}
	var facts []*fact
	var todo []planted
	for _, some := range []struct {
		kind string
		n    int
	}{{"decision", 14}, {"path", 9}, {"error", 10}, {"number", 6}, {"overruled", 5}} {
		for i := range some.n {
			made, texts := g.plan(pick(g, byKind[some.kind]))
			values := g.slots
			made[0].resolved = some.kind == "error" && i < 2 && runs[made[0].source] != ""
			at := g.rng.IntN(aboutBytes)
			for j, f := range made {
				facts = append(facts, f)
				todo = append(todo, planted{at, func() { g.slots = values; g.plant(f, texts[j]) }})
				at += g.rng.IntN(aboutBytes - at)
			}
		}
	}
	slices.SortStableFunc(todo, func(a, b planted) int { return a.at - b.at })
	for g.bytes < aboutBytes {
		g.turn(func() {
			for len(todo) > 0 && todo[0].at <= g.bytes {
				todo[0].do()
				todo = todo[1:]
			}
		})
	}
	return g.messages, facts
}

// turn is a prompt, some steps and an answer; plant is called between them.
func (g *talk) turn(plant func()) {
	if len(g.work) == 0 || g.chance(15) {
		at := g.rng.IntN(len(g.names) - 8)
		g.work = g.names[at : at+8]
	}
	plant()
	comments := 0
	if g.chance(15) {
		comments = 1 + g.rng.IntN(3)
	}
	prompt := g.prose(taskTexts, 1+g.rng.IntN(3), comments)
	if g.chance(4) {
		prompt += "\n" + strings.Join(g.lines[g.work[1]][:60], "\n")
	}
	g.message(aycoder.RoleUser, &aycoder.Text{Text: prompt})
	for range 2 + g.rng.IntN(10) {
		g.working()
		plant()
	}
	g.message(aycoder.RoleAssistant, &aycoder.Text{Text: g.prose(answerTexts, 2+g.rng.IntN(4), g.rng.IntN(5))})
}
