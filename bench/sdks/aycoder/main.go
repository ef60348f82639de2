// Aycoder is a program that embeds this repository's library, as host.mjs embeds the SDKs.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

func main() {
	client := must(anthropic.New("claude-sonnet-4-5", anthropic.WithBaseURL(os.Args[1])))
	store := must(journal.Dir(filepath.Join(os.Getenv("HOME"), ".aycoder")))
	var sessions sync.Map
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var t struct {
			Session int
			Prompt  string
		}
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			log.Fatal(err)
		}
		go func() {
			start := time.Now()
			s, ok := sessions.Load(t.Session)
			if !ok {
				s = open(client, store)
				sessions.Store(t.Session, s)
			}
			turn(s.(*session.Session), t.Prompt, start)
		}()
	}
}

// open opens a session with all coding tools on the current directory, rules for what they may
// do, records on disk, versions of the files, and a compactor.
func open(client aycoder.ModelClient, store journal.Store) *session.Session {
	ws := must(workspace.Open("."))
	files := snapshot.New(ws)
	compactor := must(compaction.New(client, compaction.WithSummarizer(client, "")))
	coding := append(must(tools.Coding(files)), compactor.Recall())
	loop := must(aycoder.New(client, aycoder.WithTools(coding...),
		aycoder.WithApprover(must(policy.New(policy.WithWorkspace(ws.Dir()), policy.WithTools(coding...)))),
		aycoder.WithContextMiddleware(compactor.Middleware),
		aycoder.WithSystem("You are a careful coding agent. You read before you write.")))
	return must(session.New(context.Background(), store, loop, session.WithDir(ws.Dir()),
		session.WithFiles(files), session.WithCompactor(compactor)))
}

func turn(s *session.Session, prompt string, start time.Time) {
	var first, text float64
	since := func() float64 { return float64(time.Since(start).Microseconds()) / 1000 }
	for ev, err := range s.Run(context.Background(), aycoder.Input{Prompt: prompt}) {
		must(ev, err)
		if first == 0 {
			first = since()
		}
		if _, ok := ev.(*aycoder.TextDelta); ok && text == 0 {
			text = since()
		}
	}
	fmt.Printf(`{"first":%f,"text":%f,"end":%f}`+"\n", first, text, since())
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
