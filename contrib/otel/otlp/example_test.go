package otlp_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aycoder/aycoder/contrib/otel"
	"github.com/aycoder/aycoder/contrib/otel/otlp"
)

// Without variables that say so, nothing is sent.
func ExampleNew() {
	e, err := otlp.New(context.Background(), "my-program")
	if err != nil {
		log.Fatal(err)
	}
	var o otel.Options
	if e != nil {
		defer e.Close(context.Background())
		o.Tracer, o.Meter = e.Tracer, e.Meter
	}
	_, err = otel.New(o)
	fmt.Println(e != nil, err)
	// Output: false <nil>
}
