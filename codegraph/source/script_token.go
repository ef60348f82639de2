package source

// A scriptToken is a token that is not a comment.
type scriptToken struct {
	kind       scriptKind
	op         byte
	word       scriptWordClass
	newline    bool
	start, end int32
	match      int32 // for a bracket, the other one; the number of tokens if nothing closes it
	depth      int32 // how many brackets are open behind it
}

// readTokens reads the tokens and the comments.
func (s *scriptScan) readTokens() {
	s.tokens = make([]scriptToken, 0, len(s.src)/6)
	for len(s.tokens) < maxTokens && s.next() {
		if s.kind == scriptComment {
			s.comments = append(s.comments, Span{int32(s.start), int32(s.end)})
		} else {
			s.keep()
		}
	}
	s.match()
}

// keep keeps the current token. Brackets are matched as the lexer does.
func (s *scriptScan) keep() {
	i := int32(len(s.tokens))
	s.tokens = append(s.tokens, scriptToken{s.kind, s.op, s.word, s.newline, int32(s.start), int32(s.end), -1, int32(len(s.stack))})
	if s.kind == scriptTemplate {
		if s.op >= opTemplateMiddle {
			s.closes(i, '}')
		}
		if s.op == opTemplateHead || s.op == opTemplateMiddle {
			s.opens = append(s.opens, i)
		}
		return
	}
	switch s.op {
	case '(', '[', '{':
		s.opens = append(s.opens, i)
	case ')', ']', '}':
		s.closes(i, s.op)
	}
}

// closes matches a closing bracket. A brace closes all that is open in it.
func (s *scriptScan) closes(i int32, c byte) {
	for n := len(s.opens) - 1; n >= 0; n-- {
		open := &s.tokens[s.opens[n]]
		matches := open.op == '(' && c == ')' || open.op == '[' && c == ']' || (open.op == '{' || open.kind == scriptTemplate) && c == '}'
		if !matches && (c != '}' || open.op == '{' || open.kind == scriptTemplate) {
			return
		}
		open.match = i
		if matches && s.kind == scriptPunct {
			s.tokens[i].match = s.opens[n]
		}
		s.opens = s.opens[:n]
		if matches {
			return
		}
	}
}

// match completes the matches: what is still open closes at the end, and < is matched with the > of the
// same statement that would end its type arguments.
func (s *scriptScan) match() {
	for _, i := range s.opens {
		s.tokens[i].match = int32(len(s.tokens))
	}
	angles, base := s.opens[:0], 0 // those open in the innermost bracket begin at base
	var bases []int
	for i := range s.tokens {
		switch t := &s.tokens[i]; {
		case t.closes() && len(bases) > 0:
			angles, base = angles[:base], bases[len(bases)-1]
			bases = bases[:len(bases)-1]
		case t.op == ';':
			angles = angles[:base]
		case t.op == '<':
			angles = append(angles, int32(i))
		case t.op == '>' && len(angles) > base:
			t.match = angles[len(angles)-1]
			s.tokens[t.match].match = int32(i)
			angles = angles[:len(angles)-1]
		}
		if s.tokens[i].opens() {
			bases = append(bases, base)
			base = len(angles)
		}
	}
}

// The functions that look at tokens are called in hundreds of places: inlined, they would take 50 kB of a program.

// tok returns a token, or one without a kind beyond the last.
//
//go:noinline
func (s *scriptScan) tok(i int) *scriptToken {
	if i >= 0 && i < len(s.tokens) {
		return &s.tokens[i]
	}
	return &s.none
}

//go:noinline
func (s *scriptScan) textOf(i int) string { t := s.tok(i); return string(s.src[t.start:t.end]) }

// isWord reports whether a token is a name or keyword, and which.
//
//go:noinline
func (s *scriptScan) isWord(i int, word string) bool {
	t := s.tok(i)
	return (t.kind == scriptName || t.kind == scriptWord) && string(s.src[t.start:t.end]) == word
}

// after returns the token after i, or after the closing bracket if i opens one.
//
//go:noinline
func (s *scriptScan) after(i int) int {
	if t := s.tok(i); t.opens() {
		return min(int(t.match), len(s.tokens)-1) + 1
	}
	return i + 1
}

func (t *scriptToken) opens() bool { return scriptBrackets[t.op]&1 != 0 }

func (t *scriptToken) closes() bool { return scriptBrackets[t.op]&2 != 0 }

// scriptBrackets says of an operator whether it opens a bracket, 1, closes one, 2, or does both.
var scriptBrackets = [256]byte{
	'(': 1, '[': 1, '{': 1, opTemplateHead: 1, opTemplateMiddle: 3, ')': 2, ']': 2, '}': 2, opTemplateTail: 2,
}

// ends reports whether a token can be the last of an operand or a type.
func (t *scriptToken) ends() bool {
	switch t.kind {
	case scriptName, scriptString, scriptNumber, scriptRegexp, scriptTemplate:
		return true
	case scriptWord:
		return t.word == wordValue || t.word == wordVoid
	}
	return t.op == ')' || t.op == ']' || t.op == '}' || t.op == '>'
}

// breaks reports whether a statement ends before token i because a line does: the token before can be the last
// of a statement, and this one cannot go on with it.
func (s *scriptScan) breaks(i int) bool {
	t, before := s.tok(i), s.tok(i-1)
	if !t.newline || !before.ends() {
		return false
	}
	switch t.kind {
	case scriptName:
		return !s.isWord(i, "as") && !s.isWord(i, "satisfies") && !s.isWord(i, "is")
	case scriptWord:
		return !s.isWord(i, "in") && !s.isWord(i, "instanceof") && !s.isWord(i, "extends")
	case scriptPunct:
		return t.op == '@' || t.op == '{' || t.op == '}'
	}
	return t.kind != scriptTemplate
}
