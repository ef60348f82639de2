package project

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// keys are those of an agent.
var keys = []string{"name", "description", "tools", "model"}

func TestFrontMatter(t *testing.T) {
	tests := []struct {
		name, text string
		want       matter
		body       string
		line       int
		warnings   []string
	}{
		{"none", "# Title\n---\nx: y\n---\n", nil, "# Title\n---\nx: y\n---\n", 1, nil},
		{"empty", "---\n---\nText", nil, "Text", 3, nil},
		{"yaml", "---\nname: a\ndescription: >\n  two\n  lines\ntools: [Read, Grep]\n---\nText\n",
			matter{{"name", 2, "a", nil}, {"description", 3, "two lines\n", nil},
				{"tools", 6, "[Read, Grep]", []string{"Read", "Grep"}}}, "Text\n", 8, nil},
		{"list", "---\ntools:\n  - Read\n  - Bash(git add:*)\nmodel: ~\n---\n",
			matter{{"tools", 2, "[Read, Bash(git add:*)]", []string{"Read", "Bash(git add:*)"}}, {"model", 5, "", nil}},
			"", 7, nil},
		{"colon in a text", "---\nname: a\ndescription: Use when reviewing: always\n---\nText", matter{
			{"name", 2, "a", nil}, {"description", 3, "Use when reviewing: always", nil},
		}, "Text", 5, []string{
			"f.md:3: the front matter is not valid YAML (mapping values are not allowed in this context), so it is read " +
				"line by line",
		}},
		{"dialogue in a description", "---\nname: a\ndescription: Use it: here\nContext: x\nuser: \"y: z\"\nmodel: 'opus'\n---\n",
			matter{{"name", 2, "a", nil}, {"description", 3, "Use it: here\nContext: x\nuser: \"y: z\"", nil}, {"model", 6, "opus", nil}},
			"", 8, []string{"not valid YAML"}},
		{"list that is not valid", "---\ndescription: a: b\ntools:\n  - Read\n  - \"Bash\"\n---\n",
			matter{{"description", 2, "a: b", nil}, {"tools", 3, "", []string{"Read", "Bash"}}}, "", 7, []string{"not valid YAML"}},
		{"list in a line that is not valid", "---\ndescription: a: b\ntools: [\"Read\", Bash(a, b)]\n---\n",
			matter{{"description", 2, "a: b", nil}, {"tools", 3, "[\"Read\", Bash(a, b)]", []string{"Read", "Bash(a, b)"}}}, "", 5,
			[]string{"not valid YAML"}},
		{"no end", "---\nname: a\n", nil, "---\nname: a\n", 1, []string{"f.md:1: the front matter has no end"}},
		{"no mapping", "---\n- a\n---\n", nil, "", 4, []string{"f.md:2: the front matter is not valid YAML (it has no keys)"}},
		{"unknown and twice", "---\nname: a\nhooks:\n  x: y\nlicense: MIT\n---\n",
			matter{{"name", 2, "a", nil}, {"hooks", 3, "", []string{}}, {"license", 5, "MIT", nil}}, "", 7,
			[]string{"f.md:3: hooks has no effect here"}},
		{"an alias gives nothing", "---\nname: &a b\ndescription: *a\n---\n",
			matter{{"name", 2, "b", nil}, {"description", 3, "", []string{}}}, "", 5, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, text := range []string{tt.text, "\ufeff" + strings.ReplaceAll(tt.text, "\n", "\r\n")} {
				var warn warnings
				d := parse("f.md", plain(text), keys, &warn)
				require.Equal(t, tt.want, d.matter)
				require.Equal(t, tt.body, d.body)
				require.Equal(t, tt.line, d.line)
				require.Len(t, warn, len(tt.warnings))
				for i, w := range warn {
					require.Contains(t, w.String(), tt.warnings[i])
				}
			}
		})
	}
}

// Front matter that makes readers of YAML grow, or recurse, costs no more than its size.
func TestHostileFrontMatter(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("---\na: &a [x, x, x, x, x, x, x, x, x]\n")
	for c := 'b'; c <= 'z'; c++ {
		laughs.WriteString(string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 9) + "]\n")
	}
	for name, text := range map[string]string{
		"laughs":  laughs.String() + "---\nText",
		"nested":  "---\na: " + strings.Repeat("[", 20_000) + "\n---\nText",
		"braces":  "---\na: " + strings.Repeat("{a: ", 5_000) + "\n---\nText",
		"large":   "---\na: " + strings.Repeat("x", maxMatter) + "\n---\nText",
		"keys":    "---\n" + strings.Repeat("a: b\n", 5_000) + "---\nText",
		"lines":   "---\na: b: c\n" + strings.Repeat("x: y\n", 6_000) + "---\nText",
		"itself":  "---\na: &a [*a]\n---\nText",
		"control": "---\na: \x01\n---\nText",
	} {
		var warn warnings
		d := parse("f.md", text, keys, &warn)
		require.Equal(t, "Text", d.body, name)
		require.LessOrEqual(t, len(d.matter), maxKeys, name)
		size := 0
		for _, v := range d.matter {
			size += len(v.text)
		}
		require.LessOrEqual(t, size, 2*maxMatter, name)
		require.LessOrEqual(t, len(warn), maxWarnings)
	}
}

func FuzzFrontMatter(f *testing.F) {
	for _, text := range []string{
		"---\nname: a\ndescription: b\n---\nText", "---\na: b: c\n  - d\n---\n", "---\na: &a [*a]\n---\n", "---\n? x\n: y\n---\n",
		"---\na: |\n  b\nc: \"d\ne\"\n---", "---\n<<: *x\n---\n", "---\n!!binary a: b\n---\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var warn warnings
		text = plain(text)
		d := parse("f.md", text, keys, &warn)
		if !strings.HasSuffix(text, d.body) {
			t.Fatalf("the body %q is not the end of %q", d.body, text)
		}
		for _, v := range d.matter {
			if v.line < 1 || v.line > strings.Count(text, "\n")+1 {
				t.Fatalf("%q is in line %d", v.key, v.line)
			}
		}
	})
}
