package mask

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
)

// The samples are made here from parts, so that no text of this repository looks like
// a secret to those who search for such.
const (
	lowers  = "bcdfghjkmnpqrstvwz"
	capital = "BCDFGHJKLMNPQRSTVWZ"
	numbers = "23456789"
	b32     = "BCDFGHJKLMNPQRSTVWZ234567"
)

type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 7))} }

// of returns n characters of an alphabet, no two of one kind in a row.
func (r source) of(alphabet string, n int) string {
	out := make([]byte, n)
	for i := range out {
		for {
			out[i] = alphabet[r.IntN(len(alphabet))]
			if i == 0 || out[i] != out[i-1] && out[i] != out[i-1]+1 && out[i] != out[i-1]-1 {
				break
			}
		}
	}
	return string(out)
}

// mix returns n characters of which each third is a digit: never a word.
func (r source) mix(alphabet string, n int) string {
	out := []byte(r.of(alphabet, n))
	for i := 1; i < n; i += 3 {
		out[i] = numbers[r.IntN(len(numbers))]
	}
	return string(out)
}

func (r source) an(n int) string    { return r.mix(lowers+capital, n) }
func (r source) lower(n int) string { return r.mix(lowers, n) }
func (r source) hex(n int) string   { return r.mix("abcdef", n) }
func (r source) b64(n int) string   { return r.mix(lowers+capital, n-1) + "=" }
func (r source) caps(n int) string {
	return strings.Map(func(c rune) rune {
		if c == '8' || c == '9' {
			return '7'
		}
		return c
	}, r.mix(capital, n))
}

func (r source) uuid() string {
	return r.hex(8) + "-" + r.hex(4) + "-" + r.hex(4) + "-" + r.hex(4) + "-" + r.hex(12)
}

