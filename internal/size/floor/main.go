// Floor is a program with the parts that any client of a model needs: net/http and
// encoding/json. The sizes of the agents beside it are compared with its size.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Println("ready")
		return
	}
	if err := ask(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(url string, words []string) error {
	body, err := json.Marshal(map[string]any{"model": "m", "stream": true, "messages": words})
	if err != nil {
		return err
	}
	resp, err := http.Post(url+"/v1/messages", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}
