package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
)

// A key that the user enters is in the memory of this process only: in no file, in no variable, which the commands of
// the agent would get, and never on the screen.

// enteredKey returns the key of a provider that the user has entered, or "".
func (a *app) enteredKey(provider string) string {
	key, _ := a.entered.Load(provider)
	text, _ := key.(string)
	return text
}

// forgetKey forgets the key that was entered for the model if its provider has refused it. It reports whether there was
// one. A provider has another name in the error if it is at another address.
func (c *chat) forgetKey(err error) bool {
	_, refused := errors.AsType[*aycoder.AuthError](err)
	if refused && c.settings.loaded != nil {
		_, configured := c.settings.loaded.Config.Models[c.settings.model]
		refused = !configured
	}
	provider, _, _ := strings.Cut(c.settings.model, "/")
	if refused {
		_, refused = c.app.entered.LoadAndDelete(provider)
	}
	return refused
}

// keyNeeded returns the vendor whose key a model needs, and nobody has given.
func (c *chat) keyNeeded(model string) (vendor, bool) {
	if st := c.settings.loaded; st != nil {
		if _, ok := st.Config.Models[model]; ok {
			return vendor{}, false
		}
	}
	provider, _, ok := strings.Cut(model, "/")
	if !ok {
		provider = "anthropic"
	}
	if main, _, _ := strings.Cut(c.settings.model, "/"); c.options.baseURL != "" && provider == main && provider != "anthropic" {
		return vendor{}, false // a service of the user's, which may need none
	}
	v, ok := vendorOf(provider)
	return v, ok && c.app.key(v) == "" && (provider != "anthropic" || c.app.keyless())
}

// askKey lets the user enter the key of a vendor, and says where to put it.
func (c *chat) askKey(v vendor) error {
	where := "\nTo keep it, set " + v.keys[0] + " in the profile of your shell"
	if home := c.app.home(); home != "" {
		where += ", or name a command that prints it as key_command of a model in " + clean(filepath.Join(home, "config.toml"))
	}
	if !c.Fancy() || c.working {
		return errors.New(v.keys[0] + " is not set." + where)
	}
	c.prose("", "The key of "+v.provider+" is not shown, and stays in this program until it ends: no file and no command gets it."+where+".")
	key, err := c.readSecret("  " + v.keys[0] + ": ")
	switch {
	case err != nil:
		return err
	case key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("this is not a key")
	}
	c.app.entered.Store(v.provider, key)
	return nil
}

const maxSecret = 4096 // bytes

// readSecret asks for a line that is not shown. None of the actions of the editor has it, since they keep what they get.
func (u *ui) readSecret(prompt string) (string, error) {
	was, secret := u.editor, []rune(nil)
	defer func() { u.editor, u.reading = was, false }()
	u.editor, u.reading = line.New(line.Options{Prompt: prompt}), true
	u.fresh()
	for begun := time.Now(); ; {
		u.editor.SetText(strings.Repeat("•", min(len(secret), 32)))
		k, err := u.key(nil)
		switch {
		case err != nil:
			return "", err
		case k.At.Before(begun): // typed for something else
		case isKey(k, "ctrl+d") && len(secret) == 0:
			return "", io.EOF
		case isKey(k, "ctrl+c", "esc"):
			return "", errInterrupt
		case isKey(k, "ctrl+z"):
			_ = u.Suspend() // where that is not possible, the key does nothing
		case isKey(k, "ctrl+u"):
			secret = nil
		case isKey(k, "backspace"):
			secret = secret[:max(len(secret)-1, 0)]
		case k.Name == tty.Enter:
			u.echo(prompt, "")
			return strings.TrimSpace(string(secret)), nil
		case k.Name == tty.Paste:
			secret = append(secret, []rune(k.Text)...)
		case k.Printable():
			secret = append(secret, k.Rune)
		}
		if len(secret) > maxSecret {
			secret, u.hint = nil, "This is too long for a key."
		}
	}
}

// vendors are the models to begin with, for a list to choose from. The demo is the last one.
func (a *app) vendors() (list []line.Candidate) {
	for _, v := range vendorTable() {
		list = append(list, line.Candidate{Text: v.provider + "/" + v.model, Note: cmp.Or(a.key(v), "asks for "+v.keys[0])})
	}
	return append(list, line.Candidate{Text: demoModel, Note: "no AI, only a script"})
}

// leaveDemo goes on with a model, in the directory of the user. The demo goes on if that fails.
func (c *chat) leaveDemo(ctx context.Context, model string) error {
	options, settings, label := c.options, c.settings, c.label
	o := *c.options
	o.model = model
	c.options, c.label = &o, ""
	ctx, cancel := context.WithCancelCause(ctx) // until the program ends, unless it fails
	s, err := c.open(ctx, cancel)
	if err != nil {
		cancel(nil)
		c.options, c.settings, c.label = options, settings, label
		return err
	}
	c.exchange(s)
	c.greet(s)
	return c.goOn(ctx)
}
