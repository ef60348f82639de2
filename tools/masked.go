package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/view"
)

// Wrap returns a tool that calls t and masks the results of t: it replaces secrets by
// placeholders. When the model edits a file, it repeats the placeholders that it has read. If t
// changes files, the wrapper therefore replaces the placeholders in the arguments by the secrets.
// A tool counts as changing files if it is an [aycoder.Planner], or if it has
// [aycoder.EffectWrite] and its [aycoder.Subject] is a path.
//
// The wrapper restores a secret only if the edited file contains it now. Thus an edit next to a
// secret keeps the secret, but the model cannot copy the secret into another file. If a
// placeholder cannot be restored, t is not called, and the result is an error of the kind
// "masked_secret". Invisible characters, which results show in the form <U+200B>, are restored in
// the same way.
//
// Since t gets arguments with the real secrets, it compares and writes the real bytes of the
// file.
func (m *Masker) Wrap(ws FS, t aycoder.Tool) aycoder.Tool {
	if w, ok := t.(interface{ maskedBy() *Masker }); ok && w.maskedBy() == m {
		return t
	}
	w := &maskedTool{Tool: t, masker: m, ws: ws}
	spec := t.Spec()
	planner, plans := t.(aycoder.Planner)
	previewer, previews := t.(aycoder.Previewer)
	w.edits = plans || spec.Effect == aycoder.EffectWrite &&
		spec.Subject.Kind == aycoder.SubjectPath && spec.Subject.Arg != ""
	w.output = spec.OpenWorld || spec.Subject.Kind == aycoder.SubjectCommand
	switch {
	case plans && previews:
		return &maskedBoth{w, maskedPlanner{w, planner}, maskedPreviewer{w, previewer}}
	case plans:
		return &maskedPlanner{w, planner}
	case previews:
		return &maskedPreviewer{w, previewer}
	}
	return w
}

// maskAll wraps tools, unless the options say otherwise.
func maskAll(ws FS, opts []Option, all []aycoder.Tool) ([]aycoder.Tool, error) {
	c, err := configure(ws, opts)
	if err != nil || c.unmasked {
		return all, err
	}
	if c.masker == nil {
		c.masker = NewMasker(nil, mask.Environment(c.env)...)
	}
	for i, t := range all {
		all[i] = c.masker.Wrap(ws, t)
	}
	return all, nil
}

// A maskedTool wraps any tool, so that no secret of a file reaches the model, and no
// placeholder of the model a file.
type maskedTool struct {
	aycoder.Tool
	masker *Masker
	ws     FS
	edits  bool // placeholders in the arguments are put back
	output bool // results are output of programs rather than content of files
}

func (t *maskedTool) maskedBy() *Masker { return t.masker }

// Unwrap returns the tool that is wrapped.
func (t *maskedTool) Unwrap() aycoder.Tool { return t.Tool }

const editNote = "\nA secret in a file is shown as [secret:kind:id], and a character that nobody sees as <U+200B>. " +
	"Write them just as they are shown, and the file keeps them."

// Spec returns the specification of the wrapped tool. If the wrapper restores secrets, the
// description also explains the placeholders to the model.
func (t *maskedTool) Spec() aycoder.ToolSpec {
	s := t.Tool.Spec()
	if t.edits {
		s.Description += editNote
	}
	return s
}

// unusable refuses a command with a placeholder: secrets are not restored in commands, so
// the command would write the placeholder, perhaps over the secret.
func (t *maskedTool) unusable(inv *invocation) error {
	if t.edits || t.Tool.Spec().Subject.Kind != aycoder.SubjectCommand {
		return nil
	}
	for _, p := range t.masker.mask.Unresolved(view.String(inv.Args)) {
		return problemf("masked_secret", "%s stands for a secret, which commands are not given; "+
			"use the file or the variable that has it, or change the file with edit_file", p)
	}
	return nil
}

// Call runs the wrapped tool with the secrets restored in the arguments, and masks the result.
func (t *maskedTool) Call(ctx context.Context, inv *invocation) (*result, error) {
	real, err := t.restore(ctx, inv)
	if err == nil {
		err = t.unusable(inv)
	}
	if p, ok := err.(*problem); ok {
		return explain(p)
	}
	if err != nil {
		return nil, err
	}
	r, err := t.Tool.Call(ctx, t.masker.quiet(real))
	return t.masker.told(inv, r, t.output), t.masker.err(err)
}

