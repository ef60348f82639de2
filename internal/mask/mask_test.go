package mask

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// The time for an excerpt grows with its length, whatever is in it: secrets that are known already,
// ids of keys, and lines between them that may be of a private key.
func TestExcerptTakesLinearTime(t *testing.T) {
	timed.Serial(t)
	m := New()
	key := newSource(1).an(64)
	for name, lines := range map[string]string{
		"known secrets": "password=aB3dE5fG7h;\n",
		"ids":           "AKIAIOSFODNN7EXAMPLE\n" + key[:40] + " =\n",
		"keys":          "password=aB3dE5fG7h;\n" + key + "\n\n",
	} {
		long := strings.Repeat(lines, 2<<20/len(lines))
		short := timed.Best(3, func() { m.Excerpt(long[:64<<10]) })
		timed.AtMost(t, timed.Best(1, func() { m.Excerpt(long) }), 4*32*short, name)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	timed.Serial(t)
	m := New()
	n := 0
	for seed := range uint64(20) {
		samples := newSource(seed).samples()
		n = len(samples)
		for _, s := range samples {
			for _, around := range []string{"@", "before \"@\" after", "x\n@\ny", "a, @, b", "`@`", "(@)"} {
				if strings.Contains(s.text, "\n") && !strings.Contains(around, "\n") {
					continue
				}
				text := strings.Replace(around, "@", s.text, 1)
				got := m.Mask(text)
				assert.NotContains(t, got, s.secret, "%s: %s", s.name, text)
				assert.Equal(t, got, m.Mask(got), s.name)
				assert.Equal(t, text, m.Secrets(text).Restore(got), s.name)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	require.GreaterOrEqual(t, n, 120)
	t.Logf("%d kinds of samples", n)
}

// In a part of a text also those are masked that only the lines around theirs tell.
func TestExcerptsAreMasked(t *testing.T) {
	m := New()
	for seed := range uint64(20) {
		r := newSource(seed)
		for _, s := range append(r.excerpts(), r.samples()...) {
			got := m.Excerpt(s.text)
			checkHidden(t, got, s)
			require.NotEqual(t, s.text, got, s.name)
			require.Equal(t, got, m.Excerpt(got), s.name)
			require.Equal(t, s.text, m.Secrets(s.text).Restore(got), s.name)
		}
	}
	r := newSource(1)
	for _, text := range []string{
		"-----BEGIN CERTIFICATE-----\n" + r.lines(5) + "-----END CERTIFICATE-----\n",
		"-----BEGIN PUBLIC KEY-----\n" + r.lines(5), r.hex(64) + "\n" + r.hex(64) + "\n",
		r.b64(63), r.b64(65), "x = " + r.b64(64), r.an(40) + "\n", "commit " + r.hex(40) + "\n" + r.b64(40),
		strings.Repeat("abcdefgh", 8) + "\n", "go.sum h1:" + r.b64(64),
		"type NoMethod GoogleCloudAiplatformV1beta1GroundingChunkMapsPlaceAnswerSources\n",
	} {
		require.Equal(t, text, m.Excerpt(text))
	}
}

// Texts that are not secret stay as they are. The texts are those that were masked at some time
// when the trees of Go and of its modules were looked through, and what looks similar.
func TestNearMisses(t *testing.T) {
	r := newSource(1)
	hash, digest, id := r.hex(40), r.hex(64), r.uuid()
	integrity := r.b64(88)
	misses := []string{
		// Names of things.
		"commit " + hash, hash + " refs/heads/main", "sha256:" + digest, "image@sha256:" + digest, digest + "  file.tar.gz", id,
		`"id": "` + id + `"`, "X-Request-Id: " + id, `"integrity": "sha512-` + integrity + `"`, "h1:" + r.b64(44), "go.sum h1:" + r.b64(44),
		"golang.org/x/sys v0.1.0 h1:" + r.b64(44), `resolved "https://registry.npmjs.org/x/-/x-1.0.0.tgz#` + hash + `"`,
		`etag: "` + r.hex(32) + `"`, "checksum = \"" + digest + "\"", "token: " + id, "Token: urn:uuid:" + id, "index " + r.hex(7) + ".." + r.hex(7) + " 100644",
		"cacheKey: \"" + r.hex(40) + "\"", "cache-key=" + digest, "publicKey: \"" + r.b64(44) + "\"", "nextPageToken: \"" + r.an(40) + "\"",
		"page_token=" + r.an(40), "continuation_token: \"" + r.an(40) + "\"", "primary_key: \"" + r.an(20) + "\"", "partition_key = '" + r.an(20) + "'",
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "csrf_token = \"" + r.an(32) + "\"", "token_embd.weight: \"" + digest + "\"", "idempotency_key: " + r.an(32),
		"data:image/png;base64," + r.b64(200), r.b64(400), "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + r.an(43) + " me@host", "ssh-rsa " + r.b64(200),
		"SHA256:" + r.an(43), "key_id: \"" + r.an(20) + "\"", "tokenCount: 1234567890123456789", "max_tokens=4096", "token_type: bearer",
		// Examples.
		"AKIA" + "XXXXXXXXXXXXXXXX", "AKIA" + "0000000000000000", "sk-...", "sk-ant-...", "sk-ant-api03-" + strings.Repeat("x", 40), "sk-your-key-here", "sk-" + strings.Repeat("X", 48),
		"sk-proj-your-api-key-goes-here-please", "ghp_" + strings.Repeat("x", 36), "ghp_" + strings.Repeat("*", 36), "ghp_<your token>", "ghp_xxxxxxxxxxxx", "AIza" + strings.Repeat("X", 35),
		"xoxb-your-token-goes-here-now", "xoxb-xxxxxxxxxxxx-xxxxxxxxxxxx-xxxx", "glpat-xxxxxxxxxxxxxxxxxxxx", "sk_test_xxxxxxxxxxxxxxxxxxxxxxxx", "npm_" + strings.Repeat("a", 36),
		"SG.xxxxxxxx.yyyyyyyy", "hf_" + strings.Repeat("x", 34), "API_KEY=<your-key>", "API_KEY=your-api-key", "API_KEY=your_api_key_here", "API_KEY=xxxxxxxxxxxxxxxx", "API_KEY=changeme", "API_KEY=",
		"API_KEY=...", "API_KEY=****************", "API_KEY=${API_KEY}", "API_KEY=$API_KEY", "API_KEY=$(cat key)", "API_KEY=%API_KEY%", "API_KEY={{ .Values.key }}", "api_key: !vault |",
		"password: changeme", "password: password", "password: secret", "password=hunter2", "password: <password>", "password: \"\"", "password: null", "password: ~", "password: example-password",
		"password=test", "PASSWORD=CHANGE_ME_NOW", "password: 'your password'", "password=\"********\"", "password = TODO", "client_secret: YOUR_CLIENT_SECRET", "SECRET_KEY=insert-key-here",
		"postgres://user:password@localhost/db", "postgres://postgres:postgres@localhost:5432/x", "https://user:pass@example.com", "mysql://root:root@127.0.0.1", "https://<user>:<pass>@host",
		"https://${USER}:${PASS}@host", "https://user:***@host", "redis://:@localhost", "ssh://git@github.com/x/y", "https://github.com/a/b@v1.2.3", "http://localhost:8080/x@y", "mailto:a@b.test",
		"Authorization: Bearer <token>", "Authorization: Bearer $TOKEN", "Authorization: Bearer ${TOKEN}", "Authorization: Bearer your-token-here", "Authorization: Bearer xxxxxxxxxxxxxxxx",
		"Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: token YOUR_TOKEN_GOES_HERE", "the bearer of this letter is a friend", "authorization: required for everybody",
		// Source code.
		"password = getPassword()", "password := os.Getenv(\"DB_PASSWORD\")", "token = response.data.accessToken", "token := p.next()", "secret = config.Secret", "this.password = password2;",
		"apiKey: process.env.API_KEY", "api_key = settings.API_KEY_V2", "var apiKey string", "func token(key string) (secret string)", "if password == \"hunter2hunter2\" {", "if (token === null) {",
		"tokens = append(tokens, token)", "case token.COMMENT:", "type Token struct {", "secretKey := deriveKey(salt1)", "KEY_IDX = C.NL80211_KEY_IDX", "privateKey: testRSA2048PrivateKey,",
		"private_key = load_key('id_rsa')", "FS_IOC_ADD_ENCRYPTION_KEY = 0xc0506617", "passwordField = \"password_field\"", "const tokenName = \"X-Auth-Token\"", "TOKEN_URL=https://auth.test/oauth2/token1",
		"KEY_FILE=/etc/ssl/private/server1.key", "private_key_path: ~/.ssh/id_ed25519", "SECRET=/run/secrets/db1", "password_hash: pbkdf2_sha256", "secret: my-secret-v1", "token: \"access-token-2\"",
		`for key, value := range m {`, "key = sha256.Sum256(data)", "--- PASS: TestAddrStringAllocs/ipv6+zone", "`protobuf_key:\"bytes,1,opt,name=key,proto3\"`", "password required", "Password:",
		"the secret of success is sha256", "| token | string | the access token of the user |", "accessTokenEnvVariable = \"GOOGLE_TOKEN_V2\"", "task-ghp-runner", "disk-usage-report-of-the-last-32-days",
		`<input name="password" value="">`, `{"name": "password", "value": "hunter2"}`, `<option name="token" value="page2"/>`, `"token", valueOf(x1y2z3)`,
		`{"name": "DB_PASSWORD", "value": "${DB_PASSWORD}"}`, "- name: DB_PASSWORD\n  valueFrom: a1b2c3d4e5", "jdbc:oracle:thin:@//db:1521/x1y2z3w4", "new PDO($dsn, $user, $pass1)", "new PDO(dsn(), 'u1', 'pw')",
		"env: ENV TOKEN_URL https://a1.test", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk" + r.an(60), "if !strings.HasPrefix(s, \"-----BEGIN PRIVATE KEY-----\") {\n\treturn errNoPrivateKeyAtTheBeginningOfTheText1\n}\n",
		"if strings.HasPrefix(s, \"-----BEGIN PRIVATE KEY-----\") {\n\treturn strings.TrimSpace(theWholeTextOfTheKeyWithoutItsEnds01)\n}\nreturn theOtherTextThatIsNotAKeyButOneOfWords12345678901(s) {\n",
		"[secret:github-token:0123456789]", "password: [secret:password:0123456789]", "https://u:[secret:url-password:0123456789]@host", "MASK_ghp_short12345",
		`begin := "-----BEGIN PRIVATE KEY-----"`, "strings.Contains(s, \"-----BEGIN RSA PRIVATE KEY-----\") && strings.Contains(s, \"-----END RSA PRIVATE KEY-----\")",
		"begin := \"-----BEGIN PRIVATE KEY-----\"\nend := \"-----END PRIVATE KEY-----\"\n", "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "-----BEGIN PUBLIC KEY-----\n" + r.lines(3) + "-----END PUBLIC KEY-----",
		"-----BEGIN CERTIFICATE-----\n" + r.lines(5) + "-----END CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----\nyour key here\n-----END PRIVATE KEY-----", "the words PRIVATE KEY in a text",
		"curl -u $USER:$PASS https://x", "curl -u user:password https://x", "curl -o me:a1b2c3d4 https://x", "curl -u me https://x:a1B2c3d4", "mysql -p app", "mysql -uroot -p$PASS", "mysql -P 3306 -h db2",
		"docker run -p 8080:80 img1", "docker login -u me --password-stdin", "mkdir -p a1b2c3d4", "ssh -p 2222 me@host1", "sshpass -e ssh me@host", "sshpass -p \"$PASS\" ssh", "redis-cli -h host1 -p 6380", "psql -p 5433 -U me db1",
		"ldapsearch -w $PW", "openssl rsa -passin env:PASS1", "openssl rsa -passin file:/k1", "the user was identified by his badge no 12a", "IDENTIFIED BY '${PASSWORD}'", "IDENTIFIED BY ?", "identified by the id1 of", "PASSWORD NULL", "PASSWORD '?'",
		"define('DB_PASSWORD', getenv('DB_PASSWORD1'));", "define('DB_PASSWORD', 'password_here');", "new mysqli($host1, $user1, $pass1);", "new PDO($dsn1, 'u1', $pw1)", "mysqli_connect('localhost', 'root', '')",
		"connect(host=host1, user=user1, password=pw1x2, database=db1)", "connect(user=u1, password=self.pass2word)", "10:20:30:40:50", "a:5432:b", "x.go:6432:12: a1b2", "$2b$10$...", "echo $6$HOME/a1/b2", "${a}$5$b1", "::ffff:5432:a1:b2:c3d4e5", "postgres:5432:x:y:*", "12:54:3221:00:11",
		"set the password to the one of app1", "git config --global core.editor vim1", "npm config set registry https://r1.test", "me:pass@tcp(db:3306)/app", "user:password@tcp(db:3306)/app", "%s:%s@tcp(%s:%d)/%s",
		"eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0", "a.eyJ.b",
	}
	m := New()
	for _, text := range misses {
		assert.Equal(t, text, m.Mask(text))
	}
	require.GreaterOrEqual(t, len(misses), 120)
	t.Logf("%d texts", len(misses))
}

func TestHashInAList(t *testing.T) {
	r := newSource(1)
	for _, hash := range []string{"$2b$12$" + r.an(53), "$argon2id$v=19$m=65536,t=3,p=4$" + r.an(22) + "$" + r.an(43)} {
		got := New().Mask("1," + hash + ",Bob\n")
		assert.NotContains(t, got, hash)
		assert.Regexp(t, `^1,\[secret:password-hash:[^]]+\],Bob\n$`, got)
	}
}

// Each session has a masker, so its size counts in programs with many sessions. The rules
// alone would be thousands of allocations.
func TestMaskersShareRules(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() { New("the-value-of-a-variable") }); n > 100 {
		t.Errorf("%v allocations for a masker", n)
	}
}
