package mask_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/mask"
)

// Strings are masked by what they are and by their names, and all else stays.
func TestJSON(t *testing.T) {
	const same = `{"a":[1,true,null,"x & <y>",{"key":"turn1.call_x7Kq9vLm2Rt5Wz8Yb","session":"x7kq9vlm2rt5wz8yb3nd6fg1hj","digest":"9f86d081884c7d659a2feaa0c55ad015"}]}`
	m := mask.New()
	masked := func(text string) string {
		var v any
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		data, err := json.Marshal(mask.JSON(v, m.Excerpt))
		require.NoError(t, err)
		return string(data)
	}
	require.JSONEq(t, same, masked(same))
	for _, secret := range []string{
		`{"password":"hunter2-Kq9vLm2R"}`, `{"a":{"api_key":"hunter2-Kq9v\"Lm2R"}}`, `["password=hunter2-Kq9vLm2R"]`, `"https://user:hunter2-Kq9vLm2R@a.example/"`,
		`{"password=hunter2-Kq9vLm2R":1}`,
	} {
		got := masked(secret)
		require.NotContains(t, got, "hunter2", secret)
		require.Contains(t, got, "[secret:")
		require.Equal(t, got, masked(got))
	}
}
