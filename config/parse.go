package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A walker reads a document once. It follows the expressions of the parser and the fields at the same time,
// and goes on after each fault that is not one of syntax: a value of a wrong type is left out, and a mistyped name is
// read as the one that was probably meant, unless that is there, too. So everything in the document is checked in one
// pass. A document with such a fault is never used.
type walker struct {
	report
	src   Origin // without a place
	p     unstable.Parser
	data  []byte
	place cursor
	root  *node
}

// parse returns the tree of a document. If its syntax is wrong, the tree has what comes before the fault.
func parse(src Origin, data []byte, doc *field) (*node, *report) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	w := &walker{src: src, data: data, place: cursor{data: data, line: 1, column: 1}}
	w.root = &node{field: doc, from: w.src, at: w.src, made: headed}
	w.p.Reset(data)
	table := w.root
	for w.p.NextExpression() {
		e := w.p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = w.header(e)
		case unstable.KeyValue:
			w.keyValue(table, e)
		}
	}
	w.syntax(w.p.Error())
	return w.root, &w.report
}

// syntax reports the error of the parser.
func (w *walker) syntax(err error) {
	e, ok := errors.AsType[*unstable.ParserError](err)
	if !ok {
		return
	}
	w.broken = true
	at, message := int(w.p.Range(e.Highlight).Offset), e.Message
	if r, n := utf8.DecodeRune(w.data[min(at, len(w.data)):]); n > 1 { // the parser names the first byte
		message = strings.Replace(message, fmt.Sprintf("%#U", w.data[at]), fmt.Sprintf("%#U", r), 1)
	}
	w.add(Error, "", w.origin(at), "invalid syntax: "+message,
		"what comes after this place was not read")
}

// header returns the table that a header opens, or nil if nothing is known about it.
func (w *walker) header(e *unstable.Node) *node {
	n := w.root
	for it := e.Key(); n != nil && it.Next(); {
		part := it.Node()
		switch {
		case !it.IsLast():
			n = w.enter(n, part, implied)
		case e.Kind == unstable.ArrayTable:
			n = w.item(n, part)
		default:
			n = w.enter(n, part, headed)
		}
	}
	return n
}

// enter returns the table under a key, which it makes if it is missing. A list means its last item.
func (w *walker) enter(n *node, part *unstable.Node, how manner) *node {
	at, name := w.origin(int(part.Raw.Offset)), string(part.Data)
	kid := n.kids[name]
	switch {
	case kid == nil || kid.mistyped:
		kid = w.child(n, name, at, kindTable)
		if kid == nil || kid.from != at && !kid.field.holds() || !w.holds(kid, "a table") {
			return nil
		}
		kid.made = max(kid.made, how)
		return kid
	case kid.field.kind == kindList && how == implied && kid.made == headed && len(kid.items) > 0:
		return kid.items[len(kid.items)-1]
	case !kid.field.holds() || !kid.extends(how):
		w.again(kid, at)
		return w.lost(kid, at)
	}
	kid.made = max(kid.made, how)
	return kid
}

// extends reports whether TOML permits to open the table again.
func (n *node) extends(how manner) bool {
	switch how {
	case implied:
		return n.made != assigned
	case headed:
		return n.made == implied
	}
	return n.made == dotted
}

func (w *walker) again(kid *node, at Origin) {
	w.add(Error, kid.key, at, fmt.Sprintf("is defined twice, first on line %d", kid.from.Line), "keep one of them")
}

// lost returns a table that has the fields of another and is not in the tree.
func (w *walker) lost(n *node, at Origin) *node {
	f := n.field
	if f.kind == kindList {
		f = f.elem
	}
	if !f.holds() {
		return nil
	}
	return &node{field: f, key: n.key, from: at, at: at, made: headed}
}

// item returns a new item of a list of tables.
func (w *walker) item(n *node, part *unstable.Node) *node {
	at, name := w.origin(int(part.Raw.Offset)), string(part.Data)
	list := n.kids[name]
	switch {
	case list == nil || list.mistyped:
		if list = w.child(n, name, at, kindList); list == nil || list.from != at && list.field.kind != kindList {
			return nil
		}
		list.made = headed
		if list.field.kind != kindList || !list.field.elem.as(kindTable).holds() {
			w.wrong(list, "a list of tables")
			return w.lost(list, at)
		}
	case list.field.kind != kindList || list.made != headed:
		w.again(list, at)
		return w.lost(list, at)
	}
	return list.append(at, kindTable)
}

