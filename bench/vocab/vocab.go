// Package vocab counts tokens with the published vocabularies of several models. Package tokens is
// fitted to them and measured against them. It is a module apart, since these vocabularies and
// their code add tens of megabytes to a program.
package vocab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ollama/ollama/convert/sentencepiece"
	ollama "github.com/ollama/ollama/tokenizer"
	"github.com/tiktoken-go/tokenizer"
	"google.golang.org/protobuf/proto"
)

// A Vocabulary counts the tokens of a text. Count is safe for concurrent use.
type Vocabulary struct {
	Name  string
	Count func(text string) (int, error)
}

// Open returns the vocabularies: o200k (GPT-4o and later), cl100k (GPT-4), llama3 (Llama 3.2),
// gemma2 (Gemma 2, of the kind that Gemini has) and p50k (GPT-3). No estimate is fitted to the last
// one, which is far from the others and so stands for a model that nobody knows.
func Open() ([]Vocabulary, error) {
	var out []Vocabulary
	for _, name := range []tokenizer.Encoding{tokenizer.O200kBase, tokenizer.Cl100kBase, tokenizer.P50kBase} {
		codec, err := tokenizer.Get(name)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
		short, _, _ := strings.Cut(string(name), "_")
		out = append(out, Vocabulary{short, codec.Count})
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ollama/ollama").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module with the vocabularies: %w", err)
	}
	data := filepath.Join(strings.TrimSpace(string(dir)), "tokenizer", "testdata")
	llama, err := openLlama(filepath.Join(data, "llama3.2"))
	if err != nil {
		return nil, fmt.Errorf("open llama3: %w", err)
	}
	gemma, err := openGemma(filepath.Join(data, "gemma2", "tokenizer.model"))
	if err != nil {
		return nil, fmt.Errorf("open gemma2: %w", err)
	}
	return append(out[:2:2], Vocabulary{"llama3", llama}, Vocabulary{"gemma2", gemma}, out[2]), nil
}

// llamaPieces is the pattern by which Llama 3 splits a text before it merges bytes.
const llamaPieces = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|` +
	` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

func openLlama(dir string) (func(string) (int, error), error) {
	data, err := os.ReadFile(filepath.Join(dir, "encoder.json"))
	if err != nil {
		return nil, err
	}
	ids := map[string]int32{}
	if err := json.Unmarshal(data, &ids); err != nil {
		return nil, err
	}
	v := &ollama.Vocabulary{Values: make([]string, len(ids)), Types: make([]int32, len(ids))}
	for token, id := range ids {
		v.Values[id], v.Types[id] = token, 1
	}
	if data, err = os.ReadFile(filepath.Join(dir, "vocab.bpe")); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "#") {
			v.Merges = append(v.Merges, lines.Text())
		}
	}
	t := ollama.NewBytePairEncoding(v, llamaPieces)
	return counter(&t), nil
}

func openGemma(name string) (func(string) (int, error), error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var model sentencepiece.ModelProto
	if err := proto.Unmarshal(data, &model); err != nil {
		return nil, err
	}
	v := &ollama.Vocabulary{}
	for _, p := range model.GetPieces() {
		v.Values = append(v.Values, p.GetPiece())
		v.Scores = append(v.Scores, p.GetScore())
		kind := p.GetType()
		switch kind {
		case sentencepiece.ModelProto_SentencePiece_UNKNOWN, sentencepiece.ModelProto_SentencePiece_CONTROL,
			sentencepiece.ModelProto_SentencePiece_UNUSED, sentencepiece.ModelProto_SentencePiece_BYTE:
		default:
			kind = sentencepiece.ModelProto_SentencePiece_NORMAL
		}
		v.Types = append(v.Types, int32(kind))
	}
	t := ollama.NewSentencePiece(v)
	return counter(&t), nil
}

func counter(t ollama.Tokenizer) func(string) (int, error) {
	return func(text string) (int, error) {
		ids, err := t.Encode(text, false)
		return len(ids), err
	}
}
