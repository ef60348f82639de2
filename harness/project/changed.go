package project

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ChangedInstructions returns what a model has to be told that has read one text of [Instructions.Prompt], and for which
// another one holds now: the texts of the files that are new or have changed, in at most 64 KiB, and the names
// of those that were removed. It is "" if nothing has changed.
func ChangedInstructions(read, now string) string {
	before := map[string]string{}
	for _, text := range blocksOf(read) {
		before[nameOf(text)] = text
	}
	var out strings.Builder
	for _, text := range blocksOf(now) {
		name := nameOf(text)
		old, known := before[name]
		delete(before, name)
		switch {
		case known && old == text:
		case out.Len()+len(text) > maxKept:
			fmt.Fprintf(&out, "[The file %s has changed, and is too long to be repeated here. Read it, and follow it.]\n", name)
		default:
			out.WriteString(text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		fmt.Fprintf(&out, "[The file %s was removed. Its instructions do not hold any more.]\n", name)
	}
	if out.Len() == 0 {
		return ""
	}
	return "[Files with instructions have changed since the conversation began. Each text here replaces what the " +
		"system prompt has of the same file. This is not a message of the user.]\n" + out.String()
}

// nameOf returns the quoted name of the file of a block.
func nameOf(block string) string {
	key, _ := blockOf(block)
	return strings.TrimPrefix(key, instructionsTag+" ")
}
