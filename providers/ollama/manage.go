package ollama

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
)

var errForeign = errors.New("answer is not Ollama's: is the address right?")

// Model describes a model that a server has.
type Model struct {
	// Name is the model's name in [New] and in requests, such as "qwen3:8b".
	Name string
	// Digest is the SHA-256 digest of the model's manifest. Size is the total size of the
	// model's files in bytes.
	Digest string
	Size   int64
	// Modified is the time at which the model was downloaded or last changed.
	Modified time.Time
	// Family, Parameters and Quantization describe the model: for example "qwen3", "8.2B"
	// and "Q4_K_M".
	Family, Parameters, Quantization string
	// Context is the longest context that the model supports, in tokens. It is 0 if the
	// server did not send this number.
	Context int64
	// Capabilities lists the abilities of the model; see [Model.Has]. In the result of
	// [Client.List] it may be empty, because old servers do not send the abilities there.
	Capabilities []string
	// RemoteModel is the model's name at the remote host on which it runs. It is empty if
	// the model runs on the server itself.
	RemoteModel string
}

// Details describes a model with its parameters and texts, as [Client.Show] returns it.
type Details struct {
	Model
	// NumCtx is the context length in the model's own parameters (num_ctx), in tokens. It
	// is 0 if the parameters do not set a context length. The server then decides.
	NumCtx int64
	// Settings are the model's parameters by name. A parameter such as "stop" may have
	// several values. They have the same order as in the model's definition.
	Settings map[string][]string
	// Template is the prompt template of the model, System is its default system prompt,
	// and License is the text of its license.
	Template, System, License string
}

// Has reports whether the model has a capability. Ollama's names for capabilities are
// "completion", "tools", "thinking", "vision", "insert" and "embedding".
func (m *Model) Has(capability string) bool { return slices.Contains(m.Capabilities, capability) }

// Loaded describes a model that is in the server's memory.
type Loaded struct {
	Name string
	// Size is the memory that the model takes, in bytes. VRAM is the part of Size that is
	// on a graphics card.
	Size, VRAM int64
	// Context is the context length with which the model was loaded, in tokens. It is 0
	// if the server did not send this number.
	Context int64
	// Expires is the time at which the server unloads the model if nobody uses it until
	// then.
	Expires time.Time
}

// List returns the models that the server has. The server lists the most recently
// modified model first.
func (c *Client) List(ctx context.Context) ([]Model, error) {
	var models []Model
	err := c.fetch(ctx, "/api/tags", "models", func(r *rawjson.Reader) {
		if m := readModel(r); m.Name != "" {
			models = append(models, m.Model)
		}
	})
	return models, err
}

// Loaded returns the models that are in the server's memory.
func (c *Client) Loaded(ctx context.Context) ([]Loaded, error) {
	var models []Loaded
	err := c.fetch(ctx, "/api/ps", "models", func(r *rawjson.Reader) { models = append(models, readLoaded(r)) })
	return models, err
}

// fetch gets a document and calls read for each element of one of its lists.
func (c *Client) fetch(ctx context.Context, path, list string, read func(*rawjson.Reader)) error {
	x := c.exchange(c.model, path)
	x.Method, x.Encode = http.MethodGet, noBody
	found := false
	err := document(ctx, x, func(r *rawjson.Reader) {
		if r.Key() != list {
			return
		}
		found = true
		for r.Array(); r.Next(); {
			read(r)
		}
	})
	if err == nil && !found {
		err = &aycoder.ModelError{Provider: provider, Err: errForeign}
	}
	return err
}

// Show returns the details of a model. An empty name stands for the model that was passed
// to [New]. If the model does not exist, the error is an [*aycoder.UnknownModelError]
// with the names of existing models. After a call of Show, [Client.ModelInfo] has
// information about the model.
func (c *Client) Show(ctx context.Context, model string) (Details, error) {
	model = cmp.Or(model, c.model)
	d := Details{Model: Model{Name: model}}
	x := c.exchange(model, "/api/show")
	x.Encode = named(model)
	err := document(ctx, x, func(r *rawjson.Reader) { d.show(r) })
	if err != nil {
		return Details{}, err
	}
	c.seen.keep(model, d)
	return d, nil
}

// Delete deletes a model from the server. Files that other models also use are kept.
func (c *Client) Delete(ctx context.Context, model string) error {
	x := c.exchange(model, "/api/delete")
	x.Method, x.Encode = http.MethodDelete, named(model)
	return stream(ctx, x, func(*api.Call, string) error { return nil }, func() error { return nil })
}

// Version returns the version of the Ollama server, such as "0.12.6".
func (c *Client) Version(ctx context.Context) (string, error) {
	return version(ctx, c.exchange(c.model, "/api/version"))
}

func version(ctx context.Context, x *api.Exchange) (v string, err error) {
	x.Method, x.Encode = http.MethodGet, noBody
	err = document(ctx, x, func(r *rawjson.Reader) {
		if r.Key() == "version" {
			v, _ = r.Str()
		}
	})
	if err == nil && v == "" {
		err = &aycoder.ModelError{Provider: provider, Err: errForeign}
	}
	return v, err
}

func noBody() (*api.Payload, error) { return &api.Payload{}, nil }

// named returns a body that names a model; "name" is for servers before 2025.
func named(model string) func() (*api.Payload, error) {
	return func() (*api.Payload, error) {
		b := rawjson.AppendField([]byte{'{'}, "model", model)
		b = append(rawjson.AppendField(b, "name", model), '}')
		return &api.Payload{Pieces: [][]byte{b}}, nil
	}
}

