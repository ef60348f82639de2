package mask

import (
	"maps"
	"slices"
	"strings"
)

// A rule is a secret that says what it is: it begins with a literal, and at least min bytes
// of a set follow. All that follow belong to it. The forms are those that the issuers
// document, or that their command line tools check. The minimum is a little below the
// length that is in use today, since issuers lengthen their keys, and rarely shorten them.
type rule struct {
	kind, literal string
	set           charset
	min           int
}

// rules are tried in this order.
var rules = []rule{
	// Models.
	{"anthropic-key", "sk-ant-", base64URL, 20},
	{"openai-key", "sk-proj-", base64URL, 20},
	{"openai-key", "sk-svcacct-", base64URL, 20},
	{"openai-key", "sk-admin-", base64URL, 20},
	{"openai-key", "sk-None-", base64URL, 20},
	{"openrouter-key", "sk-or-v1-", hexadecimal, 32},
	{"langfuse-key", "sk-lf-", base64URL, 30},
	{"api-key", "sk-", alnum, 32}, // OpenAI before projects, DeepSeek, Moonshot and others
	{"google-key", "AIza", base64URL, 30},
	{"google-key", "AQ.Ab", base64URL, 30},
	{"groq-key", "gsk_", alnum, 32},
	{"xai-key", "xai-", alnum, 40},
	{"perplexity-key", "pplx-", alnum, 32},
	{"replicate-key", "r8_", alnum, 30},
	{"huggingface-token", "hf_", alnum, 30},
	{"huggingface-token", "api_org_", alnum, 30},
	{"nvidia-key", "nvapi-", base64URL, 40},
	{"cerebras-key", "csk-", alnum, 32},
	{"together-key", "tgp_v1_", base64URL, 32},
	{"fireworks-key", "fw_", alnum, 22},
	{"pinecone-key", "pcsk_", base64URL, 40},
	{"tavily-key", "tvly-", base64URL, 24},
	{"langsmith-key", "lsv2_pt_", base64URL, 32},
	{"langsmith-key", "lsv2_sk_", base64URL, 32},
	{"elevenlabs-key", "sk_", hexadecimal, 40},
	{"wandb-key", "wandb_v1_", base64URL, 32},
	{"helicone-key", "sk-helicone-", base64URL, 24},
	{"openai-session", "sess-", alnum, 40},
	{"jina-key", "jina_", alnum, 48},
	{"firecrawl-key", "fc-", hexadecimal, 32},
	{"runpod-key", "rpa_", alnum, 40},
	{"friendli-key", "flp_", alnum, 40},
	{"kaggle-token", "KGAT_", hexadecimal, 32},
	{"logfire-token", "pylf_v1_", base64URL, 40},
	{"e2b-key", "e2b_", hexadecimal, 40},
	{"daytona-key", "dtn_", hexadecimal, 64},
	{"context7-key", "ctx7sk-", base64URL, 36},

	// Clouds.
	{"google-token", "ya29.", base64URL, 20},
	{"google-client-secret", "GOCSPX-", base64URL, 20},
	{"google-token", "1//0", base64URL, 40},
	{"aws-bedrock-key", "ABSK", base64Set, 80},
	{"aws-bedrock-key", "bedrock-api-key-", base64Set, 40},
	{"aws-mws-key", "amzn.mws.", base64URL, 32},
	{"digitalocean-token", "dop_v1_", hexadecimal, 40},
	{"digitalocean-token", "doo_v1_", hexadecimal, 40},
	{"digitalocean-token", "dor_v1_", hexadecimal, 40},
	{"alibaba-key", "LTAI", alnum, 16},
	{"tencent-key", "AKID", alnum, 32},
	{"yandex-key", "AQVN", base64URL, 35},
	{"heroku-key", "HRKU-", base64URL, 30},
	{"fly-token", "fm1r_", base64Set, 60},
	{"fly-token", "fm2_", base64Set, 60},
	{"fly-token", "fo1_", base64URL, 40},
	{"vercel-token", "vcp_", alnum, 24},
	{"vercel-token", "vck_", alnum, 24},
	{"vercel-token", "vci_", alnum, 24},
	{"vercel-token", "vca_", alnum, 24},
	{"vercel-token", "vcr_", alnum, 24},
	{"netlify-token", "nfp_", alnum, 36},
	{"netlify-token", "nfc_", alnum, 36},
	{"netlify-token", "nfo_", alnum, 36},
	{"netlify-token", "nfu_", alnum, 36},
	{"neon-key", "napi_", alnum, 48},
	{"mongodb-secret", "mdb_sa_sk_", base64URL, 32},
	{"xata-key", "xau_", alnum, 32},
	{"deno-token", "ddp_", alnum, 36},
	{"deno-token", "ddo_", alnum, 36},
	{"dbt-token", "dbtc_", base64URL, 32},
	{"dbt-token", "dbtu_", base64URL, 32},
	{"render-key", "rnd_", alnum, 24},
	{"supabase-token", "sbp_", hexadecimal, 40},
	{"supabase-key", "sb_secret_", base64URL, 24},
	{"planetscale-password", "pscale_pw_", dotted, 32},
	{"planetscale-token", "pscale_tkn_", dotted, 32},
	{"planetscale-token", "pscale_oauth_", dotted, 32},
	{"databricks-token", "dapi", hexadecimal, 32},
	{"dynatrace-token", "dt0c01.", dotted, 60},
	{"cloudflare-token", "cfut_", base64URL, 36},
	{"cloudflare-token", "cfat_", base64URL, 36},
	{"cloudflare-key", "cfk_", base64URL, 36},
	{"cloudflare-key", "v1.0-", hexadecimal, 24},
	{"tailscale-key", "tskey-", base64URL, 20},

	// Code and packages.
	{"github-token", "ghp_", alnum, 36},
	{"github-token", "gho_", alnum, 36},
	{"github-token", "ghu_", alnum, 36},
	{"github-token", "ghs_", dotted, 36}, // also in the form of a JWT
	{"github-token", "ghr_", alnum, 36},
	{"github-token", "github_pat_", base64URL, 50},
	{"gitlab-token", "glpat-", dotted, 20},
	{"gitlab-token", "gldt-", dotted, 20},
	{"gitlab-token", "glrt-", dotted, 20},
	{"gitlab-token", "glrtr-", dotted, 20},
	{"gitlab-token", "glptt-", dotted, 20},
	{"gitlab-token", "glft-", dotted, 20},
	{"gitlab-token", "glimt-", dotted, 20},
	{"gitlab-token", "glagent-", dotted, 20},
	{"gitlab-token", "glcbt-", dotted, 20},
	{"gitlab-token", "gloas-", dotted, 20},
	{"gitlab-token", "glsoat-", dotted, 20},
	{"gitlab-token", "glffct-", dotted, 20},
	{"gitlab-token", "GR1348941", base64URL, 20},
	{"bitbucket-token", "ATBB", alnum, 24},
	{"bitbucket-token", "ATCTT3", base64URL, 40},
	{"atlassian-token", "ATATT3", base64URL, 40},
	{"npm-token", "npm_", alnum, 36},
	{"pypi-token", "pypi-AgE", base64URL, 50},
	{"rubygems-key", "rubygems_", hexadecimal, 40},
	{"crates-token", "cio", alnum, 32},
	{"clojars-token", "CLOJARS_", alnum, 50},
	{"nuget-key", "oy2", alnum, 43},
	{"docker-token", "dckr_pat_", base64URL, 24},
	{"docker-token", "dckr_oat_", base64URL, 24},
	{"sonar-token", "squ_", hexadecimal, 40},
	{"sonar-token", "sqp_", hexadecimal, 40},
	{"sonar-token", "sqa_", hexadecimal, 40},
	{"jfrog-key", "AKCp", alnum, 64},
	{"jfrog-token", "cmVmdGtu", alnum, 56},
	{"sourcegraph-token", "sgp_", base64URL, 40},
	{"circleci-token", "CCIPAT_", base64URL, 40},
	{"circleci-token", "CCIPRJ_", base64URL, 40},
	{"buildkite-token", "bkua_", alnum, 40},
	{"pulumi-token", "pul-", hexadecimal, 40},
	{"vault-token", "hvs.", base64URL, 24},
	{"vault-token", "hvb.", base64URL, 24},
	{"vault-token", "hvr.", base64URL, 24},
	{"doppler-token", "dp.pt.", alnum, 40},
	{"doppler-token", "dp.st.", dotted, 40},
	{"doppler-token", "dp.sa.", alnum, 40},
	{"doppler-token", "dp.ct.", alnum, 40},
	{"doppler-token", "dp.scim.", alnum, 40},
	{"doppler-token", "dp.audit.", alnum, 40},
	{"1password-token", "ops_eyJ", base64Set, 60},
	{"age-key", "AGE-SECRET-KEY-1", alnum, 50},
	{"bitcoin-key", "xprv", alnum, 100},
	// Private keys in base64, as in the configuration of kubectl: -----BEGIN PRIVATE, and the same
	// of RSA, EC, OpenSSH, and encrypted ones.
	{"private-key", "LS0tLS1CRUdJTiBQUklWQVRF", base64Set, 60},
	{"private-key", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURS", base64Set, 60},
	{"private-key", "LS0tLS1CRUdJTiBFQyBQUklWQVRF", base64Set, 60},
	{"private-key", "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVE", base64Set, 60},
	{"private-key", "LS0tLS1CRUdJTiBFTkNSWVBURUQg", base64Set, 60},
	{"snyk-token", "snyk_uat.", dotted, 40},

	// Messages, payments, services.
	{"slack-token", "xoxb-", base64URL, 20},
	{"slack-token", "xoxp-", base64URL, 20},
	{"slack-token", "xoxa-", base64URL, 20},
	{"slack-token", "xoxr-", base64URL, 20},
	{"slack-token", "xoxs-", base64URL, 20},
	{"slack-token", "xoxo-", base64URL, 20},
	{"slack-token", "xoxc-", base64URL, 20},
	{"slack-token", "xoxd-", tokenSet, 20},
	{"slack-token", "xoxe-", base64URL, 20},
	{"slack-token", "xoxe.xox", base64URL, 20},
	{"slack-token", "xapp-", base64URL, 20},
	{"slack-token", "xwfp-", base64URL, 20},
	{"stripe-key", "sk_live_", alnum, 16},
	{"stripe-key", "sk_test_", alnum, 16},
	{"stripe-key", "rk_live_", alnum, 16},
	{"stripe-key", "rk_test_", alnum, 16},
	{"stripe-key", "sk_org_", base64URL, 24},
	{"paddle-key", "pdl_live_apikey_", base64URL, 40},
	{"paddle-key", "pdl_sdbx_apikey_", base64URL, 40},
	{"mercadopago-token", "APP_USR-", base64URL, 50},
	{"webhook-secret", "whsec_", base64Set, 24},
	{"sendgrid-key", "SG.", dotted, 60},
	{"mailgun-key", "key-", hexadecimal, 32},
	{"brevo-key", "xkeysib-", base64URL, 60},
	{"mailersend-key", "mlsn.", alnum, 50},
	{"resend-key", "re_", base64URL, 32},
	{"shopify-token", "shpat_", hexadecimal, 32},
	{"shopify-token", "shpca_", hexadecimal, 32},
	{"shopify-token", "shppa_", hexadecimal, 32},
	{"shopify-token", "shpss_", hexadecimal, 32},
	{"square-token", "sq0atp-", base64URL, 22},
	{"square-token", "sq0csp-", base64URL, 40},
	{"square-token", "EAAAE", base64URL, 55},
	{"facebook-token", "EAACE", alnum, 60},
	{"paypal-token", "access_token$production$", base64URL, 32},
	{"flutterwave-key", "FLWSECK_TEST-", base64URL, 12},
	{"flutterwave-key", "FLWSECK-", base64URL, 24},
	{"easypost-key", "EZAK", alnum, 50},
	{"easypost-key", "EZTK", alnum, 50},
	{"shippo-token", "shippo_live_", hexadecimal, 40},
	{"shippo-token", "shippo_test_", hexadecimal, 40},
	{"duffel-token", "duffel_live_", base64URL, 40},
	{"duffel-token", "duffel_test_", base64URL, 40},
	{"plaid-token", "access-production-", base64URL, 36},
	{"plaid-token", "access-development-", base64URL, 36},
	{"plaid-token", "access-sandbox-", base64URL, 36},
	{"notion-token", "ntn_", alnum, 40},
	{"notion-token", "secret_", alnum, 43},
	{"linear-key", "lin_api_", alnum, 32},
	{"linear-key", "lin_oauth_", alnum, 32},
	{"linear-key", "lin_wh_", alnum, 32},
	{"hubspot-token", "pat-na1-", base64URL, 36},
	{"hubspot-token", "pat-eu1-", base64URL, 36},
	{"mapbox-token", "sk.eyJ", dotted, 60},
	{"adafruit-key", "aio_", alnum, 28},
	{"axiom-token", "xaat-", base64URL, 36},
	{"axiom-token", "xapt-", base64URL, 36},
	{"figma-token", "figd_", base64URL, 36},
	{"typeform-token", "tfp_", base64URL, 40},
	{"postman-key", "PMAK-", base64URL, 50},
	{"contentful-token", "CFPAT-", base64URL, 40},
	{"readme-key", "rdme_", alnum, 60},
	{"dropbox-token", "sl.", base64URL, 100},
	{"prefect-key", "pnu_", alnum, 36},
	{"newrelic-key", "NRAK-", alnum, 24},
	{"newrelic-key", "NRJS-", alnum, 19},
	{"newrelic-key", "NRII-", base64URL, 24},
	{"grafana-token", "glc_", base64Set, 32},
	{"grafana-token", "glsa_", base64URL, 32},
	{"sentry-token", "sntrys_", tokenSet, 40},
	{"sentry-token", "sntryu_", hexadecimal, 40},
	{"posthog-key", "phx_", alnum, 32},
	{"honeycomb-key", "hcaik_", alnum, 50},

	// Hashes of passwords (crypt(5), htpasswd(1)), which tell the weak ones to whoever tries words.
	{"password-hash", "$2a$", cryptSet, 55},
	{"password-hash", "$2b$", cryptSet, 55},
	{"password-hash", "$2y$", cryptSet, 55},
	{"password-hash", "$5$", cryptSet, 43},
	{"password-hash", "$6$", cryptSet, 86},
	{"password-hash", "$y$j", cryptSet, 60},
	{"password-hash", "$apr1$", cryptSet, 24},
	{"password-hash", "$argon2", cryptSet, 60},
	{"password-hash", "pbkdf2_sha256$", cryptSet, 50},
}

// custom are the checks of secrets that are more than a beginning and what follows.
var custom = []trigger{
	{literal: "AKIA", check: (*finder).awsKey},
	{literal: "ASIA", check: (*finder).awsKey},
	{literal: "ABIA", check: (*finder).awsKey},
	{literal: "ACCA", check: (*finder).awsKey},
	{literal: ".eyJ", check: (*finder).jwt},
	{literal: "PRIVATE KEY", check: (*finder).privateKey},
	{literal: "Static key V1", check: (*finder).privateKey}, // of OpenVPN
	{literal: "PRIVATE%20KEY", check: (*finder).urlKey},
	{literal: "PRIVATE+KEY", check: (*finder).urlKey},
	{literal: "<RSAKeyValue>", check: (*finder).xmlKey},
	{literal: "Private-Lines:", check: (*finder).puttyKey},
	{literal: ".atlasv1.", check: (*finder).terraform},
	{literal: "JQQJ99", check: (*finder).azureKey},
	{literal: "AZDO", check: (*finder).azureKey},
	{literal: "AzFu", check: (*finder).azureKey},
	{literal: "+ASt", check: (*finder).azureKey},
	{literal: "ACDb", check: (*finder).azureKey},
	{literal: "hooks.slack.com/services/", check: (*finder).webhook},
	{literal: "hooks.slack.com/workflows/", check: (*finder).webhook},
	{literal: "hooks.zapier.com/hooks/catch/", check: (*finder).webhook},
	{literal: "discord.com/api/webhooks/", check: (*finder).webhook},
	{literal: "discordapp.com/api/webhooks/", check: (*finder).webhook},
	{literal: "webhook.office.com/", check: (*finder).webhook},
	{literal: "sdk-", check: (*finder).launchDarkly},
	{literal: "sig=", check: (*finder).azureSignature},
	{literal: "\"kty\"", check: (*finder).webKey},
	{literal: "authorization", fold: true, check: (*finder).authorization},
	{literal: "bearer ", fold: true, check: (*finder).bearer},
	{literal: "cookie", fold: true, check: (*finder).cookies},
	{literal: "@tcp(", check: (*finder).dsn},
	{literal: "@unix(", check: (*finder).dsn},
	{literal: "jdbc:oracle:", check: (*finder).oracle},
	{literal: "identified ", fold: true, check: (*finder).identified},
	{literal: "mysqli", check: (*finder).connect},
	{literal: "PDO(", check: (*finder).connect},
	{literal: "ldap_bind(", check: (*finder).connect},
	{literal: "ftp_login(", check: (*finder).connect},
	{literal: ":543", check: (*finder).pgpass}, // and of poolers and services: 6432, 6543, 25060, 26257
	{literal: ":643", check: (*finder).pgpass},
	{literal: ":6543", check: (*finder).pgpass},
	{literal: ":25060", check: (*finder).pgpass},
	{literal: ":26257", check: (*finder).pgpass},
	{literal: ":*:*", check: (*finder).pgpass},
}

// names are parts of names whose values may be secrets. They are parts, because the words
// of a name may be written together; the check looks at the whole name.
var names = []string{
	"pass", "pwd=", "pwd:", "pwd\"", "pwd'", "pwd ", "_pwd", "secret", "token", "apikey", "auth", "credential",
	"key=", "key:", "key\"", "key'", "key ", "key>", "key`", "key\\", "_key", "-key", "login",
}

const (
	letters  = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	hexBytes = "0123456789abcdef"
)

// addRules makes the index find all rules. Checks that know more go before the rules, and
// rules before names, so that a secret gets the kind that says most.
func (x *index) addRules() {
	for i := range custom {
		x.add(&custom[i])
	}
	for i := range rules {
		r := &rules[i]
		check := func(f *finder, at int) { f.prefix(r, at) }
		if len(r.literal) < 4 {
			x.addNext(r.literal, letters+"0123456789-_./", check)
			continue
		}
		x.add(&trigger{literal: r.literal, check: check})
	}
	for _, program := range slices.Sorted(maps.Keys(passOptions)) {
		x.add(&trigger{literal: program, check: (*finder).command})
	}
	for _, n := range names {
		x.add(&trigger{literal: n, fold: true, check: (*finder).assignment})
	}
	for i := range hexBytes {
		for j := range hexBytes {
			x.add(&trigger{literal: "SK" + hexBytes[i:i+1] + hexBytes[j:j+1], check: (*finder).twilio})
		}
	}
	x.addNext("://", letters+"0123456789%:_-.~!$&'()*+,;=", (*finder).url)
	x.addNext(":AA", letters+"0123456789-_", (*finder).telegram)
	x.addNext("pat", letters+"0123456789", (*finder).airtable)
	x.addNext("-us", "123456789", (*finder).mailchimp)
	x.addNext("8Q~", letters+"0123456789-_.~", (*finder).entra)
	x.addNext("7Q~", letters+"0123456789-_.~", (*finder).entra)
	for _, start := range discordStarts() {
		x.add(&trigger{literal: start, check: (*finder).discord})
	}
}

// maxProbe is how many bytes of a body tell whether it is made up. More would make a long
// run of base64 take time for each beginning in it.
const maxProbe = 512

// prefix marks what a rule says, unless it is made up.
func (f *finder) prefix(r *rule, at int) {
	if !f.edge(at) {
		return
	}
	body := at + len(r.literal)
	end := f.run(body, r.set)
	if r.set == dotted || r.set == tokenSet {
		end = body + len(strings.TrimRight(f.s[body:end], ".=~%"))
	}
	if r.set == cryptSet { // a comma is between parameters, or behind the hash
		end = min(end, body+maxProbe)
		last := body + strings.LastIndexByte(f.s[body:end], '$') + 1
		hash, _, _ := strings.Cut(f.s[last:end], ",")
		end = last + len(hash)
	}
	if end-body < r.min {
		return
	}
	if v := f.s[body:min(end, body+maxProbe)]; !madeUp(v) && mixed(v) {
		f.mark(at, end, r.kind)
	}
}
