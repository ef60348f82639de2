// Package google provides an [aycoder.ModelClient] for the Gemini API and for Vertex AI.
//
//	client, err := google.New("gemini-3-flash-preview")
//
// The key comes from the environment variable GEMINI_API_KEY or GOOGLE_API_KEY, unless
// [WithAPIKey] sets one. It is sent in a header. [WithVertex] selects Vertex AI, where
// [WithTokenSource] or an HTTP client of the host authorizes the requests:
//
//	client, err := google.New("gemini-2.5-pro",
//		google.WithVertex("my-project", "europe-west4"),
//		google.WithTokenSource(token))
//
// The package does not link any package of Google's. [WithBaseURL] selects other services
// that speak the same API.
//
// # Requests
//
// A request is sent to streamGenerateContent. The contents come last in its body, so the
// body of each step begins with the bytes of the previous one, which is what Google's
// implicit caching looks for. There are no breakpoints to set, and
// [aycoder.Request.NoCache] has no effect.
//
// Consecutive messages of one role are joined, system messages become user messages, and
// the outputs of tools come first in theirs, since the service wants all outputs of
// parallel calls in one content. Calls and outputs are paired by their ids, including ids
// that were generated here or come from another provider. Schemas of tools are sent
// unchanged, as JSON Schema. Names of tools that the service does not accept are mapped,
// and calls have the original names.
//
// Request.Thinking becomes a budget for Gemini 2.5, and a level from Gemini 3 on: LOW up
// to 2,048 tokens, MEDIUM up to 8,192, HIGH beyond. Some models cannot turn thinking off;
// they then think as little as possible. Summaries of their thinking are included if
// Thinking is positive, or with [WithThinkingSummaries]. Models that do not think get no such
// setting. Thoughts count as output: if the limit of the answer is not larger than
// Thinking, it is raised by Thinking.
//
// Request.Output is supported from Gemini 2 on. Before Gemini 3 the service accepts it
// only without tools. Beside tools, the system prompt asks these models for it, without
// enforcing it.
//
// Request.Extra and [WithExtra] set additional fields of the body, such as
// "safetySettings" or "cachedContent", and override the client's own. Two fields are
// merged: the elements of "tools" follow the declarations ([{"googleSearch":{}}]), and
// the fields of "generationConfig" replace single fields ({"topK":40}). The field
// "contents" is refused.
//
// Images, audio, video, PDF documents and texts are sent as data or as URLs. From Gemini
// 3 on they are inside of a tool's output, for earlier models they follow it. URLs that
// contain the data ("data:image/png;base64,…") are sent as data. Media that the service
// does not accept are replaced by a text that names them.
//
// # Responses
//
// Text, thoughts and calls become parts. Content that only the service understands (code
// that it ran, its own tools and their results, images that the model made) becomes
// [aycoder.Opaque] and is sent back byte for byte. The sources of an answer
// (groundingMetadata, citationMetadata, urlContextMetadata) are one more Opaque at its
// end, under these names; it is for the host to read and is not sent back.
//
// Thought signatures stay on the part that they came with, in its Extra or in
// [aycoder.Thinking.Signature], and are sent back with it. A signed text is a separate
// part, and may be empty: leave it in the history. From Gemini 3 on the service refuses
// calls without a signature. Calls of other providers, and those that move between Vertex
// AI and the Gemini API, are sent with the documented substitute for a signature.
//
// The service has no separate stop reason for calls; the message has
// [aycoder.StopToolUse]. Filters that end an answer are reported as
// [aycoder.StopRefusal], and a refused prompt is an [aycoder.RefusalError]. If the
// service could not parse the model's output ("MALFORMED_FUNCTION_CALL"), there is no
// answer; the error is an [aycoder.StreamBrokenError], so that the request is repeated.
// Other reasons keep the words of the service: "UNEXPECTED_TOOL_CALL". Calls without an
// id get one that is the same each time the same response is read. Of several candidates
// only the first is used. An answer may also come as one document, or as a list of
// documents, instead of a stream.
//
// Vertex AI can send the arguments of a call in pieces. If the last piece says that more
// follows, or if the arguments are not an object, the call counts as truncated and is an
// [aycoder.BlockTruncated].
//
// Usage counts the results of server-side tools in the prompt as input, and thoughts as
// output.
package google
