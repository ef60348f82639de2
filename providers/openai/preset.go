package openai

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
)

// A dialect describes how a service differs from OpenAI. The zero value is OpenAI's
// dialect. It is comparable, since it is part of the key of cached messages.
type dialect struct {
	// the field for the maximum length of an answer; max_completion_tokens if empty
	maxTokens string
	anyTool   string // the tool_choice that forces some call; "required" if empty
	noUsage   bool   // stream_options is refused; usage is sent anyway
	noStrict  bool   // structured output is not supported
	thinking  thinkingForm
	echo      echoForm
	ids       idForm
	files     fileForm
	noImages  bool
	// userSystem says that a system message after the first message is refused, mostly by
	// chat templates of open models. They also require alternating roles, so consecutive
	// user messages are joined.
	userSystem bool
	// toolUser says that a user message must not directly follow a tool message:
	// "Unexpected role 'user' after role 'tool'".
	toolUser  bool
	thinkTags bool
	// calmForced says that a thinking model cannot be forced to call a tool: "Thinking
	// mode does not support this tool_choice".
	calmForced bool
	cacheMarks bool // prompts are cached up to an explicit mark, for models that need one
}

// A thinkingForm is the form in which a service accepts the setting for thinking.
type thinkingForm byte

const (
	thinkEffort   thinkingForm = iota // reasoning_effort, for models that are known to think
	thinkAnyModel                     // reasoning_effort, for any model
	thinkGroq                         // reasoning_effort, for the models of Groq that take it
	thinkObject                       // reasoning: {effort, max_tokens, enabled}
	thinkSwitch                       // thinking: {type: enabled or disabled}
	thinkTemplate                     // chat_template_kwargs: {enable_thinking}
	thinkNever                        // not sent: thinking models refuse the setting
)

// An echoForm is the form in which a service wants the thinking of its model back. The
// field reasoning_details is sent back in any case.
type echoForm byte

const (
	echoNothing echoForm = iota
	echoCalls            // reasoning_content in messages with calls
	echoAlways           // the same, even if it is empty
	echoParts            // a part of the content, of type thinking
)

// An idForm is a restriction on the ids of calls.
type idForm byte

const (
	idShort idForm = iota // at most 40 bytes
	idNine                // nine letters and digits
	idPlain               // the characters that Anthropic's models accept
)

// A fileForm is the way in which a document is sent.
type fileForm byte

const (
	fileData  fileForm = iota // {type: file, file: {filename, file_data}}
	fileURL                   // {type: document_url, document_url}
	fileNever                 // not at all
)

// compatible returns the dialect that most services understand. They use the name
// max_tokens, which OpenAI itself has replaced by max_completion_tokens.
func compatible() dialect {
	return dialect{maxTokens: "max_tokens", thinking: thinkAnyModel}
}

// A service describes a service that speaks the API.
type service struct {
	name, base string
	env        string // the environment variable of its key; empty if a key is optional
	dialect    dialect
	// baseEnv is the environment variable with the URL that the service's own client
	// reads; version is the path that is appended to it.
	baseEnv, version string
	idle             time.Duration // the idle timeout; the common default if 0
}

// localIdle is the idle timeout for servers on the user's hardware, which load the model
// and read the prompt before they send anything.
const localIdle = 10 * time.Minute

// open returns a client of the service. Its settings are an option that precedes the
// caller's options, so that each of these can override them.
func (s service) open(model string, opts []Option) (*Client, error) {
	first := func(c *config) error {
		c.SetHome(s.name, s.base)
		c.keyEnv, c.dialect, c.preset = s.env, s.dialect, true
		c.Idle = cmp.Or(s.idle, c.Idle)
		if s.dialect.thinkTags {
			c.thinkTags = newChatThink
		}
		c.baseEnv = s.baseEnv
		c.adaptBase = func(base string) string { return api.WithVersion(base, s.version) }
		return nil
	}
	return New(model, append([]Option{first}, opts...)...)
}

