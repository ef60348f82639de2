package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/insight/code"
	"github.com/aycoder/aycoder/insight/usage"
	"github.com/aycoder/aycoder/internal/gittest"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/workspace"
)

// unreadable is an expression for the texts of a page whose colour is less than 4.5 times as light or dark as what is behind
// them: see WCAG 2.2, 1.4.3. A text in a picture is on the last shape before it that holds its place.
const unreadable = `(() => {
	const rgb = c => (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number), clear = c => c === 'none' || rgb(c)[3] === 0
	const light = c => { const [r, g, b] = rgb(c).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
	const style = e => getComputedStyle(e)
	const page = e => { for (; e; e = e.parentElement) if (!clear(style(e).backgroundColor)) return style(e).backgroundColor; return style(document.documentElement).colorScheme.includes('dark') && matchMedia('(prefers-color-scheme: dark)').matches ? 'rgb(18, 18, 18)' : 'rgb(255, 255, 255)' }
	const behind = e => {
		if (!e.ownerSVGElement) return page(e)
		const at = e.getBoundingClientRect(), x = at.x + 2, y = at.y + at.height / 2
		const shapes = [...e.ownerSVGElement.querySelectorAll('rect')].filter(r => {
			const b = r.getBoundingClientRect()
			return !clear(style(r).fill) && b.left <= x && x <= b.right && b.top <= y && y <= b.bottom
		})
		return shapes.length ? style(shapes.at(-1)).fill : page(e)
	}
	return [...document.querySelectorAll('*')].filter(e => !['STYLE', 'TITLE', 'title', 'style'].includes(e.tagName) && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
		const ink = e.ownerSVGElement ? style(e).fill : style(e).color, paper = behind(e)
		const [a, b] = [light(ink), light(paper)].sort((a, b) => b - a)
		return (a + 0.05) / (b + 0.05) < 4.5 ? e.textContent.trim().slice(0, 30) + ' is ' + ink + ' on ' + paper : ''
	}).filter(Boolean)
})()`

// The pages and pictures of package insight and of the code graph are shown without a message in the console, and their texts can
// be read with a light and a dark background.
func TestPagesOfInsight(t *testing.T) {
	b := newBrowser(t)
	pages := map[string]string{"usage.html": usagePage(t), "code.html": codePage(t), "graph.svg": graphPicture(t)}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if filepath.Ext(name) == ".svg" {
			w.Header().Set("Content-Type", "image/svg+xml")
		}
		_, _ = io.WriteString(w, pages[name])
	}))
	defer site.Close()
	for name := range pages {
		for _, scheme := range []string{"light", "dark"} {
			b.call(nil, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
			b.open(site.URL + "/" + name)
			require.Equal(t, true, b.eval("document.querySelectorAll('svg rect').length > 0"), name)
			require.Empty(t, b.eval(unreadable), "%s, %s", name, scheme)
			b.shot(strings.ReplaceAll(name, ".", "-") + "-" + scheme)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.wrong)
}

func usagePage(t *testing.T) string {
	store := journal.Memory()
	for range 3 {
		agent, err := aycoder.New(priced{script.New(script.Call("look", `{}`), script.Say("Done."))}, aycoder.WithTools(lookTool(t)))
		require.NoError(t, err)
		s, err := session.New(t.Context(), store, agent, session.WithDir(t.TempDir()))
		require.NoError(t, err)
		for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "fix <b>the parser</b>"}) {
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
	}
	work, err := usage.Collect(t.Context(), store, nil)
	require.NoError(t, err)
	r, err := work.Report(usage.Options{Days: 30, Rate: 50, Budget: 1, Manual: map[string]time.Duration{"fix": time.Hour}})
	require.NoError(t, err)
	var page bytes.Buffer
	require.NoError(t, r.WriteHTML(&page))
	return page.String()
}

func lookTool(t *testing.T) aycoder.Tool {
	tool, err := aycoder.NewTool("look", "Looks.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("ok"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	return tool
}

// repository makes one with files of several sizes, of which some have changed more often than others.
func repository(t *testing.T) string {
	dir := t.TempDir()
	gittest.Run(t, dir, "init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.org/m\n"), 0o600))
	for round := range 5 {
		for i := range 5 - round {
			pkg, uses := filepath.Join(dir, fmt.Sprint("p", i)), ""
			if i > 0 {
				uses = fmt.Sprintf("import _ \"example.org/m/p%d\"\n", i-1)
			}
			require.NoError(t, os.MkdirAll(pkg, 0o700))
			text := fmt.Sprintf("package p%d\n\n%s", i, uses) + strings.Repeat(fmt.Sprintf("\nvar _ = %d\n", round), 10*(i+1))
			require.NoError(t, os.WriteFile(filepath.Join(pkg, fmt.Sprintf("file_%d.go", i)), []byte(text), 0o600))
		}
		gittest.Run(t, dir, "add", "-A")
		gittest.Run(t, dir, "commit", "-qm", "x")
	}
	return dir
}

func codePage(t *testing.T) string {
	h, err := code.Read(t.Context(), repository(t), code.Options{})
	require.NoError(t, err)
	var page bytes.Buffer
	require.NoError(t, h.WriteHTML(&page))
	return page.String()
}

func graphPicture(t *testing.T) string {
	ws, err := workspace.Open(repository(t))
	require.NoError(t, err)
	defer ws.Close()
	g, err := codegraph.New(ws)
	require.NoError(t, err)
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	return s.Draw("").SVG()
}
