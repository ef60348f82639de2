package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/contrib/local"
	"github.com/aycoder/aycoder/internal/cli"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/providers/ollama"
)

// localExtension is for models on the user's own hardware.
func localExtension() cli.Extension {
	return cli.Extension{Subcommands: []cli.Subcommand{
		{Name: "gpu", Help: "shows GPUs and what memory is free; -watch: tells when a memory runs out", Run: gpu},
		{Name: "models", Actions: modelActions, Run: models},
	}}
}

// gigabytes writes a size for people.
func gigabytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// flags makes the flags of a subcommand. The usage is the text of -h.
func flags(p cli.Program, usage string) *flag.FlagSet {
	f := flag.NewFlagSet("", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {
		fmt.Fprintf(p.Out, "usage: %s\n", usage)
		f.SetOutput(p.Out)
		f.PrintDefaults()
	}
	return f
}

// parse parses flags before and after the words, and returns the words.
func parse(f *flag.FlagSet, args []string) (words []string, err error) {
	usage := f.Usage
	f.Usage = func() {}
	for {
		if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
			usage()
			return nil, err
		} else if err != nil {
			return nil, fmt.Errorf("%w: %w", cli.ErrUsage, err)
		}
		if args = f.Args(); len(args) == 0 {
			return words, nil
		}
		words, args = append(words, args[0]), args[1:]
	}
}

// gpu shows the hardware, or watches it.
func gpu(ctx context.Context, p cli.Program, args []string) error {
	const usage = "aycoder gpu [-watch] [-json]"
	f := flags(p, usage)
	watch, asJSON := f.Bool("watch", false, "tell when a memory runs out, until interrupted"), f.Bool("json", false, "print JSON")
	words, err := parse(f, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case len(words) > 0:
		return misused(usage)
	}
	if *watch {
		var failed error
		local.Watch(ctx, 5*time.Second, func(e local.Pressure) bool {
			if *asJSON {
				failed = json.NewEncoder(p.Out).Encode(e)
			} else {
				_, failed = fmt.Fprintf(p.Out, "%s  %s: %s, %s of %s free\n", time.Now().Format(time.TimeOnly), runes.Line(e.Device), e.Level,
					gigabytes(e.Free), gigabytes(e.Total))
			}
			return failed == nil
		})
		return failed
	}
	h := local.Detect(ctx)
	if *asJSON {
		return json.NewEncoder(p.Out).Encode(h)
	}
	for _, g := range h.GPUs {
		memory := "memory unknown"
		if g.Total > 0 {
			memory = fmt.Sprintf("%s of %s free", gigabytes(g.Free), gigabytes(g.Total))
		}
		if g.Unified {
			memory += ", shared with the host"
		}
		if g.Busy >= 0 {
			memory += fmt.Sprintf(", %d %% busy", g.Busy)
		}
		fmt.Fprintf(p.Out, "%s: %s (%s)\n", runes.Line(g.Name), memory, g.Source)
	}
	if len(h.GPUs) == 0 {
		fmt.Fprintln(p.Out, "no GPU found: none of the tools nvidia-smi, amd-smi, rocm-smi, xpu-smi, intel_gpu_top and system_profiler knows one")
	}
	fmt.Fprintf(p.Out, "host: %s of %s free\n", gigabytes(h.Available), gigabytes(h.Total))
	for _, n := range h.Notes {
		fmt.Fprintln(p.Err, "aycoder:", runes.Line(n))
	}
	return nil
}

func misused(usage string) error { return fmt.Errorf("%w: %s", cli.ErrUsage, usage) }

// modelActions are what "aycoder models" does beside listing the catalogue. A name is owner/name:QUANT of the hub, or ollama/name.
var modelActions = []cli.Action{
	{Name: "local", Help: "those on this machine: of the hub, and of Ollama"},
	{Name: "search", Args: "words", Help: "those with GGUF files on the hub"},
	{Name: "files", Args: "owner/name", Help: "the quantisations of a model on the hub"},
	{Name: "recommend", Args: "[-use agent|code|small] [-gpu GiB] [-ram GiB]", Help: "those of a dated table that fit into the memory at hand"},
	{Name: "advise", Args: "name [-c tokens] [-cache type] [-gpu GiB] [-ram GiB]", Help: "how to load a model or a GGUF file, and why"},
	{Name: "pull", Args: "name", Help: "downloads a model, and goes on where it was stopped"},
	{Name: "verify", Args: "name", Help: "checks the files of a model"},
	{Name: "delete", Args: "name", Help: "deletes a model, or what an unfinished download of it has left"},
	{Name: "servers", Help: "llama.cpp, LM Studio and Ollama on this machine"},
}

