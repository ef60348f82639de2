package cli

import (
	"encoding/json"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// A kept is a directory with conversations, and the program in it.
type kept struct {
	t          *testing.T
	dir, state string
	service    *service
}

func newKept(t *testing.T, s *service) *kept {
	return &kept{t, t.TempDir(), t.TempDir(), s}
}

func (k *kept) env() []string { return append(k.service.env(), "XDG_STATE_HOME="+k.state) }

// run runs the program in the directory.
func (k *kept) run(code int, args ...string) ended {
	k.t.Helper()
	got := runProgram(k.t, k.env(), "", append([]string{"-C", k.dir}, args...)...)
	require.Equal(k.t, code, got.code, got.out+got.err)
	return got
}

// command runs a command of the program in the directory.
func (k *kept) command(code int, args ...string) ended {
	k.t.Helper()
	cmd := program(k.t, k.env(), args...)
	cmd.Dir = k.dir
	return finish(k.t, cmd, code)
}

// A command works in the directory of a flag before it.
func TestCommandInDirectory(t *testing.T) {
	t.Parallel()
	k := newKept(t, newService(t, says("Blue.", "end_turn")))
	k.run(exitOK, "-p", "which colour?")
	require.Contains(t, k.run(exitOK, "sessions", "list").out, k.ids()[0])
	require.Contains(t, runProgram(t, k.env(), "", "-C", t.TempDir(), "sessions", "list").out, "There are no sessions")
	got := runProgram(t, k.env(), "", "-C", filepath.Join(k.dir, "none"), "sessions", "list")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "none")
	require.Len(t, k.service.requests(), 1)
}

func (k *kept) ids() (ids []string) {
	k.t.Helper()
	var list []object
	require.NoError(k.t, json.Unmarshal([]byte(k.command(exitOK, "sessions", "-json").out), &list))
	for _, e := range list {
		ids = append(ids, e["id"].(string))
	}
	return ids
}

