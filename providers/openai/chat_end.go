package openai

import (
	"errors"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// end completes the message. Nothing may be given after the message, so what was held back
// comes first: texts, then blocks, then calls.
func (d *chatDecoder) end() error {
	if !d.begun {
		return d.call.Broken(errChatNoChoice)
	}
	if err := d.failed(); err != nil {
		return err
	}
	for _, step := range []func() error{d.endText, d.endBlocks, func() error { return d.calls.complete(chatEnd) }} {
		if err := step(); err != nil {
			return err
		}
	}
	d.answer.Done.Stop = d.stop()
	d.answer.Done.Usage = d.usage.usage()
	return d.answer.End()
}

// failed returns the error for an answer with a finish reason that means failure.
func (d *chatDecoder) failed() error {
	// A call that could not be parsed is worth another try; those that came whole are kept.
	if lower := strings.ToLower(d.finish); d.calls.n == 0 && (strings.Contains(lower, "malformed") ||
		strings.HasPrefix(lower, "function_call_filter")) {
		// "function_call_filter: MALFORMED_FUNCTION_CALL": Gemini's term, passed on here.
		kind := strings.Clone(d.finish)
		return &aycoder.StreamBrokenError{ModelError: d.call.Base(kind, errors.New(kind)),
			After: d.call.Elapsed()}
	}
	switch d.finish {
	case "error", "network_error":
		return d.call.Broken(errChatFailed)
	case "insufficient_system_resource": // "the request is interrupted due to insufficient resource"
		return d.call.Fail(api.Failure{Type: "overloaded_error", Message: d.finish})
	}
	return nil
}

// endText emits the text that was held back as the possible beginning of a tag.
func (d *chatDecoder) endText() error {
	if d.think != nil {
		thinking, text := d.think.rest()
		if err := d.answer.Thinking(thinking); err != nil {
			return err
		}
		if err := d.visible(text); err != nil {
			return err
		}
	}
	if d.xml != nil {
		return d.xml.end()
	}
	return nil
}

// endBlocks completes open blocks, and adds data that is sent back with the message.
func (d *chatDecoder) endBlocks() error {
	if raw := d.sources(); raw != nil {
		d.answer.Extra(raw)
	}
	if err := d.answer.Close(); err != nil {
		return err
	}
	if raw := d.details.raw(); raw != nil {
		if err := d.answer.Opaque(raw); err != nil {
			return err
		}
	}
	if d.refusal.Len() == 0 {
		return nil
	}
	if err := d.answer.Text(d.refusal.String()); err != nil {
		return err
	}
	d.answer.Extra([]byte(`{"type":"refusal"}`))
	return d.answer.Close()
}

// sources returns the citations of the text as JSON. They go back with the text, and a host
// can show them; the core does not interpret them.
func (d *chatDecoder) sources() []byte {
	if d.annotations+d.citations+d.results == "" {
		return nil
	}
	b := []byte{'{'}
	fields := [][2]string{{"annotations", d.annotations}, {"citations", d.citations}, {"search_results", d.results}}
	for _, f := range fields {
		if f[1] != "" {
			b = append(rawjson.AppendKey(b, f[0]), f[1]...)
		}
	}
	return append(b, '}')
}

// complete reports whether the model finished its answer. Every finish reason that is not
// known to mean that counts as a truncation.
func (d *chatDecoder) complete() bool { return slices.Contains(chatCompleteEnds, d.finish) }

// chatCompleteEnds are the finish reasons of complete answers.
var chatCompleteEnds = []string{
	"stop", "tool_calls", "function_call", "tool_use", "eos", "end_turn", "STOP",
}

// stop returns the stop reason. Services name it differently when there are calls, so the
// calls decide.
func (d *chatDecoder) stop() aycoder.StopReason {
	switch d.finish {
	case "length", "max_tokens", "model_length", "MAX_TOKENS", "model_context_window_exceeded":
		return aycoder.StopMaxTokens
	case "content_filter", "sensitive", "refusal":
		return aycoder.StopRefusal
	}
	switch {
	case d.finish != "" && !d.complete():
		// a substring would keep the chunk in memory
		return aycoder.StopReason(strings.Clone(d.finish))
	case d.refusal.Len() > 0:
		return aycoder.StopRefusal
	case d.calls.n > 0:
		return aycoder.StopToolUse
	}
	return aycoder.StopEndTurn
}
