package compat

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/bedrock"
)

const bedrockAnswer = `{"output":{"message":{"role":"assistant","content":[{"text":"hi"}]}},"stopReason":"end_turn",` +
	`"usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`

// bedrockUnions are the unions of the Converse API, and bedrockMembers their members.
var (
	bedrockUnions = []reflect.Type{
		reflect.TypeFor[types.ContentBlock](), reflect.TypeFor[types.ToolResultContentBlock](),
		reflect.TypeFor[types.SystemContentBlock](), reflect.TypeFor[types.Tool](), reflect.TypeFor[types.ToolChoice](),
		reflect.TypeFor[types.ToolInputSchema](), reflect.TypeFor[types.ImageSource](),
		reflect.TypeFor[types.DocumentSource](), reflect.TypeFor[types.VideoSource](), reflect.TypeFor[types.AudioSource](),
		reflect.TypeFor[types.ReasoningContentBlock](),
		reflect.TypeFor[types.OutputFormatStructure](), reflect.TypeFor[types.CitationGeneratedContent](),
		reflect.TypeFor[types.CitationLocation](), reflect.TypeFor[types.CitationSourceContent](),
	}
	bedrockMembers = []any{
		types.ContentBlockMemberAudio{}, types.ContentBlockMemberCachePoint{}, types.ContentBlockMemberCitationsContent{},
		types.ContentBlockMemberDocument{}, types.ContentBlockMemberImage{}, types.ContentBlockMemberReasoningContent{},
		types.ContentBlockMemberText{}, types.ContentBlockMemberToolResult{}, types.ContentBlockMemberToolUse{},
		types.ContentBlockMemberVideo{}, types.ToolResultContentBlockMemberDocument{},
		types.ToolResultContentBlockMemberImage{}, types.ToolResultContentBlockMemberJson{}, types.ToolResultContentBlockMemberText{},
		types.ToolResultContentBlockMemberVideo{},
		types.SystemContentBlockMemberCachePoint{}, types.SystemContentBlockMemberText{}, types.ToolMemberCachePoint{},
		types.ToolMemberToolSpec{}, types.ToolMemberSystemTool{}, types.ToolChoiceMemberAny{}, types.ToolChoiceMemberAuto{},
		types.ToolChoiceMemberTool{}, types.ToolInputSchemaMemberJson{}, types.ImageSourceMemberBytes{},
		types.ImageSourceMemberS3Location{}, types.DocumentSourceMemberBytes{}, types.DocumentSourceMemberS3Location{},
		types.DocumentSourceMemberText{}, types.VideoSourceMemberBytes{}, types.VideoSourceMemberS3Location{},
		types.AudioSourceMemberBytes{}, types.ReasoningContentBlockMemberReasoningText{},
		types.ReasoningContentBlockMemberRedactedContent{}, types.OutputFormatStructureMemberJsonSchema{},
		types.CitationGeneratedContentMemberText{}, types.CitationLocationMemberDocumentChar{},
		types.CitationLocationMemberDocumentChunk{}, types.CitationLocationMemberDocumentPage{},
		types.CitationLocationMemberWeb{}, types.CitationSourceContentMemberText{},
	}
)

// bedrockRules are the rules for types without tags. Their field names differ from the wire
// in the case of the first letter.
func bedrockRules(t testing.TB) rules {
	t.Helper()
	r := readRules(t, "github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types")
	r.name = func(f reflect.StructField) string {
		if !f.IsExported() || f.Name == "ResultMetadata" || f.Name == "ModelId" { // it is in the address
			return ""
		}
		return lower(f.Name)
	}
	r.open = map[reflect.Type]func(any) any{reflect.TypeFor[document.Interface](): func(doc any) any {
		var plain any // without the numbers of encoding/json
		data, err := json.Marshal(doc)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &plain))
		return document.NewLazyDocument(plain)
	}}
	r.variants = map[reflect.Type][]reflect.Type{}
	for _, u := range bedrockUnions {
		for _, m := range bedrockMembers {
			if typ := reflect.TypeOf(m); reflect.PointerTo(typ).Implements(u) {
				r.variants[u] = append(r.variants[u], typ)
			}
		}
	}
	return r
}

func bedrockReads(t testing.TB, rules rules, body []byte) {
	t.Helper()
	var in sdk.ConverseStreamInput
	if requireStrict(t, rules, body, &in) > 0 {
		return
	}
	sameBodies(t, body, bedrockSends(t, &in))
}

// bedrockSends returns the body that the SDK sends, after its check of required fields.
func bedrockSends(t testing.TB, in *sdk.ConverseStreamInput) []byte {
	t.Helper()
	k := &keeper{}
	c := sdk.New(sdk.Options{Region: "us-east-1", HTTPClient: k.client(),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		})})
	in.ModelId = aws.String("m")
	out, err := c.ConverseStream(t.Context(), in)
	require.NoError(t, err)
	require.NoError(t, out.GetStream().Close())
	return k.body
}

func bedrockClient(t testing.TB, rt http.RoundTripper, model string) aycoder.ModelClient {
	t.Helper()
	c, err := bedrock.New(model, bedrock.WithRegion("us-east-1"), bedrock.WithAPIKey("key"),
		bedrock.WithHTTPClient(&http.Client{Transport: rt}))
	require.NoError(t, err)
	return c
}

func TestBedrock(t *testing.T) {
	rules := bedrockRules(t)
	own := []aycoder.Part{
		&aycoder.Thinking{Text: "hm", Signature: "c2ln", Provider: "bedrock"},
		&aycoder.Opaque{Provider: "bedrock", Raw: json.RawMessage(`{"reasoningContent":{"redactedContent":"ZGF0YQ=="}}`)},
	}
	extra := map[string]json.RawMessage{"additionalModelRequestFields": json.RawMessage(`{"top_k":5}`),
		"requestMetadata": json.RawMessage(`{"a":"b"}`)}
	for _, model := range []string{"us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.amazon.nova-pro-v1:0",
		"openai.gpt-oss-120b-1:0"} {
		for _, c := range cases(t, own, extra) {
			t.Run(model+"/"+c.name, func(t *testing.T) {
				k := &keeper{answer: bedrockAnswer}
				body, err := bodyOf(t, k, bedrockClient(t, k, model), c.req)
				require.NoError(t, err)
				bedrockReads(t, rules, body)
			})
		}
	}
}

func TestBedrockRecorded(t *testing.T) {
	known := bedrockRules(t)
	client := func(rt http.RoundTripper, model string) aycoder.ModelClient { return bedrockClient(t, rt, model) }
	eachResent(t, "bedrock-converse", client, func(r *resent) {
		known.sent = r.sent
		t.Run(r.id, func(t *testing.T) { bedrockReads(t, known, r.body) })
	})
}
