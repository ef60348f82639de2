package suggest_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/codegraph/lint"
	"github.com/aycoder/aycoder/insight/suggest"
	"github.com/aycoder/aycoder/internal/gittest"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

type world struct {
	testing.TB
	dir string
}

func newWorld(t testing.TB) *world {
	w := &world{t, t.TempDir()}
	w.git("init", "-q", "-b", "main")
	return w
}

func (w *world) git(args ...string) {
	w.Helper()
	gittest.With(w, w.dir, []string{"GIT_AUTHOR_DATE=2026-01-05T12:00:00Z", "GIT_COMMITTER_DATE=2026-01-05T12:00:00Z"}, args...)
}

func (w *world) write(name, text string) {
	w.Helper()
	require.NoError(w, os.MkdirAll(filepath.Dir(filepath.Join(w.dir, name)), 0o755))
	require.NoError(w, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644))
}

func (w *world) commit() {
	w.Helper()
	w.git("add", "-A", "-f")
	w.git("commit", "-qm", "x")
}

func (w *world) options() suggest.Options {
	ws, err := workspace.Open(w.dir)
	require.NoError(w, err)
	w.Cleanup(func() { ws.Close() })
	return suggest.Options{Files: ws, Dir: w.dir, Now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
}

// find returns the suggestions as "kind path:line text", without ids.
func (w *world) find(o suggest.Options) (out []string) {
	w.Helper()
	r, err := suggest.Find(w.Context(), o)
	require.NoError(w, err)
	for _, s := range r.All {
		out = append(out, fmt.Sprintf("%s %s:%d %s", s.Kind, s.Path, s.At, s.Text))
	}
	return out
}

func functions(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\n// F%d does.\nfunc F%d() int { return %d }\n", i, i, i)
	}
	return b.String()
}

