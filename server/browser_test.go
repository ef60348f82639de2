package server_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
)

// A browser is a page of Chromium, driven by the DevTools protocol (https://chromedevtools.github.io/devtools-protocol) over
// a pair of pipes.
type browser struct {
	t       *testing.T
	out     *os.File
	session string

	mu    sync.Mutex
	last  int
	waits map[int]chan answered
	wrong []string // what the console tells, and errors of scripts
	gone  bool
}

type answered struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// newBrowser starts Chromium, or skips the test where there is none. It is ended with the test, at the latest after two minutes.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	name := ""
	for _, n := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(n); err == nil {
			name = path
			break
		}
	}
	if name == "" {
		t.Skip("there is no Chromium to show the page")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	dir := t.TempDir()
	cmd := exec.CommandContext(ctx, name, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe", "--window-size=1000,800", "--user-data-dir="+dir)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	orders, theirOrders, err := pipe()
	require.NoError(t, err)
	theirAnswers, answers, err := pipe()
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{theirOrders, theirAnswers} // 3 and 4
	cmd.Stderr = io.Discard                                // of its helpers, too, so that Wait waits for them and their files
	cmd.WaitDelay = 10 * time.Second
	require.NoError(t, cmd.Start())
	_ = theirOrders.Close()
	_ = theirAnswers.Close()
	b := &browser{t: t, out: orders, waits: map[int]chan answered{}}
	var reading sync.WaitGroup
	reading.Go(func() { b.read(answers) })
	t.Cleanup(func() {
		_ = orders.Close() // it ends then
		_ = cmd.Wait()
		cancel()
		reading.Wait()
		_ = answers.Close()
	})
	var target struct{ TargetID, SessionID string }
	b.call(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	b.call(&target, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(nil, domain+".enable", nil)
	}
	return b
}

// pipe returns a pipe as the end that is written and the end that is read.
func pipe() (w, r *os.File, err error) {
	r, w, err = os.Pipe()
	return w, r, err
}

// read reads what the browser says. Messages end with a zero byte.
func (b *browser) read(from *os.File) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes(0)
		b.mu.Lock()
		if err != nil {
			b.gone = true
			for id, w := range b.waits {
				delete(b.waits, id)
				close(w)
			}
			b.mu.Unlock()
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			answered
		}
		_ = json.Unmarshal(line[:len(line)-1], &m)
		if w := b.waits[m.ID]; w != nil {
			w <- m.answered
			delete(b.waits, m.ID)
		}
		if slices.Contains([]string{"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}, m.Method) {
			b.wrong = append(b.wrong, string(m.Params))
		}
		b.mu.Unlock()
	}
}

// call calls a method of the protocol.
func (b *browser) call(into any, method string, params any) {
	b.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	wait := make(chan answered, 1)
	b.mu.Lock()
	require.False(b.t, b.gone, "the browser has ended")
	b.last++
	id := b.last
	b.waits[id] = wait
	b.mu.Unlock()
	order := map[string]any{"id": id, "method": method, "params": params}
	if b.session != "" {
		order["sessionId"] = b.session
	}
	data, err := json.Marshal(order)
	require.NoError(b.t, err)
	_, err = b.out.Write(append(data, 0))
	require.NoError(b.t, err)
	a, ok := <-wait
	require.True(b.t, ok, "the browser has ended")
	require.Nil(b.t, a.Error, "%s: %v", method, a.Error)
	if into != nil {
		require.NoError(b.t, json.Unmarshal(a.Result, into))
	}
}

// eval returns the value of an expression, which may be a promise.
func (b *browser) eval(expr string) any {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description, Value string }
		}
	}
	b.call(&r, "Runtime.evaluate", map[string]any{"expression": expr, "awaitPromise": true, "returnByValue": true})
	if x := r.ExceptionDetails; x != nil {
		b.t.Fatalf("%s: %s %s%s", expr, x.Text, x.Exception.Description, x.Exception.Value)
	}
	return r.Result.Value
}

// until waits in the page until a condition holds.
func (b *browser) until(cond string) {
	b.t.Helper()
	b.eval(`new Promise((ok, no) => { let n = 0; const look = () => { let is = false; try { is = ` + cond + ` } catch {}
		if (is) ok(); else if (n++ > 1000) no(document.body.innerText); else setTimeout(look, 20); }; look(); })`)
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call(nil, "Page.navigate", map[string]any{"url": url})
	b.until("document.readyState === 'complete' && location.protocol !== 'about:'")
}

// reload loads the page again, and returns when it is another one.
func (b *browser) reload() {
	b.t.Helper()
	b.eval("window.old = true")
	b.call(nil, "Page.reload", nil)
	b.until("!window.old && document.readyState === 'complete'")
}

