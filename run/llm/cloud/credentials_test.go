package cloud

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// credentialServer is all services that give credentials.
func credentialServer(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		file := `{"Code":"Success","AccessKeyId":"%s","SecretAccessKey":"s","Token":"t","Expiration":"2026-11-28T13:00:00Z"}`
		switch path := r.URL.Path; {
		case path == "/container" && r.Header.Get("Authorization") == "ticket":
			fmt.Fprintf(w, file, "FROMCONTAINER")
		case path == "/latest/api/token" && r.Method == http.MethodPut:
			io.WriteString(w, "machine-token")
		case strings.HasPrefix(path, "/latest/") && r.Header.Get("X-Aws-Ec2-Metadata-Token") != "machine-token":
			w.WriteHeader(http.StatusUnauthorized)
		case path == "/latest/meta-data/iam/security-credentials/":
			io.WriteString(w, "the-role\n")
		case path == "/latest/meta-data/iam/security-credentials/the-role":
			fmt.Fprintf(w, file, "FROMMACHINE")
		case path == "/federation/credentials" && r.Header.Get("x-amz-sso_bearer_token") == "sso-token" &&
			r.URL.Query().Get("account_id") == "123" && r.URL.Query().Get("role_name") == "dev":
			io.WriteString(w, `{"roleCredentials":{"accessKeyId":"FROMSSO","secretAccessKey":"s","sessionToken":"t",`+
				`"expiration":1795957200000}}`)
		case path == "/token" && strings.Contains(string(body), `"refreshToken":"again"`) &&
			strings.Contains(string(body), `"clientId":"c"`):
			io.WriteString(w, `{"accessToken":"sso-token","expiresIn":28800,"refreshToken":"and again"}`)
		case path == "/metadata/identity/oauth2/token" && r.Header.Get("Metadata") == "true" &&
			r.URL.Query().Get("resource") == "https://cognitiveservices.azure.com",
			path == "/app" && r.Header.Get("X-Identity-Header") == "h":
			io.WriteString(w, `{"access_token":"of `+strings.TrimPrefix(path, "/")+`","expires_on":"4102444800"}`)
		case path == "/" && (form.Get("Action") == "AssumeRole" && strings.Contains(r.Header.Get("Authorization"),
			"Credential=BASE/") || form.Get("WebIdentityToken") == "web-token"):
			action := form.Get("Action")
			fmt.Fprintf(w, `<%sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials>`+
				`<AccessKeyId>%s</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>`+
				`<Expiration>2026-11-28T13:00:00Z</Expiration></Credentials></%[1]sResult></%[1]sResponse>`, action,
				form.Get("RoleArn"))
		case path == "/tenant/oauth2/v2.0/token" && (form.Get("client_secret") == "good" ||
			form.Get("client_assertion") == "web-token"), path == "/google":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"access_token":"token","token_type":"Bearer","expires_in":3600}`)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"error":"access_denied"}`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAWS: credentials are found where AWS's own tools find them, renewed before they expire, and what is missing is
// said with what mends it.
func TestAWS(t *testing.T) {
	t.Parallel()
	home, s := t.TempDir(), credentialServer(t)
	write(t, filepath.Join(home, ".aws", "config"), `
[default]
region = eu-central-1
[profile sso]
sso_session = corp
sso_account_id = 123
sso_role_name = dev
[sso-session corp]
sso_region = us-east-1
sso_start_url = https://corp.awsapps.com/start
[profile expired]
sso_start_url = https://old.awsapps.com/start
sso_region = us-east-1
sso_account_id = 123
sso_role_name = dev
[profile old]
sso_session = old
sso_account_id = 123
sso_role_name = dev
[sso-session old]
sso_region = us-east-1
sso_start_url = https://corp.awsapps.com/start
[profile refused]
sso_session = refused
sso_account_id = 123
sso_role_name = dev
[sso-session refused]
sso_region = us-east-1
[profile role]
role_arn = FROMROLE
source_profile = base
s3 =
  addressing_style = path
[profile loop]
role_arn = x
source_profile = loop2
[profile loop2]
role_arn = x
source_profile = loop
[profile own]
role_arn = FROMOWN
source_profile = own
aws_access_key_id = BASE
aws_secret_access_key = b
[profile run]
credential_process = echo '{"Version":1,"AccessKeyId":"FROMPROCESS","SecretAccessKey":"s","SessionToken":"t"}'
[profile bad]
credential_process = echo no
`)
	write(t, filepath.Join(home, ".aws", "credentials"),
		"[default]\naws_access_key_id = FROMFILE\naws_secret_access_key=s\n[base]\naws_access_key_id=BASE\n"+
			"aws_secret_access_key=b\n")
	for key, expires := range map[string]string{"corp": "2026-11-28T18:00:00Z",
		"https://old.awsapps.com/start": "2026-11-28T11:00:00Z"} {
		sum := sha1.Sum([]byte(key))
		write(t, filepath.Join(home, ".aws", "sso", "cache", hex.EncodeToString(sum[:])+".json"),
			`{"accessToken":"sso-token","expiresAt":"`+expires+`"}`)
	}
	stored := func(session string) string {
		sum := sha1.Sum([]byte(session))
		return filepath.Join(home, ".aws", "sso", "cache", hex.EncodeToString(sum[:])+".json")
	}
	const old = `{"accessToken":"old","expiresAt":"2026-11-28T11:00:00Z","clientId":"c","clientSecret":"s",`
	write(t, stored("old"), old+`"refreshToken":"again","registrationExpiresAt":"2027-01-01T00:00:00Z"}`)
	write(t, stored("refused"), old+`"refreshToken":"no"}`)
	token := write(t, filepath.Join(home, "web"), "web-token\n")
	for _, c := range []struct{ env, want string }{
		{"", "FROMFILE"},
		{"AWS_ACCESS_KEY_ID=FROMENV AWS_SECRET_ACCESS_KEY=s", "FROMENV"},
		{"AWS_PROFILE=sso", "FROMSSO"},
		{"AWS_PROFILE=expired", "aws sso login --profile expired"},
		{"AWS_PROFILE=old", "FROMSSO"},
		{"AWS_PROFILE=refused", "the token is not renewed: HTTP 403 Forbidden): aws sso login --profile refused"},
		{"AWS_PROFILE=role", "FROMROLE"},
		{"AWS_PROFILE=own", "FROMOWN"},
		{"AWS_PROFILE=loop", "refers to itself"},
		{"AWS_PROFILE=none", "there is no profile none"},
		{"AWS_PROFILE=run", "FROMPROCESS"},
		{"AWS_PROFILE=bad", "credential_process"},
		{"AWS_WEB_IDENTITY_TOKEN_FILE=" + token + " AWS_ROLE_ARN=FROMWEB", "FROMWEB"},
		{"AWS_WEB_IDENTITY_TOKEN_FILE=/dev/zero AWS_ROLE_ARN=x", "/dev/zero"}, // which has no end
		{"nohome AWS_CONTAINER_CREDENTIALS_FULL_URI=" + s.URL + "/container AWS_CONTAINER_AUTHORIZATION_TOKEN=ticket",
			"FROMCONTAINER"},
		{"nohome AWS_CONTAINER_CREDENTIALS_FULL_URI=" + s.URL + "/container", "the service of the container: HTTP 403"},
		{"nohome", "FROMMACHINE"},
		{"nohome AWS_EC2_METADATA_DISABLED=true", "set AWS_BEARER_TOKEN_BEDROCK"},
	} {
		if runtime.GOOS == "windows" && strings.Contains(c.env, "=run") {
			continue
		}
		env := map[string]string{"AWS_ENDPOINT_URL_STS": s.URL, "AWS_ENDPOINT_URL_SSO": s.URL,
			"AWS_ENDPOINT_URL_SSO_OIDC": s.URL, "AWS_EC2_METADATA_SERVICE_ENDPOINT": s.URL}
		now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
		a := &aws{Options: Options{Home: home, Client: s.Client(), Now: func() time.Time { return now },
			Getenv: func(name string) string { return env[name] }}}
		for _, kv := range strings.Fields(c.env) {
			if k, v, ok := strings.Cut(kv, "="); ok {
				env[k] = v
			} else {
				a.Home = ""
			}
		}
		k, err := a.keys(t.Context())
		got := k.ID
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, not %s", c.env, got, c.want)
		}
		if c.env == "" && a.region() != "eu-central-1" {
			t.Error(a.region())
		}
	}
	renewed, err := os.ReadFile(stored("old"))
	for _, want := range []string{`"refreshToken":"and again"`, `"registrationExpiresAt":"2027-01-01`,
		`"expiresAt":"2026-11-28T20:00:00Z"`} {
		if err != nil || !strings.Contains(string(renewed), want) {
			t.Errorf("%s, %v; it lacks %s", renewed, err, want)
		}
	}
}

