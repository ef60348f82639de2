package policy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
)

// lines is a writer that wants one line a call.
type lines struct {
	t testing.TB

	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := bytes.IndexByte(p, '\n'); n != len(p)-1 || len(p) > 16<<10 {
		l.t.Errorf("not one line of at most 16 KiB: %d bytes, line end at %d", len(p), n)
	}
	l.all = append(l.all, string(p))
	return len(p), nil
}

func TestAuditLogWritesLines(t *testing.T) {
	w := &lines{t: t}
	log := policy.NewAuditLog(w)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 4 {
				rec := &aycoder.AuditRecord{
					Seq: int64(n), Kind: aycoder.AuditDecision, Place: aycoder.Place{Run: "r"}, Subject: strings.Repeat("é\x01\n\"", i*1000), Time: time.Unix(1, 0).UTC(),
					Rule: strings.Repeat("\x02", 5000), Reason: strings.Repeat("<", 9000), CallID: strings.Repeat("x", 1<<20),
				}
				if err := log.Audit(t.Context(), rec); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, w.all, 32)
	for _, line := range w.all {
		var rec aycoder.AuditRecord
		require.NoError(t, json.Unmarshal([]byte(line), &rec))
		require.Equal(t, aycoder.AuditDecision, rec.Kind)
	}
}

// brokenWriter takes some bytes and then fails, once.
type brokenWriter struct {
	bytes.Buffer
	room int
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.room >= 0 {
		n := min(w.room, len(p))
		w.room = -1
		w.Buffer.Write(p[:n])
		return n, errors.New("disk is full")
	}
	return w.Buffer.Write(p)
}

func TestAuditLogGoesOnAfterATornLine(t *testing.T) {
	for _, room := range []int{0, 10} {
		w := &brokenWriter{room: room}
		log := policy.NewAuditLog(w)
		rec := &aycoder.AuditRecord{Seq: 1, Kind: aycoder.AuditEffect}
		require.ErrorContains(t, log.Audit(t.Context(), rec), "disk is full")
		require.NoError(t, log.Audit(t.Context(), rec))
		require.NoError(t, log.Audit(t.Context(), rec))
		whole := 0
		for line := range strings.Lines(w.String()) {
			if json.Valid([]byte(line)) {
				whole++
			}
		}
		require.Equal(t, 2, whole, w.String())
	}
	require.Error(t, policy.NewAuditLog(nil).Audit(t.Context(), &aycoder.AuditRecord{}))
}

func TestAuditLogMasks(t *testing.T) {
	secret := "Zx9" + strings.Repeat("q7", 12)
	subjects := []string{
		"curl https://me:" + secret + "@example.com/x",
		"curl -H 'Authorization: Bearer " + secret + "' https://example.com",
		"curl -H \"X-Api-Key: " + secret + "\" https://example.com",
		"curl -u me:" + secret + " https://example.com",
		"API_TOKEN=" + secret + " ./deploy",
		"export DB_PASSWORD='" + secret + " with a blank'",
		"mysql --password=" + secret,
		"mysql --password " + secret + " db",
		"login --token \"" + secret + "\"",
		"echo sk-" + secret,
		"echo ghp_" + secret,
		`{"client_secret": "` + secret + `"}`,
		"docker login -u me --password-stdin token: " + secret,
	}
	for _, s := range subjects {
		var buf bytes.Buffer
		require.NoError(t, policy.NewAuditLog(&buf).Audit(t.Context(), &aycoder.AuditRecord{Subject: s, Reason: s, Rule: s}))
		require.NotContains(t, buf.String(), secret, s)
		require.Contains(t, buf.String(), "[masked]", s)
	}
	for _, s := range []string{"go test ./...", "git log --author=me", "git show 0123456789abcdef0123456789abcdef01234567", "make -u key", "curl https://example.com:8080/a@b"} {
		var buf bytes.Buffer
		require.NoError(t, policy.NewAuditLog(&buf).Audit(t.Context(), &aycoder.AuditRecord{Subject: s}))
		require.NotContains(t, buf.String(), "[masked]", s)
	}
	var buf bytes.Buffer
	own := policy.NewAuditLog(&buf, policy.WithMask(strings.ToUpper))
	require.NoError(t, own.Audit(t.Context(), &aycoder.AuditRecord{Subject: "quiet"}))
	require.Contains(t, buf.String(), "QUIET")
}

func BenchmarkAuditLog(b *testing.B) {
	log := policy.NewAuditLog(&bytes.Buffer{})
	rec := &aycoder.AuditRecord{
		Kind: aycoder.AuditDecision, Place: aycoder.Place{Run: "r"}, Key: "t1/ask/toolu_01", Tool: "bash", Verdict: "allow", Rule: "user allow bash:go test *",
		Subject: "cd sub && go test -run 'TestX' -count=1 ./... | tail -20", Digest: strings.Repeat("0", 64), Class: "needs_approval",
	}
	for b.Loop() {
		if err := log.Audit(b.Context(), rec); err != nil {
			b.Fatal(err)
		}
	}
}
