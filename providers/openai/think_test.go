package openai

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestThinkTags(t *testing.T) {
	tests := []struct{ name, in, thinking, text string }{
		{"none", "hello", "", "hello"},
		{"at the beginning", "<think>\nhm</think>\n\nso", "hm", "so"},
		{"after space", " \n<think>hm</think>so", "hm", "so"},
		{"further on", "a <think>hm</think>so", "", "a <think>hm</think>so"},
		{"a second time", "<think>a</think>b <think>c</think>", "a", "b <think>c</think>"},
		{"closing tag alone", "a</think>b", "", "a</think>b"},
		{"without an end", "<think>hm", "hm", ""},
		{"half a tag at the end", "<think>hm</thi", "hm</thi", ""},
		{"half a tag alone", "<thi", "", "<thi"},
		{"another tag", "<thinking>a", "", "<thinking>a"},
		{"space alone", " \n", "", " \n"},
		{"brackets inside", "<think>a < b </ c</think>d", "a < b </ c", "d"},
		{"much space", strings.Repeat(" ", 2*maxHeld) + "<think>a", "", strings.Repeat(" ", 2*maxHeld) + "<think>a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for size := 1; size <= len(tt.in); size++ {
				think, all := &chatThink{}, [2]string{}
				for rest := tt.in; rest != ""; {
					n := min(size, len(rest))
					thinking, text := think.split(rest[:n])
					all[0], all[1], rest = all[0]+thinking, all[1]+text, rest[n:]
				}
				thinking, text := think.rest()
				assert.Equal(t, [2]string{tt.thinking, tt.text}, [2]string{all[0] + thinking, all[1] + text}, "pieces of %d", size)
			}
		})
	}
}

func TestThinkTagsInAnswers(t *testing.T) {
	body := chatChunks(`"index":0,"delta":{"content":"<thi"}`, `"index":0,"delta":{"content":"nk>hm</think>so"},"finish_reason":"stop"`)
	assert.Equal(t, "text <think>hm</think>so\nend_turn", chatShow(chatAsk(t, body, nil)), "off by default")
	assert.Equal(t, "think hm\ntext so\nend_turn", chatShow(chatAsk(t, body, nil, WithThinkTags(true))))
}
