package local

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Memory says what llama.cpp allocates for small models.
func TestMemoryOfSmallModels(t *testing.T) {
	real := measured(t)
	require.Len(t, real, len(jobs()))
	worst, most := 1e9, 0.0
	for i, j := range jobs() {
		s := small()[j.model]
		m := build(s, false).model(t)
		got, err := m.Memory(Use{Context: int64(j.Context), Batch: int64(j.Batch), NoFlash: !j.Flash, Keys: j.Cache, Values: j.Cache})
		require.NoError(t, err)
		mib := func(n int64) float64 { return float64(n) / (1 << 20) }
		excess := mib(got.Compute)/real[i].compute - 1
		t.Logf("%-14s %6d %-5t model %7.2f of %7.2f, cache %6.2f of %6.2f, compute %6.2f of %6.2f: %+.1f %%", s.arch, j.Context, j.Flash,
			mib(got.Weights), real[i].model, mib(got.Cache), real[i].cache, mib(got.Compute), real[i].compute, 100*excess)
		assert.InEpsilon(t, real[i].model, mib(got.Weights), 0.02, s.arch)
		assert.InEpsilon(t, real[i].cache, mib(got.Cache), 0.02, s.arch)
		assert.GreaterOrEqual(t, excess, 0.0, s.arch)
		worst, most = min(worst, excess), max(most, excess)
	}
	t.Logf("compute: %.1f %% to %.1f %% more than it is", 100*worst, 100*most)
}