// Each kind has a planted case, and a near miss.
func TestPlanted(t *testing.T) {
	w := newWorld(t)
	token := "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
	w.write("ok/ok.go", "package ok\n"+functions(25))
	w.write("ok/ok_test.go", "package ok\n")
	w.write("bare/bare.go", "package bare\n\nfunc Bare() {}\n\nconst (\n\tA = 1 // one\n)\n\n// A group.\nvar (\n\tB = 1\n)\n\nfunc (t hidden) M() {}\n\ntype hidden int\n")
	w.write("bare/used.go", "package bare\n"+strings.ReplaceAll(functions(6), "F", "f"))
	w.write("few/few.go", "package few\n"+functions(4))
	w.write("risk/r.go", "package risk\n\nvar a = tls.Config{InsecureSkipVerify: true}\n// InsecureSkipVerify: true\nvar b = tls.Config{InsecureSkipVerify: false}\nvar c = exec.Command(\"sh\", \"-c\", fmt.Sprintf(\"ls %s\", d))\nvar d = exec.Command(\"sh\", \"-c\", \"ls\")\n"+
		"var e, _ = db.Query(\"SELECT * FROM t WHERE a = '\" + d + \"'\")\nvar f, _ = db.Query(\"SELECT a FROM t WHERE a = ?\", d)\n")
	w.write("risk/r_test.go", "package risk\n\nvar x = tls.Config{InsecureSkipVerify: true}\n")
	w.write("risk/r.py", "import subprocess, yaml\nsubprocess.run(cmd, shell=True)\nsubprocess.run(cmd, shell=False)\nyaml.load(x)\nyaml.load(x, Loader=yaml.SafeLoader)\nyaml.safe_load(x)\nrequests.get(u, verify=False)\nos.system(f'rm {x}')\nos.system('ls')\nmodel.eval()\neval(x)\n# eval(x)\n")
	w.write("risk/r.js", "a.innerHTML = b\na.innerHTML = ''\nif (a.innerHTML == b) {}\nexec(`ls ${x}`)\nexecFile('ls', [x])\n")
	w.write("secret.txt", "line\ntoken = "+token+"\n")
	w.write("near.txt", "token = <your token>\n--api-key provider=KEY\ngithub_token: ${{ secrets.GITHUB_TOKEN }}\n")
	w.write("picture.tcl", "image create photo logo -data {\nxZ/fpc/Pz7fnvPXNytnZ2eLi4s/v0vja1+zs7Of36fX19f3z8v///////////////////ywAAAAA\nYQC8AAAF/uAmjmRpnmiqrmzrvq4hz3RtGw+s7zx5/7dcb0hUAY8zYXHJRCKVzGjPeYRKry8q0Irt\n}\n")
	w.write(".env", "A=1\n")
	w.write("todo.go", "package x\n\n// TODO: old\nvar a = 1\n\nvar todo = \"TODO: no comment\"\n\n// TODOS are no TODO list\nvar b = 1\n")
	w.write("vendor/v.js", "a.innerHTML = b\n")
	w.commit()
	w.git("update-ref", "refs/remotes/origin/main", "HEAD")
	require.Equal(t, []string{
		"secret .env:0 files of this name often hold secrets, and git does not ignore it; if it holds one, take it out of git, and let .gitignore name it",
		`secret secret.txt:2 1 secret is in the text, of the kind "github-token"; move it out of the repository, and replace it where it is valid`,
		"risk risk/r.go:3 the certificate of a server is not checked: var a = tls.Config{InsecureSkipVerify: true}",
		`risk risk/r.go:6 a shell runs a text that is put together; pass arguments instead: var c = exec.Command("sh", "-c", fmt.Sprintf("ls %s", d))`,
		`risk risk/r.go:8 SQL is put together; use parameters: var e, _ = db.Query("SELECT * FROM t WHERE a = '" + d + "'")`,
		"risk risk/r.js:1 text becomes HTML; make sure that it is escaped: a.innerHTML = b",
		"risk risk/r.js:4 a shell runs a text that is put together; use execFile: exec(`ls ${x}`)",
		"risk risk/r.py:2 a shell runs a text; pass a list of arguments: subprocess.run(cmd, shell=True)",
		"risk risk/r.py:8 a shell runs a text; pass a list of arguments: os.system(f'rm {x}')",
		"risk risk/r.py:4 yaml.load can run code; use yaml.safe_load: yaml.load(x)",
		"risk risk/r.py:7 the certificate of a server is not checked: requests.get(u, verify=False)",
		"risk risk/r.py:11 eval runs a text as code: eval(x)",
		"tests bare:0 8 functions in go, and no test uses a file here",
		"docs bare/bare.go:3 1 exported name is without a comment in bare: Bare",
		"todo todo.go:3 since 2026-01-05: // TODO: old",
		"todo todo.go:8 since 2026-01-05: // TODOS are no TODO list",
	}, slices.DeleteFunc(w.find(w.options()), func(s string) bool { return strings.HasPrefix(s, "simpler ") }))
	require.Contains(t, w.find(w.options()), "simpler risk/r.go:3 dead code: nothing in the package uses a")
	o := w.options()
	o.Now = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	require.NotContains(t, strings.Join(w.find(o), "\n"), "\ntodo ")
	r, err := suggest.Find(t.Context(), w.options())
	require.NoError(t, err)
	for _, s := range r.All {
		require.NotContains(t, s.Line(), token)
	}
	data, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(data), token)
}

// Windows programs write UTF-16, which has secrets as well.
func TestSecretInUTF16(t *testing.T) {
	w := newWorld(t)
	text := "line\r\ntoken = ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5\r\n"
	for name, order := range map[string]binary.AppendByteOrder{"big.txt": binary.BigEndian, "little.txt": binary.LittleEndian} {
		data := order.AppendUint16(nil, 0xfeff)
		for _, r := range text {
			data = order.AppendUint16(data, uint16(r))
		}
		w.write(name, string(data))
	}
	w.commit()
	found := w.find(w.options())
	require.Len(t, found, 2)
	for i, name := range []string{"big", "little"} {
		require.Contains(t, found[i], "secret "+name+`.txt:2 1 secret is in the text, of the kind "github-token"`)
	}
}

// A file that was not looked at for two reasons is named once, and many for the same reason are counted.
func TestSkippedOnce(t *testing.T) {
	w := newWorld(t)
	for i := range 53 {
		w.write(fmt.Sprintf("todo%d.go", i), "package a\n\n// TODO: it\n")
	}
	w.write("long.go", "package a\n"+strings.Repeat("\n", 1<<20))
	w.commit()
	r, err := suggest.Find(t.Context(), w.options())
	require.NoError(t, err)
	require.Equal(t, []string{"long.go: it is too long", "the age of TODOs in all but 50 files: 3 left out"}, r.Skipped)
}

