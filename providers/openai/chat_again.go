package openai

import "github.com/aycoder/aycoder/internal/rawjson"

// A chatAgain has the form of the last chunk that brought only a text, or a piece of the arguments of
// a call. Such chunks follow one another, and one of the same form says the same with another text.
type chatAgain struct {
	// of the chunk that is being read
	choices int
	first   int64         // index of the first piece of a call
	piece   rawjson.Place // of its text in the calls, if there is nothing else in them
	noise   rawjson.Place // a value that only hides the length of the chunk
	other   bool          // it says something else

	form  rawjson.Form
	index int64     // of the choice
	call  int64     // index of the call that the piece belongs to
	kind  chatKinds // of the text
}

// reset prepares for another chunk.
func (a *chatAgain) reset() {
	a.choices, a.piece, a.noise, a.other = 0, rawjson.Place{}, rawjson.Place{}, false
}

// learn takes the form of a chunk that was read, if it is such a chunk.
func (a *chatAgain) learn(chunk string, c *chatChoice) {
	if a.choices != 1 || a.other {
		return
	}
	said := chatChoice{index: c.index, opens: c.opens, said: c.said, callsAt: c.callsAt, place: c.place}
	place := c.place
	switch {
	case c.content != "":
		said.content = c.content
	case c.reasoningContent != "":
		said.reasoningContent = c.reasoningContent
	case c.reasoning != "":
		said.reasoning = c.reasoning
	case a.piece.To > 0:
		said.calls = c.calls
		place = rawjson.Place{From: c.callsAt + a.piece.From, To: c.callsAt + a.piece.To}
	default:
		return
	}
	if *c == said {
		a.kind, a.index, a.call = c.says(), c.index, a.first
		a.form.Learn(chunk, place, a.noise)
	}
}

// repeat handles a chunk that says the same as the last one, but for its text.
func (d *chatDecoder) repeat(text string) error {
	a := &d.again
	if !d.filter.takes(a.index, a.kind, false, d.finish != "") {
		return d.filter.bound()
	}
	d.begun = true
	switch a.kind {
	case chatText:
		return d.content(text)
	case chatReasoning:
		return d.answer.Thinking(text)
	}
	return d.calls.take(chatPiece{index: a.call, text: text})
}