// A modelsCall is one call of aycoder models.
type modelsCall struct {
	cli.Program
	hub       *local.Hub
	name, use string
	context   int64
	cache     string
	gpu, ram  float64 // in GiB, or -1
}

// models does what the arguments of "aycoder models" say.
func models(ctx context.Context, p cli.Program, args []string) error {
	i := slices.IndexFunc(modelActions, func(a cli.Action) bool { return a.Name == args[0] })
	action := modelActions[i]
	usage := strings.TrimSpace("aycoder models " + action.Name + " " + action.Args)
	f := flags(p, usage)
	c := &modelsCall{Program: p}
	f.Int64Var(&c.context, "c", 0, "tokens of context, for advise (default: what fits)")
	f.StringVar(&c.cache, "cache", "", "type of the cache, for advise: f16, q8_0 or q4_0 (default f16)")
	f.StringVar(&c.use, "use", "", "agent, code or small, for recommend (default: all)")
	f.Float64Var(&c.gpu, "gpu", -1, "GiB that are free on a GPU, instead of those of this machine; 0 is without a GPU")
	f.Float64Var(&c.ram, "ram", -1, "GiB that are free on the host, instead of those of this machine")
	words, err := parse(f, args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	const most = 1 << 20 // GiB
	if c.gpu != -1 && !(c.gpu >= 0 && c.gpu <= most) || c.ram != -1 && !(c.ram >= 0 && c.ram <= most) {
		return fmt.Errorf("%w: -gpu and -ram are from 0 to %d GiB", cli.ErrUsage, most)
	}
	if !slices.Contains([]string{"", "agent", "code", "small"}, c.use) {
		return fmt.Errorf("%w: -use %s is not agent, code or small", cli.ErrUsage, c.use)
	}
	c.name = strings.Join(words, " ")
	if named := action.Args != "" && action.Args[0] != '['; named == (c.name == "") {
		return misused(usage)
	}
	if c.hub, err = local.NewHub(); err != nil {
		return err
	}
	return map[string]func(context.Context) error{"local": c.list, "search": c.search, "files": c.files, "recommend": c.recommend,
		"advise": c.advise, "pull": c.pull, "verify": c.verify, "delete": c.remove, "servers": c.servers}[action.Name](ctx)
}

func (c *modelsCall) print(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = runes.Line(s)
		}
	}
	fmt.Fprintf(c.Out, format, args...)
}

// library returns where a model is: names of Ollama begin with ollama/.
func (c *modelsCall) library() (local.Library, string, error) {
	name, ok := strings.CutPrefix(c.name, "ollama/")
	if !ok {
		return c.hub, c.name, nil
	}
	client, err := ollama.New(name)
	if err != nil {
		return nil, "", err
	}
	return local.Ollama(client), name, nil
}

func (c *modelsCall) list(ctx context.Context) error {
	found, err := c.hub.List(ctx)
	if err != nil {
		return err
	}
	for _, m := range found {
		c.print("%10s  %s\n", gigabytes(m.Size), m.Name)
	}
	for _, s := range local.FindServers(ctx) {
		if s.Kind == "ollama" {
			for _, m := range s.Models {
				c.print("%10s  ollama/%s\n", "", m)
			}
		}
	}
	if len(found) == 0 {
		fmt.Fprintf(c.Err, "no model in %s\n", c.hub.Dir())
	}
	return nil
}

func (c *modelsCall) search(ctx context.Context) error {
	repos, err := c.hub.Search(ctx, c.name, 20)
	for _, r := range repos {
		c.print("%12d downloads  %s%s\n", r.Downloads, r.ID, map[bool]string{true: "  (gated)"}[r.Gated])
	}
	return err
}

