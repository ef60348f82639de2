package mask

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// Secrets whose form is more than a beginning and the characters behind it: those with
// parts of a fixed length, with a mark in the middle, or with a check that only their
// surroundings allow. Each is as strict as its issuer's documents, since these are marked
// without a name that says what they are.

// awsKey marks the id of an access key, and on its line what looks like the secret
// that belongs to it. An id has so strict a form that also the one by AWS itself examples is
// marked: it costs nothing to have it back in an edit.
func (f *finder) awsKey(at int) {
	const size = 20
	end := f.run(at, base32)
	if end-at != size || f.goesOn(end) || !f.edge(at) || distinct(f.s[at+4:end]) < 6 {
		return
	}
	from, rest := f.start(at), f.rest(end)
	before := f.s[from:at]
	f.mark(at, end, awsID)
	f.awsSecrets(before, from)
	f.awsSecrets(rest, end)
}

const (
	awsID         = "aws-access-key"
	awsSecret     = "aws-secret-key"
	awsSecretSize = 40
)

// awsSecrets marks what looks like the secret of a key near its id. A secret has no form by
// which it could be found alone: 40 characters of base64 are also a hash.
func (f *finder) awsSecrets(s string, at int) {
	awsTokens(s[:min(len(s), 4*maxBefore)], func(from, to int) { f.mark(at+from, at+to, awsSecret) })
}

// awsTokens tells where a text has what may be the secret of a key.
func awsTokens(s string, tell func(from, to int)) {
	for i := 0; i < len(s); {
		n := 0
		for i+n < len(s) && base64Set.has(s[i+n]) && s[i+n] != '=' {
			n++
		}
		if v := s[i : i+n]; n == awsSecretSize && random(v) && classes(v) >= 3 {
			tell(i, i+n)
		}
		i += n + 1
	}
}

// jwt marks a JSON web token (RFC 7519), or an encrypted one, of which the check sees
// the beginning of the second part.
func (f *finder) jwt(at int) {
	from := f.back(at, base64URL, maxAfter)
	i := strings.Index(f.s[from:at], "eyJ")
	if i < 0 {
		return
	}
	end := f.run(at+1, dotted)
	parts := strings.SplitN(strings.TrimRight(f.s[at+1:min(end, at+4*maxAfter)], "."), ".", 5)
	if len(parts) < 2 || len(parts[0]) < 8 || len(parts[1]) < 16 || madeUp(parts[1]) {
		return
	}
	f.mark(from+i, at+1+len(strings.Join(parts, ".")), "jwt")
}

// terraform marks a token of HCP Terraform: an id of 14 characters stands before.
func (f *finder) terraform(at int) {
	from := f.back(at, alnum, maxBefore)
	end := f.run(at+len(".atlasv1."), base64URL)
	if at-from >= 14 && end-at >= 60 {
		f.mark(from, end, "terraform-token")
	}
}

// azureKey marks a key of Azure: a long one with a signature of the service inside.
func (f *finder) azureKey(at int) {
	from, end := f.back(at, base64Set, maxBefore), f.run(at, base64Set)
	switch end - from {
	case 52, 56, 84, 88:
		if random(f.s[from:end]) {
			f.mark(from, end, "azure-key")
		}
	}
}

// azureSignature marks that of a shared access signature.
func (f *finder) azureSignature(at int) {
	if line := f.s[f.start(at):at]; !strings.HasSuffix(line, "&") && !strings.HasSuffix(line, "?") &&
		!strings.HasSuffix(line, "&amp;") {
		return
	}
	from := at + len("sig=")
	end := f.run(from, tokenSet)
	if end-from >= 40 && random(f.s[from:end]) {
		f.mark(from, end, "azure-signature")
	}
}

// entra marks the secret of an application of Microsoft Entra: three characters, a
// digit, and Q~.
func (f *finder) entra(at int) {
	from := at - 3
	if from < f.near(at) {
		return
	}
	end := at
	for end < min(len(f.s), at+maxBefore) && (dotted.has(f.s[end]) || f.s[end] == '~') {
		end++
	}
	for i := from; i < at; i++ {
		if !dotted.has(f.s[i]) && f.s[i] != '~' {
			return
		}
	}
	if f.edge(from) && end-at >= 30 && mixed(f.s[at:end]) {
		f.mark(from, end, "azure-client-secret")
	}
}

// airtable marks a personal token: an id of 14 characters, and 64 hexadecimal digits.
func (f *finder) airtable(at int) {
	dot := f.run(at+3, alnum)
	if dot-at != 17 || dot >= len(f.s) || f.s[dot] != '.' || !f.edge(at) {
		return
	}
	if end := f.run(dot+1, hexadecimal); end-dot > 60 {
		f.mark(at, end, "airtable-token")
	}
}