// append adds an item of a kind to a list.
func (n *node) append(at Origin, k kind) *node {
	item := &node{
		field: n.field.elem.as(k), key: n.key + "[" + strconv.Itoa(len(n.items)) + "]", from: at, at: at, made: headed,
	}
	n.items = append(n.items, item)
	return item
}

// child makes the node of a key with a value of a kind. If the key is unknown, it is that of the key that was probably meant, or nil. If that is
// there, too, and has others in it, it is the one that is there, whose place is another.
func (w *walker) child(n *node, name string, at Origin, k kind) *node {
	kid := &node{field: n.field.kid(name), key: join(n.key, short(name)), from: at, at: at}
	switch {
	case kid.field != nil:
		kid.field = kid.field.as(k)
	case w.full() && w.failed: // to look for what was meant costs time
		w.more++
	default:
		name = w.unknown(n.field, name, kid)
		kid.field, kid.mistyped = n.field.kid(name), true
	}
	old := n.kids[name]
	switch {
	case kid.field == nil:
		return nil
	case old != nil && kid.field.contains(): // there are both names, and their values belong together
		if old.mistyped && !kid.mistyped {
			old.key, old.from, old.at, old.mistyped = kid.key, kid.from, kid.at, false
		}
		return old
	case old == nil || old.mistyped:
		n.add(name, kid)
	}
	return kid
}

// unknown reports an unknown key and returns the one that was probably meant.
func (w *walker) unknown(f *field, name string, kid *node) string {
	meant := nearest(name, f.names())
	help := "the keys here are " + strings.Join(f.names(), ", ")
	if meant != "" {
		help = fmt.Sprintf("did you mean %s?", meant)
	} else if home := w.root.field.home(name, ""); home != "" {
		help = "it belongs into the table " + home
	}
	w.add(Error, kid.key, kid.from, "is not a key", help)
	return meant
}

// home returns the first table that has a key.
func (f *field) home(name, key string) string {
	for _, g := range f.fields {
		if g.kind == kindTable && g.kid(name) != nil {
			return join(key, g.name)
		}
	}
	return ""
}

// holds reports whether the key of a table is that of one.
func (w *walker) holds(n *node, is string) bool {
	if !n.field.holds() {
		w.wrong(n, is)
	}
	return n.field.holds()
}

func (w *walker) wrong(n *node, is string) {
	n.bad = true
	what := string(n.field.kind)
	if n.field.kind == kindList && n.field.elem.kind == kindText {
		what = "a list of texts"
	} else if n.field.kind == kindList {
		what = "a list of tables"
	}
	help := n.field.form()
	switch k := n.field.kind; {
	case is == names[unstable.String] && (k == kindInteger || k == kindNumber || k == kindTruth):
		help = "leave out the quotes"
	case k == kindTable && !strings.HasSuffix(n.key, "]"):
		help = "begin it with the line [" + n.key + "]"
	}
	w.add(Error, n.key, n.from, "must be "+what+" and is "+is, help)
}

// form shows how the value of a key is written.
func (f *field) form() string {
	switch {
	case f.kind == kindText && f.enum != nil:
		return "possible values are " + quoted(f.enum)
	case f.kind == kindText:
		return "put the value in quotes"
	case f.kind == kindDuration:
		return `write it as a text with a unit, such as "30s", "5m" or "48h"`
	case f.kind == kindList && f.elem.kind == kindText:
		return `write it in brackets, such as ["one", "two"]`
	case f.kind == kindFree && f.kinds[kindTable] == nil:
		return "no more than " + strconv.Itoa(maxFree) + " tables and lists may be in each other"
	case f.kind == kindFree:
		return "put it in quotes, as a text"
	}
	return ""
}

// keyValue reads a key with its value. If the table is nil, nothing is known about it.
func (w *walker) keyValue(n *node, e *unstable.Node) {
	var last *unstable.Node
	for it := e.Key(); n != nil && it.Next(); {
		last = it.Node()
		if !it.IsLast() {
			n = w.enter(n, last, dotted)
		}
	}
	if n == nil {
		return
	}
	name, at := string(last.Data), w.origin(int(last.Raw.Offset))
	if old := n.kids[name]; old != nil && !old.mistyped {
		w.again(old, at)
		return
	}
	if kid := w.child(n, name, at, kinds[e.Value().Kind]); kid != nil {
		unnamed := n.mistyped && n.field.kind == kindDict && kid.field.kind == kindTable // as in [model] for [models.main]
		if (kid.mistyped || kid.from != at || unnamed) && kinds[e.Value().Kind] != kid.field.kind {
			kid.bad = kid.bad || unnamed && kid.from == at
			return // one fault is enough
		}
		kid.at = w.origin(w.start(e.Value(), last))
		w.value(kid, e.Value())
	}
}