// part is a part of a JWT, which begins with an object.
func (r source) part() string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"a":"` + r.an(21) + `"}`))
}

func (r source) jwt() string { return r.part() + "." + r.part() + "." + r.an(43) }

// login is a user and a password in base64, which seldom has no digit.
func (r source) login() string {
	for {
		if v := base64.StdEncoding.EncodeToString([]byte("me:" + r.an(20))); hasDigit(v) && turns(v)*4 >= len(v) {
			return v
		}
	}
}

// lines is the body of a private key.
func (r source) lines(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(r.an(64) + "\n")
	}
	return b.String() + r.an(22) + "==\n"
}

func (r source) block(kind string, n int) string {
	return "-----BEGIN " + kind + keyWord + "-----\n" + r.lines(n) + "-----END " + kind + keyWord + "-----"
}

// A sample is a text, and what must not be seen of it.
type sample struct{ name, text, secret string }

// tokens makes samples of secrets that need nothing around them.
func (r source) tokens() []sample {
	aws := "AK" + "IA" + r.caps(16)
	discord := base64.StdEncoding.EncodeToString([]byte("4" + r.of(numbers, 17)))
	all := map[string]string{
		"anthropic": "sk-" + "ant-api03-" + r.an(93) + "AA", "anthropic admin": "sk-" + "ant-admin01-" + r.an(86),
		"anthropic oauth": "sk-" + "ant-oat01-" + r.an(86), "openai": "sk-" + r.an(20) + "T3Blbk" + "FJ" + r.an(20),
		"openai project": "sk-" + "proj-" + r.an(48) + "_" + r.an(40), "openai service": "sk-" + "svcacct-" + r.an(60),
		"openai admin": "sk-" + "admin-" + r.an(60), "openrouter": "sk-" + "or-v1-" + r.hex(64), "deepseek": "sk-" + r.hex(32),
		"google": "AI" + "za" + r.an(35), "google oauth": "ya" + "29." + r.an(60), "google client": "GOC" + "SPX-" + r.an(28),
		"google refresh": "1/" + "/0" + r.an(50), "groq": "gs" + "k_" + r.an(52), "xai": "xa" + "i-" + r.an(80), "perplexity": "pp" + "lx-" + r.an(48),
		"replicate": "r8" + "_" + r.an(37), "huggingface": "hf" + "_" + r.an(34), "nvidia": "nv" + "api-" + r.an(64),
		"together": "tgp" + "_v1_" + r.an(43), "pinecone": "pc" + "sk_" + r.an(70), "tavily": "tv" + "ly-" + r.an(32),
		"langsmith": "ls" + "v2_pt_" + r.hex(32) + "_" + r.hex(10), "elevenlabs": "sk" + "_" + r.hex(48), "langfuse": "sk-" + "lf-" + r.uuid(),
		"aws": aws, "aws temporary": "AS" + "IA" + r.caps(16), "aws bedrock": "AB" + "SK" + r.b64(132), "mws": "amzn" + ".mws." + r.uuid(),
		"digitalocean": "dop" + "_v1_" + r.hex(64), "digitalocean oauth": "doo" + "_v1_" + r.hex(64), "digitalocean refresh": "dor" + "_v1_" + r.hex(64),
		"alibaba": "LT" + "AI" + r.an(20), "heroku": "HR" + "KU-" + r.uuid(), "fly": "fm" + "2_" + r.b64(90), "supabase": "sb" + "p_" + r.hex(40),
		"supabase secret": "sb" + "_secret_" + r.an(31), "planetscale": "psc" + "ale_pw_" + r.an(43), "databricks": "da" + "pi" + r.hex(32),
		"dynatrace": "dt0" + "c01." + r.caps(24) + "." + r.caps(64), "tailscale": "ts" + "key-auth-" + r.an(17) + "-" + r.an(32),
		"github": "gh" + "p_" + r.an(36), "github oauth": "gh" + "o_" + r.an(36), "github user": "gh" + "u_" + r.an(36),
		"github server": "gh" + "s_" + r.an(36), "github refresh": "gh" + "r_" + r.an(76), "github fine": "github" + "_pat_" + r.an(22) + "_" + r.an(59),
		"gitlab": "gl" + "pat-" + r.an(20), "gitlab routable": "gl" + "pat-" + r.an(27) + ".01." + r.lower(9), "gitlab deploy": "gl" + "dt-" + r.an(20),
		"gitlab runner": "gl" + "rt-" + r.an(20), "gitlab trigger": "gl" + "ptt-" + r.hex(40), "gitlab job": "gl" + "cbt-64_" + r.an(20),
		"gitlab old runner": "GR" + "1348941" + r.an(20), "bitbucket": "AT" + "BB" + r.an(32), "atlassian": "AT" + "ATT3" + r.an(180),
		"npm": "np" + "m_" + r.an(36), "pypi": "py" + "pi-AgEIcHlwaS5vcmc" + r.an(140), "rubygems": "ruby" + "gems_" + r.hex(48),
		"docker": "dc" + "kr_pat_" + r.an(27), "sonar": "sq" + "u_" + r.hex(40), "jfrog": "AK" + "Cp" + r.an(69), "vault": "hv" + "s." + r.an(90),
		"terraform": r.an(14) + ".atlas" + "v1." + r.an(67), "pulumi": "pu" + "l-" + r.hex(40), "doppler": "dp" + ".pt." + r.an(43),
		"age": "AGE-" + "SECRET-KEY-1" + r.caps(58), "slack bot": "xo" + "xb-" + r.of(numbers, 12) + "-" + r.of(numbers, 12) + "-" + r.an(24),
		"slack user": "xo" + "xp-" + r.of(numbers, 12) + "-" + r.of(numbers, 12) + "-" + r.of(numbers, 12) + "-" + r.hex(32),
		"slack app":  "xa" + "pp-1-A" + r.caps(10) + "-" + r.of(numbers, 13) + "-" + r.hex(64),
		"stripe":     "sk" + "_live_" + r.an(24), "stripe long": "sk" + "_live_" + r.an(99), "stripe test": "sk" + "_test_" + r.an(24),
		"stripe restricted": "rk" + "_live_" + r.an(24), "stripe webhook": "wh" + "sec_" + r.an(32), "sendgrid": "S" + "G." + r.an(22) + "." + r.an(43),
		"mailgun": "ke" + "y-" + r.hex(32), "mailchimp": r.hex(32) + "-us" + "12", "brevo": "xkey" + "sib-" + r.hex(64) + "-" + r.an(16),
		"twilio": "S" + "K" + r.hex(32), "telegram": r.of(numbers, 10) + ":A" + "A" + r.an(33), "discord": discord + "." + r.an(6) + "." + r.an(38),
		"shopify": "sh" + "pat_" + r.hex(32), "square": "sq0" + "atp-" + r.an(22), "notion": "nt" + "n_" + r.an(46), "linear": "lin" + "_api_" + r.an(40),
		"figma": "fi" + "gd_" + r.an(40), "postman": "PM" + "AK-" + r.hex(24) + "-" + r.hex(34), "airtable": "pa" + "t" + r.an(14) + "." + r.hex(64),
		"newrelic": "NR" + "AK-" + r.caps(27), "grafana": "gl" + "sa_" + r.an(32) + "_" + r.hex(8), "sentry": "sn" + "tryu_" + r.hex(64),
		"launchdarkly": "sd" + "k-" + r.uuid(), "plaid": "access" + "-sandbox-" + r.uuid(), "easypost": "EZ" + "AK" + r.an(54),
		"azure storage": r.an(76) + "+AS" + "t" + r.an(6) + "==", "azure openai": r.an(52) + "JQQ" + "J99" + r.an(26),
		"entra": "k" + "8Q" + "8Q~" + r.an(34), "jwt": r.jwt(), "jwe": "eyJ" + r.an(20) + ".eyJ" + r.an(40) + "." + r.an(22) + "." + r.an(40) + "." + r.an(22),
		"cloudflare account": "cf" + "at_" + r.an(40), "vercel app": "vc" + "a_" + r.an(24), "neon": "na" + "pi_" + r.an(64), "mongodb": "mdb" + "_sa_sk_" + r.an(40),
		"hubspot": "pat" + "-na1-" + r.uuid(), "jfrog reference": "cmVm" + "dGtu" + r.an(56), "deno": "dd" + "p_" + r.an(36), "kaggle": "KG" + "AT_" + r.hex(32),
		"mapbox": "sk" + ".eyJ" + r.an(60) + "." + r.an(22), "paddle": "pdl" + "_live_apikey_" + r.an(26) + "_" + r.an(22) + "_" + r.an(3), "firecrawl": "fc" + "-" + r.hex(32),
		"extended key": "xp" + "rv9s21ZrQH143K" + r.an(95),
		"contentful":   "CF" + "PAT-" + r.an(43), "typeform": "tf" + "p_" + r.an(44), "circleci": "CC" + "IPAT_" + r.an(22) + "_" + r.hex(40),
	}
	var out []sample
	for name, v := range all {
		out = append(out, sample{name, v, v})
	}
	slices.SortFunc(out, func(a, b sample) int { return strings.Compare(a.name, b.name) })
	return out
}

// placed makes samples of secrets that are known by where they stand.
func (r source) placed() []sample {
	var out []sample
	add := func(name, format, secret string) {
		out = append(out, sample{name, strings.Replace(format, "@@", secret, 1), secret})
	}
	add("env", "DB_PASSWORD=@@", r.an(12))
	add("env in quotes", `export SECRET_KEY="@@"`, r.an(24))
	add("env of a service", "STRIPE_KEY=@@", r.an(30))
	add("env of a stage", "DATABASE_PASSWORD_PROD=@@", r.an(14))
	add("env odd characters", "ADMIN_PASSWORD=@@", r.an(6)+"!#"+r.an(4))
	add("json", `{"password": "@@", "user": "x"}`, r.an(12))
	add("json camel", `"clientSecret":"@@"`, r.an(32))
	add("json in json", `{"body":"{\"api_key\":\"@@\"}"}`, r.an(32))
	add("json credential", `  "SecretAccessKey": "@@",`, r.an(40))
	add("yaml", "  password: @@", r.an(12))
	add("yaml list", "- api_key: @@", r.an(32))
	add("yaml quotes", "token: '@@'", r.an(24))
	add("kubernetes", "  db-password: @@", r.b64(24))
	add("toml", `api_token = "@@"`, r.an(32))
	add("ini", "aws_secret_access_key = @@", r.an(40))
	add("properties", "spring.datasource.password=@@", r.an(12))
	add("xml", "<password>@@</password>", r.an(12))
	add("xml attribute", `<add key="x" password="@@" />`, r.an(12))
	add("connection string", "Server=db;User Id=sa;Password=@@;Encrypt=yes", r.an(14))
	add("azure connection", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=@@;EndpointSuffix=core", r.an(86)+"==")
	add("service bus", "Endpoint=sb://x/;SharedAccessKeyName=root;SharedAccessKey=@@", r.b64(44))
	add("go source", "\tpassword := \"@@\"", r.an(12))
	add("python source", "API_KEY = '@@'", r.an(32))
	add("ruby source", ":secret_key => '@@',", r.an(32))
	add("js source", "const apiKey = `@@`;", r.an(32))
	add("map index", `config["password"] = "@@"`, r.an(12))
	add("flag", "mysql --user root --password=@@ db", r.an(12))
	add("flag with space", "gh auth login --token @@", r.an(24))
	add("query", "GET /v1?user=1&access_token=@@&x=1", r.an(32))
	add("form", "grant_type=x&client_secret=@@", r.an(32))
	add("netrc line", "machine api.test login me password @@", r.an(12))
	add("netrc lines", "machine api.test\n  login me\n  password @@\n", r.an(12))
	add("npmrc", "//registry.npmjs.org/:_authToken=@@", r.uuid())
	add("docker config", `"auths":{"r.io":{"auth":"@@"}}`, r.login())
	add("git credentials", "https://me:@@@github.test", r.an(20))
	add("postgres", "postgres://app:@@@db.internal:5432/x?sslmode=disable", r.an(10))
	add("redis without user", "redis://:@@@cache:6379/0", r.an(10))
	add("amqp", "amqp://svc:@@@mq/vhost", r.an(8))
	add("url token", "git clone https://@@@git.test/x.git", r.an(36))
	add("bearer", "Authorization: Bearer @@", r.an(32))
	add("bearer in curl", `curl -H "Authorization: Bearer @@" https://x`, r.an(24))
	add("bearer in json", `"Authorization": "Bearer @@"`, r.an(24))
	add("lower case header", "authorization: token @@", r.hex(40))
	add("basic", "Authorization: Basic @@", base64.StdEncoding.EncodeToString([]byte("me:"+r.an(12))))
	add("no scheme", "Authorization: @@", r.an(32))
	add("api key header", "X-Api-Key: @@", r.an(32))
	add("header in code", `req.Header.Set("X-Auth-Token", "x"); token: "@@"`, r.an(32))
	add("cookie", "Cookie: theme=dark; session=@@; lang=en", r.an(32))
	add("set-cookie", "Set-Cookie: sid=@@; Path=/; HttpOnly", r.an(32))
	add("slack webhook", "https://hooks.slack.com/services/@@", "T"+r.caps(8)+"/B"+r.caps(8)+"/"+r.an(24))
	add("discord webhook", "https://discord.com/api/webhooks/@@", r.of(numbers, 18)+"/"+r.an(68))
	add("sas", "https://x.blob.core/y?sv=2022-11-02&sr=b&sig=@@&se=2026", r.an(43)+"%3D")
	add("jwk", `{"kty":"EC","crv":"P-256","x":"abc","d":"@@"}`, r.an(43))
	add("escape before", `"log":"line\n`+`@@"`, "gh"+"p_"+r.an(36))
	add("in a URL", "https://x/?t%3D@@", "gh"+"p_"+r.an(36))
	add("line number", "    12\tpassword: @@", r.an(12))
	add("grep", "config.yml:12:password: @@", r.an(12))
	add("diff", "+DB_PASSWORD=@@", r.an(12))
	add("curl", "curl -s -u me:@@ https://x.test", r.an(10))
	add("curl in quotes", "curl --user 'me:@@' https://x.test", r.an(6)+"!#"+r.an(4))
	add("curl attached", "curl -sS -ume:@@ -o out https://x.test", r.an(10))
	add("curl proxy", "/usr/bin/curl --proxy-user me:@@ https://x.test", r.an(10))
	add("curl with =", "curl --user=me:@@ https://x.test", r.an(10))
	add("wget", "wget --user me --password '@@' https://x.test", r.an(10))
	add("mysql", "mysql -u root -p@@ app", r.an(10))
	add("mysql in quotes", "mysql -h db -uroot -p'@@' app <dump.sql", r.an(10))
	add("mysqldump", "0 3 * * * mysqldump -uroot -p@@ app | gzip >x.gz", r.an(10))
	add("mariadb", "mariadb --host=db -p@@", r.an(10))
	add("sshpass", "sshpass -p @@ ssh me@host", r.an(10))
	add("sshpass attached", "sshpass -p'@@' scp a me@host:", r.an(10))
	add("redis-cli", "redis-cli -h cache -a @@ ping", r.an(16))
	add("redis.conf", "requirepass @@", r.an(16))
	add("sqlcmd", "sqlcmd -S db -U sa -P @@ -Q 'select 1'", r.an(12))
	add("docker login", "docker login -u me -p @@ registry.test", r.an(20))
	add("mongosh", "mongosh --host db -u me -p @@", r.an(12))
	add("ldapsearch", "ldapsearch -x -D cn=admin -w @@ -b dc=x", r.an(12))
	add("smbclient", "smbclient -U me%@@ //server/share", r.an(12))
	add("openssl", "openssl rsa -in key.pem -passin pass:@@", r.an(12))
	add("htpasswd", "htpasswd -b .htpasswd me @@", r.an(12))
	add("sqlplus", "sqlplus app/@@@db:1521/x", r.an(12))
	add("npm config", "npm config set //r.test/:_authToken @@", r.an(36))
	add("aws configure", "aws configure set aws_secret_access_key @@", r.an(40))
	add("pgpass", "db.internal:5432:app:me:@@", r.an(10))
	add("pgpass with stars", "*:*:*:me:@@", r.an(10))
	add("pgpass of a pooler", "db.internal:6432:app:me:@@", r.an(10))
	add("pgpass of a service", "db.internal:25060:app:me:@@", r.an(10))
	add("shadow", "me:@@:19700:0:99999:7:::", "$6$"+r.an(16)+"$"+r.an(86))
	add("shadow with rounds", "me:@@:19700::::::", "$5$rounds=5000$."+r.an(15)+"$"+r.an(43))
	add("shadow of yescrypt", "me:@@:19700:0:99999:7:::", "$y$j9T$"+r.an(22)+"$"+r.an(43))
	add("htpasswd file", "me:@@", "$apr1$"+r.an(8)+"$"+r.an(22))
	add("bcrypt in sql", "INSERT INTO users VALUES (1, 'me', '@@');", "$2b$12$"+r.an(53))
	add("argon2", `{"hash":"@@"}`, "$argon2id$v=19$m=65536,t=3,p=4$"+r.an(22)+"$"+r.an(43))
	add("django", "@@", "pbkdf2_sha256$600000$"+r.an(22)+"$"+r.an(43)+"=")
	add("pgpass with number", "    12\tdb.internal:5432:*:me:@@", r.an(10))
	add("sql", "CREATE USER 'me'@'%' IDENTIFIED BY '@@';", r.an(10))
	add("sql plugin", "ALTER USER me IDENTIFIED WITH caching_sha2_password BY \"@@\";", r.an(10))
	add("sql oracle", "ALTER USER me IDENTIFIED BY @@;", r.an(10))
	add("sql role", "CREATE ROLE me WITH LOGIN PASSWORD '@@';", r.an(10))
	add("sql encrypted", "alter user me with encrypted password '@@' valid until 'infinity';", r.an(10))
	add("sql set", "SET PASSWORD FOR 'me'@'%' = PASSWORD('@@');", r.an(10))
	add("sql server", "CREATE LOGIN me WITH PASSWORD = N'@@';", r.an(10))
	add("php define", "define('DB_PASSWORD', '@@');", r.an(10))
	add("php define in quotes", "define( \"AUTH_KEY\", \"@@\" );", r.an(40))
	add("php array", "  'password' => '@@',", r.an(10))
	add("php index", "$cfg['Servers'][$i]['password'] = '@@';", r.an(10))
	add("php mysqli", "$db = new mysqli(\"db\", \"me\", \"@@\", \"app\");", r.an(10))
	add("php mysqli_connect", "mysqli_connect('db', 'me', '@@');", r.an(10))
	add("php pdo", "$db = new PDO('mysql:host=db;dbname=x', 'me', '@@');", r.an(10))
	add("php pdo with variables", "$db = new PDO($dsn, $user, '@@');", r.an(10))
	add("php ldap", "ldap_bind($c, 'cn=admin', '@@');", r.an(10))
	add("pair in json", `{"name": "DB_PASSWORD", "value": "@@"}`, r.an(10))
	add("pair in xml", `<add key="ApiSecret" value="@@"/>`, r.an(24))
	add("pair of spring", `<property name="password" value="@@" />`, r.an(10))
	add("dockerfile", "ENV API_TOKEN @@", r.an(24))
	add("curl certificate", "curl -E cert.pem:@@ https://x.test", r.an(10))
	add("curl key", "curl --key k.pem --pass @@ https://x.test", r.an(10))
	add("keytool", "keytool -list -keystore x -storepass @@", r.an(10))
	add("unzip", "unzip -P @@ x.zip", r.an(10))
	add("go dsn", "sql.Open(\"mysql\", \"me:@@@tcp(db:3306)/app?parseTime=true\")", r.an(10))
	add("go dsn of a socket", "me:@@@unix(/tmp/mysql.sock)/app", r.an(10))
	add("key value dsn", "host=db port=5432 user=me password=@@ dbname=app", r.lower(10))
	add("key value dsn in quotes", "dsn := \"host=db user=me password=@@ sslmode=disable\"", r.lower(10))
	add("jdbc", "jdbc:postgresql://db/app?user=me&password=@@&ssl=true", r.lower(10))
	add("jdbc of sql server", "jdbc:sqlserver://db:1433;databaseName=x;user=me;password=@@;", r.lower(10))
	add("jdbc of oracle", "jdbc:oracle:thin:me/@@@//db:1521/x", r.an(10))
	add("odbc", "Driver={x};Server=db;Uid=me;Pwd=@@;", r.lower(10))
	return out
}

