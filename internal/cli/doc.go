// Package cli is the program aycoder, a coding agent for the command line: a host that is built
// on package harness. It imports no other internal package, so everything that it does, a host
// outside of this module can do as well.
//
// [Main] is the program. An [Extension] adds what this module does not link.
package cli
