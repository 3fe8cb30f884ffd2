package cloud

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// awsKeys are credentials of AWS. A zero Expires: they do not expire.
type awsKeys struct {
	ID, Secret, Token string
	Expires           time.Time
}

// aws finds credentials where AWS's own tools look for them, in their order: the environment, a web identity, the
// profile in the shared files, the service of a container, the service of a machine.
type aws struct {
	Options
	mu    sync.Mutex
	found awsKeys
}

// renewBefore is how long before they expire credentials are renewed.
const renewBefore = 5 * time.Minute

func (a *aws) keys(ctx context.Context) (awsKeys, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.found.ID != "" && (a.found.Expires.IsZero() || a.Now().Add(renewBefore).Before(a.found.Expires)) {
		return a.found, nil
	}
	found, err := a.find(ctx)
	if err != nil {
		return awsKeys{}, fmt.Errorf("no credentials of AWS: %w", err)
	}
	a.found = found
	return found, nil
}

func (a *aws) find(ctx context.Context) (awsKeys, error) {
	if id, secret := a.get("AWS_ACCESS_KEY_ID"), a.get("AWS_SECRET_ACCESS_KEY"); id != "" && secret != "" {
		return awsKeys{ID: id, Secret: secret, Token: a.get("AWS_SESSION_TOKEN")}, nil
	}
	if file, role := a.get("AWS_WEB_IDENTITY_TOKEN_FILE"), a.get("AWS_ROLE_ARN"); file != "" && role != "" {
		return a.webIdentity(ctx, file, role)
	}
	profile := a.profile()
	sections := a.sections()
	if p, ok := sections[profile]; ok {
		k, err := a.ofProfile(ctx, sections, p, profile, 0)
		if err != nil || k.ID != "" {
			return k, err
		}
	} else if a.get("AWS_PROFILE") != "" {
		return awsKeys{}, fmt.Errorf("there is no profile %s in ~/.aws/config or ~/.aws/credentials", profile)
	}
	if address := a.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"); address != "" {
		return a.container(ctx, address)
	}
	if path := a.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		return a.container(ctx, "http://169.254.170.2"+path)
	}
	if a.on("AWS_EC2_METADATA_DISABLED") {
		return awsKeys{}, errors.New("set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or " +
			"AWS_PROFILE")
	}
	return a.machine(ctx)
}

func (a *aws) profile() string { return cmp.Or(a.get("AWS_PROFILE"), "default") }

// region returns the region of requests.
func (a *aws) region() string {
	return cmp.Or(a.get("AWS_REGION", "AWS_DEFAULT_REGION"), a.sections()[a.profile()]["region"], "us-east-1")
}

// sections reads the shared files. Profiles have their name, other sections "sso-session NAME".
func (a *aws) sections() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, f := range []struct{ variable, name string }{
		{"AWS_CONFIG_FILE", "config"}, {"AWS_SHARED_CREDENTIALS_FILE", "credentials"}} {
		file := a.get(f.variable)
		if file == "" && a.Home != "" {
			file = filepath.Join(a.Home, ".aws", f.name)
		}
		if file != "" {
			data, _ := regular.ReadNamed(file, maxCredentials) // without it there are no profiles, which is said
			readINI(data, all)
		}
	}
	return all
}

// readINI adds the sections of a file to all. It skips indented lines, which are nested settings.
func readINI(data []byte, all map[string]map[string]string) {
	var section map[string]string
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#' || text[0] == ';' || line[0] == ' ' || line[0] == '\t':
		case text[0] == '[':
			name, _, _ := strings.Cut(text[1:], "]")
			name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "profile "))
			if section = all[name]; section == nil {
				section = map[string]string{}
				all[name] = section
			}
		default:
			if key, value, ok := strings.Cut(text, "="); ok && section != nil {
				section[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
			}
		}
	}
}

// maxRoles is how many profiles may refer to each other.
const maxRoles = 5