func (c *modelsCall) files(ctx context.Context) error {
	r, err := c.hub.Files(ctx, c.name)
	if err != nil {
		return err
	}
	c.print("%s, license %s%s\n", r.ID, r.License, map[bool]string{true: ", gated: its terms have to be accepted on the hub"}[r.Gated])
	for _, q := range r.Choices() {
		c.print("%10s  %s", gigabytes(q.Size()), q.Name())
		if len(q.Files) > 1 {
			c.print("  (%d files)", len(q.Files))
		}
		c.print("\n")
	}
	return nil
}

// memory returns what may be used: that of this machine, or what the flags say.
func (c *modelsCall) memory(ctx context.Context) (gpus []local.Device, host int64) {
	h := local.Detect(ctx)
	gpus, host = h.Devices(), h.Available
	if c.gpu >= 0 {
		gpus = nil
		if c.gpu > 0 {
			gpus = []local.Device{{Name: "GPU", Free: int64(c.gpu * (1 << 30))}}
		}
	}
	if c.ram >= 0 {
		host = int64(c.ram * (1 << 30))
	}
	return gpus, host
}

func (c *modelsCall) recommend(ctx context.Context) error {
	gpus, free := c.memory(ctx)
	where := "the host"
	if len(gpus) > 0 {
		free, where = max(0, gpus[0].Free-gpus[0].Reserve), gpus[0].Name
	}
	c.print("for %s of %s, by the table of %s:\n", gigabytes(free), where, local.CatalogueDate)
	for _, r := range local.Recommend(free, c.use) {
		if r.Need > 0 {
			c.print("  %s  (%s, %s)\n    %s\n", r.String(), r.Use, r.License, r.Why)
		} else {
			c.print("- %s: %s\n", r.Model, r.Why)
		}
	}
	return nil
}

// advise shows how to load a model: a file, one that was downloaded, or one of the hub.
func (c *modelsCall) advise(ctx context.Context) error {
	m, err := c.model(ctx)
	if err != nil {
		return err
	}
	gpus, host := c.memory(ctx)
	a, err := m.Advise(gpus, host, local.Use{Context: c.context, Keys: c.cache, Values: c.cache})
	if err != nil {
		return err
	}
	for _, line := range a.Why {
		c.print("%s\n", line)
	}
	if !a.Fits {
		return errors.New("the model does not fit")
	}
	c.print("\nllama-server %s\n", strings.Join(a.LlamaServer(), " "))
	if o := a.Ollama(); o != nil {
		c.print("ollama: num_gpu %d, num_ctx %d\n", o["num_gpu"], o["num_ctx"])
	}
	return nil
}

func (c *modelsCall) model(ctx context.Context) (*local.Model, error) {
	if _, err := os.Stat(c.name); err == nil {
		return local.Open(c.name)
	}
	found, err := c.hub.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		if strings.EqualFold(m.Name, c.name) {
			return local.Open(m.Files[0])
		}
	}
	choice, err := c.hub.Resolve(ctx, c.name)
	if err != nil {
		return nil, err
	}
	return c.hub.Model(ctx, choice)
}

func (c *modelsCall) pull(ctx context.Context) error {
	l, name, err := c.library()
	if err != nil {
		return err
	}
	return c.progress(l.Pull(ctx, name))
}

// progress shows how far a download is: each step, and each twentieth of it.
func (c *modelsCall) progress(seq iter.Seq2[local.Progress, error]) error {
	shown := ""
	for p, err := range seq {
		if err != nil {
			return err
		}
		line := runes.Line(strings.TrimSpace(p.Status + " " + p.File))
		if p.Total > 0 {
			line += fmt.Sprintf(" %d %% of %s", p.Done*20/p.Total*5, gigabytes(p.Total))
		}
		if line != shown {
			fmt.Fprintln(c.Err, line)
			shown = line
		}
	}
	return nil
}

func (c *modelsCall) verify(ctx context.Context) error {
	if err := c.hub.Verify(ctx, c.name, nil); err != nil {
		return err
	}
	c.print("%s is what the hub has\n", c.name)
	return nil
}

func (c *modelsCall) remove(ctx context.Context) error {
	l, name, err := c.library()
	if err != nil {
		return err
	}
	return l.Delete(ctx, name)
}

func (c *modelsCall) servers(ctx context.Context) error {
	for _, s := range local.FindServers(ctx) {
		c.print("%-10s %s  %s\n", s.Kind, s.URL, strings.Join(s.Models, ", "))
	}
	return nil
}
