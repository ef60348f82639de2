package compat

import (
	"encoding/json"
	"testing"

	sdkanthropic "github.com/anthropics/anthropic-sdk-go"
	sdkopenai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/openai"
)

const (
	citySchema = `{"type":"object","properties":{"city":{"type":"string"}},` +
		`"required":["city"],"additionalProperties":false}`
	answerSchema = `{"type":"object","properties":{"rain":{"type":"boolean"}},` +
		`"required":["rain"],"additionalProperties":false}`
)

// object is a document of a test.
func object(t testing.TB, s string) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(s), &m))
	return m
}

// conversation is built again below with the types of each SDK.
func conversation(own ...aycoder.Part) *aycoder.Request {
	return &aycoder.Request{
		System: []*aycoder.Text{text("Be brief.")},
		Messages: []*aycoder.Message{
			user(text("Where is this, and does it rain there?"), png),
			assistant(append(own, text("Let me see."), call("call_1", "weather", `{"city":"Ulm"}`), call("call_2", "weather",
				`{"city":"Rom"}`))...),
			user(output("call_1", "weather", text("rain")), failed("call_2", "weather", text("no such city"))),
			assistant(text("It rains.")),
			user(text("Thanks.")),
		},
		Tools: []*aycoder.ToolSpec{{Name: "weather", Description: "Tells the weather.",
			Schema: json.RawMessage(citySchema)}},
		ToolChoice:  aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "weather"},
		Temperature: new(0.5),
		MaxTokens:   100,
		NoCache:     true,
	}
}

// asked returns a request that asks about a document.
func asked() *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Does it rain?")}, MaxTokens: 100, NoCache: true,
		Output: &aycoder.OutputFormat{Name: "rain", Schema: json.RawMessage(answerSchema)}}
}

// samePair compares our body with that of an SDK, both in plain form.
func samePair(t *testing.T, ours, theirs []byte) {
	t.Helper()
	a, err := parse(ours)
	require.NoError(t, err)
	b, err := parse(theirs)
	require.NoError(t, err)
	plainForm(a)
	plainForm(b)
	if at := differ("", a, b) + differ("", b, a); at != "" {
		t.Fatalf("ours and the SDK's body differ at %s\n%s\n%s", at, ours, theirs)
	}
}

// plainForm normalizes forms that APIs accept as equal. A string as content becomes a list
// with this text. Values that are false or "auto" are removed, and so is the type of a
// message.
func plainForm(doc any) {
	switch doc := doc.(type) {
	case []any:
		for _, inner := range doc {
			plainForm(inner)
		}
	case map[string]any:
		for name, inner := range doc {
			plainForm(inner)
			if s, ok := inner.(string); ok && name == "content" {
				doc[name] = []any{map[string]any{"type": "text", "text": s}}
			}
			if inner == nil || inner == false && name == "is_error" || inner == "auto" && name == "detail" ||
				inner == "message" && name == "type" {
				delete(doc, name)
			}
		}
	}
}

func TestAnthropicPairs(t *testing.T) {
	k := &keeper{answer: anthropicAnswer}
	client := anthropicOver(t, k, "claude-sonnet-4-5")
	tool := sdkanthropic.ToolUnionParamOfTool(sdkanthropic.ToolInputSchemaParam{
		Properties: object(t, citySchema)["properties"], Required: []string{"city"},
		ExtraFields: map[string]any{"additionalProperties": false}}, "weather")
	tool.OfTool.Description = sdkanthropic.String("Tells the weather.")
	for _, c := range []struct {
		name string
		req  *aycoder.Request
		want sdkanthropic.MessageNewParams
	}{
		{"conversation", conversation(&aycoder.Thinking{Text: "hm", Signature: "c2ln", Provider: "anthropic"}),
			sdkanthropic.MessageNewParams{
				Model: "claude-sonnet-4-5", MaxTokens: 100, Temperature: sdkanthropic.Float(0.5),
				System: []sdkanthropic.TextBlockParam{{Text: "Be brief."}},
				Tools:  []sdkanthropic.ToolUnionParam{tool}, ToolChoice: sdkanthropic.ToolChoiceParamOfTool("weather"),
				Messages: []sdkanthropic.MessageParam{
					sdkanthropic.NewUserMessage(sdkanthropic.NewTextBlock("Where is this, and does it rain there?"),
						sdkanthropic.NewImageBlockBase64("image/png", "iVBORw0K")),
					sdkanthropic.NewAssistantMessage(sdkanthropic.NewThinkingBlock("c2ln", "hm"),
						sdkanthropic.NewTextBlock("Let me see."),
						sdkanthropic.NewToolUseBlock("call_1", map[string]any{"city": "Ulm"}, "weather"),
						sdkanthropic.NewToolUseBlock("call_2", map[string]any{"city": "Rom"}, "weather")),
					sdkanthropic.NewUserMessage(sdkanthropic.NewToolResultBlock("call_1", "rain", false),
						sdkanthropic.NewToolResultBlock("call_2", "no such city", true)),
					sdkanthropic.NewAssistantMessage(sdkanthropic.NewTextBlock("It rains.")),
					sdkanthropic.NewUserMessage(sdkanthropic.NewTextBlock("Thanks.")),
				},
			}},
		{"document", asked(), sdkanthropic.MessageNewParams{Model: "claude-sonnet-4-5", MaxTokens: 100,
			OutputConfig: sdkanthropic.OutputConfigParam{Format: sdkanthropic.JSONOutputFormatParam{Schema: object(t,
				answerSchema)}},
			Messages: []sdkanthropic.MessageParam{sdkanthropic.NewUserMessage(sdkanthropic.NewTextBlock("Does it rain?"))}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := bodyOf(t, k, client, c.req)
			require.NoError(t, err)
			samePair(t, body, anthropicSends(t, c.want))
		})
	}
}

