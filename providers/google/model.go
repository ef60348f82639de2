package google

import (
	"math"
	"strconv"
	"strings"
)

// A model is what the name of a model says about it.
type model struct {
	name    string // without what stands before the last slash, in lower case
	version float64
	family  bool // it is a Gemini or another model whose abilities are known
}

// newest stands for the version of "gemini-flash-latest".
const newest = 99

// parseModel reads "gemini-2.5-flash" and the like.
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
// validation on thought signatures than previous Gemini versions". They are also the
// first that take media in the outputs of tools, and tools beside a format.
func (m model) strict() bool { return m.version >= 3 }

func (m model) has(word string) bool { return strings.Contains(m.name, word) }

// draws reports whether the model makes pictures or sound.
func (m model) draws() bool { return m.has("-image") || m.has("-tts") || m.has("-audio") }

// formats reports whether the model makes answers of a JSON Schema.
func (m model) formats() bool { return m.version >= 2 && !m.draws() }

// A thinking is how much a model is to think: by level, by budget, or nothing is said.
type thinking struct {
	level  string
	budget int // only if set is true
	set    bool
}

// think turns [aycoder.Request.Thinking] into what the model takes. "You cannot use
// both thinking_level and the legacy thinking_budget parameter in the same request."
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

// thinks reports whether the model takes settings for its thinking. One whose name
// says nothing is trusted to.
func (m model) thinks() bool { return (m.version >= 2.5 || !m.family) && !m.draws() }

// The number of tokens up to which a level is meant.
const (
	lowTokens    = 2 << 10
	mediumTokens = 8 << 10
)

// level is the level for a number of tokens. Thinking cannot be turned off from Gemini
// 3 on. All models have LOW and HIGH; MEDIUM came after Gemini 3 Pro, and MINIMAL is
// for the Flash models before 3.7.
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

// budgets are the least and the most tokens that a model of Gemini 2.5 can be told to
// think. Pro cannot be told not to: "128 to 32768", Flash: "0 to 24576".
func (m model) budgets() (least, most int) {
	switch {
	case m.has("pro"):
		return 128, 32768
	case m.has("flash"):
		return 0, 24576
	}
	return 0, math.MaxInt32
}

// smallest is the least budget but none: Flash Lite takes "512 to 24576", and 0.
func (m model) smallest() int {
	if m.has("flash-lite") {
		return 512
	}
	return 0
}
