// Package htmltext converts web pages to readable text, as Markdown. It reads a page once and
// builds no tree. Time is thus linear in the size of the page and memory in that of the text,
// even for a hostile page.
package htmltext

import (
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// The bounds keep the text of a page, and the memory for it, in proportion to the page.
	maxNested = 64  // lists, links and other markup in each other; deeper is plain text
	maxIndent = 8   // lists in lists
	maxLink   = 500 // bytes; the target of a longer one is left out
)

// Page is the text of a page. The text is not trusted: whoever wrote the page chose every
// word of it.
type Page struct {
	Title, Text string
	// Cut reports that the text was truncated at the limit.
	Cut bool
}

// Convert reads a page, in UTF-8, up to its end or until its text has limit bytes. Links
// are resolved against base. Invisible content is left out: scripts, styles, comments and
// hidden elements. An error is that of r; the page is then what came before. The tokenizer
// is that of the HTML standard; the tree that the standard builds next is not needed for
// text, and a hostile page makes it deep and large.
func Convert(r io.Reader, base *url.URL, limit int) (Page, error) {
	c := &converter{z: html.NewTokenizer(r), base: base, out: writer{limit: limit}}
	for !c.out.cut {
		switch c.z.Next() {
		case html.ErrorToken:
			err := c.z.Err()
			if err == io.EOF {
				err = nil
			}
			return c.page(), err
		case html.TextToken:
			c.text()
		case html.StartTagToken:
			c.start(c.z.Token(), false)
		case html.SelfClosingTagToken:
			c.start(c.z.Token(), true)
		case html.EndTagToken:
			c.end(c.z.Token().DataAtom)
		}
	}
	return c.page(), nil
}

// Elements are counted rather than kept on a stack, since end tags are often missing or
// crossed.
type converter struct {
	z    *html.Tokenizer
	base *url.URL
	out  writer

	title   string
	inTitle bool
	skipped atom.Atom // the element that is left out; 0 if none is
	depth   int       // of that element in itself
	pre     bool
	cells   int // of this row; 0 outside of rows
	lists   []list
}

// A list has the number of its next item.
type list struct {
	ordered bool
	n       int
}

// page closes the marks that are still open, so that a text which was cut off is valid
// Markdown.
func (c *converter) page() Page {
	for len(c.out.marks) > 0 {
		c.out.close(c.out.marks[0].tag)
	}
	return Page{Title: c.title, Text: string(c.out.text), Cut: c.out.cut}
}

// text takes a text in the way of the element around it. Only the first title counts.
func (c *converter) text() {
	switch {
	case c.skipped != 0:
	case c.inTitle:
		c.title = strings.Join(strings.Fields(c.z.Token().Data), " ")
		c.inTitle = false
	case c.pre:
		c.out.raw(c.z.Token().Data)
	default:
		c.out.words(c.z.Token().Data)
	}
}

// start begins an element. Within one that is left out, only its own kind is counted, to
// find the end tag that belongs to it.
func (c *converter) start(t html.Token, selfClosing bool) {
	if c.skipped != 0 {
		if t.DataAtom == c.skipped && !selfClosing {
			c.depth++
		}
		return
	}
	if skips(t) {
		// The other elements have no end tag in HTML, or contain only text up to it.
		foreign := t.DataAtom == atom.Svg || t.DataAtom == atom.Math
		if !foreign || !selfClosing {
			c.skipped, c.depth = t.DataAtom, 1
		}
		return
	}
	c.block(t.DataAtom)
	switch t.DataAtom {
	case atom.Title:
		c.inTitle = c.title == ""
	case atom.Base:
		c.base = c.resolved(attr(t, "href"))
	case atom.A:
		// Links in links are not allowed in HTML; the second one ends the first.
		c.out.close(atom.A)
		if to := c.link(attr(t, "href")); to != "" && !c.pre {
			c.out.open(atom.A, "[", "]("+to+")")
		}
	case atom.Img:
		c.image(t)
	case atom.Ul, atom.Ol, atom.Menu:
		c.openList(t)
	case atom.Li:
		c.item()
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		c.out.bullet = strings.Repeat("#", int(t.Data[1]-'0')) + " "
	case atom.Td, atom.Th:
		c.cell()
	default:
		c.inline(t.DataAtom)
	}
}

