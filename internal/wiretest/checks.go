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

// CutInCall is for [Suite.Skip]. It leaves out whole messages that the token limit ended
// in a call, where the call is a block of the given kind. The service has repaired the
// arguments of such a call, so the recordings show them as complete although nobody can
// know that. A client should report them as incomplete.
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

// WrongSignatures compares the signatures of thinking with those recorded on blocks of a
// kind.
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

// Stored encodes a message in its stored form and decodes it again.
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

// ErrorClass returns the expected class of the error for a recorded failure, in the
// format of "%T". It is derived from the recording's status, codes and text by the rules
// below, of which the first that matches decides.
func ErrorClass(i *Interaction) string {
	e := i.Expected.Error
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

// errorClasses are the rules, the most specific first.
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
