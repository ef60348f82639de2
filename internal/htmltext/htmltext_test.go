package htmltext

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

var base = &url.URL{Scheme: "https", Host: "a.example", Path: "/dir/page"}

func convert(t testing.TB, page string) Page {
	t.Helper()
	p, err := Convert(strings.NewReader(page), base, 1<<20)
	require.NoError(t, err)
	require.False(t, p.Cut)
	return p
}

func TestConvert(t *testing.T) {
	tests := []struct{ name, page, want string }{
		{"empty", "", ""},
		{"plain", "a  b\n\tc", "a b c"},
		{"paragraphs", "<p>a</p>\n<p>b<p>c", "a\n\nb\n\nc"},
		{"entities", "&lt;a&gt; &amp;amp; &#x41; &unknown;", "<a> &amp; A &unknown;"},
		{"headings", "<h1>One</h1>text<h3>Three</h3><h2></h2>more", "# One\n\ntext\n\n### Three\n\nmore"},
		{"line breaks", "a<br>b<br><br><br>c", "a\nb\n\nc"},
		{"inline", "a<b>b</b> <em>c <code>d</code></em>e", "a**b** *c `d`*e"},
		{"inline without text", "a<b> </b>c<i></i>d", "a cd"},
		{"inline not closed", "<p><b>a", "**a**"},
		{"inline crossed", "<b>a<i>b</b>c</i>d", "**a*b***cd"},
		{"link", `<a href="x?y#z">to <b>x</b></a>.`, "[to **x**](https://a.example/dir/x?y#z)."},
		{"link in link", `<a href="/1">a<a href="/2">b</a>`, "[a](https://a.example/1)[b](https://a.example/2)"},
		{"link of other kinds", `<a href="javascript:x()">a</a> <a href="mailto:a@b">b</a> <a href="#x">c</a> <a>d</a>`, "a b c d"},
		{"link with a login", `<a href="http://u:p@b.example/(x)">a</a>`, "[a](http://b.example/%28x%29)"},
		{"link without text", `<a href="/1"></a>a`, "a"},
		{"link that is broken", `<a href="http://[x">a</a>`, "[a](https://a.example/dir/page)"},
		{"base", `<base href="https://b.example/q/"><a href="x">a</a>`, "[a](https://b.example/q/x)"},
		{"list", "<ul><li>a<li>b<ul><li>c</ul></li><li></li><li><p>d</p></li></ul>e", "- a\n- b\n  - c\n- d\n\ne"},
		{"numbered list", "<ol start=3><li>a</li><li>b</li></ol>", "3. a\n4. b"},
		{"item alone", "<li>a</ul></ol><li>b", "- a\n\n- b"},
		{"quote", "<blockquote><p>a</p></blockquote>b", "> a\n\nb"},
		{"definitions", "<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\nb\nc\nd"},
		{"pre", "a<pre>x  y\n  <b>z</b></pre>b", "a\n\n```\nx  y\n  z\n```\n\nb"},
		{"pre not closed", "<pre>x", "```\nx"},
		{"table", "<table><tr><th>a<th>b</tr><tr><td><p>c</p><td>d</table>e", "a | b\nc | d\n\ne"},
		{"rule", "a<hr>b", "a\n\n---\n\nb"},
		{"image", `<img src=x.png alt="a  b"><img src=y.png><img src="data:x" alt=c>`, "![a b](https://a.example/dir/x.png)![c]"},
		{"script and style", "a<script>if (a<b) x()</script><style>x{}</style>b<noscript>no <b>js</b></noscript>c", "abc"},
		{"svg", "a<svg><title>t</title><svg>x</svg>y</svg>b<svg/>c", "abc"},
		{"comment", "a<!-- b -->c<!doctype html><?x?>", "ac"},
		{"hidden", `a<div hidden>b<div>c</div>d</div>e<span style="Display : None">f</span>g<i aria-hidden=true>h</i>`, "aeg"},
		{"hidden without an end tag", "<p hidden>a<p>b", "a\n\nb"},
		{"script in a script", "<script><!-- <script> </script> --></script>a", "a"},
		{"frame and form", "<iframe>a</iframe><textarea>b</textarea><select><option>c<option>d</select>", "c\nd"},
		{"title", "<title>  The\n page </title><title>x</title><body>b", "x\n\nb"},
		{"end tags alone", "</p></b></a></ul></script></svg>a", "a"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, convert(t, tt.page).Text, tt.name)
	}
	assert.Equal(t, "The page", convert(t, "<title>  The\n page </title>x").Title)
	assert.Empty(t, convert(t, "<title></title>x").Title)
}