// inline starts what stands for itself, or is marked within a line. A second line break in
// a row leaves an empty line, further ones do not.
func (c *converter) inline(tag atom.Atom) {
	switch tag {
	case atom.Br:
		if c.pre {
			c.out.raw("\n")
			return
		}
		c.out.space = false
		c.out.breaks = min(c.out.breaks+1, 2)
	case atom.Hr:
		c.out.words("---")
		c.out.block(2)
	case atom.Pre:
		c.out.raw("```\n")
		c.pre = true
	case atom.Code, atom.Kbd, atom.Samp:
		c.mark(tag, "`")
	case atom.B, atom.Strong:
		c.mark(tag, "**")
	case atom.I, atom.Em:
		c.mark(tag, "*")
	case atom.Blockquote:
		c.out.bullet = "> "
	}
}

// mark puts a sign around the text of an element. Preformatted text is shown as it is.
func (c *converter) mark(tag atom.Atom, sign string) {
	if !c.pre {
		c.out.open(tag, sign, sign)
	}
}

// end ends an element. An end tag without a start tag changes nothing.
func (c *converter) end(tag atom.Atom) {
	if c.skipped != 0 {
		if tag == c.skipped {
			if c.depth--; c.depth == 0 {
				c.skipped = 0
			}
		}
		return
	}
	switch tag {
	case atom.Title:
		c.inTitle = false
	case atom.Pre:
		if c.pre {
			c.pre = false
			c.out.fence()
		}
	case atom.Tr, atom.Table:
		c.cells = 0
	case atom.Ul, atom.Ol, atom.Menu:
		if n := len(c.lists); n > 0 {
			c.lists = c.lists[:n-1]
		}
	}
	if breaks[tag] > 0 && !inCell[tag] {
		c.out.bullet = "" // of what had no text
	}
	c.out.close(tag)
	c.block(tag)
}

// block puts a block element on separate lines. In a cell of a table it stays on the line.
// Two line breaks, as around a paragraph, leave an empty line. Within preformatted text the
// line breaks of the text count.
func (c *converter) block(tag atom.Atom) {
	n := breaks[tag]
	switch {
	case n == 0:
	case c.pre:
	case tag == atom.Tr:
		c.cells = 0
		c.out.block(1)
	case c.cells > 0 && inCell[tag]:
		c.out.space = true
	case len(c.lists) > 0 && (tag == atom.Ul || tag == atom.Ol):
		c.out.block(1)
	default:
		c.out.block(n)
	}
}

// breaks is how many line breaks are before and after a block.
var breaks = map[atom.Atom]int{
	atom.Address: 2, atom.Article: 2, atom.Aside: 2, atom.Blockquote: 2, atom.Body: 2, atom.Dd: 1,
	atom.Details: 2, atom.Dialog: 2, atom.Div: 1, atom.Dl: 2, atom.Dt: 1, atom.Fieldset: 2,
	atom.Figcaption: 1, atom.Figure: 2, atom.Footer: 2, atom.Form: 2, atom.H1: 2, atom.H2: 2,
	atom.H3: 2, atom.H4: 2, atom.H5: 2, atom.H6: 2, atom.Header: 2, atom.Hr: 2, atom.Li: 1,
	atom.Main: 2, atom.Menu: 2, atom.Nav: 2, atom.Ol: 2, atom.Option: 1, atom.P: 2, atom.Pre: 2,
	atom.Section: 2, atom.Summary: 1, atom.Table: 2, atom.Tr: 1, atom.Ul: 2, atom.Caption: 1,
}

// inCell are the blocks that pages often use to lay out a cell. A table in Markdown has one
// line for each row.
var inCell = map[atom.Atom]bool{
	atom.Div: true, atom.P: true, atom.Section: true, atom.Form: true, atom.Article: true,
}

