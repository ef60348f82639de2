// Package beneath opens a file below a directory with one system call, where the system
// has one that keeps the name from leading out.
//
// A name is slash-separated and relative to the open directory. It is taken only if
// there is no symbolic link on the way, at the end neither, so that what is open has
// this very name. Where that is not so, or the system cannot do it, the error says
// nothing about the name: who gets one opens the file with [os.Root], which gives
// the verdict.
package beneath
