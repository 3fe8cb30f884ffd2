package models

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

// listTime limits how long a provider may take to list its models.
const listTime = 5 * time.Second

// ErrKeyRefused is the error of [List] if the provider does not accept the key.
var ErrKeyRefused = errors.New("the key was refused")

// List asks a provider for the names of its models, which takes at most some seconds. It is an error if the list has
// more than one page.
func List(ctx context.Context, e *llm.Endpoint, format Format) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	path := map[Format]string{Messages: "/v1/models?limit=1000",
		Gemini: "/v1beta/models?pageSize=1000"}[format]
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(e.BaseURL, "/")+cmp.Or(path,
		"/models"),
		nil)
	if err != nil {
		return nil, err
	}
	switch {
	case e.Key == "":
	case format == Messages && !e.Bearer:
		req.Header.Set("X-Api-Key", e.Key)
	case format == Gemini:
		req.Header.Set("X-Goog-Api-Key", e.Key)
	default:
		req.Header.Set("Authorization", "Bearer "+e.Key)
	}
	if format == Messages {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	client := *cmp.Or(e.Client, http.DefaultClient)
	// The target of a redirect would get the key.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("%w: %s", ErrKeyRefused, resp.Status)
	default:
		return nil, errors.New(resp.Status)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
		Models []struct {
			Name string `json:"name"` // models/gemini-…
		} `json:"models"`
		More bool   `json:"has_more"`
		Next string `json:"nextPageToken"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&list); err != nil {
		return nil, err
	}
	if list.More || list.Next != "" {
		return nil, errors.New("the list has more than one page")
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	for _, m := range list.Models {
		names = append(names, strings.TrimPrefix(m.Name, "models/"))
	}
	return names, nil
}
