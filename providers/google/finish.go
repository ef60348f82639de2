package google

import (
	"slices"
	"strconv"

	"github.com/aycoder/aycoder"
)

// The reasons why a candidate finishes, by the numbers that some gateways and clients
// of gRPC write. The two services count differently from 6 on.
var (
	numbered = []string{"FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER",
		"LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY",
		"UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"}
	vertexNumbered = []string{"FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER",
		"BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "MODEL_ARMOR"}
)

// refusals are the reasons of filters.
var refusals = []string{"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
	"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "JAILBREAK", "LANGUAGE"}

// failures are the reasons for which there is no answer: what the model wrote could not
// be read as a call or a message, so that asking again may help. The text that came
// before is of no use either: a call belongs to it.
var failures = []string{"MALFORMED_FUNCTION_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"}

// undeclared says that a call is none of the request's tools, which asking again does not
// change: it is handed on as it is.
const undeclared = "UNEXPECTED_TOOL_CALL"

// unsigned says that the request is wrong: "Request has at least one thought signature
// missing".
const unsigned = "MISSING_THOUGHT_SIGNATURE"

// finishWord is the name of a reason, or "" if the candidate has not finished.
func finishWord(reason, service string) string {
	if reason == "" {
		return ""
	}
	if n, err := strconv.Atoi(reason); err == nil {
		names := numbered
		if service == vertexProvider {
			names = vertexNumbered
		}
		if n >= 0 && n < len(names) {
			reason = names[n]
		}
	}
	if reason == numbered[0] {
		return ""
	}
	return reason
}

// stopReason is a reason in the words that all providers share, if there is one.
func stopReason(word string) aycoder.StopReason {
	switch {
	case word == "STOP":
		return aycoder.StopEndTurn
	case word == "MAX_TOKENS":
		return aycoder.StopMaxTokens
	case slices.Contains(refusals, word):
		return aycoder.StopRefusal
	}
	return aycoder.StopReason(word)
}
