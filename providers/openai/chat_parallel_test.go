package openai

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// chatLoop decodes a body that a local server sends.
func chatLoop(t testing.TB, body string) *wiretest.Answer {
	t.Helper()
	return wiretest.Ask(t.Context(), t, newChat(t, wiretest.Answering(t, wiretest.Stream, body)),
		&aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}})
}

// Parallel calls whose pieces are identified by ids, by names, by indexes in some pieces,
// or not at all. A call whose pieces cannot be told from another's is truncated, and no
// call runs with arguments that were not sent.
func TestChatParallelCalls(t *testing.T) {
	const (
		idA, idB     = `"id":"a"`, `"id":"b"`
		nameX, nameY = `"function":{"name":"x","arguments":`, `"function":{"name":"y","arguments":`
		none         = `"function":{"arguments":`
		p1, p2       = `"{\"p\":"`, `"1}"`
		q1, q2       = `"{\"q\":"`, `"2}"`
		p, q         = `"{\"p\":1}"`, `"{\"q\":2}"`
		at0, at1     = `"index":0,`, `"index":1,`
		empty        = `""`
	)
	bothWhole := "call a x {\"p\":1}\ncall b y {\"q\":2}"
	piece := func(fields ...string) string { return "{" + strings.Join(fields, "") + "}}" }
	tests := []struct {
		name   string
		chunks [][]string // the pieces of each chunk
		want   string
	}{
		{"ids in each piece, interleaved", [][]string{
			{piece(idA, ",", nameX, empty), piece(idB, ",", nameY, empty)},
			{piece(idA, ",", none, p1), piece(idB, ",", none, q1)},
			{piece(idB, ",", none, q2), piece(idA, ",", none, p2)}}, bothWhole},
		{"ids in each piece, one after the other", [][]string{
			{piece(idA, ",", nameX, empty)}, {piece(idB, ",", nameY, empty)},
			{piece(idA, ",", none, p)}, {piece(idB, ",", none, q)}}, bothWhole},
		{"ids and names in each piece", [][]string{
			{piece(idA, ",", nameX, empty), piece(idB, ",", nameY, empty)},
			{piece(idA, ",", nameX, p1), piece(idB, ",", nameY, q1)},
			{piece(idA, ",", nameX, p2), piece(idB, ",", nameY, q2)}}, bothWhole},
		{"{} first, then ids", [][]string{
			{piece(idA, ",", nameX, `"{}"`), piece(idB, ",", nameY, `"{}"`)},
			{piece(idA, ",", none, p), piece(idB, ",", none, q)}}, bothWhole},
		{"{} first, then indexes", [][]string{
			{piece(at0, idA, ",", nameX, `"{}"`), piece(at1, idB, ",", nameY, `"{}"`)},
			{piece(at0, none, p), piece(at1, none, q)}}, bothWhole},
		{"all at index 0, ids in each piece", [][]string{
			{piece(at0, idA, ",", nameX, empty)}, {piece(at0, idB, ",", nameY, empty)},
			{piece(at0, idA, ",", none, p1)}, {piece(at0, idB, ",", none, q1)},
			{piece(at0, idA, ",", none, p2)}, {piece(at0, idB, ",", none, q2)}}, bothWhole},
		{"all at index 0, another tool begins inside", [][]string{
			{piece(at0, idA, ",", nameX, p1)}, {piece(at0, idB, ",", nameY, q1)},
			{piece(at0, idA, ",", none, p2)}, {piece(at0, idB, ",", none, q2)}}, bothWhole},
		{"indexes that count chunks", [][]string{
			{piece(at0, idA, ",", nameX, empty)}, {piece(at1, idA, ",", none, p1)},
			{piece(`"index":2,`, idA, ",", none, p2)}}, `call a x {"p":1}`},
		{"indexes only in later pieces", [][]string{
			{piece(idA, ",", nameX, empty), piece(idB, ",", nameY, empty)},
			{piece(at1, none, q), piece(at0, none, p)}}, bothWhole},
		{"indexes only in first pieces, ids later", [][]string{
			{piece(at0, idA, ",", nameX, empty), piece(at1, idB, ",", nameY, empty)},
			{piece(idA, ",", none, p), piece(idB, ",", none, q)}}, bothWhole},
		{"names in each piece", [][]string{
			{piece(idA, ",", nameX, empty), piece(idB, ",", nameY, empty)},
			{piece(nameX, p1), piece(nameY, q1)}, {piece(nameX, p2), piece(nameY, q2)}}, bothWhole},
		{"an id in the first piece only, one after the other", [][]string{
			{piece(idA, ",", nameX, p1)}, {piece(none, p2)}, {piece(idB, ",", nameY, q1)}, {piece(none, q2)}}, bothWhole},
		{"the same tool at index 0", [][]string{
			{piece(at0, idA, ",", nameX, p)}, {piece(at0, idB, ",", nameX, q)}}, "call a x {\"p\":1}\ncall b x {\"q\":2}"},
		{"no arguments, sent whole", [][]string{
			{piece(idA, ",", nameX, empty), piece(idB, ",", nameY, q)}}, "call a x {}\ncall b y {\"q\":2}"},

		{"ids in the first pieces only, interleaved", [][]string{
			{piece(idA, ",", nameX, empty), piece(idB, ",", nameY, empty)},
			{piece(none, p), piece(none, q)}}, "cut a x {\"q\":2}\ncut b y {\"p\":1}"},
		{"ids in the first pieces only, one with arguments", [][]string{
			{piece(idA, ",", nameX, empty), piece(idB, ",", nameY, empty)},
			{piece(none, p)}}, "cut a x \ncut b y {\"p\":1}"},
		{"index 0, ids in the first pieces only", [][]string{
			{piece(at0, idA, ",", nameX, empty)}, {piece(at0, idB, ",", nameY, empty)},
			{piece(at0, none, p)}}, "cut a x \ncut b y {\"p\":1}"},
		{"the same id for both", [][]string{
			{piece(idA, ",", nameX, empty), piece(idA, ",", nameY, empty)},
			{piece(idA, ",", none, p)}}, "cut a x \ncut ? y {\"p\":1}"},
		{"another id with the same name", [][]string{
			{piece(at0, idA, ",", nameX, empty)}, {piece(at0, idB, ",", nameX, p)}}, "cut a x \ncall b x {\"p\":1}"},
		{"ids that come back at index 0", [][]string{
			{piece(at0, idA, ",", nameX, p1)}, {piece(at0, idB, ",", nameX, `"{\"z\":1}"`)},
			{piece(at0, idA, ",", none, `"}"`)}}, `cut a x {"p":{"z":1}}`},
		{"an id that nobody knows", [][]string{
			{piece(idA, ",", nameX, empty), piece(idB, ",", nameY, empty)},
			{piece(`"id":"c",`, none, p)}}, "cut a x \ncut b y {\"p\":1}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var chunks []string
			for _, pieces := range tt.chunks {
				chunks = append(chunks, `"index":0,"delta":{"tool_calls":[`+strings.Join(pieces, ",")+`]}`)
			}
			a := chatLoop(t, chatChunks(append(chunks, `"index":0,"delta":{},"finish_reason":"tool_calls"`)...))
			got := chatShow(a)
			if before, after, ok := strings.Cut(tt.want, "?"); ok { // a generated id
				assert.True(t, strings.HasPrefix(got, before) && strings.HasSuffix(got, after+"\ntool_use"), got)
				return
			}
			assert.Equal(t, tt.want+"\ntool_use", got)
		})
	}
}

// If the token limit ends an answer, a call without arguments is incomplete.
func TestChatParallelCut(t *testing.T) {
	a := chatLoop(t, chatChunks(
		`"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":""}},`+
			`{"index":1,"id":"b","function":{"name":"y","arguments":"{\"q\":"}}]}`,
		`"index":0,"delta":{},"finish_reason":"length"`))
	assert.Equal(t, "cut a x \ncut b y {\"q\":\nmax_tokens", chatShow(a))
}