// excerpts makes samples of secrets that are known only by the lines around theirs.
func (r source) excerpts() []sample {
	var out []sample
	add := func(name, text, secret string) { out = append(out, sample{name, text, secret}) }
	lines := strings.Split(r.block("", 9), "\n")
	page := lines[3:7]
	add("page of a key", strings.Join(page, "\n")+"\n", page[2])
	add("numbered page", "     4\t"+page[0]+"\n     5\t"+page[1]+"\n", page[1])
	add("one line of a key", page[1]+"\n", page[1])
	add("line of grep", "certs/server.key:4:"+page[1]+"\n", page[1])
	add("lines of grep", "certs/server.key-3-"+page[0]+"\ncerts/server.key:4:"+page[1]+"\n", page[1])
	add("page of a diff", "@@ -3,2 +3,2 @@\n-"+page[0]+"\n+"+page[1]+"\n", page[1])
	wide := r.an(70)
	add("openssh page", wide+"\n"+r.an(70)+"\n", wide)
	id, secret := "AK"+"IA"+r.caps(16), r.an(18)+"/"+r.an(21)
	add("aws on two lines", id+"\n"+secret+"\n", secret)
	add("aws the other way", secret+"\n"+id+"\n", secret)
	add("aws with a line between", "id: "+id+"\n\nkey: "+secret+"\n", secret)
	add("aws numbered", "3:"+id+"\n4:"+secret+"\n", secret)
	add("page of git blame", "0a1b2c3d (Me 2026-01-02 10:00:00 +0000  4) "+page[0]+"\n0a1b2c3d (Me 2026-01-02 10:00:00 +0000  5) "+page[1]+"\n", page[1])
	add("page of cat -A", page[0]+"$\n"+page[1]+"$\n", page[1])
	b := strings.Join(lines, "\n")
	add("pem of git blame", "0a1b2c3d (Me  2026-01-02 10:00:00 +0000  1) "+
		strings.ReplaceAll(b, "\n", "\n9f8e7d6c (You 2025-01-02 10:00:00 +0000 12) "), lines[1])
	add("pem of git blame without beginning", strings.ReplaceAll("\n"+b[strings.Index(b, "\n")+1:], "\n", "\n9f8e7d6c (Me 2025-01-02 10:00:00 +0000 12) "), lines[1])
	add("pem with rules", "   1 │ "+strings.ReplaceAll(b, "\n", "\n  12 │ "), lines[1])
	add("pem in a script", "echo \""+strings.ReplaceAll(b, "\n", "\" >> key\necho \"")+"\" >> key", lines[1])
	d, pw := r.an(43), r.an(12)
	add("jwk in lines", "{\n  \"kty\": \"EC\",\n  \"crv\": \"P-256\",\n  \"d\": \""+d+"\"\n}\n", d)
	add("jwk with the type behind", "{\"keys\": [{\n  \"d\" : \""+d+"\",\n  \"kty\": \"OKP\"\n}]}\n", d)
	add("kubernetes variable", "env:\n- name: DB_PASSWORD\n  value: \""+pw+"\"\n", pw)
	add("kubernetes variable that is numbered", "    12\t- name: DB_PASSWORD\n    13\t  value: \""+pw+"\"\n", pw)
	add("kubernetes variable that was found", "a/b.yaml-12-- name: DB_PASSWORD\na/b.yaml:13:  value: "+pw+"\n", pw)
	add("kubernetes variable in a diff", "+- name: DB_PASSWORD\n+  value: "+pw+"\n", pw)
	numbers := r.an(20) + "-12-" + r.an(19)
	add("jwk in dense lines", "{\n\"kty\":\"EC\",\n\"d\":\""+numbers+"\"\n}\n", numbers)
	add("jwk in lines that are numbered", "     2\t  \"kty\": \"EC\",\n     3\t  \"d\": \""+d+"\"\n", d)
	add("page of bat", "   4 │ "+page[0]+"\n   5 │ "+page[1]+"\n", page[1])
	add("pair in lines", "{\n  \"Name\": \"API_TOKEN\",\n  \"Value\": \""+r.an(6)+pw+"\"\n}\n", pw)
	return out
}