// The settings of a repository run nothing.
func TestHostile(t *testing.T) {
	w := newWorld(t)
	mark := filepath.Join(t.TempDir(), "mark")
	w.write("a.go", "package a\n// TODO: x\n")
	w.write(".gitattributes", "* diff=x filter=x\n")
	w.commit()
	w.write("run.sh", "#!/bin/sh\ntouch "+mark+"\ncat\n")
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "run.sh"), 0o755))
	for _, c := range []string{"diff.external", "core.fsmonitor", "core.pager", "diff.x.textconv", "core.sshCommand", "filter.x.clean", "filter.x.smudge", "filter.x.process", "core.alternateRefsCommand"} {
		w.git("config", c, filepath.Join(w.dir, "run.sh"))
	}
	require.NotEmpty(t, w.find(w.options()))
	require.NoFileExists(t, mark)
}

func TestDismissed(t *testing.T) {
	w := newWorld(t)
	var all strings.Builder
	for i := range 8 {
		fmt.Fprintf(&all, "// TODO: %d\n", i)
	}
	w.write("a.go", "package a\n"+all.String())
	w.write("key.txt", "ghp_"+"aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5\n")
	w.commit()
	o := w.options()
	r, err := suggest.Find(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, r.All, 9)
	require.Len(t, r.Unasked(), 5)
	first := r.All[1]
	file := filepath.Join(t.TempDir(), "new", "dismissed.json")
	require.NoError(t, suggest.Dismiss(file, first.ID, "  not\nnow "))
	require.NoError(t, suggest.Dismiss(file, r.All[0].ID, "a sample"))
	require.Error(t, suggest.Dismiss(file, "../x", "x"))
	o.Dismissed, err = suggest.Load(file)
	require.NoError(t, err)
	w.write("a.go", "package a\n\n\n"+all.String()) // the lines move
	w.commit()
	r, err = suggest.Find(t.Context(), o)
	require.NoError(t, err)
	i := slices.IndexFunc(r.All, func(s suggest.Suggestion) bool { return s.ID == first.ID })
	require.NotEmpty(t, r.All[i].Dismissed)
	require.NotContains(t, r.All[i].Dismissed, "\n")
	require.Equal(t, first.At+2, r.All[i].At)
	require.Len(t, r.Open(), 7)
	require.NoError(t, suggest.Dismiss(file, first.ID, ""))
	o.Dismissed, err = suggest.Load(file)
	require.NoError(t, err)
	require.Len(t, o.Dismissed, 1)
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	_, err = suggest.Load(file)
	require.Error(t, err)
	require.Error(t, suggest.Dismiss(file, first.ID, "x"), "what cannot be read is not overwritten")
}

