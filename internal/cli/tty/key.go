package tty

import (
	"strings"
	"time"
)

// A Key is a key press or a paste.
type Key struct {
	Rune rune   // the character, or zero if the key has a name
	Name string // the name of a key without a character, such as [Enter] or "f5"

	Ctrl, Alt, Shift bool // Shift only with a name: otherwise the rune tells

	Text    string // the text of a [Paste], with line feeds only
	Dropped int    // the bytes of a paste beyond [MaxPaste], which are lost

	At   time.Time // the time of the read
	Read int       // the number of bytes that came in the same read
}

// The names of keys. Function keys are called "f1" to "f12".
const (
	Enter     = "enter"
	Tab       = "tab"
	Backspace = "backspace"
	Esc       = "esc"
	Up        = "up"
	Down      = "down"
	Left      = "left"
	Right     = "right"
	Home      = "home"
	End       = "end"
	PageUp    = "pageup"
	PageDown  = "pagedown"
	Insert    = "insert"
	Delete    = "delete"
	Paste     = "paste"
)

// String returns the form in which tables of bindings write a key, such as "a", "ctrl+w",
// "alt+enter", "shift+tab" and "space".
func (k Key) String() string {
	var b strings.Builder
	for _, m := range []struct {
		set  bool
		name string
	}{{k.Ctrl, "ctrl+"}, {k.Alt, "alt+"}, {k.Shift, "shift+"}} {
		if m.set {
			b.WriteString(m.name)
		}
	}
	switch {
	case k.Name != "":
		b.WriteString(k.Name)
	case k.Rune == ' ':
		b.WriteString("space")
	default:
		b.WriteRune(k.Rune)
	}
	return b.String()
}

// Printable reports whether the key stands for its character and nothing else.
func (k Key) Printable() bool {
	return k.Rune != 0 && !k.Ctrl && !k.Alt
}

// alone reports whether nothing else came in the read of a key of one byte. Pasted text
// without brackets, and keys that were typed while nobody could read, come together.
func (k Key) alone() bool { return k.Read == 1 }
