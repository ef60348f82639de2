package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/aycoder/aycoder/policy"
)

const usage = `usage: aycoder [flags] [prompt]

  aycoder                          talk about this directory
  aycoder "fix the failing test"   start with a task
  aycoder -p "explain main.go"     print one answer and exit
  cat log | aycoder -p "what broke?"
  aycoder plugin -h                plugins: install, trust, update, remove
  aycoder -p "fix the lint errors" -allow edit_file -allow 'bash:go vet *'

The model is Anthropic's, with the key in ANTHROPIC_API_KEY (and its address in
ANTHROPIC_BASE_URL, if it is another), or that of another provider by its name:
openai/…, google/…, openrouter/…, ollama/… and so on, with the provider's own key.
Without a model, a key and arguments a scripted model shows a demo; where there is
no terminal, it runs unattended.

Settings are in ~/.config/aycoder/config.toml and .aycoder/config.toml. What a project
brings is off until you have trusted it: in a terminal, you are asked.

flags:
  -p               print the answer and exit; activity goes to stderr, nothing is asked
  -output format   with -p: text, json (one object) or stream-json (one a line) (text)
  -model name      provider/model (anthropic/claude-sonnet-4-5), or demo
  -mode name       ask (before anything is changed), accept-edits, plan (only look), or
                   full-auto (ask nothing) (ask)
  -allow rules     calls that need no approval: edit_file, 'bash:go test *'; repeatable
  -sandbox         commands change files here only, and have no network unless asked for
  -max-turns n     answers of the model in one run (50)
  -profile name    settings of that profile of the configuration
  -trust           believe the instructions, skills and lessons of this directory
  -verbose         show thinking, tokens and whole outputs

exit codes: 0 ok, 1 error, 2 usage or no model, 3 limit reached, 4 needed an approval,
130 interrupted
`

// The formats of -output.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatStream = "stream-json"
)

type options struct {
	prompt   string
	print    bool
	output   string
	model    string
	mode     policy.Mode
	allow    []string
	maxTurns string
	sandbox  bool
	profile  string
	trust    bool
	verbose  bool
}

// parse parses the arguments. Flags may precede, follow and interrupt the words of the
// prompt, up to "--". It prints the usage if that was requested.
func parse(args []string, w io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("aycoder", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.BoolVar(&o.print, "p", false, "")
	fs.StringVar(&o.output, "output", formatText, "")
	fs.StringVar(&o.model, "model", "", "")
	fs.Func("mode", "", func(s string) (err error) {
		o.mode, err = policy.ParseMode(s)
		return err
	})
	fs.StringVar(&o.maxTurns, "max-turns", "", "")
	fs.StringVar(&o.profile, "profile", "", "")
	fs.BoolVar(&o.trust, "trust", false, "")
	fs.BoolVar(&o.sandbox, "sandbox", false, "")
	fs.BoolVar(&o.verbose, "verbose", false, "")
	fs.Func("allow", "", func(s string) error {
		o.allow = append(o.allow, s)
		return nil
	})
	words, err := interspersed(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(w, usage)
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w; aycoder -h shows the flags", err)
	}
	o.prompt = strings.Join(words, " ")
	return o, o.check()
}

func (o *options) check() error {
	switch {
	case o.output != formatText && o.output != formatJSON && o.output != formatStream:
		return fmt.Errorf("-output %s: there are text, json and stream-json", o.output)
	case o.output != formatText && !o.print:
		return fmt.Errorf("-output %s goes with -p", o.output)
	}
	return nil
}

// interspersed parses flags in any position, and returns the other words.
func interspersed(fs *flag.FlagSet, args []string) ([]string, error) {
	var words []string
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		rest := fs.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" || len(rest) == 0 {
			return append(words, rest...), nil
		}
		words, args = append(words, rest[0]), rest[1:]
	}
}

// editor returns a function that edits a text in the user's editor, in a file whose name has an ending, or nil if
// none is configured.
func (a *app) editor(lend func(func() error) error) func(ending string, text []byte) ([]byte, error) {
	argv := strings.Fields(a.getenv("VISUAL"))
	if len(argv) == 0 {
		argv = strings.Fields(a.getenv("EDITOR"))
	}
	if len(argv) == 0 {
		return nil
	}
	return func(ending string, text []byte) ([]byte, error) {
		dir, err := os.MkdirTemp("", "aycoder-edit-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "edit"+ending)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
		cmd := exec.Command(argv[0], append(argv[1:], file)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
		if err := lend(cmd.Run); err != nil {
			return nil, fmt.Errorf("run %s: %w", argv[0], err)
		}
		return os.ReadFile(file)
	}
}
