package openai

import "github.com/aycoder/aycoder/internal/rawjson"

// A chatAgain has the form of the last chunk that brought only a text, or a piece of the arguments of
// a call. Such chunks follow one another, and one of the same form says the same with another text.
type chatAgain struct {
	form   rawjson.Form
	choice chatChoice
	piece  chatPiece
	text   *string // in choice or in piece

	// of the chunk that is being read
	choices int
	first   chatPiece     // of a call
	noise   rawjson.Place // a value that only hides the length of the chunk
	other   bool          // it says something else
}

// match returns what a chunk of this form says.
func (a *chatAgain) match(chunk string) (*chatChoice, bool) {
	text, ok := a.form.Match(chunk)
	if !ok || text == "" {
		return nil, false
	}
	*a.text = text
	return &a.choice, true
}

// reset prepares for another chunk.
func (a *chatAgain) reset() { a.choices, a.noise, a.other = 0, rawjson.Place{}, false }

// learn takes the form of a chunk that was read, if it is such a chunk.
func (a *chatAgain) learn(chunk string, c *chatChoice) {
	if a.choices != 1 || a.other {
		return
	}
	said := chatChoice{index: c.index, opens: c.opens, said: c.said, callsAt: c.callsAt, place: c.place}
	piece, text, place := c.piece, (*string)(nil), c.place
	switch {
	case c.content != "":
		said.content, text = c.content, &a.choice.content
	case c.reasoningContent != "":
		said.reasoningContent, text = c.reasoningContent, &a.choice.reasoningContent
	case c.reasoning != "":
		said.reasoning, text = c.reasoning, &a.choice.reasoning
	case piece != nil:
		said.calls, said.piece, text = c.calls, piece, &a.piece.text
		place = rawjson.Place{From: c.callsAt + piece.place.From, To: c.callsAt + piece.place.To}
	}
	if text == nil || *c != said {
		return
	}
	a.choice, a.text = chatChoice{index: c.index, opens: c.opens, said: c.said}, text
	if piece != nil {
		a.piece = chatPiece{index: piece.index}
		a.choice.calls, a.choice.piece = "[…]", &a.piece
	}
	a.form.Learn(chunk, place, a.noise)
}