// XAI returns a client for xAI's Grok models. The API key comes from [WithAPIKey], or
// else from the environment variable XAI_API_KEY. WithExtra("search_parameters", …) turns
// on live search.
func XAI(model string, opts ...Option) (*Client, error) {
	// "reasoning_effort is not supported by grok-4": only the small models take it.
	return service{name: "xai", base: "https://api.x.ai/v1", env: "XAI_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", thinking: thinkNever, files: fileNever}}.open(model, opts)
}

// OpenRouter returns a client for the gateway openrouter.ai. The API key comes from
// [WithAPIKey], or else from the environment variable OPENROUTER_API_KEY.
// WithExtra("provider", …) chooses between the services behind the gateway. The thinking
// of a model is sent back byte for byte in the field "reasoning_details".
func OpenRouter(model string, opts ...Option) (*Client, error) {
	return service{name: "openrouter", base: "https://openrouter.ai/api/v1", env: "OPENROUTER_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", thinking: thinkObject, ids: idPlain, cacheMarks: true}}.open(model, opts)
}

// Groq returns a client for Groq, which hosts open models. The API key comes from
// [WithAPIKey], or else from the environment variable GROQ_API_KEY.
func Groq(model string, opts ...Option) (*Client, error) {
	return service{name: "groq", base: "https://api.groq.com/openai/v1", env: "GROQ_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", thinking: thinkGroq, files: fileNever, thinkTags: true},
		baseEnv: "GROQ_BASE_URL", version: "openai/v1"}.open(model, opts)
}

// DeepSeek returns a client for DeepSeek's own service. The API key comes from
// [WithAPIKey], or else from the environment variable DEEPSEEK_API_KEY. The default of
// [WithIdleTimeout] is 10 minutes, because requests may wait in a queue that long.
func DeepSeek(model string, opts ...Option) (*Client, error) {
	// "For turns that do perform tool calls, the reasoning_content must be fully passed
	// back to the API in all subsequent requests", also an empty one. "If the request has not
	// started inference after 10 minutes, the server will close the connection."
	queued := WithIdleTimeout(10 * time.Minute)
	return service{name: "deepseek", base: "https://api.deepseek.com", env: "DEEPSEEK_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", noStrict: true, thinking: thinkSwitch, echo: echoAlways,
			calmForced: true, files: fileNever, noImages: true}}.open(model, append([]Option{queued}, opts...))
}

// Moonshot returns a client for Moonshot's Kimi models. The API key comes from
// [WithAPIKey], or else from the environment variable MOONSHOT_API_KEY.
func Moonshot(model string, opts ...Option) (*Client, error) {
	return service{name: "moonshot", base: "https://api.moonshot.ai/v1", env: "MOONSHOT_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", noStrict: true, thinking: thinkSwitch, echo: echoAlways,
			calmForced: true, files: fileNever}}.open(model, opts)
}

// Mistral returns a client for Mistral's own service. The API key comes from
// [WithAPIKey], or else from the environment variable MISTRAL_API_KEY.
func Mistral(model string, opts ...Option) (*Client, error) {
	return service{name: "mistral", base: "https://api.mistral.ai/v1", env: "MISTRAL_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", noUsage: true, anyTool: "any", thinking: thinkAnyModel, echo: echoParts,
			ids: idNine, files: fileURL, userSystem: true, toolUser: true}}.open(model, opts)
}

// ZAI returns a client for Z.AI's GLM models. The API key comes from [WithAPIKey], or else
// from the environment variable ZAI_API_KEY. A subscription to the GLM Coding Plan has a
// different URL, https://api.z.ai/api/coding/paas/v4, which must be passed to
// [WithBaseURL]. The key must then be passed to [WithAPIKey], because a key in the
// environment is sent only to the default URL.
func ZAI(model string, opts ...Option) (*Client, error) {
	return service{name: "zai", base: "https://api.z.ai/api/paas/v4", env: "ZAI_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", noStrict: true, thinking: thinkSwitch, echo: echoCalls,
			files: fileNever}}.open(model, opts)
}

