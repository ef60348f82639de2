// Package untag keeps the text of files and models apart from what marks the parts of a request.
package untag

import "github.com/aycoder/aycoder/internal/late"

// tags match what marks a part of a request that is not a message, such as <lessons_context>.
var tags = late.Regexp(`(?i)<(\s*/?\s*[a-z]+_(?:context|instructions)\b)`)

// Text returns a text in which nothing ends or begins a part of a request that is marked by tags like
// <lessons_context> or <project_instructions>: "<" is "&lt;" there.
func Text(s string) string { return tags().ReplaceAllString(s, "&lt;$1") }
