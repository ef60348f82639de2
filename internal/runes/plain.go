package runes

import "unicode"

// The letters of ranges of Unicode without their diacritics. A space stands for a letter that has
// none.
const (
	from00C0 = "aaaaaa ceeeeiiii nooooo ouuuuy  aaaaaa ceeeeiiii nooooo ouuuuy yaaaaaaccccccccddddeeeeeeeeeegggg" +
		"gggghhhhiiiiiiiii   jjkk llllll  llnnnnnn   oooooo  rrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzz"
	from1E00 = "aabbbbbbccddddddddddeeeeeeeeeeffgghhhhhhhhhhiiiikkkkkkllllllllmmmmmmnnnnnnnnoooooooopppp" +
		"rrrrrrrrssssssssssttttttttuuuuuuuuuuvvvvwwwwwwwwwwxxxxyyzzzzzzhtwy"
	from1EA0 = "aaaaaaaaaaaaaaaaaaaaaaaaeeeeeeeeeeeeeeeeiiiioooooooooooooooooooooooouuuuuuuuuuuuuuyyyyyyyy"
)

// Plain returns a letter in lower case and, if it is a Latin one, without diacritics.
func Plain(r rune) rune {
	for _, t := range []struct {
		first   rune
		letters string
	}{{0xC0, from00C0}, {0x1E00, from1E00}, {0x1EA0, from1EA0}} {
		if i := int(r - t.first); i >= 0 && i < len(t.letters) && t.letters[i] != ' ' {
			return rune(t.letters[i])
		}
	}
	return unicode.ToLower(unicode.ToUpper(r))
}