// Together returns a client for Together AI, which hosts open models. The API key comes
// from [WithAPIKey], or else from the environment variable TOGETHER_API_KEY.
func Together(model string, opts ...Option) (*Client, error) {
	return service{name: "together", base: "https://api.together.xyz/v1", env: "TOGETHER_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", noUsage: true, thinking: thinkAnyModel,
			files: fileNever, thinkTags: true},
		baseEnv: "TOGETHER_BASE_URL", version: "v1"}.open(model, opts)
}

// Azure returns a client for a model deployment in Azure. The endpoint is the name of the
// Azure resource, or its URL, such as "https://name.openai.azure.com". If apiVersion is
// empty, the client uses the paths below "/openai/v1", which need no version. Otherwise
// it uses the paths below "/openai/deployments" with that version. The API key comes from
// [WithAPIKey], or else from the environment variable AZURE_OPENAI_API_KEY. For tokens of
// Microsoft Entra ID, use [WithTokenSource].
func Azure(endpoint, deployment, apiVersion string, opts ...Option) (*Client, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint + ".openai.azure.com"
	}
	base := strings.TrimRight(endpoint, "/") + "/openai"
	if apiVersion == "" {
		base += "/v1"
	} else {
		base += "/deployments/" + url.PathEscape(deployment)
	}
	first := func(c *config) error {
		if deployment == "" {
			return &aycoder.ConfigError{Option: "Azure", Err: errors.New("deployment is empty")}
		}
		if err := c.SetBaseURL("Azure", base); err != nil {
			return err
		}
		c.SetHome("azure", base)
		c.preset = true
		c.keyEnv = "AZURE_OPENAI_API_KEY"
		c.bareKey = true
		c.dialect = dialect{maxTokens: "max_completion_tokens"}
		if apiVersion == "" {
			return nil
		}
		return WithQuery("api-version", apiVersion)(c)
	}
	return New(deployment, append([]Option{first}, opts...)...)
}

// Copilot returns a client for GitHub Copilot. Requests need a short-lived token of
// Copilot, which is not the same as a token of GitHub. The token comes from
// [WithTokenSource], or else from [WithAPIKey] or the environment variable
// COPILOT_API_KEY. The client sends headers that identify an editor. [WithHeader] can
// replace these headers. [WithBaseURL] selects a gateway that is compatible with Copilot.
func Copilot(model string, opts ...Option) (*Client, error) {
	headers := []Option{
		WithHeader("Copilot-Integration-Id", "vscode-chat"),
		WithHeader("Editor-Version", "aycoder/0"),
		WithHeader("Openai-Intent", "conversation-edits"),
	}
	return service{name: "copilot", base: "https://api.githubcopilot.com", env: "COPILOT_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", ids: idPlain, files: fileNever}}.open(model, append(headers, opts...))
}

// VLLM returns a client for a vLLM server. The default URL is http://localhost:8000/v1;
// [WithBaseURL] sets another one. An API key is optional; [WithAPIKey] sets it.
func VLLM(model string, opts ...Option) (*Client, error) {
	return local("vllm", "http://localhost:8000/v1", dialect{thinkTags: true}).open(model, opts)
}

// LlamaCpp returns a client for the server of llama.cpp. The default URL is
// http://localhost:8080/v1; [WithBaseURL] sets another one. An API key is optional;
// [WithAPIKey] sets it.
func LlamaCpp(model string, opts ...Option) (*Client, error) {
	return local("llamacpp", "http://localhost:8080/v1", dialect{echo: echoCalls}).open(model, opts)
}

// LMStudio returns a client for LM Studio. The default URL is http://localhost:1234/v1;
// [WithBaseURL] sets another one. An API key is optional; [WithAPIKey] sets it.
func LMStudio(model string, opts ...Option) (*Client, error) {
	return local("lmstudio", "http://localhost:1234/v1", dialect{thinkTags: true}).open(model, opts)
}

// local returns the service of a server that runs open models. The chat templates of
// these models decide how they think, and most of them refuse a system message after the
// first message.
func local(name, base string, d dialect) service {
	d.maxTokens, d.thinking, d.files, d.userSystem = "max_tokens", thinkTemplate, fileNever, true
	return service{name: name, base: base, dialect: d, idle: localIdle}
}