// TestRenewed: credentials are kept until shortly before they expire.
func TestRenewed(t *testing.T) {
	t.Parallel()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		fmt.Fprintf(w, `{"AccessKeyId":"K%d","SecretAccessKey":"s","Expiration":"2026-11-28T13:00:00Z"}`, asked)
	}))
	defer s.Close()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	a := &aws{Options: Options{Client: s.Client(), Now: func() time.Time { return now }, Getenv: func(name string) string {
		return map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": s.URL}[name]
	}}}
	for i, at := range []string{"12:00", "12:50", "12:56"} {
		now, _ = time.Parse("2006-01-02 15:04", "2026-11-28 "+at)
		if k, err := a.keys(t.Context()); err != nil || k.ID != []string{"K1", "K1", "K2"}[i] {
			t.Errorf("%s: %s, %v", at, k.ID, err)
		}
	}
}

// TestTokens: tokens of Google and of Microsoft are got with what is in files and variables.
func TestTokens(t *testing.T) {
	t.Parallel()
	home, s := t.TempDir(), credentialServer(t)
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	account, _ := json.Marshal(map[string]string{"type": "service_account", "project_id": "its-project",
		"client_email": "a@b", "token_uri": s.URL + "/google",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))})
	write(t, filepath.Join(home, "account.json"), string(account))
	write(t, filepath.Join(home, "pod"), "web-token\n")
	write(t, filepath.Join(home, "other.json"), `{"type":"external_account"}`)
	for _, c := range []struct {
		kind      Kind
		env, want string
	}{
		{Vertex, "GOOGLE_APPLICATION_CREDENTIALS=" + filepath.Join(home, "account.json"), "Bearer token"},
		{Vertex, "GOOGLE_CLOUD_PROJECT=p GOOGLE_APPLICATION_CREDENTIALS=" + filepath.Join(home, "other.json"),
			`of the type "external_account" are not supported`},
		{Vertex, "", "no project: set GOOGLE_CLOUD_PROJECT"},
		{Vertex, "GOOGLE_CLOUD_PROJECT=p CLAUDE_CODE_SKIP_VERTEX_AUTH=1", ""},
		{Azure, "AZURE_OPENAI_AD_TOKEN=given", "Bearer given"},
		{Azure, "AZURE_TENANT_ID=tenant AZURE_CLIENT_ID=i AZURE_CLIENT_SECRET=good", "Bearer token"},
		{Azure, "AZURE_TENANT_ID=tenant AZURE_CLIENT_ID=i AZURE_CLIENT_SECRET=bad", "no token: access_denied"},
		{Azure, "AZURE_TENANT_ID=tenant AZURE_CLIENT_ID=i AZURE_FEDERATED_TOKEN_FILE=" + filepath.Join(home, "pod"),
			"Bearer token"},
		{Azure, "AZURE_FEDERATED_TOKEN_FILE=x", "no key: set AZURE_OPENAI_API_KEY"},
		{Azure, "AZURE_POD_IDENTITY_AUTHORITY_HOST=" + s.URL, "Bearer of metadata/identity/oauth2/token"},
		{Azure, "IDENTITY_ENDPOINT=" + s.URL + "/app IDENTITY_HEADER=h", "Bearer of app"},
		{Azure, "IDENTITY_ENDPOINT=" + s.URL + "/app IDENTITY_HEADER=x", "the identity of this application: HTTP 403"},
		{Azure, "AZURE_POD_IDENTITY_AUTHORITY_HOST=" + s.URL + "/none", "no key: set AZURE_OPENAI_API_KEY"},
		{Bedrock, "CLAUDE_CODE_SKIP_BEDROCK_AUTH=1", ""},
	} {
		env := map[string]string{"AZURE_AUTHORITY_HOST": s.URL}
		for _, kv := range strings.Fields(c.env) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		way, err := Open(c.kind, "m", false, false, Options{Base: "https://host", Home: home, Client: s.Client(),
			Getenv: func(name string) string { return env[name] }})
		got := ""
		if err == nil {
			r, _ := http.NewRequest(http.MethodPost, way.URL, nil)
			err = way.Authorize(t.Context(), r, [32]byte{})
			got = r.Header.Get("Authorization")
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s %s: %s, not %s", c.kind, c.env, got, c.want)
		}
	}
}