// write types a text where the focus is.
func (b *browser) write(text string) {
	b.t.Helper()
	b.call(nil, "Input.insertText", map[string]any{"text": text})
}

// press presses keys where the focus is.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	codes := map[string]int{"Enter": 13, "Escape": 27, "Tab": 9}
	for _, k := range keys {
		p := map[string]any{"type": "keyDown", "key": k, "code": k, "windowsVirtualKeyCode": codes[k]}
		if k == "Enter" {
			p["text"] = "\r"
		}
		b.call(nil, "Input.dispatchKeyEvent", p)
		b.call(nil, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": k, "code": k, "windowsVirtualKeyCode": codes[k]})
	}
}

// focused moves the focus with the Tab key until it is on the element with a text or a name, as somebody without a mouse does.
func (b *browser) focused(name string) {
	b.t.Helper()
	var seen []string
	for range 40 {
		at, _ := b.eval(`(document.activeElement?.getAttribute("aria-label") || document.activeElement?.labels?.[0]?.textContent || document.activeElement?.textContent || "").trim().slice(0, 60)`).(string)
		if at == name {
			return
		}
		seen = append(seen, at)
		b.press("Tab")
	}
	b.t.Fatalf("the Tab key does not reach %q: %q", name, seen)
}

// names returns the role and the accessible name of everything with which somebody can do something.
func (b *browser) names() (out []string) {
	b.t.Helper()
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value string }
		}
	}
	b.call(&tree, "Accessibility.getFullAXTree", nil)
	for _, n := range tree.Nodes {
		switch n.Role.Value {
		case "button", "textbox", "link", "dialog", "group", "log", "navigation", "region", "heading", "DisclosureTriangle":
			if !n.Ignored {
				out = append(out, n.Role.Value+" "+n.Name.Value)
			}
		}
	}
	return out
}

// shot writes a picture of the page, if somebody wants to look at it.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv(shotsEnv)
	if dir == "" {
		return
	}
	var r struct{ Data string }
	b.call(&r, "Page.captureScreenshot", nil)
	data, err := base64.StdEncoding.DecodeString(r.Data)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o600))
}

// shotsEnv names a directory for pictures of the page.
const shotsEnv = "AYCODER_SCREENSHOTS"

// commanded is a model that does what the newest message of the user says. To be slow, it waits in the middle of a text
// until the gate opens.
func commanded(gate <-chan struct{}) aycoder.ModelClient {
	edits := 0
	return aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		last := req.Messages[len(req.Messages)-1]
		step := script.Say("# Done\n\nThe file says **three** now:\n\n- `a.txt`\n\n<b>not bold</b>")
		switch text := last.Text(); {
		case strings.HasSuffix(text, "change it"):
			edits++
			args, _ := json.Marshal(map[string]string{"path": "a.txt", "old_string": "two", "new_string": "three"})
			step = script.Reply(script.Think("Hm."), script.Say("I change it."), script.Block(&aycoder.ToolUse{ID: fmt.Sprint("e", edits), Name: "edit_file", Args: args}))
		case strings.HasSuffix(text, "be slow"):
			return func(yield func(aycoder.ModelEvent, error) bool) {
				if !yield(&aycoder.TextDelta{Text: "Slow "}, nil) {
					return
				}
				select {
				case <-gate:
				case <-ctx.Done():
					yield(nil, ctx.Err())
					return
				}
				_ = yield(&aycoder.TextDelta{Text: "but sure."}, nil) && yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "Slow but sure."}}, nil) &&
					yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
			}
		}
		return script.New(step).Stream(ctx, req)
	})
}

