package order

import "slices"

// Components finds which nodes depend on each other, by the nodes that each depends on: the number of the component of
// each node, and the nodes of each component, ascending. A component comes after those that it depends on.
//
// The strongly connected components are found by Tarjan, Depth-First Search and Linear Graph Algorithms, SIAM J. Comput.
// 1(2), 1972, with a slice in place of recursion.
func Components(deps [][]int32) (of []int32, all [][]int32) {
	n := len(deps)
	of = make([]int32, n)
	index, low := make([]int32, n), make([]int32, n) // from 1; 0 is not visited yet
	onStack := make([]bool, n)
	var stack []int32
	type frame struct{ node, next int32 }
	var calls []frame
	count := int32(0)
	for start := range n {
		if index[start] == 0 {
			calls = append(calls, frame{node: int32(start)})
		}
		for len(calls) > 0 {
			c := &calls[len(calls)-1]
			v := c.node
			if c.next == 0 {
				count++
				index[v], low[v], onStack[v] = count, count, true
				stack = append(stack, v)
			}
			if int(c.next) < len(deps[v]) {
				w := deps[v][c.next]
				c.next++
				if index[w] == 0 {
					calls = append(calls, frame{node: w})
				} else if onStack[w] {
					low[v] = min(low[v], index[w])
				}
				continue
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				up := calls[len(calls)-1].node
				low[up] = min(low[up], low[v])
			}
			if low[v] == index[v] {
				i := len(stack) - 1
				for stack[i] != v {
					i--
				}
				part := slices.Sorted(slices.Values(stack[i:]))
				stack = stack[:i]
				for _, w := range part {
					onStack[w], of[w] = false, int32(len(all))
				}
				all = append(all, part)
			}
		}
	}
	return of, all
}
