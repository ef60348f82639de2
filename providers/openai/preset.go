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

// A dialect is how a service differs from OpenAI's. The zero value is OpenAI's own. It
// is comparable, since messages are cached in the form that it gives them.
type dialect struct {
	maxTokens string // the field for the bound of an answer; max_completion_tokens if empty
	noUsage   bool   // stream_options is refused; usage comes without being asked for
	anyTool   string // the tool_choice for some tool; "required" if empty
	noStrict  bool   // answers of a schema are not supported
	thinking  thinkingForm
	echo      echoForm
	ids       idForm
	files     fileForm
	noImages  bool
	// userSystem says that a system message that does not come first is refused, by the
	// templates of open models mostly. They also want the roles to alternate: messages of
	// the user's that follow each other are made one.
	userSystem bool
	// toolUser says that the user may not speak directly after a tool: "Unexpected role
	// 'user' after role 'tool'".
	toolUser  bool
	thinkTags bool
	// calmForced says that no tool can be forced on a model that thinks: "Thinking mode
	// does not support this tool_choice".
	calmForced bool
	cacheMarks bool // prompts are cached where a mark says so, for models that want one
}

// A thinkingForm is how a service is told how much to think.
type thinkingForm int

const (
	thinkEffort   thinkingForm = iota // reasoning_effort, for models that are known to think
	thinkAnyModel                     // reasoning_effort, for any model
	thinkGroq                         // reasoning_effort, for the models of Groq that take it
	thinkObject                       // reasoning: {effort, max_tokens, enabled}
	thinkSwitch                       // thinking: {type: enabled or disabled}
	thinkTemplate                     // chat_template_kwargs: {enable_thinking}
	thinkNever                        // it is not told: models that think refuse to be
)

// An echoForm is how a service wants back what its model thought. What it sent in
// reasoning_details goes back in any case.
type echoForm int

const (
	echoNothing echoForm = iota
	echoCalls            // reasoning_content of messages with calls
	echoAlways           // the same, but also where it is empty
	echoParts            // a part of the content, of type thinking
)

// An idForm is what ids of calls may be.
type idForm int

const (
	idShort idForm = iota // at most 40 bytes
	idNine                // nine letters and digits
	idPlain               // what Anthropic's models take as well
)

// A fileForm is how a document goes out.
type fileForm int

const (
	fileData  fileForm = iota // {type: file, file: {filename, file_data}}
	fileURL                   // {type: document_url, document_url}
	fileNever                 // not at all
)

// compatible is what most services understand that speak the API.
func compatible() dialect {
	return dialect{maxTokens: "max_tokens", thinking: thinkAnyModel}
}

// A service is one that speaks the API.
type service struct {
	name, base string
	env        string // the environment variable of its key; empty where none is needed
	dialect    dialect
	// baseEnv is the variable of the address that the service's own client reads, version
	// what is behind the address that it holds.
	baseEnv, version string
	idle             time.Duration // the longest silence; that of all services if 0
}

// localIdle is how long a server on the user's own hardware may be silent: it loads the
// model and reads the prompt before it says anything.
const localIdle = 10 * time.Minute

// open returns a client of the service.
func (s service) open(model string, opts []Option) (*Client, error) {
	first := func(c *config) error {
		c.SetHome(s.name, s.base)
		c.keyEnv, c.dialect, c.preset = nil, s.dialect, true
		c.Idle = cmp.Or(s.idle, c.Idle)
		if s.dialect.thinkTags {
			c.thinkTags = newChatThink
		}
		if s.env != "" {
			c.keyEnv = []string{s.env}
		}
		if s.baseEnv != "" {
			c.baseEnv = []string{s.baseEnv}
			c.adaptBase = func(base string) string { return api.WithVersion(base, s.version) }
		}
		return nil
	}
	return New(model, append([]Option{first}, opts...)...)
}

// XAI returns a client of xAI's Grok models. The key is in XAI_API_KEY. Live search is
// asked for with WithExtra("search_parameters", …).
func XAI(model string, opts ...Option) (*Client, error) {
	// "reasoning_effort is not supported by grok-4": only the small models take it.
	return service{name: "xai", base: "https://api.x.ai/v1", env: "XAI_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", thinking: thinkNever, files: fileNever}}.open(model, opts)
}

// OpenRouter returns a client of the gateway openrouter.ai. The key is in
// OPENROUTER_API_KEY. Routing is set with WithExtra("provider", …). What models think
// goes back to them byte for byte in reasoning_details.
func OpenRouter(model string, opts ...Option) (*Client, error) {
	return service{name: "openrouter", base: "https://openrouter.ai/api/v1", env: "OPENROUTER_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", thinking: thinkObject, ids: idPlain, cacheMarks: true}}.open(model, opts)
}

// Groq returns a client of Groq. The key is in GROQ_API_KEY.
func Groq(model string, opts ...Option) (*Client, error) {
	return service{name: "groq", base: "https://api.groq.com/openai/v1", env: "GROQ_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", thinking: thinkGroq, files: fileNever, thinkTags: true},
		baseEnv: "GROQ_BASE_URL", version: "openai/v1"}.open(model, opts)
}

