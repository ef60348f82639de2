package google

import (
	"slices"
	"strconv"

	"github.com/aycoder/aycoder"
)

// The finish reasons by number, as some gateways and gRPC clients send them. The two
// services number them differently from 6 on.
var (
	numbered = []string{"FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION",
		"OTHER", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL",
		"IMAGE_SAFETY", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"}
	vertexNumbered = []string{"FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY",
		"RECITATION", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL",
		"MODEL_ARMOR"}
)

// refusals are the finish reasons of filters.
var refusals = []string{"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
	"MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "JAILBREAK",
	"LANGUAGE"}

// failures are the reasons without an answer: the service could not parse the model's
// output as a call or a message, so a retry may help. The text before is useless, too,
// because a call belongs to it.
var failures = []string{"MALFORMED_FUNCTION_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"}

// undeclared is the reason for a call of a tool that the request does not declare. A
// retry does not change that, so the call is passed on.
const undeclared = "UNEXPECTED_TOOL_CALL"

// unsigned is the reason for an invalid request: "Request has at least one thought
// signature missing".
const unsigned = "MISSING_THOUGHT_SIGNATURE"

// finishWord returns the name of a finish reason, or "" if the candidate has not
// finished.
func finishWord(reason, service string) string {
	if reason == "" {
		return ""
	}
	if reason[0] < 'A' { // a number, for an error of Atoi would be an allocation for each word
		names := numbered
		if service == vertexProvider {
			names = vertexNumbered
		}
		if n, err := strconv.Atoi(reason); err == nil && n >= 0 && n < len(names) {
			reason = names[n]
		}
	}
	if reason == numbered[0] {
		return ""
	}
	return reason
}

// stopReason converts a finish reason to the terms that all providers share.
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
