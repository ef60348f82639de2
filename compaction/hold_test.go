package compaction

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// Two runs that continue one conversation in two ways at once do not share what is known of it.
func TestConversationsAreHeld(t *testing.T) {
	c, err := New(aycoder.ModelFunc(nil))
	require.NoError(t, err)
	begin := []*aycoder.Message{user("begin"), model("ok")}
	v := c.conversation(&aycoder.ContextInput{Run: "1", Messages: begin})
	v.follow(begin, nil)
	v.mu.Unlock()
	a := append(begin[:2:2], user("a secret of a"))
	b := append(begin[:2:2], user("b"))
	va := c.conversation(&aycoder.ContextInput{Run: "2", Messages: a})
	vb := c.conversation(&aycoder.ContextInput{Run: "3", Messages: b})
	require.Same(t, v, va)
	require.NotSame(t, va, vb)
	va.follow(a, nil)
	vb.follow(b, nil)
	require.Equal(t, a, va.out)
	require.Equal(t, b, vb.out)
	va.mu.Unlock()
	vb.mu.Unlock()
}
