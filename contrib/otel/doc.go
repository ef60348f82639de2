// Package otel tells OpenTelemetry what agents do: a span for each run, request to a model and call of a tool, and
// metrics. It is a separate module, so that no other program depends on OpenTelemetry.
//
//	t, err := otel.New(otel.Options{Tracer: tracerProvider, Meter: meterProvider})
//	agent, err := aycoder.New(t.Model(client), aycoder.WithToolMiddleware(t.Tools()), …)
//	for ev, err := range t.Agent(agent, otel.Run{Name: "coder", Conversation: session}).Run(ctx, in) {
//
// Spans of requests and calls are inside of the span of their run, and those of a subagent inside of the span of the
// call that runs it. Package otlp sends them to a collector, as the variables of OpenTelemetry say.
//
// # Names
//
// Names, kinds, units and attributes are those of the semantic conventions for generative AI
// (https://github.com/open-telemetry/semantic-conventions-genai), which have no release yet and still change: see
// [Version]. The metrics that begin with "aycoder." are this package's: sessions, messages by role, tokens by type,
// calls by tool and status, cost in US dollars, and the time of answers. Package prom offers them to Prometheus as
// aycoder_sessions_total, aycoder_messages_total, aycoder_tokens_total, aycoder_tool_calls_total,
// aycoder_api_cost_dollars_total and aycoder_response_time_seconds.
//
// # What is told
//
// Texts, arguments and outputs are attributes only with [Options].Content, and then they are masked. The values of
// metrics' attributes are bounded: a name of a tool or model that is not expected counts as "other".
//
// The values of error.type are the names of the error types of package aycoder, such as "RateLimitError", and
// "canceled", "timeout" and "_OTHER".
package otel