func TestLocked(t *testing.T) {
	for _, tt := range []struct{ name, text, gomod, want string }{
		{"go.sum", "a.b/c v1.2.0 h1:x\na.b/c v1.3.0 h1:x\na.b/c v1.4.0/go.mod h1:x\nd.e/f v2.0.0+incompatible h1:x\ng/h v1.0.0 h1:x\ng/h v1.10.0 h1:x\n",
			"module m\nrequire a.b/c v1.2.0\nrequire (\n\td.e/f v2.0.0+incompatible // indirect\n)\n", "Go a.b/c v1.2.0, Go d.e/f v2.0.0, Go g/h v1.10.0"},
		{"x/package-lock.json", `{"lockfileVersion": 3, "packages": {"": {"version": "1.0.0"}, "node_modules/a": {"version": "1.2.3"}, "node_modules/@s/b": {"version": "2.0.0"},
			"node_modules/a/node_modules/c": {"version": "3.0.0", "name": "real"}, "node_modules/l": {"link": true, "version": "1.0.0"}, "node_modules/g": {"version": "1.0.0", "resolved": "git+ssh://x"},
			"node_modules/d": {"version": "4.0.0", "resolved": "https://registry.npmjs.org/d/-/d-4.0.0.tgz", "dependencies": {"a": "^1.0.0"}, "engines": {"node": ">= 0.6"}}},
			"dependencies": {"d": {"version": "4.0.0", "requires": {"a": "^1.0.0"}}}}`, "",
			"npm @s/b 2.0.0, npm a 1.2.3, npm d 4.0.0, npm real 3.0.0"},
		{"package-lock.json", `{"lockfileVersion": 1, "dependencies": {"a": {"version": "1.0.0", "requires": {"b": "2"}, "dependencies": {"b": {"version": "2.0.0", "resolved": false, "bundled": true}}}, "g": {"version": "git+https://x"}}}`, "", "npm a 1.0.0, npm b 2.0.0"},
		{"yarn.lock", "# yarn lockfile v1\n\na@^1.0.0, a@^1.1.0:\n  version \"1.1.2\"\n  resolved \"https://x\"\n\n\"@s/b@^2\":\n  version \"2.0.0\"\n\n\"alias@npm:real@^3\":\n  version \"3.0.0\"\n", "",
			"npm @s/b 2.0.0, npm a 1.1.2, npm real 3.0.0"},
		{"yarn.lock", "__metadata:\n  version: 8\n\n\"a@npm:^1.0.0\":\n  version: 1.0.1\n  resolution: \"a@npm:1.0.1\"\n\n\"me@workspace:.\":\n  version: 0.0.0-use.local\n", "", "npm a 1.0.1"},
		{"pnpm-lock.yaml", "lockfileVersion: '9.0'\nimporters:\n  .:\n    dependencies:\npackages:\n\n  '@s/b@2.0.0':\n    resolution: {}\n\n  a@1.0.0(c@1.0.0):\n    x: 1\n\n  /old@3.0.0:\n\n  /older/4.0.0_x@1:\n  \"@quoted/by-prettier@5.0.0(c@1)\":\n    x: 1\nsnapshots:\n  z@1.0.0: {}\n", "",
			"npm @quoted/by-prettier 5.0.0, npm @s/b 2.0.0, npm a 1.0.0, npm old 3.0.0, npm older 4.0.0"},
		{"Cargo.lock", "version = 3\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n\n[[package]]\nname = \"me\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"g\"\nversion = \"0.1.0\"\nsource = \"git+https://x\"\n", "", "crates.io a 1.0.0"},
		{"poetry.lock", "[[package]]\nname = \"Django\"\nversion = \"4.2\"\n\n[package.dependencies]\nasgiref = \">=3\"\n\n[[package]]\nname = \"own\"\nversion = \"1.0\"\n\n[package.source]\ntype = \"git\"\n\n[metadata]\nlock-version = \"2.0\"\n", "", "PyPI Django 4.2"},
		{"uv.lock", "version = 1\n\n[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = { registry = \"https://pypi.org/simple\" }\n\n[[package]]\nname = \"me\"\nversion = \"0.1\"\nsource = { virtual = \".\" }\n", "", "PyPI a 1.0"},
		{"other.json", "{}", "", ""},
	} {
		found, err := suggest.Locked(tt.name, tt.text, tt.gomod)
		require.NoError(t, err)
		var got []string
		for _, p := range found {
			require.Equal(t, tt.name, p.File)
			got = append(got, p.Ecosystem+" "+p.Name+" "+p.Version)
		}
		require.Equal(t, tt.want, strings.Join(got, ", "), tt.name)
	}
	_, err := suggest.Locked("package-lock.json", "{", "")
	require.Error(t, err)
	for _, line := range []string{"a@npm:", "\"a@npm:\":", "a@npm:@", "@", "@@", "a@", "a@npm::", "\"", ":"} { // of a damaged file
		found, err := suggest.Locked("yarn.lock", line+"\n  version \"1.0.0\"\n", "")
		require.NoError(t, err)
		require.LessOrEqual(t, len(found), 1, line)
	}
}

