// Package openai is a [aycoder.ModelClient] for OpenAI's Chat Completions and Responses
// APIs, and for the many services that speak one of them.
//
//	client, err := openai.New("gpt-5.1")
//
// The key is that in the environment variable OPENAI_API_KEY, unless [WithAPIKey] or
// [WithTokenSource] gives one, and the address that in OPENAI_BASE_URL, if it is set and
// [WithBaseURL] gives none. Services with a preset are one word away, with a key
// variable of their own:
//
//	client, err := openai.OpenRouter("anthropic/claude-sonnet-4.5")
//	client, err := openai.Azure("my-resource", "my-deployment", "")
//	client, err := openai.LlamaCpp("qwen3")
//
// Any other service is reached with [WithBaseURL]; it is asked in the words that most
// understand. Requests go out as Chat Completions, and as Responses with
// [WithResponses].
//
// # What goes out to Chat Completions
//
// The body ends with the messages, and each step of a conversation begins with the bytes
// of the step before: that is what prompt caches look for, which need no marks. Only
// OpenRouter gets some, for Anthropic's models, unless [aycoder.Request.NoCache] is set.
//
// Outputs of tools become messages of the role "tool", before what the user says in the
// same message. They hold texts only; images in them follow in the user's message.
// Images go out as data URLs or addresses, PDF documents and sounds where the service
// takes them, and what it does not take is named in a text. Calls that were cut off go
// out without arguments. Ids that a service would refuse, since another made them, are
// mapped, the same id always to the same.
//
// What a model thought goes back as its service wants it:
//
//   - reasoning_details, with signatures and encrypted data, byte for byte to whoever
//     sent them. They are kept in an [aycoder.Opaque] of the message.
//   - reasoning_content beside calls to DeepSeek, Moonshot, Z.AI and llama.cpp; see
//     [WithReasoningField] for others.
//   - A part of the content to Mistral.
//   - Nothing to OpenAI and to everybody else, nor anything of another service's.
//
// [aycoder.Request.Thinking] becomes what the service has for it: a budget for
// OpenRouter, a switch for DeepSeek, Moonshot and Z.AI and for servers of open models,
// elsewhere an effort, which is low up to 2,048 tokens, medium up to 8,192, and high
// beyond. OpenAI's models that do not think are told nothing; so are deployments in
// Azure whose name is not the model's, and Grok: use [WithReasoningEffort].
//
// [aycoder.Request.Output] becomes a response_format of type json_schema. It is strict
// if the schema can be written that way: no object is open, all properties are required
// and those that were optional may be null. DeepSeek, Moonshot and Z.AI have nothing
// like it, and Client.FormatsOutput says so.
//
// [aycoder.Request.Extra] and [WithExtra] set further fields, and win over what the
// client would write; null takes a field away. The fields "model", "stream" and
// "messages" are refused.
//
// # What comes back from Chat Completions
//
// Text, thinking and calls become parts, whatever a service calls them and however it
// cuts them into chunks. A call is complete when the next begins, or at the end of the
// message: the API has no mark for it. Where it cannot be told which of several calls a
// piece is of, all of them are an [aycoder.BlockCut]. Calls without an id get one that is the same each
// time the response is read. Calls decide about [aycoder.StopToolUse], whatever the
// finish_reason says.
//
// Citations are in [aycoder.Text].Extra, as the JSON fields annotations, citations and
// search_results; they do not go back. A refusal in the model's own words is a
// Text with the Extra {"type":"refusal"}, and the stop reason [aycoder.StopRefusal]. A custom tool's call has
// the arguments {"input":"…"}. Of several answers, which Extra may ask for with "n", the
// first counts.
//
// Thinking between <think> tags at the beginning of an answer is read as such for Groq,
// Together, vLLM and LM Studio, and with [WithThinkTags].
//
// Usage counts all input in Input, CacheRead and CacheWrite together, and reasoning as
// part of the output, also where a service counts it apart.
//
// # Models without tools
//
// [WithXMLTools] describes the tools in the system prompt and reads the calls from the
// text:
//
//	<function=read_file>
//	<parameter=path>
//	go.mod
//	</parameter>
//	</function>
//
// The text before the first call streams as it comes; what follows is read at the end of
// the answer. A call of a tool that does not exist, or in a code block, stays text. One
// that cannot be read in one way only, or that the end of the answer cut off, is an
// [aycoder.BlockCut], of which the model is told. Arguments that hold such tags are
// written as one JSON object. Results go back in the user's message.
//
// # Responses
//
// The service stores nothing ("store": false): what it has to know of its reasoning goes
// with each request, encrypted. What only this API understands is marked as such, and
// not sent to Chat Completions when a conversation moves there. Models of OpenAI's that do
// not think are not asked for it, by their names; for a deployment of one under another
// name set [WithExtra]("include", nil).
//
// Documents go out as files, of the types that the service takes; texts go out as texts,
// and what else there is, such as an archive, is named in one. The output of a tool that
// failed begins with "Error: ", as it does in Chat Completions.
//
// Pieces of a message's first text come as the service sends them; further texts of the
// same message, which are rare, come when it is complete. A call runs with the arguments
// of the complete item. If its pieces said something else, some were lost on the way, and
// it is an [aycoder.BlockCut]; so is the last call of an answer at its limit if it has no
// arguments. An item that only the last event has is given away then.
//
// # Errors
//
// All are typed, see [aycoder.ModelError], and name the provider (that of the preset),
// the model, the status and the request id. A key is never part of one.
package openai