// Commands, agents and skills that the user keeps for other programs are the user's own: the nearest directory counts, and
// nothing else is read there.
func TestUserLibrary(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	k := newKept(t, newService(t, says("One.", "end_turn"), says("Two.", "end_turn")))
	home := t.TempDir()
	for name, text := range map[string]string{
		".claude/commands/hi.md": "Greet $1.", ".config/aycoder/commands/both.md": "The nearer one.", ".claude/commands/both.md": "The farther one.",
		".claude/agents/finder.md":   "---\nname: finder\ndescription: Finds things\n---\nYou find.\n",
		".agents/skills/sk/SKILL.md": "---\nname: sk\ndescription: Says how\n---\nDo so.\n",
		".claude/CLAUDE.md":          "INSTRUCTED", ".claude/lessons.md": "- PATTERN: INSTRUCTED\n  RULE: x\n", ".claude/settings.json": `{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch INSTRUCTED"}]}]}}`,
	} {
		name = filepath.Join(home, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	env := append(k.env(), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"))
	got := runProgram(t, env, "", "-C", k.dir, "-p", "/hi world")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.err, "the command both is already in ~/commands/both.md, which is nearer and counts")
	req := k.service.requests()[0]
	for _, want := range []string{"Greet world.", "- finder: Finds things", "- sk: Says how"} {
		require.Contains(t, req, want)
	}
	require.NotContains(t, req, "INSTRUCTED")
	require.NoFileExists(t, filepath.Join(k.dir, "INSTRUCTED"))
	runProgram(t, env, "", "-C", k.dir, "-p", "/both")
	require.Contains(t, k.service.requests()[1], "The nearer one.")
}

func TestGoOnWithASession(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	k := newKept(t, newService(t, says("Blue.", "end_turn"), says("Because.", "end_turn"), says("No.", "end_turn")))
	k.run(exitOK, "-p", "which colour?")
	k.run(exitOK, "-p", "-c", "why?")
	require.Contains(t, k.service.requests()[1], "Blue.")
	ids := k.ids()
	require.Len(t, ids, 1)
	k.run(exitOK, "-p", "-r", ids[0][:5], "sure?")
	require.Contains(t, k.service.requests()[2], "Because.")
	require.Contains(t, k.run(exitUsage, "-p", "-r", "zz", "x").err, "none whose id begins so")
	require.Contains(t, k.run(exitUsage, "-p", "-r", ids[0]).err, "does not wait for anything")
	other := newKept(t, k.service)
	other.state = k.state
	require.Contains(t, other.run(exitUsage, "-p", "-r", ids[0], "x").err, "add -C ")
	k.run(exitOK, "-p", "a new one")
	require.NotContains(t, k.service.requests()[3], "Blue.")
	require.Len(t, k.ids(), 2)
	require.Len(t, k.service.requests(), 4)

	// A session that another process has open is passed over, and the program says so.
	store, err := journal.Dir(filepath.Join(k.state, "aycoder", "sessions"))
	require.NoError(t, err)
	j, err := store.Open(t.Context(), k.ids()[0], true)
	require.NoError(t, err)
	require.Contains(t, k.run(exitOK, "-p", "-c", "and now?").err, "open: this is an older one")
	require.Contains(t, k.service.requests()[4], "Blue.")
	older, err := store.Open(t.Context(), ids[0], true)
	require.NoError(t, err)
	require.Contains(t, k.run(exitOK, "-p", "-c", "and now?").err, "open: this is a new one")
	require.NotContains(t, k.service.requests()[5], "Blue.")
	require.NoError(t, j.Close())
	require.NoError(t, older.Close())
}

func TestNoSession(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	k := newKept(t, newService(t, says("ok", "end_turn")))
	k.run(exitOK, "-p", "-no-session", "hi")
	require.Empty(t, filesIn(t, k.state))
	got := runProgram(t, []string{"XDG_STATE_HOME=" + k.state}, "", "-p", "What is a monad?", "-model", "demo")
	require.Equal(t, exitOK, got.code, got.err)
	require.Empty(t, filesIn(t, k.state), "the demo keeps nothing")
	k.run(exitUsage, "-p", "-no-session", "-c", "hi")
	k.run(exitUsage, "-p", "-model", "nobody/x", "hi")
	require.Empty(t, k.ids(), "a run that did not begin leaves nothing")
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// Where nothing can be kept, the work is done all the same, unless a session is asked for.
func TestNoPlaceForSessions(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	k := newKept(t, newService(t, says("ok", "end_turn")))
	k.state = filepath.Join(k.dir, "file")
	require.NoError(t, os.WriteFile(k.state, nil, 0o600))
	require.Contains(t, k.run(exitOK, "-p", "hi").err, "this conversation is not kept: ")
	require.Contains(t, k.run(exitError, "-p", "-c", "hi").err, "go on with a session: this conversation is not kept")
}

// Old sessions are deleted only if the user's configuration says so, and one that is open never is.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	k := newKept(t, newService(t, says("ok", "end_turn")))
	config := filepath.Join(k.state, "aycoder", "config.toml") // XDG_CONFIG_HOME is the same directory
	env := append(k.env(), "XDG_CONFIG_HOME="+k.state)
	run := func(settings string, args ...string) ended {
		t.Helper()
		require.NoError(t, os.WriteFile(config, []byte(settings), 0o600))
		got := runProgram(t, env, "", append([]string{"-C", k.dir, "-p"}, args...)...)
		require.Equal(t, exitOK, got.code, got.err)
		return got
	}
	k.run(exitOK, "-p", "one")
	first := k.ids()[0]
	k.run(exitOK, "-p", "two")
	second := k.ids()[0]
	store, err := journal.Dir(filepath.Join(k.state, "aycoder", "sessions"))
	require.NoError(t, err)
	change := func(id string, f func(j journal.Journal, e journal.Entry) error) {
		t.Helper()
		j, err := store.Open(t.Context(), id, true)
		require.NoError(t, err)
		for e, err := range store.List(t.Context()) {
			require.NoError(t, err)
			if e.ID == id {
				require.NoError(t, f(j, e))
			}
		}
		require.NoError(t, j.Close())
	}
	age := func(id string, days int) {
		change(id, func(j journal.Journal, e journal.Entry) error {
			e.Used = e.Used.AddDate(0, 0, -days)
			return j.Describe(t.Context(), e)
		})
	}
	age(first, 1000)
	age(second, 40)
	run("", "three")
	require.Len(t, k.ids(), 3, "nobody has said how long to keep them")
	got := run("[session]\nkeep = \"2160h\"\n", "-r", second, "again")
	require.Contains(t, got.err, "aycoder: deleted 1 old session, as session.keep")
	require.NotContains(t, k.ids(), first)
	require.Len(t, k.ids(), 2)
	require.NotContains(t, run("[session]\nkeep = \"2160h\"\n", "-c", "more").err, "deleted")

	big := make([]byte, 3<<20) // which no compression makes smaller
	rand.NewChaCha8([32]byte{}).Read(big)
	change(second, func(j journal.Journal, e journal.Entry) error { return j.Put(t.Context(), journal.HashOf(big), big) })
	require.Regexp(t, `, 2 sessions of 3\.\d MB, `, findings(t, runProgram(t, env, "", "doctor", "-json"))["sessions"].Text)
	require.Regexp(t, `^Trimmed `+second+` from 3\.\d MB to 0\.\d MB\.\n$`, k.command(exitOK, "sessions", "trim", second).out)
	require.Contains(t, k.command(exitOK, "sessions", "show", second).out, "again")
	change(second, func(j journal.Journal, e journal.Entry) error { return j.Put(t.Context(), journal.HashOf(big), big) })
	require.Contains(t, run("[session]\nmax_bytes = 1048576\n", "-r", second, "last").err, "deleted 1 old session,")
	require.Equal(t, []string{second}, k.ids(), "it is larger, but it was open")
	require.Contains(t, run("[session]\nmax_bytes = 1048576\n", "a new one").err, "deleted 1 old session,")
	require.Len(t, k.ids(), 1)
	require.NotContains(t, k.ids(), second)
}

// A session goes on twice, each for itself.
func TestForkedSession(t *testing.T) {
	t.Parallel()
	service := newService(t, says("Blue.", "end_turn"), says("Sky.", "end_turn"), says("Sea.", "end_turn"))
	k := newKept(t, service)
	k.run(exitOK, "-p", "say a colour")
	first := k.ids()[0]
	require.Contains(t, k.command(exitOK, "sessions", "fork", first).out, "Forked as ")
	both := k.ids()
	require.Len(t, both, 2)
	forked := both[0]
	if forked == first {
		forked = both[1]
	}
	k.run(exitOK, "-p", "-r", first, "what has it?")
	k.command(exitOK, "sessions", "delete", first)
	k.run(exitOK, "-p", "-r", forked, "and what else?")
	last := service.requests()[2]
	require.Contains(t, last, "say a colour")
	require.Contains(t, last, "Blue.")
	require.NotContains(t, last, "what has it?")
	require.Contains(t, k.command(exitUsage, "sessions", "fork", "none").err, "none")
}

// A run that needed an approval is kept, and goes on where it was.
func TestSuspendedRunGoesOn(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("bash does not run commands here")
	}
	k := newKept(t, newService(t, calls("bash", `{"command":"touch done"}`), says("Ran.", "end_turn")))
	got := k.run(exitApproval, "-p", "touch it")
	m := regexp.MustCompile(`or go on with -r (\w+)\)`).FindStringSubmatch(got.err)
	require.NotNil(t, m, got.err)
	require.Equal(t, k.ids(), m[1:])
	k.run(exitApproval, "-p", "-r", m[1])
	require.NoFileExists(t, filepath.Join(k.dir, "done"))
	require.Equal(t, "Ran.\n", k.run(exitOK, "-p", "-r", m[1], "-allow", "bash:touch *").out)
	require.FileExists(t, filepath.Join(k.dir, "done"))
}

// A rule that the program suggests allows nothing else, whatever the model has put into its command.
func TestSuggestedRuleIsOneRule(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("bash does not run commands here")
	}
	k := newKept(t, newService(t, calls("bash", `{"command":"touch a,bash"}`), calls("bash", `{"command":"touch bb"}`), says("Done.", "end_turn")))
	got := k.run(exitApproval, "-p", "-output", "json", "touch it")
	allow := lastLine(t, got.out)["needs_approval"].([]any)[0].(object)["allow"].(string)
	k.run(exitApproval, "-p", "-r", k.ids()[0], "-allow", allow)
	require.FileExists(t, filepath.Join(k.dir, "a,bash"))
	require.NoFileExists(t, filepath.Join(k.dir, "bb"))
}

