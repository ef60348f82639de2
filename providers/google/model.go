package google

import (
	"math"
	"strconv"
	"strings"
)

// A model describes the abilities that a model's name implies.
type model struct {
	name    string // the text behind the last slash, in lower case
	version float64
	family  bool // a Gemini, or another model with known abilities
}

// newest is the version of "gemini-flash-latest".
const newest = 99

// parseModel parses names like "gemini-2.5-flash".
func parseModel(name string) model {
	m := model{name: strings.ToLower(name[strings.LastIndex(name, "/")+1:])}
	rest, gemini := strings.CutPrefix(m.name, "gemini-")
	m.family = gemini || strings.HasPrefix(m.name, "gemma") || strings.HasPrefix(m.name, "learnlm")
	if !gemini {
		return m
	}
	number, _, _ := strings.Cut(rest, "-")
	if v, err := strconv.ParseFloat(number, 64); err == nil && v < newest {
		m.version = v
	} else if strings.HasSuffix(rest, "-latest") {
		m.version = newest
	}
	return m
}

// strict reports whether calls must have a signature: "Gemini 3 models enforce stricter
// validation on thought signatures than previous Gemini versions". These models were also
// the first to accept media in the outputs of tools, and tools beside a format.
func (m model) strict() bool { return m.version >= 3 }

func (m model) has(word string) bool { return strings.Contains(m.name, word) }

// draws reports whether the model generates images or audio.
func (m model) draws() bool { return m.has("-image") || m.has("-tts") || m.has("-audio") }

// formats reports whether the model can constrain answers to a JSON Schema.
func (m model) formats() bool { return m.version >= 2 && !m.draws() }

// A thinking is the setting for the amount of thinking: a level, a budget, or none.
type thinking struct {
	level  string
	budget int // valid only if set is true
	set    bool
}

// think converts [aycoder.Request.Thinking] to the model's setting. "You cannot use both
// thinking_level and the legacy thinking_budget parameter in the same request."
func (m model) think(n int) thinking {
	switch {
	case n == 0 || !m.thinks():
		return thinking{}
	case m.strict():
		return thinking{level: m.level(n)}
	}
	least, most := m.budgets()
	if n < 0 {
		return thinking{budget: least, set: true}
	}
	if least == 0 {
		least = 1 // 0 would turn it off
	}
	return thinking{budget: min(max(n, least, m.smallest()), most), set: true}
}

// thinks reports whether the model accepts settings for thinking. Unknown models are
// assumed to.
func (m model) thinks() bool { return (m.version >= 2.5 || !m.family) && !m.draws() }

// The largest number of tokens for each level.
const (
	lowTokens    = 2 << 10
	mediumTokens = 8 << 10
)

// level returns the level for a number of tokens. Thinking cannot be turned off from
// Gemini 3 on. All models have LOW and HIGH; MEDIUM came after Gemini 3 Pro, and only the
// Flash models before 3.7 have MINIMAL.
func (m model) level(n int) string {
	switch {
	case n < 0 && m.has("flash") && m.version < 3.7:
		return "MINIMAL"
	case n <= lowTokens:
		return "LOW"
	case n <= mediumTokens && !(m.has("pro") && m.version == 3):
		return "MEDIUM"
	}
	return "HIGH"
}

// budgets returns the minimum and maximum budget of a Gemini 2.5 model. Pro cannot turn
// thinking off: "128 to 32768", Flash: "0 to 24576".
func (m model) budgets() (least, most int) {
	switch {
	case m.has("pro"):
		return 128, 32768
	case m.has("flash"):
		return 0, 24576
	}
	return 0, math.MaxInt32
}

// smallest returns the smallest positive budget: Flash Lite accepts "512 to 24576", and
// 0.
func (m model) smallest() int {
	if m.has("flash-lite") {
		return 512
	}
	return 0
}
