// Package openai provides an [aycoder.ModelClient] for OpenAI's Chat Completions and
// Responses APIs, and for the many services that speak one of them.
//
//	client, err := openai.New("gpt-5.1")
//
// The key comes from the environment variable OPENAI_API_KEY, unless [WithAPIKey] or
// [WithTokenSource] sets one. The URL comes from [WithBaseURL], or else from
// OPENAI_BASE_URL. Many services have a preset, with a separate variable for the key:
//
//	client, err := openai.OpenRouter("anthropic/claude-sonnet-4.5")
//	client, err := openai.Azure("my-resource", "my-deployment", "")
//	client, err := openai.LlamaCpp("qwen3")
//
// [WithBaseURL] selects any other service; the client then uses the dialect that most
// services understand. Requests use Chat Completions or, with [WithResponses], Responses.
//
// # Requests to Chat Completions
//
// The messages come last in the body, and each step of a conversation begins with the
// bytes of the previous one. Prompt caches rely on that and do not need marks. Only
// OpenRouter gets marks, for Anthropic's models, unless [aycoder.Request.NoCache] is set;
// they are before the tail of the request.
//
// Outputs of tools become messages of the role "tool", before the user's content in the
// same message. They hold only text; images in them follow in the user message. Images
// are sent as data URLs or URLs, and PDF documents and audio where the service accepts
// them. Other media are replaced by a text that names them. Truncated calls are sent
// without arguments. Ids that a service would refuse, because another service generated
// them, are mapped consistently.
//
// The tail of a request is a message of the user. If the model has thought since the last
// prompt, it is a part of the last output of a tool, because services drop the thinking
// before the last message of the user. The same holds for Responses.
//
// The thinking of a model is sent back in the form that its service wants:
//
//   - reasoning_details, with signatures and encrypted data, byte for byte to the service
//     that sent them. They are kept in an [aycoder.Opaque] of the message.
//   - reasoning_content beside calls to DeepSeek, Moonshot, Z.AI and llama.cpp; see
//     [WithThinkingField] for others.
//   - A part of the content to Mistral.
//   - OpenAI and all other services get none, and no service gets that of another.
//
// [aycoder.Request.Thinking] becomes a budget for OpenRouter, and a switch for DeepSeek,
// Moonshot, Z.AI and servers of open models. For other services it becomes an effort: low
// up to 2,048 tokens, medium up to 8,192, and high beyond. The setting is not sent for
// OpenAI's models that do not think, for deployments in Azure whose name is not that of a
// model, and for Grok: use [WithThinking].
//
// [aycoder.Request.Output] becomes a response_format of type json_schema. It is strict if
// the schema can be expressed that way: all objects are closed, all properties are
// required, and optional properties may be null instead. DeepSeek, Moonshot and Z.AI do
// not support it, and [Client.FormatsOutput] says so.
//
// [aycoder.Request.Extra] and [WithExtra] set additional fields, and override the
// client's own; null removes a field. The fields "model", "stream" and "messages" are
// refused.
//
// # Responses of Chat Completions
//
// Text, thinking and calls become parts, whatever names and chunks a service uses. A call
// is complete when the next begins, or at the end of the message, because the API does
// not mark its end. If it is unclear to which of several calls a piece belongs, each of
// them is an [aycoder.BlockTruncated]. Calls without an id get one that is the same each time
// the response is read. A message with calls has [aycoder.StopToolUse], whatever its
// finish_reason.
//
// Citations are in [aycoder.Text].Extra, as the JSON fields annotations, citations and
// search_results; they are not sent back. A refusal by the model is a Text with the Extra
// {"type":"refusal"}, and has the stop reason [aycoder.StopRefusal]. A call of a custom
// tool has the arguments {"input":"…"}. If Extra requests several answers with "n", the
// first is used.
//
// Thinking between <think> tags at the beginning of an answer is recognized for Groq,
// Together, vLLM and LM Studio, and with [WithThinkTags].
//
// In usage, the sum of Input, CacheRead and CacheWrite is the whole input, and the output
// includes reasoning, even if a service counts it separately.
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
// The text before the first call is streamed; the rest is parsed at the end of the
// answer. A call of a tool that does not exist, or in a code block, stays text. A call
// that is ambiguous, or that the end of the answer cut off, is an [aycoder.BlockTruncated],
// about which the model is told. Arguments that contain such tags are written as one JSON
// object. Results are sent in the user message.
//
// # Responses
//
// The service does not store the conversation ("store": false): the reasoning that it
// needs is sent with each request, encrypted. Data that only this API understands is
// marked as such, and is not sent to Chat Completions when a conversation moves there.
// OpenAI's models that do not think, by their names, are not asked for reasoning; for a
// deployment of such a model under another name, set [WithExtra]("include", nil).
//
// Documents are sent as files, if the service accepts their type, and texts as text.
// Other media, such as an archive, are replaced by a text that names them. The output of
// a failed tool begins with "Error: ", as in Chat Completions.
//
// Pieces of a message's first text are emitted as the service sends them; further texts
// of the same message, which are rare, are emitted when it is complete. A call runs with
// the arguments of the complete item. If its pieces differ from these, some were lost,
// and the call is an [aycoder.BlockTruncated]; so is the last call of an answer at its limit if
// it has no arguments. An item that only the last event has is emitted then.
//
// # Errors
//
// All errors are typed, see [aycoder.ModelError], and name the provider (that of the
// preset), the model, the status and the request id. They never contain a key.
package openai