func TestAdvisories(t *testing.T) {
	w := newWorld(t)
	w.write("go.mod", "module m\n\nrequire a.b/c v1.2.0\n")
	w.write("go.sum", "a.b/c v1.2.0 h1:x\nsafe/x v1.0.0 h1:x\n")
	w.write("poetry.lock", "[[package]]\nname = \"My.Package\"\nversion = \"1.0rc1\"\n\n[[package]]\nname = \"two\"\nversion = \"2.1\"\n")
	w.write("package-lock.json", `{"packages": {"node_modules/p": {"version": "2.0.0-beta.2"}, "node_modules/q": {"version": "2.0.0"}}}`)
	w.commit()
	osv := func(id, aliases, ecosystem, name, more string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(`{"id": "` + id + `", "aliases": [` + aliases + `], "summary": "Bad ` + id + `", "affected": [{"package": {"ecosystem": "` + ecosystem + `", "name": "` + name + `"}, ` + more + `}]}`)}
	}
	source := fstest.MapFS{
		"1.json":     osv("GO-1", `"CVE-1"`, "Go", "a.b/c", `"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "1.1.0"}, {"introduced": "1.2.0"}, {"fixed": "1.2.5"}]}]`),
		"2.json":     osv("CVE-1", ``, "Go", "a.b/c", `"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}]`),
		"3.json":     osv("GO-2", ``, "Go", "a.b/c", `"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "1.2.0"}]}]`),
		"4.json":     osv("GO-3", ``, "Go", "safe/x", `"ranges": [{"type": "SEMVER", "events": [{"introduced": "1.0.1"}]}]`),
		"5.json":     osv("PYSEC-1", ``, "PyPI", "my-package", `"versions": ["1.0rc1"], "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.0"}]}]`),
		"6.json":     osv("PYSEC-2", ``, "PyPI", "my_package", `"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.0"}]}]`),
		"7.json":     osv("PYSEC-3", ``, "PyPI", "two", `"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "2"}, {"last_affected": "2.1"}]}]`),
		"8.json":     osv("GHSA-1", ``, "npm", "p", `"ranges": [{"type": "SEMVER", "events": [{"introduced": "2.0.0-beta.1"}, {"fixed": "2.0.0"}]}]`),
		"9.json":     osv("GHSA-2", ``, "npm", "q", `"ranges": [{"type": "SEMVER", "events": [{"introduced": "2.0.0-beta.1"}, {"fixed": "2.0.0"}]}]`),
		"a/b.json":   {Data: []byte(`{"id": "GO-4", "withdrawn": "2026-01-01T00:00:00Z", "affected": [{"package": {"ecosystem": "Go", "name": "a.b/c"}, "versions": ["1.2.0"]}]}`)},
		"readme.txt": {Data: []byte("x")},
	}
	o := w.options()
	require.Empty(t, w.find(o), "without a source, there is no claim")
	o.Advisories = source
	require.ElementsMatch(t, []string{
		"advisory go.sum:0 a.b/c v1.2.0 has GO-1, fixed in 1.2.5: Bad GO-1",
		"advisory package-lock.json:0 p 2.0.0-beta.2 has GHSA-1, fixed in 2.0.0: Bad GHSA-1",
		"advisory poetry.lock:0 My.Package 1.0rc1 has PYSEC-1, no version without it is named: Bad PYSEC-1",
		"advisory poetry.lock:0 two 2.1 has PYSEC-3, no version without it is named: Bad PYSEC-3",
	}, w.find(o))
	source["bad.json"] = &fstest.MapFile{Data: []byte("{}")}
	_, err := suggest.Find(t.Context(), o)
	require.ErrorContains(t, err, "bad.json is not an advisory")
	o.Advisories = nil
	o.Latest = func(_ context.Context, p suggest.Package) (string, error) {
		switch p.Name {
		case "a.b/c":
			return "v1.10.0", nil
		case "two":
			return "", errors.New("not reached")
		}
		return "", nil
	}
	require.Equal(t, []string{"outdated go.sum:0 a.b/c v1.2.0 is not the newest version, which is v1.10.0"}, w.find(o))
}

// A range that begins with "0" holds for all versions before its end, also for those of Go without a tag.
func TestAdvisoriesOfPseudoVersions(t *testing.T) {
	w := newWorld(t)
	w.write("go.sum", "a.b/old v0.0.0-20190308221718-c2843e01d9a2 h1:x\na.b/new v0.0.0-20210921155107-089bfa567519 h1:x\na.b/tagged v0.31.0 h1:x\n")
	source := fstest.MapFS{}
	for _, name := range []string{"old", "new", "tagged"} {
		source[name+".json"] = &fstest.MapFile{Data: []byte(`{"id": "GO-` + name + `", "summary": "bad", "affected": [{"package": {"ecosystem": "Go", "name": "a.b/` + name +
			`"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "0.0.0-20200220183623-bac4c82f6975"}]}]}]}`)}
	}
	w.commit()
	o := w.options()
	o.Advisories = source
	require.Equal(t, []string{"advisory go.sum:0 a.b/old v0.0.0-20190308221718-c2843e01d9a2 has GO-old, fixed in 0.0.0-20200220183623-bac4c82f6975: bad"}, w.find(o))
}

