package aycoder_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder"
)

func TestUsageCost(t *testing.T) {
	flat := aycoder.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
	tiered := flat
	tiered.Long, tiered.LongFrom = &aycoder.Price{Input: 6, Output: 22.5, CacheRead: 0.6, CacheWrite: 7.5}, 200_000
	tests := []struct {
		name  string
		usage aycoder.Usage
		price aycoder.Price
		want  float64
	}{
		{"nothing", aycoder.Usage{}, flat, 0},
		{"input", aycoder.Usage{Input: 1_000_000}, flat, 3},
		{"output", aycoder.Usage{Output: 1_000_000}, flat, 15},
		{"reasoning is part of the output", aycoder.Usage{Output: 1_000_000, Reasoning: 900_000}, flat, 15},
		{"cached input is not input", aycoder.Usage{Input: 100_000, CacheRead: 1_000_000}, flat, 0.6},
		{"written input is not input", aycoder.Usage{Input: 100_000, CacheWrite: 1_000_000}, flat, 4.05},
		{"all", aycoder.Usage{Input: 10_000, Output: 2_000, CacheRead: 100_000, CacheWrite: 20_000}, flat, 0.165},
		{"free", aycoder.Usage{Input: 1, Output: 1, CacheRead: 1, CacheWrite: 1}, aycoder.Price{}, 0},
		{"at the bound", aycoder.Usage{Input: 200_000}, tiered, 0.6},
		{"over the bound", aycoder.Usage{Input: 200_001}, tiered, 1.200006},
		{"over the bound with caches", aycoder.Usage{Input: 1, CacheRead: 100_000, CacheWrite: 100_000}, tiered, 0.810006},
		{"output does not count for the bound", aycoder.Usage{Input: 100_000, Output: 500_000}, tiered, 7.8},
		{"a long request has a price for all its tokens", aycoder.Usage{Input: 300_000, Output: 10_000}, tiered, 2.025},
		{"larger than a float32", aycoder.Usage{Input: 1 << 40}, aycoder.Price{Input: 1}, 1_099_511.627776},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.InDelta(t, tt.want, tt.usage.Cost(tt.price), 1e-9)
		})
	}
}

// TestUsageCostSum checks that two short requests do not get the price of one long
// request. That is why costs are computed for each request.
func TestUsageCostSum(t *testing.T) {
	p := aycoder.Price{Input: 1, LongFrom: 100, Long: &aycoder.Price{Input: 2}}
	u := aycoder.Usage{Input: 80}
	assert.Less(t, u.Cost(p)+u.Cost(p), u.Add(u).Cost(p))
}

func ExampleUsage_Cost() {
	price := aycoder.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
	usage := aycoder.Usage{Input: 1_200, CacheRead: 40_000, CacheWrite: 800, Output: 900}
	fmt.Printf("$%.4f\n", usage.Cost(price))
	// Output: $0.0321
}
