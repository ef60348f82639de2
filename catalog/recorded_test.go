package catalog_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
)

// A recording is a conversation with a provider. The recordings are in the directory
// "shared" beside the repository.
type recording struct {
	Vendor       string   `json:"vendor"`
	Models       []string `json:"models"`
	Interactions []struct {
		Response struct {
			Status int    `json:"status"`
			Body   string `json:"body"`
		} `json:"response"`
	} `json:"interactions"`
}

// answered returns the models that answered, as the responses name them, or those
// that were asked if the responses name none.
func (r *recording) answered() []string {
	var names []string
	asked := false
	for _, i := range r.Interactions {
		if i.Response.Status != 200 {
			continue
		}
		if m := modelField.FindStringSubmatch(i.Response.Body); m != nil {
			names = append(names, m[1])
		} else {
			asked = true
		}
	}
	if len(names) == 0 && asked {
		return r.Models
	}
	return names
}

var modelField = regexp.MustCompile(`"(?:model|modelVersion)"\s*:\s*"([^"]+)"`)

func recordings(t *testing.T) []recording {
	t.Helper()
	timed.Long(t, "recorded traffic")
	timed.Serial(t)
	files, err := filepath.Glob(filepath.Join(corpus.Path(t, "wire", "the models of 3,441 conversations"), "*.jsonl.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []recording
	for _, name := range files {
		all = append(all, readRecordings(t, name)...)
	}
	return all
}

func readRecordings(t *testing.T, name string) (all []recording) {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	zr, err := gzip.NewReader(f)
	require.NoError(t, err)
	for br := bufio.NewReader(zr); ; {
		line, err := br.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var r recording
			require.NoError(t, json.Unmarshal(line, &r))
			all = append(all, r)
		}
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
	}
}

// TestRecordedModels looks up the models that answered in real traffic. A catalog of
// current models lacks those that were retired, and names that were made up for the
// recording of an error; nearly all of the answers must be of models it has.
func TestRecordedModels(t *testing.T) {
	known := catalog.Default()
	vendors := map[string]bool{}
	for _, info := range known.Models("") {
		vendors[info.Provider] = true
	}
	found, priced, unknown := 0, 0, map[string]int{}
	for _, r := range recordings(t) {
		for _, model := range r.answered() {
			if !vendors[r.Vendor] {
				continue
			}
			info, ok := known.Lookup(r.Vendor, model)
			if !ok {
				unknown[r.Vendor+" "+model]++
				continue
			}
			found++
			if info.Price != nil {
				priced++
			}
		}
	}
	missed := 0
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		missed += unknown[name]
		if unknown[name] > 2 {
			t.Logf("unknown: %s, %d answers", name, unknown[name])
		}
	}
	t.Logf("%d answers of known models, %d of them with a price; %d of %d unknown models",
		found, priced, missed, len(unknown))
	require.Positive(t, found)
	assert.Less(t, float64(missed), 0.1*float64(found+missed))
}
