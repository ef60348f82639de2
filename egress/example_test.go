package egress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/aycoder/aycoder/egress"
)

// A client uses a service that wants a token, which the client does not have.
func Example() {
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s by %s", r.URL.Path, r.Header.Get("Authorization"))
	}))
	defer service.Close()
	roots := x509.NewCertPool()
	roots.AddCert(service.Certificate())
	host := service.Listener.Addr().String()

	proxy, err := egress.New(
		egress.WithTLSConfig(&tls.Config{RootCAs: roots}),
		egress.WithRules(
			// The service of this example is on this machine, so its address is not public.
			egress.Rule{Host: host, Action: egress.Allow, Private: true, Header: http.Header{"Authorization": {"Bearer secret-token"}}},
			egress.Rule{Host: "*.internal.example", Action: egress.Deny},
		),
		egress.WithLog(func(r egress.Record) { fmt.Printf("[%s %s allowed=%t]\n", r.Method, r.Path, r.Allowed) }),
	)
	if err != nil {
		log.Fatal(err)
	}
	// The tool bash has a session for each command, and asks the user by an approval request.
	session := proxy.Session(context.Background(), func(_ context.Context, d egress.Destination) (bool, string) {
		fmt.Println("connect to", d, "?")
		return false, "the user said no"
	})
	defer session.Close()
	client := &http.Client{Transport: session}
	for _, url := range []string{"http://" + host + "/items", "https://wiki.internal.example", "https://example.com/page"} {
		resp, err := client.Get(url)
		if err != nil {
			fmt.Println(err)
			continue
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Printf("%s %v\n", text, err)
	}
	// Output:
	// [GET /items allowed=true]
	// /items by ******************* <nil>
	// [GET  allowed=false]
	// Get "https://wiki.internal.example": wiki.internal.example:443 is denied: by the rule deny *.internal.example
	// connect to example.com:443 ?
	// [GET /page allowed=false]
	// Get "https://example.com/page": example.com:443 is denied: the user said no
}
