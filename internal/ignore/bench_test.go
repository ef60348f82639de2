package ignore

import (
	"fmt"
	"strings"
	"testing"
)

// hostile are ignore files that are made to take long, each of 20,000 patterns.
var hostile = []struct {
	name    string
	pattern func(i int) string
}{
	{"stars", func(i int) string { return "*a*a*a*a*a*a*b" + fmt.Sprint(i) }},
	{"stars that may match", func(i int) string { return fmt.Sprintf("*a*%d*a*%d*e", i%7, i%10) }},
	{"only stars", func(i int) string { return strings.Repeat("*", i%40) + "?*?*" + fmt.Sprint(i) + "*" }},
	{"directories", func(i int) string { return "**/a*/**/b*/**/c*/**/" + fmt.Sprint(i) }},
	{"any directories", func(i int) string { return "**/*/**/*/**/*/**/x" + fmt.Sprint(i) }},
	{"classes", func(i int) string { return "*[a-z]*[!0-9]*[[:alpha:]]*" + fmt.Sprint(i) }},
	{"long", func(i int) string { return "*" + strings.Repeat("a?", 300) + fmt.Sprint(i) }},
	{"names", func(i int) string { return fmt.Sprintf("name%d", i) }},
	{"ends", func(i int) string { return "*" + strings.Repeat("a", i%200) + fmt.Sprint(i) }},
	{"paths", func(i int) string { return fmt.Sprintf("/aaa/bbb/name%d", i) }},
	{"negated", func(i int) string { return fmt.Sprintf("!*a*a*%d*", i) }},
}

func hostileFile(pattern func(i int) string) []byte {
	var b strings.Builder
	for i := range 20_000 {
		b.WriteString(pattern(i) + "\n")
	}
	return []byte(b.String())
}

// BenchmarkHostile asks for 1,000 files, some directories deep, in a tree with such a file.
func BenchmarkHostile(b *testing.B) {
	for _, h := range hostile {
		file := hostileFile(h.pattern)
		b.Run(h.name, func(b *testing.B) {
			for b.Loop() {
				l := (*Layer)(nil).Push("", file)
				for i := range 1000 {
					l.Ignored(fmt.Sprintf("aaa/bbb/abacad%d/aaaaaaaaaaaaaaaaaaaaaaab%d.e", i/10, i), false)
				}
			}
		})
	}
}
