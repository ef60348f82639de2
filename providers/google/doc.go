// Package google is a [aycoder.ModelClient] for the Gemini API and for Vertex AI.
//
//	client, err := google.New("gemini-3-flash-preview")
//
// The key is that in the environment variable GEMINI_API_KEY or GOOGLE_API_KEY, unless
// [WithAPIKey] gives one. It goes out in a header. [WithVertex] asks Vertex AI, with
// what [WithTokenSource] or an HTTP client of the host authorises:
//
//	client, err := google.New("gemini-2.5-pro",
//		google.WithVertex("my-project", "europe-west4"),
//		google.WithTokenSource(token))
//
// No package of Google's is linked. Whatever serves the same API is reached with
// [WithBaseURL].
//
// # What goes out
//
// A request is sent to streamGenerateContent. Its body ends with the contents, so that
// each step of a conversation begins with the bytes of the step before, which is what
// Google's implicit caching looks for; there are no breakpoints to set, and
// [aycoder.Request.NoCache] changes nothing.
//
// Messages of one role that follow each other are joined, messages of the system become
// the user's, and outputs of tools come first in theirs: the service wants all outputs
// of parallel calls in one content. Calls and outputs are paired by their ids, also
// those that were made up here or come from another provider. Schemas of tools go out as
// they are, as JSON Schema. Names of tools that the service does not take are mapped,
// and calls come back under the names they have.
//
// Request.Thinking becomes a budget for Gemini 2.5 and a level from Gemini 3 on: LOW up
// to 2,048 tokens, MEDIUM up to 8,192, HIGH beyond. Some models cannot be told not to
// think; they think as little as they can. What they think is shown as summaries where
// Thinking is more than 0, or with [WithThoughts]. Models that do not think are told
// nothing. Thoughts count as output: a bound for the answer that is not larger than
// Thinking is raised by it.
//
// Request.Output is honoured from Gemini 2 on. Before Gemini 3 the service takes it only
// without tools; beside tools the models are asked for it in the system prompt, and are
// not bound to it.
//
// Request.Extra and [WithExtra] set further fields of the body, such as
// "safetySettings" or "cachedContent", and win over what the client would write. Two
// are joined with ours: the elements of "tools" come after the declarations
// ([{"googleSearch":{}}]), and the fields of "generationConfig" replace single fields
// ({"topK":40}). The field "contents" is refused.
//
// Images, sounds, films, PDF documents and texts are sent as they are, or by their
// address. From Gemini 3 on they are part of a tool's output, before they come after it.
// Addresses that hold the data ("data:image/png;base64,…") are sent as data. What the
// service does not take is named in a text.
//
// # What comes back
//
// Text, thoughts and calls become parts. What only the service understands (code that
// it ran, its own tools and what they gave, images that the model made) is kept as
// [aycoder.Opaque] and goes back byte for byte. What is known about where an answer is
// from (groundingMetadata, citationMetadata, urlContextMetadata) is one more Opaque at
// its end, under these names, which is for the host to read and does not go back.
//
// Thought signatures stay on the part that they came with, in its Extra or in
// [aycoder.Thinking.Signature], and go back with it. A signed text is a part of its own,
// and may be empty: leave it in the history. From Gemini 3 on the service refuses calls
// without a signature. Those of other providers, and those of Vertex AI in a
// conversation with the Gemini API and the other way round, go out with the stand-in
// that is documented for them.
//
// The service stops for calls as for the end of a turn; the message says
// [aycoder.StopToolUse]. Filters that end an answer are [aycoder.StopRefusal], and a
// prompt that is refused is a [aycoder.RefusalError]. Where the service could not read
// what the model wrote ("MALFORMED_FUNCTION_CALL") there is no answer, and it is asked
// again: that is an [aycoder.StreamBrokenError]. Other reasons are the service's words:
// "UNEXPECTED_TOOL_CALL". Calls without an id get one
// that is the same each time the same response is read. Of several candidates the first
// one counts. An answer that comes as a document, or as a list of documents, is read as
// well as a stream.
//
// Vertex AI can send the arguments of a call in pieces. A call of which more was to come,
// as its last piece says, was cut off, whatever comes next, and so was one with
// arguments that are no object: it is an [aycoder.BlockCut].
//
// Usage counts what the service's own tools put into the prompt as input, and thoughts
// as output.
package google