// For a command that no rule describes, the program does not suggest to allow all commands.
func TestNoRuleIsSuggested(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("touch a; mkdir -p b; ", 60)
	k := newKept(t, newService(t, calls("bash", `{"command":"`+long+`"}`)))
	got := k.run(exitApproval, "-p", "-output", "json", "touch it")
	require.Empty(t, lastLine(t, got.out)["needs_approval"].([]any)[0].(object)["allow"])
	require.NotContains(t, got.err, "-allow")
	require.Contains(t, got.err, "run without -p")
}

// An empty text is not the beginning of the only id.
func TestEmptyID(t *testing.T) {
	t.Parallel()
	k := newKept(t, newService(t, says("ok", "end_turn")))
	k.run(exitOK, "-p", "hi")
	require.Contains(t, k.command(exitUsage, "sessions", "delete", "").err, "an id is missing")
	require.Len(t, k.ids(), 1)
	require.Contains(t, k.run(exitUsage, "-p", "-r", "", "why?").err, "it is empty")
	require.Contains(t, k.run(exitUsage, "-p", "-w", "", "why?").err, "it is empty")
	require.Len(t, k.service.requests(), 1)
}

// A secret that the user has typed is in no list and no document for people.
func TestSecretsInSessions(t *testing.T) {
	timed.Serial(t)
	secret := "ghp_" + "x7Kq2mVt9RwZ4nBp8LcY3hJd6FsG1uEa5QoT" // in two, so that nothing takes it for a real one
	k := newKept(t, newService(t, says("Noted.", "end_turn")))
	k.run(exitOK, "-p", "remember the token "+secret)
	id := k.ids()[0]
	for _, args := range [][]string{{"sessions"}, {"sessions", "-json"}, {"sessions", "search", "token"}, {"sessions", "search", "token", "-json"},
		{"sessions", "show", id}, {"sessions", "show", id, "-json"}, {"sessions", "export", id, "md"}, {"sessions", "export", id, "html"}} {
		out := k.command(exitOK, args...).out
		require.Contains(t, out, "token", args)
		require.NotContains(t, out, secret, args)
	}
	require.Contains(t, k.command(exitOK, "sessions", "export", id).out, secret, "a copy to import")
}

