package source_test

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/stretchr/testify/require"
)

// Declarations are those that ctags finds. The two differ where the source is more than either reads: in
// macros that declare something, in branches of #if that do not fit together.
func TestCtags(t *testing.T) {
	if _, err := exec.LookPath("ctags"); err != nil {
		t.Skip("ctags is not installed")
	}
	for _, tt := range []struct {
		lang  source.Language
		args  []string
		least float64
	}{
		{source.C, []string{"--languages=C,C++", "--langmap=C:.c.h", "--langmap=C++:.cc.cpp.hpp", "--kinds-C=+px-lzLD", "--kinds-C++=+px-lzLDNUAn"}, 0.97},
		{source.Java, []string{"--languages=Java", "--kinds-Java=-lp"}, 0.99},
		{source.Rust, []string{"--languages=Rust", "--kinds-Rust=-mecCn"}, 0.97},
		{"csharp", []string{"--languages=C#", "--kinds-C#=-lEtn"}, 0.96},
	} {
		t.Run(string(tt.lang), func(t *testing.T) {
			dirs := []string{os.Getenv("AYCODER_REPOS")}
			if tt.lang == source.C {
				dirs = append(dirs, "/usr/include/linux", "/usr/include/X11")
			}
			files := realFiles(t, tt.lang, dirs...)
			want, got := ctags(t, tt.args, files), declared(tt.lang, files)
			missed, extra := difference(want, got), difference(got, want)
			t.Logf("%d files: ctags %d, scanner %d, missed %d, extra %d", len(files), len(want), len(got), len(missed), len(extra))
			for _, m := range sample(missed) {
				t.Log("missed", m)
			}
			for _, m := range sample(extra) {
				t.Log("extra ", m)
			}
			require.Greater(t, 1-float64(len(missed))/float64(len(want)), tt.least)
			require.Greater(t, 1-float64(len(extra))/float64(len(got)), tt.least)
		})
	}
}

func sample(all []string) (out []string) {
	for i := 0; i < len(all); i += 1 + len(all)/30 {
		out = append(out, all[i])
	}
	return out
}

func difference(a, b map[string]bool) []string {
	out := []string{}
	for k := range a {
		if !b[k] {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// ctags returns the file, line and name of each declaration.
func ctags(t *testing.T, args []string, files map[string][]byte) map[string]bool {
	cmd := exec.Command("ctags", append(args, "-f", "-", "--sort=no", "--excmd=number", "-L", "-")...)
	cmd.Stdin = strings.NewReader(strings.Join(slices.Collect(maps.Keys(files)), "\n"))
	data, err := cmd.Output()
	require.NoError(t, err)
	out := map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		fields := strings.Split(lines.Text(), "\t")
		if name := fields[0][strings.LastIndexByte(fields[0], '.')+1:]; !strings.HasPrefix(name, "__anon") {
			name = strings.Replace(name, "operator ", "operator", 1)
			out[fmt.Sprintf("%s:%s %s", fields[1], strings.TrimSuffix(fields[2], `;"`), name)] = true
		}
	}
	return out
}

func declared(lang source.Language, files map[string][]byte) map[string]bool {
	out := map[string]bool{}
	for p, src := range files {
		line, at := 1, 0
		decls := source.Scan(lang, src, source.All).Decls
		slices.SortFunc(decls, func(a, b source.Decl) int { return int(a.NameAt - b.NameAt) })
		for _, d := range decls {
			line, at = line+bytes.Count(src[at:d.NameAt], []byte("\n")), int(d.NameAt)
			if d.Kind != source.Module {
				out[fmt.Sprintf("%s:%d %s", p, line, strings.Replace(d.Name, "operator ", "operator", 1))] = true
			}
		}
	}
	return out
}
