package cloud

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	googleauth "golang.org/x/oauth2/google"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A source gets tokens when the first one is needed.
type source struct {
	mu   sync.Mutex
	open func(context.Context) (oauth2.TokenSource, error)
	from oauth2.TokenSource
}

// authorize adds a token that is valid. client is for requests to the server that gives it.
func (s *source) authorize(client *http.Client, r *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == nil {
		// It is used again after the request has ended.
		from, err := s.open(context.WithValue(context.Background(), oauth2.HTTPClient, client))
		if err != nil {
			return err
		}
		s.from = oauth2.ReuseTokenSource(nil, from)
	}
	token, err := s.from.Token()
	if err != nil {
		var failed *oauth2.RetrieveError
		if errors.As(err, &failed) { // the answer could contain anything
			err = fmt.Errorf("no token: %s", strings.TrimSpace(cmp.Or(failed.ErrorCode, failed.Response.Status)+" "+
				failed.ErrorDescription))
		}
		return err
	}
	token.SetAuthHeader(r)
	return nil
}

// entra gets tokens from Microsoft Entra: for an application's secret, for a token that Kubernetes puts into a file, or
// from the service of a machine of Azure, which knows the identity that it has.
func entra(o Options) authorizer {
	s := &source{open: func(ctx context.Context) (oauth2.TokenSource, error) {
		if o.get("AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE") == "" {
			return identity{o}, nil
		}
		return tokenSource(func() (*oauth2.Token, error) { return o.application(ctx) }), nil
	}}
	return func(_ context.Context, r *http.Request, _ [sha256.Size]byte) error {
		return s.authorize(o.Client, r)
	}
}

type tokenSource func() (*oauth2.Token, error)

func (f tokenSource) Token() (*oauth2.Token, error) { return f() }

// azureScope is what models of Azure are a part of.
const azureScope = "https://cognitiveservices.azure.com"

// noKey is the error of Azure without anything that shows who asks.
func noKey() error {
	return errors.New("no key: set AZURE_OPENAI_API_KEY, AZURE_OPENAI_AD_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID " +
		"and AZURE_CLIENT_SECRET; or give the machine an identity, if it is one of Azure")
}

// application exchanges the secret of an application for a token; without a secret, the token in a file, which Azure
// renews.
func (o *Options) application(ctx context.Context) (*oauth2.Token, error) {
	tenant, id, file := o.get("AZURE_TENANT_ID"), o.get("AZURE_CLIENT_ID"), o.get("AZURE_FEDERATED_TOKEN_FILE")
	if tenant == "" || id == "" {
		return nil, noKey()
	}
	host := strings.TrimRight(cmp.Or(o.get("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com"), "/")
	config := &clientcredentials.Config{ClientID: id, ClientSecret: o.get("AZURE_CLIENT_SECRET"),
		TokenURL: host + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token",
		Scopes:   []string{azureScope + "/.default"}, AuthStyle: oauth2.AuthStyleInParams}
	if config.ClientSecret == "" {
		data, err := regular.ReadNamed(file, maxCredentials)
		if err != nil {
			return nil, err
		}
		config.EndpointParams = url.Values{"client_assertion": {strings.TrimSpace(string(data))},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}}
	}
	return config.Token(ctx)
}

// An identity gets tokens from the service of a machine, or of an application in App Service.
type identity struct{ Options }

// Token asks the service. Elsewhere nothing has its address.
func (i identity) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), machineTime)
	defer cancel()
	address, version := i.get("IDENTITY_ENDPOINT"), "2019-08-01"
	name, value := "X-Identity-Header", i.get("IDENTITY_HEADER")
	if address == "" {
		base := cmp.Or(i.get("AZURE_POD_IDENTITY_AUTHORITY_HOST"), "http://169.254.169.254")
		address, version = base+"/metadata/identity/oauth2/token", "2018-02-01"
		name, value = "Metadata", "true"
	}
	query := url.Values{"api-version": {version}, "resource": {azureScope}}
	if id := i.get("AZURE_CLIENT_ID"); id != "" {
		query.Set("client_id", id)
	}
	data, err := (&aws{Options: i.Options}).fetch(ctx, http.MethodGet, address+"?"+query.Encode(),
		http.Header{name: {value}}, nil, nil)
	var out struct {
		Token   string      `json:"access_token"`
		Expires json.Number `json:"expires_on"` // in seconds, also as a text
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	seconds, _ := out.Expires.Int64() // without it, the next request asks again
	switch {
	case i.get("IDENTITY_ENDPOINT") != "" && err != nil:
		return nil, fmt.Errorf("the identity of this application: %w", err)
	case err != nil || out.Token == "":
		return nil, noKey()
	}
	return &oauth2.Token{AccessToken: out.Token, TokenType: "Bearer", Expiry: time.Unix(max(seconds, 1), 0)}, nil
}

// adc gets tokens from application default credentials: a file that GOOGLE_APPLICATION_CREDENTIALS names or gcloud
// has written, else the service of the machine.
type adc struct {
	Options
	source source
}

const googleScope = "https://www.googleapis.com/auth/cloud-platform"

// file returns the credentials, and nil if there is no file.
func (g *adc) file() ([]byte, error) {
	if name := g.get("GOOGLE_APPLICATION_CREDENTIALS"); name != "" {
		return regular.ReadNamed(name, maxCredentials)
	}
	dir := g.get("CLOUDSDK_CONFIG")
	if dir == "" && g.Home != "" {
		dir = filepath.Join(g.Home, ".config", "gcloud")
	}
	if data := g.get("APPDATA"); data != "" && g.get("CLOUDSDK_CONFIG") == "" {
		dir = filepath.Join(data, "gcloud")
	}
	if dir == "" {
		return nil, nil
	}
	data, err := regular.Read(filepath.Join(dir, "application_default_credentials.json"), maxCredentials)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// project returns the project that the credentials belong to; "": they do not say it.
func (g *adc) project() string {
	data, _ := g.file() // an error is reported with the first request
	var f struct {
		Project string `json:"project_id"`
		Quota   string `json:"quota_project_id"`
	}
	json.Unmarshal(data, &f) // the same
	return cmp.Or(f.Project, f.Quota)
}

func (g *adc) authorize(_ context.Context, r *http.Request, _ [sha256.Size]byte) error {
	return g.source.authorize(g.Client, r)
}

func (g *adc) open(ctx context.Context) (oauth2.TokenSource, error) {
	data, err := g.file()
	if err != nil {
		return nil, err
	}
	if data == nil {
		return googleauth.ComputeTokenSource("", googleScope), nil
	}
	var kind struct {
		Type googleauth.CredentialsType `json:"type"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, fmt.Errorf("the credentials of Google cannot be read: %w", err)
	}
	switch kind.Type { // others may run programs or read any file
	case googleauth.ServiceAccount, googleauth.AuthorizedUser, googleauth.ImpersonatedServiceAccount:
	default:
		return nil, fmt.Errorf("credentials of Google of the type %q are not supported", kind.Type)
	}
	c, err := googleauth.CredentialsFromJSONWithType(ctx, data, kind.Type, googleScope)
	if err != nil {
		return nil, err
	}
	return c.TokenSource, nil
}
