package openai

import (
	"bytes"
	"slices"

	"github.com/aycoder/aycoder"
)

const (
	chatUser      = `,{"role":"user","content":`
	chatTextPart  = `{"type":"text","text":`
	chatEmptyUser = chatUser + `"(empty)"}`
)

// The delimiters between encoded messages, and within joined ones.
const (
	chatBetween = iota // between outputs of tools and user messages
	chatNewText
	chatListUser
	chatNextPart
	chatAfterText
	chatNextText
	chatEndText
)

// chatGlue is the text between two pieces of a request, by what they are. The pieces are
// kept from request to request.
var chatGlue = [...][]byte{
	chatBetween:   []byte(`,{"role":"assistant","content":"OK."}`),
	chatNewText:   []byte(`\n\n`),
	chatListUser:  []byte(chatUser + "[" + chatTextPart),
	chatNextPart:  []byte(","),
	chatAfterText: []byte(`"},`),
	chatNextText:  []byte("," + chatTextPart),
	chatEndText:   []byte(`}]}`),
}

// chatTurns concatenates the messages of a conversation in an order of roles that the
// service accepts. Earlier bytes do not change when messages are added, except for the
// end of a user message that another one follows.
type chatTurns struct {
	dialect
	pieces [][]byte
	user   int // the piece at which the last message begins, if it is only a user message; or 0
	list   bool
	tool   bool // the last message is a tool message
}

// add adds the encoded form of a message, which may consist of several. It is examined
// only if the order matters to the service, so that sending a long history normally reads
// it once.
func (t *chatTurns) add(data []byte) {
	if !t.toolUser && !t.userSystem {
		t.pieces = append(t.pieces, data)
		return
	}
	content, isUser := bytes.CutPrefix(data, []byte(chatUser))
	switch {
	case isUser && t.toolUser && t.tool:
		t.pieces = append(t.pieces, chatGlue[chatBetween])
	case isUser && t.userSystem && t.user > 0:
		t.join(content)
		return
	}
	t.user = 0
	if isUser {
		t.user, t.list = len(t.pieces), content[0] == '['
	}
	t.tool = t.toolUser && endsWithTool(data)
	t.pieces = append(t.pieces, data)
}

// join adds to the content of the last message, since chat templates demand:
// "Conversation roles must alternate user/assistant/user/assistant/...".
func (t *chatTurns) join(content []byte) {
	last := &t.pieces[len(t.pieces)-1]
	*last = (*last)[:len(*last)-2] // without the end of its content
	switch isList := content[0] == '['; {
	case !isList && !t.list:
		t.pieces = append(t.pieces, chatGlue[chatNewText], content[1:])
	case !isList:
		t.pieces = append(t.pieces, chatGlue[chatNextText], content[:len(content)-1], chatGlue[chatEndText])
	case t.list:
		t.pieces = append(t.pieces, chatGlue[chatNextPart], content[1:])
	default:
		t.toList()
		t.list = true
		t.pieces = append(t.pieces, chatGlue[chatAfterText], content[1:])
	}
}

// toList converts the string content of the last message to the first part of a list.
func (t *chatTurns) toList() {
	first := t.pieces[t.user]
	t.pieces[t.user] = chatGlue[chatListUser]
	t.pieces = slices.Insert(t.pieces, t.user+1, first[len(chatUser):])
}

// endsWithTool reports whether the last encoded message is a tool message. Such a message
// ends with the id of the call, which is short.
func endsWithTool(data []byte) bool {
	tail := data[max(0, len(data)-128):]
	i := bytes.LastIndex(tail, []byte(`,"tool_call_id":"`))
	return i >= 0 && !bytes.Contains(tail[i:], []byte(`,{"role":"`))
}

// fromUser returns the encoded form of a message. The first message must not be left out
// even if it is blank, because a conversation begins with the user.
func fromUser(m *aycoder.Message, data []byte, first bool) []byte {
	if first && len(data) == 0 && m.Role != aycoder.RoleAssistant && m.Role != aycoder.RoleSystem {
		return []byte(chatEmptyUser)
	}
	return data
}
