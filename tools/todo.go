package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/untag"
)

const (
	maxTodos = 100
	maxTodo  = 1000 // bytes
)

const todoDescription = `Keep the list of tasks, which the user sees. Send the whole list each time:
it replaces the previous one. Use it for work of three steps or more; have one item in progress, and
mark an item as completed as soon as it is.`

// TodoStatus is the progress of an item on a [TodoList].
type TodoStatus string

// The statuses of a [TodoItem].
const (
	// TodoPending means that work on the item has not begun. The model reads it as "[ ]".
	TodoPending TodoStatus = "pending"
	// TodoInProgress means that the model is working on the item. The model reads it as "[>]".
	TodoInProgress TodoStatus = "in_progress"
	// TodoCompleted means that the item is done. It stays on the list, so that the model does not
	// do the work again. The model reads it as "[x]".
	TodoCompleted TodoStatus = "completed"
	// TodoCancelled means that the item is no longer needed. It stays on the list. The model
	// reads it as "[-]".
	TodoCancelled TodoStatus = "cancelled"
)

// TodoItem is a task on a [TodoList].
type TodoItem struct {
	Content string     `json:"content" jsonschema_description:"What is to be done, in a few words."`
	Status  TodoStatus `json:"status" jsonschema:"enum=pending,enum=in_progress,enum=completed,enum=cancelled"`
}

type todoArgs struct {
	Todos []TodoItem `json:"todos" jsonschema_description:"The whole list, in order; an empty one clears it."`
}

// TodoList is the list of tasks that a model keeps with the tool todo. Each conversation needs a
// separate list. The zero value is an empty list. A TodoList is safe for concurrent use.
type TodoList struct {
	items atomic.Pointer[[]TodoItem] // replaced as a whole, never modified
}

// Items returns a copy of the current list.
func (l *TodoList) Items() []TodoItem {
	if p := l.items.Load(); p != nil {
		return slices.Clone(*p)
	}
	return nil
}

// Set replaces the list, for example when a conversation is resumed. A list may have up to 100
// items of up to 1,000 bytes each. For a list that is not valid, Set returns the error that the
// tool would report to the model.
func (l *TodoList) Set(items []TodoItem) error {
	if len(items) > maxTodos {
		return problemf("too_many", "the list has %d items, at most %d are kept; join those that belong together",
			len(items), maxTodos)
	}
	items = slices.Clone(items)
	for i := range items {
		it := &items[i]
		it.Content = EscapeInvisible(strings.TrimSpace(it.Content))
		switch {
		case it.Content == "":
			return problemf("invalid_arguments", "item %d has no content", i+1)
		case len(it.Content) > maxTodo:
			return problemf("too_long",
				"item %d has %d bytes, at most %d are kept", i+1, len(it.Content), maxTodo)
		case it.sign() == "":
			return problemf("invalid_arguments", "item %d has the status %q; it must be pending, in_progress, "+
				"completed or cancelled", i+1, runes.Shorten(string(it.Status), 40))
		}
	}
	l.items.Store(&items)
	return nil
}

// String returns the list in the form that the model reads: one line for each item, such as "[x]
// write the test". It returns "" for an empty list.
func (l *TodoList) String() string {
	var b strings.Builder
	for _, it := range l.Items() {
		fmt.Fprintf(&b, "[%s] %s\n", it.sign(), strings.ReplaceAll(it.Content, "\n", " "))
	}
	return b.String()
}

const remind = "The list of tasks, as the tool todo keeps it now. This is not a message of the user.\n"

// Remind is an [aycoder.ContextMiddleware]. As long as an item is pending or in progress, it adds
// the list to the tail of each request (see [aycoder.Request]), between <todo_context> and
// </todo_context>, so that the model does not lose sight of it in a long conversation. The history does
// not get longer.
func (l *TodoList) Remind(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return part.Tail(next, func(context.Context, aycoder.ContextInput) string {
		if !slices.ContainsFunc(l.Items(), TodoItem.open) {
			return ""
		}
		return "<todo_context>\n" + remind + untag.Text(l.String()) + "</todo_context>\n"
	})
}

func (it TodoItem) open() bool { return it.Status == TodoPending || it.Status == TodoInProgress }

// MarshalJSON returns the items as a JSON array.
func (l *TodoList) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]TodoItem{}, l.Items()...))
}

// UnmarshalJSON replaces the list. See [TodoList.Set] for the errors.
func (l *TodoList) UnmarshalJSON(data []byte) error {
	var items []TodoItem
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	return l.Set(items)
}

// sign returns the mark of the status, or "" for an unknown status.
func (it *TodoItem) sign() string {
	return map[TodoStatus]string{
		TodoPending: " ", TodoInProgress: ">", TodoCompleted: "x", TodoCancelled: "-",
	}[it.Status]
}

// WithTodoList sets the list that the tool todo changes, so that a host can show it. Default: a
// new list.
func WithTodoList(l *TodoList) Option {
	return func(c *config) error {
		if l == nil {
			return &aycoder.ConfigError{Option: "WithTodoList", Err: errors.New("list is nil")}
		}
		c.todos = l
		return nil
	}
}

// Todo returns the tool todo, with which the model keeps a list of tasks. The tool changes
// nothing else, so its calls run without approval. If one message of the model has several calls,
// they run in parallel, and any of them may determine the final list.
func Todo(opts ...Option) (aycoder.Tool, error) {
	c, err := optioned(opts)
	if err != nil {
		return nil, err
	}
	list := c.todos
	if list == nil {
		list = new(TodoList)
	}
	return aycoder.NewTool("todo", todoDescription, guard(list.run),
		aycoder.WithEffect(aycoder.EffectReadOnly))
}

func (l *TodoList) run(_ context.Context, _ *invocation, in todoArgs) (*result, error) {
	if err := l.Set(in.Todos); err != nil {
		return nil, err
	}
	if len(in.Todos) == 0 {
		return textResult("[the list is empty]\n", "empty"), nil
	}
	done, working := 0, 0
	for _, it := range in.Todos {
		switch it.Status {
		case TodoCompleted, TodoCancelled:
			done++
		case TodoInProgress:
			working++
		}
	}
	text := l.String()
	if working > 1 {
		text += "[more than one item is in progress; work on one at a time]\n"
	}
	return textResult(text, fmt.Sprintf("%d of %d done", done, len(in.Todos))), nil
}