// blocks makes samples of private keys.
func (r source) blocks() []sample {
	var out []sample
	add := func(name, text, secret string) { out = append(out, sample{name, text, secret}) }
	body := func(block string) string { return strings.Split(block, "\n")[1] }
	for _, kind := range []string{"", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "DSA "} {
		b := r.block(kind, 3)
		add("pem "+kind, b, body(b))
	}
	b := r.block("", 3)
	add("pem in json", `{"private_key": "`+strings.ReplaceAll(b, "\n", `\n`)+`\n"}`, body(b))
	add("pem in source", "key := \"\" +\n\t\""+strings.ReplaceAll(b, "\n", "\\n\" +\n\t\"")+"\"", body(b))
	add("pem in yaml", "key: |\n    "+strings.ReplaceAll(b, "\n", "\n    "), body(b))
	add("pem with numbers", "     1\t"+strings.ReplaceAll(b, "\n", "\n    12\t"), body(b))
	add("pem in a diff", "+"+strings.ReplaceAll(b, "\n", "\n+"), body(b))
	add("pem in a comment", "# "+strings.ReplaceAll(b, "\n", "\n# "), body(b))
	add("pem CRLF", strings.ReplaceAll(b, "\n", "\r\n"), body(b))
	add("pem without end", b[:len(b)-60], body(b))
	add("pem without beginning", b[strings.Index(b, "\n")+1:], body(b))
	add("pem of grep", "1:"+strings.ReplaceAll(b, "\n", "\n2:"), body(b))
	add("pem of grep with names", "a/b-1/key.pem:1:"+strings.ReplaceAll(b, "\n", "\na/b-1/key.pem:12:"), body(b))
	add("pem of grep around", "key.pem:1:"+strings.ReplaceAll(b, "\n", "\nkey.pem-12-"), body(b))
	add("pem with bars", " 1 | "+strings.ReplaceAll(b, "\n", "\n12 | "), body(b))
	add("pem with bare numbers", "     1  "+strings.ReplaceAll(b, "\n", "\n    12  "), body(b))
	add("pem on a line", "KEY="+strings.ReplaceAll(b, "\n", " "), body(b))
	add("pem without breaks", "KEY="+strings.ReplaceAll(b, "\n", ""), body(b))
	add("pem without breaks and end", "KEY="+strings.ReplaceAll(b[:len(b)-60], "\n", " "), body(b))
	add("pem in HTML", "<p>"+strings.ReplaceAll(b, "\n", "<br>")+"</p>", body(b))
	add("pem in lines of HTML", "<pre>\n"+strings.ReplaceAll(b, "\n", "<br />\n")+"</pre>", body(b))
	add("pem in spans", "<span class=\"l\">"+strings.ReplaceAll(b, "\n", "</span>\n<span class=\"l\">")+"</span>", body(b))
	add("pem in a table", "<tr><td>1</td><td>"+strings.ReplaceAll(b, "\n", "</td></tr>\n<tr><td>12</td><td>")+"</td></tr>", body(b))
	add("pem of cat -A", strings.ReplaceAll(b, "\n", "$\n")+"$", body(b))
	add("pem in a comment with slashes", "// "+strings.ReplaceAll(b, "\n", "\n// "), body(b))
	add("pem in a form", strings.NewReplacer("\n", "%0A", " ", "+", "=", "%3D").Replace(b), body(b))
	add("pem in a URL", "https://x/?key="+strings.NewReplacer("\n", "%0A", " ", "%20", "=", "%3D").Replace(b)+"&x=1", body(b))
	add("pem in base64", "client-key-data: "+base64.StdEncoding.EncodeToString([]byte(b)), base64.StdEncoding.EncodeToString([]byte(body(b)))[4:40])
	add("openvpn", "-----BEGIN OpenVPN Static key V1-----\n"+r.hex(32)+"\n"+r.hex(32)+"\n-----END OpenVPN Static key V1-----", "BEGIN")
	add("rsa in XML", "<RSAKeyValue><Modulus>"+r.an(64)+"</Modulus><Exponent>AQAB</Exponent><P>"+r.an(64)+"</P><D>"+r.an(64)+"</D></RSAKeyValue>", "<P>")
	add("pem with entities", strings.ReplaceAll(strings.ReplaceAll(b, "=", "&#61;"), "\n", "&#10;"), body(b))
	h := strings.Replace(b, "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"+r.hex(32)+"\n\n", 1)
	add("pem with headers", h, body(b))
	add("pgp", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n"+r.lines(3)+"=aB3d\n-----END PGP PRIVATE KEY BLOCK-----", "Version: GnuPG")
	add("ssh2", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: \"x\"\n"+r.lines(2)+"---- END SSH2 ENCRYPTED PRIVATE KEY ----", "Comment")
	p := r.lines(2)
	add("putty", "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 3\n"+p+"Private-MAC: x", strings.Split(p, "\n")[0])
	return out
}

func (r source) samples() []sample {
	return append(append(r.tokens(), r.placed()...), r.blocks()...)
}