// ofProfile returns the credentials of a profile; without ID: it has none.
func (a *aws) ofProfile(ctx context.Context, all map[string]map[string]string, p map[string]string, name string,
	depth int) (awsKeys, error) {
	switch {
	case depth > maxRoles:
		return awsKeys{}, fmt.Errorf("the profile %s refers to itself", name)
	case p["role_arn"] != "" && p["source_profile"] != "":
		from := p["source_profile"]
		source, ok := all[from]
		if !ok {
			return awsKeys{}, fmt.Errorf("there is no profile %s, which the profile %s names", from, name)
		}
		plain := map[string]string{}
		for key, v := range source {
			if from != name || key != "role_arn" { // a profile may be its own source
				plain[key] = v
			}
		}
		k, err := a.ofProfile(ctx, all, plain, from, depth+1)
		if err != nil {
			return awsKeys{}, err
		}
		return a.assume(ctx, &k, url.Values{"Action": {"AssumeRole"}, "RoleArn": {p["role_arn"]},
			"RoleSessionName": {cmp.Or(p["role_session_name"], "knack")}, "ExternalId": {p["external_id"]}})
	case p["role_arn"] != "" && p["web_identity_token_file"] != "":
		return a.webIdentity(ctx, p["web_identity_token_file"], p["role_arn"])
	case p["aws_access_key_id"] != "" && p["aws_secret_access_key"] != "":
		return awsKeys{ID: p["aws_access_key_id"], Secret: p["aws_secret_access_key"], Token: p["aws_session_token"]}, nil
	case p["sso_account_id"] != "":
		return a.sso(ctx, all, p, name)
	case p["credential_process"] != "":
		return a.process(ctx, p["credential_process"])
	}
	return awsKeys{}, nil
}

// sso returns the credentials of a role for the token that aws sso login has stored.
func (a *aws) sso(ctx context.Context, all map[string]map[string]string, p map[string]string, name string) (awsKeys,
	error) {
	key, start, region := p["sso_session"], p["sso_start_url"], p["sso_region"]
	if session := all["sso-session "+key]; key != "" {
		start, region = session["sso_start_url"], session["sso_region"]
	} else {
		key = start
	}
	stored, err := a.ssoToken(ctx, key, region)
	if err != nil {
		return awsKeys{}, fmt.Errorf("nobody is logged in to %s (%w): aws sso login --profile %s", start, err, name)
	}
	role := url.Values{"account_id": {p["sso_account_id"]}, "role_name": {p["sso_role_name"]}}
	address := cmp.Or(a.get("AWS_ENDPOINT_URL_SSO"), "https://portal.sso."+region+".amazonaws.com") +
		"/federation/credentials?" + role.Encode()
	var out struct {
		Keys struct {
			ID      string `json:"accessKeyId"`
			Secret  string `json:"secretAccessKey"`
			Token   string `json:"sessionToken"`
			Expires int64  `json:"expiration"` // milliseconds
		} `json:"roleCredentials"`
	}
	data, err := a.fetch(ctx, http.MethodGet, address, http.Header{"X-Amz-Sso_bearer_token": {stored.Token}}, nil, nil)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return awsKeys{}, fmt.Errorf("aws sso login --profile %s: %w", name, err)
	}
	return awsKeys{out.Keys.ID, out.Keys.Secret, out.Keys.Token, time.UnixMilli(out.Keys.Expires)}, nil
}

// An ssoToken is what aws sso login stores.
type ssoToken struct {
	Token   string    `json:"accessToken"`
	Expires time.Time `json:"expiresAt"`
	Refresh string    `json:"refreshToken"`
	Client  string    `json:"clientId"`
	Secret  string    `json:"clientSecret"`
}

