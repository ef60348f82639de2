package catalog

import (
	"strconv"
	"strings"
)

// maxName is the length in bytes of the longest name that is looked up. Names come from users and
// responses, and a longer one cannot be in the catalog.
const maxName = 512

// spellings returns the names under which the catalog may list a model, the most exact first.
// Both arguments must be in lower case.
func spellings(provider, model string) []string {
	names := []string{model}
	if bare := plain(provider, model); bare != model && bare != "" {
		names = append(names, bare)
	}
	last := names[len(names)-1]
	if s, ok := withoutDate(last); ok {
		names = append(names, s)
		last = s
	}
	if provider == "openrouter" && strings.HasPrefix(last, "anthropic/") {
		names = append(names, dotted(last))
	}
	return names
}

// plain removes the parts that some providers put around the name of a model.
func plain(provider, model string) string {
	model = strings.TrimPrefix(model, provider+"/")
	switch provider {
	case "google":
		return strings.TrimPrefix(model, "models/")
	case "vertex":
		return after(strings.TrimPrefix(model, "google/"), "/models/")
	case "bedrock":
		if strings.HasPrefix(model, "arn:") {
			return after(model, ":inference-profile/")
		}
	case "ollama":
		model = strings.TrimPrefix(model, "registry.ollama.ai/")
		model = strings.TrimPrefix(model, "library/")
		return withoutTag(model)
	}
	return model
}

// after returns what follows the last sep, or all of s if there is none.
func after(s, sep string) string {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[i+len(sep):]
	}
	return s
}

// withoutTag removes the tag "latest" from the name of a model of Ollama, since a name without a
// tag means the same. It also removes the quantisation, which makes a model smaller and less
// exact but changes none of the data in the catalog.
func withoutTag(model string) string {
	name, tag, ok := strings.Cut(model, ":")
	if !ok || tag == "latest" {
		return name
	}
	i := strings.LastIndexByte(tag, '-')
	if quantised(tag[i+1:]) {
		tag = tag[:max(i, 0)]
	}
	if tag == "" {
		return name
	}
	return name + ":" + tag
}

// quantised reports whether s names a precision: q4_k_m, q8_0, fp16, bf16, mxfp4.
func quantised(s string) bool {
	switch s {
	case "fp16", "bf16", "f16", "mxfp4":
		return true
	}
	return len(s) > 1 && s[0] == 'q' && '1' <= s[1] && s[1] <= '8' && (len(s) == 2 || s[2] == '_')
}

// withoutDate removes the date from the name of a model: -20250929, -2025-09-29 or @20250929.
// Vertex AI writes @default in place of a date.
func withoutDate(model string) (string, bool) {
	if s, ok := strings.CutSuffix(model, "@default"); ok {
		return s, s != ""
	}
	if i := len(model) - len("-20060102"); i > 0 && (model[i] == '-' || model[i] == '@') &&
		date(model[i+1:]) {
		return model[:i], true
	}
	i := len(model) - len("-2006-01-02")
	if i > 0 && model[i] == '-' && model[i+5] == '-' && model[i+8] == '-' &&
		date(model[i+1:i+5]+model[i+6:i+8]+model[i+9:]) {
		return model[:i], true
	}
	return "", false
}

// date reports whether s is a day of this century, written yyyymmdd.
func date(s string) bool {
	n, err := strconv.ParseUint(s, 10, 32)
	month, day := n/100%100, n%100
	return err == nil && 2020_00_00 < n && n < 2100_00_00 && 1 <= month && month <= 12 &&
		1 <= day && day <= 31
}

// dotted writes the version in the name of an Anthropic model as OpenRouter does:
// claude-sonnet-4-5 becomes claude-sonnet-4.5.
func dotted(model string) string {
	b := []byte(model)
	for i := 1; i+1 < len(b); i++ {
		if b[i] == '-' && digit(b[i-1]) && digit(b[i+1]) && (i+2 == len(b) || !digit(b[i+2])) {
			b[i] = '.'
		}
	}
	return string(b)
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// withoutRegion removes the region from the name of an inference profile of Bedrock. The
// abilities of us.anthropic.claude-… are those of anthropic.claude-…, but its price may differ.
func withoutRegion(provider, model string) (string, bool) {
	if provider != "bedrock" {
		return "", false
	}
	model = after(plain(provider, model), ":foundation-model/")
	region, name, _ := strings.Cut(model, ".")
	switch region {
	case "us", "us-gov", "eu", "apac", "jp", "au", "ca", "sa", "me", "af", "global":
		return name, true
	}
	return model, true
}
