// Package lsp asks language servers.
package lsp