// ssoToken returns the stored token of a session. One that expires is renewed, and stored again as AWS's tools do,
// because the old refresh token may not count any more.
func (a *aws) ssoToken(ctx context.Context, key, region string) (t ssoToken, err error) {
	sum := sha1.Sum([]byte(key))
	path := filepath.Join(a.Home, ".aws", "sso", "cache", hex.EncodeToString(sum[:])+".json")
	data, err := regular.Read(path, maxCredentials)
	if err != nil {
		return t, errors.New("there is no token")
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, err
	}
	if a.Now().Add(renewBefore).Before(t.Expires) || t.Refresh == "" && a.Now().Before(t.Expires) {
		return t, nil
	}
	if t.Refresh == "" || t.Client == "" {
		return t, errors.New("the token has expired")
	}
	err = atomicfile.Update(path, 0o600, func(old []byte) ([]byte, error) {
		var all map[string]any // also what is not known here
		if err := errors.Join(json.Unmarshal(old, &t), json.Unmarshal(old, &all)); err != nil {
			return nil, err
		}
		if a.Now().Add(renewBefore).Before(t.Expires) { // another program was faster
			return old, nil
		}
		if err := a.renew(ctx, &t, region); err != nil {
			return nil, err
		}
		all["accessToken"], all["refreshToken"] = t.Token, t.Refresh
		all["expiresAt"] = t.Expires.UTC().Format(time.RFC3339)
		return json.Marshal(all)
	})
	return t, err
}

// renew gets a new token for the refresh token of t.
func (a *aws) renew(ctx context.Context, t *ssoToken, region string) error {
	body, err := json.Marshal(map[string]string{"grantType": "refresh_token", "clientId": t.Client,
		"clientSecret": t.Secret, "refreshToken": t.Refresh})
	if err != nil {
		return err
	}
	address := cmp.Or(a.get("AWS_ENDPOINT_URL_SSO_OIDC"), "https://oidc."+region+".amazonaws.com") + "/token"
	data, err := a.fetch(ctx, http.MethodPost, address, http.Header{"Content-Type": {"application/json"}}, body, nil)
	var out struct {
		Token   string `json:"accessToken"`
		Refresh string `json:"refreshToken"`
		Seconds int    `json:"expiresIn"`
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err == nil && out.Token == "" {
		err = errors.New("the answer has none")
	}
	if err != nil {
		return fmt.Errorf("the token is not renewed: %w", err)
	}
	t.Token, t.Refresh = out.Token, cmp.Or(out.Refresh, t.Refresh)
	t.Expires = a.Now().Add(time.Duration(out.Seconds) * time.Second)
	return nil
}

// A credentialFile is the form in which programs, containers and machines give credentials.
type credentialFile struct {
	ID       string    `json:"AccessKeyId"`
	Secret   string    `json:"SecretAccessKey"`
	Token    string    `json:"Token"`
	Session  string    `json:"SessionToken"`
	Expires  time.Time `json:"Expiration"`
	Version  int       `json:"Version"`
	Code     string    `json:"Code"`
	Messages string    `json:"Message"`
}

func readCredentials(data []byte, err error) (awsKeys, error) {
	var f credentialFile
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err == nil && (f.ID == "" || f.Secret == "") {
		err = errors.New("the answer has none")
	}
	return awsKeys{f.ID, f.Secret, cmp.Or(f.Token, f.Session), f.Expires}, err
}

// process runs the program that a profile of the user names.
func (a *aws) process(ctx context.Context, command string) (awsKeys, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	shell, flag := "/bin/sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/C"
	}
	cmd := exec.CommandContext(ctx, shell, flag, command)
	cmd.WaitDelay = time.Second
	k, err := readCredentials(cmd.Output())
	if err != nil {
		return awsKeys{}, fmt.Errorf("credential_process: %w", err)
	}
	return k, nil
}

func (a *aws) container(ctx context.Context, address string) (awsKeys, error) {
	token := a.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := a.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		data, err := regular.ReadNamed(file, maxCredentials)
		if err != nil {
			return awsKeys{}, err
		}
		token = strings.TrimSpace(string(data))
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", token)
	}
	k, err := readCredentials(a.fetch(ctx, http.MethodGet, address, header, nil, nil))
	if err != nil {
		return awsKeys{}, fmt.Errorf("the service of the container: %w", err)
	}
	return k, nil
}

