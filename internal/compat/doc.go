// Package compat has tests only: they check that the official SDKs of the services
// understand the requests that this library builds, and measure its decoders beside
// theirs. It is a module of its own, so that no host has to take the SDKs in.
//
// A request is decoded into the types that the SDK has for it. Each field must be one of
// the SDK's, each variant of a union the one that is meant, each value of an enumeration
// one that is known, and what is required must be there. Then the SDK sends what it has
// understood: both bodies must say the same.
//
//	go test ./...
//	go test -run '^$' -bench Decode -count 5
package compat
