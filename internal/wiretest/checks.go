package wiretest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
)

// CutInCall returns a function for [Suite.Skip]. It skips responses that came in one piece and
// that the token limit cut off in the middle of a call, if the call is a block of the given kind.
//
// In such responses the service itself has completed the arguments of the call, so that the
// recordings show a complete call. A client should report the call as incomplete, because its
// remaining arguments are unknown.
func CutInCall(kind string) func(*Recording, *Interaction) string {
	return func(_ *Recording, i *Interaction) string {
		last := len(i.Expected.Blocks) - 1
		if i.Response.Transport == "json" && i.Expected.Finish == "max_tokens" &&
			last >= 0 && i.Expected.Blocks[last] == kind {
			return "whole message, cut off in a call"
		}
		return ""
	}
}

// WrongSignatures compares the signatures of the thinking parts with the recorded signatures of
// the blocks of a kind. It returns the differences.
func WrongSignatures(i *Interaction, kind string, parts []aycoder.Part) (wrong []string) {
	var got, want []string
	for _, p := range parts {
		if th, ok := p.(*aycoder.Thinking); ok && th.Signature != "" {
			sum := sha256.Sum256([]byte(th.Signature))
			got = append(got, fmt.Sprint(len(th.Signature), " ", hex.EncodeToString(sum[:])))
		}
	}
	for _, s := range i.Expected.Signatures {
		if s.On == kind {
			want = append(want, fmt.Sprint(s.Bytes, " ", s.SHA256))
		}
	}
	if !slices.Equal(got, want) {
		wrong = append(wrong, fmt.Sprintf("signatures are %v, want %v", got, want))
	}
	return wrong
}

// Stored encodes a message as JSON and decodes it again, as a host does that stores
// conversations. The result must be as good for the next request as the original.
func Stored(t testing.TB, m *aycoder.Message) *aycoder.Message {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back aycoder.Message
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return &back
}

// ErrorClass returns the type of error that a client should return for a recorded failure, in the
// format of "%T". It depends only on the recorded status, codes and text: the first rule in
// errorClasses that matches decides. If no rule matches, the failure counts as a broken stream.
func ErrorClass(i *Interaction) string {
	e := i.Expected.Error
	// Some services put the HTTP status into the code of an error that comes in a stream.
	code := strings.Trim(string(e.Code), `"`)
	status := e.Status
	if n, err := strconv.Atoi(code); err == nil && status == 0 {
		status = n
	}
	words := []string{strings.ToLower(e.Type), strings.ToLower(code)}
	text := strings.ToLower(e.Message)
	for _, rule := range errorClasses {
		if slices.Contains(rule.status, status) || slices.ContainsFunc(words,
			func(w string) bool { return slices.Contains(rule.words, w) }) ||
			slices.ContainsFunc(rule.texts,
				func(s string) bool { return strings.Contains(text, s) }) {
			return "*aycoder." + rule.class
		}
	}
	return "*aycoder.StreamBrokenError"
}

// errorClasses are the rules of ErrorClass, the most specific first. A rule matches if the
// status, one of the codes, or a part of the text does. Texts come before statuses, because the
// same status 400 stands for a context that is too large, a wrong key, and an invalid request.
var errorClasses = []struct {
	class  string
	status []int
	words  []string
	texts  []string
}{
	{"ContextTooLargeError", nil, nil, []string{"maximum context length", "request too large for"}},
	{"AuthError", []int{401, 402, 403}, []string{"insufficient_quota"},
		[]string{"api key not valid"}},
	{"UnknownModelError", nil,
		[]string{"model_not_found", "invalid_model", "not_found", "not_found_error"},
		[]string{"model not found", "is not a valid model", "model identifier is invalid",
			"end of its life", "model 'nonexistent-model"}},
	{"TimeoutError", []int{408, 504}, nil, nil},
	{"OverloadedError", []int{500, 502, 503, 529}, []string{"overloaded_error"}, nil},
	{"RateLimitError", []int{429}, nil, nil},
	{"BadRequestError", []int{400, 404, 422}, []string{"invalid_request_error"}, nil},
}
