package anthropic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
)

// bedrockKeyEnv is the variable in which AWS's own tools expect a Bedrock key.
const bedrockKeyEnv = "AWS_BEARER_TOKEN_BEDROCK"

// A host is a cloud that serves the models at different URLs. The zero value is
// Anthropic.
type host struct {
	option string // the option that selected it
	base   string
	// before and after surround the model's name in the URL path.
	before, after string
	// version is a field of the body, which replaces the model.
	version string
	bedrock bool
}

// WithVertex selects Claude on Google Cloud's Vertex AI, in a project and a location such
// as "europe-west1" or "global". Requests need a bearer token, either from
// [WithTokenSource] or from an HTTP client that adds it ([WithHTTPClient]). Models have
// Vertex AI's names, such as "claude-sonnet-4-5@20250929". Default: Anthropic's service.
func WithVertex(project, location string) Option {
	return func(c *config) error {
		if project == "" || !api.HostLabel(location) {
			return &aycoder.ConfigError{Option: "WithVertex",
				Err: fmt.Errorf("project %q or location %q is not valid", project, location)}
		}
		c.at = host{
			option: "WithVertex", base: vertexBase(location), version: "vertex-2023-10-16",
			before: "/v1/projects/" + url.PathEscape(project) + "/locations/" + location +
				"/publishers/anthropic/models/",
			after: ":streamRawPredict",
		}
		return nil
	}
}

// vertexBase returns the base URL of a location; locations that span several regions have
// a different form.
func vertexBase(location string) string {
	switch location {
	case "global":
		return "https://aiplatform.googleapis.com"
	case "us", "eu":
		return "https://aiplatform." + location + ".rep.googleapis.com"
	}
	return "https://" + location + "-aiplatform.googleapis.com"
}

// WithBedrock selects Claude on Amazon Bedrock, in a region such as "us-east-1". Requests
// need a Bedrock API key ([WithAPIKey] or the environment variable
// AWS_BEARER_TOKEN_BEDROCK), or an HTTP client that signs them ([WithHTTPClient]). The
// client calls InvokeModelWithResponseStream. Models have Bedrock's names, such as
// "us.anthropic.claude-sonnet-4-5-20250929-v1:0". Default: Anthropic's service.
func WithBedrock(region string) Option {
	return func(c *config) error {
		if !api.HostLabel(region) {
			return &aycoder.ConfigError{Option: "WithBedrock",
				Err: fmt.Errorf("region %q is not valid", region)}
		}
		c.at = host{
			option: "WithBedrock", base: "https://bedrock-runtime." + region + ".amazonaws.com",
			before: "/model/", after: "/invoke-with-response-stream",
			version: "bedrock-2023-05-31", bedrock: true,
		}
		return nil
	}
}

// WithTokenSource sets a function that returns the bearer token of a request, for
// services with short-lived tokens. The token replaces an API key. The client calls the
// function for each request, with the request's context, possibly from several goroutines
// at once. An error of the function ends the request with an [*aycoder.AuthError]. With a
// token source, [New] does not look for an API key in the environment. Default: no token
// source.
func WithTokenSource(token func(context.Context) (string, error)) Option {
	return func(c *config) error { return c.SetToken("WithTokenSource", token) }
}

// settle determines the URL and the key once all options are applied.
func (c *config) settle(model string) error {
	if c.at.option == "" {
		return c.settleOwn(model)
	}
	if c.BaseURL == defaultBaseURL {
		c.SetHome(provider, c.at.base)
	}
	env, adapt := "ANTHROPIC_VERTEX_BASE_URL", func(base string) string { return strings.TrimSuffix(base, "/v1") }
	if c.at.bedrock {
		env, adapt = "ANTHROPIC_BEDROCK_BASE_URL", nil
	}
	err := c.FindBaseURL(adapt, env)
	if err != nil {
		return err
	}
	if c.at.bedrock {
		err = c.FindKey(model, []string{"Authorization"}, bedrockKeyEnv)
	} else if c.BaseURL == c.at.base && !c.Authorised() {
		err = &aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: provider, Model: model,
			Err: errors.New("no token: pass WithTokenSource, or an http.Client that adds one")}}
	}
	if _, missing := errors.AsType[*aycoder.AuthError](err); missing && c.signs {
		return nil // the caller's client authenticates the requests
	}
	return err
}

// settleOwn determines the URL and the key for Anthropic's service. Gateways that
// ANTHROPIC_BASE_URL names often need a bearer token.
func (c *config) settleOwn(model string) error {
	if err := c.FindBaseURL(nil, "ANTHROPIC_BASE_URL"); err != nil {
		return err
	}
	if token := strings.TrimSpace(os.Getenv(tokenEnv)); token != "" && os.Getenv(keyEnv) == "" && c.AtHome() &&
		!c.Authorised() && c.Header().Get("X-Api-Key") == "" {
		if !api.Token(token) {
			return &aycoder.ConfigError{Option: tokenEnv,
				Err: errors.New("token has white space or control characters")}
		}
		return c.SetToken(tokenEnv, func(context.Context) (string, error) { return token, nil })
	}
	return c.FindKey(model, []string{"X-Api-Key", "Authorization"}, keyEnv)
}

// url returns the URL for a model.
func (c *config) url(model string) string {
	if c.at.option == "" {
		return c.BaseURL + "/v1/messages"
	}
	name := strings.ReplaceAll(url.PathEscape(model), ":", "%3A")
	return c.BaseURL + c.at.before + name + c.at.after
}

// FormatsOutput implements [aycoder.OutputFormatter]. For Anthropic's service and for
// Bedrock, it returns true for Claude Opus 4.1 and for the models from Claude 4.5 on. For
// any other service it returns false, even for these models. This includes Vertex AI,
// where structured output is off by default.
func (c *Client) FormatsOutput(model string) bool {
	switch {
	case c.cfg.at.option == "" && c.cfg.BaseURL != defaultBaseURL,
		c.cfg.at.option != "" && !c.cfg.at.bedrock:
		return false
	}
	return api.ClaudeFormatsOutput(cmp.Or(model, c.model))
}

// FormatsWithTools reports whether [aycoder.Request.Output] also constrains the answer in a request
// with tools. It returns what [Client.FormatsOutput] returns, as the service documents.
func (c *Client) FormatsWithTools(model string) bool { return c.FormatsOutput(model) }

// modelsPath returns the path of Anthropic's list of models.
func (c *config) modelsPath() string {
	if c.at.option != "" {
		return ""
	}
	return "/v1/models?limit=1000"
}

// setHeaders sets all headers of a request.
func (c *config) setHeaders(h http.Header) {
	if c.at.option == "" {
		h.Set("Anthropic-Version", c.version)
	}
	if len(c.betas) > 0 && !c.at.bedrock {
		h.Set("Anthropic-Beta", strings.Join(c.betas, ","))
	}
	if c.at.option == "" {
		c.SetHeaders(h, "X-Api-Key", "")
		return
	}
	c.SetHeaders(h, "Authorization", "Bearer ")
	if c.at.bedrock && c.Header().Get("Accept") == "" {
		h.Set("Accept", "application/json") // the type of the chunks
	}
}
