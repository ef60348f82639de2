// Package ollama is a [aycoder.ModelClient] for Ollama's own API, on this machine, on
// another, or hosted.
//
//	client, err := ollama.New("qwen3:8b", ollama.WithContextLength(65536))
//	resp, err := aycoder.Complete(ctx, client, &aycoder.Request{
//		Messages: []*aycoder.Message{aycoder.User("What is a monad?")},
//	})
//
// # Where it asks
//
// [WithBaseURL] says where Ollama is, or else the environment variable OLLAMA_HOST, in
// all the forms that Ollama takes itself, or else it is http://127.0.0.1:11434. Without
// an option no key is sent, but to https://ollama.com, where that of OLLAMA_API_KEY
// goes. [Find] looks whether an Ollama runs here.
//
// # How much the model sees
//
// Ollama loads a model with a context that is often much smaller than what the model
// was made for: "< 24 GiB VRAM: 4k context", and "agents, and coding tools should be set
// to at least 64000 tokens". [WithContextLength] sets it. It costs memory, and another
// length than that of the model in memory loads the model again, so there is no
// default: the model's own parameters or the server decide. [Client.Loaded] tells how
// long the context of a model in memory is, [Client.Show] how long it may be.
//
// Left alone, Ollama drops the oldest messages of a conversation that is too long, and
// the first half of what it has read when an answer reaches the end of the context,
// without a word. An agent then works on without its task. So every request says
// "truncate": false and "shift": false: a conversation that is too long is an
// [aycoder.ContextTooLargeError], which the loop answers with a smaller one, and an
// answer that fills the context ends with [aycoder.StopMaxTokens]. An answer that had no
// room at all is the same error, if the length of the context was set. Versions of
// before October 2025 do not know these fields and truncate all the same. For a model
// that is in memory for a client that wants the shift, Ollama loads it again.
// [WithTruncation] brings back Ollama's way.
//
// # What goes out
//
// A request's body ends with its messages, and everything before them is the same in
// every step of a conversation: the body of a step begins with the bytes of the body of
// the step before, and Ollama's cache of what it has read is of use.
//
// [aycoder.Request.Thinking] turns thinking on or off; how much a model thinks can only
// be said in words, see [WithThinking]. Thoughts of this provider go back, those of
// others do not. Images in the output of a tool go into a message of the user behind
// it; what is neither PNG, JPEG nor WebP, or only an address, is named in a text.
// Ollama cannot be told that a tool must be called: [aycoder.ToolNamed] offers no other
// tool, and [aycoder.ToolAny] is the same as [aycoder.ToolAuto]. It understands a part
// of JSON Schema in tools only, so references are put in their place. Options of the
// model other than the request's are set with [WithOption], or for one request with an
// object "options" in [aycoder.Request.Extra].
//
// [aycoder.Request.Output] is a format that the model cannot leave, except for models
// in Ollama's cloud, which have none: see [Client.FormatsOutput].
//
// # What comes back
//
// Lines of JSON, or one document. Ollama takes the thoughts out of the text where
// it is told to think ([WithThinking], or Request.Thinking) and knows how the model does.
// What it leaves in the text stays there, tags and all ("<think>…"), with old versions
// and models that say nothing of thinking: only Ollama knows what is a tag of the model
// and what it writes about. Calls have an object as their arguments and often no
// id; one is made up that is the same each time the answer is read. An answer with calls
// has [aycoder.StopToolUse] whatever the line says. The input in [aycoder.Usage] includes
// what Ollama had in its cache, except with versions that left that out. Ollama ends the
// connection without a last line where a model repeats itself, which is an
// [aycoder.StreamBrokenError].
//
// # Models
//
// [Client.List], [Client.Show], [Client.Pull], [Client.Delete], [Client.Loaded] and
// [Client.Version] manage what is there. Their errors are those of a request to a model.
package ollama
