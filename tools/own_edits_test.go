package tools

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cases"
	"github.com/aycoder/aycoder/internal/timed"
)

// ownEdits is how many edits of testdata have to run at least.
const ownEdits = 300

// ownEdit is an edit of testdata: which files there are, what the model was shown of them,
// what it calls, and what has to be there afterwards.
type ownEdit struct {
	*cases.Case
	files, shown, want map[string]string
	args               args
}

func newOwnEdit(t *testing.T, c *cases.Case) *ownEdit {
	t.Helper()
	e := &ownEdit{c, map[string]string{}, map[string]string{}, map[string]string{}, args{}}
	var edits []args
	for _, s := range c.Sections {
		kind, name, _ := strings.Cut(s.Name, " ")
		switch kind {
		case "file":
			e.files[name], e.shown[name] = s.Text, s.Text
		case "shown":
			e.shown[name] = s.Text
		case "want":
			e.want[name] = s.Text
		case "patch":
			e.args["patch"] = s.Text
		case "old":
			edits = append(edits, args{"old_string": s.Text, "replace_all": name == "all" || c.Value("replace_all") == "true"})
		case "new":
			edits[len(edits)-1]["new_string"] = s.Text
		default:
			require.Fail(t, "unknown section", "%s: %s", c.Where, s.Name)
		}
	}
	for name, text := range e.files { // a file of which nothing else is said stays
		if _, ok := e.want[name]; !ok && c.Value("gone") != name {
			e.want[name] = text
		}
	}
	if c.Value("unshown") == "true" {
		clear(e.shown)
	}
	switch c.Value("tool") {
	case "edit_file":
		require.Len(t, edits, 1, c.Where)
		e.args = edits[0]
	case "multi_edit":
		e.args["edits"] = edits
	case "apply_patch":
		return e
	}
	e.args["path"] = e.path()
	return e
}

// path is the file that the head or the first section names.
func (e *ownEdit) path() string {
	if name := e.Value("path"); name != "" {
		return name
	}
	for _, s := range e.Sections {
		if kind, name, ok := strings.Cut(s.Name, " "); ok && (kind == "file" || kind == "want") {
			return name
		}
	}
	return ""
}

// TestOwnEdits makes the edits of testdata: the outcome is what was written down for them,
// or the refusal is, and then nothing has changed.
func TestOwnEdits(t *testing.T) {
	timed.Serial(t)
	all := cases.Read(t, filepath.Join("testdata", "edits", "*.txt"))
	for i := range all {
		e := newOwnEdit(t, &all[i])
		w := newWorld(t, e.files)
		for name, text := range e.shown {
			w.ws.Seen().Add(name, text)
		}
		r := w.call(e.Value("tool"), e.args)
		if kind := e.Value("refused"); kind != "" {
			got, _, _ := strings.Cut(r.Text(), ": ")
			assert.True(t, r.IsError, "%s: it is made", e.Where)
			assert.Equal(t, kind, got, "%s: %s", e.Where, r.Text())
		} else {
			assert.False(t, r.IsError, "%s: %s", e.Where, r.Text())
		}
		assert.Equal(t, e.want, w.files(), e.Where)
	}
	t.Logf("%d edits ran", len(all))
	require.GreaterOrEqual(t, len(all), ownEdits)
}

// TestOwnEditsOfOthers holds the outcomes of testdata to the programs that they are said to
// come from.
func TestOwnEditsOfOthers(t *testing.T) {
	timed.Serial(t)
	sed, err := exec.LookPath("sed")
	if err == nil {
		if out, err := exec.Command(sed, "--version").Output(); err != nil || !strings.Contains(string(out), "GNU") {
			sed = ""
		}
	}
	asked, replaced, skipped := 0, 0, 0
	all := cases.Read(t, filepath.Join("testdata", "edits", "*.txt"))
	for i := range all {
		e := newOwnEdit(t, &all[i])
		script, bySed := strings.CutPrefix(e.Value("source"), "sed ")
		text := e.files[e.path()]
		switch {
		case bySed && sed == "":
			skipped++
			continue
		case bySed:
			cmd := exec.CommandContext(t.Context(), sed, "-e", script)
			cmd.Stdin = strings.NewReader(text)
			out, err := cmd.Output()
			require.NoError(t, err, e.Where)
			text = string(out)
			asked++
		case e.Value("source") == "str.replace":
			old := ""
			for _, s := range e.Sections {
				if strings.HasPrefix(s.Name, "old") {
					old = s.Text
				} else if s.Name == "new" {
					text = strings.ReplaceAll(text, old, s.Text)
				}
			}
			replaced++
		default:
			rule, ok := strings.CutPrefix(e.Value("source"), "by hand: ")
			assert.True(t, ok && len(rule) > 10, "%s: source %q", e.Where, e.Value("source"))
			continue
		}
		assert.Equal(t, text, e.want[e.path()], e.Where)
	}
	t.Logf("%d outcomes asked of sed, %d of strings.ReplaceAll, %d skipped for want of GNU sed", asked, replaced, skipped)
}