func TestOpenAIChatPairs(t *testing.T) {
	k := &keeper{answer: chatAnswer}
	client := openaiClient(t, k, flavour{"", "gpt-4o", nil})
	toolCall := func(id, args string) sdkopenai.ChatCompletionMessageToolCallUnionParam {
		return sdkopenai.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdkopenai.ChatCompletionMessageFunctionToolCallParam{ID: id,
			Function: sdkopenai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "weather", Arguments: args}}}
	}
	calls := sdkopenai.AssistantMessage("Let me see.")
	calls.OfAssistant.ToolCalls = []sdkopenai.ChatCompletionMessageToolCallUnionParam{
		toolCall("call_1", `{"city":"Ulm"}`), toolCall("call_2", `{"city":"Rom"}`)}
	usage := sdkopenai.ChatCompletionStreamOptionsParam{IncludeUsage: sdkopenai.Bool(true)}
	for _, c := range []struct {
		name string
		req  *aycoder.Request
		want sdkopenai.ChatCompletionNewParams
	}{
		{"conversation", conversation(), sdkopenai.ChatCompletionNewParams{
			Model: "gpt-4o", MaxCompletionTokens: sdkopenai.Int(100), Temperature: sdkopenai.Float(0.5), StreamOptions: usage,
			Tools: []sdkopenai.ChatCompletionToolUnionParam{sdkopenai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
				Name: "weather", Description: sdkopenai.String("Tells the weather."), Parameters: object(t, citySchema)})},
			ToolChoice: sdkopenai.ToolChoiceOptionFunctionToolChoice(
				sdkopenai.ChatCompletionNamedToolChoiceFunctionParam{Name: "weather"}),
			Messages: []sdkopenai.ChatCompletionMessageParamUnion{
				sdkopenai.SystemMessage("Be brief."),
				sdkopenai.UserMessage([]sdkopenai.ChatCompletionContentPartUnionParam{
					sdkopenai.TextContentPart("Where is this, and does it rain there?"),
					sdkopenai.ImageContentPart(sdkopenai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64,iVBORw0K"})}),
				calls, sdkopenai.ToolMessage("rain", "call_1"), sdkopenai.ToolMessage("Error: no such city", "call_2"),
				sdkopenai.AssistantMessage("It rains."), sdkopenai.UserMessage("Thanks."),
			},
		}},
		{"document", asked(), sdkopenai.ChatCompletionNewParams{
			Model: "gpt-4o", MaxCompletionTokens: sdkopenai.Int(100), StreamOptions: usage,
			ResponseFormat: sdkopenai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
				JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "rain", Strict: sdkopenai.Bool(true),
					Schema: object(t, answerSchema)}}},
			Messages: []sdkopenai.ChatCompletionMessageParamUnion{sdkopenai.UserMessage("Does it rain?")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := bodyOf(t, k, client, c.req)
			require.NoError(t, err)
			samePair(t, body, chatSends(t, c.want))
		})
	}
}

