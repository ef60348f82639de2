package diff_test

import (
	"fmt"
	"strings"

	"github.com/aycoder/aycoder/diff"
)

// The changes of an agent, as a patch and in numbers.
func ExampleCompare() {
	before := []byte("package main\n\nfunc main() {\n\tprintln(\"hi\")\n}\n")
	after := []byte("package main\n\nfunc main() {\n\tprintln(\"hello\")\n\tprintln(\"world\")\n}\n")

	d := diff.Compare(before, after, diff.WithNames("main.go", "main.go"), diff.WithContext(1))
	fmt.Print(string(d.Unified()))
	fmt.Println(d.Stat())
	// Output:
	// diff --git a/main.go b/main.go
	// --- a/main.go
	// +++ b/main.go
	// @@ -3,3 +3,4 @@
	//  func main() {
	// -	println("hi")
	// +	println("hello")
	// +	println("world")
	//  }
	// 1 file changed, 2 insertions(+), 1 deletion(-)
}

// Rows are what a review shows side by side: which lines belong together, and which
// of their words changed.
func ExampleHunk_Rows() {
	before := []byte("port: 80\nhost: localhost\n")
	after := []byte("# for tests\nport: 8080\nhost: localhost\n")

	mark := func(l diff.Line) string {
		var b strings.Builder
		at := 0
		for _, c := range l.Changed {
			fmt.Fprintf(&b, "%s[%s]", l.Text[at:c[0]], l.Text[c[0]:c[1]])
			at = c[1]
		}
		b.Write(l.Text[at:])
		return strings.TrimSpace(b.String())
	}
	for _, h := range diff.Compare(before, after).Hunks {
		for _, r := range h.Rows() {
			fmt.Printf("%-7s %d %-15s | %d %s\n", r.Kind, r.Old.Number, mark(r.Old), r.New.Number, mark(r.New))
		}
	}
	// Output:
	// added   0                 | 1 # for tests
	// changed 1 port: [80]      | 2 port: [8080]
	// equal   2 host: localhost | 3 host: localhost
}

// A model gets no more of a diff than there is room for, and is told what is missing.
func ExampleFile_Brief() {
	after := strings.Repeat("a generated line\n", 1000)
	d := diff.Compare(nil, []byte(after), diff.WithNames("", "gen.txt"))
	fmt.Print(d.Brief(400))
	// Output:
	// diff --git a/gen.txt b/gen.txt
	// new file mode 100644
	// --- /dev/null
	// +++ b/gen.txt
	// @@ -0,0 +1,1000 @@
	// +a generated line
	// +a generated line
	// +a generated line
	// +a generated line
	// +a generated line
	// [995 lines of this hunk left out: +995 -0]
}
