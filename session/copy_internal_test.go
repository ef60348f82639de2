package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An object is needed if the state of one file needs it, although git has the same content of another.
func TestObjectsThatGitHasToo(t *testing.T) {
	held, git := FileState{Kind: KindFile, Hash: HashOf([]byte("a"))}, FileState{Kind: KindFile, Hash: HashOf([]byte("a")), Git: "blob"}
	for _, files := range [][]FileState{{held, git}, {git, held}} {
		v := &View{}
		var nodes []*Node
		for _, f := range files {
			nodes = append(nodes, &Node{Files: map[string]FileState{"f": f}})
		}
		require.Equal(t, map[Hash]bool{held.Hash: true}, v.objects(nodes))
	}
	require.Equal(t, map[Hash]bool{held.Hash: false}, new(View).objects([]*Node{{Files: map[string]FileState{"f": git}}}))
}