// skips reports whether a reader sees nothing of an element. Elements that may come without
// an end tag are not looked at: the rest of the page would be lost.
func skips(t html.Token) bool {
	switch t.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Math, atom.Iframe,
		atom.Object, atom.Canvas, atom.Textarea, atom.Noframes, atom.Noembed:
		return true
	case atom.Div, atom.Span, atom.Section, atom.Aside, atom.Article, atom.A, atom.B, atom.Strong, atom.I,
		atom.Em, atom.Table, atom.Ul, atom.Ol, atom.Form, atom.Nav, atom.Header, atom.Footer, atom.Button,
		atom.Pre, atom.Code, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return hidden(t) // these have an end tag, so that it is known how far it goes
	}
	return false
}

// hidden reports whether an element says that it is not shown: text that only a model would
// see is how instructions are smuggled into a page. Styles in style sheets are not looked
// at.
func hidden(t html.Token) bool {
	for _, a := range t.Attr {
		switch a.Key {
		case "hidden":
			// A reader may search for such an element and then sees it (HTML, the hidden
			// attribute).
			return a.Val != "until-found"
		case "aria-hidden":
			return strings.EqualFold(a.Val, "true")
		case "style":
			style := strings.ReplaceAll(strings.ToLower(a.Val), " ", "")
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}
	return false
}

// openList begins a list. One in too many others is shown like an item of those.
func (c *converter) openList(t html.Token) {
	if len(c.lists) == maxNested {
		return
	}
	// A number that is too large, or negative, is a mistake of the page.
	n, err := strconv.Atoi(attr(t, "start"))
	if err != nil || n < 0 || n > 1_000_000 {
		n = 1
	}
	c.lists = append(c.lists, list{t.DataAtom == atom.Ol, n})
}

// item begins an item of the innermost list.
func (c *converter) item() {
	sign, depth := "- ", min(max(len(c.lists)-1, 0), maxIndent)
	if n := len(c.lists); n > 0 && c.lists[n-1].ordered {
		sign = strconv.Itoa(c.lists[n-1].n) + ". "
		c.lists[n-1].n++
	}
	c.out.bullet = strings.Repeat("  ", depth) + sign
}

// cell separates a cell from the one before it. The header of a table is a row like the
// others.
func (c *converter) cell() {
	if c.cells++; c.cells > 1 {
		c.out.words(" | ")
	}
}

// image shows the text that stands for an image. Without such a text the image is
// decoration, or says nothing to a reader.
func (c *converter) image(t html.Token) {
	alt := strings.Join(strings.Fields(attr(t, "alt")), " ")
	if alt == "" || c.pre {
		return
	}
	c.out.words("![" + alt + "]")
	if to := c.link(attr(t, "src")); to != "" {
		c.out.append("(" + to + ")")
	}
}

// link returns where a reference leads, if to a page of the web. A name and a password in
// the address are left out, and brackets are escaped, as they would end the link in
// Markdown.
func (c *converter) link(ref string) string {
	if ref == "" || strings.HasPrefix(ref, "#") || len(ref) > maxLink {
		return ""
	}
	u := c.resolved(ref)
	if u == nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	u.User = nil
	s := strings.NewReplacer("(", "%28", ")", "%29").Replace(u.String())
	if len(s) > maxLink {
		return ""
	}
	return s
}

// resolved returns the address that a reference stands for, relative to the page.
func (c *converter) resolved(ref string) *url.URL {
	u, err := url.Parse(strings.TrimSpace(ref))
	if err != nil {
		return c.base
	}
	if c.base == nil {
		return u
	}
	return c.base.ResolveReference(u)
}

// attr returns an attribute, or "".
func attr(t html.Token, key string) string {
	i := slices.IndexFunc(t.Attr, func(a html.Attribute) bool { return a.Key == key })
	if i < 0 {
		return ""
	}
	return t.Attr[i].Val
}