// The wrapper must have the abilities of the tool inside and no others, as the loop asks
// for them by type.
type maskedPlanner struct {
	*maskedTool
	planner aycoder.Planner
}

// Plan implements [aycoder.Planner]. It does not mask the plan, because the plan is written to
// the files.
func (t *maskedPlanner) Plan(ctx context.Context, inv *invocation) (edit.Plan, error) {
	real, err := t.restore(ctx, inv)
	if err != nil {
		return edit.Plan{}, err
	}
	plan, err := t.planner.Plan(ctx, t.masker.quiet(real))
	return plan, t.masker.err(err)
}

// maskedPreviewer wraps a tool that has a preview but makes no plans, such as bash.
type maskedPreviewer struct {
	*maskedTool
	previewer aycoder.Previewer
}

// Preview implements [aycoder.Previewer]. It masks the text: users may see their own secrets, but
// events include the preview, and events are logged and recorded.
func (t *maskedPreviewer) Preview(ctx context.Context, inv *invocation) (string, error) {
	real, err := t.restore(ctx, inv)
	if err != nil {
		return "", err
	}
	text, err := t.previewer.Preview(ctx, t.masker.quiet(real))
	return t.masker.Mask(text), t.masker.err(err)
}

// maskedBoth wraps a tool that is both a Planner and a Previewer. Embedding both wrappers would
// make the selector Call ambiguous, so they are fields.
type maskedBoth struct {
	*maskedTool
	plans    maskedPlanner
	previews maskedPreviewer
}

// Plan implements [aycoder.Planner] in the same way as maskedPlanner.
func (t *maskedBoth) Plan(ctx context.Context, inv *invocation) (edit.Plan, error) {
	return t.plans.Plan(ctx, inv)
}

// Preview implements [aycoder.Previewer] in the same way as maskedPreviewer.
func (t *maskedBoth) Preview(ctx context.Context, inv *invocation) (string, error) {
	return t.previews.Preview(ctx, inv)
}

