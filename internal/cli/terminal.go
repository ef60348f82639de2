package cli

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/cli/line"
)

// terminal returns what the configuration says of the terminal. The demo has none.
func (st *settings) terminal() config.Terminal {
	if st.loaded == nil {
		return config.Terminal{}
	}
	return st.loaded.Config.Terminal
}

// configure sets up the keys.
func (c *chat) configure(t config.Terminal) {
	c.terminal = t
	c.editor = line.New(line.Options{History: c.history, Complete: c.complete, Vi: t.Vi, Bindings: t.Keys})
	actions := c.editor.Actions()
	for key, action := range t.Keys {
		if action == "" || slices.Contains(actions, action) {
			continue
		}
		text := "terminal.keys: " + key + ": there is no action " + action
		if near := similar(action, actions); len(near) > 0 {
			text += "; did you mean " + strings.Join(near, ", ") + "?"
		}
		c.complain(errors.New(text))
	}
}

// retitle sets the title of the window.
func (c *chat) retitle(works bool) {
	if !c.terminal.Title {
		return
	}
	text := "aycoder " + filepath.Base(c.session.Files.Dir())
	if title := c.talk().View().Title(); title != "" {
		text += ": " + fit(cleanLine(title), 60)
	}
	if works {
		text = "* " + text
	}
	c.Title(text)
}

// away reports whether nobody has pressed a key for a while.
func (u *ui) away() bool { return time.Since(u.lastKey) >= u.terminal.NotifyAfter }

// alert tells a user who looks elsewhere that the program waits for them.
func (u *ui) alert(text string) {
	if !u.away() {
		return
	}
	how := u.terminal.Notify
	if how == "bell" || how == "both" {
		u.Bell()
	}
	if how == "message" || how == "both" {
		u.Notify("aycoder: " + text)
	}
}
