package line

import "strings"

func defaultBindings() map[string]string {
	return map[string]string{
		"enter": "submit", "alt+enter": "newline", "shift+enter": "newline", "ctrl+j": "newline",
		"left": "left", "ctrl+b": "left", "right": "right", "ctrl+f": "right",
		"up": "up", "ctrl+p": "up", "down": "down", "ctrl+n": "down",
		"home": "line-start", "ctrl+a": "line-start", "end": "line-end", "ctrl+e": "line-end",
		"alt+b": "word-left", "ctrl+left": "word-left", "alt+left": "word-left",
		"alt+f": "word-right", "ctrl+right": "word-right", "alt+right": "word-right",
		"alt+<": "text-start", "ctrl+home": "text-start", "alt+>": "text-end", "ctrl+end": "text-end",
		"backspace": "delete-left", "ctrl+h": "delete-left", "shift+backspace": "delete-left",
		"delete": "delete-right", "ctrl+d": "delete-right-or-end",
		"ctrl+k": "kill-line-end", "ctrl+u": "kill-line-start", "ctrl+w": "kill-space-left",
		"alt+backspace": "kill-word-left", "ctrl+backspace": "kill-word-left",
		"alt+d": "kill-word-right", "ctrl+delete": "kill-word-right",
		"ctrl+y": "yank", "alt+y": "yank-older", "ctrl+_": "undo", "ctrl+t": "transpose",
		"ctrl+r": "search", "tab": "complete", "ctrl+s": "put-aside", "ctrl+g": "edit",
		"ctrl+o": "open-paste", "shift+tab": "plan-mode",
	}
}

// table returns the actions by name.
func (e *Editor) table() map[string]func() {
	move := func(to func(int) int) func() { return func() { e.at = to(e.at) } }
	kill := func(name string, other func(int) int) func() { return func() { e.kill(name, other(e.at)) } }
	return map[string]func(){
		"submit":              e.submit,
		"newline":             func() { e.save(""); e.insert("\n") },
		"left":                move(e.prev),
		"right":               move(e.nextOrEnd),
		"up":                  func() { e.vertical(e.up, e.older) },
		"down":                func() { e.vertical(e.down, e.newer) },
		"line-start":          move(e.lineStart),
		"line-end":            move(e.lineEnd),
		"word-left":           move(e.wordLeft),
		"word-right":          move(e.wordRight),
		"text-start":          move(func(int) int { return 0 }),
		"text-end":            move(func(int) int { return len(e.text) }),
		"delete-left":         func() { e.delete("delete-left", e.prev(e.at), e.at) },
		"delete-right":        func() { e.delete("delete-right", e.at, e.nextOrEnd(e.at)) },
		"delete-right-or-end": e.deleteOrEnd,
		"kill-line-end":       kill("kill-line-end", e.killEnd),
		"kill-line-start":     kill("kill-line-start", e.killStart),
		"kill-space-left":     kill("kill-space-left", e.spaceLeft),
		"kill-word-left":      kill("kill-word-left", e.wordLeft),
		"kill-word-right":     kill("kill-word-right", e.wordRight),
		"yank":                e.yank,
		"yank-older":          e.yankOlder,
		"undo":                e.undo,
		"transpose":           e.transpose,
		"search":              e.startSearch,
		"complete":            e.complete,
		"put-aside":           e.putAside,
		"edit":                func() { e.event.Kind = EditText },
		"open-paste":          e.openPaste,
		"plan-mode":           func() { e.event.Kind = PlanMode },
	}
}

func (b *buffer) nextOrEnd(i int) int {
	if i == len(b.text) {
		return i
	}
	return b.next(i)
}

// killEnd returns the end of the line, or of its line feed if nothing else is left.
func (b *buffer) killEnd(i int) int {
	if end := b.lineEnd(i); end > i {
		return end
	}
	return b.nextOrEnd(i)
}

func (b *buffer) killStart(i int) int {
	if start := b.lineStart(i); start < i {
		return start
	}
	return b.prev(i)
}

// vertical moves to another line, or else in the history.
func (e *Editor) vertical(to func(i, column int) (int, bool), further func()) {
	if e.goal < 0 {
		e.goal = e.column(e.at)
	}
	at, ok := to(e.at, e.goal)
	if !ok {
		further()
		return
	}
	e.at = at
}

func (e *Editor) delete(name string, from, to int) {
	if from < to {
		e.save(name)
		e.remove(from, to)
	}
}

func (e *Editor) deleteOrEnd() {
	if e.text == "" {
		e.event.Kind = EndOfInput
		return
	}
	e.delete("delete-right-or-end", e.at, e.nextOrEnd(e.at))
}

const maxKills = 32

// kill removes the text between the cursor and another place. Kills one after the other
// become one.
func (e *Editor) kill(name string, other int) {
	from, to := min(e.at, other), max(e.at, other)
	if from == to {
		return
	}
	back, goesOn := other < e.at, strings.HasPrefix(e.doing, "kill-")
	e.save("")
	cut := e.remove(from, to)
	last := len(e.kills) - 1
	switch {
	case goesOn && last >= 0 && back:
		e.kills[last] = cut + e.kills[last]
	case goesOn && last >= 0:
		e.kills[last] += cut
	default:
		e.kills = append(e.kills[max(0, len(e.kills)-maxKills+1):], cut)
	}
}

func (e *Editor) yank() {
	e.yanked = len(e.kills) - 1
	if e.yanked < 0 {
		return
	}
	e.save("")
	e.from = e.at
	e.insert(e.kills[e.yanked])
}

// yankOlder replaces what was put in by the kill before it.
func (e *Editor) yankOlder() {
	if !strings.HasPrefix(e.doing, "yank") || len(e.kills) == 0 || e.from > e.at {
		return
	}
	e.save("")
	e.remove(e.from, e.at)
	e.yanked = (e.yanked + len(e.kills) - 1) % len(e.kills)
	e.insert(e.kills[e.yanked])
}

// transpose exchanges the characters around the cursor, or the last two of a line.
func (e *Editor) transpose() {
	right := e.at
	if right == e.lineEnd(e.at) {
		right = e.prev(right)
	}
	left := e.prev(right)
	if left < e.lineStart(e.at) || right == left || right == len(e.text) {
		return
	}
	e.save("")
	end := e.next(right)
	a, b := e.text[left:right], e.text[right:end]
	e.text = e.text[:left] + b + a + e.text[end:]
	e.at = end
}