// launchDarkly marks a key for a server: sdk- and a UUID.
func (f *finder) launchDarkly(at int) {
	end := f.run(at, base64URL)
	if v := f.s[at+4 : end]; uuid(v) && f.edge(at) && !madeUp(v) {
		f.mark(at, end, "launchdarkly-key")
	}
}

// webhook marks what an address that anybody may post to has after its host.
func (f *finder) webhook(at int) {
	end := at
	for end < min(len(f.s), at+maxBefore) && (dotted.has(f.s[end]) || f.s[end] == '/' || f.s[end] == '@') {
		end++
	}
	path := strings.IndexByte(f.s[at:end], '/') + 1
	if v := f.s[at+path : end]; len(v) >= 30 && !madeUp(v) && hasDigit(v) {
		f.mark(at+path, end, "webhook")
	}
}

// twilio marks an API key: SK and 32 hexadecimal digits.
func (f *finder) twilio(at int) {
	end := f.run(at+2, hexadecimal)
	if v := f.s[at+2 : end]; len(v) == 32 && strings.ToLower(v) == v && f.edge(at) && !madeUp(v) {
		f.mark(at, end, "twilio-key")
	}
}

// telegram marks the token of a bot: its id stands before.
func (f *finder) telegram(at int) {
	from, end := f.back(at, digits, maxBefore), f.run(at+1, base64URL)
	if n := at - from; n >= 8 && n <= 10 && end-at >= 34 && f.edge(from) && mixed(f.s[at+1:end]) {
		f.mark(from, end, "telegram-token")
	}
}

// mailchimp marks a key: the data center stands after 32 hexadecimal digits.
func (f *finder) mailchimp(at int) {
	from := f.back(at, hexadecimal, maxBefore)
	if at-from == 32 && !madeUp(f.s[from:at]) {
		f.mark(from, f.run(at+3, digits), "mailchimp-key")
	}
}

// discordStarts returns how tokens of bots may begin: with a user's id, a number, in
// base64.
func discordStarts() []string {
	var out []string
	for i := range 900 {
		out = append(out, base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(100+i))))
	}
	return out
}

// discord marks the token of a bot: the id, a time and a signature, with dots between them.
func (f *finder) discord(at int) {
	if at > 0 && base64Set.has(f.s[at-1]) && !f.edge(at) {
		return
	}
	first := f.run(at, alnum)
	if first-at < 22 || first-at > 28 || first >= len(f.s) || f.s[first] != '.' {
		return
	}
	second := f.run(first+1, base64URL)
	if second-first != 7 || second >= len(f.s) || f.s[second] != '.' {
		return
	}
	if end := f.run(second+1, base64URL); end-second >= 27 {
		f.mark(at, end, "discord-token")
	}
}

var webKeyParts = []string{`"d"`, `"p"`, `"q"`, `"dp"`, `"dq"`, `"qi"`, `"k"`}

// webKey marks the private parts of a JSON web key (RFC 7518, 6.2.2 and 6.3.2) on the line
// of its type. A public key has the same type, and none of these parts.
func (f *finder) webKey(at int) {
	from := f.start(at)
	line := f.s[from:at] + f.rest(at)
	line = line[:min(len(line), maxValue)]
	for _, name := range webKeyParts {
		i := strings.Index(line, name)
		if i < 0 {
			continue
		}
		value := i + len(name) + len(line[i+len(name):]) - len(strings.TrimLeft(line[i+len(name):], `: "`))
		end := f.run(from+value, base64URL)
		if end-from-value >= 20 {
			f.mark(from+value, end, "private-key")
		}
	}
}

// url marks the password of a user, or the token in its place, in an address. The user is
// the token where services take one without a password.
func (f *finder) url(at int) {
	from := at + len("://")
	rest := f.rest(from)
	rest = rest[:min(len(rest), maxValue)]
	end := strings.IndexAny(rest, " \t\r\"'`<>[]{}|\\^/?#")
	if end < 0 {
		end = len(rest)
	}
	end = strings.LastIndexByte(rest[:end], '@')
	if end < 0 {
		return
	}
	user, password, ok := strings.Cut(rest[:end], ":")
	switch {
	case !ok:
		if len(user) >= 20 && random(user) {
			f.mark(from, from+end, byPlace)
		}
	case plausiblePassword(user, password):
		f.mark(from+len(user)+1, from+end, byPlace)
	}
}

// plausiblePassword reports whether a password may be one that lets somebody in: not
// one of documentation, and not that of a database on a developer's machine, which is
// the name of its user.
func plausiblePassword(user, password string) bool {
	return len(password) >= 3 && len(password) <= maxValue && !strings.EqualFold(user, password) &&
		!example(password) && !strings.ContainsAny(password, "$*,;()") && !wordy(password)
}
