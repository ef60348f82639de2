// Package compat has tests only: they check that the official SDKs of the services
// understand the requests that this library builds, and measure its decoders beside
// theirs. It is a separate module, so that no host depends on the SDKs.
//
// A request is decoded into the types of the SDK. Each field must exist there, each
// variant of a union must be the intended one, each value of an enumeration must be known,
// and required fields must be present. Then the SDK encodes the decoded request: both
// bodies must mean the same. Signed webhooks are judged by the specification's library.
//
//	go test ./...
//	go test -run '^$' -bench Decode -count 5
package compat
