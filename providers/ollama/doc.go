// Package ollama provides an [aycoder.ModelClient] for Ollama's own API, on this machine,
// on another, or hosted.
//
//	client, err := ollama.New("qwen3:8b", ollama.WithContextLength(65536))
//	resp, err := aycoder.Complete(ctx, client, &aycoder.Request{
//		Messages: []*aycoder.Message{aycoder.User("What is a monad?")},
//	})
//
// # The server
//
// The URL of the server comes from [WithBaseURL], or else from the environment variable
// OLLAMA_HOST, in all the forms that Ollama itself accepts, or else it is
// http://127.0.0.1:11434. Without an option no key is sent, except that
// https://ollama.com gets the one in OLLAMA_API_KEY. [Find] looks for a running server on
// this machine.
//
// # The length of the context
//
// Ollama loads a model with a context that is often much smaller than what the model
// supports: "< 24 GiB VRAM: 4k context", and "agents, and coding tools should be set to
// at least 64000 tokens". [WithContextLength] sets the length. There is no default,
// because a longer context takes more memory, and a length other than that of the loaded
// model makes Ollama load it again; the model's parameters or the server decide.
// [Client.Loaded] returns the context length of a loaded model, and [Client.Show] the
// longest that it supports.
//
// By default, Ollama silently drops the oldest messages of a conversation that is too
// long, and the first half of the context when an answer reaches its end. An agent would
// then work on without its task. So every request has "truncate": false and "shift":
// false. A conversation that is too long is an [aycoder.ContextTooLargeError], to which
// the loop responds with a shorter one, and an answer that fills the context ends with
// [aycoder.StopMaxTokens]. An answer that has no room at all is the same error, if the
// length of the context was set. Versions before October 2025 do not know these fields
// and truncate nevertheless. If the model was loaded for a client that wants the shift,
// Ollama loads it again. [WithTruncation] restores Ollama's default.
//
// # Requests
//
// The messages come last in the body of a request, and everything before them is the same
// in every step of a conversation. The body of a step begins with the bytes of the
// previous body, so Ollama's prompt cache hits.
//
// [aycoder.Request.Thinking] turns thinking on or off. The amount of thinking can only be
// set as a level, see [WithThinking]. Thoughts of this provider are sent back, those of
// others are not. Images in the output of a tool are sent in a user message behind it.
// Media other than PNG, JPEG and WebP, and mere URLs, are replaced by a text that names
// them. Ollama cannot force a call: [aycoder.ToolNamed] offers only that tool, and
// [aycoder.ToolAny] is the same as [aycoder.ToolAuto]. It supports only a part of JSON
// Schema in tools, so references are expanded. Further options of the model are set with
// [WithOption], or for one request with an object "options" in [aycoder.Request.Extra].
//
// [aycoder.Request.Output] is a format that the model is forced to follow, except for
// models in Ollama's cloud: see [Client.FormatsOutput].
//
// # Responses
//
// A response is lines of JSON, or one document. Ollama separates the thoughts from the
// text if thinking is on ([WithThinking], or Request.Thinking) and if it knows the
// model's tags. With old versions and unknown models the thoughts remain in the text,
// including their tags ("<think>…"); this package does not remove them, since only Ollama
// can tell the tags of the model from a text about tags. Calls have an object as their
// arguments and often no id; the generated id is the same each time the answer is read.
// An answer with calls has [aycoder.StopToolUse] whatever its reason says. The input in
// [aycoder.Usage] includes cached tokens, except with versions that do not count them.
// When a model repeats itself, Ollama closes the connection without a last line, which is
// an [aycoder.StreamBrokenError].
//
// # Models
//
// [Client.List], [Client.Show], [Client.Pull], [Client.Delete], [Client.Loaded] and
// [Client.Version] manage the models of the server. Their errors are those of a request
// to a model.
package ollama
