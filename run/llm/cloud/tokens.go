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

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	googleauth "golang.org/x/oauth2/google"
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

// entra gets tokens from Microsoft Entra for an application's secret.
func entra(o Options) (authorizer, error) {
	tenant, id, secret := o.get("AZURE_TENANT_ID"), o.get("AZURE_CLIENT_ID"), o.get("AZURE_CLIENT_SECRET")
	if tenant == "" || id == "" || secret == "" {
		return nil, errors.New("no key: set AZURE_OPENAI_API_KEY, AZURE_OPENAI_AD_TOKEN, or AZURE_TENANT_ID, " +
			"AZURE_CLIENT_ID and AZURE_CLIENT_SECRET")
	}
	host := strings.TrimRight(cmp.Or(o.get("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com"), "/")
	config := &clientcredentials.Config{ClientID: id, ClientSecret: secret,
		TokenURL:  host + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token",
		Scopes:    []string{"https://cognitiveservices.azure.com/.default"},
		AuthStyle: oauth2.AuthStyleInParams}
	s := &source{open: func(ctx context.Context) (oauth2.TokenSource, error) { return config.TokenSource(ctx), nil }}
	return func(_ context.Context, r *http.Request, _ [sha256.Size]byte) error {
		return s.authorize(o.Client, r)
	}, nil
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
		return os.ReadFile(name)
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
	data, err := os.ReadFile(filepath.Join(dir, "application_default_credentials.json"))
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
