package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// notCommands are words with which something else than a simple command begins.
var notCommands = strings.Fields("if then elif else fi do done case esac while until for in function select time " +
	"coproc let declare typeset local export readonly nameref")

// ways are scripts around a command.
var ways = []string{
	"%s", "ls; %s", "ls && %s", "ls | %s", "%s | cat", "%s &", "(%s)", "{ %s; }", "if true; then %s; fi", "for i in 1; do %s; done",
	"echo $(%s)", "echo `%s`", "cat <(%s)", "env %s", "env A=1 %s", "timeout 5 %s", "nice -n 3 %s", "nohup %s", "command %s", "exec %s",
	"sudo %s", "sh -c '%s'", "bash -c \"%s\"", "eval %s", "env timeout 5 sh -c '%s'", "cd sub && %s", "%s > out.txt", "f() { %s; }; f",
}

// Whatever stands around a command that a deny rule covers, it does not run.
func FuzzDenyIsNotHidden(f *testing.F) {
	f.Add("rm -rf x", uint8(0))
	f.Add("git push origin", uint8(14))
	f.Add("make a/b.c", uint8(21))
	f.Fuzz(func(t *testing.T, text string, way uint8) {
		words := strings.Fields(strings.Map(func(r rune) rune {
			if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789./-_ ", r) {
				return r
			}
			return -1
		}, text))
		if len(words) == 0 || len(words) > 8 || len(words[0]) > 20 || slices.Contains(notCommands, words[0]) {
			return
		}
		if strings.Trim(words[0], "abcdefghijklmnopqrstuvwxyz") != "" {
			return
		}
		deny := Rule{Action: RuleDeny, Tool: "bash", Pattern: words[0] + " *"}
		p, err := New(WithWorkspace("/ws"), WithMode(FullAuto), WithRules(Project, deny))
		require.NoError(t, err)
		script := fmt.Sprintf(ways[int(way)%len(ways)], strings.Join(words, " "))
		args, err := json.Marshal(map[string]string{"command": script})
		require.NoError(t, err)
		spec := &aycoder.ToolSpec{Name: "bash", Subject: aycoder.Subject{Arg: "command", Kind: aycoder.SubjectCommand}}
		v, err := json.Marshal(p.Decide(context.Background(), &aycoder.ToolUse{Name: "bash", Args: args}, spec))
		require.NoError(t, err)
		require.NotContains(t, string(v), `"kind":"allow"`, "%q in spite of deny %s", script, deny)
	})
}

// A pattern that is made of words covers just those.
func FuzzPattern(f *testing.F) {
	f.Add("go test", "./...")
	f.Add(`a\b *c`, "")
	f.Fuzz(func(t *testing.T, a, b string) {
		var words, argv []string
		for _, w := range []string{a, b} {
			if w != "" {
				argv = append(argv, w)
				words = append(words, quoteWord.Replace(w))
			}
		}
		split := splitPattern(strings.Join(words, " "))
		require.Equal(t, len(words), len(split))
		require.True(t, prefixes(split, argv))
		require.False(t, prefixes(split, append(argv, "more")))
		require.True(t, prefixes(append(split, "*"), append(argv, "more")))
		for i, w := range split {
			text, literal := plainText(w)
			require.True(t, literal)
			require.Equal(t, argv[i], text)
			require.Equal(t, argv[i] == a+b, matchText(w, a+b))
		}
		require.True(t, matchText("*"+quoteWord.Replace(a)+"*", b+a+b))
	})
}

// A file that is taken means the same when it is written again.
func FuzzRulesFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"rules":[{"action":"allow","tool":"bash","pattern":"go test *","class":"network","match":["go test x"]}]}`))
	f.Add([]byte(`{"version":1,"rules":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseRules(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(rulesJSON{fileVersion, entries})
		require.NoError(t, err)
		back, err := parseRules(again)
		require.NoError(t, err)
		require.Equal(t, len(entries), len(back))
		for i := range entries {
			require.ElementsMatch(t, entries[i].Match, back[i].Match)
			require.Zero(t, compareRules(entries[i], back[i]))
		}
		_, _ = New(WithRules(User, entries...))
	})
}

// A rule that a program shows, and reads again from its settings, covers the same calls.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"bash", "bash:go vet *", "*@writes_outside:curl *", "a@b@c", "a:b:c@d", " a @ b : c ", "@b", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRule(RuleAsk, s)
		if err != nil {
			require.Equal(t, Rule{}, r)
			return
		}
		again, err := ParseRule(RuleAsk, r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}