func TestConvertWithoutBase(t *testing.T) {
	p, err := Convert(strings.NewReader(`<a href=x>a</a> <a href=http://b.example/x>b</a>`), nil, 100)
	require.NoError(t, err)
	require.Equal(t, "a [b](http://b.example/x)", p.Text)
}

func TestConvertIsCut(t *testing.T) {
	p, err := Convert(strings.NewReader("<p>ä <b>öü</b> end"), base, 6)
	require.NoError(t, err)
	require.True(t, p.Cut)
	require.Equal(t, "ä **", p.Text[:5])
	require.LessOrEqual(t, len(p.Text), 6)
}

func TestConvertTellsOfErrors(t *testing.T) {
	broken := errors.New("broken")
	p, err := Convert(io.MultiReader(strings.NewReader("<p>a<p>b "), iotest.ErrReader(broken)), base, 100)
	require.ErrorIs(t, err, broken)
	require.Equal(t, "a", p.Text[:1])
}

// Pages that are made to be slow, or to take memory, do neither.
func TestConvertBombs(t *testing.T) {
	timed.Long(t, "pages that are made to be slow")
	timed.Serial(t)
	const n = 1 << 18
	for _, unit := range []string{
		"<", "<!", "</", "<!--", "&", "&#", "<a ", "<a href=x>", "<b>", "<b><i>", "<div>", "<ul><li>", "<table><tr><td>",
		"<svg>", "<script>", "<title>", "<pre>", "<textarea>", "<p hidden>", "<div hidden>", "<a b=c d=e ", "\"", "<a href=\"",
		"</p>", "<![CDATA[", "<plaintext>", " ", "\n", "<br>", "<h1>",
	} {
		start := time.Now()
		p, err := Convert(strings.NewReader(strings.Repeat(unit, n/len(unit))), base, n)
		require.NoError(t, err)
		require.LessOrEqual(t, len(p.Text), n)
		timed.Within(t, start, 10*time.Second, unit)
	}
}

func FuzzConvert(f *testing.F) {
	for _, s := range []string{
		"<p>a<b>b</b><a href=x>c</a><ul><li>d</ul><table><tr><td>e</table><pre>f</pre>", "a &amp; b <!-- c -->", "<svg><svg/>a",
	} {
		f.Add(s, 1000)
	}
	f.Fuzz(func(t *testing.T, page string, limit int) {
		limit = max(limit, 0)
		p, err := Convert(strings.NewReader(page), base, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(p.Text), limit)
		if !utf8.ValidString(page) || strings.ContainsRune(page, 0) {
			return
		}
		require.True(t, utf8.ValidString(p.Text))
		whole, err := Convert(strings.NewReader("<script>z</script>"+page), base, 1<<30)
		require.NoError(t, err)
		require.False(t, whole.Cut)
		if !strings.ContainsAny(page, "zZ&") {
			require.NotContains(t, whole.Text, "z")
		}
		if !strings.ContainsAny(page, "<&") {
			require.Equal(t, strings.Join(strings.FieldsFunc(page, blank), " "), whole.Text)
		}
	})
}

func BenchmarkConvert(b *testing.B) {
	page := strings.Repeat("<div class=x><p>Some <b>text</b> of a <a href=/page>page</a>.</p></div>\n", 2000)
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if _, err := Convert(strings.NewReader(page), base, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
