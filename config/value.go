package config

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// convert returns the value of a text, or in words why it is none. The words go on after the key.
func (f *field) convert(text string) (v any, problem string) {
	var err error
	switch f.kind {
	case kindInteger:
		if v, err = strconv.ParseInt(text, 0, f.bits()); octal(text) { // which TOML forbids, as it may be meant as decimal
			err = strconv.ErrSyntax
		}
	case kindNumber:
		v, err = strconv.ParseFloat(text, 64)
		if n := v.(float64); math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, "must be a finite number"
		}
	case kindTruth:
		v = text == "true"
		if text != "true" && text != "false" {
			return nil, "must be true or false"
		}
	case kindDuration:
		v, err = time.ParseDuration(text)
	default:
		return text, ""
	}
	if err != nil {
		return nil, "must be " + string(f.kind)
	}
	return v, ""
}

// octal reports whether an integer begins with a zero that makes it octal in Go.
func octal(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return len(digits) > 1 && digits[0] == '0' && !strings.Contains("bBoOxX", digits[1:2])
}

// bits returns the size of an integer.
func (f *field) bits() int {
	if t := f.typ; t.Kind() == reflect.Int || t.Kind() == reflect.Int64 {
		return t.Bits()
	}
	return 64
}

// judge checks a converted value. It returns what is wrong and what to do.
func (f *field) judge(v any) (severity Severity, problem, help string) {
	switch {
	case f.enum != nil && !slices.Contains(f.enum, v.(string)):
		return Error, "has no such value", f.suggestion(v.(string))
	case f.min != nil && less(v, f.min.value):
		return Error, "is too small", "the smallest possible value is " + f.min.text
	case f.max != nil && less(f.max.value, v):
		return Error, "is too large", "the largest possible value is " + f.max.text
	case f.low != nil && less(v, f.low.value):
		return Warning, "is so small that nothing would run", "the smallest value that makes sense is " + f.low.text
	case f.high != nil && less(f.high.value, v):
		return Warning, "is unreasonably large", "the largest value that makes sense is " + f.high.text
	}
	return "", "", ""
}

func (f *field) suggestion(wrong string) string {
	if best := nearest(wrong, f.enum); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "possible values are " + quoted(f.enum)
}

func quoted(texts []string) string {
	var out []string
	for _, t := range texts {
		out = append(out, strconv.Quote(t))
	}
	return strings.Join(out, ", ")
}

// less compares two numbers or two durations.
func less(a, b any) bool {
	switch a := a.(type) {
	case int64:
		return a < b.(int64)
	case float64:
		return a < b.(float64)
	case time.Duration:
		return a < b.(time.Duration)
	}
	return false
}

// tighter reports whether a value restricts at least as much as the one in force, which is nil if nothing is.
func (f *field) tighter(v, now any) bool {
	switch tight := f.tag.Get("tight"); tight {
	case "lower":
		return now == nil || !less(now, v)
	case "limit": // without a value in force, the default may be a smaller limit
		n, limited := now.(int64)
		return v == now || limited && v.(int64) > 0 && (n <= 0 || v.(int64) <= n)
	case "later":
		return now == nil || cmp.Compare(slices.Index(f.enum, v.(string)), slices.Index(f.enum, now.(string))) >= 0
	case "":
		return true
	default:
		return fmt.Sprint(v) == tight || v == now
	}
}

// permits reports whether a file of a project may set a value in place of the one in force.
func (f *field) permits(v, now any) bool {
	switch {
	case f.asks || f.project == "any" || f.project == "add":
		return true
	case f.project == "tighter":
		return f.tighter(v, now)
	}
	return f.project != "" && slices.Contains(strings.Split(f.project, "|"), fmt.Sprint(v))
}
