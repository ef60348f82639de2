package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a request.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// tolerance is by how much the time of a request may differ from that of the receiver. It bounds for how long
// somebody who has seen a request can send it again.
const tolerance = 5 * time.Minute

// A VerifyError says why a request is not accepted.
type VerifyError struct{ Reason string }

// Error implements error.
func (e *VerifyError) Error() string { return "verify a webhook: " + e.Reason }

// Verify checks that a request is from a sender that knows one of the secrets, and that it was sent less than five
// minutes before or after now. A receiver passes the headers and the body as they came, and should do nothing twice
// for the same webhook-id. While a secret is replaced, it passes both. A secret is base64, with or without
// "whsec_" before it. The error is a [*VerifyError] if the request is not accepted.
func Verify(secrets []string, header http.Header, body []byte, now time.Time) error {
	id, stamp := header.Get(headerID), header.Get(headerTimestamp)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	switch {
	case id == "" || stamp == "" || header.Get(headerSignature) == "":
		return &VerifyError{"a header is missing"}
	case err != nil:
		return &VerifyError{"the timestamp is not a number"}
	case now.Sub(time.Unix(seconds, 0)).Abs() > tolerance:
		return &VerifyError{"the timestamp is too old or too new"}
	}
	for _, secret := range secrets {
		key, err := parseSecret(secret)
		if err != nil {
			return err
		}
		want := signature(key, id, stamp, body)
		for got := range strings.FieldsSeq(header.Get(headerSignature)) {
			if hmac.Equal([]byte(got), []byte(want)) {
				return nil
			}
		}
	}
	return &VerifyError{"no signature fits"}
}

// signature signs a message with a symmetric key.
func signature(key []byte, id, stamp string, body []byte) string {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s.%s.%s", id, stamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// parseSecret returns the key of a secret. Its size is the specification's.
func parseSecret(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("a secret of a webhook must be 24 to 64 bytes in base64") // the secret is not quoted
	}
	return key, nil
}

// sign sets the headers of a request, with a signature for each key.
func sign(h http.Header, keys [][]byte, id string, body []byte, now time.Time) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	var all []string
	for _, key := range keys {
		all = append(all, signature(key, id, stamp, body))
	}
	h.Set(headerID, id)
	h.Set(headerTimestamp, stamp)
	h.Set(headerSignature, strings.Join(all, " "))
}