// DeepSeek returns a client of DeepSeek's own service. The key is in DEEPSEEK_API_KEY.
// The idle timeout is 10 minutes by default, for requests wait in a queue.
func DeepSeek(model string, opts ...Option) (*Client, error) {
	// "For turns that do perform tool calls, the reasoning_content must be fully passed
	// back to the API in all subsequent requests", also an empty one. "If the request has not
	// started inference after 10 minutes, the server will close the connection."
	queued := WithIdleTimeout(10 * time.Minute)
	return service{name: "deepseek", base: "https://api.deepseek.com", env: "DEEPSEEK_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", noStrict: true, thinking: thinkSwitch, echo: echoAlways,
			calmForced: true, files: fileNever, noImages: true}}.open(model, append([]Option{queued}, opts...))
}

// Moonshot returns a client of Moonshot's Kimi models. The key is in MOONSHOT_API_KEY.
func Moonshot(model string, opts ...Option) (*Client, error) {
	return service{name: "moonshot", base: "https://api.moonshot.ai/v1", env: "MOONSHOT_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", noStrict: true, thinking: thinkSwitch, echo: echoAlways,
			calmForced: true, files: fileNever}}.open(model, opts)
}

// Mistral returns a client of Mistral's own service. The key is in MISTRAL_API_KEY.
func Mistral(model string, opts ...Option) (*Client, error) {
	return service{name: "mistral", base: "https://api.mistral.ai/v1", env: "MISTRAL_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", noUsage: true, anyTool: "any", thinking: thinkAnyModel, echo: echoParts,
			ids: idNine, files: fileURL, userSystem: true, toolUser: true}}.open(model, opts)
}

// ZAI returns a client of Z.AI's GLM models. The key is in ZAI_API_KEY. The address of
// its plan for coding is https://api.z.ai/api/coding/paas/v4; see [WithBaseURL] and
// [WithAPIKey].
func ZAI(model string, opts ...Option) (*Client, error) {
	return service{name: "zai", base: "https://api.z.ai/api/paas/v4", env: "ZAI_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", noStrict: true, thinking: thinkSwitch, echo: echoCalls,
			files: fileNever}}.open(model, opts)
}

// Together returns a client of Together AI. The key is in TOGETHER_API_KEY.
func Together(model string, opts ...Option) (*Client, error) {
	return service{name: "together", base: "https://api.together.xyz/v1", env: "TOGETHER_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", noUsage: true, thinking: thinkAnyModel,
			files: fileNever, thinkTags: true},
		baseEnv: "TOGETHER_BASE_URL", version: "v1"}.open(model, opts)
}

// Azure returns a client of a deployment in Azure. Endpoint is the name of the resource
// or its address, "https://name.openai.azure.com". An empty apiVersion asks through
// "/openai/v1", which needs none; other versions ask through "/openai/deployments". The
// key is in AZURE_OPENAI_API_KEY; tokens of Entra ID come from [WithTokenSource].
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
		c.keyEnv = []string{"AZURE_OPENAI_API_KEY"}
		c.keyHeader, c.keyPrefix = "Api-Key", ""
		c.dialect = dialect{maxTokens: "max_completion_tokens"}
		if apiVersion == "" {
			return nil
		}
		return WithQuery("api-version", apiVersion)(c)
	}
	return New(deployment, append([]Option{first}, opts...)...)
}

// Copilot returns a client of GitHub Copilot, or of a gateway in its manner: see
// [WithBaseURL]. The token, a short-lived one of Copilot and not of GitHub, comes from
// [WithTokenSource], or is in COPILOT_API_KEY. The editor it shows itself as is set with
// [WithHeader].
func Copilot(model string, opts ...Option) (*Client, error) {
	headers := []Option{
		WithHeader("Copilot-Integration-Id", "vscode-chat"),
		WithHeader("Editor-Version", "aycoder/0"),
		WithHeader("Openai-Intent", "conversation-edits"),
	}
	return service{name: "copilot", base: "https://api.githubcopilot.com", env: "COPILOT_API_KEY",
		dialect: dialect{maxTokens: "max_tokens", ids: idPlain, files: fileNever}}.open(model, append(headers, opts...))
}

// VLLM returns a client of a vLLM server at http://localhost:8000/v1; see [WithBaseURL].
// No key is needed; see [WithAPIKey].
func VLLM(model string, opts ...Option) (*Client, error) {
	return local("vllm", "http://localhost:8000/v1", dialect{thinkTags: true}).open(model, opts)
}

// LlamaCpp returns a client of llama.cpp's server at http://localhost:8080/v1; see
// [WithBaseURL]. No key is needed; see [WithAPIKey].
func LlamaCpp(model string, opts ...Option) (*Client, error) {
	return local("llamacpp", "http://localhost:8080/v1", dialect{echo: echoCalls}).open(model, opts)
}

// LMStudio returns a client of LM Studio at http://localhost:1234/v1; see
// [WithBaseURL]. No key is needed; see [WithAPIKey].
func LMStudio(model string, opts ...Option) (*Client, error) {
	return local("lmstudio", "http://localhost:1234/v1", dialect{thinkTags: true}).open(model, opts)
}

// local is a server that runs open models.
func local(name, base string, d dialect) service {
	d.maxTokens, d.thinking, d.files, d.userSystem = "max_tokens", thinkTemplate, fileNever, true
	return service{name: name, base: base, dialect: d, idle: localIdle}
}
