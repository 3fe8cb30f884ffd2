// Package cloud reaches models that the clouds of Amazon, Google and Microsoft serve in the formats of the models'
// vendors: Claude on Bedrock and Vertex AI, Gemini on Vertex AI, and OpenAI's models on Azure.
//
// Start with [Open]. What shows who asks is what the command-line tools of the clouds leave behind: environment
// variables, files in the home directory, and the services of machines and containers. It is looked for with the first
// request, kept until it expires, and then renewed. No real account was ever tried: the requests are those of the
// vendors' own libraries.
//
// Most programs start with package engine.
package cloud

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

// A Kind is a cloud.
type Kind string

const (
	Bedrock Kind = "bedrock"
	Vertex  Kind = "vertex"
	Azure   Kind = "azure"
)

// Options say where a cloud's settings come from. The zero value has none.
type Options struct {
	Getenv func(string) string // of the user's environment; nil: it is empty
	Home   string              // of the user; "": files in it are not read
	Base   string              // replaces the cloud's address; "": its own
	Key    string              // a bearer token, or a key of Azure; "": it is looked for
	Bearer bool                // Key is a token of Azure
	Client *http.Client        // for what shows who asks; nil: http.DefaultClient
	Now    func() time.Time    // nil: time.Now
}

func (o *Options) get(names ...string) string {
	for _, name := range names {
		if v := strings.TrimSpace(o.Getenv(name)); v != "" {
			return v
		}
	}
	return ""
}

// on reports whether a variable says yes.
func (o *Options) on(name string) bool { return Yes(o.get(name)) }

// Yes reports whether the value of a variable such as CLAUDE_CODE_USE_BEDROCK says yes.
func Yes(value string) bool {
	return value != "" && value != "0" && !strings.EqualFold(value, "false") && !strings.EqualFold(value, "no")
}

// Open returns how a model of a cloud is reached. gemini means that it has Google's format, and chat that it has the
// format of Chat Completions. It sends nothing; what is missing is an error that names the variable that mends it.
func Open(k Kind, model string, gemini, chat bool, o Options) (*llm.Cloud, error) {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Base = strings.TrimRight(o.Base, "/")
	switch k {
	case Bedrock:
		return openBedrock(model, chat, o)
	case Vertex:
		return openVertex(model, gemini, o)
	case Azure:
		return openAzure(model, chat, o)
	}
	return nil, fmt.Errorf("there is no cloud %q", k)
}

// An authorizer is the Authorize of an llm.Cloud.
type authorizer func(context.Context, *http.Request, [sha256.Size]byte) error

// none is for servers in between that add what the cloud wants.
func none(context.Context, *http.Request, [sha256.Size]byte) error { return nil }

// bearer sends a token.
func bearer(token string) authorizer {
	return func(_ context.Context, r *http.Request, _ [sha256.Size]byte) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
}

// openBedrock returns the way to Claude, in the Messages format, or to the models of others, which Bedrock has in the
// format of Chat Completions.
func openBedrock(model string, chat bool, o Options) (*llm.Cloud, error) {
	a := &aws{Options: o}
	region := a.region()
	base := cmp.Or(o.Base, "https://bedrock-runtime."+region+".amazonaws.com")
	c := &llm.Cloud{URL: base + "/model/" + url.PathEscape(model) + "/invoke-with-response-stream",
		Version: "bedrock-2023-05-31", Unstreamed: true}
	if chat {
		for _, vendor := range [...]string{"amazon.", "meta.", "cohere.", "ai21.", "writer."} {
			if strings.HasPrefix(model, vendor) || strings.Contains(model, "."+vendor) {
				return nil, fmt.Errorf("%s is there only in the format Converse, which Knack does not speak: choose a model of "+
					"Anthropic, OpenAI, DeepSeek, Qwen, Mistral, Moonshot or Z.AI", model)
			}
		}
		c = &llm.Cloud{URL: base + "/openai/v1/chat/completions"}
	}
	switch {
	case o.on("CLAUDE_CODE_SKIP_BEDROCK_AUTH"):
		c.Authorize = none
	case o.Key != "":
		c.Authorize = bearer(o.Key)
	default:
		c.Authorize = func(ctx context.Context, r *http.Request, body [sha256.Size]byte) error {
			keys, err := a.keys(ctx)
			if err == nil {
				sign(r, body, keys, "bedrock", region, o.Now())
			}
			return err
		}
	}
	return c, nil
}

