package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/config"
)

// configCommand does what the arguments of "aycoder config" say.
func configCommand(_ context.Context, k *call) error {
	switch k.action {
	case "schema":
		return k.write(string(config.Schema()))
	case "check":
		return k.checkConfig()
	}
	return k.showConfig()
}

// A shownValue is a value of the configuration. It never has a text that might be secret.
type shownValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func (k *call) showConfig() error {
	st, err := k.load(&options{})
	if err != nil {
		return err
	}
	shown, err := valuesOf(st.loaded)
	if err != nil {
		return err
	}
	return printList(k, shown, func(v *shownValue) string { return fmt.Sprintf("%-32s %s  (%s)", v.Key, v.Value, v.Origin) }, "")
}

// valuesOf returns all values in force: those of the sources, and the default values of other keys.
func valuesOf(loaded *config.Loaded) ([]shownValue, error) {
	usual, err := config.Load()
	if err != nil {
		return nil, err
	}
	values, err := defaults(config.Schema())
	if err != nil {
		return nil, err
	}
	for _, c := range loaded.Since(usual) {
		values[c.Key] = c.After
		if text, err := strconv.Unquote(c.After); err == nil {
			values[c.Key] = text
		}
	}
	var out []shownValue
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, shownValue{key, values[key], placesOf(loaded, key)})
	}
	return out, nil
}

// placesOf returns where a value comes from: of a list, the first entry of each source.
func placesOf(loaded *config.Loaded, key string) string {
	at := loaded.Origin(key)
	text := at.String()
	for i, last := 1, at; ; i++ {
		if at = loaded.Origin(fmt.Sprintf("%s[%d]", key, i)); at.Source == config.Default {
			return text
		}
		if at.Source != last.Source || at.File != last.File {
			text += ", " + at.String()
		}
		last = at
	}
}

// defaults returns the default values of the keys that a schema describes.
func defaults(schema []byte) (map[string]string, error) {
	type property struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Default    json.RawMessage            `json:"default"`
	}
	values := map[string]string{}
	var walk func(data json.RawMessage, key string) error
	walk = func(data json.RawMessage, key string) error {
		var p property
		if err := json.Unmarshal(data, &p); err != nil {
			return err
		}
		if p.Default != nil {
			values[key] = strings.Trim(string(p.Default), `"`)
		}
		for name, inner := range p.Properties {
			full := name
			if key != "" {
				full = key + "." + name
			}
			if err := walk(inner, full); err != nil {
				return err
			}
		}
		return nil
	}
	return values, walk(schema, "")
}

// errFaults is the error of a configuration whose faults were printed.
var errFaults = errors.New("the configuration cannot be used")

// checkConfig prints all faults.
func (k *call) checkConfig() error {
	st, err := k.load(&options{})
	var all []config.Diagnostic
	invalid, ok := errors.AsType[*config.InvalidError](err)
	switch {
	case ok:
		all, err = invalid.Diagnostics, errFaults
	case err != nil:
		return err
	default:
		all = st.loaded.Diagnostics
	}
	return cmp.Or(printList(k, all, func(d *config.Diagnostic) string { return d.String() }, "The configuration has no mistakes."), err)
}
