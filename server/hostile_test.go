package server

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// The files are not those of another node while a call changes them.
func TestCheckoutDuringACall(t *testing.T) {
	s := served(t, script.New(script.Say("Hi.")))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	ask := fmt.Sprintf(`{"session":%q,"args":{"path":"a.txt","content":"x"}}`, c.id)
	require.Equal(t, 202, status(t, s, "POST", "/api/tools/write_file", ask))
	for len(c.newest().questions()) == 0 {
		<-c.newest().log.read(cursor{}).changed
	}
	for _, only := range []string{"files", "conversation", ""} {
		require.Equal(t, 409, status(t, s, "POST", "/api/sessions/"+c.id+"/checkout", fmt.Sprintf(`{"node":0,"only":%q}`, only)), only)
	}
	s.release(c)
	require.NoError(t, s.Close())
}

// Whoever does not take the answer about another node keeps nobody from going on.
func TestCheckoutIsNotTaken(t *testing.T) {
	s := served(t, script.New(script.Say("Hi.")))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	w := &watched{ResponseRecorder: httptest.NewRecorder(), saw: func([]byte) {
		free := c.mu.TryLock()
		require.True(t, free)
		c.mu.Unlock()
	}}
	s.ServeHTTP(w, localRequest(t.Context(), "POST", "/api/sessions/"+c.id+"/checkout", `{"node":0}`))
	require.Equal(t, 200, w.Code, w.Body)
	s.release(c)
	require.NoError(t, s.Close())
}

// However many names of tools models make up, the calls of a tool that had figures before are counted as its own.
func TestFiguresOfManyTools(t *testing.T) {
	m := newMetrics()
	call := func(tool string) {
		m.call(local, &aycoder.ToolFinished{Call: &aycoder.ToolUse{Name: tool}, Output: &aycoder.ToolOutput{}})
	}
	call("bash")
	for i := range 2 * maxToolNames {
		call(fmt.Sprint("made_up_", i))
	}
	call("bash")
	all := map[string]int64{}
	for _, c := range m.all[local].ToolCalls {
		all[c.Tool] += c.Count
	}
	require.EqualValues(t, 2, all["bash"])
	require.EqualValues(t, maxToolNames+1, all["other"])
	require.LessOrEqual(t, len(all), maxToolNames+1)
}