// Files that are not committed are searched without the rest, with the same ids, and with a graph that others have.
func TestUncommitted(t *testing.T) {
	w := newWorld(t)
	w.write("old.py", "import yaml\nyaml.load(x)\n")
	w.write("staged.py", "x = 1\n")
	w.commit()
	w.write("staged.py", "import yaml\nyaml.load(x)\n")
	w.git("add", "staged.py")
	w.write("new.py", "# TODO: x\neval(x)\n")
	o := w.options()
	all, err := suggest.Find(t.Context(), o)
	require.NoError(t, err)
	g, err := codegraph.New(o.Files)
	require.NoError(t, err)
	o.Uncommitted, o.Graph = true, g
	r, err := suggest.Find(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []string{
		"work :0 1 changed file is not committed: staged.py",
		"work :0 1 new file is not in git: new.py",
		"risk new.py:2 eval runs a text as code: eval(x)",
		"risk staged.py:2 yaml.load can run code; use yaml.safe_load: yaml.load(x)",
	}, w.find(o))
	require.Subset(t, all.All, r.All)
	require.NotEmpty(t, slices.Collect(g.Snapshot().Files()))
	for i := range 120 {
		w.write(fmt.Sprintf("n%03d.py", i), "eval(x)\n")
	}
	r, err = suggest.Find(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []string{"the files that are not committed, but for 100"}, r.Skipped)
	require.Len(t, r.All, 2+100)
	require.Len(t, r.Unasked(), 5)
}

func TestChecks(t *testing.T) {
	w := newWorld(t)
	w.write("d/a.py", "import os\n")
	w.commit()
	o := w.options()
	o.Findings = []lint.Finding{
		{Path: filepath.ToSlash(filepath.Join(w.dir, "d", "a.py")), Line: 1, Rule: "F401", Message: "os is not used", Fix: "remove it"},
		{Path: "./d/a.py", Line: 1, Rule: "F401", Message: "os is not used", Fix: "remove it"}, // told twice
		{Path: "d/a.py", Line: 2, Message: "no\nrule"},
		{Path: "../a.py", Line: 1, Message: "outside"},
		{Path: "/d/a.py", Line: 1, Message: "outside"},
	}
	require.Equal(t, []string{
		"check d/a.py:1 F401: os is not used; fix: remove it",
		"check d/a.py:2 no rule",
	}, w.find(o))
	r, err := suggest.Find(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []string{"2 findings are about files that are not of this workspace"}, r.Skipped)
}

func TestErrors(t *testing.T) {
	_, err := suggest.Find(t.Context(), suggest.Options{})
	require.Error(t, err)
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = suggest.Find(ctx, w.options())
	require.ErrorIs(t, err, context.Canceled)
	for _, dir := range []string{filepath.Join(w.dir, "missing"), filepath.Join(w.dir, ".git", "HEAD")} {
		o := w.options()
		o.Dir = dir
		_, err = suggest.Find(t.Context(), o)
		require.ErrorContains(t, err, dir, "without it, nothing would be said about commits")
	}
}

func TestTool(t *testing.T) {
	agenttest.TestTool(t, func(t testing.TB) agenttest.ToolSetup {
		w := newWorld(t)
		w.write("a.go", "package a\n// TODO: x\n")
		w.commit()
		w.write("b.txt", "b\n")
		tool, err := suggest.Tool(w.options())
		require.NoError(t, err)
		return agenttest.ToolSetup{Tool: tool, Dir: w.dir}
	}, agenttest.ToolCase{Name: "all", Args: `{}`, Want: "1 new file is not in git: b.txt"},
		agenttest.ToolCase{Name: "kind", Args: `{"kind":"todo"}`, Want: "a.go:2: since 2026-01-05: // TODO: x"},
		agenttest.ToolCase{Name: "none", Args: `{"kind":"risk"}`, Want: "Nothing was found."},
		agenttest.ToolCase{Name: "no source", Args: `{"kind":"outdated"}`, Want: "It was not looked for these: this program has no source for them."})
	w := newWorld(t)
	tool, err := suggest.Tool(w.options())
	require.NoError(t, err)
	require.Equal(t, aycoder.EffectReadOnly, tool.Spec().Effect)
}

func ExampleFind() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	_ = os.WriteFile(filepath.Join(dir, "run.py"), []byte("import yaml\nyaml.load(open('a'))\n"), 0o600)
	ws, err := workspace.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ws.Close()
	r, err := suggest.Find(context.Background(), suggest.Options{Files: ws, Masker: tools.NewMasker([]byte("key"))})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range r.Unasked() {
		fmt.Printf("%s:%d: %s\n", s.Path, s.At, s.Text)
	}
	// Output: run.py:2: yaml.load can run code; use yaml.safe_load: yaml.load(open('a'))
}
