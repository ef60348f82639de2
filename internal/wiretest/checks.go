package wiretest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/aycoder/aycoder"
)

// CutInCall is for [Suite.Skip]. It leaves out whole messages that the token limit ended
// in a call, which is a block of the kind: the service has repaired its arguments, so
// that nobody can say that they are whole, as the recordings do. A client should say
// that they are not.
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

// WrongSignatures compares the signatures of thinking with those that were recorded on
// blocks of a kind.
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

// Stored takes a message through its stored form.
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
