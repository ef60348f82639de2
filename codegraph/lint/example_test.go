package lint_test

import (
	"fmt"

	"github.com/aycoder/aycoder/codegraph/lint"
)

func ExampleParse() {
	out := `[{"code": "F401", "filename": "/p/a.py", "location": {"row": 3, "column": 21},
		"message": "'os' imported but unused", "fix": {"message": "Remove unused import: 'os'"}}]`
	found, err := lint.Parse(lint.Ruff, []byte(out))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range found {
		fmt.Printf("%s:%d: %s (%s); fix: %s\n", f.Path, f.Line, f.Message, f.Rule, f.Fix)
	}
	// Output: /p/a.py:3: 'os' imported but unused (F401); fix: Remove unused import: 'os'
}
