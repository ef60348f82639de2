package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func item(content string, status TodoStatus) TodoItem { return TodoItem{content, status} }

func TestTodo(t *testing.T) {
	var list TodoList
	tool, err := Todo(WithTodoList(&list))
	require.NoError(t, err)
	call := func(in args) *aycoder.ToolResult {
		t.Helper()
		r, err := answered(tool.Call(t.Context(), aycoder.NewInvocation("c", "todo", mustJSON(t, in), nil)))
		require.NoError(t, err)
		require.Less(t, len(r.Text()), 4096)
		return r
	}
	require.Empty(t, list.Items())
	require.Empty(t, list.String())
	r := call(args{"todos": []args{
		{"content": "read", "status": "completed"}, {"content": "  write\nit ", "status": "in_progress"},
		{"content": "run", "status": "pending"}, {"content": "paint", "status": "cancelled"},
	}})
	require.False(t, r.IsError)
	require.Equal(t, "[x] read\n[>] write it\n[ ] run\n[-] paint\n", r.Text())
	require.Equal(t, "2 of 4 done", r.Summary)
	items := list.Items()
	require.Equal(t, []TodoItem{
		item("read", TodoCompleted), item("write\nit", TodoInProgress), item("run", TodoPending), item("paint", TodoCancelled),
	}, items)
	items[0].Content = "changed"
	require.Equal(t, "read", list.Items()[0].Content, "a copy is handed out")

	refused := []struct {
		name string
		in   any
		want string
	}{
		{"status", []args{{"content": "a", "status": "done"}}, `/todos/0/status: must be one of "pending"`},
		{"no status", []args{{"content": "a"}}, "/todos/0/status: required"},
		{"no content", []args{{"content": "a", "status": "pending"}, {"content": " ", "status": "pending"}}, "invalid_arguments: item 2 has no content"},
		{"long", []args{{"content": strings.Repeat("x", 1001), "status": "pending"}}, "too_long: item 1 has 1001 bytes"},
		{"many", slices.Repeat([]args{{"content": "a", "status": "pending"}}, 10_000), "too_many: the list has 10000 items, at most 100"},
	}
	for _, tt := range refused {
		r := call(args{"todos": tt.in})
		assert.True(t, r.IsError, tt.name)
		assert.Contains(t, r.Text(), tt.want, tt.name)
	}
	require.Len(t, list.Items(), 4, "what is refused changes nothing")

	r = call(args{"todos": []args{{"content": "a", "status": "in_progress"}, {"content": "b\x1b[2J", "status": "in_progress"}}})
	require.Equal(t, "[>] a\n[>] b<U+001B>[2J\n[more than one item is in progress; work on one at a time]\n", r.Text())
	require.Equal(t, "[the list is empty]\n", call(args{"todos": []args{}}).Text())
	require.Empty(t, list.Items())
}

func TestTodoOptions(t *testing.T) {
	_, err := Todo(WithTodoList(nil))
	require.ErrorContains(t, err, "list is nil")
	tool, err := Todo()
	require.NoError(t, err)
	require.Equal(t, aycoder.EffectReadOnly, tool.Spec().Effect)
}

// A concurrent reader sees one list or the other, never a mixture.
func TestTodoListIsShared(t *testing.T) {
	var list TodoList
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for range 200 {
				items := make([]TodoItem, n+1)
				for i := range items {
					items[i] = item(fmt.Sprint(n), TodoPending)
				}
				assert.NoError(t, list.Set(items))
			}
		})
		wg.Go(func() {
			for range 200 {
				items := list.Items()
				for _, it := range items {
					assert.Equal(t, fmt.Sprint(len(items)-1), it.Content)
				}
			}
		})
	}
	wg.Wait()
}

// The list and the directory of a shell are kept as JSON.
func TestKeptAsJSON(t *testing.T) {
	var list, other TodoList
	require.NoError(t, list.Set([]TodoItem{{Content: "a", Status: TodoPending}, {Content: "b", Status: TodoCompleted}}))
	data, err := json.Marshal(&list)
	require.NoError(t, err)
	require.JSONEq(t, `[{"content":"a","status":"pending"},{"content":"b","status":"completed"}]`, string(data))
	require.NoError(t, json.Unmarshal(data, &other))
	require.Equal(t, list.Items(), other.Items())
	require.Error(t, json.Unmarshal([]byte(`[{"content":"a","status":"never"}]`), &other))
	require.Equal(t, list.Items(), other.Items())
	require.NoError(t, json.Unmarshal([]byte(`[]`), &other))
	data, err = json.Marshal(&other)
	require.NoError(t, err)
	require.Equal(t, `[]`, string(data))

	var s Shell
	data, err = json.Marshal(&s)
	require.NoError(t, err)
	require.Equal(t, `"."`, string(data))
	require.NoError(t, json.Unmarshal([]byte(`"sub/dir"`), &s))
	require.Equal(t, "sub/dir", s.Dir())
	for _, bad := range []string{`"../x"`, `"/etc"`, `"a/../../b"`, `1`} {
		require.Error(t, json.Unmarshal([]byte(bad), &s), bad)
	}
	require.Equal(t, "sub/dir", s.Dir())
}
