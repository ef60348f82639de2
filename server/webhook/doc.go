// Package webhook tells other programs what agents do: it sends HTTP requests to endpoints that a host
// registers, signed as Standard Webhooks 1.0.0 specifies
// (https://github.com/standard-webhooks/standard-webhooks), and [Verify] checks such a request.
//
//	hooks, err := webhook.Open(dir, webhook.Options{})
//	err = hooks.Register(webhook.Endpoint{ID: "ci", URL: "https://ci.example/hook", Secrets: []string{secret}})
//	go hooks.Run(ctx)
//	w := hooks.Watch("session-1", 0)
//	for ev, err := range agent.Run(ctx, in) {
//		w.Event(ev)
//	}
//
// # Delivery
//
// [Sender.Send] returns when the event is on the disk, once for each endpoint that wants it. Each of these
// deliveries is tried until the endpoint answers with a status of 2xx, for three days, after kill -9 too, always
// with the same webhook-id. An endpoint can get an event twice, and events in another order: it has to know by
// the webhook-id what it has seen. After three days the delivery is kept, and [Sender.Failed] lists it. Between
// two tries of a delivery are 5 seconds at first and eight hours at last, and an endpoint that has just failed is
// left alone for a while. At most 10,000 deliveries wait for an endpoint ([Options].Limit): then Send returns [ErrFull], and
// only this endpoint does not get the event.
//
// # What is sent
//
// The body is a JSON object with type, timestamp, version (1) and data. The data of a type in this package says what
// happened, but not what was said: texts, arguments, outputs and commands are in data.content, which only
// endpoints with [Endpoint].Content get. All strings are masked, so that a secret that the model or a tool has shown
// is not sent.
//
// Requests go to public addresses of the Internet by https only, whatever a name resolves to, unless
// [Endpoint].AllowPrivate is set; redirects are not followed and proxies not used.
package webhook
