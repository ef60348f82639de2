package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/otel"
	"github.com/aycoder/aycoder/contrib/otel/otlp"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli"
)

// telemetryTime bounds what the end of the program waits for a collector.
const telemetryTime = 3 * time.Second

// telemetryExtension sends spans and metrics of all runs to a collector, if variables of the environment say so. A fault of it
// is told, and changes nothing else. end is to be called at the end of the program.
func telemetryExtension(told io.Writer) (e cli.Extension, end func()) {
	end = func() {}
	sent, err := otlp.New(context.Background(), "aycoder")
	if err == nil && sent != nil {
		var t *otel.Telemetry
		content := strings.EqualFold(os.Getenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"), "true")
		if t, err = otel.New(otel.Options{Tracer: sent.Tracer, Meter: sent.Meter, Content: content}); err == nil {
			e.Options = measured("telemetry", t)
		}
		end = func() {
			ctx, cancel := context.WithTimeout(context.Background(), telemetryTime)
			defer cancel()
			if err := sent.Close(ctx); err != nil {
				fmt.Fprintln(told, "aycoder: telemetry:", err)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(told, "aycoder: telemetry is off:", err)
	}
	return e, end
}

// measured are the options by which a telemetry learns of runtimes.
func measured(stage string, t *otel.Telemetry) []harness.Option {
	return []harness.Option{
		harness.WithStage(harness.Stage{Name: stage, Effect: "measures requests and calls", AroundModel: t.Model, AroundTool: t.Tools()}),
		harness.WithAgentMiddleware(func(rt *harness.Runtime) (func(aycoder.Agent) aycoder.Agent, func() error) {
			r := otel.Run{Name: "aycoder"}
			if s := rt.Session; s != nil {
				r.Conversation = s.ID()
				if s.Head() == 0 { // it is new
					t.SessionStarted(context.Background())
				}
			}
			return func(next aycoder.Agent) aycoder.Agent { return t.Agent(next, r) }, nil
		}),
	}
}
