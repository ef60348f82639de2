package otel

// Version is the version of the names: the commit of open-telemetry/semantic-conventions-genai whose
// model/gen-ai/spans.yaml and metrics.yaml they were compared with.
const Version = "004902b8cb70aa5ae6ca4ae07132b7daabcd3e10"

// The operations, which are also the first words of the names of spans.
const (
	opAgent = "invoke_agent"
	opChat  = "chat"
	opTool  = "execute_tool"
)

// The attributes.
const (
	attrOperation    = "gen_ai.operation.name"
	attrProvider     = "gen_ai.provider.name"
	attrRequestModel = "gen_ai.request.model"
	attrMaxTokens    = "gen_ai.request.max_tokens"
	attrTemperature  = "gen_ai.request.temperature"
	attrStop         = "gen_ai.request.stop_sequences"
	attrStream       = "gen_ai.request.stream"
	attrOutputType   = "gen_ai.output.type"
	attrModel        = "gen_ai.response.model"
	attrID           = "gen_ai.response.id"
	attrFinish       = "gen_ai.response.finish_reasons"
	attrFirstChunk   = "gen_ai.response.time_to_first_chunk"
	attrInput        = "gen_ai.usage.input_tokens"
	attrOutput       = "gen_ai.usage.output_tokens"
	attrCacheRead    = "gen_ai.usage.cache_read.input_tokens"
	attrCacheWrite   = "gen_ai.usage.cache_creation.input_tokens"
	attrReasoning    = "gen_ai.usage.reasoning.output_tokens"
	attrTokenType    = "gen_ai.token.type"
	attrConversation = "gen_ai.conversation.id"
	attrAgent        = "gen_ai.agent.name"
	attrTool         = "gen_ai.tool.name"
	attrCall         = "gen_ai.tool.call.id"
	attrToolType     = "gen_ai.tool.type"
	attrArguments    = "gen_ai.tool.call.arguments"
	attrResult       = "gen_ai.tool.call.result"
	attrMessagesIn   = "gen_ai.input.messages"
	attrMessagesOut  = "gen_ai.output.messages"
	attrError        = "error.type"
)

// providers are the conventions' names of providers that the library names otherwise.
var providers = map[string]string{
	"google": "gcp.gemini", "vertex": "gcp.vertex_ai", "bedrock": "aws.bedrock", "azure": "azure.ai.openai",
	"mistral": "mistral_ai", "xai": "x_ai", "moonshot": "moonshot_ai",
}

func providerName(name string) string {
	if known, ok := providers[name]; ok {
		return known
	}
	return name
}
