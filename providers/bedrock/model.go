package bedrock

import (
	"strings"

	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// A model describes the properties of a model that the common API does not cover.
type model struct {
	claude bool
	caches bool
	adapts bool // does not take a temperature
	keeps  bool // sees its earlier thinking after a text of the user
	plain  bool // takes neither reasoning nor the status of a failed call
	// thinking appends the fields that turn on thinking; nil if the model has none.
	thinking func(b []byte, budget int) []byte
}

// modelOf derives the properties from a name:
// "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-2-lite-v1:0", or an ARN
// that ends in one.
func modelOf(name string) model {
	switch {
	case strings.Contains(name, "anthropic.claude"):
		m := model{claude: true, caches: true, keeps: api.ClaudeKeepsThinking(name), thinking: claudeThinking}
		for _, old := range []string{"claude-v2", "claude-instant", "claude-3-haiku", "claude-3-sonnet", "claude-3-opus",
			"claude-3-5-sonnet-20240620"} {
			if strings.Contains(name, old) {
				return model{claude: true}
			}
		}
		if strings.Contains(name, "claude-3-5-") {
			m.thinking = nil
		}
		if m.adapts, _ = api.ClaudeAdapts(name); m.adapts {
			m.thinking = adaptiveThinking
		}
		return m
	case strings.Contains(name, "amazon.nova-2"):
		return model{caches: true, thinking: novaThinking}
	case strings.Contains(name, "amazon.nova"):
		return model{caches: true}
	case strings.Contains(name, "openai.gpt-oss"):
		return model{plain: true, thinking: ossThinking}
	}
	for _, maker := range []string{"meta.", "mistral.", "cohere.", "ai21.", "deepseek.", "qwen.", "openai.", "amazon.titan"} {
		if strings.Contains(name, maker) {
			return model{plain: true}
		}
	}
	return model{}
}

// claudeThinking appends the setting of the Claude models that think up to a number of
// tokens.
func claudeThinking(b []byte, budget int) []byte {
	b = append(b, `{"thinking":{"type":"enabled"`...)
	return append(rawjson.AppendIntField(b, "budget_tokens", int64(budget)), `}}`...)
}

// adaptiveThinking appends the setting of the Claude models that accept only an effort.
// They omit the text of their thinking unless a summary is requested.
func adaptiveThinking(b []byte, budget int) []byte {
	b = append(b, `{"thinking":{"type":"adaptive","display":"summarized"},"output_config":{`...)
	return append(rawjson.AppendField(b, "effort", api.ClaudeEffort(budget)), `}}`...)
}

// novaThinking appends the setting of Nova 2. The effort "high" is not used, because it
// excludes other settings, such as the limit of the answer.
func novaThinking(b []byte, budget int) []byte {
	effort := api.ClaudeEffort(budget)
	if effort == "high" {
		effort = "medium"
	}
	b = append(b, `{"reasoningConfig":{"type":"enabled"`...)
	return append(rawjson.AppendField(b, "maxReasoningEffort", effort), `}}`...)
}

// ossThinking appends the setting of gpt-oss, which always thinks and accepts only an
// effort.
func ossThinking(b []byte, budget int) []byte {
	return append(rawjson.AppendField(append(b, '{'), "reasoning_effort", api.ClaudeEffort(budget)), '}')
}