// document reads an answer that is one object, and calls field for each of its fields.
func document(ctx context.Context, x *api.Exchange, field func(*rawjson.Reader)) error {
	x.Frames = wholeBody
	end := api.ErrUnfinished
	return stream(ctx, x, func(k *api.Call, data string) error {
		end = nil
		return readObject(k, data, field)
	}, func() error { return end })
}

// readObject calls field for each field of an object. An object with an error is returned
// as that error.
func readObject(k *api.Call, data string, field func(*rawjson.Reader)) error {
	r := rawjson.NewReader(data)
	if r.Kind() != '{' {
		return k.Refuse([]byte(data))
	}
	failed := false
	for r.Object(); r.Next(); {
		if r.Key() == "error" {
			failed = isError(r)
			continue
		}
		field(r)
	}
	if err := r.End(); err != nil {
		return k.Garbled("answer", err, data)
	}
	if failed {
		return k.Fail(failureOf([]byte(data), nil, 0))
	}
	return nil
}

// wholeBody reads a response as one event.
func wholeBody(r io.Reader) func() (sse.Event, error) {
	var end error
	return func() (sse.Event, error) {
		if end != nil {
			return sse.Event{}, end
		}
		data, err := io.ReadAll(r)
		end = io.EOF
		return sse.Event{Data: string(data)}, err
	}
}

// stream calls line for each line of an answer, and end after the last.
func stream(ctx context.Context, x *api.Exchange, line func(*api.Call, string) error, end func() error) error {
	x.Decode = func(k *api.Call) api.Decoder { return &sink{k, line, end} }
	for _, err := range x.Stream(ctx) {
		return err
	}
	return nil
}

// A sink is a decoder for answers that are not messages.
type sink struct {
	k    *api.Call
	line func(*api.Call, string) error
	end  func() error
}

// Event implements [api.Decoder].
func (s *sink) Event(ev sse.Event) (bool, error) { return false, s.line(s.k, ev.Data) }

// Whole implements [api.Decoder].
func (s *sink) Whole(data string) error { return s.line(s.k, data) }

// End implements [api.Decoder].
func (s *sink) End() error { return s.end() }

func readModel(r *rawjson.Reader) (d Details) {
	for r.Object(); r.Next(); {
		d.field(r)
	}
	return d
}

// field reads a field of a model, in a list or by itself.
func (d *Details) field(r *rawjson.Reader) {
	switch r.Key() {
	case "name", "model":
		s, _ := r.Str()
		d.Name = cmp.Or(d.Name, s)
	case "modified_at":
		d.Modified = readTime(r)
	case "size":
		d.Size, _ = r.Int()
	case "digest":
		d.Digest, _ = r.Str()
	case "capabilities":
		d.Capabilities = readWords(r)
	case "remote_model":
		d.RemoteModel, _ = r.Str()
	case "details":
		for r.Object(); r.Next(); {
			d.detail(r)
		}
	}
}

func (d *Details) detail(r *rawjson.Reader) {
	switch r.Key() {
	case "family":
		d.Family, _ = r.Str()
	case "parameter_size":
		d.Parameters, _ = r.Str()
	case "quantization_level":
		d.Quantization, _ = r.Str()
	case "context_length":
		d.Context, _ = r.Int()
	}
}

// show reads a field of the answer of /api/show.
func (d *Details) show(r *rawjson.Reader) {
	switch r.Key() {
	case "parameters":
		s, _ := r.Str()
		d.Settings = readSettings(s)
		if n := d.Settings["num_ctx"]; len(n) > 0 {
			num, _ := strconv.ParseInt(n[len(n)-1], 10, 64)
			d.NumCtx = max(num, 0)
		}
	case "template":
		d.Template, _ = r.Str()
	case "system":
		d.System, _ = r.Str()
	case "license":
		d.License, _ = r.Str()
	case "model_info":
		d.info(r)
	default:
		d.field(r)
	}
}

// info reads the metadata of the model's file, such as "llama.context_length", in which
// the first word is "general.architecture". A vision model also has those of its image
// encoder.
func (d *Details) info(r *rawjson.Reader) {
	lengths, arch := map[string]int64{}, ""
	for r.Object(); r.Next(); {
		key := r.Key()
		if name, ok := strings.CutSuffix(key, ".context_length"); ok {
			lengths[name], _ = r.Int()
		}
		if key == "general.architecture" {
			arch, _ = r.Str()
		}
	}
	d.Context = max(cmp.Or(lengths[arch], d.Context), 0)
}

// readSettings parses the lines of a model's parameters: a name, and a value that may be
// quoted.
func readSettings(s string) map[string][]string {
	set := map[string][]string{}
	for line := range strings.Lines(s) {
		name, val, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		val = strings.TrimSpace(val)
		if text, err := strconv.Unquote(val); err == nil {
			val = text
		}
		set[name] = append(set[name], val)
	}
	return set
}

func readLoaded(r *rawjson.Reader) (m Loaded) {
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "name", "model":
			s, _ := r.Str()
			m.Name = cmp.Or(m.Name, s)
		case "size":
			m.Size, _ = r.Int()
		case "size_vram":
			m.VRAM, _ = r.Int()
		case "context_length":
			m.Context, _ = r.Int()
		case "expires_at":
			m.Expires = readTime(r)
		}
	}
	return m
}

func readWords(r *rawjson.Reader) (words []string) {
	for r.Array(); r.Next(); {
		if s, ok := r.Str(); ok {
			words = append(words, s)
		}
	}
	return words
}

// readTime reads a time; an invalid one becomes the zero time.
func readTime(r *rawjson.Reader) time.Time {
	s, _ := r.Str()
	t, _ := time.Parse(time.RFC3339Nano, s)
	return t
}
