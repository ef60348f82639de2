package server

import (
	"embed"
	"net/http"
	"time"
)

//go:embed page
var pageFiles embed.FS

// contentPolicy lets the page load only its own files, and nothing show it in a frame.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pages adds the page. Its files say nothing, so they need no token.
func (s *Server) pages(mux *http.ServeMux) {
	for path, file := range map[string]string{"/{$}": "page/index.html", "/page/app.js": "page/app.js", "/page/style.css": "page/style.css"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Security-Policy", contentPolicy)
			h.Set("Cache-Control", "no-cache")
			http.ServeFileFS(w, r, pageFiles, file)
		})
	}
	mux.Handle("POST /login", s.serve(route{serve: s.login, open: true}))
}

const maxLogin = 8 << 10 // bytes of a body that somebody unknown may send

// login gives the page a cookie, which its scripts cannot read and other sites cannot send. So the token is in no address,
// in no log of one, and not kept by the browser.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Token string `json:"token"`
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	if err := decode(r, &in, true); err != nil {
		return err
	}
	if !s.guard.locked || !s.guard.isToken(in.Token) {
		return refuse(http.StatusUnauthorized, "unauthorized", "the token is not valid")
	}
	value, key := s.guard.newCookie(time.Now())
	w.Header().Set(pageHeader, key)
	http.SetCookie(w, &http.Cookie{Name: pageCookie(r), Value: value, MaxAge: int(pageTime.Seconds()), Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
	w.WriteHeader(http.StatusNoContent)
	return nil
}