// start returns the offset of a value. The parser tells it of all values but arrays.
func (w *walker) start(v, key *unstable.Node) int {
	if v.Kind != unstable.Array {
		return int(v.Raw.Offset)
	}
	i := int(key.Raw.Offset + key.Raw.Length)
	return i + bytes.IndexByte(w.data[i:], '[')
}

// value reads a value into its node.
func (w *walker) value(n *node, v *unstable.Node) {
	n.made = assigned
	switch {
	case kinds[v.Kind] == kindTable && n.field.holds():
		for it := v.Children(); it.Next(); {
			w.keyValue(n, it.Node())
		}
	case kinds[v.Kind] == kindList && n.field.kind == kindList:
		for it := v.Children(); it.Next(); {
			w.element(n, it.Node())
		}
	case n.field.accepts(kinds[v.Kind]):
		w.scalar(n, string(v.Data))
	default:
		w.wrong(n, names[v.Kind])
	}
}

func (w *walker) element(list *node, v *unstable.Node) {
	at := list.at
	if v.Kind != unstable.Array {
		at = w.origin(int(v.Raw.Offset))
	}
	item := list.append(at, kinds[v.Kind])
	item.from = at
	w.value(item, v)
}

// kinds are the kinds of values in a document.
var kinds = map[unstable.Kind]kind{
	unstable.String: kindText, unstable.Integer: kindInteger, unstable.Float: kindNumber,
	unstable.Bool: kindTruth, unstable.Array: kindList, unstable.InlineTable: kindTable,
}

// names are the names of values in a diagnostic.
var names = map[unstable.Kind]string{
	unstable.String: "a text", unstable.Integer: "an integer", unstable.Float: "a number",
	unstable.Bool: "true or false", unstable.Array: "a list", unstable.InlineTable: "a table",
	unstable.LocalDate: "a date", unstable.LocalTime: "a time", unstable.LocalDateTime: "a date",
	unstable.DateTime: "a date",
}

// accepts reports whether a value of a kind can be that of the key.
func (f *field) accepts(k kind) bool {
	return k == f.kind || k == kindText && f.kind == kindDuration || k == kindInteger && f.kind == kindNumber
}

func (w *walker) scalar(n *node, text string) {
	n.text = text
	if n.field.kind == kindInteger || n.field.kind == kindNumber {
		n.text = strings.ReplaceAll(text, "_", "")
	}
	if !n.variable() {
		w.settle(n, n.text)
	}
}

// settle converts and checks the text of a node.
func (r *report) settle(n *node, text string) {
	v, problem := n.field.convert(text)
	if problem != "" {
		n.bad = true
		r.add(Error, n.key, n.from, problem, n.field.form())
		return
	}
	n.value = v
	if severity, problem, help := n.field.judge(v); problem != "" {
		n.bad = severity == Error
		r.add(severity, n.key, n.at, problem, help)
	}
}

// A cursor turns offsets into lines and columns. It goes on from the last offset, so that a whole document
// costs one pass: the places of a document are asked for in their order, with few exceptions.
type cursor struct {
	data         []byte
	offset       int
	line, column int
}

func (c *cursor) to(offset int) (line, column int) {
	offset = min(offset, len(c.data))
	if offset < c.offset {
		c.line -= bytes.Count(c.data[offset:c.offset], []byte("\n"))
		c.offset = bytes.LastIndexByte(c.data[:offset], '\n') + 1
		c.column = 1
	}
	part := c.data[c.offset:offset]
	if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
		c.line += bytes.Count(part, []byte("\n"))
		c.column, part = 1, part[i+1:]
	}
	c.column += utf8.RuneCount(part)
	c.offset = offset
	return c.line, c.column
}

func (w *walker) origin(offset int) Origin {
	o := w.src
	o.Line, o.Column = w.place.to(offset)
	return o
}
