// Package config reads configuration files, and finds all mistakes in them at once.
//
//	loaded, err := config.Load(
//		config.WithUserFile(filepath.Join(dir, "config.toml")),
//		config.WithProject("."),
//		config.WithTrust(config.NewTrust(filepath.Join(dir, "trust.json"))),
//		config.WithLookup(os.LookupEnv),
//	)
//	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
//		for _, d := range invalid.Diagnostics {
//			fmt.Println(d) // config.toml:7:1: error: agent.max_turn is not a key; did you mean max_turns?
//		}
//	}
//
// The result is plain data. The package makes neither models nor tools of it, and reads nothing but what its options
// name: no environment, no home directory, no working directory.
//
// # Files
//
// A file is written in TOML. The types [Config] and [Settings] have its keys, and [Schema] describes them to editors.
//
//	[models.main]
//	provider = "anthropic"
//	model = "claude-sonnet-4-5"
//	key_env = "ANTHROPIC_API_KEY"
//	fallbacks = ["openai/gpt-5"]
//
//	[roles]
//	main = "main"
//
//	[agent]
//	max_turns = 80
//	max_cost = 5.0
//
//	[approval]
//	mode = "accept-edits"
//
//	[[approval.rules]]
//	action = "allow"
//	tool = "bash"
//	pattern = "go test *"
//
//	[[hooks]]
//	event = "PreToolUse"
//	matcher = "Bash"
//	command = "./check.sh"
//
//	[profile.work]
//	roles.main = "gateway"
//
// A key of a model is named by its variable or its command, and never stands in a file. A text may have ${VAR} and
// ${VAR:-default} in it, but for the commands and patterns that a shell or a policy reads.
//
// # Sources
//
// Later sources take precedence. [Loaded.Origin] says where a value comes from.
//
//	source        place                              a project may not
//	default       the types of this package
//	user          WithUserFile
//	project       .aycoder/config.toml               loosen anything
//	local         .aycoder/config.local.toml         loosen anything
//	environment   AYCODER_AGENT_MAX_TURNS=20
//	flag          WithFlag
//	managed       WithManagedFile
//
// In each file, the chosen profile takes precedence over the rest of the file. A list replaces that of an earlier
// source, unless its comment says that the lists of all files add up. A limit of the managed file is the largest
// possible: a smaller one of another source stays.
//
// # Projects
//
// The files of a project come with code that may be anybody's. This includes the local file: nothing stops an
// author from committing it. Until the user trusts them, they decide nothing, and their mistakes are only warnings.
// After that, they can restrict what is permitted, and choose what permits nothing. That includes the whole system prompt
// (agent.system), also what the usual one says about texts of strangers, and how much is thought and how long
// requests are repeated, which takes money and time. The addresses,
// headers, proxies and keys of models, the approval mode, additional directories, and anything else whose field does
// not say otherwise, are never taken from them: each is a warning at its key.
//
// Each [Hook] and [Server] of a project has a separate [Question]. It shows the command or the address and the
// variables that it would be given, and the answer is bound to the contents of the file and of the scripts of the
// project that the command names, or runs without a name: see [Question]. So a pull that changes one of them asks again,
// and [Loaded.Verify] looks again right before the element runs. Without an answer the element is off, and a warning says so. The
// answer does not cover files that a script reads or imports, nor files that a command names only by a pattern or by a
// calculated name: a host that needs more runs hooks in a sandbox. A command that
// nobody could judge is off, too: see [Question.Bind].
//
// # Changes
//
// A [Reloader] looks at the files when it is asked to, at the boundary between two turns. Invalid files leave the last
// configuration in force.
//
// # Adding a key
//
// A key is a field of a type in config.go. Its comment is the text that editors show, and its tags say which values it
// can have and what a project may set: see the comment of the type field in shape.go. Without a tag, a project may not
// set it. There is no other list of keys.
package config