// restore returns an invocation with the secrets restored in its arguments. A plan has them
// already, and is carried out as it was approved.
func (t *maskedTool) restore(ctx context.Context, inv *invocation) (*invocation, error) {
	if !t.edits || inv.Plan != nil || checkText(inv.Args) != nil || !bytes.ContainsAny(inv.Args, `[<\`) {
		return inv, nil
	}
	dec := json.NewDecoder(bytes.NewReader(inv.Args))
	dec.UseNumber()
	var in any
	if dec.Decode(&in) != nil {
		return inv, nil // the tool reports what is wrong
	}
	spec := t.Tool.Spec()
	read := func(path string) string { return t.content(ctx, path) }
	r := &restorer{mask: t.masker.mask, read: read, files: map[string]*place{}}
	if spec.Subject.Kind == aycoder.SubjectPath {
		r.pathArg = spec.Subject.Arg
	}
	var schema map[string]any
	_ = json.Unmarshal(spec.Schema, &schema) // the loop accepts only tools whose schema is valid
	r.open = schema["properties"] == nil
	out := r.value(in, "", schema)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := r.refused(); err != nil {
		return nil, err
	}
	if !r.changed {
		return inv, nil
	}
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, err
	}
	c := *inv
	c.Args = bytes.TrimSpace(raw.Bytes())
	return &c, nil
}

// restorer restores secrets in the strings of arguments.
type restorer struct {
	mask    *mask.Masker
	read    func(path string) string
	pathArg string
	open    bool // the schema does not describe the arguments
	files   map[string]*place
	changed bool

	unresolved []string
	path       string // the path for which the first of them was meant
	ambiguous  bool
}

// place is a file, as far as texts for it are concerned. It is read once, however many
// texts a call has for it.
type place struct {
	secrets *mask.Secrets
	hidden  *mask.Hidden
}

// value restores secrets in a value. The path is that of the nearest enclosing object. A
// member that the schema does not know is not taken for a path: the tool writes
// elsewhere.
func (r *restorer) value(v any, path string, schema map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		names := func(key string) bool {
			return (key == r.pathArg || key == "path") && (r.open || properties[key] != nil)
		}
		for _, key := range []string{r.pathArg, "path"} {
			if p, ok := v[key].(string); ok && names(key) {
				path = p
			}
		}
		for key, x := range v {
			if !names(key) {
				of, _ := properties[key].(map[string]any)
				v[key] = r.value(x, path, of)
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, x := range v {
			v[i] = r.value(x, path, items)
		}
	case string:
		return r.text(v, path)
	}
	return v
}

// text restores a text that is written to a path; a patch names its paths itself.
func (r *restorer) text(s, path string) string {
	if path == "" {
		return r.patch(s)
	}
	return r.within(s, path)
}

// patch restores the lines of a patch, each for the file of its section. A secret of
// several lines becomes as many lines of the patch.
func (r *restorer) patch(s string) string {
	var b strings.Builder
	path := ""
	for line := range strings.Lines(s) {
		for _, head := range []string{"*** Update File:", "*** Add File:", "*** Delete File:"} {
			if name, ok := strings.CutPrefix(line, head); ok {
				path = strings.TrimSpace(name)
			}
		}
		restored := r.within(line, path)
		if body := strings.TrimSuffix(restored, "\n"); strings.Contains(body, "\n") && strings.Count(line, "\n") <= 1 {
			restored = strings.ReplaceAll(body, "\n", "\n"+line[:1]) + restored[len(body):]
		}
		b.WriteString(restored)
	}
	return b.String()
}

// within restores a text for a file.
func (r *restorer) within(s, path string) string {
	if !strings.Contains(s, "<U+") && !strings.Contains(strings.ToLower(s), "[secret:") {
		return s
	}
	at := r.at(path)
	out, ambiguous := at.hidden.Unescape(at.secrets.Restore(s))
	r.changed = r.changed || out != s
	r.ambiguous = r.ambiguous || ambiguous
	for _, p := range r.mask.Unresolved(out) {
		if !at.secrets.Literal(p) {
			r.refuse(p)
		}
	}
	if p, ok := at.secrets.Misspelt(s); ok {
		r.refuse(p)
	}
	if r.path == "" && (len(r.unresolved) > 0 || r.ambiguous) {
		r.path = path
	}
	return out
}

const maxRefused = 5 // placeholders that an error names

// refuse notes a placeholder that cannot be restored, for the message to the model.
func (r *restorer) refuse(placeholder string) {
	if len(r.unresolved) < maxRefused && !slices.Contains(r.unresolved, placeholder) {
		r.unresolved = append(r.unresolved, placeholder)
	}
}

// at returns the current state of a file.
func (r *restorer) at(path string) *place {
	at := r.files[path]
	if at == nil {
		text := r.read(path)
		at = &place{r.mask.Secrets(text), mask.HiddenIn(text)}
		r.files[path] = at
	}
	return at
}

// content returns the content of a file, or "" if it cannot be read or is too large to
// edit: then nothing is restored.
func (t *maskedTool) content(ctx context.Context, path string) string {
	if path == "" || ctx.Err() != nil {
		return ""
	}
	f, err := within(ctx, t.ws).Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := readAll(f, maxRestored)
	if err != nil || len(data) > maxRestored {
		return ""
	}
	return view.String(data)
}

const maxRestored = 8 << 20 // bytes of a file

// refused returns the error for a call that would write a placeholder.
func (r *restorer) refused() error {
	where := "that file"
	if r.path != "" {
		where = showPath(r.path)
	}
	switch {
	case len(r.unresolved) > 0:
		return problemf("masked_secret", "%s stands for a secret that you were not shown, and that is not in %s now; "+
			"it cannot be written there. Leave that text just as it is shown, read the file again if it has changed, "+
			"or ask the user to put the secret in", strings.Join(r.unresolved, ", "), where)
	case r.ambiguous:
		return problemf("masked_secret", "%s has a character that nobody sees, and the same written out like <U+200B>; "+
			"nobody knows which of them is meant. Change it with bash", where)
	}
	return nil
}
