package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/providers/ollama"
)

const (
	keyEnv       = "ANTHROPIC_API_KEY"
	baseURLEnv   = "ANTHROPIC_BASE_URL"
	ollamaEnv    = "OLLAMA_HOST"
	defaultModel = "anthropic/claude-sonnet-4-5"
	demoModel    = "demo"
	ollamaPull   = "qwen3:8b" // a model that can call tools, for a machine that has none
	ollamaTime   = 250 * time.Millisecond
)

// A vendor is a provider with a model to begin with, and the variables that may have its key.
type vendor struct {
	provider, model string
	keys            []string
}

// vendorTable lists the providers that need a key, in the order of the catalogue.
func vendorTable() []vendor {
	return []vendor{
		{"anthropic", "claude-sonnet-4-5", []string{keyEnv, "ANTHROPIC_AUTH_TOKEN"}},
		{"openai", "gpt-6.1-sol", []string{"OPENAI_API_KEY"}},
		{"google", "gemini-3.8-flash", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
		{"xai", "grok-4.7", []string{"XAI_API_KEY"}},
		{"deepseek", "deepseek-v4-pro", []string{"DEEPSEEK_API_KEY"}},
		{"mistral", "mistral-large-4", []string{"MISTRAL_API_KEY"}},
		{"groq", "openai/gpt-oss-120b", []string{"GROQ_API_KEY"}},
		{"openrouter", "anthropic/claude-sonnet-5", []string{"OPENROUTER_API_KEY"}},
		{"zai", "glm-5.3", []string{"ZAI_API_KEY"}},
		{"moonshot", "kimi-k2.7-code", []string{"MOONSHOT_API_KEY"}},
		{"together", "Qwen/Qwen3.5-397B-A17B", []string{"TOGETHER_API_KEY"}},
	}
}

// key returns the variable that has the key of a vendor, or "". A key that the user has entered stands for the first one.
func (a *app) key(v vendor) string {
	if a.enteredKey(v.provider) != "" {
		return v.keys[0]
	}
	name, _ := first(v.keys, func(name string) bool { return a.getenv(name) != "" })
	return name
}

// vendorOf returns the vendor of a provider that needs a key.
func vendorOf(provider string) (vendor, bool) {
	return first(vendorTable(), func(v vendor) bool { return v.provider == provider })
}

// customaryKeys returns the variables with the keys of providers whose address no variable changes: see [config.WithKeys].
func (a *app) customaryKeys() map[string][]string {
	bases := map[string]string{"anthropic": baseURLEnv, "openai": "OPENAI_BASE_URL", "google": "GOOGLE_GEMINI_BASE_URL"}
	keys := map[string][]string{}
	for _, v := range vendorTable() {
		if a.getenv(bases[v.provider]) == "" {
			keys[v.provider] = v.keys
		}
	}
	return keys
}

// keyless reports whether there is nothing with which a model of Anthropic could be asked.
func (a *app) keyless() bool { return a.key(vendorTable()[0]) == "" && a.getenv(baseURLEnv) == "" }

// noModelError reports that there is no model, and why.
type noModelError struct{ why string }

// Error implements error.
func (e *noModelError) Error() string {
	return "no model: " + cmp.Or(e.why, keyEnv+" is not set") + "; set " + keyEnv +
		" or the key of another provider, name a model with -model, or see the demo with -model demo"
}

// choose sets the model: that of the flag or of the configuration, or else the first of a vendor with a key, or else
// one of Ollama on this machine, or else, in a terminal, the demo.
func (a *app) choose(o *options, st *settings) {
	defer func() { st.fixed = o.model != "" || st.model != st.loaded.Config.Roles.Main }()
	if name := cmp.Or(o.model, st.loaded.Config.Roles.Main); name != "" {
		st.model = a.named(name, st)
		return
	}
	if st.model, st.why = a.vendor(); st.model != "" {
		return
	}
	st.guessed = true
	if st.model, st.why = a.ollama(); st.model == "" && !o.print {
		st.model = demoModel
	}
}

// named returns the model of a name. One without a provider is of the first that is known to have it, or else of
// Anthropic, if there is a key.
func (a *app) named(name string, st *settings) string {
	if _, ok := st.loaded.Config.Models[name]; ok {
		return name
	}
	if !strings.Contains(name, "/") {
		v, ok := first(vendorTable(), func(v vendor) bool { _, has := catalog.Default().Lookup(v.provider, name); return has })
		if !ok {
			v.provider = "anthropic"
		}
		name = v.provider + "/" + name
	}
	if strings.HasPrefix(name, "anthropic/") && a.keyless() {
		st.why = cleanLine(name) + " needs " + keyEnv + ", which is not set"
		return ""
	}
	return name
}

// vendor returns the model of the first vendor with a key, and why it is that one if there are several.
func (a *app) vendor() (model, why string) {
	var found, names []string
	for _, v := range vendorTable() {
		name := a.key(v)
		if name == "" && v.provider == "anthropic" && a.getenv(baseURLEnv) != "" {
			name = baseURLEnv
		}
		if name != "" {
			found, names = append(found, v.provider+"/"+v.model), append(names, name)
		}
	}
	switch len(found) {
	case 0:
		return "", ""
	case 1:
		return found[0], ""
	}
	return found[0], fmt.Sprintf("(%s is set, and %s as well; change it with -model, such as -model %s.)",
		names[0], strings.Join(names[1:], ", "), found[1])
}

// ollama returns a model of an Ollama on this machine that can call tools, and why it is that one, or there is none.
func (a *app) ollama() (model, why string) {
	const none = "no key of a provider is set (such as " + keyEnv + "), and "
	host := a.getenv(ollamaEnv)
	if !isLoopback(host) {
		return "", none + ollamaEnv + " is not this machine"
	}
	ctx, cancel := context.WithTimeout(context.Background(), ollamaTime)
	defer cancel()
	name, err := toolModel(ctx)
	switch {
	case err != nil:
		return "", none + "no Ollama answers here"
	case name == "":
		return "", none + "Ollama has no model that can call tools; get one with: ollama pull " + ollamaPull
	}
	return "ollama/" + name, "(No key is set, and this Ollama answers; change it with -model.)"
}

// toolModel returns the newest model of Ollama that can call tools, or "".
func toolModel(ctx context.Context) (string, error) {
	c, err := ollama.New(ollamaPull)
	if err != nil {
		return "", err
	}
	models, err := c.List(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range models {
		if m.RemoteModel != "" { // it would send the conversation to another machine
			continue
		}
		if len(m.Capabilities) == 0 { // of an old server
			d, err := c.Show(ctx, m.Name)
			if err != nil {
				return "", err
			}
			m = d.Model
		}
		if m.Has("tools") {
			return m.Name, nil
		}
	}
	return "", nil
}

// isLoopback reports whether an address of Ollama is this machine: "" is its usual address.
func isLoopback(host string) bool {
	if host = strings.TrimSpace(host); host == "" {
		return true
	}
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil {
		return false
	}
	name := u.Hostname()
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || name == "" || err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}