func TestSessionCommands(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	k := newKept(t, newService(t, says("Blue whales.", "end_turn")))
	require.Contains(t, k.command(exitOK, "sessions").out, "There are no sessions")
	k.run(exitOK, "-p", "largest animal?")
	id := k.ids()[0]
	require.Contains(t, k.command(exitOK, "sessions").out, "largest animal?")
	require.Contains(t, k.command(exitOK, "sessions", "show", id[:6]).out, "Blue whales.")
	require.Contains(t, k.command(exitOK, "sessions", "search", "whales").out, id)
	require.Equal(t, "Nothing was found.\n", k.command(exitOK, "sessions", "search", "octopus").out)
	require.Equal(t, "Nothing was found.\nPerhaps it is: the largest\n", k.command(exitOK, "sessions", "search", "the larg").out)
	k.command(exitOK, "sessions", "rename", id, "About", "whales")
	require.Contains(t, k.command(exitOK, "sessions").out, "About whales")
	html := k.command(exitOK, "sessions", "export", id, "html").out
	require.Contains(t, html, "<html")
	require.Contains(t, k.command(exitUsage, "sessions", "export", id, "pdf").err, `no format "pdf"`)

	file := filepath.Join(k.dir, "export.json")
	require.NoError(t, os.WriteFile(file, []byte(k.command(exitOK, "sessions", "export", id).out), 0o600))
	k.command(exitOK, "sessions", "delete", id)
	require.Empty(t, k.ids())
	k.command(exitOK, "sessions", "import", file)
	again := k.ids()
	require.Len(t, again, 1)
	require.NotEqual(t, id, again[0])
	require.Contains(t, k.command(exitOK, "sessions", "show", again[0]).out, "Blue whales.")
	require.Contains(t, k.command(exitUsage, "sessions", "delete", id).err, "none whose id begins so")
	require.Contains(t, k.command(exitUsage, "sessions", "rename", id).err, "it is used so: aycoder sessions rename id title")
}