func openVertex(model string, gemini bool, o Options) (*llm.Cloud, error) {
	g := &adc{Options: o}
	g.source.open = g.open
	region := cmp.Or(o.get("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION"), "global")
	host := "https://" + region + "-aiplatform.googleapis.com"
	switch region {
	case "global":
		host = "https://aiplatform.googleapis.com"
	case "us", "eu":
		host = "https://aiplatform." + region + ".rep.googleapis.com"
	}
	project := o.get("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
	if project == "" {
		if project = g.project(); project == "" {
			return nil, fmt.Errorf("no project: set GOOGLE_CLOUD_PROJECT or ANTHROPIC_VERTEX_PROJECT_ID")
		}
	}
	c := &llm.Cloud{Version: "vertex-2023-10-16", Authorize: g.authorize}
	publisher, method, base := "anthropic", "streamRawPredict", cmp.Or(o.Base, host+"/v1")
	if gemini {
		publisher, method = "google", "streamGenerateContent?alt=sse"
		if base = o.Base; base == "" || base == strings.TrimRight(o.get("ANTHROPIC_VERTEX_BASE_URL"), "/") {
			base = cmp.Or(strings.TrimRight(o.get("GOOGLE_VERTEX_BASE_URL"), "/"), host) + "/v1beta1"
		}
	}
	c.URL = fmt.Sprintf("%s/projects/%s/locations/%s/publishers/%s/models/%s:%s", base, url.PathEscape(project),
		url.PathEscape(region), publisher, url.PathEscape(model), method)
	switch {
	case o.on("CLAUDE_CODE_SKIP_VERTEX_AUTH"):
		c.Authorize = none
	case o.Key != "":
		c.Authorize = bearer(o.Key)
	}
	return c, nil
}

func openAzure(deployment string, chat bool, o Options) (*llm.Cloud, error) {
	if name := o.get("AZURE_OPENAI_RESOURCE_NAME"); o.Base == "" && name != "" {
		o.Base = "https://" + url.PathEscape(name) + ".openai.azure.com"
	}
	if o.Base == "" {
		return nil, fmt.Errorf("no address: set AZURE_OPENAI_ENDPOINT, such as https://NAME.openai.azure.com")
	}
	base := strings.TrimSuffix(strings.TrimSuffix(o.Base, "/v1"), "/openai") + "/openai"
	path, version := "/responses", o.get("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION")
	if chat {
		path = "/chat/completions"
	}
	switch {
	case version == "" || version == "v1" || version == "preview" || version == "latest":
		if path = "/v1" + path; version != "" && version != "v1" {
			path += "?api-version=" + version
		}
	case chat:
		path = "/deployments/" + url.PathEscape(deployment) + path + "?api-version=" + url.QueryEscape(version)
	default:
		path += "?api-version=" + url.QueryEscape(version)
	}
	c := &llm.Cloud{URL: base + path}
	switch token := o.get("AZURE_OPENAI_AD_TOKEN"); {
	case o.Key != "" && (o.Bearer || strings.HasPrefix(o.Key, "eyJ")): // a token of Entra
		c.Authorize = bearer(o.Key)
	case o.Key != "":
		c.Authorize = func(_ context.Context, r *http.Request, _ [sha256.Size]byte) error {
			r.Header.Set("Api-Key", o.Key)
			return nil
		}
	case token != "":
		c.Authorize = bearer(token)
	default:
		c.Authorize = entra(o)
	}
	return c, nil
}
