package replay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/replay"
	"github.com/aycoder/aycoder/providers/script"
)

// A tape is the transport of a provider's client. Here a local server takes the place of
// the provider; it is shut down when the tape is played back.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5",
"content":[{"type":"text","text":"It is sunny in Oslo."}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":7}}`)
	}))
	dir, err := os.MkdirTemp("", "tape")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ask := func(mode replay.Mode) {
		tape, err := replay.Open(filepath.Join(dir, "weather.jsonl"), replay.WithMode(mode))
		if err != nil {
			log.Fatal(err)
		}
		client, err := anthropic.New("claude-sonnet-4-5", anthropic.WithAPIKey("a-key-that-is-not-recorded"),
			anthropic.WithBaseURL(server.URL), anthropic.WithHTTPClient(&http.Client{Transport: tape}))
		if err != nil {
			log.Fatal(err)
		}
		req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("How is the weather in Oslo?")}}
		resp, err := aycoder.Complete(context.Background(), client, req)
		if err != nil {
			log.Fatal(err)
		}
		if err := tape.Close(); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", tape.Mode(), resp.Text())
	}
	ask(replay.Record)
	server.Close()
	ask(replay.Replay)
	// Output:
	// record: It is sunny in Oslo.
	// replay: It is sunny in Oslo.
}

// The middleware records any client. A request that differs from the recorded one is an
// error that shows the differences.
func ExampleTape_Client() {
	dir, err := os.MkdirTemp("", "tape")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "weather.jsonl")
	ask := func(client aycoder.ModelClient, question string) error {
		req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User(question)}}
		resp, err := aycoder.Complete(context.Background(), client, req)
		if err == nil {
			fmt.Println(resp.Text())
		}
		return err
	}

	tape, err := replay.Open(path, replay.WithMode(replay.Record))
	if err != nil {
		log.Fatal(err)
	}
	model := tape.Client(script.New(script.Say("Sunny.")))
	if err := errors.Join(ask(model, "How is Oslo?"), tape.Close()); err != nil {
		log.Fatal(err)
	}

	for _, question := range []string{"How is Oslo?", "How is Bergen?"} {
		tape, err := replay.Open(path)
		if err != nil {
			log.Fatal(err)
		}
		err = ask(tape.Client(nil), question)
		if e, ok := errors.AsType[*replay.MismatchError](err); ok {
			fmt.Println(e.Changes[0])
		}
	}
	// Output:
	// Sunny.
	// Sunny.
	// ~ messages[0].parts[0].text: "How is Oslo?" → "How is Bergen?"
}

// The file is meant to be read by people, and its changes to be reviewed.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "tape")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "hello.jsonl")
	tape, err := replay.Open(path, replay.WithMode(replay.Record))
	if err != nil {
		log.Fatal(err)
	}
	model := tape.Client(script.New(script.Say("Hello there.")))
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Hi")}}
	if _, err := aycoder.Complete(context.Background(), model, req); err != nil {
		log.Fatal(err)
	}
	if err := tape.Close(); err != nil {
		log.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(data))
	// Output:
	// {"aycoder_replay":1}
	// {"model":{"provider":"script","model":"script","request":{"messages":[{"role":"user","parts":[{"type":"text","text":"Hi"}]}]}}}
	// {"event":{"type":"text","text":"Hello "}}
	// {"event":{"type":"text","text":"there."}}
	// {"event":{"type":"block","part":{"type":"text","text":"Hello there."}}}
	// {"event":{"type":"done","id":"msg_1","stop":"end_turn","usage":{"input":0,"output":3},"model":"script","provider":"script","request_id":"req_1"}}
	// {"end":"complete"}
	// {"eof":true}
}