func TestOpenAIResponsesPairs(t *testing.T) {
	k := &keeper{answer: responsesAnswer}
	client := openaiClient(t, k, flavour{"", "gpt-4o", []openai.Option{openai.WithResponses(true)}})
	input := func(items ...responses.ResponseInputItemUnionParam) responses.ResponseNewParamsInputUnion {
		return responses.ResponseNewParamsInputUnion{OfInputItemList: items}
	}
	result := func(id, text string) responses.ResponseInputItemUnionParam {
		item := responses.ResponseInputItemParamOfFunctionCallOutput(text)
		item.OfFunctionCallOutput.CallID = sdkopenai.String(id)
		return item
	}
	image := responses.ResponseInputContentParamOfInputImage("auto")
	image.OfInputImage.ImageURL = sdkopenai.String("data:image/png;base64,iVBORw0K")
	tool := responses.ToolParamOfFunction("weather", object(t, citySchema), false)
	tool.OfFunction.Description = sdkopenai.String("Tells the weather.")
	format := responses.ResponseFormatTextConfigParamOfJSONSchema("rain", object(t, answerSchema))
	format.OfJSONSchema.Strict = sdkopenai.Bool(true)
	for _, c := range []struct {
		name string
		req  *aycoder.Request
		want responses.ResponseNewParams
	}{
		{"conversation", conversation(), responses.ResponseNewParams{
			Model: "gpt-4o", MaxOutputTokens: sdkopenai.Int(100), Temperature: sdkopenai.Float(0.5),
			Store:        sdkopenai.Bool(false),
			Instructions: sdkopenai.String("Be brief."), Tools: []responses.ToolUnionParam{tool},
			ToolChoice: responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "weather"}},
			Input: input(
				responses.ResponseInputItemParamOfMessage(responses.ResponseInputMessageContentListParam{
					responses.ResponseInputContentParamOfInputText("Where is this, and does it rain there?"), image}, "user"),
				responses.ResponseInputItemParamOfMessage("Let me see.", "assistant"),
				responses.ResponseInputItemParamOfFunctionCall(`{"city":"Ulm"}`, "call_1", "weather"),
				responses.ResponseInputItemParamOfFunctionCall(`{"city":"Rom"}`, "call_2", "weather"),
				result("call_1", "rain"),
				result("call_2", "Error: no such city"),
				responses.ResponseInputItemParamOfMessage("It rains.", "assistant"),
				responses.ResponseInputItemParamOfMessage("Thanks.", "user")),
		}},
		{"document", asked(), responses.ResponseNewParams{Model: "gpt-4o", MaxOutputTokens: sdkopenai.Int(100),
			Store: sdkopenai.Bool(false), Text: responses.ResponseTextConfigParam{Format: format},
			Input: input(responses.ResponseInputItemParamOfMessage("Does it rain?", "user"))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := bodyOf(t, k, client, c.req)
			require.NoError(t, err)
			samePair(t, body, responsesSends(t, c.want))
		})
	}
}

func TestGooglePairs(t *testing.T) {
	k := &keeper{answer: googleAnswer}
	client := googleClient(t, k, "gemini-2.5-flash", false)
	part := func(p *genai.Part, id string) *genai.Part { p.FunctionCall.ID = id; return p }
	result := func(id, key, text string) *genai.Part {
		p := genai.NewPartFromFunctionResponse("weather", map[string]any{key: text})
		p.FunctionResponse.ID = id
		return p
	}
	for _, c := range []struct {
		name     string
		req      *aycoder.Request
		contents []*genai.Content
		config   *genai.GenerateContentConfig
	}{
		{"conversation", conversation(), []*genai.Content{
			genai.NewContentFromParts([]*genai.Part{genai.NewPartFromText("Where is this, and does it rain there?"),
				genai.NewPartFromBytes(png.Data, "image/png")}, genai.RoleUser),
			genai.NewContentFromParts([]*genai.Part{genai.NewPartFromText("Let me see."),
				part(genai.NewPartFromFunctionCall("weather", map[string]any{"city": "Ulm"}), "call_1"),
				part(genai.NewPartFromFunctionCall("weather", map[string]any{"city": "Rom"}), "call_2")}, genai.RoleModel),
			genai.NewContentFromParts([]*genai.Part{result("call_1", "output", "rain"), result("call_2", "error",
				"no such city")}, genai.RoleUser),
			genai.NewContentFromText("It rains.", genai.RoleModel), genai.NewContentFromText("Thanks.", genai.RoleUser),
		}, &genai.GenerateContentConfig{
			SystemInstruction: genai.NewContentFromText("Be brief.", ""), Temperature: new(float32(0.5)), MaxOutputTokens: 100,
			Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "weather",
				Description:          "Tells the weather.",
				ParametersJsonSchema: object(t, citySchema)}}}},
			ToolConfig: &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny,
				AllowedFunctionNames: []string{"weather"}}},
		}},
		{"document", asked(), genai.Text("Does it rain?"), &genai.GenerateContentConfig{MaxOutputTokens: 100,
			ResponseMIMEType: "application/json", ResponseJsonSchema: object(t, answerSchema)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := bodyOf(t, k, client, c.req)
			require.NoError(t, err)
			samePair(t, withoutEmpty(t, body), withoutEmpty(t, googleSDKSends(t, false, c.contents, c.config)))
		})
	}
}