// Somebody without a mouse logs in, prompts, approves a change, loads the page again in the middle of a stream, cancels,
// and goes back in the tree. Everything has a name for a screen reader.
func TestPageInBrowser(t *testing.T) {
	b := newBrowser(t)
	gate := make(chan struct{}, 1)
	s := newSite(t, commanded(gate), server.WithToken(token)).start()
	b.open(s.http.URL + "/")
	b.until(`document.getElementById("login").open`)
	require.Contains(t, b.names(), "dialog Token")
	b.shot("login")
	b.focused("Enter the token that the server has printed.")
	b.write("wrong, and long enough")
	b.press("Enter")
	b.until(`document.getElementById("login-error").textContent`)
	b.eval(`document.getElementById("token").select()`)
	b.write(token)
	b.press("Enter")
	b.until(`!document.getElementById("login").open && document.activeElement.id === "prompt"`)
	require.NotContains(t, b.eval("document.cookie"), "aycoder", "no script reads the cookie")
	require.NotContains(t, b.eval("location.href"), token)

	// A prompt, a question with a diff, the answer.
	b.write("change it")
	b.press("Enter")
	b.until(`document.activeElement.classList.contains("ask")`)
	require.Equal(t, "Allow edit_file a.txt?", b.eval(`document.activeElement.getAttribute("aria-label")`))
	require.Contains(t, b.eval(`document.querySelector(".ask .add").textContent`), "+three")
	require.Contains(t, b.eval(`document.querySelector(".ask .del").textContent`), "-two")
	names := b.names()
	require.Contains(t, names, "group Allow edit_file a.txt?")
	b.shot("question")
	b.focused("Allow")
	b.press("Enter")
	b.until(`document.getElementById("state").textContent === "Done."`)
	require.Equal(t, "one\nthree\n", s.file("a.txt"))
	require.Equal(t, "prompt", b.eval("document.activeElement.id"))
	require.Equal(t, "three", b.eval(`document.querySelector(".answer strong").textContent`))
	require.Contains(t, b.eval(`document.getElementById("talk").textContent`), "<b>not bold</b>")
	b.shot("done")

	// The page is loaded again in the middle of a text.
	b.write("be slow")
	b.press("Enter")
	b.until(`document.getElementById("talk").textContent.includes("Slow")`)
	b.shot("slow")
	b.reload()
	b.until(`document.getElementById("talk").textContent.includes("Slow")`)
	gate <- struct{}{}
	b.until(`document.getElementById("state").textContent === "Done."`)
	require.EqualValues(t, 1, b.eval(`document.getElementById("talk").textContent.split("Slow but sure.").length - 1`))
	require.EqualValues(t, 1, b.eval(`document.getElementById("talk").textContent.split("I change it.").length - 1`))
	b.shot("reloaded")

	// Escape cancels.
	b.eval(`document.getElementById("prompt").focus()`)
	b.write("be slow")
	b.press("Enter")
	b.until(`document.getElementById("talk").textContent.split("Slow").length > 2`)
	b.press("Escape")
	b.until(`document.getElementById("state").textContent.includes("cancelled")`)

	// The tree, and a way back in it.
	b.focused("Tree")
	b.press("Enter")
	b.until(`document.querySelectorAll("#nodes button").length > 4`)
	require.Equal(t, "true", b.eval(`document.getElementById("tree-button").getAttribute("aria-expanded")`))
	b.shot("tree")
	for _, n := range b.names() {
		role, name, _ := strings.Cut(n, " ")
		require.True(t, role == "group" || strings.TrimSpace(name) != "", "a %s has no name", role) // details are groups, named by their summary
	}
	before := b.eval(`document.querySelectorAll("#talk .user").length`).(float64)
	b.eval(`[...document.querySelectorAll("#nodes button")].find((x) => x.textContent.includes("Done")).focus()`)
	b.press("Enter")
	b.until(fmt.Sprintf(`document.querySelectorAll("#talk .user").length < %v && document.querySelector("#nodes [aria-current]")?.textContent.includes("Done")`, before))
	b.shot("back")
}

// A prompt that is sent as soon as the page says that a run is over begins the next run, even while the connection of the
// first one is still open, and also when the run is over before the page knows it. It is sent once, and what is entered
// meanwhile stays.
func TestPromptRightAfterTheEnd(t *testing.T) {
	b := newBrowser(t)
	s := newSite(t, commanded(nil), server.WithToken(token)).start()
	paths := make(chan string, 4)
	var prompts atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/prompt" {
			prompts.Add(1)
		}
		s.srv.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/events") {
			paths <- r.URL.Path
			<-r.Context().Done()
		}
	}))
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	b.open(front.URL + "/")
	b.until(`document.getElementById("login").open`)
	b.eval(`document.getElementById("token").focus()`)
	b.write(token)
	b.press("Enter")
	b.until(`!document.getElementById("login").open && document.activeElement.id === "prompt"`)
	prompt := func(words string, answers int) {
		b.write(words)
		b.press("Enter")
		b.until(fmt.Sprintf(`document.getElementById("state").textContent === "Done." && document.querySelectorAll(".answer strong").length === %d`, answers))
	}
	prompt("hello", 1)
	prompt("hello again", 2)
	b.eval(fmt.Sprintf(`run = %q`, strings.Split(<-paths, "/")[3]))
	prompt("and again", 3)
	b.write("twice")
	b.eval(`send(); send(); $("prompt").value = "draft"`)
	b.until(`document.getElementById("state").textContent === "Done." && document.querySelectorAll(".answer strong").length === 4`)
	require.EqualValues(t, 4, prompts.Load())
	b.until(`$("prompt").value === "draft"`)
}
