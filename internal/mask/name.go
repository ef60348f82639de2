package mask

import (
	"slices"
	"strings"
)

// How much a name says that its value is a secret.
type strength int

const (
	nothing strength = iota
	maybe            // if the value looks drawn by chance
	surely           // if the value does not stand for one
)

// secretNames say that a value is a secret, as one word or as two that follow each other,
// together. The words of a name are joined in pairs, so that api_key and ApiKey are found
// by one entry.
var secretNames = []string{
	"password", "passwd", "passphrase", "passwort", "pwd", "pgpassword", "userpassword", "secret", "apikey", "apitoken",
	"accesskey", "accesstoken", "authtoken", "authkey", "refreshtoken", "bearertoken", "bottoken", "sessiontoken",
	"sessionkey", "idtoken", "secretkey", "privatekey", "clientsecret", "encryptionkey", "signingkey", "signingsecret",
	"masterkey", "accountkey", "sharedkey", "storagekey", "webhooksecret", "jwtsecret", "appsecret", "oauthtoken",
	"personaltoken", "deploytoken", "githubtoken", "gitlabtoken", "npmtoken", "slacktoken", "servicekey", "servertoken",
	"subscriptionkey", "functionkey", "licensekey", "hmackey", "appkey", "authpassword", "dbpassword", "dbpass",
	"requirepass", "masterauth",
}

// oftenSecret are words that more is called than secrets.
var oftenSecret = []string{"token", "auth", "credential", "credentials", "pass", "secrets", "login", "key"}

// openWords say as the last word of a name that the value only tells about a secret.
var openWords = []string{
	"count", "limit", "budget", "usage", "expires", "expiry", "ttl", "type", "kind", "method", "mode", "scheme", "name",
	"names", "url", "uri", "env", "id", "ids", "path", "file", "dir", "folder", "length", "len", "size", "index", "prefix",
	"suffix", "header", "field", "param", "label", "hint", "text", "title", "placeholder", "message", "error", "policy",
	"version", "format", "algorithm", "alg", "arn", "ref", "regex", "pattern", "hash", "digest", "checksum", "sum",
	"fingerprint", "time", "date", "at", "host", "port", "email", "form", "input", "page", "help", "test", "func", "class",
	"selector", "variable", "var", "magic", "flow", "weight", "bias",
	"column", "table", "provider", "manager", "endpoint", "reset", "status", "state", "required", "enabled",
}

// openOwners are the words before key or token of names that are not secrets.
var openOwners = []string{
	"cache", "page", "next", "continuation", "continue", "public", "pub", "primary", "foreign", "partition", "sort", "row",
	"map", "object", "hot", "routing", "group", "index", "search", "shard", "idempotency", "translation", "i18n", "hash",
	"lookup", "query", "unique", "sync", "cancel", "cancellation", "csrf", "lock", "etag", "publishable", "site", "s3",
	"registry", "dedup", "dedupe", "host", "react", "socket", "protobuf", "poly", "for",
}

// strengthOf says what a name tells of its value. The subject of a name is at its end: a
// token's weight is none. In the names of variables of the environment something may follow,
// such as PROD.
func strengthOf(name string) strength {
	words := Words(name)
	n := len(words)
	if n == 0 || slices.Contains(openWords, words[n-1]) {
		return nothing
	}
	before, best := "", nothing
	for i, w := range words {
		end := i == n-1
		switch {
		case slices.Contains(openOwners, before):
		case slices.Contains(secretNames, w), slices.Contains(secretNames, before+w):
			if i >= n-2 || strings.ToUpper(name) == name {
				best = surely
			}
		case end && slices.Contains(oftenSecret, w) && (w != "key" || before != ""):
			best = max(best, maybe)
		}
		before = w
	}
	return best
}

// Words returns the words of a name, in lower case: "X-Api-Key", "api_key", "apiKey" and
// "APIKey" have the same at their end. A capital letter begins a word, unless it is one of
// several in a row; the last of these begins the next word.
func Words(name string) (words []string) {
	start := 0
	cut := func(end, next int) {
		if start < end {
			words = append(words, strings.ToLower(name[start:end]))
		}
		start = next
	}
	for i := range len(name) {
		switch {
		case !isLetter(name[i]):
			cut(i, i+1)
		case isUpper(name[i]) && i > 0 && (!isUpper(name[i-1]) || i+1 < len(name) && isLower(name[i+1])):
			cut(i, i)
		}
	}
	cut(len(name), len(name))
	return words
}

func isUpper(c byte) bool  { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool  { return 'a' <= c && c <= 'z' }
func isLetter(c byte) bool { return isUpper(c) || isLower(c) || c >= 0x80 }
