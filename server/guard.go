package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A guard decides which requests are served, before anything of their body is read.
type guard struct {
	s       *Server
	token   [sha256.Size]byte
	locked  bool // there is a token
	hosts   []string
	origins []string

	mu    sync.Mutex
	taken map[string]time.Time // until when somebody's requests have used up the time
	swept time.Time
}

func newGuard(s *Server, c *config) *guard {
	g := &guard{s: s, locked: c.token != "", hosts: c.hosts, origins: c.origins, taken: map[string]time.Time{}, swept: time.Now()}
	g.token = sha256.Sum256([]byte(c.token))
	return g
}

type principalKey struct{}

const local = "local" // the only principal of a host without the function Principal

func principalOf(r *http.Request) string {
	p, _ := r.Context().Value(principalKey{}).(string)
	return p
}

// around checks what holds for every request: for which host it is, from which page it comes, how large it is and how
// fast it comes.
func (g *guard) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if err := g.check(w, r); err != nil {
			g.s.fail(w, r, err)
			return
		}
		if r.Method == http.MethodOptions && h.Get("Access-Control-Allow-Origin") != "" { // a page asks before it sends
			h.Set("Access-Control-Allow-Methods", "GET, POST")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *guard) check(w http.ResponseWriter, r *http.Request) error {
	if !g.knows(r.Host) {
		return refuse(http.StatusMisdirectedRequest, "host", "the server is not reached by this name")
	}
	if err := g.origin(w, r); err != nil {
		return err
	}
	if !g.allow("address "+address(r), 4) {
		return tooMany("requests")
	}
	if r.ContentLength > g.s.limits.Body {
		return &http.MaxBytesError{Limit: g.s.limits.Body}
	}
	if r.Body != nil && r.Body != http.NoBody {
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Now().Add(g.s.limits.BodyTime)) // not every ResponseWriter can
		r.Body = http.MaxBytesReader(w, r.Body, g.s.limits.Body)
	}
	return nil
}

// knows reports whether a name is one by which the server is reached. Another one may be that of a page whose name
// points to the server for a moment (DNS rebinding).
func (g *guard) knows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	ip, _ := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || ip.IsLoopback() ||
		slices.ContainsFunc(g.hosts, func(h string) bool { return strings.EqualFold(h, host) || strings.EqualFold(h, name) })
}

// origin checks from which page a request comes. One that a program sends says nothing of a page.
func (g *guard) origin(w http.ResponseWriter, r *http.Request) error {
	from := r.Header.Get("Origin")
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case from == "" && (site == "" || site == "same-origin" || site == "none"):
		return nil
	case from == "":
	case strings.EqualFold(from, "http://"+r.Host), strings.EqualFold(from, "https://"+r.Host):
		if site == "" || site == "same-origin" {
			return nil
		}
	case slices.Contains(g.origins, from):
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", from)
		h.Set("Vary", "Origin")
		h.Set("Access-Control-Expose-Headers", "Aycoder-Run, Aycoder-Session, Location")
		return nil
	}
	return refuse(http.StatusForbidden, "origin", "a page of this origin may not use the server")
}

// admit finds out who sends a request.
func (g *guard) admit(r *http.Request) (*http.Request, error) {
	who, err := g.who(r)
	if err != nil {
		return r, err
	}
	if !g.allow("principal "+who, 1) {
		return r, tooMany("requests")
	}
	return r.WithContext(context.WithValue(r.Context(), principalKey{}, who)), nil
}

func (g *guard) who(r *http.Request) (string, error) {
	unknown := refuse(http.StatusUnauthorized, "unauthorized", "the request needs a valid token: Authorization: Bearer")
	if g.s.host.Principal != nil {
		who, err := g.s.host.Principal(r)
		if err != nil || who == "" {
			g.s.logger.InfoContext(r.Context(), "request of nobody known", "path", r.URL.Path, "error", err)
			return "", unknown
		}
		return who, nil
	}
	if g.locked && g.holds(r) || !g.locked && loopback(r) {
		return local, nil
	}
	return "", unknown
}

// holds reports whether a request has the token, or the cookie of somebody who had it. The time that it takes does not
// depend on the token.
func (g *guard) holds(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		c, err := r.Cookie(pageCookie(r))
		return err == nil && g.knowsCookie(c.Value, r.Header.Get(pageHeader), time.Now())
	}
	return g.isToken(given)
}

func (g *guard) isToken(given string) bool {
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

const (
	pageHeader = "Aycoder-Page"
	pageTime   = 7 * 24 * time.Hour // for which the cookie of the page is valid
)

// pageCookie returns the name of the cookie of the page. Browsers send a cookie to each port of a host.
func pageCookie(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "aycoder-page" + port
}

// newCookie returns a value for the cookie of the page: when it ends, and a signature that only the server with this token can
// make. So the cookie does not tell the token, and ends with it. It is of no use without the key, which the page keeps for its
// own origin: whoever serves another port of the host gets the cookie, and no key.
func (g *guard) newCookie(now time.Time) (value, key string) {
	end := strconv.FormatInt(now.Add(pageTime).Unix(), 10)
	key = rand.Text()
	return end + "." + g.sign(end, key), key
}

func (g *guard) sign(end, key string) string {
	mac := hmac.New(sha256.New, g.token[:])
	mac.Write([]byte("cookie " + end + "." + key))
	return hex.EncodeToString(mac.Sum(nil))
}

func (g *guard) knowsCookie(value, key string, now time.Time) bool {
	end, mac, _ := strings.Cut(value, ".")
	at, err := strconv.ParseInt(end, 10, 64)
	return hmac.Equal([]byte(g.sign(end, key)), []byte(mac)) && err == nil && now.Unix() < at
}

// address returns the address of the client without the port.
func address(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// loopback reports whether both ends of a connection are on this machine, and nothing says that a proxy has passed on the
// request of somebody else.
func loopback(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"} {
		if len(r.Header[h]) > 0 {
			return false
		}
	}
	is := func(addr string) bool {
		ap, err := netip.ParseAddrPort(addr)
		return err == nil && ap.Addr().Unmap().IsLoopback()
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && !is(a.String()) {
		return false
	}
	return is(r.RemoteAddr)
}

func tooMany(of string) *problem {
	return later(http.StatusTooManyRequests, "rate_limit", "too many "+of, time.Second)
}

// allow reports whether somebody may send a request now. Each takes its share of a second, and whoever is four seconds ahead has
// to wait. Each principal is counted, and each address, by which a factor more may come.
func (g *guard) allow(name string, factor int) bool {
	share := time.Second / time.Duration(g.s.limits.Rate*factor)
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.swept) > time.Minute {
		g.swept = now
		maps.DeleteFunc(g.taken, func(_ string, until time.Time) bool { return until.Before(now) })
	}
	until := g.taken[name]
	if until.Before(now) {
		until = now
	}
	if until.Sub(now) > 4*time.Second-share {
		return false
	}
	g.taken[name] = until.Add(share)
	return true
}