func TestStateDir(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	tests := []struct {
		system string
		env    map[string]string
		want   string
	}{
		{"linux", map[string]string{"HOME": home}, filepath.Join(home, ".local/state/aycoder")},
		{"linux", map[string]string{"HOME": home, "XDG_STATE_HOME": filepath.Join(home, "s")}, filepath.Join(home, "s/aycoder")},
		{"linux", map[string]string{"HOME": home, "LOCALAPPDATA": filepath.Join(home, "l")}, filepath.Join(home, ".local/state/aycoder")},
		{"windows", map[string]string{"HOME": home, "LOCALAPPDATA": filepath.Join(home, "l")}, filepath.Join(home, "l/aycoder")},
		{"linux", map[string]string{"XDG_STATE_HOME": "relative"}, ""},
		{"linux", nil, ""},
	}
	for _, tt := range tests {
		got := stateDir(func(name string) string { return tt.env[name] }, tt.system)
		require.Equal(t, tt.want, got, "%s %v", tt.system, tt.env)
	}
}

func TestImage(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	k := newKept(t, newService(t, says("A dot.", "end_turn")))
	require.NoError(t, os.WriteFile(filepath.Join(k.dir, "a.png"), pixel, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(k.dir, "a.txt"), []byte("text"), 0o600))
	k.run(exitOK, "-p", "-i", "a.png", "what is it?")
	require.Contains(t, k.service.requests()[0], `"media_type":"image/png"`)
	require.Contains(t, k.run(exitUsage, "-p", "-i", "a.txt", "what is it?").err, "-i a.txt: it is text/plain")
	require.NoError(t, os.WriteFile(filepath.Join(k.dir, "half.png"), pixel[:60], 0o600))
	require.Contains(t, k.run(exitUsage, "-p", "-i", "half.png", "what is it?").err, "-i half.png: it is cut off or damaged")
	require.Contains(t, k.run(exitUsage, "-p", "-i", "none.png", "what?").err, "-i none.png: ")
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	k := newKept(t, newService(t, says("here", "end_turn")))
	got := runProgram(t, []string{"OPENAI_API_KEY=", keyEnv + "=sk-ant-secret-0123"}, "", "-p", "hi", "-base-url", k.service.URL)
	require.Equal(t, "here\n", got.out, got.err)
}

func TestMaxCost(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	k := newKept(t, newService(t, calls("list_files", `{}`)))
	got := k.run(exitLimit, "-p", "-max-cost", "0", "hi")
	require.Contains(t, got.err, "agent.max_cost")
	k.run(exitUsage, "-p", "-max-cost", "x", "hi")
}

const colourSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`

func TestSchema(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	k := newKept(t, newService(t, calls("answer", `{"name":"blue"}`)))
	file := filepath.Join(k.dir, "schema.json")
	require.NoError(t, os.WriteFile(file, []byte(colourSchema), 0o600))
	require.JSONEq(t, `{"name":"blue"}`, k.run(exitOK, "-p", "-schema", file, "which colour?").out)
	last := lastLine(t, k.run(exitOK, "-p", "-output", "json", "-schema", file, "which colour?").out)
	require.Equal(t, object{"name": "blue"}, last["value"])
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"array"}`), 0o600))
	require.Regexp(t, `aycoder: -schema: .*is not "object"`, k.run(exitUsage, "-p", "-schema", file, "which?").err)
	k.run(exitUsage, "-p", "-schema", filepath.Join(k.dir, "none"), "which?")

	k = newKept(t, newService(t, says("Blue.", "end_turn")))
	require.NoError(t, os.WriteFile(filepath.Join(k.dir, "s.json"), []byte(colourSchema), 0o600))
	got := k.run(exitError, "-p", "-schema", "s.json", "which colour?")
	require.Empty(t, strings.TrimSpace(got.out), "nothing that does not fit is printed")
}

// Changes that were left out because of somebody else's are told by the exit status, unless a later call has made them.
func TestConflictsLeft(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	edit := func(old, text string) string {
		return `{"path":"a.txt","old_string":"` + old + `","new_string":"` + text + `"}`
	}
	for _, solved := range []bool{false, true} {
		k := newKept(t, nil)
		file := filepath.Join(k.dir, "a.txt")
		require.NoError(t, os.WriteFile(file, []byte("one\n"), 0o600))
		change := calls("edit_file", edit("one", "two"))
		answers := []http.HandlerFunc{calls("read_file", `{"path":"a.txt"}`), func(w http.ResponseWriter, r *http.Request) {
			assert.NoError(t, os.WriteFile(file, []byte("three\n"), 0o600))
			change(w, r)
		}}
		code := exitConflicts
		if solved {
			code = exitOK
			answers = append(answers, calls("read_file", `{"path":"./a.txt"}`), calls("edit_file", edit("three", "four")))
		}
		k.service = newService(t, append(answers, says("Done.", "end_turn"))...)
		got := k.run(code, "-p", "-allow", "edit_file", "change it", "-output", "json")
		last := lastLine(t, got.out)
		if !solved {
			require.Equal(t, []any{"a.txt"}, last["conflicts"])
			require.Contains(t, got.err, "conflict with yours: a.txt")
		}
		require.EqualValues(t, code, last["exit_code"])
	}
}

func TestForesees(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	priced := func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		says("Done.", "end_turn")(rec, r)
		_, _ = io.WriteString(w, strings.NewReplacer("claude-test", "claude-haiku-4-5", `"output_tokens":5}`, `"output_tokens":5000}`).Replace(rec.Body.String()))
	}
	k := newKept(t, newService(t, priced))
	for range 10 {
		require.NotContains(t, k.run(exitOK, "-p", "fix the parser").err, "similar tasks")
	}
	require.Regexp(t, `The 10 most similar tasks took 1 turn and \$0\.0\d as a median; -max-cost 0\.0[1-9] would have held`,
		k.run(exitOK, "-p", "fix the lexer").err)
	require.NotContains(t, k.run(exitOK, "-p", "-c", "go on").err, "similar tasks", "it has begun")
	require.NotContains(t, k.run(exitOK, "-p", "-max-cost", "1", "fix the lexer").err, "similar tasks")
}

// A flag chooses no mode that the administrator does not permit, and the user is told.
func TestManagedModeAndFlag(t *testing.T) {
	managed := filepath.Join(t.TempDir(), "managed.toml")
	require.NoError(t, os.WriteFile(managed, []byte("approval.mode = \"plan\"\n"), 0o600))
	loaded, err := config.Load(config.WithManagedFile(managed))
	require.NoError(t, err)
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithConfig(loaded),
		harness.WithStore(journal.Memory(), ""))
	require.NoError(t, err)
	defer rt.Close()
	s := &session{Runtime: rt}
	s.resumed(&options{mode: policy.FullAuto})
	require.Equal(t, policy.Plan, rt.Policy.Mode())
	require.Equal(t, []*aycoder.Notice{{Source: "config", Text: "mode full-auto: the configuration permits none that is less strict than plan"}}, s.notes)
}