// TestAddresses: the addresses of regions, resources and versions.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind      Kind
		env, want string
	}{
		{Bedrock, "", "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/invoke-with-response-stream"},
		{Bedrock, "AWS_DEFAULT_REGION=eu-west-3",
			"https://bedrock-runtime.eu-west-3.amazonaws.com/model/m/invoke-with-response-stream"},
		{Vertex, "GOOGLE_CLOUD_PROJECT=p",
			"https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic/models/m:streamRawPredict"},
		{Vertex, "GOOGLE_CLOUD_PROJECT=p CLOUD_ML_REGION=eu",
			"https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/anthropic/models/m:streamRawPredict"},
		{Azure, "AZURE_OPENAI_RESOURCE_NAME=corp", "https://corp.openai.azure.com/openai/v1/responses"},
		{Azure, "AZURE_OPENAI_RESOURCE_NAME=corp OPENAI_API_VERSION=preview",
			"https://corp.openai.azure.com/openai/v1/responses?api-version=preview"},
	} {
		way, err := Open(c.kind, "m", false, false, Options{Key: "k", Getenv: func(name string) string {
			for _, kv := range strings.Fields(c.env) {
				if k, v, _ := strings.Cut(kv, "="); k == name {
					return v
				}
			}
			return ""
		}})
		if err != nil || way.URL != c.want {
			t.Errorf("%s %s: %v, %v", c.kind, c.env, way, err)
		}
	}
	for _, model := range []string{"amazon.nova-pro-v1:0", "us.meta.llama4-scout-17b-instruct-v1:0"} {
		if _, err := Open(Bedrock, model, false, true, Options{Key: "k"}); err == nil ||
			!strings.Contains(err.Error(), model+" is there only in the format Converse") {
			t.Error(err)
		}
	}
	if _, err := Open(Azure, "m", false, false, Options{Key: "k"}); err == nil ||
		!strings.Contains(err.Error(), "set AZURE_OPENAI_ENDPOINT") {
		t.Error(err)
	}
}
