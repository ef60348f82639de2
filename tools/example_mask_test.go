package tools_test

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/aycoder/aycoder/tools"
)

func ExampleMasker() {
	// The key makes placeholders the same in every process of a session.
	m := tools.NewMasker([]byte("the key of this session"), "tr0ub4dor")
	secret := strings.Repeat("k5Ns3qB6", 4)
	text := m.Mask("user: me\npassword: " + secret + "\nhint: tr0ub4dor\ncommit 5f2d9f3b\n")
	fmt.Print(regexp.MustCompile("[0-9a-f]{10}]").ReplaceAllString(text, "…]"))
	// Output:
	// user: me
	// password: [secret:value:…]
	// hint: [secret:known:…]
	// commit 5f2d9f3b
}

func ExampleEscapeInvisible() {
	fmt.Println(tools.EscapeInvisible("if admin\u202e { // \x1b[8mhidden"))
	// Output: if admin<U+202E> { // <U+001B>[8mhidden
}