// machineTime is how long the service of a machine may take. Elsewhere nothing has its address.
const machineTime = 2 * time.Second

// machine asks the service of an EC2 machine.
func (a *aws) machine(ctx context.Context) (awsKeys, error) {
	ctx, cancel := context.WithTimeout(ctx, machineTime)
	defer cancel()
	base := strings.TrimRight(cmp.Or(a.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://169.254.169.254"), "/") +
		"/latest/"
	token, err := a.fetch(ctx, http.MethodPut, base+"api/token",
		http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"300"}}, nil, nil)
	if err != nil {
		return awsKeys{}, errors.New("set AWS_BEARER_TOKEN_BEDROCK, AWS_PROFILE, or AWS_ACCESS_KEY_ID and " +
			"AWS_SECRET_ACCESS_KEY; or aws sso login")
	}
	header := http.Header{"X-Aws-Ec2-Metadata-Token": {string(token)}}
	base += "meta-data/iam/security-credentials/"
	role, err := a.fetch(ctx, http.MethodGet, base, header, nil, nil)
	if err != nil {
		return awsKeys{}, fmt.Errorf("the role of this machine: %w", err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(role)), "\n")
	return readCredentials(a.fetch(ctx, http.MethodGet, base+url.PathEscape(first), header, nil, nil))
}

func (a *aws) webIdentity(ctx context.Context, file, role string) (awsKeys, error) {
	token, err := regular.ReadNamed(file, maxCredentials)
	if err != nil {
		return awsKeys{}, err
	}
	return a.assume(ctx, nil, url.Values{"Action": {"AssumeRoleWithWebIdentity"}, "RoleArn": {role},
		"RoleSessionName":  {cmp.Or(a.get("AWS_ROLE_SESSION_NAME"), "knack")},
		"WebIdentityToken": {strings.TrimSpace(string(token))}})
}

// assume asks the token service for the credentials of a role. with signs the request; nil: it needs no signature.
func (a *aws) assume(ctx context.Context, with *awsKeys, form url.Values) (awsKeys, error) {
	form.Set("Version", "2011-06-15")
	if form.Get("ExternalId") == "" {
		form.Del("ExternalId")
	}
	address := cmp.Or(a.get("AWS_ENDPOINT_URL_STS"), "https://sts."+a.region()+".amazonaws.com") + "/"
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}}
	data, err := a.fetch(ctx, http.MethodPost, address, header, []byte(form.Encode()), with)
	var out struct {
		Results []struct {
			ID      string    `xml:"Credentials>AccessKeyId"`
			Secret  string    `xml:"Credentials>SecretAccessKey"`
			Token   string    `xml:"Credentials>SessionToken"`
			Expires time.Time `xml:"Credentials>Expiration"`
		} `xml:",any"`
	}
	if err == nil {
		err = xml.Unmarshal(data, &out)
	}
	if err == nil && (len(out.Results) == 0 || out.Results[0].ID == "") {
		err = errors.New("the answer has none")
	}
	if err != nil {
		return awsKeys{}, fmt.Errorf("the role %s: %w", form.Get("RoleArn"), err)
	}
	r := out.Results[0]
	return awsKeys{r.ID, r.Secret, r.Token, r.Expires}, nil
}

// maxCredentials limits the answer of a service that gives credentials.
const maxCredentials = 1 << 20

// fetch sends a request to a service that gives credentials, and signs it with keys unless they are nil.
func (a *aws) fetch(ctx context.Context, method, address string, header http.Header, body []byte,
	keys *awsKeys) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		r.Header[k] = v
	}
	if keys != nil {
		sign(r, sha256.Sum256(body), *keys, "sts", a.region(), a.Now())
	}
	client := *a.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxCredentials))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New("HTTP " + strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode))
	}
	return data, err
}
