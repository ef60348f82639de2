package server_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
)

// The page loads only its own files, without a token, and nothing in it is a script or a style by itself.
func TestPage(t *testing.T) {
	s := newSite(t, script.New(), server.WithToken(token)).start()
	for path, media := range map[string]string{"/": "text/html", "/page/app.js": "text/javascript", "/page/style.css": "text/css"} {
		res := s.do("GET", path, nil)
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
		require.Contains(t, res.Header.Get("Content-Type"), media)
		require.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self'")
		require.NotContains(t, res.Header.Get("Content-Security-Policy"), "unsafe")
		for _, bad := range []string{"<script>", " style=\"", " onclick=\"", "innerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://"} {
			require.NotContains(t, strings.ReplaceAll(string(data), `(https?:`, ""), bad, path)
		}
	}
	s.refused(404, "not_found", "GET", "/page/index.html", nil)
	s.refused(404, "not_found", "GET", "/page/", nil)
}

// The page gets the token as a cookie that no script reads and no other site sends.
func TestLogin(t *testing.T) {
	s := newSite(t, script.New(), server.WithToken(token)).start()
	s.refused(401, "unauthorized", "GET", "/api/sessions", nil)
	s.refused(401, "unauthorized", "POST", "/login", map[string]string{"token": "wrong"})
	s.refused(403, "origin", "POST", "/login", map[string]string{"token": token}, "Origin", "https://evil.example")
	res := s.get(204, nil, "POST", "/login", map[string]string{"token": token})
	cookie, key := res.Header.Get("Set-Cookie"), res.Header.Get("Aycoder-Page")
	require.Contains(t, cookie, "HttpOnly")
	require.Contains(t, cookie, "SameSite=Strict")
	require.NotContains(t, cookie, token)
	require.NotContains(t, cookie, key)
	value, _, _ := strings.Cut(cookie, ";")
	again := s.get(204, nil, "POST", "/login", map[string]string{"token": token})
	require.NotEqual(t, key, again.Header.Get("Aycoder-Page"))
	require.False(t, strings.HasPrefix(again.Header.Get("Set-Cookie"), value), "each one is another")
	name, signed, _ := strings.Cut(value, "=")
	_, port, _ := strings.Cut(strings.TrimPrefix(s.http.URL, "http://"), ":")
	require.Equal(t, "aycoder-page"+port, name)
	refused := func(s *site, cookie, key string) {
		s.refused(401, "unauthorized", "GET", "/api/sessions", nil, "Cookie", cookie, "Aycoder-Page", key)
	}
	refused(s, name+"="+token, key)
	refused(s, strings.Replace(value, "=1", "=2", 1), key) // ends later
	refused(s, value[:len(value)-1], key)
	refused(s, name+"=.", key)
	refused(s, value, again.Header.Get("Aycoder-Page"))
	// Whoever serves another port of the host gets the cookie, which is not enough, and whoever has another port's is nobody.
	s.refused(401, "unauthorized", "GET", "/api/sessions", nil, "Cookie", value)
	refused(s, "aycoder-page1="+signed, key)
	other := newSite(t, script.New(), server.WithToken(token+"x")).start()
	_, otherPort, _ := strings.Cut(strings.TrimPrefix(other.http.URL, "http://"), ":")
	refused(other, "aycoder-page"+otherPort+"="+signed, key) // of another token
	s.get(200, nil, "GET", "/api/sessions", nil, "Cookie", value, "Aycoder-Page", key)
	s.refused(403, "origin", "POST", "/api/prompt", prompt("x"), "Cookie", value, "Aycoder-Page", key, "Origin", "https://evil.example")
	open := newSite(t, script.New()).start()
	open.refused(401, "unauthorized", "POST", "/login", map[string]string{"token": ""})
}
