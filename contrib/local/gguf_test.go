package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	m := build(small()[0], true).model(t)
	assert.Equal(t, "Invented llama", m.Name)
	assert.Equal(t, "llama", m.Architecture)
	assert.Equal(t, 6, m.Layers)
	assert.EqualValues(t, 8192, m.Context)
	assert.Equal(t, "Q4_K", m.Type)
	assert.EqualValues(t, 2*8192*1024+1024+6*(2*1024+2*1024*1024+2*1024*256+3*1024*2816), m.Parameters)
	assert.InEpsilon(t, 48.95*(1<<20), m.Size, 0.001)
}

// A file that is cut anywhere before its weights is an error that says so.
func TestReadCut(t *testing.T) {
	s := small()[1]
	s.vocab = 300
	head, _ := build(s, true).header()
	end := len(head) - align // what follows is the space before the weights
	for n := 0; n < end; n += 7 {
		_, err := Read("m.gguf", bytes.NewReader(head[:n]))
		format, ok := errors.AsType[*FormatError](err)
		require.True(t, ok, "%d: %v", n, err)
		assert.Equal(t, "m.gguf", format.File)
	}
	broken := errors.New("the disk is broken")
	_, err := Read("m.gguf", io.MultiReader(bytes.NewReader(head[:100]), errorReader{broken}))
	assert.ErrorIs(t, err, broken)
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// Numbers of a hostile file allocate nothing, and make no size wrong.
func TestReadHostile(t *testing.T) {
	head, _ := build(small()[0], false).header()
	for name, change := range map[string]func([]byte){
		"many tensors":   func(b []byte) { copy(b[8:], "\xff\xff\xff\xff\xff\xff\xff\x7f") },
		"many keys":      func(b []byte) { copy(b[16:], "\xff\xff\xff\xff\xff\xff\xff\xff") },
		"a long key":     func(b []byte) { copy(b[24:], "\xff\xff\xff\xff\xff\xff\xff\x7f") },
		"another format": func(b []byte) { copy(b, "GGML") },
		"version 1":      func(b []byte) { b[4] = 1 },
		"a large tensor": func(b []byte) {
			i := bytes.Index(b, []byte("token_embd.weight")) + len("token_embd.weight") + 4
			copy(b[i:], "\xff\xff\xff\xff\xff\xff\xff\x7f")
		},
		"an unknown type": func(b []byte) {
			i := bytes.Index(b, []byte("token_embd.weight")) + len("token_embd.weight") + 4 + 16
			b[i] = 200
		},
		"a layer that is not there": func(b []byte) {
			copy(b[bytes.Index(b, []byte("blk.5.")):], "blk.9.")
		},
	} {
		b := bytes.Clone(head)
		change(b)
		_, err := Read(name, bytes.NewReader(b))
		assert.Error(t, err, name)
	}
}

// Arrays of numbers take eight times as much memory as in the file, so that there is a limit for all of them.
func TestReadManyNumbers(t *testing.T) {
	const keys = maxKept/maxNumbers + 1
	var b bytes.Buffer
	b.WriteString("GGUF")
	put := func(v any) { require.NoError(t, binary.Write(&b, binary.LittleEndian, v)) }
	put(uint32(3))
	put(uint64(0))
	put(uint64(keys))
	for i := range keys {
		key := fmt.Sprint("x", i)
		put(uint64(len(key)))
		b.WriteString(key)
		put([]uint32{typeArray, 0})
		put(uint64(maxNumbers))
		b.Write(make([]byte, maxNumbers))
	}
	_, err := Read("m.gguf", &b)
	require.ErrorContains(t, err, "arrays")
}

func FuzzRead(f *testing.F) {
	for _, s := range small()[:3] {
		s.vocab, s.layers = 300, 1
		head, _ := build(s, true).header()
		f.Add(head)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Read("fuzz", bytes.NewReader(data))
		if err != nil {
			return
		}
		if m.Size < 0 || m.Parameters < 0 || m.Layers < 0 || m.Context < 0 {
			t.Fatalf("%+v", m)
		}
		if a, err := m.Advise([]Device{{Free: 8 << 30}}, 16<<30, Use{Context: 4096}); err == nil && a.Fits && a.GPU.Total() > 8<<30 {
			t.Fatalf("%+v", a)
		}
	})
}

// The files of a split model are one model, whichever of them is named.
func TestOpenSplit(t *testing.T) {
	whole := build(small()[0], false)
	dir := t.TempDir()
	n := len(whole.tensors) / 3
	for i := range 3 {
		part := build(small()[0], false)
		part.key("split.count", 3)
		part.key("split.no", i)
		end := (i + 1) * n
		if i == 2 {
			end = len(whole.tensors)
		}
		part.tensors = whole.tensors[i*n : end]
		head, _ := part.header()
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", i+1)), head, 0o600))
	}
	want := whole.model(t)
	for _, name := range []string{"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"} {
		m, err := Open(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, want.Size, m.Size)
		assert.Equal(t, want.Parameters, m.Parameters)
	}
	// One of them under another name is not the model.
	require.NoError(t, os.Rename(filepath.Join(dir, "m-00001-of-00003.gguf"), filepath.Join(dir, "m.gguf")))
	_, err := Open(filepath.Join(dir, "m.gguf"))
	assert.ErrorContains(t, err, "one of 3 files")
	_, err = Open(filepath.Join(dir, "m-00002-of-00003.gguf"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// The file of the example is the first of the small models, without its vocabulary and weights.
func TestTiny(t *testing.T) {
	head, _ := build(small()[0], false).header()
	if os.Getenv("AYCODER_LLAMA_CPP_UPDATE") != "" {
		require.NoError(t, os.WriteFile("testdata/tiny.gguf", head, 0o600))
	}
	got, err := os.ReadFile("testdata/tiny.gguf")
	require.NoError(t, err)
	require.True(t, bytes.Equal(head, got))
}
